"""Optimise: fewer fragments, complete indexes, the same rows, now and in the past."""

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine.read import costs, vectors
from omnigraphdb.errors import RecoveryRequired
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed, parked
from omnigraphdb.ids import MAIN
from tests.support.maintenance import (
    ADD,
    CITY,
    KNOWS,
    OLDER,
    PERSON,
    appended,
    compacted,
    content,
    drifted,
    entry,
    fragments,
    heads,
    made,
    person,
    scattered,
    states,
)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = scattered(tmp_path / "g")
    yield opened
    assert opened.doctor() == []
    opened.close()


def test_scattered_fragments_become_one_and_every_index_is_complete(graph: Graph) -> None:
    rows, before = content(graph), len(fragments(graph))
    report = graph.optimize()
    table = next(one for one in report.tables if one.table_key == PERSON)
    assert (table.committed, table.fragments_removed, table.fragments_added) == (True, before, 1)
    assert len(fragments(graph)) == 1
    assert set(states(graph).values()) == {"ready"}
    assert content(graph) == rows


def test_a_second_run_commits_nothing(graph: Graph) -> None:
    graph.optimize()
    before = heads(graph), graph.snapshot().manifest_version
    report = graph.optimize()
    assert [one.committed for one in report.tables] == [False, False, False]
    assert (heads(graph), graph.snapshot().manifest_version) == before


def test_all_tables_become_visible_in_one_publish(graph: Graph) -> None:
    graph.load([{"edge": "Knows", "from": "p1", "to": "p4", "data": {"id": "x"}}], mode="append")
    graph.load([{"type": "City", "data": {"name": "Oslo"}}], mode="append")
    with parked(Failpoint.OPTIMIZE_COMMITTED) as park:
        thread = threading.Thread(target=graph.optimize)
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        with omnigraphdb.open(graph.uri, read_only=True) as reader:
            (sidecar,) = reader.pending_recoveries()
        park.release()
        thread.join()
    assert (sidecar.writer_kind, sidecar.tables) == (WriterKind.OPTIMIZE, (KNOWS, CITY, PERSON))


def test_optimising_is_no_history(graph: Graph) -> None:
    before = [commit.id for commit in graph.commits()]
    assert graph.optimize().commit is None
    assert [commit.id for commit in graph.commits()] == before


def test_every_earlier_commit_reads_as_before(graph: Graph) -> None:
    past = {
        commit.id: graph.table("Person", at=commit.id).sort_by("id").to_pylist()
        for commit in graph.commits()[:-1]
    }
    graph.optimize()
    for commit, rows in past.items():
        assert graph.table("Person", at=commit).sort_by("id").to_pylist() == rows


def test_strict_updates_and_schema_changes_go_on_afterwards(graph: Graph) -> None:
    graph.optimize()
    assert graph.mutate(OLDER, {"name": "p2", "age": 5}).affected_nodes == 1
    changed = graph.schema_source.replace("note: String?", "note: String?  size: I64?")
    assert graph.schema_apply(changed).commit is not None


def test_a_writer_in_between_loses_nothing_and_stops_nothing(graph: Graph) -> None:
    with parked(Failpoint.STAGED) as park:
        thread = threading.Thread(target=graph.optimize)
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        # Prepared, and holding its turns: the writer waits and comes right after.
        writer = threading.Thread(target=lambda: graph.mutate(ADD, {"name": "late"}))
        writer.start()
        park.release()
        thread.join()
        writer.join()
    assert graph.entity("Person", "late") is not None
    graph.optimize()
    assert len(fragments(graph)) == 1


