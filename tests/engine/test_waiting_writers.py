"""Writers that wait: refused at once when they cannot be served, interrupted, killed, and overtaken by clocks, disks and schemas."""

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import TableLocks, lock_key, queue_of
from omnigraphdb.engine.session.open import open_graph
from omnigraphdb.errors import LockTimeout, RecoveryRequired, StorageError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed
from omnigraphdb.ids import TableKey
from omnigraphdb.runtime import SystemRuntime
from omnigraphdb.storage.layout import LOCKS, lock_name, root_of
from omnigraphdb.storage.locks.table import FileLocks
from omnigraphdb.storage.values import Staged
from tests.support.child import spawn
from tests.support.joined import write_together
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.watched_tables import watched

SCHEMA = "node Person { name: String @key  age: I32? }  node City { name: String @key }"
QUIET = {"maintenance": "off"}
ADD = "query add($name: String) { insert Person { name: $name } }"
PERSON = [lock_key(TableKey("node:Person"), None)]
HOUR = 3_600.0


def made(uri: str, options: Mapping[str, str] | None = None) -> Graph:
    graph = omnigraphdb.init(uri, SCHEMA, storage_options=options, config=QUIET)
    graph.mutate(ADD, {"name": "first"})
    return graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return made(str(tmp_path / "g"))


def add(graph: Graph, name: str) -> Callable[[], object]:
    return partial(graph.mutate, ADD, {"name": name})


def names(graph: Graph) -> list[str]:
    return sorted(graph.table("Person")["name"].to_pylist())


def wait_until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(30_000):
        if holds():
            return
        pause.wait(0.002)
    raise AssertionError("it never came to that")


# ---- who cannot be served


