"""Values of the key's own type stand for ids: at the ends of edges, as explicit ids, and where an entity is asked for."""

import json
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import DataError, QueryError, UserInputError
from tests.support.settled import assert_settled

SCHEMA = """
node User { uid: I64 @key  name: String? }
node Day { day: Date @key }
node Seat { row: I32  number: I32  @key(row, number) }
node Note { text: String }
edge Follows: User -> User { since: I32? }
edge On: User -> Day
edge About: Note -> User
"""
FOLLOWED = {("1", "2"), ("2", "3")}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load({"User": pa.table({"uid": [1, 2, 3]})}, mode="append")
        yield graph
        assert_settled(graph)


def ends(graph: Graph, edge: str = "Follows") -> set[tuple[str, str]]:
    rows = graph.table(edge)
    return set(zip(rows["src"].to_pylist(), rows["dst"].to_pylist(), strict=True))


def write_records(home: Path) -> Path:
    path = home / "edges.jsonl"
    records = [{"edge": "Follows", "from": a, "to": b} for a, b in ((1, 2), (2, 3))]
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def write_mixed(home: Path) -> Path:
    path = home / "mixed.jsonl"
    path.write_text(
        '{"edge": "Follows", "from": 1, "to": "2"}\n{"edge": "Follows", "from": "2", "to": 3}\n'
    )
    return path


def write_rows(home: Path) -> Path:
    path = home / "rows.jsonl"
    path.write_text('{"from": 1, "to": 2}\n{"src": 2, "dst": 3}\n')
    return path


def write_parquet(home: Path) -> Path:
    path = home / "edges.parquet"
    pyarrow.parquet.write_table(pa.table({"src": [1, 2], "dst": [2, 3]}), path)
    return path


SOURCES: dict[str, Callable[[Path], Any]] = {
    "an Arrow table": lambda _: {"Follows": pa.table({"from": [1, 2], "to": [2, 3]})},
    "narrow integers": lambda _: {
        "Follows": pa.table({"src": pa.array([1, 2], pa.int16()), "dst": pa.array([2, 3])})
    },
    "a pandas frame": lambda _: {"Follows": pd.DataFrame({"from": [1, 2], "to": [2, 3]})},
    "a polars frame": lambda _: {"Follows": pl.DataFrame({"from": [1, 2], "to": [2, 3]})},
    "records": lambda _: [
        {"edge": "Follows", "from": 1, "to": 2},
        {"edge": "Follows", "from": 2, "to": "3"},
    ],
    "rows": lambda _: {"Follows": [{"from": 1, "to": 2}, {"from": 2, "to": 3}]},
    "a file of records": write_records,
    "a file with texts and numbers": write_mixed,
    "a file of rows": lambda home: {"Follows": write_rows(home)},
    "a Parquet file": lambda home: {"Follows": write_parquet(home)},
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("in_steps", [False, True])
def test_integer_ends_name_nodes_by_their_key(
    graph: Graph, tmp_path: Path, kind: str, in_steps: bool
) -> None:
    source = SOURCES[kind](tmp_path)
    bound = 1 if in_steps else 1_000_000
    with omnigraphdb.open(graph.uri, config={"small_work_bytes": bound}) as opened:
        opened.load(source, mode="append", spark=False)
    graph.refresh()
    assert ends(graph) == FOLLOWED


def test_many_integer_ends_of_a_file_are_read_as_columns(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that Arrow cannot parse are read one by one, ten times as slowly."""
    from omnigraphdb.pipeline.input import lines

    read: list[Any] = []
    monkeypatch.setattr(lines, "_read_one_by_one", lambda *given: read.append(given))
    graph.load(write_records(tmp_path), mode="append")
    assert not read
    assert ends(graph) == FOLLOWED


def test_dates_name_nodes_by_their_key(graph: Graph) -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    graph.load({"Day": pa.table({"day": days})}, mode="append")
    graph.load({"On": pa.table({"from": [1, 2], "to": days})}, mode="append")
    assert {dst for _, dst in ends(graph, "On")} == set(graph.table("Day")["id"].to_pylist())
    assert graph.entity("Day", days[0]) is not None


def test_an_integer_is_an_explicit_id_of_an_integer_key(graph: Graph) -> None:
    graph.load([{"type": "User", "data": {"id": 9, "uid": 9}}], mode="append")
    graph.load({"User": pa.table({"id": [10], "uid": [10]})}, mode="append")
    assert graph.entity("User", 10) == graph.entity("User", "10") is not None
    with pytest.raises(DataError, match="contradicts its key"):
        graph.load([{"type": "User", "data": {"id": 8, "uid": 9}}], mode="append")


def test_an_entity_is_found_by_the_value_of_its_key(graph: Graph) -> None:
    found = graph.entity("User", 2)
    assert found is not None
    assert found["uid"] == 2
    assert graph.entity("User", 77) is None
    graph.load([{"type": "Seat", "data": {"row": 1, "number": 2}}], mode="append")
    seat = graph.entity("Seat", {"row": 1, "number": 2})
    assert seat is not None
    assert (seat["row"], seat["number"]) == (1, 2)


@pytest.mark.parametrize(
    ("type_name", "key"), [("User", 2.5), ("User", True), ("Seat", 1), ("Note", 5), ("Follows", 5)]
)
def test_what_is_no_value_of_the_key_is_refused(graph: Graph, type_name: str, key: float) -> None:
    with pytest.raises(UserInputError, match="text"):
        graph.entity(type_name, key)


def test_statements_name_ends_by_key(graph: Graph) -> None:
    insert = "query q($a: I64, $b: I32) { insert Follows { from: $a, to: $b } }"
    graph.mutate(insert, {"a": 1, "b": 2})
    graph.mutate("query q() { insert Follows { from: 2, to: 3 } }")
    assert ends(graph) == FOLLOWED
    done = graph.mutate("query q($a: I64) { delete Follows where from = $a }", {"a": 1})
    assert done.affected_edges == 1
    graph.mutate("query q() { delete Follows where to != 9 }")
    assert ends(graph) == set()


@pytest.mark.parametrize(
    "text",
    [
        "query q() { insert Follows { from: 1.5, to: 2 } }",
        "query q($a: Date) { insert Follows { from: $a, to: 2 } }",
        "query q($a: I64) { insert About { from: $a, to: 1 } }",
        "query q($a: I64) { delete Follows where from > $a }",
    ],
)
def test_statements_take_no_other_values_at_ends(graph: Graph, text: str) -> None:
    with pytest.raises(QueryError):
        graph.mutate(text, {"a": 1})


def test_ends_of_unkeyed_types_stay_texts(graph: Graph) -> None:
    with pytest.raises(DataError) as caught:
        graph.load([{"edge": "About", "from": 1, "to": 1}], mode="append")
    assert "as text, got '1'" in str(caught.value)
    with pytest.raises(DataError) as caught:
        graph.load([{"edge": "Follows", "from": 1, "to": 1.5}], mode="append")
    assert "as text or I64, got '1.5'" in str(caught.value)
