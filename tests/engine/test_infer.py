"""Schemas proposed from data: the proposal loads the data, nothing is lost, and every choice has its evidence."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import omnigraphdb
from omnigraphdb.errors import UserInputError

MOMENT = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
VECTOR = [[float(i + j) for j in range(8)] for i in range(3)]

FRAMES: dict[str, dict[str, Any]] = {
    "numbers of every width": {
        "Reading": pa.table(
            {
                "sensor": ["a", "b", "c"],
                "small": pa.array([1, None, 3], pa.int16()),
                "large": pa.array([2**62, -(2**62), 0], pa.int64()),
                "free": pa.array([2**64 - 1, 0, 1], pa.uint64()),
                "single": pa.array([0.5, None, 1.5], pa.float32()),
                "double": [0.1, 1e300, -1.0],
                "on": [True, None, False],
            }
        )
    },
    "days and moments": {
        "Event": pa.table(
            {
                "name": ["x", "y"],
                "day": pa.array([date(2024, 1, 1), None], pa.date32()),
                "at": pa.array([MOMENT, None], pa.timestamp("ms", "UTC")),
                "text_day": ["2024-02-29", "1970-01-01"],
                "text_at": ["2024-05-01T12:30:00Z", "2024-05-01T12:30:00+02:00"],
            }
        )
    },
    "lists and vectors": {
        "Paper": pa.table(
            {
                "doi": ["1", "2", "3"],
                "tags": [["a", "b"], [], None],
                "sizes": pa.array([[1, 2], None, [3]], pa.list_(pa.int64())),
                "embedding": pa.array(VECTOR, pa.list_(pa.float32(), 8)),
                "loose": pa.array(VECTOR, pa.list_(pa.float64())),
            }
        )
    },
    "words of a closed set": {
        "Ticket": pa.table(
            {
                "code": [f"T{i}" for i in range(40)],
                "state": ["open", "closed", "on-hold", "open"] * 10,
                "title": [f"title {i % 30}" for i in range(40)],
            }
        )
    },
    "bytes": {"File": pa.table({"path": ["a", "b"], "content": [b"\x00\x01", b""]})},
    "no key at all": {"Log": pa.table({"line": ["same", "same"], "level": [1, 1]})},
    "an id of its own": {"Thing": pa.table({"id": ["t1", "t2"], "note": ["n", "n"]})},
    "an id that repeats": {
        "Thing": pa.table({"id": ["t1", "t1"], "name": ["a", "b"], "thing_id": [1, 1]})
    },
    "an id without values": {"Thing": pa.table({"id": ["t1", None], "note": ["n", "n"]})},
    "an id beside a key": {"Thing": pa.table({"id": [7, 8], "thing_key": ["a", "b"]})},
    "ids of edges": {
        "Port": pa.table({"code": ["rtm", "ham"]}),
        "Feeds": pa.table({"from": ["rtm", "ham"], "to": ["ham", "ham"], "id": ["e1", "e2"]}),
        "Owns": pa.table({"from": ["rtm", "ham"], "to": ["ham", "ham"], "id": [1, 1]}),
    },
    "edges by name": {
        "Port": pa.table({"code": ["rtm", "ham"]}),
        "Feeds": pa.table({"from": ["rtm", "ham"], "to": ["ham", "ham"], "load": [1.5, None]}),
    },
    "edges by foreign keys": {
        "Person": pl.DataFrame({"person_id": [1, 2, 3], "name": ["A", "B", "B"]}),
        "Movie": pl.DataFrame({"title": ["M", "N"], "year": [1999, None]}),
        "ActedIn": pl.DataFrame(
            {"person": [1, 1, 3], "movie": ["M", "N", "M"], "role": ["x", "y", "z"]}
        ),
    },
}


@pytest.mark.parametrize("name", FRAMES)
def test_the_proposal_loads_the_data_and_loses_nothing(tmp_path: Path, name: str) -> None:
    frames = {key: pa.table(frame) for key, frame in FRAMES[name].items()}
    proposal = omnigraphdb.infer_schema(FRAMES[name])
    graph = omnigraphdb.init(str(tmp_path / "g"), proposal.source)
    renamed = {
        key: frame.rename_columns(
            [proposal.renames.get(key, {}).get(column, column) for column in frame.column_names]
        )
        for key, frame in frames.items()
    }
    graph.load(renamed, mode="append")
    for key, frame in renamed.items():
        stored = graph.table(key)
        assert stored.num_rows == frame.num_rows
        for column in frame.column_names:
            inside = {"from": "src", "to": "dst"}.get(column, column)
            given, kept = frame[column], stored[inside]
            if column in ("from", "to", "text_at", "text_day"):
                continue
            assert sorted(map(repr, given.cast(kept.type).to_pylist())) == sorted(
                map(repr, kept.to_pylist())
            )
    assert {one.type_name for one in proposal.choices} == set(frames)
    assert all(one.evidence for one in proposal.choices)
    assert proposal.risks == ()


def test_choices_and_their_evidence() -> None:
    merged = {key: frame for frames in FRAMES.values() for key, frame in frames.items()}
    proposal = omnigraphdb.infer_schema(merged)
    chosen = {one.place: one.chosen for one in proposal.choices}
    assert chosen["Ticket.state"] == "enum(closed, on-hold, open)"
    assert chosen["Paper.embedding"] == "Vector(8)"
    assert chosen["Paper.loose"] == "Vector(8)"
    assert chosen["Paper.tags"] == "[String]?"
    assert chosen["Event.text_day"] == "Date"
    assert chosen["Event.text_at"] == "DateTime"
    assert chosen["ActedIn"] == "edge Person -> Movie"
    assert proposal.renames["ActedIn"] == {"person": "from", "movie": "to"}


def test_texts_of_csv_keep_their_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "town.csv").write_text("zip,people,rate,big\n01234,5,0.5,true\n98765,,1e3,false\n")
    proposal = omnigraphdb.infer_schema(tmp_path / "town.csv")
    assert proposal.source.splitlines() == [
        "node Town {",
        "  zip: String @key",
        "  people: I64?",
        "  rate: F64",
        "  big: Bool",
        "}",
    ]
    graph = omnigraphdb.init(str(tmp_path / "g"), proposal.source)
    graph.load({"Town": tmp_path / "town.csv"}, mode="append")
    assert graph.entity("Town", "01234") is not None


def test_a_file_of_records_and_of_rows(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"type": "Pet", "data": {"name": "Rex", "age": 3}},
        {"type": "Pet", "data": {"name": "Tom"}},
        {"edge": "Likes", "from": "Rex", "to": "Tom", "data": {"since": "2020-01-01"}},
    ]
    path = tmp_path / "pets.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    proposal = omnigraphdb.infer_schema(path)
    graph = omnigraphdb.init(str(tmp_path / "g"), proposal.source)
    assert graph.load(path, mode="append").total_rows == 3
    assert "edge Likes: Pet -> Pet {\n  since: Date\n}" in proposal.source
    rows = tmp_path / "mixed_bag.jsonl"
    rows.write_text('{"a": 1, "b": "x"}\n{"a": 2.5, "c": [1]}\n')
    assert (
        "node MixedBag {\n  a: F64\n  b: String?\n  c: [I64]?\n}"
        in omnigraphdb.infer_schema(rows).source
    )


def test_no_more_is_read_than_said(tmp_path: Path) -> None:
    path = tmp_path / "row.parquet"
    pq.write_table(pa.table({"n": list(range(1000)), "s": [f"k{i}" for i in range(1000)]}), path)
    proposal = omnigraphdb.infer_schema(path, rows_max=100)
    assert dict(proposal.rows_read) == {"Row": 100}
    assert "n: I64?" in proposal.source
    assert [(one.place, one.risk) for one in proposal.risks] == [
        ("Row.s", "a later row may repeat a key")
    ]


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ({}, "nothing to infer"),
        ({"a b": pa.table({"x": [1]})}, "'a b' is not a name of a type"),
        ({"A": pa.table({"x y": [1]})}, "'x y' of A is not a name of a property"),
        ({"A": 5}, "a int is not a frame"),
        ("nowhere.csv", "'nowhere.csv' cannot be read"),
        ("notes.txt", "'notes.txt' is no .parquet"),
    ],
)
def test_wrong_sources_are_refused(source: Any, fact: str) -> None:
    with pytest.raises(UserInputError) as caught:
        omnigraphdb.infer_schema(source)
    assert fact in str(caught.value)


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for text, fact in (
        ('{"a": 1}\n\n{"a": }\n', "line 3 is no JSON: Expecting value at column 7"),
        ('{"a": 1}\n[1]\n', "line 2 is no JSON object"),
    ):
        (tmp_path / "rows.jsonl").write_text(text)
        with pytest.raises(UserInputError, match=fact):
            omnigraphdb.infer_schema(tmp_path / "rows.jsonl")


def test_a_column_whose_name_no_property_may_have_is_renamed() -> None:
    frame = pa.table({"id": [1, 1], "thing_id": ["a", "b"], "_rowid": [3, 4]})
    proposal = omnigraphdb.infer_schema({"Thing": frame})
    assert proposal.renames == {"Thing": {"id": "thing_id2", "_rowid": "thing_rowid"}}
    assert "thing_id: String @key" in proposal.source
    assert "thing_id2: I64" in proposal.source
    chosen = {one.property_name: one.chosen for one in proposal.choices}
    assert chosen["id"] == "I64 as thing_id2, since no property may be called 'id'"


def test_what_a_property_cannot_keep_is_a_risk() -> None:
    fine = pa.table(
        {
            "at": pa.array([1_000, None], pa.timestamp("us")),
            "price": pa.array([Decimal("10.50"), Decimal("0")], pa.decimal128(20, 4)),
        }
    )
    assert omnigraphdb.infer_schema({"Sale": fine}).risks == ()
    lossy = pa.table(
        {
            "at": pa.array([1_001, None], pa.timestamp("us")),
            "price": pa.array([Decimal("12345678901234567.8901"), None], pa.decimal128(21, 4)),
            "place": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
            "time": pa.array([5, None], pa.time64("us")),
        }
    )
    risks = {one.place: one.risk for one in omnigraphdb.infer_schema({"Sale": lossy}).risks}
    assert risks == {
        "Sale.at": "a DateTime has milliseconds, which 1 of 2 values exceed",
        "Sale.price": "an F64 has some 15 digits, which 1 of 2 values exceed",
        "Sale.place": "a load refuses struct<x: int64>; turn the column into texts first",
        "Sale.time": "a load refuses time64[us]; turn the column into texts first",
    }


def test_every_kind_of_frame_is_sampled_alike(tmp_path: Path) -> None:
    rows = {"code": [f"k{i}" for i in range(300)], "n": list(range(300))}
    table = pa.table(rows)
    pq.write_table(table, tmp_path / "thing.parquet")
    kinds = {
        "arrow": table,
        "batches": table.to_reader(max_chunksize=50),
        "dataset": ds.dataset(tmp_path / "thing.parquet"),
        "pandas": pd.DataFrame(rows),
        "polars": pl.DataFrame(rows),
        "lazy": pl.LazyFrame(rows),
        "rows": table.to_pylist(),
        "file": tmp_path / "thing.parquet",
    }
    found = {
        kind: omnigraphdb.infer_schema({"Thing": one}, rows_max=100) for kind, one in kinds.items()
    }
    assert {kind: one.source for kind, one in found.items()} == dict.fromkeys(
        kinds, "node Thing {\n  code: String @key\n  n: I64?\n}"
    )
    assert {one.rows_read["Thing"] for one in found.values()} == {100}


def test_a_stream_is_read_no_further_than_the_sample() -> None:
    read: list[int] = []

    def produce() -> Iterator[pa.RecordBatch]:
        for number in range(1_000):
            read.append(number)
            yield pa.record_batch({"n": [number]})

    stream = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), produce())
    omnigraphdb.infer_schema({"Number": stream}, rows_max=10)
    assert len(read) == 11


def test_a_graph_gets_types_beside_its_own(tmp_path: Path) -> None:
    graph = omnigraphdb.init(str(tmp_path / "g"), "node Port { code: I64 @key }")
    graph.load([{"type": "Port", "data": {"code": code}} for code in (1, 2)], mode="append")
    ships = pa.table({"name": ["Aida", "Bore"]})
    visits = pa.table({"ship": ["Aida", "Bore", "Aida"], "port": [1, 2, 2]})
    proposal = graph.schema_from({"Ship": ships, "Visits": visits, "Port": ships})
    assert "edge Visits: Ship -> Port" in proposal.source
    assert proposal.source.startswith(graph.schema_source.rstrip())
    graph.schema_apply(proposal.source)
    ends = visits.rename_columns([proposal.renames["Visits"][one] for one in visits.column_names])
    assert graph.load({"Ship": ships, "Visits": ends}, mode="append").total_rows == 5
    with pytest.raises(UserInputError, match="a type for each"):
        graph.schema_from({"Port": ships})


NUMBERS: dict[str, tuple[list[str], str]] = {
    "the largest": (["9223372036854775807", "-9223372036854775808"], "I64"),
    "past I64": (["9223372036854775808", "18446744073709551615"], "U64"),
    "past U64": (["1", "18446744073709551616"], "String"),
    "negative past I64": (["-9223372036854775809", "1"], "String"),
    "spelled floats": (["0.30000000000000004", "2.50", "1e3"], "F64"),
    "long fractions": (["0.12345678901234567890", "1.5"], "String"),
    "past floats": (["1e400", "1.5"], "String"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_no_digit_of_a_csv_is_lost(tmp_path: Path, name: str) -> None:
    texts, expected = NUMBERS[name]
    path = tmp_path / "item.csv"
    path.write_text("code,n\n" + "".join(f"c{i},{one}\n" for i, one in enumerate(texts)))
    proposal = omnigraphdb.infer_schema(path)
    assert f"n: {expected}\n" in proposal.source
    with omnigraphdb.init(tmp_path / "g", proposal.source) as graph:
        graph.load(path, type="Item", mode="append", spark=False)
        stored = graph.table("Item")["n"].to_pylist()
    for one, text in zip(stored, texts, strict=True):
        assert Decimal(str(one)) == Decimal(text)


def test_numbers_of_json_keep_their_digits_or_say_so(tmp_path: Path) -> None:
    path = tmp_path / "item.jsonl"
    rows = [{"code": "a", "wide": 2**63, "huge": 10**20 + 1, "mixed": 0.5, "list": [{"x": 1}]}]
    rows += [{"code": "b", "wide": 2**64 - 1, "huge": 1, "mixed": 2**53 + 1, "list": []}]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    proposal = omnigraphdb.infer_schema(path)
    assert "wide: U64" in proposal.source
    risks = {one.property_name: one.risk for one in proposal.risks}
    assert risks.keys() == {"huge", "mixed", "list"}
    assert (
        risks["huge"] == risks["mixed"] == "an F64 has some 15 digits, which 1 of 2 values exceed"
    )
    assert "a load refuses list" in str(risks["list"])


@pytest.mark.parametrize("as_records", [False, True])
def test_values_of_several_kinds_are_told(tmp_path: Path, as_records: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"name": "a", "size": 1, "tags": ["x"], "note": "1", "flag": None},
        {"name": "b", "size": "two", "tags": {"x": 1}, "note": "2", "flag": True},
    ]
    kept = [{"type": "Thing", "data": row} for row in rows] if as_records else rows
    path = tmp_path / "thing.jsonl"
    path.write_text("\n".join(map(json.dumps, kept)))
    proposal = omnigraphdb.infer_schema(path)
    ending = "and a load takes only texts; turn the column into texts first"
    assert {one.place: one.risk for one in proposal.risks} == {
        "Thing.size": f"JSON has number, text here, {ending}",
        "Thing.tags": f"JSON has array, object here, {ending}",
    }


def test_edges_between_two_types_are_found_though_other_columns_hold_keys_by_chance() -> None:
    people = pa.table({"id": ["1", "2", "3"], "age": [7, 8, 9]})
    things = pa.table({"sku": ["s1", "s2", "1"], "price": [1, 2, 3]})
    links = pa.table({"src": ["1", "2", "3"], "dst": ["s1", "s2", "1"]})
    proposal = omnigraphdb.infer_schema({"Person": people, "Thing": things, "Buys": links})
    assert "edge Buys: Person -> Thing" in proposal.source
    assert "node Thing {\n  sku: String @key\n  price: I64\n}" in proposal.source
