"""Records and values of a load: what is accepted, and what each refusal names."""

import gzip
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.catalog.model import Catalog, Columns, EdgeType, NodeType, Property
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.commit.changes import ChangeKind, TableChange
from omnigraph.pipeline.entities import table_change
from omnigraph.pipeline.frames import frame_change, read_frame
from omnigraph.pipeline.identity import fresh_ids
from omnigraph.pipeline.records import Records, open_lines, read_lines, read_records
from omnigraph.runtime import SYSTEM


def prop(name: str, scalar: Scalar, **facts: Any) -> Property:
    return Property(name=name, type=PropertyType(scalar=scalar, **{"nullable": True} | facts))


def properties(*found: Property) -> dict[str, Property]:
    return {one.name: one for one in found}


STALL = NodeType(
    name="Stall",
    properties=properties(
        prop("code", Scalar.STRING, nullable=False),
        prop("fee", Scalar.I32),
        prop("rate", Scalar.F32),
        prop("day", Scalar.DATE),
        prop("at", Scalar.DATETIME),
        prop("tags", Scalar.STRING, is_list=True),
        prop("sig", Scalar.F32, dimension=3),
        prop("scan", Scalar.BLOB),
        prop("open", Scalar.BOOL),
        prop("big", Scalar.U64),
    ),
    key=Columns(("code",)),
)
MEMO = NodeType(name="Memo", properties=properties(prop("text", Scalar.STRING, nullable=False)))
SLOT = NodeType(
    name="Slot",
    properties=properties(
        prop("year", Scalar.I32, nullable=False), prop("code", Scalar.STRING, nullable=False)
    ),
    key=Columns(("code", "year")),
)
BESIDE = EdgeType(
    name="Beside", source="Stall", target="Stall", properties=properties(prop("km", Scalar.F64))
)
CATALOG = Catalog(nodes={t.name: t for t in (STALL, MEMO, SLOT)}, edges={"Beside": BESIDE})


def stall(**data: Any) -> dict[str, Any]:
    return {"type": "Stall", "data": {"code": "x"} | data}


def changed(records: Records, kind: ChangeKind = ChangeKind.APPEND) -> list[TableChange | None]:
    return [
        table_change(records.tables[key], kind, records, SYSTEM) for key in sorted(records.tables)
    ]


def one(record: Mapping[str, Any], kind: ChangeKind = ChangeKind.APPEND) -> dict[str, Any]:
    records = read_records([record], CATALOG)
    (change,) = changed(records, kind)
    assert change is not None, records.problems.kept
    row: dict[str, Any] = change.rows.to_pylist()[0]
    return row


def refusal(*found: Any, kind: ChangeKind = ChangeKind.APPEND) -> tuple[str, str]:
    records = read_records(found, CATALOG)
    changed(records, kind)
    assert records.problems.total >= 1
    return records.problems.kept[0].rule, str(records.problems.kept[0])


@pytest.mark.parametrize(
    ("record", "rule", "words"),
    [
        (5, "J02", ["record 1", "object"]),
        ({"data": {}}, "J02", ["neither"]),
        ({"type": "Stall", "edge": "Beside"}, "J02", ["both"]),
        ({"type": "Stal", "data": {}}, "J03", ["Stal", "did you mean 'Stall'"]),
        ({"type": 7}, "J03", ["7"]),
        ({"edge": "Beside", "from": "a"}, "J04", ["'to'", "missing"]),
        ({"edge": "Beside", "from": 5, "to": "b"}, "J04", ["'from'", "5"]),
        (stall(colour="red"), "J05", ["colour", "Stall"]),
        ({"type": "Stall", "date": {}}, "J05", ["date", "did you mean 'data'"]),
        ({"type": "Stall", "_rowid": 4}, "J08", ["_rowid"]),
        ({"edge": "Beside", "from": "a", "to": "b", "data": {"src": "z"}}, "J08", ["src"]),
        ({"type": "Stall", "data": [1]}, "J02", ["data"]),
        (stall(fee="5"), "J07", ["fee", "I32", "5"]),
        (stall(fee=5.0), "J07", ["fee"]),
        (stall(fee=True), "J07", ["fee", "boolean"]),
        (stall(fee=2**31), "J07", ["fee", "2147483648"]),
        (stall(big=-1), "J07", ["big", "-1"]),
        (stall(rate=1e39), "J07", ["rate"]),
        (stall(rate="1"), "J07", ["rate"]),
        (stall(open="yes"), "J07", ["open"]),
        (stall(day="01.02.2024"), "J07", ["day", "YYYY-MM-DD", "01.02.2024"]),
        (stall(day="2024-02-30"), "J07", ["day"]),
        (stall(at="yesterday"), "J07", ["at", "RFC 3339"]),
        (stall(sig=[1.0, 2.0]), "J12", ["sig", "3", "2"]),
        (stall(sig=[1.0, None, 2.0]), "J12", ["sig", "item 1"]),
        (stall(sig="x"), "J12", ["sig"]),
        (stall(tags="x"), "J13", ["tags"]),
        (stall(tags=["x", 5]), "J07", ["tags", "item 1"]),
        (stall(tags=["x", None]), "J07", ["tags"]),
        (stall(scan=5), "J07", ["scan"]),
        (stall(scan="base64:***"), "W24", ["scan"]),
        (stall(scan="s3://elsewhere/x"), "W22", ["scan", "s3://elsewhere/x"]),
        ({"type": "Memo", "data": {}}, "J14", ["text", "missing"]),
        ({"type": "Memo", "data": {"text": None}}, "J14", ["text"]),
        ({"type": "Memo", "data": {"text": "a", "id": 5}}, "J09", ["Memo", "5"]),
        (stall(id="other"), "J10", ["other", "x"]),
    ],
)
def test_a_wrong_record_is_refused_by_rule_and_named(
    record: Any, rule: str, words: list[str]
) -> None:
    found, text = refusal(record)
    assert found == rule, text
    assert all(word in text for word in words), text


