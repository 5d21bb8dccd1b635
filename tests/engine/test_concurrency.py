"""Many writers at once: nothing lost, nothing twice, one chain; a conflict is told to exactly the losers."""

import itertools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.failpoints import Failpoint, parked
from tests.support.s3 import Bucket
from tests.support.writers import in_processes, in_threads

ROUNDS = 40
TABLES = 8
SCHEMA = "\n".join(f"node T{i} {{ k: String @key  n: I32? }}" for i in range(TABLES))


def insert(table: int) -> str:
    return f"query add($k: String) {{ insert T{table} {{ k: $k }} }}"


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Mapping[str, str] | None]:
    """Where the graph is: on disk, and on an object store."""
    if request.param == "local":
        return str(tmp_path / "g"), None
    bucket: Bucket = request.getfixturevalue("bucket")
    return f"{bucket.uri}/g", bucket.storage_options


@pytest.fixture
def graph(place: tuple[str, Mapping[str, str] | None]) -> Graph:
    uri, options = place
    return omnigraph.init(uri, SCHEMA, storage_options=options)


def assert_one_chain(graph: Graph, commits: int) -> None:
    found = graph.commits()
    assert len(found) == commits + 1
    assert all(newer.parent == older.id for newer, older in itertools.pairwise(found))
    assert graph.doctor() == []


def rounds_for(place: tuple[str, object]) -> int:
    return ROUNDS if "://" not in place[0] else 6


def test_threads_on_disjoint_tables_all_land(graph: Graph, place: tuple[str, Any]) -> None:
    rounds = rounds_for(place)

    def work(table: int) -> Callable[[], None]:
        def run() -> None:
            for n in range(rounds):
                graph.mutate(insert(table), {"k": f"k{n}"})

        return run

    assert in_threads([work(table) for table in range(TABLES)]) == [None] * TABLES
    assert_one_chain(graph, rounds * TABLES)
    assert all(graph.table(f"T{i}").num_rows == rounds for i in range(TABLES))


def test_processes_on_disjoint_tables_all_land(graph: Graph, place: tuple[str, Any]) -> None:
    rounds = rounds_for(place)
    jobs = [
        {"query": insert(table), "rounds": [{"k": f"k{n}"} for n in range(rounds)]}
        for table in range(6)
    ]
    found = in_processes(place[0], jobs, place[1])
    assert [(one.landed, one.refused) for one in found] == [(rounds, ())] * 6
    assert_one_chain(graph, rounds * 6)


def test_keyed_inserts_of_different_ids_into_one_table_all_land(
    graph: Graph, place: tuple[str, Any]
) -> None:
    rounds = rounds_for(place) // 2
    jobs = [
        {"query": insert(0), "rounds": [{"k": f"{writer}-{n}"} for n in range(rounds)]}
        for writer in range(4)
    ]
    found = in_processes(place[0], jobs, place[1])
    assert [(one.landed, one.refused) for one in found] == [(rounds, ())] * 4
    ids = graph.table("T0")["id"].to_pylist()
    assert sorted(ids) == sorted({f"{w}-{n}" for w in range(4) for n in range(rounds)})
    assert_one_chain(graph, rounds * 4)


def test_upserts_of_the_same_id_leave_one_row(graph: Graph) -> None:
    upsert = 'query up($n: I32) { insert T0 { k: "same", n: $n } }'
    works = [lambda n=n: graph.mutate(upsert, {"n": n}) for n in range(6)]
    assert in_threads(works) == [None] * 6  # type: ignore[arg-type]
    assert graph.table("T0").num_rows == 1
    assert_one_chain(graph, 6)


def test_strict_updates_of_one_table_have_one_winner_per_round(graph: Graph) -> None:
    graph.mutate(insert(0), {"k": "a"})
    update = 'query up($n: I32) { update T0 set { n: $n } where k = "a" }'
    for _ in range(3):
        before = len(graph.commits())
        outcomes = _two_at_once(graph, update)
        assert [type(one) for one in outcomes] == [type(None), omnigraph.ManifestConflict]
        assert len(graph.commits()) == before + 1
    assert graph.doctor() == []


def _two_at_once(graph: Graph, update: str) -> list[BaseException | None]:
    """The first writer stands before its first effect, its turn taken, until the second is prepared."""
    outcomes: list[BaseException | None] = [None, None]

    def write(place: int) -> None:
        try:
            graph.mutate(update, {"n": place})
        except omnigraph.OmniError as error:
            outcomes[place] = error

    with parked(Failpoint.STAGED) as park:
        first, second = (threading.Thread(target=write, args=(n,)) for n in range(2))
        first.start()
        assert park.reached.wait(30)
        second.start()
        second.join(1.0)
        assert second.is_alive(), "the second writer did not wait for its turn"
        park.release()
        first.join(60)
        second.join(60)
    return outcomes


def test_edges_and_their_endpoints_are_written_at_the_same_time(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g", "node P { k: String @key }  edge E: P -> P")
    graph.load([{"type": "P", "data": {"k": str(i)}} for i in range(4)], mode="append")

    def nodes() -> None:
        for n in range(15):
            graph.mutate("query a($k: String) { insert P { k: $k } }", {"k": f"n{n}"})

    def edges() -> None:
        for _ in range(15):
            graph.mutate('query a() { insert E { from: "0", to: "1" } }')

    assert in_threads([nodes, edges, edges]) == [None] * 3
    assert (graph.table("P").num_rows, graph.table("E").num_rows) == (19, 30)
    assert_one_chain(graph, 46)
