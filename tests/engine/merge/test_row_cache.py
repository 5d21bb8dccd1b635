"""The shelf of a merge: rows that were read once are not read again, and are what they were."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.diff.candidates import candidates
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.engine.diff.rows import find_changed_rows, pair_columns
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.limits import MERGE_ROW_CACHE_BYTES
from omnigraphdb.storage.addresses import rows_at, stream_at
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import TableAt
from tests.support.settled import assert_settled

DOC = TableKey("node:Doc")
SCHEMA = "node Doc { name: String @key  n: I64?  vec: Vector(4)?  file: Blob? }"


def docs(names: list[str], n: int) -> list[dict[str, object]]:
    return [
        {"type": "Doc", "data": {"name": name, "n": n, "vec": [n, 1, 2, 3], "file": "base64:aGk="}}
        for name in names
    ]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened: Graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    opened.load(docs([f"d{number:03d}" for number in range(200)], 0), mode="append")
    opened.branch_create("side")
    opened.load(docs(["d003", "d077", "d150", "new"], 1), mode="merge", branch="side")
    opened.mutate('query q() { delete Doc where name = "d100" }', branch="side")
    yield opened
    opened.close()


def at(graph: Graph, branch: str) -> TableAt:
    return graph._engine.view(BranchName(branch)).snapshot.entry(DOC).at


def opened(graph: Graph, branch: str) -> Table:
    return graph._engine.store.tables.open(at(graph, branch))


def moves(graph: Graph, row_cache: RowCache) -> pa.Table:
    return find_changed_rows(
        graph._engine.store.tables, at(graph, "main"), at(graph, "side"), row_cache=row_cache
    )


def test_what_differs_is_the_same_with_a_shelf_and_without(graph: Graph) -> None:
    found = moves(graph, RowCache(MERGE_ROW_CACHE_BYTES))
    assert found.equals(moves(graph, NO_ROW_CACHE))
    assert found["id"].to_pylist() == ["d003", "d077", "d100", "d150", "new"]


def test_rows_that_were_compared_are_given_without_another_read(graph: Graph) -> None:
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES)
    found = moves(graph, row_cache)
    side, names = opened(graph, "side"), ["vec", "id", "n"]
    come = found["after"].combine_chunks().drop_null()
    plain = rows_at(side, come, names)
    streamed = pa.Table.from_batches(stream_at(side, come, names))
    with counting() as costs:
        assert row_cache.rows(side, come, names).equals(plain)
        assert pa.Table.from_batches(row_cache.stream(side, come, names)).equals(streamed)
    assert costs[Cost.TABLE_SCANS] == 0


@pytest.mark.parametrize("names", [["id", "file"], ["id"]], ids=["a blob", "another row"])
def test_what_is_not_on_it_is_read(graph: Graph, names: list[str]) -> None:
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES)
    found = moves(graph, row_cache)
    side = opened(graph, "side")
    come = found["after"].combine_chunks().drop_null()
    wanted = come if "file" in names else pa.concat_arrays([come, pa.array([5], pa.uint64())])
    with counting() as costs:
        assert row_cache.rows(side, wanted, names).equals(rows_at(side, wanted, names))
    assert costs[Cost.TABLE_SCANS] >= 2


def test_a_shelf_without_room_holds_nothing_and_reads_ids_only(graph: Graph) -> None:
    side = opened(graph, "side")
    for row_cache in (NO_ROW_CACHE, RowCache(100)):
        assert row_cache.columns(side, 50) == ["id"]
        candidates(graph._engine.store.tables, at(graph, "main"), at(graph, "side"), row_cache)
        with counting() as costs:
            row_cache.rows(side, pa.array([0], pa.uint64()), ["id"])
        assert costs[Cost.TABLE_SCANS] == 1


def test_long_texts_count_as_they_are_stored(tmp_path: Path) -> None:
    graph = omnigraphdb.init(tmp_path / "g", "node T { name: String @key  text: String }")
    texts = [{"type": "T", "data": {"name": str(n), "text": f"{n} " * 20_000}} for n in range(40)]
    graph.load(texts, mode="append")
    entry = graph._engine.view().snapshot.entry(TableKey("node:T"))
    table = graph._engine.store.tables.open(entry.at)
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES)
    stored = sum(part.bytes for part in table.fragments())
    assert row_cache.columns(table, 1) == ["id", "name", "text"]
    assert row_cache.columns(table, MERGE_ROW_CACHE_BYTES * 40 // (3 * stored)) == ["id"]


def test_blobs_and_vectors_arrive_whole_from_a_merge_with_a_shelf(graph: Graph) -> None:
    graph.merge("side")
    merged = {row["name"]: row for row in graph.table("Doc").to_pylist()}
    assert len(merged) == 200
    assert [merged[name]["vec"] for name in ("d003", "new")] == [[1, 1, 2, 3]] * 2
    exported = {
        record["data"]["name"]: record["data"]["file"] for record in graph.export(types=["Doc"])
    }
    assert set(exported.values()) == {"base64:aGk="}
    assert_settled(graph)


def test_columns_that_follow_from_the_id_are_not_compared(graph: Graph) -> None:
    base, side = opened(graph, "main"), opened(graph, "side")
    implied = {base.at.path: ("name",)}
    assert pair_columns(base, side).names == ("file", "n", "name", "vec")
    assert pair_columns(base, side, RowCache(MERGE_ROW_CACHE_BYTES, implied)).names == (
        "file",
        "n",
        "vec",
    )
    found = moves(graph, RowCache(MERGE_ROW_CACHE_BYTES, implied))
    assert found.equals(moves(graph, NO_ROW_CACHE))


def test_a_shelf_gives_rows_in_any_order(graph: Graph) -> None:
    table = opened(graph, "main")
    rows = table.read(["id", "n"], row_address=True)
    row_cache = RowCache(MERGE_ROW_CACHE_BYTES)
    row_cache.put(table, rows)
    addresses = rows["_rowaddr"].combine_chunks()
    for order in (addresses, addresses[::-1], addresses.take(pa.array([5, 0, 5]))):
        found = row_cache.find_rows(table, order, ["id"])
        assert found is not None
        assert found.equals(rows_at(table, order, ["id"]))
    assert row_cache.find_rows(table, addresses, ["id", "vec"]) is None
