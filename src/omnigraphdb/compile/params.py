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
from omnigraphdb.compile.checked import Checked, CheckedRead, Demand, Parameter, ParamRef
from omnigraphdb.errors import ParamError, did_you_mean, shorten, suggestion
from omnigraphdb.values import dataclass, replace

_OUT_OF_RANGE = ("P02", "a number out of range")


def bind(
    declared: Mapping[str, Parameter], given: Mapping[str, Any] | None, *, strict: bool = False
) -> dict[str, object]:
    """Turn given values into typed Python values, one per declared parameter; absent ones are None.

    Undeclared names are ignored, or refused when `strict`.
    """
    values = _mapping(declared, given)
    _refuse_names(declared, values, strict=strict)
    return {name: _one(parameter, values, declared) for name, parameter in declared.items()}


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a value does not bind: a code, what was wanted and what came."""

    code: str
    wanted: str
    came: str


def _mapping(declared: Mapping[str, Parameter], given: object) -> Mapping[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return given
    refusal = _Refusal("P01", "an object of parameters by name", _kind(given))
    raise _error("params", given, refusal, declared)


def _refuse_names(
    declared: Mapping[str, Parameter], values: Mapping[str, Any], *, strict: bool
) -> None:
    """Refuse names that are missing, or not declared when `strict`; all of them at once, since one may be the other."""
    unknown = [str(name) for name in values if name not in declared]
    for name in unknown:
        if isinstance(values.get(name), Mapping):
            refusal = _Refusal("P01", "no object as a value", "object")
            raise _error(name, values[name], refusal, declared)
    missing = [p for p in declared.values() if p.name not in values and not p.type.nullable]
    if not missing and not (unknown and strict):
        return
    said = [f"parameter '{one.name}' ({one.type}) is missing" for one in missing]
    said += [
        f"there is no parameter '{name}'{suggestion(did_you_mean(name.lstrip('$'), declared))}"
        for name in unknown
    ]
    names = ", and ".join(said)
    end = "" if names.endswith("?") else "."
    message = f"{names}{end} Nothing was run. Declared parameters: {_list_declared(declared)}"
    if missing:
        first = missing[0]
        raise ParamError(first.name, "P06", message, expected=str(first.type), got="nothing")
    raise ParamError(
        unknown[0], "P01", message, expected="a declared parameter", got="an undeclared name"
    )


def _list_declared(declared: Mapping[str, Parameter]) -> str:
    return ", ".join(f"${one.name}: {one.type}" for one in declared.values()) or "none"


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
    found = None if value is None else _to_declared(value, parameter.type)
    if isinstance(found, _Refusal):
        raise _error(name, values[name], found, declared)
    return found


def _error(
    name: str, value: object, refusal: _Refusal, declared: Mapping[str, Parameter]
) -> ParamError:
    shown = f" '{shorten(value)}'" if value is not None else ""
    message = (
        f"parameter '{name}' takes {refusal.wanted}; got {refusal.came}{shown}."
        f" Nothing was run. Declared parameters: {_list_declared(declared)}"
    )
    expected = str(declared[name].type) if name in declared else refusal.wanted
    return ParamError(name, refusal.code, message, expected=expected, got=refusal.came)


# ---- values


_PLAIN = frozenset({str, int, float, bool, type(None)})


def to_native(value: object) -> object:
    """The plain Python value behind a numpy or Arrow one."""
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
    whole = declared.scalar in INTEGERS
    if whole and isinstance(value, str):
        read = parse_integer(value)
        if read is None:
            return _Refusal("P01", f"{declared.required()} or its decimal text", "text")
        value = read
    allowed = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed):
        return _make_type_refusal(value, declared)
    if isinstance(value, float) and not math.isfinite(value):
        return _Refusal("P01", f"a finite {declared.required()}", "a number that is not finite")
    found = fit(value, declared)
    if isinstance(found, Misfit):
        unsigned = declared.scalar in (Scalar.U32, Scalar.U64)
        code, came = ("P01", "a negative number") if unsigned and value < 0 else _OUT_OF_RANGE
        return _Refusal(code, f"{declared.required()}: {found.reason}", came)
    return found


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
    found = []
    for position, item in enumerate(value):
        one = _to_declared(to_native(item), item_type(declared)) if item is not None else None
        if one is None:
            return _Refusal("P01", f"{declared.required()} without null", f"null at {position}")
        if isinstance(one, _Refusal):
            return _Refusal(one.code, f"{declared.required()}", f"{one.came} at {position}")
        found.append(one)
    return tuple(found)


# ---- records, as columns: a mutation may bring thousands of them


def _records(value: object, declared: PropertyType) -> object | _Refusal:
    """Turn records into a table, one column per field; a field that a record leaves out is NULL."""
    if not isinstance(value, list | tuple):
        return _make_type_refusal(value, declared)
    for position, one in enumerate(value):
        if not isinstance(one, Mapping):
            return _Refusal("P01", f"{declared.required()}", f"{_kind(one)} at {position}")
    names = [name for name, _ in declared.fields]
    unknown = set[object]().union(*value).difference(names)
    if unknown:
        return _refuse_field(value, unknown, declared)
    columns: dict[str, pa.Array] = {}
    for name, type_ in declared.fields:
        column = _record_column([one.get(name) for one in value], type_)
        if isinstance(column, _Refusal):
            return _Refusal(column.code, f"{declared.required()}", f"{column.came}, '{name}'")
        columns[name] = column
    table: object = pa.table(columns)
    return table


def _refuse_field(
    records: Sequence[Mapping[Any, object]], unknown: set[object], declared: PropertyType
) -> _Refusal:
    position = next(at for at, one in enumerate(records) if unknown.intersection(one))
    name = next(one for one in records[position] if one in unknown)
    return _Refusal("P01", f"{declared.required()}", f"the unknown field '{name}' at {position}")


def _record_column(values: list[object], declared: PropertyType) -> pa.Array | _Refusal:
    """Bind one field of all records at once if all values are plainly of its type, else one by one."""
    column = _plain_column(values, declared)
    if column is None:
        found = []
        for position, value in enumerate(values):
            one = None if value is None else _to_declared(to_native(value), declared)
            if isinstance(one, _Refusal):
                return _Refusal(one.code, one.wanted, f"{one.came} at {position}")
            found.append(one)
        kind = Scalar.STRING if declared.is_blob else declared.scalar
        column = to_arrow(found, replace(declared, scalar=kind))
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
    """The column of values that have exactly the type of their field; None when it takes a closer look."""
    wanted = _PLAIN_KINDS.get(declared.scalar)
    if (
        not declared.is_plain
        or wanted is None
        or not set(map(type, values)) <= {wanted, type(None)}
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
        wanted = f"{declared.required()}, an array of {declared.dimension} numbers"
        return _Refusal("P04", wanted, f"an array of {len(value)}")
    return _numbers(value) or _list(value, declared)


def _numbers(value: list[object] | tuple[object, ...]) -> tuple[float, ...] | None:
    """A plain vector checked at once; item by item a long one takes milliseconds."""
    if not set(map(type, value)) <= {int, float}:
        return None
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except OverflowError:
        return None
    return tuple(numbers.tolist()) if np.all(np.abs(numbers) <= F32_MAX) else None


def _kind(value: object) -> str:
    """A value's type in the words of JSON."""
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
# Parameters where a query uses them: what a value must be beyond its declared type.


def bind_arguments(
    checked: Checked, given: Mapping[str, Any] | None, *, strict: bool = False
) -> dict[str, object]:
    """Bind the parameters of a query and hold each to the use that is made of it.

    A text to search for, a vector to rank by, a limit and an offset cannot be NULL; a limit, an
    offset and an edit distance cannot be negative, and the constant of a fusion must be positive.
    """
    values = bind(checked.params, given, strict=strict)
    reads = (checked,) if isinstance(checked, CheckedRead) else checked.matches
    for demand in (one for read in reads for one in read.demands):
        _require(demand, values[demand.parameter.name])
    return values


def _require(demand: Demand, value: object) -> None:
    parameter, word, least = demand.parameter, demand.word, demand.least
    if value is None:
        raise _make_refusal(parameter, "P05", f"{word} cannot be null", "null")
    if least is not None and isinstance(value, int) and value < least:
        raise _make_refusal(parameter, "P02", f"{word} must be at least {least}", shorten(value))


def _make_refusal(reference: ParamRef, code: str, rule: str, came: str) -> ParamError:
    message = (
        f"parameter '{reference.name}' ({reference.type}): {rule}, got {came}. Nothing was run"
    )
    return ParamError(reference.name, code, message, expected=str(reference.type), got=came)
