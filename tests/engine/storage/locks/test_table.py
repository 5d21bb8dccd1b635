"""One contract for turns between writers, whatever keeps them: a kernel, a lease or this process."""

import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from omnigraphdb.errors import StorageError
from omnigraphdb.limits import LEASE_MARGIN_PART
from omnigraphdb.runtime import SYSTEM, SystemRuntime
from omnigraphdb.storage.layout import lock_name, root_of
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.locks.lease import LeaseLock, LeaseLocks
from omnigraphdb.storage.locks.table import FileLocks, Locks, ProcessLocks, TableLock, open_locks
from omnigraphdb.storage.objects.protocol import Versioned
from tests.support.fault_objects import Failure, FaultObjects
from tests.support.lock_work import (
    LEASE,
    SHORT_LEASE,
    LockPlace,
    add_slowly,
    hold_and_answer,
    hold_and_fork,
)
from tests.support.s3 import Bucket
from tests.support.s3_counting import CountingBucket
from tests.support.store_roots import StoreRoot, in_processes, in_threads

KEY = "node:Person@team/ä b"
LEASE_PATH = f"__locks/{lock_name(KEY)}.json"
MARGIN = LEASE / LEASE_MARGIN_PART
ON_S3 = pytest.param("lease on s3", marks=pytest.mark.s3)
KINDS = ("file", "process", "lease", ON_S3)
across_processes = pytest.mark.parametrize("where", ["file", "lease", ON_S3], indirect=True)
leases_only = pytest.mark.parametrize("where", ["lease", ON_S3], indirect=True)


@pytest.fixture(params=KINDS)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> LockPlace:
    """Turns of one kind."""
    match request.param:
        case "process":
            return LockPlace("process", StoreRoot(kind="memory", uri=f"memory://{tmp_path.name}"))
        case "lease on s3":
            bucket: Bucket = request.getfixturevalue("bucket")
            uri = f"{bucket.uri}/graph"
            return LockPlace("lease", StoreRoot(kind="s3", uri=uri, options=bucket.storage_options))
        case kind:
            return LockPlace(kind, StoreRoot(kind="local", uri=str(tmp_path / "graph")))


def taken(locks: Locks, key: str = KEY, wait: float = 0) -> TableLock:
    """A turn that must be free."""
    lock = locks.acquire(key, wait=wait)
    assert lock is not None
    return lock


# ---- in one process


def test_a_turn_is_given_to_one_handle_at_a_time(where: LockPlace) -> None:
    one, other = where.open(), where.open()
    lock = taken(one)
    assert lock.is_valid()
    assert one.acquire(KEY, wait=0) is None
    assert other.acquire(KEY, wait=0) is None
    one.release(lock)
    assert not lock.is_valid()
    other.release(taken(other))


def test_different_keys_do_not_wait_for_each_other(where: LockPlace) -> None:
    locks = where.open()
    keys = ("node:Person@main", "node:person@main", "node:Person@main/a", "edge:Person@main", KEY)
    held = [taken(locks, key) for key in keys]
    assert all(lock.is_valid() for lock in held)
    for lock in held:
        locks.release(lock)


def test_a_turn_is_unbroken_only_while_nobody_else_had_it_since(where: LockPlace) -> None:
    one, other = where.open(), where.open()

    def again(locks: Locks) -> bool:
        lock = taken(locks)
        locks.release(lock)
        return lock.unbroken

    assert [again(one), again(one)] == [False, where.is_lease]
    again(other)
    assert [again(one), again(one)] == [False, where.is_lease]


def test_a_wait_ends_after_its_time(where: LockPlace) -> None:
    locks = where.open()
    lock = taken(locks)
    began = time.monotonic()
    assert locks.acquire(KEY, wait=0.2) is None
    assert time.monotonic() - began >= 0.2
    locks.release(lock)


def test_a_waiting_writer_gets_the_turn_when_it_is_given_back(where: LockPlace) -> None:
    one, other = where.open(), where.open()
    lock = taken(one)
    timer = threading.Timer(0.1, one.release, [lock])
    timer.start()
    other.release(taken(other, wait=200))
    timer.join()


