"""SQL over a snapshot: DuckDB sees the rows of the graph, and Lance reads no more than a statement needs."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConfigError, GraphClosed
from omnigraphdb.packages import load_package

SCHEMA = """
node Thing {
  key: String @key  n: I64?  u: U64?  ratio: F32?  day: Date?  at: DateTime?  on: Bool?
  mood: enum(glad, sad)?  tags: [String]?  sig: Vector(2)?  file: Blob?
}
node Link { key: String @key }
edge Link: Thing -> Thing { since: Date? }
edge Holds: Thing -> Link
"""


def thing(n: int) -> dict[str, object]:
    """A thing with a value of every type."""
    data = {
        "key": f"k{n}", "n": n, "u": 2**63 + n, "ratio": n / 2, "day": f"2020-02-{n + 1:02}",
        "at": f"2026-01-10T08:00:{n:02}.005Z", "on": n % 2 == 0, "mood": "glad" if n < 5 else "sad",
        "tags": ["x", str(n)], "sig": [1.0, n], "file": "base64:aGk=",
    }  # fmt: skip
    return {"type": "Thing", "data": data}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path_factory.mktemp("sql") / "g", SCHEMA) as made:
        edges = [{"edge": "Link", "from": f"k{n}", "to": f"k{n + 1}"} for n in range(9)]
        links = [{"type": "Link", "data": {"key": "l"}}]
        made.load(
            [*map(thing, range(10)), {"type": "Thing", "data": {"key": "none"}}, *links, *edges],
            mode="append",
        )
        yield made


FILTERS = {
    "integer": "n > 7", "in": "n in (1, 2, 30)", "null": "n is null", "not null": "n is not null",
    "unsigned": "u > 9223372036854775815", "float": "ratio > 3.4", "day": "day = '2020-02-03'",
    "instant": """ "at" > '2026-01-10 08:00:07.005Z' """, "bool": '"on"', "enum": "mood = 'sad'",
    "text": "key between 'k2' and 'k4'", "like": "key like 'k_' and n > 2", "or": "n = 3 or key = 'none'",
    "list": "tags[2] = '4'", "not": "not (n > 3)", "nothing": "n > 100", "blob": "file is null",
    "vector": "sig[2] = 3",
}  # fmt: skip


@pytest.mark.parametrize("condition", FILTERS.values(), ids=list(FILTERS))
def test_every_filter_finds_the_rows_that_duckdb_finds_in_a_copy(
    graph: Graph, condition: str
) -> None:
    statement = "select key, n, file, {} from {} where {} order by key"
    columns = '"at", day, tags, mood, u'
    copy = graph.table("Thing")
    expected = (
        duckdb.connect()
        .register("copied", copy)
        .sql(statement.format(columns, "copied", condition))
    )
    with graph.duckdb() as connection:
        found = connection.sql(statement.format(columns, "Thing", condition))
        assert found.fetchall() == expected.fetchall()
        assert found.types == expected.types


def test_types_of_one_name_are_told_apart_by_their_kind(graph: Graph) -> None:
    with graph.duckdb() as connection:
        assert connection.sql("select key from node.Link").fetchall() == [("l",)]
        assert connection.sql("select count(*) from edge.Link").fetchall() == [(9,)]
        assert connection.sql("select count(*) from Holds").fetchall() == [(0,)]
        with pytest.raises(duckdb.CatalogException):
            connection.sql("select * from Link")


def test_a_join_of_nodes_and_edges(graph: Graph) -> None:
    walk = """select a.n, b.n from edge.Link l join Thing a on l.src = a.id join Thing b on l.dst = b.id
              where a.n < 3 order by 1"""
    with graph.duckdb() as connection:
        assert connection.sql(walk).fetchall() == [(0, 1), (1, 2), (2, 3)]


def test_the_views_show_their_snapshot_whatever_is_written_later(tmp_path: Path) -> None:
    count = "select count(*) from Link"
    with omnigraphdb.init(tmp_path / "g", "node Link { key: String @key }") as graph:
        graph.load([{"type": "Link", "data": {"key": "a"}}], mode="append")
        first = graph.commits()[0]
        graph.branch_create("more")
        graph.mutate('query q() { insert Link { key: "b" } }', branch="more")
        with graph.snapshot() as snapshot:
            connection = snapshot.duckdb()
            graph.mutate('query q() { insert Link { key: "c" } }')
            graph.mutate('query q() { insert Link { key: "d" } }')
            assert connection.sql(count).fetchall() == [(1,)]
        with pytest.raises(duckdb.ConnectionException):
            connection.sql(count)
        assert graph.duckdb().sql(count).fetchall() == [(3,)]
        assert graph.duckdb(branch="more").sql(count).fetchall() == [(2,)]
        assert graph.duckdb(at=first).sql(count).fetchall() == [(1,)]
        left = graph.duckdb()
    with pytest.raises(GraphClosed):
        graph.duckdb()
    with pytest.raises(duckdb.Error, match="is closed"):
        left.sql(count).fetchall()


def test_only_the_columns_and_rows_that_a_statement_needs_are_read(tmp_path: Path) -> None:
    rows = 2_000
    wide = pa.array([f"{n:06}" * 1_000 for n in range(rows)])
    schema = "node Doc { key: String @key  n: I64 @index  text: String }"
    with omnigraphdb.init(tmp_path / "g", schema) as graph:
        table = pa.table({"key": [f"d{n}" for n in range(rows)], "n": range(rows), "text": wide})
        graph.load({"Doc": table}, mode="append")
    whole = wide.nbytes
    with omnigraphdb.open(tmp_path / "g") as graph, graph.duckdb() as connection:
        assert bytes_read(connection, "select count(*), sum(n) from Doc") < whole / 10
        assert bytes_read(connection, "select max(length(text)) from Doc where n = 77") < whole / 2
        assert bytes_read(connection, "select max(length(text)) from Doc") > whole / 10


def bytes_read(connection: duckdb.DuckDBPyConnection, statement: str) -> int:
    """Bytes that this process asks of files while a statement runs."""
    before = _rchar()
    connection.sql(statement).fetchall()
    return _rchar() - before


def _rchar() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def test_a_connection_that_nobody_holds_is_freed(graph: Graph) -> None:
    connection = graph.duckdb()
    connection.sql("select count(*) from Thing").fetchall()
    held = weakref.ref(connection)
    del connection
    gc.collect()
    assert held() is None


def test_a_connection_that_is_left_open_prints_nothing_at_the_end(graph: Graph) -> None:
    program = (
        "import sys, omnigraphdb\n"
        "connection = omnigraphdb.open(sys.argv[1], read_only=True).duckdb()\n"
        "print(connection.sql('select count(*) from Thing').fetchall())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, graph.uri], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("[(11,)]\n", "")


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(
        ConfigError, match=r"to_sun\(\) needs the package 'sun_and_moon'"
    ) as refused:
        load_package("sun_and_moon", "to_sun()")
    assert refused.value.hint == "pip install sun_and_moon"
