"""JSON values as typed Arrow columns: whole columns for clean data, else value by value with every problem."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraphdb.catalog.values import (
    Misfit,
    fit,
    key_texts,
    parse_date,
    parse_datetime,
    parse_integer,
    to_arrow,
    to_utc,
)
from omnigraphdb.errors import shorten
from omnigraphdb.values import dataclass

BLOB_PREFIX = "base64:"
_ITEM = PropertyType(scalar=Scalar.F32)
"""The type of a vector's items."""
DAYS = (-719162, 2932896)
INSTANTS = (-62135596800000, 253402300799999)
"""Years 1 to 9999, the range of RFC 3339."""


@dataclass(frozen=True, slots=True)
class ColumnMisfit:
    """A value that does not fit: its index in the column, the rule and the reason."""

    index: int
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A typed column (NULL where a value did not fit) and the values that did not fit."""

    values: pa.Array
    misfits: tuple[ColumnMisfit, ...] = ()


def shape(values: Sequence[Any], target: PropertyType) -> TypedColumn:
    """Turn JSON values (None for absent) into the column of a property."""
    fast = _fast(values, target)
    if fast is not None and (target.nullable or fast.null_count == 0):
        return TypedColumn(fast)
    return _shape_one_by_one(values, target)


def _shape_one_by_one(values: Sequence[Any], target: PropertyType) -> TypedColumn:
    fitted_values: list[object] = []
    misfits: list[ColumnMisfit] = []
    for index, value in enumerate(values):
        fitted_value = json_fit(value, target)
        if isinstance(fitted_value, Misfit):
            misfits.append(ColumnMisfit(index, fitted_value.rule, fitted_value.reason))
            fitted_values.append(None)
        else:
            fitted_values.append(fitted_value)
    return TypedColumn(to_arrow(fitted_values, target), tuple(misfits))


def shape_ids(values: Sequence[Any], key: PropertyType | None) -> TypedColumn:
    """Turn JSON values into ids: a text is an id, a value of the type of the key becomes its canonical text."""
    texts = [value if isinstance(value, str) and is_storable(value) else None for value in values]
    others = [
        None if text is not None else value for text, value in zip(texts, values, strict=True)
    ]
    column = pa.array(texts, pa.string())
    if key is None or key.scalar is Scalar.STRING:
        wrong = [index for index, value in enumerate(others) if value is not None]
        return TypedColumn(column, tuple(_refuse_id(index, others[index]) for index in wrong))
    shaped = shape(others, replace(key, nullable=True))
    return TypedColumn(pc.coalesce(column, key_texts(shaped.values, key)), shaped.misfits)


def _refuse_id(index: int, value: Any) -> ColumnMisfit:
    return ColumnMisfit(index, "J09", f"expected String, got {_kind(value)} '{shorten(value)}'")


# ---- one value


def json_fit(value: Any, target: PropertyType) -> object | Misfit:
    """Convert one JSON value to the stored form of its property, or say why it does not fit."""
    if value is None:
        return None if target.nullable else Misfit("J14", f"required, {target} expected")
    if target.is_vector:
        return _vector(value, target)
    if target.is_list:
        return _list(value, target)
    return _scalar(value, target)


def _scalar(value: Any, target: PropertyType) -> object | Misfit:
    match target.scalar:
        case Scalar.BLOB:
            return blob(value)
        case Scalar.DATE:
            return _date(value, target)
        case Scalar.DATETIME:
            return _datetime(value, target)
        case Scalar.I64 | Scalar.U64:
            value = _read_integer(value)
            if type(value) is not int:
                return _wrong(value, target, " (a number or its decimal text)")
        case Scalar.I32 | Scalar.U32:
            if type(value) is not int:
                return _wrong(value, target)
        case Scalar.F32 | Scalar.F64:
            if type(value) not in (int, float):
                return _wrong(value, target)
        case Scalar.STRING if isinstance(value, str) and not is_storable(value):
            return _wrong(value, target, " (text in which every surrogate has its pair)")
        case Scalar.STRING if not isinstance(value, str):
            return _wrong(value, target)
        case Scalar.BOOL if not isinstance(value, bool):
            return _wrong(value, target)
        case Scalar.STRING | Scalar.BOOL:
            pass
    fitted_value = fit(value, target)
    return Misfit("J07", fitted_value.reason) if isinstance(fitted_value, Misfit) else fitted_value


def _read_integer(value: Any) -> Any:
    """Return the number of a decimal text, the form of integers that JavaScript would round; other values as they are."""
    number = parse_integer(value) if isinstance(value, str) else None
    return number if number is not None and str(number) == value else value


def is_storable(text: str) -> bool:
    """Whether a text has a UTF-8 form: JSON escapes can spell half a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _wrong(value: Any, target: PropertyType, accepted: str = "") -> Misfit:
    return Misfit("J07", f"expected {target}{accepted}, got {_kind(value)} '{shorten(value)}'")


