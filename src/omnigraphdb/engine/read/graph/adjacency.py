"""Adjacency: the neighbours of every node as compressed rows, walked with NumPy alone."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np

from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    Mask,
    NarrowIntegers,
    RowIds,
    count_up,
    lay_out_runs,
    narrow,
    stable_order,
)
from omnigraphdb.engine.read.columns.row_offsets import RowOffsets
from omnigraphdb.values import dataclass

_KEY_BITS = 62
"""Two integers with so many bits together fit in one integer."""
_UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}
_PIECES_MAX = 64
"""Up to so many values are inserted by copying the slices between them, ten times as fast as `np.insert`."""


class NeighbourUnit(StrEnum):
    """The unit in which neighbours are counted."""

    PAIR = "pair"
    """A node, however many edges lead to it; neighbours ascend within a row."""
    EDGE = "edge"
    """Every edge, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Steps along edges: the offset of the source among the given nodes, the target, and the edge if edges count."""

    rows: Integers
    targets: RowIds
    edges: RowIds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Edges by their two ends: `near` is where a walk starts, `far` where it leads."""

    near: RowIds
    far: RowIds
    edges: RowIds

    def oriented(self, direction: Direction) -> "Ends":
        """Orient edges for a walk in a direction; in both directions a loop occurs once."""
        match direction:
            case Direction.OUT:
                return self
            case Direction.IN:
                return Ends(near=self.far, far=self.near, edges=self.edges)
            case Direction.BOTH:
                not_loops = self.near != self.far
                return Ends(
                    near=np.concatenate([self.near, self.far[not_loops]]),
                    far=np.concatenate([self.far, self.near[not_loops]]),
                    edges=np.concatenate([self.edges, self.edges[not_loops]]),
                )

    def keep(self, mask: Mask | Integers | slice) -> "Ends":
        """Select some of the edges."""
        return Ends(near=self.near[mask], far=self.far[mask], edges=self.edges[mask])

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return self.near.nbytes + self.far.nbytes + self.edges.nbytes


@dataclass(frozen=True, slots=True)
class Slots:
    """Consecutive slots for the nodes at the near end; `known` lists the nodes if their row ids are sparse."""

    low: int
    size: int
    known: RowIds | None = None

    def of(self, nodes: RowIds) -> RowIds:
        """Find the slots of nodes; the slot past the end for no node and for a node without a slot."""
        if self.known is None:
            slots = nodes - self.low if self.low else nodes
            # As unsigned integers, negative slots are beyond every node: one comparison checks both bounds.
            if not len(slots) or int(slots.view(_UNSIGNED[slots.dtype]).max()) < self.size:
                return slots
            return np.where((slots < 0) | (slots >= self.size), self.size, slots)
        if not self.size:
            return np.zeros(len(nodes), dtype=np.int64)
        slots = np.minimum(np.searchsorted(self.known, nodes), self.size - 1)
        return np.where(self.known[slots] == nodes, slots, self.size)

    def one(self, node: int) -> int:
        """Find the slot of one node."""
        if self.known is None:
            return node - self.low if self.low <= node < self.low + self.size else self.size
        return int(self.of(np.array([node], dtype=np.int64))[0])

    def extends(self, other: "Slots") -> bool:
        """Whether every slot of `other` is the same slot of this object."""
        if self.known is None or other.known is None:
            return self.known is other.known and self.low == other.low and self.size >= other.size
        return np.array_equal(self.known[: other.size], other.known)


