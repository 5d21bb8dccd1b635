"""What a query gives: Arrow inside, other shapes on demand, and batches as they are asked for."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError, QueryError
from omnigraphdb.limits import RESULT_BATCH_ROWS

SCHEMA = """
node Thing {
  key: String @key  n: I64?  ratio: F32?  day: Date?  at: DateTime?  on: Bool?
  tags: [String]?  days: [DateTime]?  sig: Vector(2)?
}
node Other { key: String @key }
"""
ALL = """query q() { match { $t: Thing }
  return { $t, $t.n, $t.ratio, $t.day, $t.at, $t.on, $t.tags, $t.days, $t.sig } order { $t.key } }"""
MOMENT = datetime(2026, 1, 10, 8, 0, 0, 5000, tzinfo=UTC)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    full = {
        "key": "a<b>", "n": 2**60, "ratio": 0.1, "day": "2020-02-29", "at": "2026-01-10T08:00:00.005Z",
        "on": True, "tags": ["x", "y"], "days": ["2026-01-10T08:00:00.005Z"], "sig": [1.0, 0.5],
    }  # fmt: skip
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as made:
        made.load([{"type": "Thing", "data": one} for one in (full, {"key": "b"})], mode="append")
        yield made


def test_rows_are_json_and_lists_are_python(graph: Graph) -> None:
    found = graph.query(ALL)
    first, second = found.rows
    assert first == {
        "t": "a<b>", "t.n": 2**60, "t.ratio": 0.10000000149011612, "t.day": "2020-02-29",
        "t.at": "2026-01-10T08:00:00.005Z", "t.on": True, "t.tags": ["x", "y"],
        "t.days": ["2026-01-10T08:00:00.005Z"], "t.sig": [1.0, 0.5],
    }  # fmt: skip
    assert set(second.values()) == {"b", None}
    assert json.loads(json.dumps(found.to_dict()))["rows"][1]["t"] == "b"
    values = found.to_list()[0]
    assert values["t.day"] == date(2020, 2, 29)
    assert values["t.at"] == MOMENT
    assert values["t.days"] == [MOMENT]
    assert list(found) == found.rows
    assert len(found) == 2


def test_arrow_carries_the_declared_types_even_of_nothing(graph: Graph) -> None:
    full = graph.query(ALL).to_arrow()
    empty = graph.query(ALL.replace("$t: Thing", '$t: Thing { key: "nobody" }'))
    assert empty.to_arrow().schema == full.schema
    assert full.schema.field("t.ratio").type == pa.float32()
    assert empty.rows == []
    assert empty.columns == full.column_names
    assert empty.to_dict()["columns"] == full.column_names


def test_frames_have_the_same_rows(graph: Graph) -> None:
    found = graph.query(ALL)
    frame = found.to_pandas()
    assert list(frame.columns) == found.columns
    assert frame["t.at"][0] == MOMENT
    assert frame["t.n"][0] == 2**60
    table = found.to_polars()
    assert isinstance(table, polars.DataFrame)
    assert table["t.at"].to_list()[0] == MOMENT
    assert table["t.tags"].to_list() == [["x", "y"], None]
    assert table["t.sig"].to_list()[0] == [1.0, 0.5]


def test_other_libraries_take_the_result_as_it_is(graph: Graph) -> None:
    assert pa.table(graph.query(ALL)).column_names == graph.query(ALL).columns
    found = graph.query("query q() { match { $t: Thing } return { $t.key as k, $t.n as n } }")
    connection = duckdb.connect()
    connection.register("found", found.to_arrow())
    assert connection.sql("select k from found where n is null").fetchall() == [("b",)]


def test_a_notebook_shows_a_table_and_no_markup_of_the_data(graph: Graph) -> None:
    shown = graph.query(ALL)._repr_html_()
    assert shown.count("<th") == 10  # nine columns and <thead>
    assert "a&lt;b&gt;" in shown
    assert "a<b>" not in shown
    assert "2 rows" in shown


def test_a_long_result_is_shown_in_part(graph: Graph) -> None:
    graph.load([{"type": "Other", "data": {"key": f"o{n:03}"}} for n in range(30)], mode="append")
    found = graph.query("query all() { match { $o: Other } return { $o } order { $o.key } }")
    assert found._repr_html_().count("<tr>") == 21
    assert "30 rows" in found._repr_html_()
    assert "o019" in repr(found)
    assert "o020" not in repr(found)
    assert "… 10 more" in repr(found)


def test_a_result_is_a_sequence_of_its_rows(graph: Graph) -> None:
    graph.load([{"type": "Other", "data": {"key": f"o{n}"}} for n in range(5)], mode="append")
    found = graph.query("query all() { match { $o: Other } return { $o.key as k } order { k } }")
    assert [found[0], found[-1]] == [found.rows[0], found.rows[4]]
    for part in (slice(1, 3), slice(None, None, -1), slice(0, 5, 2), slice(4, 1), slice(9, 20)):
        assert found[part].rows == found.rows[part]
    assert found[1:3].columns == ["k"]
    assert found[1:3].commit == found.commit
    with pytest.raises(IndexError):
        found[5]
    assert print_of(found[:2]) == ["all: 2 rows on main", "k", "──", "o0", "o1"]


def print_of(shown: object) -> list[str]:
    """The lines that `print` writes."""
    return str(shown).splitlines()


# ---- streams


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """More pairs than a batch holds, from few rows."""
    keys = pa.array(np.char.add("k", np.arange(600).astype("U")))
    with omnigraphdb.init(tmp_path_factory.mktemp("many") / "g", SCHEMA) as made:
        frames = {
            "Thing": pa.table({"key": keys, "n": pa.array(range(600))}),
            "Other": pa.table({"key": keys}),
        }
        made.load(frames, mode="append")
        yield made


PAIRS = "query pairs() { match { $t: Thing  $o: Other } return { $t.n as n, $o.key as k } }"


def test_a_stream_gives_the_rows_of_the_query_in_bounded_batches(many: Graph) -> None:
    whole = many.query(PAIRS)
    stream = many.stream(PAIRS)
    assert stream.schema == whole.to_arrow().schema
    batches = list(stream)
    assert len(batches) > 1
    assert max(batch.num_rows for batch in batches) <= RESULT_BATCH_ROWS
    assert pa.Table.from_batches(batches).sort_by("n").equals(whole.to_arrow().sort_by("n"))
    assert (stream.query_name, stream.branch, stream.commit) == ("pairs", "main", whole.commit)
    assert stream.columns == ["n", "k"]


def test_a_stream_is_read_once_by_rows_or_by_another_library(many: Graph, graph: Graph) -> None:
    assert list(graph.stream(ALL).rows()) == graph.query(ALL).rows
    assert pa.table(many.stream(PAIRS)).num_rows == 360_000
    stream = many.stream(PAIRS)
    next(iter(stream))
    assert sum(batch.num_rows for batch in stream) < 360_000


def test_a_stream_shows_its_snapshot_though_the_graph_moves_on(graph: Graph) -> None:
    stream = graph.stream(ALL)
    graph.mutate('query m() { delete Thing where key = "b" }')
    assert [row["t"] for row in stream.rows()] == ["a<b>", "b"]
    before = graph.commits()[1]
    assert [row["t"] for row in graph.stream(ALL, at=before).rows()] == ["a<b>", "b"]
    assert [row["t"] for row in graph.stream(ALL).rows()] == ["a<b>"]


def test_a_wrong_query_is_refused_before_the_first_batch(graph: Graph) -> None:
    with pytest.raises(QueryError):
        graph.stream("query q() { match { $t: Thing } return { $t.nothing } }")
    with pytest.raises(OmniError, match="twice"):
        graph.stream(ALL, {}, {})
