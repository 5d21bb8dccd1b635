"""Locks of tables and branches, between the writers of this process and across processes."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from weakref import WeakValueDictionary

from omnigraphdb.commit.lock_queue import ExpectedWait, LockQueue, Waiter, Wants
from omnigraphdb.commit.lock_queue import LockKey as LockKey
from omnigraphdb.errors import (
    InternalError,
    LockLost,
    LockTimeout,
    OmniError,
    RecoveryRequired,
)
from omnigraphdb.ids import OperationId, TableKey
from omnigraphdb.limits import CLAIM_POLL_SECONDS, HOLDER_POLL_SECONDS, LOCK_WAIT_SECONDS
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.locks.holders import UNNAMED, Activity, Holder
from omnigraphdb.storage.locks.table import Locks, TableLock
from omnigraphdb.values import dataclass

SCHEMA_APPLY = LockKey(TableKey("__schema_apply__"))
"""Sorts before every table key, so it is always taken first."""


_MERGE = TableKey("__merge__")


def merge_key(branch: str | None) -> LockKey:
    """Name the lock of a merge into a Lance branch that changes no table: it shows that the merge still runs."""
    return lock_key(_MERGE, branch)


def manifest_key(branch: str | None) -> LockKey:
    """Name the lock for the removal of old manifest versions of a Lance branch, and for making one of them lasting."""
    return lock_key(TableKey("__manifest__"), branch)


INIT = LockKey(TableKey("__init__"))
"""The lock for the creation of the graph."""


def branch_key(name: str) -> LockKey:
    """Name the lock for the creation or deletion of a branch of that name."""
    return LockKey(TableKey("__branch__"), name)


def lock_key(table: TableKey, branch: str | None) -> LockKey:
    """Name the lock of a table on a Lance branch."""
    return LockKey(table, branch or "")


@dataclass(frozen=True, slots=True)
class HeldLocks:
    """The locks that a writer holds, by key; a writer that leads a group adds those of its members."""

    locks: dict[LockKey, TableLock]

    def covers(self, keys: Iterable[LockKey]) -> bool:
        """Whether every one of the keys is held."""
        return all(key in self.locks for key in keys)

    def lock(self, key: LockKey) -> TableLock:
        """Return the lock of a key; committing without a lock is a bug."""
        if key not in self.locks:
            raise InternalError(f"{key.name} would be committed without its lock")
        return self.locks[key]

    @property
    def is_unbroken(self) -> bool:
        """Whether nobody else held any of the locks since this process released them."""
        return bool(self.locks) and all(lock.unbroken for lock in self.locks.values())

    def lost(self) -> LockKey | None:
        """Find a lock that is lost because the process slept longer than its lease; None when all are still ours."""
        return next((key for key, lock in self.locks.items() if not lock.is_valid()), None)

    def require(self, work: str, operation_id: OperationId | None = None) -> None:
        """Stop work before a request that removes, restores or withdraws when a lock was lost.

        The process that took the lock over may rely on files that the request would destroy. An operation is left to
        recovery; other work is run again.
        """
        lost = self.lost()
        if lost is None:
            return
        if operation_id is None:
            raise LockLost(work, lost.table, lost.branch or "main")
        raise RecoveryRequired(
            operation_id,
            f"{work} lost its lock on {lost.name} while it ran; recovery completes it or takes it back, look before "
            "repeating it",
        )


_registry_guard = threading.Lock()
_registry: WeakValueDictionary[str, LockQueue] = WeakValueDictionary()


def queue_of(root: str) -> LockQueue:
    """Give the queue that all handles of this process on a root share: two handles are two writers like any others."""
    with _registry_guard:
        queue = _registry.get(root)
        if queue is None:
            queue = _registry[root] = LockQueue()
        return queue


class _Busy(Exception):
    """A lock did not become free in time, or could not, because of the `turns` of others before."""

    def __init__(self, key: LockKey, turns: ExpectedWait | None = None) -> None:
        super().__init__(key.name)
        self.key = key
        self.turns = turns


@dataclass(frozen=True, slots=True)
class TableLocks:
    """The table locks of one graph; `wait` is how many seconds a writer waits for a live holder."""

    queue: LockQueue = field(repr=False, compare=False)
    """The waiters of this process, of all of its handles."""
    locks: Locks
    wait: float = LOCK_WAIT_SECONDS
    runtime: Runtime = field(default_factory=lambda: SYSTEM)

    @contextmanager
    def acquire(self, keys: Iterable[LockKey], activity: Activity = UNNAMED) -> Iterator[HeldLocks]:
        """Wait for every lock and hold them for the block; `LockTimeout` names a holder."""
        with self.acquire_or_join(keys, activity, None) as held_locks:
            assert held_locks is not None, "nobody takes a writer that brings no member"
            yield held_locks

    @contextmanager
    def acquire_or_join(
        self,
        keys: Iterable[LockKey],
        activity: Activity,
        member: object | None,
        on_waiting: Callable[[], None] = lambda: None,
    ) -> Iterator[HeldLocks | None]:
        """Wait for every lock and hold them for the block; None when a holder took the member into its group.

        `on_waiting` is called when a holder can take the member.
        """
        try:
            held_locks = self._take(frozenset(keys), self.wait, activity, member, on_waiting)
        except _Busy as busy:
            raise self._timeout(busy.key, busy.turns) from None
        began = self.runtime.monotonic()
        try:
            yield held_locks
        finally:
            if held_locks is not None:
                self.queue.note_lock_time(held_locks.locks, self.runtime.monotonic() - began)
                self._give_back(held_locks.locks, held_locks.locks)

    @contextmanager
    def try_acquire(
        self, keys: Iterable[LockKey], activity: Activity = UNNAMED
    ) -> Iterator[HeldLocks | None]:
        """Take all locks if they are free right now; else None, holding nothing."""
        try:
            held_locks = self._take(frozenset(keys), 0, activity, None)
        except _Busy:
            yield None
            return
        assert held_locks is not None, "nobody takes a writer that brings no member"
        try:
            yield held_locks
        finally:
            self._give_back(held_locks.locks, held_locks.locks)

    def take_waiting(
        self, held_locks: HeldLocks, activity: Activity, wants: Wants
    ) -> Iterator[object]:
        """Take the members that wait in this process and that the holder wants, with the locks that they need besides.

        A member whose other locks are not free right now waits on.
        """
        tried: list[object] = []
        while (waiter := self._claim(held_locks, tried, wants)) is not None:
            tried.append(waiter.member)
            extra = waiter.keys - held_locks.locks.keys()
            is_held = self._extend(held_locks, extra, activity)
            if not is_held:
                self.queue.release(extra)
            self.queue.answer(waiter, is_taken=is_held)
            if is_held:
                yield waiter.member

    def _claim(
        self, held_locks: HeldLocks, tried: Collection[object], wants: Wants
    ) -> Waiter | None:
        return self.queue.claim(
            held_locks.locks, lambda member: member not in tried and wants(member)
        )

    def _extend(self, held_locks: HeldLocks, keys: Collection[LockKey], activity: Activity) -> bool:
        """Add locks that are free in this process to the held locks, all of them or none."""
        try:
            more = self._acquire_each(keys, self.runtime.monotonic(), activity)
        except (_Busy, OmniError):
            return False
        held_locks.locks.update(more)
        return True

    def holder(self, keys: Iterable[LockKey]) -> Holder | None:
        """Find the holder of these locks, taking and writing nothing; None when one is free, so that no owner of all
        of them is alive.
        """
        holders = [self.locks.holder(key.name) for key in sorted(set(keys))]
        return holders[0] if holders and None not in holders else None

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

    def _timeout(self, key: LockKey, turns: ExpectedWait | None = None) -> LockTimeout:
        holder = self.locks.holder(key.name)
        is_named = holder is not None and holder.process != 0
        return LockTimeout(
            key.table,
            key.branch or "main",
            self.wait,
            holder=holder.to_dict() if holder is not None and is_named else None,
            since=holder.since if holder is not None and is_named and holder.since_us else None,
            turns=None if turns is None else (turns.count, turns.shortest),
        )

    def _take(
        self,
        keys: frozenset[LockKey],
        wait: float,
        activity: Activity,
        member: object | None,
        on_waiting: Callable[[], None] = lambda: None,
    ) -> HeldLocks | None:
        deadline = self.runtime.monotonic() + wait
        waiter = self.queue.enter(keys, member)
        on_waiting()
        self._refuse_hopeless(waiter, wait)
        self._await(waiter, deadline)
        if waiter.is_taken:
            return None
        try:
            return HeldLocks(self._acquire_each(keys, deadline, activity))
        except BaseException:
            self.queue.release(keys)
            raise

    def _refuse_hopeless(self, waiter: Waiter, wait: float) -> None:
        """Refuse a waiter at once that cannot be served in time: it would only make the queue longer for others."""
        turns = self.queue.estimate_wait(waiter) if wait > 0 else None
        if turns is not None and turns.seconds > wait and self.queue.leave(waiter):
            raise _Busy(min(waiter.keys), turns)

    def _await(self, waiter: Waiter, deadline: float) -> None:
        """Wait until the waiter is answered, or until its deadline."""
        try:
            while not waiter.answered.wait(self._left(deadline)):
                if self.queue.leave(waiter):
                    raise _Busy(min(waiter.keys))
                # A holder is about to take its member, or to let it wait on.
                waiter.answered.wait(CLAIM_POLL_SECONDS)
        except _Busy:
            raise
        except BaseException:
            self._abandon(waiter)
            raise

    def _abandon(self, waiter: Waiter) -> None:
        """Leave the queue for good, even after an answer; a member that was taken belongs to its holder."""
        while not self.queue.leave(waiter):
            if waiter.answered.wait(CLAIM_POLL_SECONDS):
                if not waiter.is_taken:
                    self.queue.release(waiter.keys)
                return

    def _acquire_each(
        self, keys: Iterable[LockKey], deadline: float, activity: Activity
    ) -> dict[LockKey, TableLock]:
        """Acquire locks between processes, in sorted order, so that two processes never wait for each other."""
        locks: dict[LockKey, TableLock] = {}
        try:
            for key in sorted(keys):
                lock = self.locks.acquire(key.name, wait=self._left(deadline), activity=activity)
                if lock is None:
                    raise _Busy(key)
                locks[key] = lock
        except BaseException:
            self._give_back(locks, ())
            raise
        return locks

    def _left(self, deadline: float) -> float:
        return max(0.0, deadline - self.runtime.monotonic())

    def _give_back(self, locks: Mapping[LockKey, TableLock], keys: Iterable[LockKey]) -> None:
        self.locks.release_all(tuple(locks.values()))
        self.queue.release(tuple(keys))
