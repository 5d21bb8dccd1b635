"""Work under a lock; importable, so that fresh processes can run it."""

import os
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection

from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.locks.lease import LeaseLocks
from omnigraphdb.storage.locks.table import FileLocks, Locks, ProcessLocks
from omnigraphdb.storage.objects.protocol import Objects
from tests.support.store_roots import StoreRoot

LEASE, RENEW = 30.0, 0.4
"""A lease that no stall of a busy machine outlasts, renewed often enough to be seen."""

SHORT_LEASE = 2.0
"""A lease that a test can wait for to run out; none that relies on its being held may use it."""


@dataclass(frozen=True, slots=True)
class LockPlace:
    """Locks of one kind at one location."""

    kind: str
    store_root: StoreRoot
    lease_seconds: float = LEASE

    @property
    def is_lease(self) -> bool:
        """Whether clocks decide about it."""
        return self.kind == "lease"

    def open(self, runtime: Runtime = SYSTEM, objects: Objects | None = None) -> Locks:
        """Open a handle of its own."""
        match self.kind:
            case "file":
                return FileLocks(self.store_root.root, runtime)
            case "process":
                return ProcessLocks(self.store_root.root, runtime)
            case _:
                return LeaseLocks(
                    objects or self.store_root.open(),
                    runtime,
                    lease_seconds=self.lease_seconds,
                    renew_seconds=RENEW,
                )


def add_slowly(where: LockPlace, key: str, times: int) -> None:
    """Count up without any other guard, under the lock: two holders at once lose a number."""
    locks, objects = where.open(), where.store_root.open()
    for _ in range(times):
        lock = locks.acquire(key, wait=240)
        assert lock is not None
        try:
            number = int(objects.read("counter") or 0)
            threading.Event().wait(0.002)
            objects.put("counter", str(number + 1))
            assert lock.is_valid()
        finally:
            locks.release(lock)


def hold_and_answer(where: LockPlace, key: str, line: Connection) -> None:
    """Take a lock, print its token, then answer every question with whether it is still held."""
    locks = where.open()
    lock = locks.acquire(key, wait=240)
    assert lock is not None
    line.send(lock.token)
    while True:
        if line.recv() == "release":
            locks.release(lock)
            line.send("released")
        else:
            line.send(lock.is_valid())


def hold_and_fork(where: LockPlace, key: str, line: Connection) -> None:
    """Take a lock, fork a child that outlives this process, and print its process id."""
    lock = where.open().acquire(key, wait=240)
    assert lock is not None
    child = os.fork()
    if child == 0:
        signal.pause()
    line.send(child)
    signal.pause()
