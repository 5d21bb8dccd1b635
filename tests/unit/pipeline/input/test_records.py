"""Records and values of a load: what is accepted, and what each refusal names."""

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.model import Catalog, Columns, EdgeType, NodeType, Property
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.commit.delta import DeltaKind, TableDelta
from omnigraphdb.errors import OmniError, Problem
from omnigraphdb.pipeline.input.frames import read_frame, take_frame
from omnigraphdb.pipeline.input.intake import Intake, fresh_ids
from omnigraphdb.pipeline.input.lines import (
    Block,
    take_block,
    take_file,
    take_row_block,
    take_row_file,
)
from omnigraphdb.pipeline.input.records import take_records
from omnigraphdb.runtime import SYSTEM


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


def taken(*records: Any) -> Intake:
    intake = Intake(CATALOG)
    take_records(records, intake)
    return intake


def changed(intake: Intake, kind: DeltaKind = DeltaKind.APPEND) -> list[TableDelta]:
    return list(intake.deltas(kind, SYSTEM))


def one(record: Mapping[str, Any], kind: DeltaKind = DeltaKind.APPEND) -> dict[str, Any]:
    (change,) = changed(taken(record), kind)
    row: dict[str, Any] = change.rows.to_pylist()[0]
    return row


def problems(intake: Intake, kind: DeltaKind = DeltaKind.APPEND) -> list[Problem]:
    intake.deltas(kind, SYSTEM)
    assert intake.problems
    return intake.problems


def refusal(*found: Any, kind: DeltaKind = DeltaKind.APPEND) -> tuple[str, str]:
    first = problems(taken(*found), kind)[0]
    return first.rule, str(first)


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
        (stall(big="-1"), "J07", ["big", "-1", "0 to 18446744073709551615"]),
        (stall(big="18446744073709551616"), "J07", ["big", "18446744073709551616"]),
        (stall(big="007"), "J07", ["big", "007", "decimal text"]),
        (stall(big="7.0"), "J07", ["big", "7.0"]),
        (stall(big=" 7"), "J07", ["big"]),
        (stall(big="٧"), "J07", ["big"]),
        (stall(big=""), "J07", ["big", "text"]),
        (stall(big="9" * 5000), "J07", ["big"]),
        (stall(code=7), "J07", ["code", "String"]),
        (stall(rate=1e39), "J07", ["rate"]),
        (stall(rate="1"), "J07", ["rate"]),
        (stall(open="yes"), "J07", ["open"]),
        (stall(day="01.02.2024"), "J07", ["day", "YYYY-MM-DD", "01.02.2024"]),
        (stall(day="2024-02-30"), "J07", ["day"]),
        (stall(day="0000-01-01"), "J07", ["day"]),
        (stall(day=2932897), "J07", ["day", "2932897"]),
        (stall(at="yesterday"), "J07", ["at", "RFC 3339"]),
        (stall(at="0000-01-01T00:00:00Z"), "J07", ["at"]),
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
    (change,) = changed(taken(stall(at=value)))
    assert change.rows["at"].cast(pa.int64()).to_pylist() == [1704103200000]


def test_an_empty_list_an_empty_blob_and_null_are_three_things() -> None:
    row = one(stall(tags=[], scan="base64:"))
    assert (row["tags"], row["scan"], row["sig"]) == ([], b"", None)


def test_a_composite_key_gives_a_json_array_in_name_order() -> None:
    assert one({"type": "Slot", "data": {"year": 2026, "code": "N"}})["id"] == '["N","2026"]'


def test_the_same_key_twice_names_both_records_in_every_mode() -> None:
    for kind in (DeltaKind.APPEND, DeltaKind.MERGE, DeltaKind.REPLACE):
        rule, text = refusal(stall(), stall(code="y"), stall(), kind=kind)
        assert rule == "W13"
        assert "record 1 and in record 3" in text


def test_the_same_explicit_id_twice_is_refused_except_that_the_last_wins_in_a_merge() -> None:
    duplicates = [{"type": "Memo", "data": {"id": "m", "text": text}} for text in "ab"]
    assert refusal(*duplicates)[0] == "W20"
    assert refusal(*duplicates, kind=DeltaKind.REPLACE)[0] == "W20"
    (change,) = changed(taken(*duplicates), DeltaKind.MERGE)
    assert change.rows.to_pylist() == [{"id": "m", "text": "b"}]


