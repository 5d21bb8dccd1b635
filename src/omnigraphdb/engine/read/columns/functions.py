"""Functions of values: arithmetic, text, calendar and lists, on whole columns; NULL gives NULL."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import INTEGERS, PropertyType
from omnigraphdb.compile.checked import Duration

FALLIBLE: Final = frozenset({"+", "-", "*", "/", "%", "abs", "number", "round", "floor", "ceil"})
"""Functions that refuse some values: a division by zero, a number past its type."""

_DATE_MIN, _DATE_MAX = (np.datetime64(text, "D") for text in ("0001-01-01", "9999-12-31"))

_TEXT_MAX = 2**31 - 1
"""No text has more characters: Arrow counts the bytes of one with 32 bits."""

Arguments = Sequence[pa.Array]
Kernel = Callable[..., pa.Array]


class RowFailure(Exception):
    """A value that a function refuses, and the row it stands in."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(offset, reason)
        self.offset, self.reason = offset, reason


def call_function(
    name: str,
    columns: Sequence[pa.Array | None],
    fixed: Sequence[object],
    type_: PropertyType,
    rows: int,
) -> pa.Array:
    """Apply a function; `fixed` holds the arguments that are the same for every row."""
    if name in _ARITHMETIC:
        column = _calculate(name, columns, fixed, type_)
    elif name in _WITH_OPTIONS:
        column = _apply_options(_WITH_OPTIONS[name], columns, rows)
    else:
        column = _PLAIN[name](*columns)
    return column if column.type == type_.arrow else _retype(column, type_)


def _retype(column: pa.Array, type_: PropertyType) -> pa.Array:
    if pa.types.is_floating(type_.arrow):
        # An integer without an exact float is the nearest one, as in arithmetic.
        return column.cast(type_.arrow, safe=False)
    try:
        return column.cast(type_.arrow)
    except pa.ArrowInvalid:
        raise _find_failure(lambda part: part.cast(type_.arrow), [column]) from None


# ---- arithmetic


def _calculate(
    op: str, columns: Sequence[pa.Array | None], fixed: Sequence[object], type_: PropertyType
) -> pa.Array:
    left, right = columns
    for moment, duration in ((left, fixed[1]), (right, fixed[0])):
        if isinstance(duration, Duration):
            assert moment is not None
            return _shift(moment, duration, -1 if op == "-" else 1)
    assert left is not None
    assert right is not None
    if type_.scalar in INTEGERS:
        return _calculate_integers(op, left, right)
    return _calculate_floats(op, left, right)


def _calculate_integers(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    def run(first: pa.Array, second: pa.Array) -> pa.Array:
        return _INTEGER[op](first.cast(pa.int64()), second.cast(pa.int64()))

    if op in ("/", "%"):
        _refuse_zero(left, right)
    try:
        return run(left, right)
    except pa.ArrowInvalid:
        raise _find_failure(run, [left, right]) from None


def _modulo(left: pa.Array, right: pa.Array) -> pa.Array:
    """Compute the remainder, with the sign of the dividend."""
    # The least integer over -1 overflows, and its remainder is zero.
    safe = pc.if_else(pc.equal(right, -1), pa.scalar(1, pa.int64()), right)
    return pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))


