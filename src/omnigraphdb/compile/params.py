"""Parameters as given by a caller, bound to the types a query declares."""

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.types import INTEGERS, PropertyType, Scalar
from omnigraphdb.catalog.values import (
    F32_MAX,
    Misfit,
    fit,
    item_type,
    parse_date,
    parse_datetime,
    parse_integer,
    to_arrow,
    to_utc,
)
from omnigraphdb.compile.checked import Checked, CheckedRead, Parameter, ParameterRule, ParamRef
from omnigraphdb.errors import ParamError, did_you_mean, shorten, suggestion
from omnigraphdb.values import dataclass, replace

_OUT_OF_RANGE = ("P02", "a number out of range")


def bind(
    declared: Mapping[str, Parameter], arguments: Mapping[str, Any] | None, *, strict: bool = False
) -> dict[str, object]:
    """Turn argument values into typed Python values, one per declared parameter; absent parameters are None.

    Undeclared names are ignored, or refused when `strict`.
    """
    values = _mapping(declared, arguments)
    _refuse_names(declared, values, strict=strict)
    return {name: _one(parameter, values, declared) for name, parameter in declared.items()}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """The reason why a value does not bind: a code, the expected value and the actual value."""

    code: str
    expected: str
    actual: str


def _mapping(declared: Mapping[str, Parameter], arguments: object) -> Mapping[str, Any]:
    if arguments is None:
        return {}
    if isinstance(arguments, Mapping):
        return arguments
    refusal = _Refusal("P01", "an object of parameters by name", _kind(arguments))
    raise _error("params", arguments, refusal, declared)


def _refuse_names(
    declared: Mapping[str, Parameter], values: Mapping[str, Any], *, strict: bool
) -> None:
    """Refuse missing names, and undeclared names when `strict`; all at once, since one may be the other, misspelled."""
    unknown = [str(name) for name in values if name not in declared]
    for name in unknown:
        if isinstance(values.get(name), Mapping):
            refusal = _Refusal("P01", "no object as a value", "object")
            raise _error(name, values[name], refusal, declared)
    missing = [p for p in declared.values() if p.name not in values and not p.type.nullable]
    if not missing and not (unknown and strict):
        return
    messages = [f"parameter '{param.name}' ({param.type}) is missing" for param in missing]
    messages += [
        f"there is no parameter '{name}'{suggestion(did_you_mean(name.lstrip('$'), declared))}"
        for name in unknown
    ]
    names = ", and ".join(messages)
    end = "" if names.endswith("?") else "."
    message = f"{names}{end} Nothing was run. Declared parameters: {_list_declared(declared)}"
    if missing:
        first = missing[0]
        raise ParamError(first.name, "P06", message, expected=str(first.type), got="nothing")
    raise ParamError(
        unknown[0], "P01", message, expected="a declared parameter", got="an undeclared name"
    )


def _list_declared(declared: Mapping[str, Parameter]) -> str:
    return ", ".join(f"${param.name}: {param.type}" for param in declared.values()) or "none"


def _one(
    parameter: Parameter, values: Mapping[str, Any], declared: Mapping[str, Parameter]
) -> object:
    name = parameter.name
    if name not in values:
        return None
    value = to_native(values[name])
    if value is None and not parameter.type.nullable:
        refusal = _Refusal("P05", f"{parameter.type}, which cannot be null", "null")
        raise _error(name, None, refusal, declared)
    typed_value = None if value is None else _to_declared(value, parameter.type)
    if isinstance(typed_value, _Refusal):
        raise _error(name, values[name], typed_value, declared)
    return typed_value


def _error(
    name: str, value: object, refusal: _Refusal, declared: Mapping[str, Parameter]
) -> ParamError:
    quoted = f" '{shorten(value)}'" if value is not None else ""
    message = (
        f"parameter '{name}' takes {refusal.expected}; got {refusal.actual}{quoted}."
        f" Nothing was run. Declared parameters: {_list_declared(declared)}"
    )
    expected = str(declared[name].type) if name in declared else refusal.expected
    return ParamError(name, refusal.code, message, expected=expected, got=refusal.actual)


# ---- values


_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_native(value: object) -> object:
    """Return the plain Python value behind a numpy or Arrow value."""
    if type(value) in _PLAIN:
        return value
    match value:
        case np.datetime64():
            unit = "D" if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D") else "ms"
            return value.astype(f"datetime64[{unit}]").item()
        case np.ndarray() if np.issubdtype(value.dtype, np.datetime64):
            return [to_native(item) for item in value]
        case np.generic() | np.ndarray():
            return value.tolist()
        case pa.Scalar():
            return value.as_py()
        case pa.Array() | pa.ChunkedArray() | pa.Table() | pa.RecordBatch():
            return value.to_pylist()
        case _:
            return value


