"""Record blobs: records from memory as bytes that another process reads; unpickling them cannot run code."""

import io
import pickle
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.errors import UserInputError
from omnigraphdb.limits import RECORDS_WEIGHED

_BLOB: Final = "__records"


def encode_records(records: Sequence[Any]) -> pa.Table:
    """Encode records as a table of one cell."""
    return pa.table({_BLOB: pa.array([_pickle(records)], pa.large_binary())})


def decode_records(rows: pa.Table) -> list[Any]:
    """Decode the records of a table of one cell."""
    records: list[Any] = _Unpickler(io.BytesIO(rows[_BLOB][0].as_buffer())).load()
    return records


def estimate_bytes(records: Sequence[Any]) -> int:
    """Estimate the bytes of records from a sample of them."""
    sample = records[:: -(-len(records) // RECORDS_WEIGHED)] if records else records
    return len(_pickle(sample)) * len(records) // len(sample) if sample else 0


def _pickle(records: Sequence[Any]) -> bytes:
    sink = io.BytesIO()
    try:
        _Pickler(sink, protocol=5).dump(list(records))
    except RecursionError as error:
        raise UserInputError(
            "a record of the source holds a value that is nested too deeply for any property; no changes were made"
        ) from error
    return sink.getvalue()


# ---- values that are not plain


class _Pickler(pickle.Pickler):
    """Pickles values of properties as plain values; of any other value only the type name and text, for the error."""

    def reducer_override(self, value: Any) -> Any:
        if any(value is constructor for constructor in _KNOWN.values()) or type(value) in _PLAIN:
            return NotImplemented
        for kind, reduce in _ACCEPTED.items():
            if isinstance(value, kind):
                return reduce(value)
        number = next((kind for kind in (int, float) if isinstance(value, kind)), None)
        if number is not None:
            return _number, (type(value).__name__, number(value))
        return _make_opaque, (type(value).__name__, str(value))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"a record holds no {module}.{name}")
        return _KNOWN[module, name]


def _number(kind: str, value: int | float) -> Any:
    """Make a number of a type that no property accepts."""
    number_type = type(kind, (type(value),), {})
    return number_type(value)


def _make_opaque(kind: str, text: str) -> Any:
    """Make a value of a type that no property accepts."""
    opaque_type = type(kind, (), {"__str__": lambda _: text, "__repr__": lambda _: text})
    return opaque_type()


def _reduce_moment(value: datetime) -> tuple[Any, ...]:
    offset = value.utcoffset()
    zone = None if offset is None else timezone(offset)
    parts = (value.year, value.month, value.day, value.hour, value.minute, value.second)
    return datetime, (*parts, value.microsecond, zone)


_ACCEPTED: Final[Mapping[type, Any]] = {
    Mapping: lambda value: (dict, (list(value.items()),)),
    str: lambda value: (str, (str.__str__(value),)),
    bytes: lambda value: (bytes, (bytes.__getitem__(value, slice(None)),)),
    list: lambda value: (list, (tuple(value),)),
    tuple: lambda value: (list, (list(value),)),
    datetime: _reduce_moment,
}
"""Kinds that properties accept, subclasses included."""

_PLAIN: Final = (date, timedelta, timezone)
_KNOWN: Final[Mapping[tuple[str, str], Any]] = {
    (constructor.__module__, constructor.__name__): constructor
    for constructor in (
        date,
        datetime,
        timedelta,
        timezone,
        dict,
        str,
        bytes,
        list,
        _number,
        _make_opaque,
    )
}
"""Everything that a record blob may name."""
