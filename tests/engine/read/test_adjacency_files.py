"""Adjacency files: readers walk by them as by the columns of the table, whatever happened since, and never trust a wrong one."""

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.api import loading
from omnigraphdb.engine.cached.traversal import MODE
from omnigraphdb.engine.maintenance import adjacency_files
from omnigraphdb.engine.maintenance.adjacency_files import store_adjacencies
from omnigraphdb.engine.write.load import load
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import ADJACENCY_EDGE_BYTES, ADJACENCY_FILE_ROWS_MIN, ADJACENCY_NODE_BYTES
from omnigraphdb.storage.counters import Cost, Costs, counting
from tests.support.settled import assert_settled

SCHEMA = """
node Port { code: String @key  lat: I64? }
node Ship { name: String @key }
edge Feeds: Port -> Port { weight: I64? }
edge Calls: Ship -> Port
"""
PORTS, FEEDS = 900, ADJACENCY_FILE_ROWS_MIN + 2_000
OUT = "query q() { match { $a: Port  $a feeds $b } return { $a.code as a, $b.code as b } }"
NEAR = "query q($c: String) { match { $a: Port { code: $c }  $a feeds{1,2} $b } return { $b.code as b } }"
TURNED = (
    "query q($c: String) { match { $b: Port { code: $c }  $a feeds $b } return { $a.code as a } }"
)
EDGES = "query q() { match { $a: Port  $a $e: feeds $b } return { $a.code as a, $b.code as b, $e.weight as w } }"
CALLS = "query q() { match { $s: Ship  $s calls $p } return { $s.name as s, $p.code as p } }"


def code(number: int) -> str:
    return f"p{number:04d}"


def rows(chance: random.Random) -> dict[str, pa.Table]:
    """Ports and ships; edges with loops and with several between the same two."""
    near = [code(chance.randrange(PORTS)) for _ in range(FEEDS)]
    far = [code(min(chance.randrange(PORTS), chance.randrange(PORTS))) for _ in range(FEEDS)]
    ships = [f"s{number}" for number in range(PORTS)]
    return {
        "Port": pa.table({"code": [code(number) for number in range(PORTS)]}),
        "Ship": pa.table({"name": ships}),
        "Feeds": pa.table({"from": near, "to": far}),
        "Calls": pa.table({"from": chance.choices(ships, k=FEEDS), "to": far}),
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("adjacency") / "g"
    with omnigraphdb.init(home, SCHEMA) as graph:
        graph.load(rows(random.Random(3)), mode="append")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "g"))


def files(home: Path) -> list[Path]:
    return sorted(home.glob("edges/*/_adjacency/out"))


def ask(
    home: Path,
    text: str,
    given: dict[str, str] | None = None,
    branch: str | None = None,
    at: str | None = None,
) -> tuple[list[tuple[str, ...]], Costs]:
    """The answer of a handle that was just opened, and what it read."""
    with omnigraphdb.open(home, read_only=True) as graph, counting() as costs:
        found = graph.query(text, given or {}, branch=branch, at=at)
        return sorted(tuple(row.values()) for row in found.rows), costs


def pairs(
    home: Path, edge: str, branch: str | None = None, at: str | None = None
) -> set[tuple[str, ...]]:
    """The pairs that the columns of a table say."""
    with omnigraphdb.open(home, read_only=True) as graph:
        table = graph.snapshot(branch=branch, at=at).table(edge)
        return set(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))


def assert_same(
    home: Path, monkeypatch: pytest.MonkeyPatch, branch: str | None = None, at: str | None = None
) -> Costs:
    """Every way of walking says what the columns say."""
    expected = pairs(home, "Feeds", branch=branch, at=at)
    found, costs = ask(home, OUT, branch=branch, at=at)
    assert found == sorted(expected)
    for number in (7, 500):
        near = {b for a, b in expected if a == code(number)}
        reached = near | {b for a, b in expected if a in near} - {code(number)}
        assert ask(home, NEAR, {"c": code(number)}, branch=branch, at=at)[0] == sorted(
            (b,) for b in reached | (near & {code(number)})
        )
        turned = sorted((a,) for a, b in expected if b == code(number))
        assert ask(home, TURNED, {"c": code(number)}, branch=branch, at=at)[0] == turned
        monkeypatch.setenv(MODE, "indexed")
        assert ask(home, TURNED, {"c": code(number)}, branch=branch, at=at)[0] == turned
        monkeypatch.delenv(MODE)
    return costs