def _kind(value: Any) -> str:
    names = {
        bool: "boolean",
        int: "number",
        float: "number",
        str: "text",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), type(value).__name__)


def _date(value: Any, target: PropertyType) -> object | Misfit:
    accepted = " (YYYY-MM-DD or a day number)"
    if type(value) is int and DAYS[0] <= value <= DAYS[1]:
        return value
    if type(value) is date:
        return value
    day = parse_date(value) if isinstance(value, str) else None
    return _wrong(value, target, accepted) if day is None else day


def _datetime(value: Any, target: PropertyType) -> object | Misfit:
    accepted = " (RFC 3339 text or epoch milliseconds)"
    if type(value) is int and INSTANTS[0] <= value <= INSTANTS[1]:
        return value
    if isinstance(value, datetime):
        return to_utc(value)
    if type(value) is date:
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    instant = parse_datetime(value) if isinstance(value, str) else None
    return _wrong(value, target, accepted) if instant is None else instant


def _vector(value: Any, target: PropertyType) -> object | Misfit:
    if not isinstance(value, list | tuple):
        return Misfit("J12", f"expected {target}, got {_kind(value)} '{shorten(value)}'")
    if len(value) != target.dimension:
        return Misfit("J12", f"expected {target.dimension} numbers, got {len(value)}")
    for index, item in enumerate(value):
        if type(item) not in (int, float) or isinstance(fit(item, _ITEM), Misfit):
            message = f"item {index}: expected a finite number of F32, got '{shorten(item)}'"
            return Misfit("J12", message)
    return tuple(float(item) for item in value)


def _list(value: Any, target: PropertyType) -> object | Misfit:
    if not isinstance(value, list | tuple):
        return Misfit("J13", f"expected {target}, got {_kind(value)} '{shorten(value)}'")
    item_type = PropertyType(scalar=target.scalar)
    items: list[object] = []
    for index, item in enumerate(value):
        fitted_item = _wrong(item, item_type) if item is None else _scalar(item, item_type)
        if isinstance(fitted_item, Misfit):
            return Misfit(fitted_item.rule, f"item {index}: {fitted_item.reason}")
        items.append(fitted_item)
    return tuple(items)


