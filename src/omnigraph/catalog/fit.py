"""Whether one Python value can be stored as a property type, and as what."""

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from omnigraph.catalog.types import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraph.catalog.values import item_type, to_utc
from omnigraph.errors import shorten
from omnigraph.later import Later
from omnigraph.values import dataclass

if TYPE_CHECKING:
    import numpy as np
else:
    np = Later("numpy")

F32_MAX = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a value cannot be stored: a rule of the write checks, and the sentence for people."""

    rule: str
    reason: str


def fit(value: object, target: PropertyType) -> object | Misfit:
    """Convert a value to what its property stores, or say why that cannot be.

    Numbers convert between integer and float when nothing is lost; everything else must have the
    type already. Membership in an enum is a constraint, not a matter of type.
    """
    if value is None:
        return None if target.nullable else Misfit("W01", "NULL was given, but a value is required")
    if target.is_vector or target.is_list:
        return _fit_items(value, target)
    match target.scalar:
        case Scalar.STRING | Scalar.BLOB:
            return value if isinstance(value, str) else _wrong(value, target)
        case Scalar.BOOL:
            return value if isinstance(value, bool) else _wrong(value, target)
        case Scalar.DATE:
            is_day = isinstance(value, date) and not isinstance(value, datetime)
            return value if is_day else _wrong(value, target)
        case Scalar.DATETIME:
            return to_utc(value) if isinstance(value, datetime) else _wrong(value, target)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _fit_integer(value, target)
        case Scalar.F32 | Scalar.F64:
            return _fit_float(value, target)


def _wrong(value: object, target: PropertyType) -> Misfit:
    return Misfit("W03", f"'{shorten(value)}' cannot be stored as {target}")


def _fit_integer(value: object, target: PropertyType) -> object | Misfit:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _wrong(value, target)
    if isinstance(value, float) and not value.is_integer():
        return Misfit("W03", f"{value} is not a whole number and cannot be stored as {target}")
    low, high = INTEGER_BOUNDS[target.scalar]
    whole = int(value)
    if low <= whole <= high:
        return whole
    return Misfit("W02", f"{whole} is outside the range of {target.scalar} ({low} to {high})")


def _fit_float(value: object, target: PropertyType) -> object | Misfit:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _wrong(value, target)
    try:
        number = float(value)
    except OverflowError:
        return Misfit("W02", f"{shorten(value)} is outside the range of {target.scalar}")
    if not math.isfinite(number):
        return Misfit("W02", f"{number} is not a finite number and cannot be stored as {target}")
    if target.scalar is Scalar.F32 and abs(number) > F32_MAX and not _rounds_to_f32(number):
        return Misfit("W02", f"{number} is outside the range of F32")
    return number


def _rounds_to_f32(number: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(number)))


def _fit_items(value: object, target: PropertyType) -> object | Misfit:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return _wrong(value, target)
    if target.dimension is not None and len(value) != target.dimension:
        return Misfit("W03", f"{target} takes {target.dimension} numbers, {len(value)} were given")
    items = []
    for position, item in enumerate(value):
        found = fit(item, item_type(target))
        if isinstance(found, Misfit):
            rule = "W03" if item is None else found.rule
            return Misfit(rule, f"item {position}: {found.reason}")
        items.append(found)
    return tuple(items)
