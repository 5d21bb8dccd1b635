"""Locks of tables and branches, between the writers of this process and across processes."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import NamedTuple
from weakref import WeakValueDictionary

from omnigraph.errors import InternalError, LockTimeout
from omnigraph.ids import TableKey
from omnigraph.limits import HOLDER_POLL_SECONDS, LOCK_WAIT_SECONDS
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.storage.locks.holders import UNNAMED, Activity, Holder
from omnigraph.storage.locks.table import Locks, TableLock
from omnigraph.values import dataclass


class LockKey(NamedTuple):
    """The name of one lock: a table on one Lance branch; the empty branch is main, so that keys sort."""

    table: TableKey
    branch: str = ""

    @property
    def name(self) -> str:
        """The name of its lock."""
        return f"{self.table}@{self.branch or 'main'}"


SCHEMA_APPLY = LockKey(TableKey("__schema_apply__"))
"""Sorts before every table key, so it is always taken first."""


_MERGE = TableKey("__merge__")


def merge_key(branch: str | None) -> LockKey:
    """The lock of a merge into a Lance branch that changes no table: holding it shows that the merge still runs."""
    return lock_key(_MERGE, branch)


INIT = LockKey(TableKey("__init__"))
"""The lock of whoever creates the graph."""


def branch_key(name: str) -> LockKey:
    """The lock of whoever creates a branch of that name."""
    return LockKey(TableKey("__branch__"), name)


def lock_key(table: TableKey, branch: str | None) -> LockKey:
    """The lock of a table on a Lance branch."""
    return LockKey(table, branch or "")


@dataclass(frozen=True, slots=True)
class HeldLocks:
    """The locks that a writer holds, by key."""

    locks: Mapping[LockKey, TableLock]

    def covers(self, keys: Iterable[LockKey]) -> bool:
        """Whether every one of the keys is held."""
        return all(key in self.locks for key in keys)

    def lock(self, key: LockKey) -> TableLock:
        """The lock of a key; committing without one is a bug."""
        if key not in self.locks:
            raise InternalError(f"{key.name} would be committed without its lock")
        return self.locks[key]

    @property
    def is_unbroken(self) -> bool:
        """Whether nobody else held any of the locks since this process released them."""
        return bool(self.locks) and all(lock.unbroken for lock in self.locks.values())

    def lost(self) -> LockKey | None:
        """A lock that is no longer ours, because the process slept longer than its lease; None when all are."""
        return next((key for key, lock in self.locks.items() if not lock.still_held()), None)


class _ProcessLocks:
    """The locks between the threads of this process on one graph root."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[LockKey, _ProcessLock] = WeakValueDictionary()

    def of(self, key: LockKey) -> "_ProcessLock":
        with self._guard:
            process_lock = self._locks.get(key)
            if process_lock is None:
                process_lock = self._locks[key] = _ProcessLock()
            return process_lock


class _ProcessLock:
    """A plain lock that can be weakly referenced."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


_registry_guard = threading.Lock()
_registry: WeakValueDictionary[str, _ProcessLocks] = WeakValueDictionary()


def _process_locks_of(root: str) -> _ProcessLocks:
    # All handles of a process on one root share these locks; two handles are two writers like any others.
    with _registry_guard:
        process_locks = _registry.get(root)
        if process_locks is None:
            process_locks = _registry[root] = _ProcessLocks()
        return process_locks


class _Busy(Exception):
    """A lock did not become free in time."""

    def __init__(self, key: LockKey) -> None:
        super().__init__(key.name)
        self.key = key


@dataclass(frozen=True, slots=True)
class TableLocks:
    """The table locks of one graph; `wait` is how many seconds a writer waits for a live holder."""

    root: str
    locks: Locks
    wait: float = LOCK_WAIT_SECONDS
    runtime: Runtime = field(default_factory=lambda: SYSTEM)
    _process_locks: _ProcessLocks = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_process_locks", _process_locks_of(self.root))

    @contextmanager
    def acquire(self, keys: Iterable[LockKey], activity: Activity = UNNAMED) -> Iterator[HeldLocks]:
        """Wait for every lock, in sorted order, and hold them for the block; `LockTimeout` names a holder."""
        try:
            held = self._take(keys, self.wait, activity)
        except _Busy as busy:
            raise self._timeout(busy.key) from None
        try:
            yield held[0]
        finally:
            self._give_back(*held)

    @contextmanager
    def try_acquire(
        self, keys: Iterable[LockKey], activity: Activity = UNNAMED
    ) -> Iterator[HeldLocks | None]:
        """Take all locks if they are free right now; else None, holding nothing."""
        try:
            held = self._take(keys, 0, activity)
        except _Busy:
            yield None
            return
        try:
            yield held[0]
        finally:
            self._give_back(*held)

    def holder(self, keys: Iterable[LockKey]) -> Holder | None:
        """Find who holds these locks, taking and writing nothing; None when one is free, so that no owner of all
        of them is alive."""
        found = [self.locks.holder(key.name) for key in sorted(set(keys))]
        return found[0] if found and None not in found else None

    def wait_out(self, keys: Collection[LockKey]) -> None:
        """Wait until the present holder of these locks has released one of them; takes and writes nothing."""
        deadline = self.runtime.monotonic() + self.wait
        holder = first = self.holder(keys)
        pause = HOLDER_POLL_SECONDS / 16
        while holder is not None and holder == first:
            if not self._left(deadline):
                raise self._timeout(min(keys))
            self.runtime.wait(min(self._left(deadline), pause))
            pause = min(pause * 2, HOLDER_POLL_SECONDS)
            holder = self.holder(keys)

    def _timeout(self, key: LockKey) -> LockTimeout:
        holder = self.locks.holder(key.name)
        named = holder is not None and holder.process != 0
        return LockTimeout(
            key.table,
            key.branch or "main",
            self.wait,
            holder=holder.to_dict() if holder is not None and named else None,
            since=holder.since if holder is not None and named and holder.since_us else None,
        )

    def _take(
        self, keys: Iterable[LockKey], wait: float, activity: Activity
    ) -> tuple[HeldLocks, list[_ProcessLock]]:
        locks: dict[LockKey, TableLock] = {}
        process_locks: list[_ProcessLock] = []
        deadline = self.runtime.monotonic() + wait
        try:
            for key in sorted(set(keys)):
                process_lock = self._process_locks.of(key)
                if not process_lock.lock.acquire(timeout=self._left(deadline)):
                    raise _Busy(key)
                process_locks.append(process_lock)
                lock = self.locks.acquire(key.name, wait=self._left(deadline), activity=activity)
                if lock is None:
                    raise _Busy(key)
                locks[key] = lock
        except BaseException:
            self._give_back(HeldLocks(locks), process_locks)
            raise
        return HeldLocks(locks), process_locks

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self.runtime.monotonic())

    def _give_back(self, held_locks: HeldLocks, process_locks: list[_ProcessLock]) -> None:
        for lock in held_locks.locks.values():
            self.locks.release(lock)
        for process_lock in process_locks:
            process_lock.lock.release()
