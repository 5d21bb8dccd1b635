"""Maintenance beside healthy writers of another process: nobody is told of an interrupted write where there is none."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import LockTimeout
from omnigraphdb.failpoints import Failpoint
from tests.support.child import run_parked_child, spawn
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, perform

STEPS = (
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.PUBLISHED,
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(BASE, mode="append")
        graph.branch_create("b")
    return str(tmp_path / "g")


def write_on_and_on(uri: str, name: str) -> None:
    """Insert into three tables of a branch again and again, until the process is ended."""
    with omnigraphdb.open(uri) as graph:
        for number in range(1_000_000):
            WRITES["insert"].run(graph, name, f"{name}{number}", None)


@contextmanager
def writers(uri: str, *branches: str) -> Iterator[None]:
    """One busy writer per branch, each a process of its own."""
    children = [spawn(write_on_and_on, uri, branch) for branch in branches]
    try:
        yield
        assert all(child.is_alive() for child in children)
    finally:
        for child in children:
            child.kill()
            child.join(60)


def look_after(graph: Graph) -> None:
    """Do everything that looks at what writers leave."""
    assert [str(one) for one in graph.doctor()] == []
    assert [one for one in graph.pending_recoveries() if not one.live] == []
    assert [one.error for one in graph.cleanup(keep=3, confirm=True).tables if one.error] == []
    assert [one.skipped for one in graph.optimize().tables if one.skipped] == []
    assert {str(one.action) for one in graph.repair(confirm=True).tables} == {"no_op"}


def test_busy_writers_are_never_called_interrupted(uri: str) -> None:
    graph = omnigraphdb.open(uri)
    with writers(uri, "main", "b"):
        before = len(graph.commits())
        rounds = 0
        while len(graph.commits()) < before + 20:
            look_after(graph)
            rounds += 1
    assert rounds > 0


@pytest.mark.soak
def test_busy_writers_are_never_called_interrupted_for_long(uri: str) -> None:
    graph = omnigraphdb.open(uri)
    with writers(uri, "main", "main", "b"):
        before = len(graph.commits())
        while len(graph.commits()) < before + 500:
            look_after(graph)


@pytest.mark.parametrize("at", STEPS)
def test_a_live_writer_is_waited_for_or_named_as_live(uri: str, at: Failpoint) -> None:
    graph = omnigraphdb.open(uri, config={"lock_wait": 30})
    hasty = omnigraphdb.open(uri, config={"lock_wait": 0.1})
    done: list[str] = []

    def look_and_tell() -> None:
        look_after(graph)
        done.append("done")

    with run_parked_child(perform, uri, "insert", at=at) as child:
        (pending,) = graph.pending_recoveries()
        assert pending.live
        assert pending.holder is not None
        assert pending.holder["process"] == child.process.pid
        assert pending.forecast is None
        assert hasty.doctor() == []
        for verb in (hasty.optimize, hasty.repair, lambda: hasty.cleanup(keep=3)):
            with pytest.raises(LockTimeout, match=f"process {child.process.pid} "):
                verb()
        looking = threading.Thread(target=look_and_tell)
        looking.start()
        looking.join(0.2)
        child.release()
    looking.join(60)
    assert done == ["done"]
    assert_settled(graph)


def test_a_fork_that_its_writer_has_just_made_is_nobodys_orphan(uri: str) -> None:
    graph = omnigraphdb.open(uri, config={"lock_wait": 0.1})
    with run_parked_child(perform, uri, "insert", "b", at=Failpoint.FORK_CREATED) as child:
        assert graph.doctor() == []
        child.release()
    assert_settled(graph)


def test_a_dead_writer_is_still_called_interrupted(uri: str) -> None:
    graph = omnigraphdb.open(uri)
    with run_parked_child(perform, uri, "insert", at=Failpoint.TABLE_COMMITTED) as child:
        child.kill()
    (pending,) = graph.pending_recoveries()
    assert not pending.live
    assert {one.check for one in graph.doctor()} == {"pending recovery", "drift"}
    for verb in (graph.optimize, graph.repair, lambda: graph.cleanup(keep=3)):
        with pytest.raises(omnigraphdb.RecoveryRequired, match="the interrupted Mutation"):
            verb()
