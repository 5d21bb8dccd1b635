"""The meaning of `column op value`: the value in the column's own type, or the answer when it has none."""

import math
import struct
from collections.abc import Iterable
from datetime import date, datetime
from enum import StrEnum
from typing import assert_never

from omnigraphdb.catalog.types import FLOATS, INTEGER_BOUNDS, PropertyType, Scalar
from omnigraphdb.catalog.values import F32_MAX
from omnigraphdb.errors import InternalError
from omnigraphdb.language.query.tree import Comparison
from omnigraphdb.values import dataclass

_ZEROS = (0.0, -0.0)


class ConstantTruth(StrEnum):
    """A comparison that is the same for every value of the column; NULL stays unknown."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Exact:
    """Compare the column with a value of exactly its type (of its item type for lists)."""

    op: Comparison
    value: object


@dataclass(frozen=True, slots=True)
class Either:
    """Hold when one of two comparisons does: an item of a list may be either zero."""

    first: Exact
    second: Exact


Coerced = Exact | Either | ConstantTruth


def coerce(op: Comparison, value: object, column: PropertyType) -> Coerced:
    """Decide a comparison with a column without ever losing precision or overflowing.

    Every evaluation, pushed down or in memory, read or mutation, goes through this function. Numbers compare
    mathematically against integer columns and at the column's precision against float columns.
    """
    if column.is_list:
        # NULL is unknown among the items of a list, and is not in an empty one.
        return Exact("contains", None) if value is None else _membership(value, column)
    if value is None:
        return ConstantTruth.UNKNOWN
    return _scalar(op, value, column.scalar)


def coerce_choices(values: Iterable[object], column: PropertyType) -> tuple[object, ...]:
    """Return the values of an `in` list that the column can hold, in its own type, each once.

    NULLs and values that can equal nothing are left out. Both zeros stand for either of them, because
    set lookups may tell them apart where comparisons do not.
    """
    choices: dict[tuple[object, bool], object] = {}
    for value in values:
        exact = None if value is None else _scalar("=", value, column.scalar)
        if isinstance(exact, Exact):
            choices |= {
                (choice, _is_negative_zero(choice)): choice for choice in _same(exact.value)
            }
    return tuple(choices.values())


def _same(value: object) -> tuple[object, ...]:
    return _ZEROS if isinstance(value, float) and value == 0.0 else (value,)


def _is_negative_zero(value: object) -> bool:
    return isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0


def _membership(value: object, column: PropertyType) -> Coerced:
    match coerce_choices((value,), column):
        case ():
            return ConstantTruth.FALSE
        case (choice,):
            return Exact("contains", choice)
        case choices:
            return Either(*(Exact("contains", choice) for choice in choices))


def _scalar(op: Comparison, value: object, scalar: Scalar) -> Coerced:
    if scalar in INTEGER_BOUNDS:
        return _against_integer(op, _number(value, scalar), *INTEGER_BOUNDS[scalar])
    if scalar in FLOATS:
        return _against_float(op, _number(value, scalar), scalar)
    return Exact(op, _plain(value, scalar))


def _number(value: object, scalar: Scalar) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _mismatch(value, scalar)


def _plain(value: object, scalar: Scalar) -> object:
    match scalar, value:
        case Scalar.STRING, str():
            return value
        case Scalar.BOOL, bool():
            return value
        case Scalar.DATETIME, datetime():
            # Stored instants have millisecond precision; the same text must find itself again.
            return value.replace(microsecond=value.microsecond // 1000 * 1000)
        case Scalar.DATE, date() if not isinstance(value, datetime):
            return value
        case _:
            raise _mismatch(value, scalar)


def _mismatch(value: object, scalar: Scalar) -> InternalError:
    return InternalError(
        f"cannot compare a {scalar} column with a value of type {type(value).__name__}: the type checker "
        "should have refused this query; nothing was read or written; please report the query"
    )


def _against_integer(op: Comparison, value: int | float, low: int, high: int) -> Coerced:
    if isinstance(value, float):
        if math.isnan(value):
            return _unequal(op)
        if math.isinf(value):
            return _beyond(op, above=value > 0)
        if not value.is_integer():
            return _between_integers(op, value, low, high)
        value = int(value)
    if value > high or value < low:
        return _beyond(op, above=value > high)
    return Exact(op, value)


def _between_integers(op: Comparison, value: float, low: int, high: int) -> Coerced:
    match op:
        case "<" | "<=":
            return _against_integer("<=", math.floor(value), low, high)
        case ">" | ">=":
            return _against_integer(">=", math.ceil(value), low, high)
        case _:
            return _unequal(op)


def _unequal(op: Comparison) -> ConstantTruth:
    """Settle a comparison with something that equals no value and has no place in their order."""
    return ConstantTruth.TRUE if op == "!=" else ConstantTruth.FALSE


def _beyond(op: Comparison, *, above: bool) -> ConstantTruth:
    """Settle a comparison with a number past one end of the column's range."""
    match op:
        case "<" | "<=":
            return ConstantTruth.TRUE if above else ConstantTruth.FALSE
        case ">" | ">=":
            return ConstantTruth.FALSE if above else ConstantTruth.TRUE
        case "=" | "!=" | "contains" | "starts_with" | "ends_with" | "matches":
            return _unequal(op)
        case _:
            assert_never(op)


def _against_float(op: Comparison, value: int | float, scalar: Scalar) -> Coerced:
    wide = _widen(value)
    if math.isnan(wide):
        return _unequal(op)
    if scalar is Scalar.F64:
        # Adding a positive zero turns -0.0 into 0.0 and changes nothing else.
        return Exact(op, wide + 0.0)
    narrow = _narrow(wide)
    return Exact(op, narrow + 0.0) if narrow is not None else _beyond_float32(op, wide)


def _widen(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _narrow(value: float) -> float | None:
    """Round to F32; None when a finite value is too large for it."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return rounded


def _beyond_float32(op: Comparison, value: float) -> Coerced:
    """Compare with the outermost finite value instead, so that infinities keep their place."""
    limit = math.copysign(F32_MAX, value)
    match op:
        case "<" | "<=":
            return Exact("<=" if value > 0 else "<", limit)
        case ">" | ">=":
            return Exact(">" if value > 0 else ">=", limit)
        case _:
            return _unequal(op)
