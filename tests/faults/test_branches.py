"""Branches made and deleted while faults happen: rows C1, C2, C3, C8 and C9."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import open_unsettled
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.recovery.audit import RecoveryKind
from tests.faults.conftest import Stage
from tests.support.child import KILLED, run_child
from tests.support.settled import assert_settled
from tests.support.story import content, note, perform

Setting = Callable[[str, str], Stage]
ORPHANED = [RecoveryKind.ORPHANED_BRANCH_DISCARDED]


def kinds(graph: Graph) -> list[RecoveryKind]:
    return [row.recovery_kind for row in graph.recoveries()]


def test_c1_a_branch_that_could_not_be_made_is_not_there(stage: Setting) -> None:
    graph = stage("insert", "main").open()
    with armed(Failpoint.BRANCH_CREATED), pytest.raises(omnigraphdb.OmniError):
        graph.branch_create("b")
    assert [branch.name for branch in graph.branches()] == ["main"]
    graph.branch_create("b")
    assert content(graph, "b") == content(graph)
    assert_settled(graph)


def test_c1_a_branch_whose_maker_died_is_whole(stage: Setting) -> None:
    """The ref is the branch: once it is there, nothing is missing."""
    story = stage("insert", "main")
    point = Failpoint.BRANCH_CREATED.value
    assert run_child(_make, story.uri, failpoints=f"{point}=exit") == KILLED
    graph = story.open()
    assert content(graph, "b") == content(graph)
    note(graph, "b", "works")
    assert_settled(graph)


def _make(uri: str) -> None:
    omnigraphdb.open(uri).branch_create("b")


@pytest.mark.parametrize("at", [Failpoint.BRANCH_DROP_LINEAGE, Failpoint.BRANCH_DROP_FORKS])
def test_c2_c3_a_deleted_name_can_be_taken_again_whatever_was_left(
    stage: Setting, at: Failpoint
) -> None:
    story = stage("insert", "owned")
    graph = story.open()
    with armed(at):
        graph.branch_delete("owned")
    assert [branch.name for branch in graph.branches()] == ["main"]
    graph.branch_create("owned")
    assert content(graph, "owned") == content(graph)
    story.write_with(graph, "1")
    note(graph, "owned", "again")
    assert "p0" not in str(content(graph, "owned"))
    assert [str(one) for one in graph.doctor() if one.check != "orphan fork"] == []


@pytest.mark.parametrize("at", [Failpoint.BRANCH_DROP_LINEAGE, Failpoint.BRANCH_DROP_FORKS])
def test_c2_c3_a_branch_whose_deleter_died_is_gone(stage: Setting, at: Failpoint) -> None:
    story = stage("insert", "owned")
    assert run_child(_delete, story.uri, failpoints=f"{at.value}=exit") == KILLED
    graph = story.open()
    assert [branch.name for branch in graph.branches()] == ["main"]
    graph.branch_create("owned")
    story.write_with(graph, "1")
    assert "p0" not in str(content(graph, "owned"))


def _delete(uri: str) -> None:
    omnigraphdb.open(uri).branch_delete("owned")


# ---- a pending operation of a branch that is gone


def interrupted(story: Stage) -> Graph:
    """A graph on which an operation waits to be rolled back, and its branch is deleted."""
    graph = story.open()
    with armed(Failpoint.TABLE_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1")
    graph.branch_delete(story.branch)
    assert len(graph.pending_recoveries()) == 1
    return graph


@pytest.mark.parametrize("place", ["owned", "fresh"])
def test_c8_the_next_write_discards_what_a_deleted_branch_left(stage: Setting, place: str) -> None:
    graph = interrupted(stage("insert", place))
    note(graph, "main", "next")
    assert kinds(graph) == ORPHANED
    assert_settled(graph)


@pytest.mark.parametrize("place", ["owned", "fresh"])
def test_c8_the_next_open_discards_what_a_deleted_branch_left(stage: Setting, place: str) -> None:
    story = stage("insert", place)
    interrupted(story)
    graph = story.open()
    assert kinds(graph) == ORPHANED
    commit = graph.commit(graph.recoveries()[0].commit)
    assert (commit.branch, commit.actor) == ("main", "omnigraph:recovery")
    assert_settled(graph)


def test_c8_a_killed_operation_of_a_deleted_branch_is_discarded(stage: Setting) -> None:
    story = stage("insert", "fresh")
    point = Failpoint.TABLE_COMMITTED.value
    child = run_child(perform, story.uri, "insert", "fresh", failpoints=f"{point}=exit")
    assert child == KILLED
    # A handle that was open before the death: an open would settle the operation first.
    graph = Graph(open_unsettled(story.uri))
    graph.branch_delete("fresh")
    graph = story.open()
    assert kinds(graph) == ORPHANED
    assert_settled(graph)


@pytest.mark.parametrize("place", ["owned", "fresh"])
def test_c8_a_branch_of_the_same_name_does_not_inherit_what_was_pending(
    stage: Setting, place: str
) -> None:
    story = stage("insert", place)
    graph = interrupted(story)
    graph.branch_create(place)
    graph = story.open()
    assert kinds(graph) == ORPHANED
    assert content(graph, place) == content(graph)
    note(graph, place, "works")
    story.write_with(graph, "2")
    assert "p1" not in str(content(graph, place))
    assert_settled(graph)


@pytest.mark.parametrize("place", ["owned", "fresh"])
def test_c8_forks_of_a_later_branch_of_the_same_name_are_kept(stage: Setting, place: str) -> None:
    """The operation is put back after the later branch was written: as if its recoverer had been slow."""
    story = stage("insert", place)
    graph = interrupted(story)
    (file,) = (Path(story.uri) / "__recovery").iterdir()
    text = file.read_text()
    file.unlink()
    graph.branch_create(place)
    story.write_with(graph, "2")
    shown = content(graph, place)
    file.write_text(text)
    graph = story.open()
    assert kinds(graph) == ORPHANED
    assert content(graph, place) == shown
    assert_settled(graph)


@pytest.mark.parametrize("at", [Failpoint.SIDECAR_DELETE, Failpoint.ORPHAN_AUDIT, Failpoint.AUDIT])
@pytest.mark.parametrize("place", ["owned", "fresh"])
def test_c9_an_orphan_is_recorded_once_however_often_that_fails(
    stage: Setting, at: Failpoint, place: str
) -> None:
    story = stage("insert", place)
    graph = interrupted(story)
    with armed(at), pytest.raises(omnigraphdb.OmniError):
        note(graph, "main", "next")
    assert run_child(_open, story.uri, failpoints=f"{at.value}=exit") == KILLED
    note(graph, "main", "next")
    assert kinds(graph) == ORPHANED
    assert_settled(graph)


def _open(uri: str) -> None:
    omnigraphdb.open(uri)
