"""Cleanup beyond the main line: forks, trees without a ref, dropped tables, scratch files; and what it keeps there."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.reports import CleanupReport, TableCleaned
from omnigraphdb.commit.locks import SCHEMA_APPLY
from omnigraphdb.errors import HistoryReclaimed, OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import TableKey
from omnigraphdb.manifest.branches import lock_schema, unlock_schema
from omnigraphdb.storage.layout import STAGING_DIR
from tests.support.maintenance import (
    ADD,
    CITY,
    GONE,
    OLDER,
    PERSON,
    content,
    entry,
    made,
    person,
    tables_of,
)
from tests.support.settled import assert_settled


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g", config={"maintenance": "off"})
    yield opened
    opened.close()


def aged(graph: Graph, branch: str, times: int = 6) -> None:
    for number in range(times):
        graph.mutate(OLDER, {"name": "p1", "age": number}, branch=branch)


def versions(graph: Graph, line: str | None) -> list[int]:
    return [info.version for info in tables_of(graph).versions(entry(graph).at.path, line)]


def list_files(graph: Graph) -> list[Path]:
    """Every file but the locks, which a preview takes too."""
    files = (path for path in Path(graph.uri).rglob("*") if path.is_file())
    return sorted(path for path in files if path.parent.name != "__locks")


def of(report: CleanupReport, table: TableKey = PERSON) -> TableCleaned:
    return next(one for one in report.tables if one.table_key == table)


def previewed(graph: Graph, **options: object) -> CleanupReport:
    """Clean, and require that the preview told exactly what went."""
    preview = graph.cleanup(**options)  # type: ignore[arg-type]
    done = graph.cleanup(**options, confirm=True)  # type: ignore[arg-type]
    assert (done.tables, done.scratch_removed) == (preview.tables, preview.scratch_removed)
    assert done.manifest == preview.manifest
    return done


# ---- versions of forks


def test_versions_of_a_fork_go_and_its_rows_stay(graph: Graph) -> None:
    graph.branch_create("work")
    aged(graph, "work")
    rows, on_main = content(graph, "work"), content(graph)
    before = versions(graph, "work")
    done = previewed(graph, keep=1)
    assert of(done).versions_removed >= len(before) - 2
    assert versions(graph, "work")[-1] == before[-1]
    assert len(versions(graph, "work")) <= 2
    assert (content(graph, "work"), content(graph)) == (rows, on_main)
    aged(graph, "work", 1)
    graph.merge("work")
    assert_settled(graph)


def test_a_branch_of_a_branch_keeps_what_it_shows_of_its_parent(graph: Graph) -> None:
    graph.branch_create("parent")
    aged(graph, "parent", 3)
    graph.branch_create("child", from_branch="parent")
    shown = content(graph, "child")
    pinned = entry(graph, PERSON, "child").version
    aged(graph, "parent", 5)
    previewed(graph, keep=1)
    assert pinned in versions(graph, "parent")
    assert content(graph, "child") == shown
    graph.mutate(ADD, {"name": "Zoe"}, branch="child")
    assert graph.merge("child", into="parent").outcome == "merged"
    assert_settled(graph)


def test_the_fork_a_child_stands_on_is_kept_whatever_is_asked(graph: Graph) -> None:
    graph.branch_create("parent")
    aged(graph, "parent", 3)
    graph.branch_create("child", from_branch="parent")
    graph.mutate(ADD, {"name": "Zoe"}, branch="child")
    shown = content(graph, "child")
    aged(graph, "parent", 4)
    previewed(graph, keep=1)
    fresh = omnigraphdb.open(graph.uri)
    assert content(fresh, "child") == shown
    assert fresh.merge("child", into="parent").outcome == "merged"
    assert_settled(graph)


def test_the_files_of_the_version_that_a_fork_was_made_from_are_kept(graph: Graph) -> None:
    """The fork shares some of them for good; Lance keeps the version for it, but not the files that only the version has."""
    graph.load([person(20), person(21)], mode="append")
    graph.mutate(GONE, {"name": "p21"})
    start, shown = graph.commits()[0], graph.table("Person")
    graph.branch_create("work")
    graph.mutate(OLDER, {"name": "p20", "age": 1}, branch="work")
    graph.merge("work")
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True)
    with omnigraphdb.open(graph.uri) as fresh:
        assert fresh.table("Person", at=start) == shown
        assert fresh.table("Person", branch="work", at=start) == shown


def test_what_could_be_seen_within_the_age_can_still_be_seen(graph: Graph) -> None:
    """A version made long ago was visible until it was replaced: its age counts from there."""
    old = graph.commits()[0]
    shown = graph.table("Person", at=old)
    aged(graph, "main", 3)
    graph.cleanup(older_than=timedelta(hours=1), confirm=True)
    assert graph.table("Person", at=old) == shown


def test_a_reclaimed_state_is_told_by_its_commit(graph: Graph) -> None:
    old = graph.commits()[0].id
    aged(graph, "main")
    graph.cleanup(keep=1, confirm=True)
    with omnigraphdb.open(graph.uri) as fresh, pytest.raises(HistoryReclaimed) as caught:
        fresh.table("Person", at=old)
    assert caught.value.details["history_reclaimed"]["commit_id"] == old
    assert old in str(caught.value)
    assert "branch" in (caught.value.hint or "")


# ---- trees without a ref


@pytest.mark.parametrize("name", ["gone", "team.gone"])
def test_files_of_a_deleted_branch_whose_ref_is_gone_are_removed(graph: Graph, name: str) -> None:
    graph.branch_create(name)
    aged(graph, name, 2)
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete(name)
    path = entry(graph).at.path
    (Path(graph.uri) / path / "_refs" / "branches" / f"{name}.json").unlink()
    assert name in tables_of(graph).sizes(path)
    done = previewed(graph, keep=100)
    assert of(done).forks_removed == (name,)
    assert of(done).bytes_removed > 0
    assert name not in tables_of(graph).sizes(path)
    graph.branch_create(name)
    aged(graph, name, 1)
    assert_settled(graph)


def test_files_without_manifests_are_found_too(graph: Graph) -> None:
    """A removal that died half way: manifests go first."""
    graph.branch_create("gone")
    aged(graph, "gone", 2)
    tree = Path(graph.uri) / entry(graph).at.path / "tree" / "gone"
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete("gone")
    (tree.parents[1] / "_refs" / "branches" / "gone.json").unlink()
    shutil.rmtree(tree / "_versions")
    assert of(previewed(graph, keep=100)).forks_removed == ("gone",)
    assert not any(path.is_file() for path in tree.rglob("*"))


def test_forks_of_live_branches_are_never_taken_for_leftovers(graph: Graph) -> None:
    for name in ("one", "data", "deep.er"):
        graph.branch_create(name)
        aged(graph, name, 1)
    rows = {name: content(graph, name) for name in ("one", "data", "deep.er")}
    assert of(previewed(graph, keep=1)).forks_removed == ()
    assert {name: content(graph, name) for name in rows} == rows
    assert_settled(graph)


# ---- dropped tables


def dropped(graph: Graph, *, hard: bool = False) -> str:
    """Drop a type; gives the place its rows had."""
    path = entry(graph, CITY).at.path
    without = "\n".join(
        line for line in graph.schema_source.splitlines() if "node City" not in line
    )
    graph.schema_apply(without, allow_data_loss=hard)
    return path


def test_a_dropped_table_goes_with_all_its_bytes(graph: Graph) -> None:
    path = dropped(graph)
    assert tables_of(graph).exists(path)
    done = previewed(graph, keep=3)
    city = of(done, CITY)
    assert city.dropped
    assert city.bytes_removed > 0
    assert not (Path(graph.uri) / path).exists()
    assert not of(graph.cleanup(keep=3, confirm=True), CITY).dropped
    assert_settled(graph)


def test_a_dropped_table_stays_as_long_as_it_could_be_seen(graph: Graph) -> None:
    before = graph.commits()[0]
    path = dropped(graph)
    assert not of(previewed(graph, older_than=timedelta(hours=1)), CITY).dropped
    assert tables_of(graph).exists(path)
    assert graph.snapshot(at=before).tables()
    assert of(previewed(graph, older_than=timedelta(0)), CITY).dropped


def test_what_a_hard_drop_could_not_remove_is_removed_later(graph: Graph) -> None:
    path = entry(graph, CITY).at.path
    kept = Path(graph.uri) / path
    copy = kept.with_name("copy")
    shutil.copytree(kept, copy)
    dropped(graph, hard=True)
    assert not kept.exists()
    copy.rename(kept)
    shutil.rmtree(kept / "_versions")
    assert of(previewed(graph, keep=1), CITY).dropped
    assert not kept.exists()


def test_a_renamed_table_is_one_table(graph: Graph) -> None:
    renamed = graph.schema_source.replace("node City {", 'node Town @rename_from("City") {')
    graph.schema_apply(renamed)
    rows = graph.table("Town")
    keys = [one.table_key for one in previewed(graph, keep=1).tables]
    assert ("node:Town" in keys, CITY in keys) == (True, False)
    assert graph.table("Town") == rows
    assert_settled(graph)


# ---- scratch files


def scratch(graph: Graph, operation: str, expires_us: int) -> Callable[[], bool]:
    """What a load that never ended left; the answer tells whether it is still there."""
    objects = graph._engine.store.objects
    objects.put(f"{STAGING_DIR}/{operation}/part-0", "x")
    objects.put(f"{STAGING_DIR}/{operation}.json", f'{{"expires_us": {expires_us}}}')
    return lambda: objects.exists(f"{STAGING_DIR}/{operation}")


def test_scratch_files_go_when_their_load_has_been_silent_for_the_age(graph: Graph) -> None:
    now = graph._engine.runtime.now_us()
    hour = 3_600_000_000
    ancient = scratch(graph, "ancient", now - 24 * 9 * hour)
    recent = scratch(graph, "recent", now - 2 * hour)
    assert previewed(graph, keep=5).scratch_removed == ("ancient",)
    assert (ancient(), recent()) == (False, True)
    assert previewed(graph, older_than=timedelta(hours=3)).scratch_removed == ()
    assert previewed(graph, older_than=timedelta(hours=1)).scratch_removed == ("recent",)
    assert not recent()


def test_scratch_files_of_a_running_load_are_never_touched(graph: Graph) -> None:
    running = scratch(graph, "running", graph._engine.runtime.now_us() + 10**9)
    report = graph.cleanup(older_than=timedelta(0), confirm=True)
    assert (report.scratch_removed, running()) == ((), True)


# ---- the schema lock


WORK: dict[str, Callable[[Graph], object]] = {
    "cleanup": lambda graph: graph.cleanup(keep=1, confirm=True),
    "repair": lambda graph: graph.repair(confirm=True),
}


@pytest.mark.parametrize("work", WORK)
def test_manual_maintenance_waits_for_a_running_schema_change(graph: Graph, work: str) -> None:
    aged(graph, "main", 3)
    engine = graph._engine
    before = versions(graph, None)
    thread = threading.Thread(target=WORK[work], args=(graph,))
    with engine.committer.locks.acquire([SCHEMA_APPLY]):
        lock_schema(engine.manifest, engine.store.tables)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert versions(graph, None) == before
        unlock_schema(engine.manifest)
    thread.join()
    assert (len(versions(graph, None)) == 1) == (work == "cleanup")
    assert_settled(graph)


@pytest.mark.parametrize("work", WORK)
def test_manual_maintenance_drops_the_lock_of_a_schema_change_that_died(
    graph: Graph, work: str
) -> None:
    lock_schema(graph._engine.manifest, graph._engine.store.tables)
    WORK[work](graph)
    assert_settled(graph)


def test_a_failure_in_one_line_spares_the_others(graph: Graph) -> None:
    graph.branch_create("work")
    aged(graph, "work")
    aged(graph, "main")
    tables = [one.table_key for one in graph.cleanup(keep=1).tables]
    skip = tables.index(PERSON)
    with armed(Failpoint.CLEANUP_TABLE, f"skip({skip})+1*error"):
        report = graph.cleanup(keep=1, confirm=True)
    assert "injected" in (of(report).error or "")
    assert len(versions(graph, None)) > 1
    assert len(versions(graph, "work")) <= 2
    assert len(versions(graph, None)) > len(versions(graph, "work"))
    graph.cleanup(keep=1, confirm=True)
    assert_settled(graph)


def test_who_asked_for_a_cleanup_or_a_branch_is_in_report_and_log(
    graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "omnigraphdb")
    graph.branch_create("work", actor="ada")
    graph.branch_delete("work", actor="bo")
    assert graph.cleanup(keep=1, actor="cy").to_dict()["actor_id"] == "cy"
    graph.cleanup(keep=1, confirm=True, actor="cy")
    told = [vars(record)["fields"] for record in caplog.records]
    assert [
        (one["event"], one["actor"])
        for one in told
        if one["event"].startswith(("branch.", "cleanup."))
    ] == [("branch.created", "ada"), ("branch.deleted", "bo"), ("cleanup.done", "cy")]


def test_an_unconfirmed_cleanup_removes_nothing_anywhere(graph: Graph) -> None:
    graph.branch_create("work")
    aged(graph, "work")
    files = list_files(graph)
    graph.cleanup(keep=1)
    assert list_files(graph) == files
    with pytest.raises(OmniError):
        graph.cleanup(confirm=True)
