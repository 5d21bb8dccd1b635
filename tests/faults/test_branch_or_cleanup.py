"""A branch of a past state and a cleanup at the same time: the branch is whole, or it is refused and not there."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import HistoryReclaimed
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, parked
from omnigraphdb.storage.layout import MANIFEST
from tests.support.maintenance import OLDER, content, made
from tests.support.settled import assert_settled


def aged(root: Path) -> tuple[Graph, str]:
    """A graph with a past, and one of its earlier commits."""
    graph = made(root, config={"maintenance": "off"})
    for number in range(6):
        graph.mutate(OLDER, {"name": "p1", "age": number})
    return graph, graph.commits()[3].id


def started(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Run something beside; what came of it is in the list when the thread has ended."""
    came: list[object] = []

    def run() -> None:
        try:
            came.append(work())
        except omnigraphdb.OmniError as error:
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, came


def test_a_cleanup_that_was_first_refuses_the_branch(tmp_path: Path) -> None:
    graph, old = aged(tmp_path / "g")
    other = omnigraphdb.open(tmp_path / "g")
    with parked(Failpoint.BRANCH_PAST) as park:
        thread, came = started(lambda: graph.branch_create("past", at=old))
        assert park.reached.wait(PARK_SECONDS_MAX)
        removed = other.cleanup(keep=1, confirm=True)
        park.release()
        thread.join()
    assert sum(table.versions_removed for table in removed.tables) > 0
    (error,) = came
    assert isinstance(error, HistoryReclaimed)
    assert error.details["history_reclaimed"]["table_key"] == MANIFEST
    assert [branch.name for branch in graph.branches()] == ["main"]
    assert_settled(graph)


def test_a_branch_that_was_first_keeps_what_it_shows(tmp_path: Path) -> None:
    graph, old = aged(tmp_path / "g")
    other = omnigraphdb.open(tmp_path / "g")
    shown = graph.table("Person", at=old).sort_by("id")
    with parked(Failpoint.BRANCH_CREATED) as park:
        thread, _ = started(lambda: graph.branch_create("past", at=old))
        assert park.reached.wait(PARK_SECONDS_MAX)
        cleaning, came = started(lambda: other.cleanup(keep=1, confirm=True))
        park.release()
        thread.join()
        cleaning.join()
    assert not isinstance(came[0], omnigraphdb.OmniError)
    assert graph.table("Person", branch="past").sort_by("id") == shown
    graph.mutate(OLDER, {"name": "p2", "age": 90}, branch="past")
    assert_settled(graph)


def test_a_source_that_moves_while_its_branch_is_made_leaves_a_whole_branch(tmp_path: Path) -> None:
    """The branch was captured, its source went on and was cleaned: what was captured is looked at again."""
    graph, _ = aged(tmp_path / "g")
    other = omnigraphdb.open(tmp_path / "g")
    before = content(graph)
    with parked(Failpoint.BRANCH_CREATED) as park:
        thread, came = started(lambda: graph.branch_create("now"))
        assert park.reached.wait(PARK_SECONDS_MAX)
        other.mutate(OLDER, {"name": "p1", "age": 99})
        park.release()
        thread.join()
    assert not isinstance(came[0], omnigraphdb.OmniError)
    assert content(graph, "now") == before
    assert content(graph) != before
    assert_settled(graph)


def test_a_source_that_was_moved_and_cleaned_before_its_branch_is_there_is_captured_again(
    tmp_path: Path,
) -> None:
    graph, _ = aged(tmp_path / "g")
    other = omnigraphdb.open(tmp_path / "g", config={"maintenance": "off"})
    with parked(Failpoint.BRANCH_CAPTURED) as park:
        thread, came = started(lambda: graph.branch_create("now"))
        assert park.reached.wait(PARK_SECONDS_MAX)
        other.mutate(OLDER, {"name": "p1", "age": 99})
        assert sum(one.versions_removed for one in other.cleanup(keep=1, confirm=True).tables) > 0
        park.release()
        thread.join()
    assert not isinstance(came[0], omnigraphdb.OmniError)
    assert content(graph, "now") == content(other)
    with omnigraphdb.open(tmp_path / "g") as fresh:
        assert content(fresh, "now") == content(other)
        assert_settled(fresh)


def test_a_source_that_was_only_moved_leaves_the_branch_where_it_was_captured(
    tmp_path: Path,
) -> None:
    graph, _ = aged(tmp_path / "g")
    other = omnigraphdb.open(tmp_path / "g", config={"maintenance": "off"})
    before = content(graph)
    with parked(Failpoint.BRANCH_CAPTURED) as park:
        thread, _ = started(lambda: graph.branch_create("now"))
        assert park.reached.wait(PARK_SECONDS_MAX)
        other.mutate(OLDER, {"name": "p1", "age": 99})
        park.release()
        thread.join()
    assert content(graph, "now") == before
    assert_settled(graph)


@pytest.mark.parametrize("kind", ["head", "past"])
def test_an_ordinary_branch_is_made_at_once(tmp_path: Path, kind: str) -> None:
    graph, old = aged(tmp_path / "g")
    made_branch = graph.branch_create("one", at=old if kind == "past" else None)
    assert made_branch.head == (old if kind == "past" else graph.commits()[0].id)
    assert_settled(graph)