class HandClock(SystemRuntime):
    """A clock that stands unless a test moves it; waiting takes no time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class Queue:
    """Locks whose turns take as many seconds as a test says."""

    def __init__(self, root: Path) -> None:
        self.clock = HandClock()
        self._root = root
        self.locks = self.open()

    def open(self, wait: float = 60.0) -> TableLocks:
        """What another handle has that waits so long."""
        return TableLocks(
            queue_of(str(self._root)), FileLocks(root_of(self._root)), wait, self.clock
        )

    def take_turns(self, *seconds: float) -> None:
        for one in seconds:
            with self.locks.acquire(PERSON):
                self.clock.seconds += one

    def stand_in_line(self, count: int) -> list[threading.Thread]:
        """Let so many writers wait, each for a turn of its own."""

        def wait() -> None:
            with self.locks.acquire(PERSON):
                pass

        threads = [threading.Thread(target=wait, daemon=True) for _ in range(count)]
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(lambda number=number: len(self.locks.queue) == number)  # type: ignore[misc]
        return threads


def test_whoever_cannot_be_served_in_time_is_refused_at_once_with_the_reason(
    tmp_path: Path,
) -> None:
    queue = Queue(tmp_path)
    queue.take_turns(*[40.0] * 7, 25.0)
    with queue.locks.acquire(PERSON):
        waiting = queue.stand_in_line(2)
        with pytest.raises(LockTimeout) as refused, queue.open(wait=40.0).acquire(PERSON):
            pass
        assert len(queue.locks.queue) == 2
    for thread in waiting:
        thread.join(PARK_SECONDS_MAX)
    told = str(refused.value)
    assert "cannot become free within 40 s" in told
    assert "2 more turns come before this one, and none of the last took less than 25 s" in told
    assert "nothing was written" in told
    assert refused.value.to_dict()["lock"]["turns_before"] == 2


@pytest.mark.parametrize("known", [(), (40.0,) * 7, (40.0,) * 7 + (0.1,)])
def test_nobody_is_refused_on_too_little_evidence(tmp_path: Path, known: tuple[float, ...]) -> None:
    queue = Queue(tmp_path)
    queue.take_turns(*known)
    with queue.locks.acquire(PERSON):
        waiting = queue.stand_in_line(4)
    for thread in waiting:
        thread.join(PARK_SECONDS_MAX)
        assert not thread.is_alive()


# ---- who stops waiting


class Interrupted(Exception):
    """What a signal raises in the thread that waits."""


def test_a_waiter_that_is_interrupted_leaves_the_queue_to_the_others(graph: Graph) -> None:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    def send_when_it_waits() -> None:
        wait_until(lambda: len(locks.queue) == 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    locks = graph._engine.committer.locks
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with locks.acquire(PERSON):
            sender = threading.Thread(target=send_when_it_waits)
            sender.start()
            with pytest.raises(Interrupted):
                graph.mutate(ADD, {"name": "interrupted"})
            sender.join()
            assert len(locks.queue) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    write_together(graph, [add(graph, "x"), add(graph, "y")])
    assert names(graph) == ["first", "x", "y"]
    assert_settled(graph)


def wait_and_add(uri: str, options: Mapping[str, str] | None, name: str) -> None:
    with omnigraphdb.open(uri, storage_options=options, config=QUIET) as graph:
        graph.mutate(ADD, {"name": name})


def count_in_line(graph: Graph) -> int:
    """How many processes the lease of the table names as waiting."""
    text = graph._engine.store.objects.read(f"{LOCKS}/{lock_name(PERSON[0].name)}.json")
    return 0 if text is None else len(json.loads(text).get("waiting", ()))


@pytest.mark.parametrize("store", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_processes_that_wait_and_are_killed_leave_nothing_in_the_way(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    uri, options = str(tmp_path / "g"), None
    if store == "s3":
        bucket: Bucket = request.getfixturevalue("bucket")
        uri, options = f"{bucket.uri}/g", bucket.storage_options
    graph = made(uri, options)
    with graph._engine.committer.locks.acquire(PERSON):
        waiting = []
        for number, name in enumerate(("killed", "served"), 1):
            waiting.append(spawn(wait_and_add, uri, options, name))
            if store == "s3":
                wait_until(lambda number=number: count_in_line(graph) == number)  # type: ignore[misc]
            waiting[-1].join(0.5)
        assert all(process.is_alive() for process in waiting)
        waiting[0].kill()
        waiting[0].join()
    waiting[1].join(PARK_SECONDS_MAX)
    assert waiting[1].exitcode == 0
    graph.mutate(ADD, {"name": "after"})
    assert names(graph) == ["after", "first", "served"]
    assert_settled(graph)


# ---- what happens meanwhile


class Jumping(SystemRuntime):
    """A clock that somebody sets."""

    def __init__(self) -> None:
        super().__init__()
        self.off_seconds = 0.0

    def now_us(self) -> int:
        return super().now_us() + int(self.off_seconds * 1_000_000)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_clock_that_jumps_amid_a_group_does_not_date_it_backwards(
    graph: Graph, jump: float
) -> None:
    clock = Jumping()
    jumping = Graph(open_graph(graph.uri, config=QUIET, runtime=clock))

    def step() -> None:
        clock.off_seconds += jump

    with armed(Failpoint.GROUP_MEMBER_LANDED, step):
        told = write_together(jumping, [add(jumping, name) for name in "xyz"])
    assert not any(isinstance(one, BaseException) for one in told)
    jumping.mutate(ADD, {"name": "later"})
    commits = list(reversed(jumping.commits()))
    dates = [commit.created_at for commit in commits]
    assert dates == sorted(dates)
    counts = [jumping.table("Person", at=commit.id).num_rows for commit in commits[-4:]]
    assert counts == [2, 3, 4, 5]
    assert_settled(jumping)


@pytest.mark.s3
def test_a_lease_that_a_clock_ends_amid_a_group_stops_it_and_recovery_takes_all_of_it_back(
    bucket: Bucket,
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    made(uri, options).close()
    clock = Jumping()
    graph = Graph(open_graph(uri, storage_options=options, config=QUIET, runtime=clock))

    def step() -> None:
        clock.off_seconds = HOUR

    with armed(Failpoint.GROUP_MEMBER_LANDED, once(step)):
        told = write_together(graph, [add(graph, name) for name in "xyz"])
    assert [type(one) for one in told] == [RecoveryRequired] * 3
    again = Graph(open_graph(uri, storage_options=options, config=QUIET, runtime=clock))
    assert names(again) == ["first"]
    again.mutate(ADD, {"name": "after"})
    assert_settled(again)


def test_a_disk_that_fills_in_the_middle_of_a_group_leaves_none_of_it(graph: Graph) -> None:
    """Lance commits every member here; `test_groups` of the faults stops a group that links its versions itself."""
    commits: list[Staged] = []

    def before(staged: Staged) -> None:
        commits.append(staged)
        if len(commits) == 2:
            raise StorageError("the disk is full", storage_kind="permanent")

    official = omnigraphdb.open(graph.uri, config={**QUIET, "unofficial_lance": "off"})
    full = watched(official, before=before)
    told = write_together(full, [add(full, name) for name in "xyz"])
    assert all(isinstance(one, RecoveryRequired) for one in told)
    assert all("the disk is full" in str(one) for one in told)
    graph.refresh(roll_back=True)
    assert names(graph) == ["first"]
    write_together(graph, [add(graph, name) for name in "xyz"])
    assert names(graph) == ["first", "x", "y", "z"]
    assert_settled(graph)


def test_a_group_that_waited_for_a_schema_change_writes_what_the_new_schema_allows(
    graph: Graph,
) -> None:
    """All three were prepared on the old schema; the change drops what one of them sets."""
    gate, arrived = threading.Event(), threading.Semaphore(0)

    def stand() -> None:
        arrived.release()
        gate.wait(PARK_SECONDS_MAX)

    told: dict[str, object] = {}

    def run(name: str, text: str) -> None:
        try:
            told[name] = graph.mutate(text, {"name": name})
        except BaseException as error:
            told[name] = error

    aged = "query add($name: String) { insert Person { name: $name, age: 7 } }"
    works = {"x": ADD, "y": aged, "z": ADD}
    threads = [threading.Thread(target=run, args=work, daemon=True) for work in works.items()]
    with armed(Failpoint.PREPARED, stand):
        for thread in threads:
            thread.start()
        for _ in threads:
            assert arrived.acquire(timeout=PARK_SECONDS_MAX)
        with omnigraphdb.open(graph.uri, config=QUIET) as other:
            dropped = other.schema_apply(
                SCHEMA.replace("age: I32?", "born: Date?"), allow_data_loss=True
            )
            assert dropped.applied
        gate.set()
        for thread in threads:
            thread.join(PARK_SECONDS_MAX)
    assert isinstance(told["y"], omnigraphdb.UserInputError)
    assert "has no property 'age'" in str(told["y"])
    assert names(graph) == ["first", "x", "z"]
    assert graph.entity("Person", "x") == {"id": "x", "name": "x", "born": None}
    assert_settled(graph)