def _to_declared(value: object, declared: PropertyType) -> object | _Refusal:
    if declared.fields:
        return _records(value, declared)
    if declared.is_vector:
        return _vector(value, declared)
    if declared.is_list:
        return _list(value, declared)
    match declared.scalar:
        case Scalar.STRING:
            return _text(value, declared)
        case Scalar.BOOL:
            return value if isinstance(value, bool) else _make_type_refusal(value, declared)
        case Scalar.BLOB:
            return _blob(value, declared)
        case Scalar.DATE:
            return _date(value, declared)
        case Scalar.DATETIME:
            return _datetime(value, declared)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64 | Scalar.F32 | Scalar.F64:
            return _number(value, declared)


def _make_type_refusal(value: object, declared: PropertyType) -> _Refusal:
    return _Refusal("P01", str(declared.required()), _kind(value))


def _text(value: object, declared: PropertyType) -> object | _Refusal:
    if not isinstance(value, str):
        return _make_type_refusal(value, declared)
    try:
        value.encode()
    except UnicodeEncodeError:
        return _Refusal("P01", f"{declared.required()} as UTF-8", "text with half a surrogate pair")
    return value


def _number(value: object, declared: PropertyType) -> object | _Refusal:
    is_integer = declared.scalar in INTEGERS
    if is_integer and isinstance(value, str):
        integer = parse_integer(value)
        if integer is None:
            return _Refusal("P01", f"{declared.required()} or its decimal text", "text")
        value = integer
    allowed = (int,) if is_integer else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        return _make_type_refusal(value, declared)
    if isinstance(value, float) and not math.isfinite(value):
        return _Refusal("P01", f"a finite {declared.required()}", "a number that is not finite")
    number = fit(value, declared)
    if isinstance(number, Misfit):
        unsigned = declared.scalar in (Scalar.U32, Scalar.U64)
        code, actual = ("P01", "a negative number") if unsigned and value < 0 else _OUT_OF_RANGE
        return _Refusal(code, f"{declared.required()}: {number.reason}", actual)
    return number


def _date(value: object, declared: PropertyType) -> object | _Refusal:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return _make_type_refusal(value, declared)
    return parse_date(value) or _Refusal("P03", "a date as YYYY-MM-DD", "text")


def _datetime(value: object, declared: PropertyType) -> object | _Refusal:
    match value:
        case datetime():
            return to_utc(value)
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case str():
            return parse_datetime(value) or _Refusal("P03", "an instant as RFC 3339 text", "text")
        case _:
            return _make_type_refusal(value, declared)


def _blob(value: object, declared: PropertyType) -> object | _Refusal:
    if isinstance(value, bytes | bytearray | memoryview):
        return "base64:" + base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, str):
        return _text(value, declared)
    return _Refusal("P01", "'base64:…', a URI, or bytes", _kind(value))


def _list(value: object, declared: PropertyType) -> object | _Refusal:
    if not isinstance(value, list | tuple):
        return _make_type_refusal(value, declared)
    items = []
    for position, item in enumerate(value):
        typed_item = (
            _to_declared(to_native(item), item_type(declared)) if item is not None else None
        )
        if typed_item is None:
            return _Refusal("P01", f"{declared.required()} without null", f"null at {position}")
        if isinstance(typed_item, _Refusal):
            return _Refusal(
                typed_item.code, f"{declared.required()}", f"{typed_item.actual} at {position}"
            )
        items.append(typed_item)
    return tuple(items)


# ---- records, as columns: a mutation may bring thousands of them


def _records(value: object, declared: PropertyType) -> object | _Refusal:
    """Turn records into a table, one column per field; a field that a record leaves out is NULL."""
    if not isinstance(value, list | tuple):
        return _make_type_refusal(value, declared)
    for position, record in enumerate(value):
        if not isinstance(record, Mapping):
            return _Refusal("P01", f"{declared.required()}", f"{_kind(record)} at {position}")
    names = [name for name, _ in declared.fields]
    unknown = set[object]().union(*value).difference(names)
    if unknown:
        return _refuse_field(value, unknown, declared)
    columns: dict[str, pa.Array] = {}
    for name, type_ in declared.fields:
        column = _record_column([record.get(name) for record in value], type_)
        if isinstance(column, _Refusal):
            return _Refusal(column.code, f"{declared.required()}", f"{column.actual}, '{name}'")
        columns[name] = column
    table: object = pa.table(columns)
    return table


