"""Building in parts: the adjacency of edges that are too many to be sorted in memory, by files of this process."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.engine.read.columns.row_ids import Integers, narrow
from omnigraphdb.engine.read.graph.adjacency import (
    Adjacency,
    Ends,
    NeighbourUnit,
    Slots,
    compress,
    join_ends,
)
from omnigraphdb.limits import HELD_PART
from omnigraphdb.values import dataclass

EDGE_BYTES: Final = 96
"""The bytes to sort one edge in memory: its two ids, three integers, a key, and the sorted keys."""
_PART_EDGES_MIN: Final = 1 << 16
"""Edges that are sorted together however little memory there is: every part looks at all edges."""
_SCANNED: Final = 1 << 20
"""Edges of a file that are looked at together."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of integers in a file without a name: it is gone when nobody has it open."""

    file: IO[bytes]
    dtype: npt.DTypeLike

    def append(self, numbers: npt.NDArray[Any]) -> None:
        self.file.write(np.ascontiguousarray(numbers, dtype=self.dtype).data)

    def map(self) -> npt.NDArray[Any]:
        self.file.flush()
        if not self.file.tell():
            return np.empty(0, dtype=self.dtype)
        return np.memmap(self.file, dtype=self.dtype, mode="r")


def build_in_parts(
    slots: Slots, batches: Iterable[Ends], unit: NeighbourUnit, bytes_max: int
) -> Adjacency:
    """Group edges by their near end in about `bytes_max` of memory, or a few megabytes.

    A large result stays in a file that is mapped.
    """
    with ExitStack() as opened:
        spilled, counts = _spill(slots, batches, opened)
        edges_max = max(bytes_max // EDGE_BYTES, _PART_EDGES_MIN)
        parts = _compress_parts(slots, spilled, unit, counts, edges_max)
        joined = _join_parts(slots, parts, spilled, opened)
        return _settle(
            joined if unit is NeighbourUnit.EDGE else replace(joined, edges=None), bytes_max
        )


def _open_column(opened: ExitStack, dtype: npt.DTypeLike) -> _Column:
    return _Column(opened.enter_context(tempfile.TemporaryFile()), dtype)


def _spill(slots: Slots, batches: Iterable[Ends], opened: ExitStack) -> tuple[Ends, Integers]:
    """Write edges to files, with the slots of their near ends, and count the edges of each slot."""
    near, far, edges = (_open_column(opened, np.int64) for _ in range(3))
    counts = np.zeros(slots.size + 1, dtype=np.int64)
    for ends in batches:
        check_cancelled()
        near_slots = slots.of(ends.near)
        counts += np.bincount(near_slots, minlength=slots.size + 1)
        near.append(near_slots)
        far.append(ends.far)
        edges.append(ends.edges)
    return Ends(near=near.map(), far=far.map(), edges=edges.map()), counts


def _join_parts(
    slots: Slots, parts: Iterable[Adjacency], spilled: Ends, opened: ExitStack
) -> Adjacency:
    """Write the parts one after the other."""
    targets = _open_column(opened, _narrowest(spilled.far))
    edges = _open_column(opened, _narrowest(spilled.edges))
    degrees = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        degrees.append(np.diff(part.offsets[:-1]).astype(np.int64))
        targets.append(part.targets)
        if part.edges is not None:
            edges.append(part.edges)
    offsets = np.cumsum(np.concatenate([*degrees, [0]]))
    return Adjacency(
        slots=slots,
        offsets=narrow(offsets),
        targets=targets.map(),
        edges=edges.map(),
        mapped=True,
    )


def _narrowest(numbers: npt.NDArray[Any]) -> npt.DTypeLike:
    """Find the type of integers that fits all numbers of a file."""
    high = max(
        (
            int(numbers[first : first + _SCANNED].max())
            for first in range(0, len(numbers), _SCANNED)
        ),
        default=0,
    )
    return np.int32 if high <= np.iinfo(np.int32).max else np.int64


def _compress_parts(
    slots: Slots, spilled: Ends, unit: NeighbourUnit, counts: Integers, edges_max: int
) -> Iterator[Adjacency]:
    """Compress the edges of as many slots at a time as memory allows; of one slot if it has too many."""
    start, before = 0, np.concatenate([[0], np.cumsum(counts[: slots.size])])
    while start < slots.size:
        check_cancelled()
        end = int(np.searchsorted(before, before[start] + edges_max, side="right")) - 1
        end = min(max(end, start + 1), slots.size)
        yield compress(Slots(start, end - start), _select(spilled, start, end), unit)
        start = end


def _select(spilled: Ends, start: int, end: int) -> Ends:
    """Read the edges whose near ends have the slots from `start` to `end`."""
    parts = []
    for first in range(0, max(len(spilled.near), 1), _SCANNED):
        part = slice(first, first + _SCANNED)
        near = np.asarray(spilled.near[part])
        inside = np.flatnonzero((near >= start) & (near < end))
        far, edges = np.asarray(spilled.far[part]), np.asarray(spilled.edges[part])
        parts.append(Ends(near=near[inside], far=far[inside], edges=edges[inside]))
    return join_ends(parts)


def _settle(mapped: Adjacency, bytes_max: int) -> Adjacency:
    """Bring a small result into memory; leave a large one mapped."""
    size = mapped.targets.nbytes + (0 if mapped.edges is None else mapped.edges.nbytes)
    if size > bytes_max // HELD_PART:
        return mapped
    edges = None if mapped.edges is None else np.array(mapped.edges)
    return replace(mapped, targets=np.array(mapped.targets), edges=edges, mapped=False)