def test_giving_back_twice_does_not_give_away_anothers_turn(where: LockPlace) -> None:
    one, other = where.open(), where.open()
    lock = taken(one)
    one.release(lock)
    theirs = taken(other)
    one.release(lock)
    assert theirs.is_valid()
    assert one.acquire(KEY, wait=0) is None
    other.release(theirs)


def test_a_lock_tells_who_holds_it_and_what_for(where: LockPlace) -> None:
    one, other = where.open(), where.open()
    assert other.holder(KEY) is None
    before = SYSTEM.now_us()
    lock = one.acquire(KEY, wait=0, activity=Activity("a long and winding load", "01A"))
    assert lock is not None
    found = other.holder(KEY)
    assert found is not None
    assert (found.process, found.host) == (os.getpid(), socket.gethostname())
    assert found.activity == Activity("a long and winding load", "01A")
    assert before <= found.since_us <= SYSTEM.now_us()
    one.release(lock)
    assert other.holder(KEY) is None
    lock = other.acquire(KEY, wait=0, activity=Activity("short"))
    assert lock is not None
    found = one.holder(KEY)
    assert found is not None
    assert found.activity == Activity("short")
    other.release(lock)


def test_waiters_are_served_in_the_order_they_came(tmp_path: Path) -> None:
    locks = FileLocks(root_of(tmp_path))
    served: list[int] = []

    def serve(number: int) -> None:
        lock = taken(locks, wait=200)
        served.append(number)
        locks.release(lock)

    lock = taken(locks)
    waiters = [threading.Thread(target=serve, args=[number]) for number in range(3)]
    for waiter in waiters:
        waiter.start()
        waiter.join(0.2)
    locks.release(lock)
    for waiter in waiters:
        waiter.join(200)
    assert served == [0, 1, 2]


def test_waiting_in_vain_leaves_one_thread_and_no_lock(tmp_path: Path) -> None:
    locks = FileLocks(root_of(tmp_path))
    lock = taken(locks)
    before = set(threading.enumerate())
    for _ in range(5):
        assert locks.acquire(KEY, wait=0.01) is None
    assert len(set(threading.enumerate()) - before) == 1
    locks.release(lock)
    # The place in the queue that was left is taken up, or given up: the lock is not lost in either case.
    locks.release(taken(locks, wait=200))
    locks.release(taken(locks, wait=200))


def test_threads_take_turns(where: LockPlace) -> None:
    in_threads(add_slowly, [(where, KEY, 4)] * 6)
    assert where.store_root.open().read("counter") == "24"


def test_only_leases_have_tokens_and_only_they_are_not_exclusive(where: LockPlace) -> None:
    locks = where.open()
    lock = taken(locks)
    assert lock.exclusive == (not where.is_lease)
    assert (lock.token is None) == (not where.is_lease)
    locks.release(lock)


# ---- between processes


