"""Cleanup: old versions go, nothing that is visible anywhere does."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.engine.maintenance.retention import Retention
from omnigraphdb.errors import (
    DriftError,
    HistoryReclaimed,
    OmniError,
    RecoveryRequired,
    StorageError,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import Version
from omnigraphdb.storage.layout import STAGING_DIR
from omnigraphdb.storage.values import VersionInfo
from tests.support.maintenance import (
    ADD,
    CITY,
    KNOWS,
    OLDER,
    PERSON,
    appended,
    content,
    drifted,
    entry,
    heads,
    made,
    tables_of,
)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g")
    for number in range(10):
        opened.mutate(OLDER, {"name": "p1", "age": number})
    yield opened
    opened.close()


def versions(graph: Graph) -> list[int]:
    return [info.version for info in tables_of(graph).versions(entry(graph).at.path)]


# ---- which versions


@pytest.mark.parametrize(
    ("keep", "cutoff", "removed"),
    [
        (1, None, [1, 2, 3, 4]),
        (3, None, [1, 2]),
        (9, None, []),
        (None, 25, [1]),
        (None, 999, [1, 2, 3, 4]),
        (3, 25, [1]),
        (3, 15, []),
        (4, 999, [1]),
        (4, 5, []),
    ],
)
def test_a_version_goes_when_neither_rule_keeps_it_and_the_newest_never(
    keep: int | None, cutoff: int | None, removed: list[int]
) -> None:
    made_at = tuple(VersionInfo(version=Version(n), created_us=10 * n) for n in range(1, 6))
    chosen = Retention(keep=keep, cutoff_us=cutoff)
    assert list(chosen.list_removable(made_at, lambda version: None)) == removed


def test_something_to_keep_must_be_named(graph: Graph) -> None:
    wrongs: tuple[dict[str, Any], ...] = ({}, {"keep": 0}, {"older_than": timedelta(days=-1)})
    for wrong in wrongs:
        with pytest.raises(UserInputError):
            graph.cleanup(confirm=True, **wrong)


# ---- removing


def test_a_preview_tells_what_the_real_run_does_and_removes_nothing(graph: Graph) -> None:
    before = versions(graph)
    preview = graph.cleanup(keep=2)
    assert (preview.confirmed, versions(graph)) == (False, before)
    done = graph.cleanup(keep=2, confirm=True)
    assert done.confirmed
    assert done.tables == preview.tables
    assert versions(graph) == before[-2:]
    person = next(one for one in done.tables if one.table_key == PERSON)
    assert (person.versions_removed, person.error) == (len(before) - 2, None)
    assert person.bytes_removed > 0


def test_what_is_visible_reads_as_before(graph: Graph) -> None:
    rows = content(graph)
    graph.cleanup(keep=1, confirm=True)
    assert content(graph) == rows
    assert graph.doctor() == []
    assert graph.mutate(ADD, {"name": "after"}).commit is not None


def test_a_removed_version_is_reclaimed_and_not_unknown(graph: Graph) -> None:
    old = graph.commits()[3].id
    graph.cleanup(keep=1, confirm=True)
    graph._engine.cache.clear()
    with pytest.raises(HistoryReclaimed):
        graph.table("Person", at=old)


def test_young_versions_stay(graph: Graph) -> None:
    before = versions(graph)
    graph.cleanup(older_than=timedelta(hours=1), confirm=True)
    graph.cleanup(keep=1, older_than=timedelta(hours=1), confirm=True)
    assert versions(graph) == before
    graph.cleanup(older_than=timedelta(0), confirm=True)
    assert versions(graph) == before[-1:]


# ---- what stays whatever is asked


def test_a_branch_still_reads_the_versions_it_shows_of_main(graph: Graph) -> None:
    graph.branch_create("review")
    rows = content(graph, "review")
    for number in range(10):
        graph.mutate(OLDER, {"name": "p1", "age": 50 + number})
    pinned = entry(graph, PERSON, "review").version
    graph.cleanup(keep=1, confirm=True)
    assert versions(graph) == [pinned, heads(graph)[PERSON]]
    assert content(graph, "review") == rows
    graph.mutate(ADD, {"name": "on the branch"}, branch="review")
    assert graph.doctor() == []


def test_a_branch_can_be_merged_after_main_was_cleaned(graph: Graph) -> None:
    graph.branch_create("review")
    graph.mutate(ADD, {"name": "Zoe"}, branch="review")
    graph.mutate(OLDER, {"name": "p1", "age": 1000})
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    assert graph.merge("review").outcome == "merged"
    assert graph.entity("Person", "Zoe") is not None
    graph.mutate(ADD, {"name": "Yan"}, branch="review")
    for number in range(3):
        graph.mutate(OLDER, {"name": "p2", "age": number})
    graph.cleanup(keep=1, confirm=True)
    assert graph.merge("review").outcome == "merged"
    assert graph.doctor() == []


def test_all_rows_are_there_after_merge_branch_delete_cleanup_and_optimize(graph: Graph) -> None:
    graph.branch_create("review")
    graph.mutate(ADD, {"name": "Zoe"}, branch="review")
    graph.merge("review")
    rows = content(graph)
    graph.branch_delete("review")
    graph.cleanup(keep=1, confirm=True)
    graph.optimize()
    assert content(graph) == rows
    assert graph.doctor() == []


def test_a_fork_keeps_the_version_it_stands_on(graph: Graph) -> None:
    graph.branch_create("review")
    graph.mutate(ADD, {"name": "Zoe"}, branch="review")
    rows = content(graph, "review")
    for number in range(5):
        graph.mutate(OLDER, {"name": "p1", "age": 70 + number})
    graph.cleanup(keep=1, confirm=True)
    assert content(graph, "review") == rows


# ---- refusing


def test_it_waits_for_interrupted_writes(graph: Graph) -> None:
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(OmniError):
        graph.mutate(ADD, {"name": "half"})
    before = versions(graph)
    for maintenance in (
        lambda: graph.cleanup(keep=1, confirm=True),
        lambda: graph.cleanup(keep=1),
        graph.optimize,
        lambda: graph.repair(confirm=True),
    ):
        with pytest.raises(RecoveryRequired):
            maintenance()
    assert versions(graph) == before
    graph.refresh()
    assert graph.entity("Person", "half") is not None


def test_it_refuses_drift(graph: Graph) -> None:
    drifted(graph, appended)
    before = versions(graph)
    with pytest.raises(DriftError, match="repair"):
        graph.cleanup(keep=1, confirm=True)
    assert versions(graph) == before


def test_a_branch_that_cannot_be_read_stops_everything_and_is_named_once(graph: Graph) -> None:
    graph.branch_create("review")
    before = versions(graph)
    with (
        armed(Failpoint.CLEANUP_BRANCH, "skip(1)+error"),
        pytest.raises(StorageError) as refused,
    ):
        graph.cleanup(keep=1, confirm=True)
    assert str(refused.value).count("'review'") == 1
    assert versions(graph) == before
    graph.cleanup(keep=1, confirm=True)
    assert len(versions(graph)) == 1


def test_a_load_that_is_writing_files_is_waited_for(graph: Graph) -> None:
    objects = graph._engine.store.objects
    heartbeat = f"{STAGING_DIR}/01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    objects.put(heartbeat, '{"expires_us": 9999999999999999}')
    before = versions(graph)
    report = graph.cleanup(keep=1, confirm=True)
    assert all("load is writing" in (one.error or "") for one in report.tables)
    assert versions(graph) == before
    objects.put(heartbeat, '{"expires_us": 1}')
    graph.cleanup(keep=1, confirm=True)
    assert len(versions(graph)) == 1


# ---- one table at a time


def test_one_failing_table_does_not_stop_the_others(graph: Graph) -> None:
    with armed(Failpoint.CLEANUP_TABLE, "1*error"):
        report = {one.table_key: one for one in graph.cleanup(keep=1, confirm=True).tables}
    assert "injected" in (report[KNOWS].error or "")
    assert report[PERSON].error is None
    assert report[PERSON].versions_removed > 0
    graph.cleanup(keep=1, confirm=True)
    assert len(versions(graph)) == 1


# ---- forks nobody owns


def orphan(graph: Graph, branch: str) -> None:
    """Delete a branch whose fork could not be dropped."""
    graph.branch_create(branch)
    graph.mutate(ADD, {"name": f"only on {branch}"}, branch=branch)
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete(branch)
    assert branch in tables_of(graph).forks(entry(graph).at.path)


def test_the_fork_of_a_deleted_branch_goes(graph: Graph) -> None:
    orphan(graph, "gone")
    preview = graph.cleanup(keep=100)
    assert [one.forks_removed for one in preview.tables if one.table_key == PERSON] == [("gone",)]
    assert "gone" in tables_of(graph).forks(entry(graph).at.path)
    graph.cleanup(keep=100, confirm=True)
    assert tables_of(graph).forks(entry(graph).at.path) == {}
    assert graph.doctor() == []


def test_a_branch_of_the_same_name_starts_fresh_without_any_cleanup(graph: Graph) -> None:
    orphan(graph, "again")
    graph.branch_create("again")
    graph.mutate(ADD, {"name": "new"}, branch="again")
    assert graph.entity("Person", "only on again", branch="again") is None
    assert graph.doctor() == []


def test_legitimate_forks_stay_and_an_orphan_on_a_live_branch_goes(graph: Graph) -> None:
    graph.branch_create("owner")
    graph.mutate(ADD, {"name": "Zoe"}, branch="owner")
    graph.branch_create("idle")
    tables_of(graph).fork(entry(graph, CITY).at, "idle")
    rows = content(graph, "owner")
    graph.cleanup(keep=100, confirm=True)
    assert "owner" in tables_of(graph).forks(entry(graph).at.path)
    assert tables_of(graph).forks(entry(graph, CITY).at.path) == {}
    assert content(graph, "owner") == rows


def test_a_fork_of_a_pending_write_is_never_a_candidate(graph: Graph) -> None:
    graph.branch_create("busy")
    with armed(Failpoint.FORK_CREATED), pytest.raises(OmniError):
        graph.mutate(ADD, {"name": "Zoe"}, branch="busy")
    with pytest.raises(RecoveryRequired):
        graph.cleanup(keep=100, confirm=True)
    assert "busy" in tables_of(graph).forks(entry(graph).at.path)


@pytest.mark.parametrize("at", [Failpoint.CLEANUP_FORK, Failpoint.FORK_CLASSIFY_READ])
def test_a_fork_that_cannot_be_judged_is_kept_and_goes_the_next_time(
    graph: Graph, at: Failpoint
) -> None:
    graph.branch_create("idle")
    tables_of(graph).fork(entry(graph, CITY).at, "idle")
    orphan(graph, "gone")
    with armed(at, "1*error"):
        report = {one.table_key: one for one in graph.cleanup(keep=100, confirm=True).tables}
    assert report[CITY].error is not None
    assert report[CITY].forks_removed == ()
    assert report[PERSON].forks_removed == ("gone",)
    graph.cleanup(keep=100, confirm=True)
    assert tables_of(graph).forks(entry(graph, CITY).at.path) == {}


def test_a_turn_of_the_table_is_held_while_its_versions_go(graph: Graph) -> None:
    table_locks, seen = graph._engine.committer.locks, []

    def look() -> None:
        with table_locks.try_acquire([lock_key(PERSON, None)]) as held_locks:
            seen.append(held_locks is None)

    with armed(Failpoint.CLEANUP_TABLE, look):
        graph.cleanup(keep=1, confirm=True)
    assert seen == [False, False, True]