def test_records_without_ids_get_fresh_ones_that_sort() -> None:
    (change,) = changed(taken(*({"type": "Memo", "data": {"text": str(i)}} for i in range(50))))
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
    intake = Intake(CATALOG)
    take_file(path, intake)
    assert [(p.rule, p.line) for p in intake.problems] == [("J01", 3)]
    assert "column" in str(intake.problems[0])


def test_a_compressed_file_is_read_like_a_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl.gz"
    path.write_bytes(gzip.compress(LINES[:37]))
    intake = Intake(CATALOG)
    take_file(path, intake)
    assert (intake.total, intake.records) == (0, {"node:Stall": 1})


def test_a_file_of_rows_needs_no_envelope(tmp_path: Path) -> None:
    path = tmp_path / "beside.jsonl"
    path.write_text('{"src": "a", "to": "b", "km": 2}\n{"from": "a"}\n')
    intake = Intake(CATALOG)
    take_row_file(path, BESIDE, intake)
    assert intake.records == {"edge:Beside": 1}
    assert [(p.rule, p.line, p.property) for p in intake.problems] == [("J04", 2, "to")]


ROWS: list[tuple[NodeType | EdgeType, list[str], bool]] = [
    (STALL, ['{"code": "a", "fee": 1, "day": "2024-01-05"}', '{"code": "b", "tags": ["x"]}'], True),
    (STALL, ['{"code": "a"}', "", '{"code": "b", "open": true, "big": 7}', "  "], True),
    (MEMO, ['{"id": "m", "text": "metadata"}', '{"text": "\u00e9"}'], True),
    (BESIDE, ['{"src": "a", "dst": "b", "km": 2}', '{"dst": "c", "src": "d"}'], True),
    (BESIDE, ['{"from": "a", "to": "b"}', '{"from": "a", "to": "c", "id": "e"}'], True),
    (BESIDE, ['{"from": "a", "to": "b"}', '{"src": "a", "dst": "b"}'], False),
    (BESIDE, ['{"from": "a", "src": "c", "to": "b"}'], False),
    (BESIDE, ['{"from": null, "src": "c", "to": "b"}'], False),
    (STALL, ['{"code": "a", "fee": 1.5}'], False),
    (STALL, ['{"code": "a", "nope": 1}', '{"code": "b"}'], False),
    (STALL, ['{"code": "a"} {"code": "b"}', '{"code": "c"}'], False),
    (STALL, ['{"code": "a", "code": "b"}'], False),
    (STALL, ['{"code": "a",', '"fee": 1}'], False),
    (STALL, ["[1]", "null"], False),
    (STALL, ["", " "], False),
]


