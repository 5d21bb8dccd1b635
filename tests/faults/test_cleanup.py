"""Cleanup that fails or dies: rows C4 to C8 as error and as process death; nothing visible is ever touched."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.child import KILLED, run_child
from tests.support.maintenance import ADD, OLDER, content, made
from tests.support.settled import assert_settled

POINTS = (
    (Failpoint.CLEANUP_BRANCH, 0),
    (Failpoint.CLEANUP_BRANCH, 1),
    (Failpoint.CLEANUP_FORK, 0),
    (Failpoint.CLEANUP_TABLE, 0),
    (Failpoint.CLEANUP_TABLE, 1),
    (Failpoint.CLEANUP_TABLE, 3),
    (Failpoint.CLEANUP_MANIFEST, 0),
    (Failpoint.CLEANUP_MANIFEST, 1),
    (Failpoint.CLEANUP_MARKED, 0),
    (Failpoint.CLEANUP_MARKED, 1),
    (Failpoint.CLEANUP_RECLAIMED, 0),
    (Failpoint.CLEANUP_RECLAIMED, 1),
    (Failpoint.FORK_CLASSIFY_READ, 0),
)


def messy(root: Path) -> Graph:
    """A graph with something of everything that goes: old versions, an old fork, an orphan, a dropped table."""
    graph = made(root, config={"maintenance": "off"})
    without = "\n".join(
        line for line in graph.schema_source.splitlines() if "node City" not in line
    )
    graph.schema_apply(without)
    for branch in ("work", "gone"):
        graph.branch_create(branch)
        for number in range(3):
            graph.mutate(OLDER, {"name": "p1", "age": number}, branch=branch)
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete("gone")
    for number in range(4):
        graph.mutate(OLDER, {"name": "p2", "age": number})
    return graph


def shown(graph: Graph) -> dict[str, object]:
    return {branch.name: content(graph, branch.name) for branch in graph.branches()}


def clean(uri: str) -> None:
    """What the child does."""
    omnigraphdb.open(uri, config={"maintenance": "off"}).cleanup(keep=1, confirm=True)


def assert_converged(graph: Graph) -> None:
    """The next cleanup finishes the work, the one after it has nothing to do, and writers go on."""
    graph.cleanup(keep=1, confirm=True)
    again = graph.cleanup(keep=1, confirm=True)
    cleaned = (*again.tables, again.manifest)
    assert [(t.versions_removed, t.forks_removed, t.dropped, t.error) for t in cleaned] == [
        (0, (), False, None) for _ in cleaned
    ]
    graph.mutate(ADD, {"name": "after"}, branch="work")
    graph.merge("work")
    assert_settled(graph)


@pytest.mark.parametrize(("at", "skip"), POINTS)
def test_a_killed_cleanup_touches_nothing_visible_and_is_finished_by_the_next(
    tmp_path: Path, at: Failpoint, skip: int
) -> None:
    with messy(tmp_path / "g") as graph:
        before = shown(graph)
    action = f"skip({skip})+exit" if skip else "exit"
    assert run_child(clean, str(tmp_path / "g"), failpoints=f"{at.value}={action}") == KILLED
    with omnigraphdb.open(tmp_path / "g", config={"maintenance": "off"}) as graph:
        assert shown(graph) == before
        assert_converged(graph)


def count_failures(graph: Graph) -> int:
    """Clean, and count the tables that could not be cleaned, or the refusal of all."""
    try:
        report = graph.cleanup(keep=1, confirm=True)
    except OmniError:
        return 1
    return len([one for one in (*report.tables, report.manifest) if one.error])


@pytest.mark.parametrize(("at", "skip"), POINTS)
def test_a_failing_cleanup_touches_nothing_visible_and_is_finished_by_the_next(
    tmp_path: Path, at: Failpoint, skip: int
) -> None:
    graph = messy(tmp_path / "g")
    before = shown(graph)
    with armed(at, f"skip({skip})+1*error"):
        problems = count_failures(graph)
    # A branch that is known to be gone owns nothing, whether or not it could be read.
    assert problems == (at is not Failpoint.FORK_CLASSIFY_READ)
    assert shown(graph) == before
    assert_converged(graph)
    graph.close()
