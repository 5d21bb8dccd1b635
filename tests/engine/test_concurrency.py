"""Many writers at once: nothing lost, nothing twice, one chain; a conflict is told to exactly the writers that lost."""

import itertools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed
from omnigraphdb.ids import TableKey, Version
from tests.support.s3 import Bucket
from tests.support.writers import in_processes, in_threads

ROUNDS = 8
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
    return omnigraphdb.init(uri, SCHEMA, storage_options=options)


def assert_one_chain(graph: Graph, commits: int) -> None:
    found = graph.commits()
    assert len(found) == commits + 1
    assert all(newer.parent == older.id for newer, older in itertools.pairwise(found))
    assert graph.doctor() == []


def rounds_for(place: tuple[str, object]) -> int:
    return ROUNDS if "://" not in place[0] else 4


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
    assert in_threads(works) == [None] * 6
    assert graph.table("T0").num_rows == 1
    assert_one_chain(graph, 6)


WRITERS = 4


class Together:
    """A rendezvous: the first arrivals wait for one another, later ones pass."""

    def __init__(self, arrivals: int) -> None:
        self._left = itertools.count(arrivals, -1)
        self._barrier = threading.Barrier(arrivals, timeout=PARK_SECONDS_MAX)

    def __call__(self) -> None:
        if next(self._left) > 0:
            self._barrier.wait()


def test_strict_updates_prepared_on_one_base_have_one_winner_per_round(graph: Graph) -> None:
    graph.mutate(insert(0), {"k": "a"})
    update = 'query up($n: I32) { update T0 set { n: $n } where k = "a" }'
    for _ in range(3):
        base = graph.snapshot()
        works = [lambda n=n: graph.mutate(update, {"n": n}) for n in range(WRITERS)]
        with armed(Failpoint.PREPARED, Together(WRITERS)):
            raised = in_threads(works)
        lost = [one for one in raised if one is not None]
        assert len(lost) == WRITERS - 1
        assert all(isinstance(one, omnigraphdb.ManifestConflict) for one in lost)
        (winner,) = [n for n, one in enumerate(raised) if one is None]
        assert graph.table("T0")["n"].to_pylist() == [winner]
        conflict = lost[0].details["manifest_conflict"]  # type: ignore[attr-defined]
        assert conflict == versions(base, graph.snapshot(), "node:T0")
        assert graph.snapshot().manifest_version == base.manifest_version + 1
    assert_one_chain(graph, 4)


def versions(before: Snapshot, after: Snapshot, table: str) -> dict[str, Any]:
    found = [
        one["table_version"]
        for snapshot in (before, after)
        for one in snapshot.to_dict()["tables"]
        if one["table_key"] == table
    ]
    return {"table_key": table, "expected": found[0], "actual": found[1]}


def test_strict_updates_of_several_processes_never_overwrite_one_another(
    graph: Graph, place: tuple[str, Any]
) -> None:
    graph.mutate(insert(0), {"k": "a"})
    update = "query up($old: I32, $n: I32) { update T0 set { n: $n } where n = $old }"
    graph.mutate('query zero() { update T0 set { n: 0 } where k = "a" }')
    rounds = [{"old": n, "n": n + 1} for n in range(rounds_for(place) // 2)]
    found = in_processes(place[0], [{"query": update, "rounds": rounds}] * 3, place[1])
    kinds = {one.split(":")[0] for writer in found for one in writer.refused}
    assert kinds <= {"manifest_conflict"}
    # A write that matched nothing lands without a commit; each step forward was made once, by one writer.
    commits = len(graph.commits()) - 3
    assert graph.table("T0")["n"].to_pylist() == [commits]
    assert_one_chain(graph, commits + 2)


def test_inserts_prepared_on_one_base_all_land(graph: Graph) -> None:
    works = [lambda n=n: graph.mutate(insert(0), {"k": f"k{n}"}) for n in range(WRITERS)]
    with armed(Failpoint.PREPARED, Together(WRITERS)):
        assert in_threads(works) == [None] * WRITERS
    assert sorted(graph.table("T0")["id"].to_pylist()) == [f"k{n}" for n in range(WRITERS)]
    assert_one_chain(graph, WRITERS)


def test_appends_of_the_same_id_have_one_winner_and_typed_losers(graph: Graph) -> None:
    record = {"type": "T0", "data": {"k": "same"}}
    works = [lambda: graph.load([record], mode="append") for _ in range(WRITERS)]
    with armed(Failpoint.PREPARED, Together(WRITERS)):
        raised = in_threads(works)
    assert sum(one is None for one in raised) == 1
    assert {type(one) for one in raised} == {type(None), omnigraphdb.KeyConflict}
    assert graph.table("T0").num_rows == 1
    assert_one_chain(graph, 1)


def test_edges_and_their_endpoints_are_written_at_the_same_time(tmp_path: Path) -> None:
    graph = omnigraphdb.init(tmp_path / "g", "node P { k: String @key }  edge E: P -> P")
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


def test_a_table_is_read_while_recovery_looks_at_its_transactions(tmp_path: Path) -> None:
    """Both use the handle of the same version, which Lance lends to one call alone for as long as some calls take."""
    graph = omnigraphdb.init(tmp_path / "g", "node Person { name: String @key }")
    graph.load([{"type": "Person", "data": {"name": "a"}}], mode="append")
    tables = graph._engine.store.tables
    at = graph.snapshot()._view.snapshot.entry(TableKey("node:Person")).at

    def look() -> None:
        for _ in range(300):
            (made,) = tables.transactions(at.path, at.branch, Version(at.version - 1), at.version)
            assert made.uuid is not None

    def read() -> None:
        for _ in range(3_000):
            assert tables.head(at.path, at.branch) == at.version

    assert in_threads([look, look, read, read]) == [None] * 4