def test_a_base_that_moved_is_compacted_anew(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write lands after the compaction was staged and before its turn came."""
    tables = graph._engine.store.tables
    staged = tables.stage_compaction
    raced = threading.Event()

    def racing(*args: Any, **options: Any) -> object:
        found = staged(*args, **options)
        if not raced.is_set():
            raced.set()
            with omnigraphdb.open(graph.uri) as rival:
                rival.mutate(ADD, {"name": "rival"})
        return found

    monkeypatch.setattr(tables, "stage_compaction", racing)
    graph.optimize()
    assert raced.is_set()
    assert graph.entity("Person", "rival") is not None
    assert len(fragments(graph)) == 1


@pytest.mark.parametrize("stage", [appended, compacted])
def test_drift_is_left_to_repair_and_the_others_are_done(tmp_path: Path, stage: object) -> None:
    with scattered(tmp_path / "g") as graph:
        graph.load([{"type": "City", "data": {"name": "Oslo"}}], mode="append")
        pin = entry(graph).version
        head = drifted(graph, stage)  # type: ignore[arg-type]
        report = {one.table_key: one for one in graph.optimize().tables}
        person = report[PERSON]
        assert (person.skipped, person.committed) == ("drift_needs_repair", False)
        assert (person.manifest_version, person.head_version) == (pin, head)
        assert report[CITY].committed
        assert heads(graph)[PERSON] == head


def test_a_setting_that_deletes_versions_is_taken_away(tmp_path: Path) -> None:
    with made(tmp_path / "g") as graph:
        first = entry(graph).version
        dataset = lance.dataset(str(tmp_path / "g" / entry(graph).at.path))
        dataset.update_config({"lance.auto_cleanup.interval": "1"})
        graph.repair(confirm=True, force=True)
        graph.optimize()
        now = graph._engine.store.tables.open(entry(graph).at)
        assert now.auto_cleanup_keys() == ()
        assert lance.dataset(dataset.uri, version=first).count_rows() == 8
        assert graph.doctor() == []


def test_the_manifest_is_folded(graph: Graph) -> None:
    state = graph._engine.manifest.load(MAIN)
    assert state.fragments > 1
    rows = content(graph)
    graph.optimize()
    assert graph._engine.manifest.load(MAIN).fragments == 1
    assert content(graph) == rows
    assert graph.mutate(ADD, {"name": "after"}).commit is not None


def test_small_fragments_under_different_index_segments_are_joined(tmp_path: Path) -> None:
    with made(tmp_path / "g", config={"maintenance": "off"}) as graph:
        for number in range(3):
            graph.load([person(200 + number, like=[1, 2, 3, number])], mode="append")
            graph.optimize()
            assert len(fragments(graph)) == 1
        assert graph.query(
            "query q() { match { $p: Person { age: 201 } } return { $p.name } }"
        ).rows == [{"p.name": "p201"}]


def test_vectors_that_came_after_rows_without_any_are_covered(tmp_path: Path) -> None:
    with made(tmp_path / "g", config={"maintenance": "off"}) as graph:
        graph.ensure_indices()
        graph.load([person(300)], mode="append")
        graph.optimize()
        graph.load([person(301)], mode="append")
        graph.optimize()
        assert set(states(graph).values()) == {"ready"}


def test_a_branch_made_before_reads_what_it_read(graph: Graph) -> None:
    graph.branch_create("review")
    graph.mutate(OLDER, {"name": "p3", "age": 9}, branch="review")
    rows = content(graph, "review")
    graph.optimize()
    assert content(graph, "review") == rows


def test_the_refusal_after_an_interrupted_run_says_how_to_go_on(graph: Graph) -> None:
    rows = content(graph)
    with armed(Failpoint.OPTIMIZE_COMPACTED), pytest.raises(Injected):
        graph.optimize()
    for verb in (graph.optimize, partial(graph.cleanup, keep=1)):
        with pytest.raises(RecoveryRequired, match=r"graph\.refresh\(roll_back=True\)"):
            verb()
    graph.refresh(roll_back=True)
    graph.optimize()
    assert set(states(graph).values()) == {"ready"}
    assert content(graph) == rows


def test_a_compacted_index_answers_with_the_rows_of_now(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments of texts and vectors keep entries of rows that are gone or changed, and say so to nobody."""
    for cost in ("SCANNED_ROW", "TEXT_ROW"):
        monkeypatch.setattr(costs, cost, 1e9)
    monkeypatch.setattr(vectors, "_SLACK", 0)
    graph.load([person(i, bio="tea", like=[i, 0, 0, 0]) for i in range(200, 260)], mode="append")
    graph.optimize()
    graph.mutate("query q() { delete Person where age >= 240 }")
    graph.optimize()
    assert not any(one.deleted_rows for one in fragments(graph))
    moved = [person(i, bio="cup", like=[9, 9, 9, 9]) for i in range(200, 220)]
    graph.load(moved, mode="merge")
    for _ in ("one segment", "two segments"):
        with omnigraphdb.open(graph.uri, config={"cache_bytes": 0}) as cold:
            rows = cold.query(
                'query q() { match { $p: Person  search($p.bio, "tea") } return { $p.age } }'
            )
            ages = sorted(age for age in rows.to_arrow().column(0).to_pylist() if age >= 200)
            assert ages == [*range(220, 240)]
            rows = cold.query(
                "query q($v: Vector(4)) { match { $p: Person } return { $p.age } "
                "order { nearest($p.like, $v) } limit 3 }",
                {"v": [205.0, 0.0, 0.0, 0.0]},
            )
            assert rows.to_arrow().column(0).to_pylist() == [220, 221, 222]
        graph.optimize()
