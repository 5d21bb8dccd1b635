"""Row offsets: the position of the row of each entity in the columns of a table version."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    RowIds,
    indices_of,
    whole_indices,
)
from omnigraphdb.values import dataclass

_SPARSE = 4
"""A lookup table may have this many slots per row; sparser row ids are found by binary search."""
_SPARSE_FREE = 1 << 20
"""A table this small is never too sparse."""
_FEW_PART = 16
"""Fewer row ids than one in this many rows are few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOffsets:
    """The row ids of a table version, in the order of its columns.

    Lance assigns row ids in order, so that most tables have one run of them, which needs no memory at all.
    """

    low: int
    high: int
    rows: int
    row_ids: RowIds | None = None
    """In column order; None for one run from `low`."""
    slots: npt.NDArray[np.int32] | None = None
    """The offset of `low + slot`."""
    order: Integers | None = None
    """Offsets by ascending row id, if the row ids are too sparse for slots."""

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        arrays = (self.row_ids, self.slots, self.order)
        return 100 + sum(part.nbytes for part in arrays if part is not None)

    @property
    def are_row_ids(self) -> bool:
        """Whether the offset of every entity is its row id."""
        return self.row_ids is None and self.low == 0

    def all(self) -> RowIds:
        """List every entity, in column order."""
        if self.row_ids is not None:
            return self.row_ids
        return np.arange(self.low, self.low + self.rows, dtype=np.int64)

    def of(self, row_ids: RowIds) -> RowIds:
        """Find the offsets of entities; -1 for no entity and for an entity that does not exist."""
        if self.are_row_ids:
            return (
                row_ids if self._within(row_ids) else np.where(row_ids < self.rows, row_ids, ABSENT)
            )
        in_range = (row_ids >= self.low) & (row_ids <= self.high)
        if not self.rows:
            return np.full(len(row_ids), ABSENT, dtype=np.int64)
        safe = np.where(in_range, row_ids, self.low)
        return np.where(in_range, self._find_offsets(safe), ABSENT)

    def indices(self, row_ids: RowIds) -> pa.Array:
        """Find the offsets of entities as take indices; NULL for no entity and for an entity that does not exist."""
        if self.row_ids is None and len(row_ids):
            offsets = row_ids - self.low if self.low else row_ids
            # As unsigned integers, negative offsets are beyond every row: one comparison checks both bounds.
            if int(offsets.view(np.uint64).max()) < self.rows:
                return whole_indices(offsets)
        return indices_of(self.of(row_ids))

    def _within(self, row_ids: RowIds) -> bool:
        return not len(row_ids) or int(row_ids.max()) < self.rows

    def _find_offsets(self, row_ids: RowIds) -> RowIds:
        if self.row_ids is None:
            return row_ids - self.low
        if self.slots is not None:
            return self.slots[row_ids - self.low].astype(np.int64)
        assert self.order is not None
        if len(row_ids) * _FEW_PART < self.rows:
            # Each look takes four times as long through the order, but there is no pass over all entities.
            positions = np.searchsorted(self.row_ids, row_ids, sorter=self.order)
            offsets = self.order[np.minimum(positions, self.rows - 1)]
            return np.where(self.row_ids[offsets] == row_ids, offsets, ABSENT)
        ascending = self.row_ids[self.order]
        positions = np.minimum(np.searchsorted(ascending, row_ids), self.rows - 1)
        return np.where(ascending[positions] == row_ids, self.order[positions], ABSENT)

    def offset_of(self, row_id: int) -> int:
        """Find the offset of one entity, or -1."""
        if self.row_ids is None:
            return row_id - self.low if self.low <= row_id <= self.high else ABSENT
        return int(self.of(np.array([row_id], dtype=np.int64))[0])

    def at(self, offsets: Integers) -> RowIds:
        """Find the entities at offsets; -1 for no offset."""
        if self.row_ids is None:
            if not self.low and (not len(offsets) or int(offsets.min()) >= 0):
                return offsets
            row_ids = offsets + self.low
        elif not self.rows:
            return np.full(len(offsets), ABSENT, dtype=np.int64)
        else:
            row_ids = self.row_ids[np.maximum(offsets, 0)]
        return np.where(offsets < 0, ABSENT, row_ids)

    @property
    def is_dense(self) -> bool:
        """Whether a slot for every row id from `low` to `high` is affordable."""
        return self.high - self.low < _SPARSE * self.rows + _SPARSE_FREE


def build_row_offsets(row_ids: RowIds) -> RowOffsets:
    """Build the row offsets of a table version."""
    rows = len(row_ids)
    if not rows:
        return RowOffsets(low=0, high=ABSENT, rows=0)
    low, high = int(row_ids.min()), int(row_ids.max())
    if high - low + 1 == rows and bool((np.diff(row_ids) == 1).all()):
        return RowOffsets(low=low, high=high, rows=rows)
    bare = RowOffsets(low=low, high=high, rows=rows, row_ids=row_ids)
    if not bare.is_dense:
        order = np.argsort(row_ids).astype(np.int64)
        return RowOffsets(low=low, high=high, rows=rows, row_ids=row_ids, order=order)
    slots = np.full(high - low + 1, ABSENT, dtype=np.int32)
    slots[row_ids - low] = np.arange(rows, dtype=np.int32)
    return RowOffsets(low=low, high=high, rows=rows, row_ids=row_ids, slots=slots)
