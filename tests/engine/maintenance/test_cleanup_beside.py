"""Cleanup beside other work: what was decided before it is still whole afterwards, or was refused."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, parked
from tests.support.maintenance import ADD, GONE, OLDER, content, made
from tests.support.settled import assert_settled


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g")
    for number in range(5):
        opened.mutate(OLDER, {"name": "p1", "age": number})
    yield opened
    opened.close()


def test_a_branch_made_of_the_past_after_a_preview_keeps_what_it_shows(graph: Graph) -> None:
    then = graph.commits()[3]
    preview = graph.cleanup(keep=1)
    assert any(one.versions_removed for one in preview.tables)
    graph.branch_create("then", at=then)
    rows = content(graph, "then")
    done = graph.cleanup(keep=1, confirm=True)
    removed, foreseen = (
        sum(one.versions_removed for one in report.tables) for report in (done, preview)
    )
    assert 0 < removed < foreseen
    with omnigraphdb.open(graph.uri) as fresh:
        assert content(fresh, "then") == rows
    assert_settled(graph)


def advanced_and_cleaned(graph: Graph) -> None:
    graph.mutate(ADD, {"name": "later"}, branch="side")
    graph.cleanup(keep=1, confirm=True)


def deleted_and_cleaned(graph: Graph) -> None:
    graph.branch_delete("side")
    graph.cleanup(keep=1, confirm=True)


@pytest.mark.parametrize("meanwhile", [advanced_and_cleaned, deleted_and_cleaned])
def test_a_merge_whose_source_goes_while_it_is_staged_is_whole_or_absent(
    graph: Graph, meanwhile: Callable[[Graph], None]
) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"name": "new"}, branch="side")
    graph.mutate(OLDER, {"name": "p2", "age": 77}, branch="side")
    graph.mutate(GONE, {"name": "p3"}, branch="side")
    before, wanted = content(graph), content(graph, "side")
    came: list[object] = []

    def run() -> None:
        try:
            came.append(graph.merge("side"))
        except OmniError as error:
            came.append(error)

    with parked(Failpoint.MERGE_PLANNED) as park:
        thread = threading.Thread(target=run)
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        with omnigraphdb.open(graph.uri) as other:
            meanwhile(other)
        park.release()
        thread.join()
    with omnigraphdb.open(graph.uri) as fresh:
        assert content(fresh) == (before if isinstance(came[0], OmniError) else wanted)
        assert_settled(fresh)