def make_slots(row_offsets: RowOffsets) -> Slots:
    """Make slots for the nodes of a table version."""
    if row_offsets.is_dense:
        return Slots(row_offsets.low, row_offsets.high - row_offsets.low + 1)
    return Slots(0, row_offsets.rows, np.sort(row_offsets.all()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjacency:
    """Compressed rows: the neighbours of slot s are `targets[offsets[s]:offsets[s + 1]]`.

    One more slot at the end, without neighbours, stands for unknown nodes.
    """

    slots: Slots
    offsets: NarrowIntegers
    targets: NarrowIntegers
    edges: NarrowIntegers | None = None
    mapped: bool = False
    """True if `targets` and `edges` are mapped from a file; the system may reclaim their memory."""

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        arrays = [self.offsets, self.slots.known]
        arrays += [] if self.mapped else [self.targets, self.edges]
        return sum(part.nbytes for part in arrays if part is not None)

    def degrees(self, nodes: RowIds) -> Integers:
        """Count the neighbours of each node."""
        slots = self.slots.of(nodes)
        return np.asarray(self.offsets[slots + 1] - self.offsets[slots], dtype=np.int64)

    def span(self, node: int) -> tuple[int, int]:
        """Find the range of the neighbours of one node in `targets`."""
        slot = self.slots.one(node)
        start, end = self.offsets[slot : slot + 2].tolist()
        return start, end

    def neighbours(self, node: int) -> RowIds:
        """List the neighbours of one node."""
        start, end = self.span(node)
        return self.targets[start:end].astype(np.int64)

    def walk(self, nodes: RowIds) -> Walk:
        """Step from every node to all its neighbours, in the order of the nodes."""
        if len(nodes) == 1:
            slot = self.slots.one(int(nodes[0]))
            start, end = int(self.offsets[slot]), int(self.offsets[slot + 1])
            return self._walk(np.zeros(end - start, dtype=np.int64), slice(start, end))
        slots = self.slots.of(nodes)
        starts = self.offsets[slots].astype(np.int64)
        counts = self.offsets[slots + 1] - starts
        if len(slots) == self.slots.size and np.array_equal(slots, count_up(len(slots))):
            return self._walk(np.repeat(count_up(len(counts)), counts), slice(None))
        return self._walk(*lay_out_runs(starts, counts))

    def _walk(self, rows: Integers, positions: slice | Integers) -> Walk:
        edges = None if self.edges is None else self.edges[positions].astype(np.int64)
        return Walk(rows, self.targets[positions].astype(np.int64), edges)

    def connected(self, sources: RowIds, targets: RowIds) -> Mask:
        """Mark the pairs that are neighbours; the targets of a row must ascend."""
        slots = self.slots.of(sources)
        positions = self.position(slots, targets)
        within = positions < self.offsets[slots + 1]
        if not len(self.targets):
            return within
        return np.asarray(within & (self.targets[np.where(within, positions, 0)] == targets))

    def position(self, slots: Integers, targets: RowIds) -> Integers:
        """Find the position of each target in its ascending row, by a binary search in all rows at once."""
        low = self.offsets[slots].astype(np.int64)
        high = self.offsets[slots + 1].astype(np.int64)
        while (active := low < high).any():
            middle = (low + high) // 2
            less = active & (self.targets[np.where(active, middle, 0)] < targets)
            low = np.where(less, middle + 1, low)
            high = np.where(active & ~less, middle, high)
        return low


# ---- building


def compress(slots: Slots, ends: Ends, unit: NeighbourUnit) -> Adjacency:
    """Group edges by their near end."""
    match unit:
        case NeighbourUnit.EDGE:
            near_slots = slots.of(ends.near)
            order = stable_order(near_slots, slots.size)
            return Adjacency(
                slots=slots,
                offsets=_count_offsets(near_slots, slots.size),
                targets=narrow(ends.far)[order],
                edges=narrow(ends.edges)[order],
            )
        case NeighbourUnit.PAIR:
            near_slots, far = _sort_pairs(slots.of(ends.near), ends.far)
            return Adjacency(
                slots=slots, offsets=_count_offsets(near_slots, slots.size), targets=narrow(far)
            )


def group_pairs(slots: Slots, near: RowIds, far: RowIds) -> Adjacency:
    """Group distinct pairs; they keep their order, so that `connected` needs pairs that ascend by `far`."""
    near_slots = slots.of(near)
    if slots.size > 1:
        order = stable_order(near_slots, slots.size)
        near_slots, far = near_slots[order], far[order]
    return Adjacency(
        slots=slots, offsets=_count_offsets(near_slots, slots.size), targets=narrow(far)
    )


def _sort_pairs(near: RowIds, far: RowIds) -> tuple[Integers, Integers]:
    """Sort pairs and drop duplicates."""
    if not len(near):
        return near, far
    bits = int(far.max()).bit_length()
    if int(near.max()).bit_length() + bits > _KEY_BITS:
        order = np.lexsort((far, near))
        near, far = near[order], far[order]
        fresh = (near[1:] != near[:-1]) | (far[1:] != far[:-1])
        fresh = np.concatenate([[True], fresh])
        return near[fresh], far[fresh]
    # Shifts, because dividing millions of integers takes as long as sorting them.
    keys = np.sort((near << bits) | far)
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return keys >> bits, keys & ((1 << bits) - 1)


def _count_offsets(near_slots: RowIds, size: int) -> NarrowIntegers:
    offsets = np.zeros(size + 2, dtype=np.int64)
    np.cumsum(np.bincount(near_slots, minlength=size)[:size], out=offsets[1:-1])
    offsets[-1] = offsets[-2]
    return narrow(offsets)


def list_pairs(adjacency: Adjacency) -> Ends:
    """List the pairs of an adjacency; their edges are not told apart."""
    slots = adjacency.slots
    nodes = slots.low + count_up(slots.size) if slots.known is None else slots.known
    near = np.repeat(nodes, np.diff(adjacency.offsets[:-1]))
    far = adjacency.targets.astype(np.int64)
    return Ends(near=near, far=far, edges=far)


def reverse_pairs(adjacency: Adjacency, slots: Slots) -> Adjacency:
    """Make the inward adjacency of an outward one: pairs that ascend by source stay so within each target."""
    pairs = list_pairs(adjacency)
    return group_pairs(slots, pairs.far, pairs.near)


def count_targets(adjacency: Adjacency, slots: Slots) -> Adjacency:
    """Count how often each node is a target; the result has degrees and no targets."""
    target_slots = slots.of(adjacency.targets.astype(np.int64))
    return Adjacency(
        slots=slots, offsets=_count_offsets(target_slots, slots.size), targets=adjacency.targets[:0]
    )


def add_edges(adjacency: Adjacency, slots: Slots, ends: Ends) -> Adjacency:
    """Add edges to an adjacency; `slots` extend its slots."""
    offsets = np.full(slots.size + 2, adjacency.offsets[-1], dtype=np.int64)
    offsets[: adjacency.slots.size + 1] = adjacency.offsets[:-1]
    grown = replace(adjacency, slots=slots, offsets=offsets)
    if grown.edges is None:
        return _add_pairs(grown, ends)
    near_slots = slots.of(ends.near)
    order = stable_order(near_slots, slots.size)
    return _insert_pairs(grown, near_slots[order], offsets[near_slots[order] + 1], ends.keep(order))


def _add_pairs(grown: Adjacency, ends: Ends) -> Adjacency:
    fresh = ends.keep(~grown.connected(ends.near, ends.far))
    near_slots, far = _sort_pairs(grown.slots.of(fresh.near), fresh.far)
    return _insert_pairs(
        grown,
        near_slots,
        grown.position(near_slots, far),
        Ends(near=near_slots, far=far, edges=near_slots),
    )


def _insert_pairs(
    grown: Adjacency, near_slots: RowIds, positions: Integers, ends: Ends
) -> Adjacency:
    counts = np.bincount(near_slots, minlength=grown.slots.size + 1)
    offsets = grown.offsets.copy()
    offsets[1:] += np.cumsum(counts)
    return Adjacency(
        slots=grown.slots,
        offsets=narrow(offsets),
        targets=_insert(grown.targets, positions, ends.far),
        edges=None if grown.edges is None else _insert(grown.edges, positions, ends.edges),
    )


def remove_edges(adjacency: Adjacency, ends: Ends) -> Adjacency:
    """Remove edges from an adjacency: by row id if edges count, else the pair, which no other edge connects."""
    near_slots = adjacency.slots.of(ends.near)
    if adjacency.edges is None:
        near_slots, far = _sort_pairs(near_slots, ends.far)
        positions = adjacency.position(near_slots, far)
    else:
        near_slots, positions = _find_positions(adjacency, near_slots, ends.edges)
    offsets = adjacency.offsets.astype(np.int64)
    offsets[1:] -= np.cumsum(np.bincount(near_slots, minlength=adjacency.slots.size + 1))
    return Adjacency(
        slots=adjacency.slots,
        offsets=narrow(offsets),
        targets=np.delete(adjacency.targets, positions),
        edges=None if adjacency.edges is None else np.delete(adjacency.edges, positions),
    )


def _find_positions(
    adjacency: Adjacency, slots: Integers, edges: RowIds
) -> tuple[Integers, Integers]:
    """Find the slots and positions of some edges in the rows of these slots."""
    assert adjacency.edges is not None, "an adjacency of pairs has no edges"
    rows = np.unique(slots)
    starts = adjacency.offsets[rows].astype(np.int64)
    of_row, positions = lay_out_runs(starts, adjacency.offsets[rows + 1] - starts)
    mask = np.isin(adjacency.edges[positions], edges)
    return rows[of_row[mask]], positions[mask]


def _insert(values: NarrowIntegers, positions: Integers, more: RowIds) -> NarrowIntegers:
    small_more = narrow(more)
    wide = (
        values.astype(small_more.dtype) if small_more.dtype.itemsize > values.itemsize else values
    )
    if len(positions) > _PIECES_MAX:
        return np.insert(wide, positions, small_more)
    parts: list[NarrowIntegers] = [wide[: positions[0]]] if len(positions) else [wide]
    for number, start in enumerate(positions):
        end = positions[number + 1] if number + 1 < len(positions) else len(wide)
        parts += [small_more[number : number + 1], wide[start:end]]
    return np.concatenate(parts, dtype=wide.dtype)


def join_ends(parts: Sequence[Ends]) -> Ends:
    """Concatenate edges."""
    return Ends(
        near=np.concatenate([part.near for part in parts]),
        far=np.concatenate([part.far for part in parts]),
        edges=np.concatenate([part.edges for part in parts]),
    )


def drop_dangling(ends: Ends) -> tuple[Ends, bool]:
    """Keep the edges whose two ends exist, and return whether some edges were dropped."""
    mask = (ends.near != ABSENT) & (ends.far != ABSENT)
    return (ends, False) if mask.all() else (ends.keep(mask), True)