def test_values_are_stored_as_their_type_says() -> None:
    row = one(
        stall(
            fee=-5,
            rate=2,
            day="2024-01-01",
            at="2024-01-01T12:00:00+02:00",
            tags=["b", "a"],
            sig=[1, 2.5, -3],
            scan="base64:AQID",
            big=2**64 - 1,
        )
    )
    assert row["id"] == "x"
    assert (row["fee"], row["rate"], row["day"]) == (-5, 2.0, date(2024, 1, 1))
    assert (row["tags"], row["sig"], row["big"]) == (["b", "a"], [1.0, 2.5, -3.0], 2**64 - 1)
    assert row["scan"] == b"\x01\x02\x03"


@pytest.mark.parametrize(
    "value",
    ["2024-01-01T10:00:00Z", 1704103200000, datetime(2024, 1, 1, 10, tzinfo=UTC)],
    ids=["text", "milliseconds", "python"],
)
def test_an_instant_has_several_spellings(value: object) -> None:
    records = read_records([stall(at=value)], CATALOG)
    (change,) = changed(records)
    assert change is not None
    assert change.rows["at"].cast(pa.int64()).to_pylist() == [1704103200000]


def test_an_empty_list_an_empty_blob_and_null_are_three_things() -> None:
    row = one(stall(tags=[], scan="base64:"))
    assert (row["tags"], row["scan"], row["sig"]) == ([], b"", None)


def test_a_composite_key_gives_a_json_array_in_name_order() -> None:
    assert one({"type": "Slot", "data": {"year": 2026, "code": "N"}})["id"] == '["N","2026"]'


def test_the_same_key_twice_names_both_records_in_every_mode() -> None:
    for kind in (ChangeKind.APPEND, ChangeKind.MERGE, ChangeKind.REPLACE):
        rule, text = refusal(stall(), stall(code="y"), stall(), kind=kind)
        assert rule == "W13"
        assert "record 1 and in record 3" in text


def test_the_same_explicit_id_twice_is_refused_except_that_the_last_wins_in_a_merge() -> None:
    twins = [{"type": "Memo", "data": {"id": "m", "text": text}} for text in "ab"]
    assert refusal(*twins)[0] == "W20"
    assert refusal(*twins, kind=ChangeKind.REPLACE)[0] == "W20"
    (change,) = changed(read_records(twins, CATALOG), ChangeKind.MERGE)
    assert change is not None
    assert change.rows.to_pylist() == [{"id": "m", "text": "b"}]


def test_records_without_ids_get_fresh_ones_that_sort() -> None:
    records = read_records([{"type": "Memo", "data": {"text": str(i)}} for i in range(50)], CATALOG)
    (change,) = changed(records)
    assert change is not None
    ids = change.ids.to_pylist()
    assert sorted(set(ids)) == ids
    assert all(len(one) == 26 for one in ids)


def test_fresh_ids_never_overflow_their_counted_part() -> None:
    ids = fresh_ids("7" + "Z" * 25, 5).to_pylist()
    assert sorted(set(ids)) == ids
    assert {one[:16] for one in ids} == {"7" + "Z" * 15}


LINES = b'{"type":"Stall","data":{"code":"a"}}\n\n{"type":"Stall","data":{"code":\n'