@contextmanager
def child(work: Any, where: LockPlace) -> Iterator[tuple[BaseProcess, Connection]]:
    """A fresh process that holds the turn, and a line to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(where, KEY, theirs))
    process.start()
    theirs.close()
    try:
        yield process, ours
    finally:
        process.kill()
        process.join()
        ours.close()


@across_processes
def test_processes_take_turns(where: LockPlace) -> None:
    in_processes(add_slowly, [(where, KEY, 6)] * 4)
    assert where.store_root.open().read("counter") == "24"


@across_processes
def test_the_turn_of_a_killed_process_becomes_free(where: LockPlace) -> None:
    with child(hold_and_answer, where) as (process, line):
        token = line.recv()
        clock = HandClock(wall=time.time())
        locks = where.open(clock)
        assert locks.acquire(KEY, wait=0) is None
        process.kill()
        process.join()
        if where.is_lease:
            # What its own wall clock says frees nothing, and nothing is freed before the term is over.
            clock.wall += 3600
            assert locks.acquire(KEY, wait=0) is None
            clock.pass_time(LEASE + MARGIN - 1)
            assert locks.acquire(KEY, wait=0) is None
            clock.pass_time(LEASE)
    lock = taken(locks)
    assert not where.is_lease or int(str(lock.token)) > int(token)
    locks.release(lock)


@leases_only
def test_a_turn_that_is_renewed_outlives_its_lease(where: LockPlace) -> None:
    with child(hold_and_answer, where) as (_, line):
        line.recv()
        clock = HandClock()
        locks = where.open(clock)
        assert locks.acquire(KEY, wait=0) is None
        first = stored(where)["expires"]
        eventually(lambda: stored(where)["expires"] > first)
        clock.pass_time(LEASE + MARGIN + 0.1)
        assert locks.acquire(KEY, wait=0) is None
        line.send("held?")
        assert line.recv() is True
        line.send("release")
        assert line.recv() == "released"
        locks.release(taken(locks))


@across_processes
def test_a_stopped_process_keeps_a_kernel_lock_and_loses_a_lease(where: LockPlace) -> None:
    locks = replace(where, lease_seconds=2 * SHORT_LEASE).open()
    with child(hold_and_answer, replace(where, lease_seconds=SHORT_LEASE)) as (process, line):
        token = line.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        lock = locks.acquire(KEY, wait=200 if where.is_lease else 0.3)
        os.kill(process.pid, signal.SIGCONT)
        line.send("held?")
        is_valid = line.recv()
        assert (lock is None) == is_valid == (not where.is_lease)
        if lock is not None:
            assert int(str(lock.token)) > int(token)
            line.send("release")
            assert line.recv() == "released"
            assert stored(where)["token"] == int(str(lock.token))
            assert stored(where)["owner"] is not None
            locks.release(lock)


def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(tmp_path: Path) -> None:
    where = LockPlace("file", StoreRoot(kind="local", uri=str(tmp_path)))
    with child(hold_and_fork, where) as (process, line):
        grandchild = line.recv()
        try:
            assert where.open().acquire(KEY, wait=0) is None
            process.kill()
            process.join()
            locks = where.open()
            # The child lets go of what it inherited as soon as it runs, which may be a while after its birth.
            locks.release(taken(locks, wait=200))
            os.kill(grandchild, 0)
        finally:
            os.kill(grandchild, signal.SIGKILL)


# ---- kernel locks


def test_a_lock_file_is_never_removed_by_its_holders(tmp_path: Path) -> None:
    locks = FileLocks(root_of(tmp_path))
    locks.release(taken(locks))
    assert (tmp_path / "__locks" / f"{lock_name(KEY)}.lock").is_file()


def test_a_holder_whose_lock_file_was_removed_knows_it_excludes_nobody(tmp_path: Path) -> None:
    locks = FileLocks(root_of(tmp_path))
    lock = taken(locks)
    (tmp_path / "__locks" / f"{lock_name(KEY)}.lock").unlink()
    assert not lock.is_valid()
    other = taken(locks)
    assert other.is_valid()
    locks.release(lock)
    assert locks.acquire(KEY, wait=0) is None
    locks.release(other)


def test_a_root_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "__locks").write_text("in the way")
    with pytest.raises(StorageError, match="lock") as failed:
        FileLocks(root_of(tmp_path)).acquire(KEY, wait=0)
    assert "__locks" in str(failed.value)


def test_every_root_gets_the_turns_it_can_give(tmp_path: Path) -> None:
    local, memory, bucket = root_of(tmp_path), root_of("memory://x"), root_of("s3://bucket")
    objects = StoreRoot(kind="local", uri=str(tmp_path)).open()
    assert isinstance(open_locks(local, objects), FileLocks)
    assert isinstance(open_locks(memory, objects), ProcessLocks)
    assert isinstance(open_locks(bucket, objects), LeaseLocks)


# ---- leases


@dataclass
class HandClock(SystemRuntime):
    """Clocks that move by hand; everything else is real."""

    wall: float = 1_700_000_000.0
    steady: float = 100.0

    def now_us(self) -> int:
        return int(self.wall * 1_000_000)

    def monotonic(self) -> float:
        return self.steady

    def pass_time(self, seconds: float) -> None:
        """Let both clocks move on."""
        self.wall += seconds
        self.steady += seconds


def stored(where: LockPlace) -> dict[str, Any]:
    """What the store says about the only lease."""
    objects = where.store_root.open()
    body: dict[str, Any] = json.loads(objects.read(LEASE_PATH) or "")
    return body


def eventually(true: Callable[[], bool]) -> None:
    """Wait until something has happened; a test that waits in vain is ended by its time limit."""
    while not true():
        time.sleep(0.02)


def idle_leases(store_root: StoreRoot, clock: HandClock, seconds: float = 30.0) -> LeaseLocks:
    """Leases that nobody renews while the test runs."""
    return LeaseLocks(store_root.open(), clock, lease_seconds=seconds, renew_seconds=1_000)


@leases_only
def test_tokens_grow_with_every_holder(where: LockPlace) -> None:
    one, other = where.open(), where.open()
    tokens = []
    for locks in (one, other, one, one, other):
        lock = taken(locks)
        tokens.append(int(str(lock.token)))
        locks.release(lock)
    assert tokens == [1, 2, 3, 4, 5]


@leases_only
def test_a_lease_says_who_holds_it_and_until_when(where: LockPlace) -> None:
    locks = where.open()
    lock = taken(locks)
    body = stored(where)
    assert set(body) == {"owner", "token", "expires", "seconds", "holder"}
    assert body["seconds"] == LEASE
    assert f":{os.getpid()}:" in body["owner"]
    assert body["holder"]["process"] == os.getpid()
    assert 0 < body["expires"] / 1_000_000 - time.time() <= LEASE
    locks.release(lock)
    assert stored(where) == {"owner": None, "token": 1, "expires": 0}


def test_a_holder_gives_up_well_before_a_rival_may_take_over(tmp_path: Path) -> None:
    store_root, clock = StoreRoot(kind="local", uri=str(tmp_path)), HandClock()
    one, other = idle_leases(store_root, clock), idle_leases(store_root, clock)
    lock = taken(one)
    assert other.acquire(KEY, wait=0) is None
    clock.pass_time(24.9)
    assert lock.is_valid()
    clock.pass_time(0.2)
    assert not lock.is_valid()
    clock.pass_time(9.8)
    assert other.acquire(KEY, wait=0) is None
    clock.pass_time(0.2)
    theirs = taken(other)
    assert (lock.token, theirs.token) == ("1", "2")
    one.release(lock)
    assert theirs.is_valid()
    other.release(theirs)


@pytest.mark.parametrize("only", ["wall", "steady"])
def test_one_clock_alone_is_enough_to_lose_trust(tmp_path: Path, only: str) -> None:
    clock = HandClock()
    locks = idle_leases(StoreRoot(kind="local", uri=str(tmp_path)), clock)
    lock = taken(locks)
    setattr(clock, only, getattr(clock, only) + 26)
    assert not lock.is_valid()
    locks.release(lock)


def test_many_rivals_for_a_stale_lease_leave_one_winner(tmp_path: Path) -> None:
    store_root, clock = StoreRoot(kind="local", uri=str(tmp_path)), HandClock()
    for number in range(10):
        lock = taken(idle_leases(store_root, clock), f"key {number}")
        rivals = [(idle_leases(store_root, clock), f"key {number}") for _ in range(8)]
        assert not any(locks.acquire(key, wait=0) for locks, key in rivals)
        clock.pass_time(36)
        won = in_threads(lambda locks, key: locks.acquire(key, wait=0), rivals)
        assert [w.token for w in won if w is not None] == ["2"]
        assert not lock.is_valid()


@pytest.fixture
def faulty(tmp_path: Path) -> FaultObjects:
    """A store that fails as scripted."""
    store_root = StoreRoot(kind="fault", uri=str(tmp_path))
    objects = store_root.open()
    assert isinstance(objects, FaultObjects)
    return objects


def busy_leases(objects: FaultObjects, seconds: float = LEASE) -> LeaseLocks:
    """Leases that are renewed all the time."""
    return LeaseLocks(objects, lease_seconds=seconds, renew_seconds=0.1)


def line_of(where: LockPlace) -> list[str]:
    """Who stands in line for the only lease."""
    return list(stored(where).get("waiting", ()))


@leases_only
def test_a_busy_process_does_not_pass_those_who_stand_in_line_for_a_lease(where: LockPlace) -> None:
    served: list[int] = []

    def serve(number: int) -> None:
        own = where.open()
        lock = taken(own, wait=200)
        served.append(number)
        own.release(lock)

    busy = where.open()
    lock = taken(busy)
    waiters = [threading.Thread(target=serve, args=[number]) for number in range(3)]
    for place, waiter in enumerate(waiters, 1):
        waiter.start()
        eventually(lambda place=place: len(line_of(where)) == place)  # type: ignore[misc]
    busy.release(lock)
    again = taken(busy, wait=200)
    served.append(3)
    busy.release(again)
    for waiter in waiters:
        waiter.join(200)
    assert served == [0, 1, 2, 3]
    assert line_of(where) == []


@leases_only
def test_whoever_gives_up_leaves_the_line_and_whoever_died_in_it_is_passed(
    where: LockPlace,
) -> None:
    one, other = where.open(), where.open()
    lock = taken(one)
    assert other.acquire(KEY, wait=0.2) is None
    assert line_of(where) == []
    objects = where.store_root.open()
    one.release(lock)
    lock = taken(one)
    seen = objects.read_versioned(LEASE_PATH)
    assert seen is not None
    dead = json.loads(seen.text) | {"waiting": ["a process that died"]}
    assert objects.put_if_match(LEASE_PATH, json.dumps(dead), seen.token)
    one.release(lock)
    # Somebody who does not wait takes what is free.
    lock = taken(other)
    assert line_of(where) == ["a process that died"]
    other.release(lock)
    other.release(taken(other, wait=200))
    assert line_of(where) == []


def test_a_lease_is_released_and_renewed_while_others_come_into_line(faulty: FaultObjects) -> None:
    """Between the look and the write of its holder another name appears, again and again."""
    locks = busy_leases(faulty)
    lock = taken(locks)
    path = f"__locks/{lock_name(KEY)}.json"
    names = iter("abc")

    class Joining(FaultObjects):
        def read_versioned(self, path: str) -> Versioned | None:
            seen, name = super().read_versioned(path), next(names, None)
            if seen is not None and name is not None:
                body = json.loads(seen.text)
                body["waiting"] = [*body.get("waiting", ()), name]
                super().put_if_match(path, json.dumps(body), seen.token)
            return seen

    locks._objects = Joining(faulty, root_of("/"))
    assert isinstance(lock, LeaseLock)
    lock.version = None
    locks.release(lock)
    left = json.loads(faulty.read(path) or "")
    assert (left["owner"], left["waiting"]) == (None, ["a", "b", "c"])


@pytest.mark.parametrize("operation", ["put_if_absent", "put_if_match"])
def test_a_lease_whose_answer_was_lost_is_still_ours(faulty: FaultObjects, operation: str) -> None:
    locks = busy_leases(faulty)
    if operation == "put_if_match":
        locks.release(taken(locks))
    faulty.fail(operation, failure=Failure.LOST)
    lock = taken(locks)
    assert lock.is_valid()
    locks.release(lock)
    locks.release(taken(locks))


@pytest.mark.parametrize("failure", [Failure.ERROR, Failure.LOST])
def test_a_renewal_that_fails_once_is_made_up_for(faulty: FaultObjects, failure: Failure) -> None:
    locks = busy_leases(faulty)
    lock = taken(locks)
    assert isinstance(lock, LeaseLock)
    fault = faulty.fail("put_if_match", failure=failure, times=2)
    eventually(lambda: fault.seen > 2)
    failed_until = lock.lease.expires_us
    eventually(lambda: lock.lease.expires_us > failed_until)
    assert lock.is_valid()
    assert busy_leases(faulty).acquire(KEY, wait=0) is None
    locks.release(lock)


def test_a_holder_cut_off_from_the_store_stops_trusting_its_lease(faulty: FaultObjects) -> None:
    locks = busy_leases(faulty, SHORT_LEASE)
    lock = taken(locks)
    faulty.fail("*", failure=Failure.ERROR, times=None)
    time.sleep(SHORT_LEASE)
    assert not lock.is_valid()
    faulty.clear()
    locks.release(lock)


def test_a_store_that_fails_at_release_lets_the_lease_run_out(faulty: FaultObjects) -> None:
    locks = busy_leases(faulty)
    lock = taken(locks)
    faulty.fail("put_if_match", failure=Failure.ERROR, times=None)
    locks.release(lock)
    assert not lock.is_valid()
    faulty.clear()
    clock = HandClock()
    other = LeaseLocks(faulty, clock, lease_seconds=LEASE)
    assert other.acquire(KEY, wait=0) is None
    clock.pass_time(LEASE + MARGIN + 0.1)
    assert taken(other).token == "2"


def test_a_store_that_fails_at_acquire_is_an_error_and_holds_nothing(faulty: FaultObjects) -> None:
    locks = busy_leases(faulty)
    faulty.fail("put_if_absent", failure=Failure.DENIED)
    with pytest.raises(StorageError) as failed:
        locks.acquire(KEY, wait=0)
    assert failed.value.storage_kind == "configuration"
    locks.release(taken(locks))


def test_a_lease_that_cannot_be_read_is_an_error_that_names_it(faulty: FaultObjects) -> None:
    path = f"__locks/{lock_name(KEY)}.json"
    faulty.put(path, "not json")
    with pytest.raises(StorageError) as failed:
        busy_leases(faulty).acquire(KEY, wait=0)
    assert path in str(failed.value)
    assert "remove" in str(failed.value.hint)
    assert faulty.read(path) == "not json"


@pytest.mark.s3
def test_a_client_that_loses_against_its_own_repetition_still_holds_the_lease(
    counting_bucket: CountingBucket,
) -> None:
    store_root = StoreRoot(
        kind="s3", uri=counting_bucket.uri, options=counting_bucket.storage_options
    )
    locks = LockPlace("lease", store_root).open()
    for expected in ("1", "2"):
        counting_bucket.break_next("PUT", "__locks", status=500, after=True)
        lock = taken(locks)
        assert lock.token == expected
        assert lock.is_valid()
        counting_bucket.behave()
        locks.release(lock)


@pytest.mark.s3
def test_a_free_lease_costs_two_requests_to_take_and_one_to_give_back(
    counting_bucket: CountingBucket,
) -> None:
    store_root = StoreRoot(
        kind="s3", uri=counting_bucket.uri, options=counting_bucket.storage_options
    )
    first, other = LeaseLocks(store_root.open()), LeaseLocks(store_root.open())
    first.release(taken(first))
    counting_bucket.reset()
    lock = taken(other)
    assert counting_bucket.requests().counts() == {"GET lock": 1, "PUT lock": 1}
    other.release(lock)
    assert counting_bucket.requests().counts() == {"GET lock": 1, "PUT lock": 2}
    assert all(r.conditional for r in counting_bucket.requests() if r.method == "PUT")


@pytest.mark.s3
def test_a_lease_nobody_had_since_is_taken_again_without_a_look(
    counting_bucket: CountingBucket,
) -> None:
    store_root = StoreRoot(
        kind="s3", uri=counting_bucket.uri, options=counting_bucket.storage_options
    )
    first, other = LeaseLocks(store_root.open()), LeaseLocks(store_root.open())
    first.release(taken(first))
    counting_bucket.reset()
    first.release(taken(first))
    assert counting_bucket.requests().counts() == {"PUT lock": 2}
    between = taken(other)
    assert first.acquire(KEY, wait=0) is None
    other.release(between)
    again = taken(first)
    assert again.token is not None
    assert between.token is not None
    assert int(again.token) > int(between.token)
    first.release(again)
