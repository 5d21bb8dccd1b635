"""The first rows of each group: the groups of rows, and the rows that may be among the first of their group."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraphdb.compile.checked import EntityRef, Field, ItemExpr, Operand
from omnigraphdb.engine.read.columns.compare import codes_of
from omnigraphdb.engine.read.columns.row_ids import Integers, count_up
from omnigraphdb.engine.read.operators.rows import Groups, Rows, value_column
from omnigraphdb.engine.read.operators.tally import renumber
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.memory import counted_bytes
from omnigraphdb.values import dataclass

_GROUPED_BYTES = 5 * 8
"""The columns of a row while it is grouped: two codes, the sorted codes, their order, and their positions."""
_PASSES_MAX = 16
"""Beyond so many rows of a group, sorting all rows costs less than looking for the next value again and again."""


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Rows by group: `order` lists the rows group by group, in row order; None if the rows have that order."""

    order: Integers | None
    sizes: Integers

    def number_rows(self) -> Integers:
        """Number the rows of each group from 0."""
        starts = np.cumsum(self.sizes) - self.sizes
        numbers = count_up(int(self.sizes.sum())) - np.repeat(starts, self.sizes)
        if self.order is None:
            return numbers
        numbers_by_row = np.empty_like(numbers)
        numbers_by_row[self.order] = numbers
        return numbers_by_row


def group_rows(per: Sequence[Operand], rows: Rows, reader: Reader) -> RowGroups:
    """Group rows that are equal in some values."""
    with counted_bytes(_GROUPED_BYTES * rows.rows):
        first, *others = (_encode(expr, rows, reader) for expr in per)
        codes = first
        for more in map(renumber, others):
            codes = renumber(codes) * (int(more.max(initial=0)) + 1) + more
        return _find_runs(codes) or _sort_groups(renumber(codes))


def _encode(expr: Operand, rows: Rows, reader: Reader) -> Integers:
    key: ItemExpr = expr
    if isinstance(rows, Groups) and isinstance(expr, Field):
        key = rows.keys.get(expr.name, expr)
    if isinstance(key, EntityRef):
        # Entities of one variable are equal exactly if their row ids are; equal ids of two types are two entities.
        samples = rows.samples if isinstance(rows, Groups) else rows
        return samples.columns[key.variable]
    return codes_of(value_column(expr, rows, reader))


def _find_runs(codes: Integers) -> RowGroups | None:
    """Find the groups of rows that follow group by group, as a walk leaves them; None if a group comes again."""
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    if len(np.unique(codes[starts])) < len(starts):
        return None
    return RowGroups(None, np.diff(starts, append=len(codes)))


def _sort_groups(codes: Integers) -> RowGroups:
    return RowGroups(np.argsort(codes, kind="stable"), np.bincount(codes))


def select_first_each(groups: RowGroups, keys: npt.NDArray[Any], count: int) -> Integers | None:
    """Select the rows with the `count` least keys of each group, and the rows equal to the last of them; None for all."""
    if not 0 < count <= _PASSES_MAX or not len(keys):
        return None
    ordered = keys if groups.order is None else keys[groups.order]
    within = ordered <= np.repeat(_find_bounds(ordered, groups.sizes, count), groups.sizes)
    positions = np.flatnonzero(within)
    return positions if groups.order is None else np.sort(groups.order[positions])


def _find_bounds(keys: npt.NDArray[Any], sizes: Integers, count: int) -> npt.NDArray[Any]:
    """Find the `count`-th least key of each group, or its greatest key if it has fewer.

    Each pass takes the least key that is left.
    """
    starts = np.cumsum(sizes) - sizes
    highest, left = keys.max(), keys.copy()
    bounds = np.minimum.reduceat(left, starts)
    counts = np.zeros(len(sizes), dtype=np.int64)
    for _ in range(count - 1):
        at_bound = left == np.repeat(bounds, sizes)
        counts += np.add.reduceat(at_bound, starts, dtype=np.int64)
        short = counts < count
        if not short.any():
            break
        left[at_bound] = highest
        bounds = np.where(short, np.minimum.reduceat(left, starts), bounds)
    return bounds