def test_a_file_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(LINES)
    records = read_lines(open_lines(path), CATALOG, str(path))
    assert [(p.rule, p.line) for p in records.problems.kept] == [("J01", 3)]
    assert "column" in str(records.problems.kept[0])


def test_a_compressed_file_is_read_like_a_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(LINES[:37]))
    records = read_lines(open_lines(path), CATALOG, str(path))
    assert (records.problems.total, len(records.tables["node:Stall"].data)) == (0, 1)


@pytest.mark.parametrize(
    ("line", "rule", "word"),
    [
        (b'{"type":"Stall","data":{"code":"a","code":"b"}}', "J06", "code"),
        (b'{"type":"Stall","type":"Stall"}', "J06", "type"),
        (b'// {"type":"Stall"}', "J01", "not JSON"),
        (b'{"type":"Stall","data":{"code":NaN}}', "J01", "NaN"),
        (b"\xff\xfe", "J01", "UTF-8"),
        (b"[" * 100_000, "J01", "not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_refused(line: bytes, rule: str, word: str) -> None:
    records = read_lines([line], CATALOG, "f.jsonl")
    assert records.problems.kept[0].rule == rule
    assert word in str(records.problems.kept[0])


def test_twenty_problems_are_kept_and_all_are_counted() -> None:
    records = read_lines([b"nonsense"] * 50, CATALOG, "f.jsonl")
    assert (len(records.problems.kept), records.problems.total) == (20, 50)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_a_frame_of_any_library_gives_the_same_rows(library: str) -> None:
    frame: Any = pa.table(
        {
            "code": ["a", "b"],
            "fee": pa.array([1, None], pa.int64()),
            "rate": [0.5, 1.5],
            "day": pa.array([date(2024, 1, 1), None], pa.date32()),
        }
    )
    if library == "pandas":
        frame = frame.select(["code", "rate"]).to_pandas()
    if library == "polars":
        polars = pytest.importorskip("polars")
        frame = polars.from_arrow(frame)
    records = Records()
    change = frame_change(STALL, read_frame(frame, "Stall"), ChangeKind.APPEND, records, SYSTEM)
    assert change is not None, records.problems.kept
    assert change.rows.select(["id", "code", "rate"]).to_pylist() == [
        {"id": "a", "code": "a", "rate": 0.5},
        {"id": "b", "code": "b", "rate": 1.5},
    ]
    assert change.rows.schema.field("fee").type == pa.int32()


@pytest.mark.parametrize(
    ("columns", "rule", "word"),
    [
        ({"code": ["a"], "fee": [2**31]}, "J07", "fee"),
        ({"code": ["a"], "fee": [1.5]}, "J07", "fee"),
        ({"code": ["a"], "rate": [float("inf")]}, "J07", "rate"),
        ({"code": ["a"], "feee": [1]}, "J05", "did you mean 'fee'"),
        ({"code": [None]}, "J14", "code"),
        ({"fee": [1]}, "J14", "code"),
        ({"code": ["a", "a"]}, "W13", "record 1 and in record 2"),
        ({"code": ["a"], "sig": [[1.0, 2.0]]}, "J12", "sig"),
        ({"code": ["a"], "id": ["b"]}, "J10", "contradicts"),
    ],
)
def test_a_wrong_frame_is_refused_by_row(columns: dict[str, Any], rule: str, word: str) -> None:
    records = Records()
    assert frame_change(STALL, pa.table(columns), ChangeKind.APPEND, records, SYSTEM) is None
    assert records.problems.kept[0].rule == rule, records.problems.kept
    assert word in str(records.problems.kept[0])


def test_an_edge_frame_takes_either_spelling_of_its_ends() -> None:
    for names in (("src", "dst"), ("from", "to")):
        records = Records()
        frame = pa.table({names[0]: ["a"], names[1]: ["b"], "km": [1]})
        change = frame_change(BESIDE, frame, ChangeKind.APPEND, records, SYSTEM)
        assert change is not None, records.problems.kept
        assert change.rows.select(["src", "dst", "km"]).to_pylist() == [
            {"src": "a", "dst": "b", "km": 1.0}
        ]


def test_vectors_with_gaps_keep_their_places() -> None:
    rows = [stall(code=str(i), sig=None if i % 2 else [i, i, i]) for i in range(6)]
    (change,) = changed(read_records(rows, CATALOG))
    assert change is not None
    found = change.rows["sig"].to_pylist()
    assert found == [None if i % 2 else [i, i, i] for i in range(6)]
    assert change.rows.schema.field("sig").type == STALL.properties["sig"].type.arrow
