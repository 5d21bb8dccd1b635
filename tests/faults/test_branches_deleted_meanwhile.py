"""Two processes: one deletes a branch while the other deletes another one, or cleans up. Neither notices."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint
from tests.support.child import run_child, run_parked_child
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key } node City { name: String @key }"
NAMES = ("a", "b", "c")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A graph with branches that own both tables, and versions to clean up."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        add(graph, "main", "1")
        for name in NAMES:
            graph.branch_create(name)
            add(graph, name, "1")
            add(graph, name, "2")
    return tmp_path / "g"


def add(graph: Graph, branch: str, tag: str) -> None:
    records = [{"type": one, "data": {"name": f"{branch} {tag}"}} for one in ("Person", "City")]
    graph.load(records, mode="append", branch=branch)


def delete(uri: str, *names: str) -> None:
    with omnigraphdb.open(uri) as graph:
        for name in names:
            graph.branch_delete(name)


def cleanup(uri: str) -> None:
    with omnigraphdb.open(uri) as graph:
        report = graph.cleanup(keep=1, confirm=True)
        assert [str(one.error) for one in report.tables] == ["None", "None"], report


def assert_left(home: Path, *names: str) -> None:
    with omnigraphdb.open(home) as graph:
        assert [branch.name for branch in graph.branches()] == ["main", *names]
        for name in names:
            assert len(graph.table("Person", branch=name)) == 3
        graph.cleanup(keep=1, confirm=True)
        assert_settled(graph)


def test_a_branch_is_deleted_while_another_process_deletes_another_one(home: Path) -> None:
    with run_parked_child(delete, str(home), "a", at=Failpoint.BRANCH_DROP_LISTED) as child:
        delete(str(home), "b")
        child.release()
    assert_left(home, "c")


def test_a_branch_that_was_made_again_meanwhile_is_none_of_the_other_deletes_business(
    home: Path,
) -> None:
    with run_parked_child(delete, str(home), "a", at=Failpoint.BRANCH_DROP_LISTED) as child:
        with omnigraphdb.open(home) as graph:
            graph.branch_delete("b")
            graph.branch_create("b")
            add(graph, "b", "1")
            add(graph, "b", "2")
        child.release()
    assert_left(home, "b", "c")


CLEANUPS = [
    (Failpoint.CLEANUP_BRANCH, 0),
    (Failpoint.CLEANUP_SEEN, 0),
    (Failpoint.CLEANUP_BRANCH, 1),
    (Failpoint.CLEANUP_BRANCH, len(NAMES)),
    (Failpoint.CLEANUP_TABLE, 0),
    (Failpoint.CLEANUP_TABLE, 1),
    (Failpoint.CLEANUP_MANIFEST, 0),
    (Failpoint.CLEANUP_MANIFEST, 2),
]
"""While the branches are read; before the forks are looked at; under the lock of each table, and of each manifest."""


@pytest.mark.parametrize(("point", "skip"), CLEANUPS)
def test_cleanup_steps_over_a_branch_that_another_process_deletes(
    home: Path, point: Failpoint, skip: int
) -> None:
    with run_parked_child(cleanup, str(home), at=point, skip=skip) as child:
        delete(str(home), "b")
        child.release()
    assert_left(home, "a", "c")


# ---- as it comes


def clean_up_often(uri: str, rounds: int) -> None:
    for _ in range(rounds):
        cleanup(uri)


def delete_beside(home: Path, count: int) -> None:
    """Two processes delete branches, each its own, while a third cleans up."""
    mine, yours = ([f"{who}{number}" for number in range(count)] for who in ("x", "y"))
    with omnigraphdb.open(home) as graph:
        for name in (*mine, *yours):
            graph.branch_create(name)
            add(graph, name, "1")
    uri = str(home)
    with ThreadPoolExecutor(3) as pool:
        running = [
            pool.submit(run_child, delete, uri, *mine),
            pool.submit(run_child, delete, uri, *yours),
            pool.submit(run_child, clean_up_often, uri, count),
        ]
        assert [one.result() for one in running] == [0, 0, 0]
    assert_left(home, *NAMES)


def test_two_processes_delete_branches_while_a_third_cleans_up(home: Path) -> None:
    delete_beside(home, 5)


@pytest.mark.soak
def test_two_processes_delete_many_branches_while_a_third_cleans_up(home: Path) -> None:
    for _ in range(2):
        delete_beside(home, 20)