def _refuse_field(
    records: Sequence[Mapping[Any, object]], unknown: set[object], declared: PropertyType
) -> _Refusal:
    position = next(index for index, record in enumerate(records) if unknown.intersection(record))
    name = next(field_name for field_name in records[position] if field_name in unknown)
    return _Refusal("P01", f"{declared.required()}", f"the unknown field '{name}' at {position}")


def _record_column(values: list[object], declared: PropertyType) -> pa.Array | _Refusal:
    """Bind one field of all records at once if all values are plainly of its type, else value by value."""
    column = _plain_column(values, declared)
    if column is None:
        typed_values = []
        for position, value in enumerate(values):
            typed_value = None if value is None else _to_declared(to_native(value), declared)
            if isinstance(typed_value, _Refusal):
                return _Refusal(
                    typed_value.code, typed_value.expected, f"{typed_value.actual} at {position}"
                )
            typed_values.append(typed_value)
        kind = Scalar.STRING if declared.is_blob else declared.scalar
        column = to_arrow(typed_values, replace(declared, scalar=kind))
    if column.null_count and not declared.nullable:
        position = pc.index(column.is_null(), True).as_py()
        return _Refusal("P05", str(declared), f"null at {position}")
    return column


_PLAIN_KINDS: Mapping[Scalar, type] = {
    Scalar.STRING: str,
    Scalar.BOOL: bool,
    Scalar.I32: int,
    Scalar.I64: int,
    Scalar.U32: int,
    Scalar.U64: int,
    Scalar.F64: float,
}


def _plain_column(values: list[object], declared: PropertyType) -> pa.Array | None:
    """Return the column of values that have exactly the type of their field; None when a value needs a closer look."""
    python_type = _PLAIN_KINDS.get(declared.scalar)
    if (
        not declared.is_plain
        or python_type is None
        or not set(map(type, values)) <= {python_type, type(None)}
    ):
        return None
    try:
        column = pa.array(values, declared.arrow)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return None
    is_float = declared.scalar is Scalar.F64
    return None if is_float and not pc.all(pc.is_finite(column), min_count=0).as_py() else column


def _vector(value: object, declared: PropertyType) -> object | _Refusal:
    if not isinstance(value, list | tuple):
        return _make_type_refusal(value, declared)
    if len(value) != declared.dimension:
        expected = f"{declared.required()}, an array of {declared.dimension} numbers"
        return _Refusal("P04", expected, f"an array of {len(value)}")
    return _numbers(value) or _list(value, declared)


def _numbers(value: list[object] | tuple[object, ...]) -> tuple[float, ...] | None:
    """Check a plain vector at once; item by item a long one takes milliseconds."""
    if not set(map(type, value)) <= {int, float}:
        return None
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except OverflowError:
        return None
    return tuple(numbers.tolist()) if np.all(np.abs(numbers) <= F32_MAX) else None


def _kind(value: object) -> str:
    """Return the type of a value in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "text"
        case list() | tuple():
            return "array"
        case Mapping():
            return "object"
        case _:
            return type(value).__name__


# ---- uses
# Rules for a parameter where a query uses it, beyond its declared type.


def bind_arguments(
    checked: Checked, arguments: Mapping[str, Any] | None, *, strict: bool = False
) -> dict[str, object]:
    """Bind the parameters of a query and hold each to the use that is made of it.

    A text to search for, a vector to rank by, a limit and an offset cannot be NULL; a limit, an
    offset and an edit distance cannot be negative, and the constant of a fusion must be positive.
    """
    values = bind(checked.params, arguments, strict=strict)
    reads = (checked,) if isinstance(checked, CheckedRead) else checked.matches
    for demand in (demand for read in reads for demand in read.demands):
        _require(demand, values[demand.parameter.name])
    return values


def _require(demand: ParameterRule, value: object) -> None:
    parameter, word, minimum = demand.parameter, demand.word, demand.least
    if value is None:
        raise _make_refusal(parameter, "P05", f"{word} cannot be null", "null")
    if minimum is not None and isinstance(value, int) and value < minimum:
        raise _make_refusal(parameter, "P02", f"{word} must be at least {minimum}", shorten(value))


def _make_refusal(reference: ParamRef, code: str, rule: str, actual: str) -> ParamError:
    message = (
        f"parameter '{reference.name}' ({reference.type}): {rule}, got {actual}. Nothing was run"
    )
    return ParamError(reference.name, code, message, expected=str(reference.type), got=actual)
