"""Values of property types: their text, JSON, Arrow columns and key text, and the check that a value fits a type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any

from omnigraphdb.catalog.types import FLOATS, INTEGER_BOUNDS, PropertyType, Scalar
from omnigraphdb.errors import shorten
from omnigraphdb.later import Later
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    np, pa, pc = Later("numpy"), Later("pyarrow"), Later("pyarrow.compute")

JAVASCRIPT_INTEGER_MAX = 2**53 - 1
INTEGER_DIGITS_MAX = 40
"""Longer decimal text is out of every range; converting it would only cost time."""

F32_MAX = 3.4028234663852886e38

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)


# ---- dates and instants as text


def parse_date(text: str) -> date | None:
    """Read `YYYY-MM-DD`; None when the text is not a day of the calendar."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    try:
        return date(year, month, day)
    except ValueError:
        return None


def parse_datetime(text: str) -> datetime | None:
    """Read RFC 3339 text as a UTC instant cut to milliseconds; None when it is malformed.

    A space may stand for `T`, a missing offset means UTC, a bare date its midnight.
    """
    match = _DATETIME.fullmatch(text)
    day = parse_date(match[1]) if match else None
    if match is None or day is None:
        return None
    try:
        wall = datetime(
            day.year,
            day.month,
            day.day,
            int(match[2] or 0),
            int(match[3] or 0),
            int(match[4] or 0),
            int((match[5] or "")[:3].ljust(3, "0")) * 1000,
            tzinfo=_offset(match[6] or "Z"),
        )
        return wall.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _offset(text: str) -> timezone:
    if text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours > 23 or minutes > 59:
        raise ValueError(text)
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=hours, minutes=minutes))


def format_date(value: date) -> str:
    """Spell a day as `YYYY-MM-DD`."""
    return value.isoformat()


