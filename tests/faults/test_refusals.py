"""A write that is refused after its tables moved: it is taken back at once, or it says that it will be."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ManifestConflict, PreconditionFailed, RecoveryRequired, StorageError
from omnigraphdb.failpoints import Failpoint, armed, kill
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.values import Staged
from tests.faults.conftest import Stage
from tests.support.child import KILLED, run_child, run_parked_child
from tests.support.foreign import foreign_publish, foreign_rows
from tests.support.once import once
from tests.support.settled import assert_settled, fingerprint
from tests.support.story import WRITES, note, perform, reopen
from tests.support.watched_tables import watched

Setting = Callable[[str, str], Stage]


def kinds(graph: Graph) -> list[RecoveryKind]:
    return [row.recovery_kind for row in graph.recoveries()]


def without_notes(shown: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for one in shown if '"Note"' not in one)


# ---- the head that was asked for is gone


@pytest.mark.parametrize("place", ["main", "owned", "fresh"])
def test_a_write_whose_head_moved_at_the_last_moment_is_taken_back_at_once(
    stage: Setting, place: str
) -> None:
    story = stage("insert", place)
    graph, other = story.open(), story.open()
    head = graph.commits(branch=place, limit=1)[0]
    text = 'query m() { insert Person { k: "new" }  insert City { k: "new" } }'
    with (
        armed(Failpoint.TABLES_COMMITTED, once(lambda: note(other, place, "rival"))),
        pytest.raises(PreconditionFailed),
    ):
        graph.mutate(text, branch=place, if_commit=head)
    assert without_notes(story.content(graph)) == story.before
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)
    graph.mutate(text, branch=place, if_commit=graph.commits(branch=place, limit=1)[0])
    assert_settled(graph)


@pytest.mark.parametrize("restored", [False, True])
def test_a_refused_write_that_dies_before_it_is_taken_back_is_taken_back_later(
    stage: Setting, restored: bool
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    assert run_child(_refused_and_killed, story.uri, restored) == KILLED
    (left,) = graph.pending_recoveries()
    assert left.forecast == "roll back"
    note(graph, "main", "after")  # a heal must not complete it, though all of its tables landed
    assert [one.operation_id for one in graph.pending_recoveries()] == [left.operation_id]
    graph = story.open()
    assert without_notes(story.content(graph)) == story.before
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


def _refused_and_killed(uri: str, restored: bool) -> None:
    """Die once the decision is on disk: before the first restore, or after the last."""
    graph, other = omnigraphdb.open(uri), omnigraphdb.open(uri)
    head = graph.commits(limit=1)[0]
    text = 'query m() { insert Person { k: "new" }  insert City { k: "new" } }'
    dying = graph if restored else watched(graph, restoring=kill)
    with (
        armed(Failpoint.TABLES_COMMITTED, once(lambda: note(other, "main", "rival"))),
        armed(Failpoint.ROLLBACK_RESTORED, kill),
    ):
        dying.mutate(text, if_commit=head)


def test_a_write_whose_head_moved_before_it_died_is_taken_back(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    assert run_child(_passed_and_killed, story.uri) == KILLED
    (left,) = graph.pending_recoveries()
    assert left.forecast == "roll back"
    note(graph, "main", "after")  # a heal must not complete it, though all of its tables landed
    graph = story.open()
    assert without_notes(story.content(graph)) == story.before
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


def _passed_and_killed(uri: str) -> None:
    """Die before the publish, when somebody else has published on the head that was asked for."""
    graph, other = omnigraphdb.open(uri), omnigraphdb.open(uri)
    head = graph.commits(limit=1)[0]
    text = 'query m() { insert Person { k: "new" }  insert City { k: "new" } }'

    def pass_and_die() -> None:
        note(other, "main", "rival")
        kill()

    with armed(Failpoint.TABLES_COMMITTED, once(pass_and_die)):
        graph.mutate(text, if_commit=head)


def test_a_read_set_that_moved_at_the_last_moment_refuses_the_write(stage: Setting) -> None:
    story = stage("insert", "main")
    graph, other = story.open(), story.open()

    def rival() -> None:
        foreign_rows(other, "node:Person", ["stranger"])
        foreign_publish(other, "node:Person")

    text = 'query m() { insert Knows { from: "a", to: "d" }  insert City { k: "new" } }'
    with armed(Failpoint.TABLES_COMMITTED, once(rival)), pytest.raises(ManifestConflict) as refused:
        graph.mutate(text)
    assert refused.value.table_key == "node:Person"
    assert [one for one in story.content(graph) if "stranger" not in one] == list(story.before)
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


def test_a_read_set_that_moved_before_the_last_look_moves_no_table(stage: Setting) -> None:
    story = stage("insert", "main")
    graph, other = story.open(), story.open()
    rival = 'query m() { update Person set { n: 9 } where k = "d" }'
    with armed(Failpoint.PREPARED, once(lambda: other.mutate(rival))), counting() as costs:
        done = graph.mutate('query m() { insert Knows { from: "a", to: "d" } }')
    assert done.commit is not None
    assert costs[Cost.TABLE_RESTORES] == 0
    assert graph.recoveries() == []
    assert_settled(graph)


def test_a_killed_write_whose_read_set_moved_is_taken_back_though_all_of_it_landed(
    stage: Setting,
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with run_parked_child(_link, story.uri, at=Failpoint.TABLES_COMMITTED) as child:
        foreign_rows(graph, "node:Person", ["stranger"])
        foreign_publish(graph, "node:Person")
        child.kill()
    (left,) = graph.pending_recoveries()
    assert left.forecast == "roll back"
    graph = story.open()
    assert [one for one in story.content(graph) if "stranger" not in one] == list(story.before)
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


def _link(uri: str) -> None:
    omnigraphdb.open(uri).mutate('query m() { insert Knows { from: "a", to: "d" } }')


# ---- M9: a foreign publish of a table of the write, between its last look and its publish


@pytest.mark.parametrize("name", WRITES)
def test_m9_a_write_whose_half_was_published_by_another_is_completed(
    stage: Setting, name: str
) -> None:
    story = stage(name, "main")
    graph, other = story.open(), story.open()
    with (
        armed(Failpoint.TABLES_COMMITTED, once(lambda: foreign_publish(other, "node:Person"))),
        pytest.raises(RecoveryRequired, match="do not repeat it"),
    ):
        story.write_with(graph, "1")
    assert story.content(graph) == story.after("1")
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert_settled(graph)


def test_m9_a_killed_write_whose_half_was_published_by_another_is_completed(
    stage: Setting,
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with run_parked_child(perform, story.uri, "insert", at=Failpoint.TABLES_COMMITTED) as child:
        foreign_rows(graph, "node:Person", ["stranger"])
        foreign_publish(graph, "node:Person")
        child.kill()
    graph = story.open()
    shown = [one for one in story.content(graph) if "stranger" not in one]
    assert shown == list(story.after("1"))
    assert "stranger" in str(story.content(graph))
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert_settled(graph)


def test_m9_a_foreign_commit_between_two_tables_takes_the_first_back(stage: Setting) -> None:
    story = stage("insert", "main")
    graph, other = story.open(), story.open()

    def rival() -> None:
        foreign_rows(other, "node:Person", ["stranger"])
        foreign_publish(other, "node:Person")

    with armed(Failpoint.TABLE_COMMITTED, once(rival)), pytest.raises(ManifestConflict):
        story.write_with(graph, "1")
    assert [one for one in story.content(graph) if "stranger" not in one] == list(story.before)
    assert "stranger" in str(story.content(graph))
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


def test_a_foreign_commit_before_the_first_table_makes_the_write_prepare_again(
    stage: Setting,
) -> None:
    story = stage("insert", "main")
    graph, other = story.open(), story.open()

    def rival() -> None:
        foreign_rows(other, "node:City", ["elsewhere"])
        foreign_publish(other, "node:City")

    text = 'query m() { insert City { k: "new" } }'
    with armed(Failpoint.ARMED, once(rival)):
        graph.mutate(text)
    assert {"elsewhere", "new"} <= set(graph.table("City")["id"].to_pylist())
    assert graph.recoveries() == []
    assert_settled(graph)


# ---- M5, M8: the store fails, or rivals keep winning


@pytest.mark.parametrize("place", ["main", "owned", "fresh"])
def test_m5_an_error_in_the_second_commit_leaves_the_first_to_recovery(
    stage: Setting, place: str
) -> None:
    story = stage("insert", place)
    graph = story.open()
    commits: list[Staged] = []

    def fail_second(staged: Staged) -> None:
        commits.append(staged)
        if len(commits) == 2:
            raise StorageError("the disk is gone")

    with pytest.raises(RecoveryRequired, match=r"the disk is gone.*look before repeating it"):
        story.write_with(watched(graph, before=fail_second), "1")
    note(graph, place, "unrelated")
    assert len(graph.pending_recoveries()) == 1
    graph = story.open()
    assert without_notes(story.content(graph)) == story.before
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)
    story.write_with(graph, "1")
    assert without_notes(story.content(graph)) == story.after("1")


@pytest.mark.parametrize("place", ["main", "owned", "fresh"])
def test_m5_a_store_that_fails_at_the_publish_leaves_a_write_that_must_not_be_repeated(
    stage: Setting, place: str
) -> None:
    story = stage("append", place)
    graph = story.open()

    def fail_once() -> None:
        raise StorageError("the disk is full")

    with (
        armed(Failpoint.PUBLISH_PREPARED, once(fail_once)),
        pytest.raises(
            RecoveryRequired, match=r"the disk is full.*look before repeating it"
        ) as told,
    ):
        story.write_with(graph, "1")
    assert isinstance(told.value.__cause__, StorageError)
    assert [one.operation_id for one in graph.pending_recoveries()] == [told.value.operation_id]
    note(graph, place, "the next write completes it")
    assert without_notes(story.content(graph)) == story.after("1")
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert_settled(graph)


def test_m8_one_lost_round_of_the_publish_is_nobodys_business(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.PUBLISH_LOAD, "1*error"):
        story.write_with(graph, "1")
    assert story.content(graph) == story.after("1")
    assert graph.recoveries() == []
    assert_settled(graph)


def test_m8_rivals_who_keep_winning_leave_a_write_that_must_not_be_repeated(
    stage: Setting,
) -> None:
    story = stage("append", "main")
    graph = story.open()
    with (
        armed(Failpoint.PUBLISH_LOAD),
        pytest.raises(RecoveryRequired, match="do not repeat it") as told,
    ):
        story.write_with(graph, "1")
    graph.refresh()
    assert story.content(graph) == story.after("1")
    assert [row.operation_id for row in graph.recoveries()] == [told.value.operation_id]
    assert_settled(graph)


def test_m14_a_recovery_for_nobody_names_nobody(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1", actor=None)
    graph = story.open()
    assert [row.for_actor for row in graph.recoveries()] == [None]
    assert_settled(graph)


# ---- a turn that was lost


def test_a_writer_that_lost_its_turn_stops_before_the_next_effect(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with (
        armed(Failpoint.TABLE_COMMITTED, once(lambda: _cut_locks(story))),
        pytest.raises(RecoveryRequired, match="lost its lock"),
    ):
        story.write_with(graph, "1")
    assert len(graph.pending_recoveries()) == 1
    graph = story.open()
    assert story.content(graph) == story.before
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


def test_a_writer_that_was_settled_while_it_slept_does_not_publish_twice(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()

    def settled_meanwhile() -> None:
        _cut_locks(story)
        assert run_child(reopen, story.uri) == 0

    with (
        armed(Failpoint.TABLES_COMMITTED, once(settled_meanwhile)),
        pytest.raises(RecoveryRequired, match="lost its lock"),
    ):
        story.write_with(graph, "1")
    graph = story.open()
    assert story.content(graph) == story.after("1")
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert_settled(graph)
    shown = fingerprint(graph)
    assert fingerprint(story.open()) == shown


def test_what_a_writer_moved_after_it_was_settled_is_covered_again(stage: Setting) -> None:
    """It slept between its last look at its turns and its commit, and was settled as one that did nothing."""
    story = stage("insert", "main")
    graph = story.open()

    def settled_meanwhile() -> None:
        _cut_locks(story)
        assert run_child(reopen, story.uri) == 0

    sleepy = once(settled_meanwhile)
    with pytest.raises(RecoveryRequired, match="lost its lock"):
        story.write_with(watched(graph, before=lambda _: sleepy()), "1")
    assert len(graph.pending_recoveries()) == 1
    graph = story.open()
    assert story.content(graph) == story.before
    # It was settled twice, in two commits; the record keeps the first.
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert graph.pending_recoveries() == []
    assert [str(one) for one in graph.doctor()] == []


def _cut_locks(story: Stage) -> None:
    """What a careless cleaner does to lock files, and sleep to leases: the turn is no turn any more."""
    for file in (Path(story.uri) / "__locks").iterdir():
        file.unlink()