def _calculate_floats(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    first, second = _to_floats(left), _to_floats(right)
    if op in ("/", "%"):
        _refuse_zero(first, second)
    results = _FLOAT[op](first, second)
    finite_inputs = pc.and_(pc.is_finite(first), pc.is_finite(second))
    bad = pc.fill_null(pc.and_(finite_inputs, pc.invert(pc.is_finite(results))), False)
    _refuse_where(bad, "the result is beyond the range of F64")
    return results


def _to_floats(column: pa.Array) -> pa.Array:
    return column.cast(pa.float64(), safe=False)


def _float_modulo(left: pa.Array, right: pa.Array) -> pa.Array:
    missing = pc.or_(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
    first, second = (
        pc.fill_null(numbers, 1.0).to_numpy(zero_copy_only=False) for numbers in (left, right)
    )
    with np.errstate(invalid="ignore"):
        return pa.array(np.fmod(first, second), mask=missing)


_INTEGER: dict[str, Callable[[Any, Any], pa.Array]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
    "%": _modulo,
}
_FLOAT: dict[str, Callable[[Any, Any], pa.Array]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
    "/": pc.divide,
    "%": _float_modulo,
}
_ARITHMETIC = frozenset(_INTEGER)


def _refuse_zero(left: pa.Array, right: pa.Array) -> None:
    zero = pc.and_(pc.equal(right, pa.scalar(0, right.type)), pc.is_valid(left))
    _refuse_where(pc.fill_null(zero, False), "division by zero")


def _refuse_where(bad: pa.Array, reason: str) -> None:
    at = pc.index(bad, True).as_py()
    if at >= 0:
        raise RowFailure(at, reason)


def _find_failure(run: Kernel, columns: Arguments) -> RowFailure:
    """Find a row that a kernel refuses, by halving."""
    start, rows = 0, len(columns[0])
    while rows > 1:
        half = rows // 2
        try:
            run(*(column.slice(start, half) for column in columns))
        except pa.ArrowInvalid:
            rows = half
        else:
            start, rows = start + half, rows - half
    return RowFailure(start, "the result is beyond the range of I64")


# ---- the calendar


def _shift(moments: pa.Array, duration: Duration, sign: int) -> pa.Array:
    """Add calendar time: months first, kept inside the month, then days, then the clock."""
    missing = pc.is_null(moments).to_numpy(zero_copy_only=False)
    dates, clock = _split_days(moments)
    months = dates.astype("M8[M]")
    day = dates - months.astype("M8[D]")
    target = months + sign * duration.months
    last = (target + 1).astype("M8[D]") - target.astype("M8[D]") - 1
    shifted_dates = target.astype("M8[D]") + np.minimum(day, last) + sign * duration.days
    instants = (
        shifted_dates.astype("M8[ms]").astype(np.int64) + clock + sign * duration.milliseconds
    )
    days = instants.astype("M8[ms]").astype("M8[D]")
    beyond = ((days < _DATE_MIN) | (days > _DATE_MAX)) & ~missing
    _refuse_where(pa.array(beyond), "the date is beyond the years 1 to 9999")
    if pa.types.is_date32(moments.type):
        return pa.array(days.astype(np.int32), pa.int32(), mask=missing).view(pa.date32())
    return pa.array(instants, pa.int64(), mask=missing).view(pa.date64())


def _split_days(moments: pa.Array) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Split moments into days and the milliseconds after midnight."""
    if pa.types.is_date32(moments.type):
        days = pc.fill_null(moments.view(pa.int32()), 0).to_numpy(zero_copy_only=False)
        return days.astype("M8[D]"), np.zeros(len(days), dtype=np.int64)
    instants = pc.fill_null(moments.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    dates = instants.astype("M8[ms]").astype("M8[D]")
    return dates, instants - dates.astype("M8[ms]").astype(np.int64)


def _to_instants(moments: pa.Array) -> pa.Array:
    if pa.types.is_date32(moments.type):
        return moments.cast(pa.timestamp("ms"))
    return moments.view(pa.timestamp("ms"))


def _truncate(unit: pa.Scalar, moments: pa.Array) -> pa.Array:
    instants = pc.floor_temporal(_to_instants(moments), unit=unit.as_py())
    if pa.types.is_date32(moments.type):
        return instants.cast(pa.date32())
    return instants.view(pa.date64())


def _part(kernel: Kernel) -> Kernel:
    return lambda moments: kernel(_to_instants(moments))


# ---- text


def _substring(texts: pa.Array, start: pa.Scalar, length: pa.Scalar | None = None) -> pa.Array:
    """Cut characters from a position on, counted from 1; positions before the text are empty."""
    first = start.as_py()
    end = _TEXT_MAX if length is None else first + max(length.as_py(), 0) - 1
    begin, stop = (min(max(index, 0), _TEXT_MAX) for index in (first - 1, end))
    return pc.utf8_slice_codeunits(texts, begin, stop)


def _replace(texts: pa.Array, old: pa.Scalar, new: pa.Scalar) -> pa.Array:
    if not old.as_py():
        return texts
    return pc.replace_substring(texts, old.as_py(), new.as_py())


def _concat(*texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


# ---- numbers and lists


def _round(numbers: pa.Array, digits: pa.Scalar | None = None) -> pa.Array:
    if not pa.types.is_floating(numbers.type):
        return numbers
    decimals = 0 if digits is None else digits.as_py()
    wide = _to_floats(numbers)
    rounded = pc.round(wide, decimals, round_mode="half_towards_infinity")
    # Scaling a number that is too large for it gives no number; it has no such digits either.
    return pc.if_else(pc.is_finite(rounded), rounded, wide)


def _of_floats(kernel: Kernel) -> Kernel:
    return lambda numbers: kernel(numbers) if pa.types.is_floating(numbers.type) else numbers


def _absolute(numbers: pa.Array) -> pa.Array:
    if pa.types.is_floating(numbers.type):
        return pc.abs(numbers)
    wide = _retype_integers(numbers)
    bad = pc.fill_null(pc.equal(wide, pa.scalar(-(2**63), pa.int64())), False)
    _refuse_where(bad, "the result is beyond the range of I64")
    return pc.abs(wide)


def _retype_integers(numbers: pa.Array) -> pa.Array:
    try:
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        raise _find_failure(lambda part: part.cast(pa.int64()), [numbers]) from None


def _size(lists: pa.Array) -> pa.Array:
    return pc.list_value_length(lists)


def _at_end(last: bool) -> Kernel:
    def pick(lists: pa.Array) -> pa.Array:
        sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        ends = np.cumsum(sizes, dtype=np.int64)
        indices = ends - 1 if last else ends - sizes
        return pc.list_flatten(lists).take(pa.array(indices, mask=sizes == 0))

    return pick


_PLAIN: dict[str, Kernel] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "trim": pc.utf8_trim_whitespace,
    "length": pc.utf8_length,
    "concat": _concat,
    "abs": _absolute,
    "floor": _of_floats(pc.floor),
    "ceil": _of_floats(pc.ceil),
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "size": _size,
    "first": _at_end(last=False),
    "last": _at_end(last=True),
    "number": lambda numbers: numbers,
}


# ---- functions with options
# Arrow takes some arguments once for a whole column: rows are grouped by them, and the kernel runs once per group.


class _Options:
    """A kernel, and the position of the argument that is a column; the others are options."""

    def __init__(self, kernel: Kernel, column: int = 0) -> None:
        self.kernel, self.column = kernel, column


_WITH_OPTIONS: dict[str, _Options] = {
    "substring": _Options(_substring),
    "replace": _Options(_replace),
    "round": _Options(_round),
    "date_trunc": _Options(_truncate, column=1),
}


def _apply_options(options: _Options, columns: Sequence[pa.Array | None], rows: int) -> pa.Array:
    arguments = [argument for argument in columns if argument is not None]
    column = arguments[options.column]
    others = [argument for number, argument in enumerate(arguments) if number != options.column]
    if not others:
        return options.kernel(column)
    table = pa.table({str(number): argument for number, argument in enumerate(others)})
    codes, firsts = _group_rows(table, rows)
    parts, offsets = [], []
    for code, first in enumerate(firsts):
        where = np.flatnonzero(codes == code) if len(firsts) > 1 else None
        part = column if where is None else column.take(pa.array(where))
        scalars = [argument[int(first)] for argument in others]
        offsets.append(np.arange(rows) if where is None else where)
        parts.append(_run_options(options, part, scalars))
    if not parts:
        return column.slice(0, 0)
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(offsets), kind="stable")
    return pa.concat_arrays(parts).take(pa.array(order))


def _run_options(options: _Options, column: pa.Array, scalars: list[pa.Scalar]) -> pa.Array:
    if not all(scalar.is_valid for scalar in scalars):
        return pa.nulls(len(column), column.type)
    arguments: list[Any] = list(scalars)
    arguments.insert(options.column, column)
    return options.kernel(*arguments)


def _group_rows(table: pa.Table, rows: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number the distinct rows of options, and find the first row of each."""
    row_codes = np.zeros(rows, dtype=np.int64)
    for column in table.columns:
        codes = column.combine_chunks().dictionary_encode().indices
        column_codes = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        _, row_codes = np.unique(
            row_codes * (int(column_codes.max(initial=0)) + 1) + column_codes, return_inverse=True
        )
    _, firsts = np.unique(row_codes, return_index=True)
    return row_codes.astype(np.int64), firsts.astype(np.int64)
