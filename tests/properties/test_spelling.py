"""Lines that are spelled column by column say what records spelled one by one say."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.model import TableType
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.catalog.values import to_arrow
from omnigraphdb.engine.history import export
from omnigraphdb.engine.history.export import batch_records
from omnigraphdb.errors import DataError

CATALOG = compile_schema(
    """
    node All {
      key: String @key
      flag: Bool?  small: I32?  big: I64?  bits: U32?  huge: U64?  real: F32?  wide: F64?
      day: Date?  at: DateTime?  kind: enum(a, b)?  sig: Vector(3)?
      tags: [String]?  days: [Date]?  moments: [DateTime]?  numbers: [F64]?  flags: [Bool]?
    }
    edge Goes: All -> All { note: String? }
    """
)
texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "\\", "\x00\x1f", "\x7f\u2028é日", "null", "[1]", ""]
)
floats = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(allow_nan=False, allow_infinity=False, width=32)
days = st.dates(date(1, 1, 1), date(9999, 12, 31))
moments = st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 1)).map(
    lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)
)
values: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "small": st.integers(-(2**31), 2**31 - 1),
    "big": st.integers(-(2**63), 2**63 - 1),
    "bits": st.integers(0, 2**32 - 1),
    "huge": st.integers(0, 2**64 - 1),
    "real": singles,
    "wide": floats | st.sampled_from([-0.0, 1.0, 1e16, 1e22, 5e-324, 123456789.0]),
    "day": days,
    "at": moments,
    "kind": st.sampled_from("ab"),
    "sig": st.lists(singles, min_size=3, max_size=3),
    "tags": st.lists(texts, max_size=3),
    "days": st.lists(days, max_size=2),
    "moments": st.lists(moments, max_size=2),
    "numbers": st.lists(floats, max_size=2),
    "flags": st.lists(st.booleans(), max_size=2),
}
rows = st.lists(
    st.fixed_dictionaries({"id": texts, "key": texts, **{n: st.none() | v for n, v in values.items()}}),
    max_size=5,
)  # fmt: skip


def batch_of(type_: TableType, some: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = []
    for field in type_.schema:
        found = [row[field.name] for row in some]
        if field.name in type_.properties:
            columns.append(to_arrow(found, type_.properties[field.name].type))
        else:
            columns.append(pa.array(found, field.type))
    return pa.RecordBatch.from_arrays(columns, names=type_.schema.names)


def one_by_one(batch: pa.RecordBatch, type_: TableType) -> list[str]:
    return [_exact(json.loads(json.dumps(one))) for one in batch_records(batch, type_)]


def _exact(record: Any) -> str:
    """A record with its numbers as they are: 1 is not 1.0, and neither is -0.0 the same as 0.0."""
    return repr(record)


def spelled(batch: pa.RecordBatch, type_: TableType) -> list[str]:
    whole = b"".join(memoryview(one) for one in export.lines(batch, type_)).decode()
    lines = whole.split("\n")
    assert lines.pop() == ""
    return [_exact(json.loads(line)) for line in lines]


@given(some=rows, skip=st.integers(0, 2))
def test_every_type_is_spelled_as_a_record_is(some: list[dict[str, Any]], skip: int) -> None:
    type_ = CATALOG.table("All")
    batch = batch_of(type_, some).slice(skip)
    assert spelled(batch, type_) == one_by_one(batch, type_)


@given(some=st.lists(st.tuples(texts, texts, texts, st.none() | texts), max_size=4))
def test_edges_are_spelled_with_their_ends(some: list[tuple[str, ...]]) -> None:
    type_ = CATALOG.table("Goes")
    names = ("id", "src", "dst", "note")
    batch = batch_of(type_, [dict(zip(names, one, strict=True)) for one in some])
    assert spelled(batch, type_) == one_by_one(batch, type_)


def test_a_large_batch_is_spelled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "SPELLED_BYTES", 50)
    type_ = CATALOG.table("Goes")
    some = [{"id": f"{n}", "src": "a", "dst": "b", "note": None} for n in range(50)]
    batch = batch_of(type_, some)
    assert len(list(export.lines(batch, type_))) > 10
    assert spelled(batch, type_) == one_by_one(batch, type_)


def test_a_number_that_json_cannot_spell_is_refused() -> None:
    type_ = CATALOG.table("All")
    row = dict.fromkeys(type_.schema.names) | {"id": "a", "key": "a", "wide": float("inf")}
    columns = [pa.array([row[field.name]], field.type) for field in type_.schema]
    batch = pa.RecordBatch.from_arrays(columns, names=type_.schema.names)
    with pytest.raises(DataError, match="not finite"):
        list(export.lines(batch, type_))