@pytest.mark.parametrize(("type_", "rows", "by_arrow"), ROWS)
def test_rows_without_envelope_are_parsed_by_arrow_where_that_is_the_same(
    type_: NodeType | EdgeType, rows: list[str], by_arrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take(texts: list[str]) -> Any:
        intake = Intake(CATALOG)
        take_row_block(Block([f"{text}\n".encode() for text in texts], 5, "f"), type_, intake)
        parts = [one for parts in intake.parts.values() for one in parts]
        columns = [
            {name: values.to_pylist() for name, values in part.columns.items()} for part in parts
        ]
        ids = [part.explicit_ids.to_pylist() for part in parts]
        numbers = [list(part.origins.numbers) for part in parts]
        return columns, ids, numbers, [str(one) for one in intake.problems]

    found = take(rows)
    with monkeypatch.context() as patch:
        patch.setattr(pyarrow.json, "read_json", refuse_to_parse)
        assert take(rows) == found
    if by_arrow:
        monkeypatch.setattr(json.JSONDecoder, "decode", refuse_to_parse)
        assert take(rows) == found


def refuse_to_parse(*_: Any, **__: Any) -> Any:
    raise pa.ArrowInvalid("not this way")


def lines_of(*texts: bytes) -> Intake:
    intake = Intake(CATALOG)
    take_block(Block(texts, file="f.jsonl"), intake)
    return intake


@pytest.mark.parametrize(
    ("line", "rule", "word"),
    [
        (b'{"type":"Stall","data":{"code":"a","code":"b"}}', "J06", "code"),
        (b'{"type":"Stall","type":"Stall"}', "J06", "type"),
        (b'// {"type":"Stall"}', "J01", "not JSON"),
        (b'{"type":"Stall","data":{"code":NaN}}', "J01", "NaN"),
        (b'{"type":"Stall","data":{"code":"a","rate":NaN}}', "J01", "NaN"),
        (b'{"type":"Stall","data":{"code":"a"}} {"type":"Stall","data":{"code":"b"}}', "J01", "Extra"),
        (b'{"type":"Stall","data":{"code":"\\ud800"}}', "J07", "surrogate"),
        (b'{"type":"Memo","data":{"id":"\\ud800","text":"x"}}', "J09", "id"),
        (b"\xff\xfe", "J01", "UTF-8"),
        (b'{"type":"Stall","data":{"code":"\xff"}}', "J01", "UTF-8"),
        (b"[" * 100_000, "J01", "not JSON"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_refused(line: bytes, rule: str, word: str) -> None:
    (problem,) = lines_of(line).problems
    assert (problem.rule, problem.line) == (rule, 1)
    assert word in str(problem)


def test_twenty_problems_are_kept_and_all_are_counted() -> None:
    intake = lines_of(*[b"nonsense"] * 50)
    assert (len(intake.problems), intake.total) == (20, 50)


def test_problems_come_in_the_order_of_their_lines() -> None:
    intake = lines_of(
        b'{"type":"Stall","data":{"code":"a","fee":"x"}}',
        b"nonsense",
        b'{"edge":"Beside","from":"a"}',
        b'{"type":"Stall","data":{"code":"b","fee":1.5}}',
    )
    assert [(p.line, p.rule) for p in intake.problems] == [
        (1, "J07"),
        (2, "J01"),
        (3, "J04"),
        (4, "J07"),
    ]


def test_the_last_of_an_id_wins_however_its_line_was_read() -> None:
    plain = b'{"type":"Memo","data":{"id":"m","text":"%d"}}'
    odd = b'{"data":{"id":"m","text":"%d"},"type":"Memo"}'
    for order in ((plain, odd), (odd, plain)):
        intake = lines_of(*(text % n for n, text in enumerate(order)))
        (change,) = changed(intake, DeltaKind.MERGE)
        assert change.rows["text"].to_pylist() == ["1"]


VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "code": st.text(max_size=3) | st.none() | st.integers(0, 3),
    "fee": st.integers(-(2**31) - 1, 2**31) | st.floats(-3, 3) | st.booleans(),
    "rate": st.floats(width=32) | st.integers(-5, 5) | st.just("1"),
    "day": st.sampled_from(["2024-01-01", "2024-02-30", "24-1-1", 19000, "2024-01-01T00:00:00Z"]),
    "at": st.sampled_from(["2024-01-01T10:00:00Z", "2024-01-01 10:00:00.5Z", "2024-01-01", "2024-01-01T10:00Z",
                           "2024-01-01T10:00:00+02:00", "2024-02-30T10:00:00Z", 5, 2.5]),
    "tags": st.lists(st.text(max_size=2) | st.none(), max_size=3) | st.just("x"),
    "sig": st.lists(st.floats(-2, 2) | st.integers(0, 1), min_size=2, max_size=4) | st.just([1, 2, "x"]),
    "scan": st.sampled_from(["base64:AQID", "base64:?", "s3://b/x"]),
    "open": st.booleans() | st.integers(0, 1),
    "big": st.integers(-1, 2**64),
    "id": st.text(max_size=2),
    "colour": st.none(),
}  # fmt: skip
data = st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=4).flatmap(
    lambda names: st.fixed_dictionaries({name: VALUES[name] for name in names})
)
records = st.fixed_dictionaries({"type": st.sampled_from(["Stall", "Memo"]), "data": data}) | (
    st.fixed_dictionaries({"edge": st.sampled_from(["Beside", "beside"]), "from": st.text(max_size=2)},
                          optional={"to": st.text(max_size=2) | st.none(), "data": st.none()})
)  # fmt: skip


@given(st.lists(records, min_size=1, max_size=6))
def test_lines_and_records_are_taken_in_alike(found: list[dict[str, Any]]) -> None:
    by_line = lines_of(*(json.dumps(record).encode() for record in found))
    by_record = taken(*found)
    assert by_line.records == by_record.records or by_line.total
    # JSON has no spelling of an infinite number, so a line with one is no JSON at all.
    if "J01" not in {problem.rule for problem in by_line.problems}:
        assert [(p.rule, p.line, p.property, p.message) for p in by_line.problems] == [
            (p.rule, p.record, p.property, p.message) for p in by_record.problems
        ]
        if not by_line.total:
            assert outcome(by_line) == outcome(by_record)


def outcome(intake: Intake) -> object:
    try:
        changes = changed(intake, DeltaKind.MERGE)
    except OmniError as error:
        return error.code
    return {
        change.type.name: change.rows.drop(
            ["id"] if change.type is MEMO or change.type is BESIDE else []
        )
        for change in changes
    }


def framed(type_: NodeType | EdgeType, frame: Any) -> Intake:
    intake = Intake(CATALOG)
    take_frame(type_, read_frame(frame, type_), intake)
    return intake


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
    (change,) = changed(framed(STALL, frame))
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
        ({"code": ["a"], "id": [5]}, "J09", "id"),
        ({"code": ["a"], "tags": [["x", None]]}, "J07", "tags"),
        ({"code": ["a"], "at": pa.array([2**62], pa.timestamp("ms"))}, "J07", "at"),
        ({"code": ["a"], "day": pa.array([2**31 - 1], pa.date32())}, "J07", "day"),
        ({"code": ["a"], "day": ["0000-01-01"]}, "J07", "day"),
    ],
)
def test_a_wrong_frame_is_refused_by_row(columns: dict[str, Any], rule: str, word: str) -> None:
    found = problems(framed(STALL, pa.table(columns)))
    assert found[0].rule == rule, found
    assert word in str(found[0])


