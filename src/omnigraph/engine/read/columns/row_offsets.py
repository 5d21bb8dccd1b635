"""Places: where the row of each entity stands in the columns of a table version."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.engine.read.columns.row_ids import ABSENT, Numbers, indices_of, whole_indices
from omnigraph.values import dataclass

_SPARSE = 4
"""A lookup table may have this many slots per row; sparser row ids are searched."""
_SPARSE_FREE = 1 << 20
"""A table this small is never too sparse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The row ids of a table version, in the order of its columns.

    Row ids are given out in order, so that most tables hold one run of them: those need no memory at all.
    """

    low: int
    high: int
    rows: int
    row_ids: Numbers | None = None
    """In column order; None for one run from `low`."""
    slots: npt.NDArray[np.int32] | None = None
    """The place of `low + slot`."""
    order: Numbers | None = None
    """Places by ascending row id, when there are too few rows for slots."""

    @property
    def nbytes(self) -> int:
        """How much memory this takes."""
        held = (self.row_ids, self.slots, self.order)
        return 100 + sum(part.nbytes for part in held if part is not None)

    @property
    def are_numbers(self) -> bool:
        """Whether the place of every entity is its number."""
        return self.row_ids is None and self.low == 0

    def all(self) -> Numbers:
        """Every entity, in column order."""
        if self.row_ids is not None:
            return self.row_ids
        return np.arange(self.low, self.low + self.rows, dtype=np.int64)

    def of(self, numbers: Numbers) -> Numbers:
        """The places of entities; -1 for no entity and for one that is not there."""
        if self.are_numbers:
            return (
                numbers if self._within(numbers) else np.where(numbers < self.rows, numbers, ABSENT)
            )
        known = (numbers >= self.low) & (numbers <= self.high)
        if not self.rows:
            return np.full(len(numbers), ABSENT, dtype=np.int64)
        safe = np.where(known, numbers, self.low)
        return np.where(known, self._known(safe), ABSENT)

    def indices(self, numbers: Numbers) -> pa.Array:
        """The places of entities as take indices; NULL for no entity and for one that is not there."""
        if self.row_ids is None and len(numbers):
            places = numbers - self.low if self.low else numbers
            # Seen without sign, what is below zero is beyond every place: one look answers both.
            if int(places.view(np.uint64).max()) < self.rows:
                return whole_indices(places)
        return indices_of(self.of(numbers))

    def _within(self, numbers: Numbers) -> bool:
        return not len(numbers) or int(numbers.max()) < self.rows

    def _known(self, numbers: Numbers) -> Numbers:
        if self.row_ids is None:
            return numbers - self.low
        if self.slots is not None:
            return self.slots[numbers - self.low].astype(np.int64)
        assert self.order is not None
        ascending = self.row_ids[self.order]
        found = np.minimum(np.searchsorted(ascending, numbers), self.rows - 1)
        return np.where(ascending[found] == numbers, self.order[found], ABSENT)

    def place(self, number: int) -> int:
        """The place of one entity, or -1."""
        if self.row_ids is None:
            return number - self.low if self.low <= number <= self.high else ABSENT
        return int(self.of(np.array([number], dtype=np.int64))[0])

    def at(self, places: Numbers) -> Numbers:
        """The entities at places; -1 for no place."""
        if self.row_ids is None:
            if not self.low and (not len(places) or int(places.min()) >= 0):
                return places
            found = places + self.low
        elif not self.rows:
            return np.full(len(places), ABSENT, dtype=np.int64)
        else:
            found = self.row_ids[np.maximum(places, 0)]
        return np.where(places < 0, ABSENT, found)

    @property
    def is_dense(self) -> bool:
        """Whether a slot for every number from `low` to `high` is affordable."""
        return self.high - self.low < _SPARSE * self.rows + _SPARSE_FREE


def places_of(row_ids: Numbers) -> Places:
    """Number the rows of a table version."""
    rows = len(row_ids)
    if not rows:
        return Places(low=0, high=ABSENT, rows=0)
    low, high = int(row_ids.min()), int(row_ids.max())
    if high - low + 1 == rows and bool((np.diff(row_ids) == 1).all()):
        return Places(low=low, high=high, rows=rows)
    bare = Places(low=low, high=high, rows=rows, row_ids=row_ids)
    if not bare.is_dense:
        order = np.argsort(row_ids).astype(np.int64)
        return Places(low=low, high=high, rows=rows, row_ids=row_ids, order=order)
    slots = np.full(high - low + 1, ABSENT, dtype=np.int32)
    slots[row_ids - low] = np.arange(rows, dtype=np.int32)
    return Places(low=low, high=high, rows=rows, row_ids=row_ids, slots=slots)