def format_datetime(value: datetime) -> str:
    """Spell an instant in UTC with milliseconds."""
    return to_utc(value).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def to_utc(value: datetime) -> datetime:
    """Take an instant to UTC and cut it to milliseconds; one without an offset is UTC already."""
    aware = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return aware.replace(microsecond=aware.microsecond // 1000 * 1000)


def epoch_day(value: date) -> int:
    """Count days since 1970-01-01."""
    return (value - _EPOCH_DAY).days


def epoch_milliseconds(value: datetime) -> int:
    """Count milliseconds since 1970-01-01T00:00Z."""
    return (to_utc(value) - _EPOCH) // timedelta(milliseconds=1)


# ---- integers as text


def parse_integer(text: str) -> int | None:
    """Read decimal digits, perhaps after a minus; None when the text is anything else."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return None
    # Any number this long is out of range, so that a number surely out of range stands for it.
    number = int(digits.lstrip("0")[:INTEGER_DIGITS_MAX] or "0")
    return -number if text.startswith("-") else number


# ---- Arrow columns


def to_arrow(values: Sequence[object], value_type: PropertyType) -> pa.Array:
    """Build the column of a type from Python values; instants keep their time of day."""
    return pa.array([_storable(value, value_type) for value in values], type=value_type.arrow)


def _storable(value: object, value_type: PropertyType) -> object:
    if isinstance(value, list | tuple):
        return [_storable(item, value_type) for item in value]
    # Arrow builds date64 from a datetime by dropping the time of day; from an integer it keeps it.
    return epoch_milliseconds(value) if isinstance(value, datetime) else value


# ---- JSON


def json_value(value: object, value_type: PropertyType, *, wire: bool = False) -> Any:
    """Spell one value for JSON.

    Numbers keep their exact value: 64-bit integers in full width, 32-bit floats widened. With
    `wire`, integers a JavaScript reader would round become text and 32-bit floats their shortest
    decimal.
    """
    match value:
        case None:
            return None
        case list() | tuple() if value_type.is_vector:
            return [_finite_json(item, wire) for item in value]
        case list() | tuple():
            return [json_value(item, item_type(value_type), wire=wire) for item in value]
        case datetime():
            return format_datetime(value)
        case date():
            return format_date(value)
        case bool():
            return value
        case int() if wire and abs(value) > JAVASCRIPT_INTEGER_MAX:
            return str(value)
        case float() if not math.isfinite(value):
            return _non_finite(value)
        case float() if wire and value_type.scalar is Scalar.F32:
            return float(str(np.float32(value)))
    return value


def spell_wire(value: Any) -> Any:
    """Spell a JSON-shaped value for readers that would round integers of 64 bits."""
    match value:
        case bool():
            return value
        case int() if abs(value) > JAVASCRIPT_INTEGER_MAX:
            return str(value)
        case list():
            return [spell_wire(item) for item in value]
        case dict():
            return {name: spell_wire(item) for name, item in value.items()}
        case _:
            return value


def _finite_json(item: object, wire: bool) -> float | None:
    if not isinstance(item, int | float) or not math.isfinite(item):
        return None
    return float(str(np.float32(item))) if wire else float(item)


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def item_type(value_type: PropertyType) -> PropertyType:
    """Return the type of one item of a list or vector."""
    return PropertyType(scalar=value_type.scalar)


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Join a column into one piece; a column of one piece is not copied."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_spelt_as_it_is(value_type: PropertyType) -> bool:
    """Whether Python values of a type are its JSON values, on the wire too; every column of every result asks."""
    kind = value_type.scalar
    is_same = (
        kind is Scalar.STRING or kind is Scalar.I32 or kind is Scalar.U32 or kind is Scalar.BOOL
    )
    return is_same and not (value_type.is_list or value_type.fields)


def json_column(
    column: pa.Array | pa.ChunkedArray, value_type: PropertyType, *, wire: bool = False
) -> list[Any]:
    """Spell a whole column for JSON, as `json_value` spells each value."""
    if _is_spelt_as_it_is(value_type):
        return _values(column)
    if value_type.fields and value_type.is_list:
        return _json_record_lists(whole(column), value_type, wire)
    if value_type.fields:
        return _json_records(whole(column), value_type, wire)
    array = whole(column)
    if value_type.is_vector or value_type.is_list:
        return list(_json_lists(array, value_type, wire))
    match value_type.scalar:
        case Scalar.DATE:
            return _values(array.cast(pa.string()))
        case Scalar.DATETIME:
            return _values(pc.strftime(_instants(array), format="%Y-%m-%dT%H:%M:%SZ"))
        case Scalar.F32 | Scalar.F64:
            return _json_floats(array, value_type, wire)
        case Scalar.I64 | Scalar.U64 if wire:
            return [json_value(value, value_type, wire=True) for value in _values(array)]
        case _:
            return _values(array)


def _json_record_lists(array: pa.Array, value_type: PropertyType, wire: bool) -> list[Any]:
    """Spell lists of records, all records together."""
    records = iter(_json_records(array.flatten(), replace(value_type, is_list=False), wire))
    counts = pc.list_value_length(array).to_pylist()
    return [None if count is None else list(islice(records, count)) for count in counts]


def _json_records(array: pa.Array, value_type: PropertyType, wire: bool) -> list[Any]:
    """Spell whole entities as objects, column by column."""
    names = [name for name, _ in value_type.fields]
    columns = [
        json_column(array.field(number), type_, wire=wire)
        for number, (_, type_) in enumerate(value_type.fields)
    ]
    present = array.is_valid().to_pylist()
    return [
        dict(zip(names, values, strict=True)) if valid else None
        for valid, *values in zip(present, *columns, strict=True)
    ]


def _values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    values: list[Any] = array.to_pylist()
    return values


def _instants(array: pa.Array) -> pa.Array:
    return array.cast(pa.timestamp("ms"))


def _json_floats(array: pa.Array, value_type: PropertyType, wire: bool) -> list[Any]:
    short = wire and value_type.scalar is Scalar.F32
    floats = _values(array.cast(pa.string()).cast(pa.float64()) if short else array)
    if pc.all(pc.is_finite(array), min_count=0).as_py():
        return floats
    return [value if value is None else json_value(value, value_type) for value in floats]


def _json_lists(array: pa.Array, value_type: PropertyType, wire: bool) -> Iterator[Any]:
    items = pc.list_flatten(array)
    if value_type.is_vector:
        items = pc.if_else(pc.is_finite(items), items, pa.scalar(None, items.type))
    json_items = json_column(items, item_type(value_type), wire=wire)
    start = 0
    for length in _values(pc.list_value_length(array)):
        if length is None:
            yield None
            continue
        yield json_items[start : start + length]
        start += length


# ---- keys


def key_text(value: object, value_type: PropertyType) -> str | None:
    """Spell the canonical text of a stored key value; None when it cannot be a key (NULL, not finite)."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case datetime():
            return str(epoch_milliseconds(value))
        case date():
            return str(epoch_day(value))
        case int() | float() if value_type.scalar in FLOATS:
            return _float_text(float(value), value_type.scalar)
    return str(value)


def _float_text(value: float, scalar: Scalar) -> str | None:
    stored = np.float32(value) if scalar is Scalar.F32 else np.float64(value)
    if not np.isfinite(stored):
        return None
    # Adding zero turns -0.0 into 0.0, which is the same key.
    return np.format_float_positional(stored + stored.dtype.type(0), unique=True, trim="-")


def key_texts(column: pa.Array | pa.ChunkedArray, value_type: PropertyType) -> pa.Array:
    """Spell the canonical texts of a whole key column; NULL where a value cannot be a key."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    match value_type.scalar:
        case Scalar.DATE:
            return array.cast(pa.int32()).cast(pa.string())
        case Scalar.DATETIME:
            return array.cast(pa.int64()).cast(pa.string())
        case Scalar.F32 | Scalar.F64:
            return _float_texts(array, value_type)
        case _:
            return array.cast(pa.string())


def _float_texts(array: pa.Array, value_type: PropertyType) -> pa.Array:
    texts = array.cast(pa.string())
    plain = pc.if_else(pc.equal(texts, "-0"), "0", texts)
    finite = pc.if_else(pc.is_finite(array), plain, pa.scalar(None, pa.string()))
    scientific = pc.fill_null(pc.match_substring(finite, "e"), False)
    if not pc.any(scientific).as_py():
        return finite
    # Arrow writes very large and very small numbers with an exponent; only those are respelled.
    respelled = [key_text(value, value_type) for value in _values(array.filter(scientific))]
    return pc.replace_with_mask(finite, scientific, pa.array(respelled, pa.string()))


def composite_id(texts: Sequence[str]) -> str:
    """Join the canonical texts of a composite key into its id: a compact JSON array."""
    return json.dumps(list(texts), ensure_ascii=False, separators=(",", ":"))


# ---- fit
# The check whether a Python value can be stored as a property type, and its stored form.


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a value cannot be stored: a rule of the write checks, and the sentence for people."""

    rule: str
    reason: str


def fit(value: object, target: PropertyType) -> object | Misfit:
    """Convert a value to the stored form of its property, or return the reason why that cannot be.

    Numbers convert between integer and float when nothing is lost; every other value must have the
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
    number = int(value)
    if low <= number <= high:
        return number
    return Misfit("W02", f"{number} is outside the range of {target.scalar} ({low} to {high})")


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
        converted = fit(item, item_type(target))
        if isinstance(converted, Misfit):
            rule = "W03" if item is None else converted.rule
            return Misfit(rule, f"item {position}: {converted.reason}")
        items.append(converted)
    return tuple(items)