def test_an_edge_frame_takes_either_spelling_of_its_ends() -> None:
    for names in (("src", "dst"), ("from", "to")):
        frame = pa.table({names[0]: ["a"], names[1]: ["b"], "km": [1]})
        (change,) = changed(framed(BESIDE, frame))
        assert change.rows.select(["src", "dst", "km"]).to_pylist() == [
            {"src": "a", "dst": "b", "km": 1.0}
        ]


def test_vectors_with_gaps_keep_their_places() -> None:
    rows = [stall(code=str(i), sig=None if i % 2 else [i, i, i]) for i in range(6)]
    (change,) = changed(taken(*rows))
    found = change.rows["sig"].to_pylist()
    assert found == [None if i % 2 else [i, i, i] for i in range(6)]
    assert change.rows.schema.field("sig").type == STALL.properties["sig"].type.arrow


def test_a_text_table_keeps_its_texts_and_tells_empty_from_missing(tmp_path: Path) -> None:
    path = tmp_path / "stalls.csv"
    path.write_text('code,fee,day,tags\n007,,2024-01-01,\nNA,5,,\n"",6,,\n')
    (change,) = changed(framed(STALL, path))
    assert change.rows["code"].to_pylist() == ["007", "NA", ""]
    assert change.rows["fee"].to_pylist() == [None, 5, 6]
    assert change.rows["day"].to_pylist() == [date(2024, 1, 1), None, None]


def test_instants_of_a_frame_keep_their_time_of_day_in_lists_too() -> None:
    moment = datetime(2024, 1, 1, 10, 30, tzinfo=UTC)
    frame = pa.table({"code": ["a"], "at": pa.array([moment], pa.timestamp("ns", "UTC"))})
    (change,) = changed(framed(STALL, frame))
    assert change.rows["at"].cast(pa.int64()).to_pylist() == [1704105000000]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_fraction_of_a_millisecond_is_cut_off_before_1970_too(unit: str) -> None:
    instants = pa.array([-1, 0, None], pa.timestamp(unit))
    frame = pa.table({"code": ["a", "b", "c"], "at": instants})
    (change,) = changed(framed(STALL, frame))
    assert change.rows["at"].cast(pa.int64()).to_pylist() == [-1, 0, None]


def test_wide_integers_are_read_from_their_decimal_text() -> None:
    """Results spell integers as text where JavaScript would round them."""
    assert one(stall(big="18446744073709551615"))["big"] == 2**64 - 1
    assert one(stall(big="0"))["big"] == 0
    mixed = taken(stall(big="9007199254740993"), stall(code="y", big=7), stall(code="z"))
    assert [row["big"] for row in changed(mixed)[0].rows.to_pylist()] == [2**53 + 1, 7, None]
