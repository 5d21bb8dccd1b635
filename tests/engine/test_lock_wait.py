"""A writer that stands still makes others wait for a while, not for ever; then they are told who it is."""

import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConfigError, LockTimeout
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.child import ParkedChild, run_parked_child
from tests.support.s3 import Bucket
from tests.support.schema_changes import change, made
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, note, perform

WAIT = 0.2


@dataclass(frozen=True, slots=True)
class Place:
    """A graph that two processes can open."""

    uri: str
    options: Mapping[str, str] | None = None

    def open(self, **config: Any) -> Graph:
        return omnigraphdb.open(
            self.uri, storage_options=self.options, config={"lock_wait": WAIT} | config
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(BASE, mode="append")
    return Place(str(tmp_path / "g"))


@contextmanager
def stopped(child: ParkedChild) -> Iterator[int]:
    """Stop a process as a terminal or a debugger does; it goes on when the block ends."""
    pid = child.process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGCONT)


def assert_names(error: LockTimeout, pid: int, kind: str, table: str) -> None:
    lock = error.to_dict()["lock"]
    assert lock["table_key"] == table
    assert lock["holder"]["process"] == pid
    assert lock["holder"]["host"] == socket.gethostname()
    assert lock["holder"]["operation"] == kind
    assert lock["since"].endswith("Z")
    assert f"process {pid} on host" in str(error)
    assert "nothing was written" in str(error)


def test_a_stopped_writer_is_named_and_nothing_is_written(place: Place) -> None:
    graph = place.open()
    with run_parked_child(
        perform, place.uri, "insert", "main", "1", "ada", None, at=Failpoint.TABLE_COMMITTED
    ) as child:
        with stopped(child) as pid:
            with pytest.raises(LockTimeout) as caught:
                WRITES["insert"].run(graph, "main", "2", None)
            assert_names(caught.value, pid, "Mutation", "edge:LivesIn")
            (pending,) = graph.pending_recoveries()
            assert caught.value.to_dict()["lock"]["holder"]["operation_id"] == pending.operation_id
            note(graph, "main", "tables that it does not hold can be written")
        child.release()
    WRITES["insert"].run(graph, "main", "2", None)
    assert {"p1", "p2"} <= set(graph.table("Person")["id"].to_pylist())
    assert_settled(graph)


def test_a_stopped_schema_change_is_named(tmp_path: Path) -> None:
    made(tmp_path / "s").close()
    place = Place(str(tmp_path / "s"))
    graph = place.open()
    with run_parked_child(change, place.uri, "add types", at=Failpoint.SCHEMA_LOCKED) as child:
        with stopped(child) as pid, pytest.raises(LockTimeout) as caught:
            graph.load([{"type": "City", "data": {"name": "Oslo"}}], mode="append")
        assert_names(caught.value, pid, "SchemaApply", "__schema_apply__")
        assert "the lock of schema changes" in str(caught.value)
        child.release()
    assert_settled(graph)


def test_a_thread_of_the_same_process_is_waited_for_as_long(place: Place) -> None:
    graph, other = place.open(), place.open()
    reached, go = threading.Event(), threading.Event()

    def stand() -> None:
        reached.set()
        go.wait(60)

    with armed(Failpoint.TABLE_COMMITTED, stand):
        writer = threading.Thread(target=lambda: WRITES["insert"].run(graph, "main", "1", None))
        writer.start()
        assert reached.wait(60)
        with pytest.raises(LockTimeout) as caught:
            WRITES["insert"].run(other, "main", "2", None)
        assert_names(caught.value, os.getpid(), "Mutation", "edge:LivesIn")
        go.set()
        writer.join(60)
    assert_settled(graph)


@pytest.mark.s3
def test_the_lease_of_a_live_writer_is_waited_for_as_long(bucket: Bucket) -> None:
    place = Place(f"{bucket.uri}/g", bucket.storage_options)
    with omnigraphdb.init(place.uri, SCHEMA, storage_options=place.options) as graph:
        graph.load(BASE, mode="append")
    graph = place.open()
    arguments = (place.uri, "insert", "main", "1", "ada", place.options)
    with run_parked_child(perform, *arguments, at=Failpoint.TABLE_COMMITTED) as child:
        assert child.process.pid is not None
        with pytest.raises(LockTimeout) as caught:
            WRITES["insert"].run(graph, "main", "2", None)
        assert_names(caught.value, child.process.pid, "Mutation", "edge:LivesIn")
        child.release()
    assert_settled(graph)


def test_the_wait_is_a_setting_with_a_bound(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (-1, float("inf"), float("nan"), "long", 1e9):
        with pytest.raises(ConfigError, match="lock_wait"):
            place.open(lock_wait=wrong)
    monkeypatch.setenv("OMNIGRAPH_LOCK_WAIT", "1.5")
    with omnigraphdb.open(place.uri) as graph:
        assert graph._engine.committer.locks.wait == 1.5