# ---- versions


def test_a_load_leaves_files_that_a_new_handle_walks_by(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(files(home)) == 2
    assert assert_same(home, monkeypatch)[Cost.ADJACENCY_FILES_READ] == 1
    found, costs = ask(home, CALLS)
    assert set(found) == pairs(home, "Calls")
    assert costs[Cost.ADJACENCY_FILES_READ] == 1


def change(graph: Graph, chance: random.Random, branch: str = "main") -> None:
    """Insert and delete edges, change nodes, delete one: a few of each."""
    known = [code(chance.randrange(PORTS)) for _ in range(6)]
    graph.mutate(
        "query m($a: String, $b: String) { insert Feeds { from: $a to: $b } insert Feeds { from: $b to: $b } }",
        {"a": known[0], "b": known[1]},
        branch=branch,
    )
    graph.mutate(
        "query m($a: String) { delete Feeds where from = $a }", {"a": known[2]}, branch=branch
    )
    graph.mutate(
        "query m($a: String) { update Port set { lat: 4 } where code = $a }", {"a": known[3]}, branch=branch
    )  # fmt: skip


def test_files_are_patched_for_versions_that_came_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    with omnigraphdb.open(home) as graph:
        first = graph.commits()[0].id
        change(graph, chance)
        change(graph, chance)
    assert assert_same(home, monkeypatch)[Cost.ADJACENCY_FILES_READ] == 1
    assert_same(home, monkeypatch, at=first)
    with omnigraphdb.open(home) as graph:
        graph.mutate("query m($a: String) { delete Port where code = $a }", {"a": code(40)})
    assert_same(home, monkeypatch)


def test_branches_and_compactions_are_walked_as_their_columns_say(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(6)
    with omnigraphdb.open(home) as graph:
        graph.branch_create("b")
        change(graph, chance, "b")
        change(graph, chance)
        assert_same(home, monkeypatch, branch="b")
        before = [one.read_bytes() for one in files(home)]
        graph.load(
            {"Feeds": pa.table({"from": [code(1)] * 3_000, "to": [code(2)] * 3_000})}, mode="append"
        )
        graph.optimize()
        assert [one.read_bytes() for one in files(home)] != before
        assert_same(home, monkeypatch)
        graph.merge("b")
        assert_same(home, monkeypatch)
        assert_settled(graph)


# ---- files that are wrong


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign", "empty", "other"])
def test_a_wrong_file_is_not_walked_by(home: Path, damage: str) -> None:
    calls, feeds = sorted(files(home), key=lambda one: one.stat().st_size)
    data = feeds.read_bytes()
    wrong = {
        "cut": data[: len(data) // 2],
        "flipped": data[:5_000] + bytes([data[5_000] ^ 1]) + data[5_001:],
        "foreign": calls.read_bytes(),
        "empty": b"",
        "other": b"omniadj1 is not all",
    }
    for one in (calls, feeds):
        one.write_bytes(wrong[damage])
    found, costs = ask(home, OUT)
    assert set(found) == pairs(home, "Feeds")
    others, more = ask(home, CALLS)
    assert set(others) == pairs(home, "Calls")
    refused = costs[Cost.ADJACENCY_FILES_REFUSED] + more[Cost.ADJACENCY_FILES_REFUSED]
    assert refused == (1 if damage == "foreign" else 2)


def test_a_missing_file_is_not_missed(home: Path) -> None:
    for one in files(home):
        one.unlink()
        # A writer that was killed leaves the file that it had not finished.
        (one.parent / "out#123").write_bytes(b"omniadj1")
    found, costs = ask(home, OUT)
    assert set(found) == pairs(home, "Feeds")
    assert costs[Cost.ADJACENCY_FILES_REFUSED] == costs[Cost.ADJACENCY_FILES_READ] == 0


def test_cleanup_drops_files_of_versions_that_are_gone(home: Path) -> None:
    with omnigraphdb.open(home) as graph:
        graph.mutate('query m() { insert Feeds { from: "p0001" to: "p0002" } }')
        graph.cleanup(keep=1, confirm=True)
        assert len(files(home)) == 1
        assert_settled(graph)
        graph.optimize()
        assert len(files(home)) == 2
    assert set(ask(home, OUT)[0]) == pairs(home, "Feeds")


def test_small_tables_and_unmaintained_graphs_have_no_files(tmp_path: Path) -> None:
    few = {name: table.slice(0, 1_000) for name, table in rows(random.Random(1)).items()}
    with omnigraphdb.init(tmp_path / "few", SCHEMA) as graph:
        graph.load(few, mode="append")
    with omnigraphdb.init(tmp_path / "off", SCHEMA, config={"maintenance": "off"}) as graph:
        graph.load(rows(random.Random(1)), mode="append")
    assert files(tmp_path / "few") == files(tmp_path / "off") == []


# ---- graphs that do not fit in the cache


@pytest.mark.parametrize("stored", [True, False])
def test_edges_beyond_the_cache_are_walked_in_its_bound(home: Path, stored: bool) -> None:
    """Without a file edges are sorted part by part; with one it is mapped."""
    bytes_max = 200_000
    expected, calls = pairs(home, "Feeds"), pairs(home, "Calls")
    for one in [] if stored else files(home):
        one.unlink()
    with (
        omnigraphdb.open(home, read_only=True, config={"cache_bytes": bytes_max}) as graph,
        counting() as costs,
    ):
        for _ in range(2):
            assert {tuple(row.values()) for row in graph.query(OUT).rows} == expected
            assert {tuple(row.values()) for row in graph.query(CALLS).rows} == calls
            for number in (3, 700):
                found = graph.query(TURNED, {"c": code(number)}).rows
                assert {row["a"] for row in found} == {a for a, b in expected if b == code(number)}
            weighed = graph.query(EDGES).rows
            assert {(row["a"], row["b"]) for row in weighed} == expected
            assert len(weighed) == FEEDS
            assert graph._engine.cache.bytes_cached <= bytes_max
        adjacency = graph._engine.cache.bytes_cached
    assert adjacency <= bytes_max
    assert costs[Cost.ADJACENCY_FILES_REFUSED] == 0
    assert (costs[Cost.ADJACENCY_FILES_READ] >= 2) is stored


# ---- bounds


@pytest.fixture
def bare(home: Path) -> Path:
    """A graph whose edge tables have no files yet."""
    for file in files(home):
        file.unlink()
    return home


BOTH_TABLES = (TableKey("edge:Feeds"), TableKey("edge:Calls"))
NEEDED = ADJACENCY_EDGE_BYTES * FEEDS + ADJACENCY_NODE_BYTES * PORTS
"""The memory that `Feeds` takes; `Calls` ends at another type, too."""


@pytest.mark.parametrize(
    ("bytes_max", "stored"), [(None, 2), (NEEDED + PORTS * 160, 2), (NEEDED, 1), (NEEDED - 1, 0)]
)
def test_an_adjacency_past_the_bound_is_not_built(
    bare: Path, bytes_max: int | None, stored: int
) -> None:
    with omnigraphdb.open(bare) as graph, counting() as costs:
        store_adjacencies(graph._engine, BOTH_TABLES, bytes_max)
    assert len(files(bare)) == stored
    # Rows are counted by the manifest: of a table past the bound nothing is read.
    assert (costs[Cost.TABLE_SCANS] > 0) is (stored > 0)


def test_a_file_that_would_be_too_large_is_not_built(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adjacency_files, "ADJACENCY_FILE_BYTES_MAX", 4 * (FEEDS + PORTS) - 1)
    with omnigraphdb.open(bare) as graph, counting() as costs:
        store_adjacencies(graph._engine, BOTH_TABLES)
    assert files(bare) == []
    assert costs[Cost.TABLE_SCANS] == 0


@pytest.mark.parametrize(("bytes_max", "stored"), [(NEEDED - 1, 0), (2 * NEEDED, 2)])
def test_a_load_keeps_within_the_bound_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_max: int, stored: int
) -> None:
    """As the driver of Spark has one; the settings are the defaults."""
    monkeypatch.setattr(loading, "ADJACENCY_DRIVER_BYTES_MAX", bytes_max)
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        load(
            graph._engine,
            rows(random.Random(3)),
            mode="append",
            choose_runner=lambda _: loading._choose_beside_spark(),
        )
    assert len(files(tmp_path / "g")) == stored
