"""Row order: row offsets in the order of several columns, selection of the first rows, and windows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.compile.checked import VariableKind
from omnigraphdb.compile.plan.operators import Window
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.compare import flatten_nested, unify_zeros
from omnigraphdb.engine.read.columns.row_ids import Integers, count_up
from omnigraphdb.engine.read.reader import Reader


def bounds(window: Window | None, reader: Reader) -> tuple[int, int | None]:
    """Return the offset of the first requested row and the offset after the last one; None means no end."""
    if window is None:
        return 0, None
    offset = 0 if window.offset is None else max(reader.integer(window.offset) or 0, 0)
    limit = None if window.limit is None else reader.integer(window.limit)
    return offset, None if limit is None else offset + max(limit, 0)


Column = tuple[pa.Array, bool]
"""Values, and whether they descend."""


def sort_rows(columns: Sequence[Column], rows: int) -> Integers:
    """Sort rows stably by several columns; NULL is below every value, NaN above every number."""
    if not columns or rows < 2:
        return count_up(rows)
    keys = [key for values, descending in columns for key in _keys(values, descending)]
    return np.asarray(np.lexsort(keys[::-1]), dtype=np.int64)


def _keys(values: pa.Array, descending: bool) -> Iterator[npt.NDArray[Any]]:
    """Convert values to arrays that ascend in the requested order."""
    if values.null_count:
        present = pc.is_valid(values).to_numpy(zero_copy_only=False)
        yield ~present if descending else present
    numbers = _orderable(values)
    if not descending:
        yield numbers
    # The complement reverses integers without the overflow of a negation.
    elif numbers.dtype.kind == "f":
        yield -numbers
    else:
        yield ~numbers


def _orderable(values: pa.Array) -> npt.NDArray[Any]:
    """Convert values to numbers in the same order; the number for NULL is arbitrary."""
    kind = values.type
    if not (pa.types.is_primitive(kind) or pa.types.is_boolean(kind)):
        values = pc.rank(flatten_nested(values), tiebreaker="dense")
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    filled = (
        values.fill_null(False if pa.types.is_boolean(kind) else 0) if values.null_count else values
    )
    return np.asarray(unify_zeros(filled).to_numpy(zero_copy_only=False))


def find_numbers(values: pa.Array, descending: bool) -> npt.NDArray[Any] | None:
    """Convert values to numbers that ascend in the requested order.

    None if the values have another type than integers and times, or if some are NULL.
    """
    kind = values.type
    if values.null_count or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        return None
    return next(_keys(values, descending))


def id_order(
    variable: str, rows: Bindings, reader: Reader, *, descending: bool = False
) -> pa.Array:
    """Rank rows by the ids of a variable, equal ids by type; paths by the order in which they were found.

    `descending` says that the rows are sorted by these ranks in descending order.
    """
    if reader.plan.by_name[variable].kind is VariableKind.PATH:
        return pa.array(rows.columns[variable])
    return pa.array(
        reader.entities(variable).id_ranks(rows.columns[variable], descending=descending)
    )


def select_first(values: pa.Array, descending: bool, count: int) -> Integers | None:
    """Select the offsets of the first `count` values and of all values equal to the last of them; None for all."""
    # Arrow ends the process when it is asked for the first of some structs.
    values = flatten_nested(values)
    missing = values.null_count
    if count == 0:
        return count_up(0)
    if not missing and pa.types.is_integer(values.type) and count < len(values):
        return _select_first_integers(values.to_numpy(), descending, count)
    if not descending and missing >= count:
        return _offsets_of(pc.is_null(values))
    needed = count if descending else count - missing
    if needed >= len(values) - missing:
        return None
    last = _nth(values.drop_null(), descending, needed)
    if last is None:
        return None
    within = pc.greater_equal(values, last) if descending else pc.less_equal(values, last)
    return _offsets_of(pc.fill_null(within, not descending))


def _select_first_integers(numbers: npt.NDArray[Any], descending: bool, count: int) -> Integers:
    last = _at(numbers, descending, count)
    return np.flatnonzero(numbers >= last if descending else numbers <= last)


def _at(numbers: npt.NDArray[Any], descending: bool, position: int) -> Any:
    """Return the number at a position of the order, from 1."""
    at = len(numbers) - position if descending else position - 1
    return np.partition(numbers, at)[at]


def _nth(values: pa.Array, descending: bool, position: int) -> pa.Scalar | None:
    """Return the value at a position of the order; None if values of the type cannot be compared with it."""
    if pa.types.is_boolean(values.type):
        return None
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        return (
            None
            if np.isnan(numbers).any()
            else pa.scalar(_at(numbers, descending, position), values.type)
        )
    order = "descending" if descending else "ascending"
    best = pc.select_k_unstable(pa.table({"v": values}), position, [("v", order)])
    return values[best[-1].as_py()]


def _offsets_of(mask: pa.Array) -> Integers:
    return np.flatnonzero(mask.to_numpy(zero_copy_only=False)).astype(np.int64)