def blob(value: Any) -> object | Misfit:
    """Read a blob cell: bytes, or `base64:…`; any other text is a URI, which no graph allows yet."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        return Misfit("J07", f"expected Blob ('base64:…'), got {_kind(value)} '{shorten(value)}'")
    if not value.startswith(BLOB_PREFIX):
        return Misfit("W22", f"the blob URI '{shorten(value)}' is not in an allowed location")
    try:
        return base64.b64decode(value[len(BLOB_PREFIX) :], validate=True)
    except (binascii.Error, ValueError) as error:
        return Misfit("W24", f"the text after '{BLOB_PREFIX}' is not base64 ({error})")


# ---- whole columns as Arrow reads them from JSON

_INSTANT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?Z$"

_DECIMAL = r"^(0|-?[1-9][0-9]*)$"
_WIDE = (Scalar.I64, Scalar.U64)
"""Integers that JSON may spell as text, since JavaScript would round them."""

_JSON_TYPES: Mapping[Scalar, pa.DataType] = {
    Scalar.DATE: pa.string(),
    Scalar.DATETIME: pa.string(),
    Scalar.BLOB: pa.string(),
    Scalar.F32: pa.float64(),
}


def json_type(target: PropertyType) -> pa.DataType:
    """Return the type of a property in JSON, where dates, instants and bytes are texts."""
    item = _JSON_TYPES.get(target.scalar, PropertyType(scalar=target.scalar).arrow)
    return pa.list_(item) if target.is_list or target.is_vector else item


def shape_arrow(values: pa.Array, target: PropertyType) -> pa.Array | None:
    """Convert a column as Arrow reads it from JSON to the type of a property; None unless every value surely fits."""
    if values.null_count and not target.nullable:
        return None
    try:
        if target.is_vector:
            return _vectors(values, target)
        if target.is_list:
            return _lists(values, target)
        return _items(values, target)
    except pa.ArrowInvalid:
        return None


def _items(values: pa.Array, target: PropertyType) -> pa.Array | None:
    match target.scalar:
        case Scalar.DATE:
            return _pad_dates(values)
        case Scalar.DATETIME:
            return _instants(values)
        case Scalar.F32 | Scalar.F64:
            return _finite(values.cast(target.arrow, safe=False))
        case Scalar.BLOB:
            shaped = _shape_one_by_one(values.to_pylist(), target)
            return None if shaped.misfits else shaped.values
        case _:
            return values


def _lists(values: pa.Array, target: PropertyType) -> pa.Array | None:
    items = values.flatten()
    shaped_items = None if items.null_count else _items(items, PropertyType(scalar=target.scalar))
    if shaped_items is None:
        return None
    return relist(shaped_items, values).cast(target.arrow)


def relist(items: pa.Array, like: pa.Array) -> pa.ListArray:
    """Group items into lists with the lengths of `like`; NULL where `like` is NULL."""
    lengths = pc.fill_null(pc.list_value_length(like), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, items, mask=pc.is_null(like))


def _vectors(values: pa.Array, target: PropertyType) -> pa.Array | None:
    items = values.flatten()
    lengths = pc.list_value_length(values)
    if items.null_count or not pc.all(pc.equal(lengths, target.dimension), min_count=0).as_py():
        return None
    flat = _finite(items.cast(pa.float32(), safe=False))
    if flat is None:
        return None
    return _pack_vectors(flat, values, target)


def _pack_vectors(flat: pa.Array, values: pa.Array, target: PropertyType) -> pa.Array:
    """Make vectors from consecutive numbers; NULL where `values` is NULL."""
    packed = pa.FixedSizeListArray.from_arrays(flat, target.dimension).cast(target.arrow)
    if not values.null_count:
        return packed
    present = values.is_valid().to_numpy(zero_copy_only=False)
    indexes = pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present)
    return packed.take(indexes)


def _instants(texts: pa.Array) -> pa.Array | None:
    """Parse instants in UTC in the usual form; None when a text has another form."""
    if not pc.all(pc.match_substring_regex(texts, _INSTANT), min_count=0).as_py() or _year_0(texts):
        return None
    return texts.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).cast(pa.date64())


# ---- whole columns of clean values


def _fast(values: Sequence[Any], target: PropertyType) -> pa.Array | None:
    """Make the column at once when every value surely fits; None otherwise."""
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values), target.arrow)
    if target.is_vector:
        return _fast_vectors(values, target) if kinds == {list} else None
    if target.is_list or target.is_blob:
        return None
    return _fast_scalars(values, target, kinds)


def _fast_scalars(values: Sequence[Any], target: PropertyType, kinds: set[type]) -> pa.Array | None:
    try:
        if target.scalar is Scalar.STRING and kinds == {str}:
            return pa.array(values, pa.string())
        if target.scalar is Scalar.BOOL and kinds == {bool}:
            return pa.array(values, pa.bool_())
        if target.scalar in INTEGERS and kinds == {int}:
            return pa.array(values, target.arrow)
        if target.scalar in _WIDE and kinds == {str}:
            return _read_integers(pa.array(values, pa.string()), target)
        if target.scalar in FLOATS and kinds <= {int, float}:
            return _finite(pa.array(values, pa.float64()).cast(target.arrow))
        if target.scalar is Scalar.DATE and kinds == {str}:
            return _pad_dates(pa.array(values, pa.string()))
        if target.scalar is Scalar.DATETIME and kinds == {str}:
            return _instants(pa.array(values, pa.string()))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return None
    return None


def _read_integers(texts: pa.Array, target: PropertyType) -> pa.Array | None:
    exact = pc.all(pc.match_substring_regex(texts, _DECIMAL), min_count=0).as_py()
    return texts.cast(target.arrow) if exact else None


def _pad_dates(texts: pa.Array) -> pa.Array | None:
    exact = pc.all(pc.equal(pc.utf8_length(texts), 10), min_count=0).as_py()
    return texts.cast(pa.date32()) if exact and not _year_0(texts) else None


def _year_0(texts: pa.Array) -> bool:
    """Whether a text names the year 0, which Arrow accepts and RFC 3339 does not."""
    return bool(pc.any(pc.starts_with(texts, "0000"), min_count=0).as_py())


def _finite(values: pa.Array) -> pa.Array | None:
    return values if pc.all(pc.is_finite(values), min_count=0).as_py() else None


def _fast_vectors(values: Sequence[Any], target: PropertyType) -> pa.Array | None:
    present = [value for value in values if value is not None]
    if any(len(value) != target.dimension for value in present):
        return None
    if {type(item) for value in present for item in value} - {int, float}:
        return None
    with np.errstate(over="ignore"):
        flat = np.asarray(present, dtype=np.float64).astype(np.float32).ravel()
    if not np.isfinite(flat).all():
        return None
    packed = pa.FixedSizeListArray.from_arrays(pa.array(flat), target.dimension).cast(target.arrow)
    if len(present) == len(values):
        return packed
    indexes = np.full(len(values), -1)
    indexes[[i for i, value in enumerate(values) if value is not None]] = np.arange(len(present))
    return packed.take(pa.array(indexes, pa.int64(), mask=indexes < 0))
