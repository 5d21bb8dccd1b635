"""Reach: nodes within several hops, by breadth-first search, each node once at its shortest distance."""

from collections.abc import Callable

import numpy as np

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Integers, RowIds, count_up, no_row_ids
from omnigraphdb.engine.read.graph.adjacency import (
    Adjacency,
    Ends,
    NeighbourUnit,
    Slots,
    compress,
    group_pairs,
)
from omnigraphdb.limits import REACH_CELLS
from omnigraphdb.memory import HeldBytes, count_columns, counted_bytes

Step = Callable[[RowIds], Adjacency]

_GROUPED_BYTES = 5 * 8
"""The columns of a pair while pairs are grouped: its origin, source, slot, order and node."""
_DENSE = 8
"""New nodes are found by comparing all marks if they are more than one in this many; else by sorting."""


def reach_block(nodes: Entities) -> int:
    """Count the sources that one search may start from, so that its marks fit in memory."""
    return max(1, REACH_CELLS // max(len(nodes), 1))


def reach(step: Step, sources: RowIds, low: int, high: int, *, ordered: bool) -> Adjacency:
    """Find the nodes within `low..high` hops of every source, as an adjacency of the sources.

    A node occurs once; the source itself only without a hop, or through a loop at the first hop. `connected` needs an
    `ordered` result.
    """
    sources = sources[sources != ABSENT]
    origins, nodes = count_up(len(sources)), sources
    parts: list[tuple[Integers, RowIds]] = []
    visited: Visited | None = None
    memory = HeldBytes()
    if low == 0:
        parts.append((origins, nodes))
    for hop in range(1, high + 1):
        check_cancelled()
        adjacency = step(nodes)
        walk = adjacency.walk(nodes)
        origins, nodes = origins[walk.rows], walk.targets
        if visited is None:
            if low == 1:
                loops = nodes == sources[origins]
                parts.append((origins[loops], nodes[loops]))
            visited = Visited(adjacency.slots, sources)
            count_columns((visited.marks,))
        origins, nodes = visited.visit(origins, nodes)
        if not len(nodes):
            break
        if hop >= low:
            # Each hop may be too small for its columns to count, and there may be thousands.
            memory.take(origins.nbytes + nodes.nbytes)
            parts.append((origins, nodes))
    slots = Slots(0, len(sources), sources)
    with counted_bytes(_GROUPED_BYTES * sum(len(near_part) for near_part, _ in parts)):
        near = np.concatenate([near_part for near_part, _ in parts]) if parts else no_row_ids()
        far = np.concatenate([far_part for _, far_part in parts]) if parts else no_row_ids()
        if not ordered:
            return group_pairs(slots, sources[near], far)
        return compress(slots, Ends(near=sources[near], far=far, edges=far), NeighbourUnit.PAIR)


class Visited:
    """The visited pairs of source and node: one mark each if row ids are dense, else a sorted list."""

    def __init__(self, slots: Slots, sources: RowIds) -> None:
        self._slots = slots if slots.known is None else None
        self.marks = np.zeros(0, dtype=bool)
        self._keys = no_row_ids()
        if self._slots is not None:
            self._width = slots.size + 1
            self.marks = np.zeros(len(sources) * self._width, dtype=bool)
            self.marks[self._key(count_up(len(sources)), sources)] = True
        else:
            self._width = 1 << 40
            self._keys = self._key(count_up(len(sources)), sources)

    def _key(self, origins: RowIds, nodes: RowIds) -> Integers:
        slots = nodes if self._slots is None else self._slots.of(nodes)
        return origins * self._width + slots

    def visit(self, origins: RowIds, nodes: RowIds) -> tuple[RowIds, RowIds]:
        """Select the new pairs, each once, and mark them as visited."""
        keys = self._key(origins, nodes)
        keys = self._visit_marks(keys) if self._slots is not None else self._visit_list(keys)
        low = 0 if self._slots is None else self._slots.low
        return keys // self._width, keys % self._width + low

    def _visit_marks(self, keys: Integers) -> Integers:
        keys = keys[~self.marks[keys]]
        if len(keys) * _DENSE > len(self.marks):
            before = self.marks.copy()
            self.marks[keys] = True
            return np.flatnonzero(self.marks & ~before)
        keys = np.unique(keys)
        self.marks[keys] = True
        return keys

    def _visit_list(self, keys: Integers) -> Integers:
        keys = np.setdiff1d(keys, self._keys)
        self._keys = np.union1d(self._keys, keys)
        return keys
