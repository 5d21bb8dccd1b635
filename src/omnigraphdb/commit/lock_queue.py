"""The queue of the writers of one process that wait for locks: all of a writer's at once, first come, first served."""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from typing import NamedTuple

from omnigraphdb.ids import TableKey
from omnigraphdb.limits import GROUP_MEMBERS_MAX, LOCK_TIMES_KNOWN, LOCK_TIMES_LOCKS_MAX
from omnigraphdb.storage.lru import Recent
from omnigraphdb.values import dataclass


class LockKey(NamedTuple):
    """The name of one lock: a table on one Lance branch; the empty branch is main, so that keys sort."""

    table: TableKey
    branch: str = ""

    @property
    def name(self) -> str:
        """The name of its lock."""
        return f"{self.table}@{self.branch or 'main'}"


Wants = Callable[[object], bool]
"""The test by which a holder of locks accepts a waiting member into its group."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A writer that waits for locks; a holder of the locks may take its member into a group."""

    keys: frozenset[LockKey]
    member: object | None
    answered: threading.Event = field(default_factory=threading.Event)
    is_claimed: bool = False
    is_taken: bool = False


@dataclass(frozen=True, slots=True)
class ExpectedWait:
    """The number of writes before a waiter, and the duration of the shortest recent write."""

    count: int
    shortest: float

    @property
    def seconds(self) -> float:
        """The least time that the waiter waits, if no write takes less than the last ones did."""
        return self.count * self.shortest


class LockQueue:
    """The locks between the threads of this process on one graph root."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: set[LockKey] = set()
        self._queue: list[Waiter] = []
        self._lock_times: Recent[LockKey, deque[float]] = Recent(LOCK_TIMES_LOCKS_MAX)

    def __len__(self) -> int:
        """Count the waiters."""
        return len(self._queue)

    def enter(self, keys: frozenset[LockKey], member: object | None) -> Waiter:
        """Stand in the queue; the waiter is answered at once when nobody is in its way."""
        waiter = Waiter(keys, member)
        with self._guard:
            self._queue.append(waiter)
            self._grant()
        return waiter

    def leave(self, waiter: Waiter) -> bool:
        """Leave the queue; False when the waiter was answered, or a holder is about to answer it."""
        with self._guard:
            if waiter.answered.is_set() or waiter.is_claimed:
                return False
            self._queue.remove(waiter)
            self._grant()
            return True

    def release(self, keys: Iterable[LockKey]) -> None:
        """Release locks; the next in the queue get them."""
        with self._guard:
            self._held.difference_update(keys)
            self._grant()

    # ---- groups

    def claim(self, own_keys: Collection[LockKey], wants: Wants) -> Waiter | None:
        """Claim the first wanted waiter whose locks are held by the caller or free; the caller holds them from now on."""
        with self._guard:
            for waiter in self._queue:
                is_free = self._held.isdisjoint(waiter.keys.difference(own_keys))
                if waiter.member is not None and is_free and wants(waiter.member):
                    waiter.is_claimed = True
                    self._held |= waiter.keys
                    return waiter
        return None

    def answer(self, waiter: Waiter, *, is_taken: bool) -> None:
        """End a claim: the caller took the member, or the waiter waits on where it was."""
        with self._guard:
            waiter.is_claimed = False
            if is_taken:
                waiter.is_taken = True
                self._queue.remove(waiter)
                waiter.answered.set()
            self._grant()

    def _grant(self) -> None:
        """Answer every waiter whose locks are free and not needed by an earlier waiter."""
        blocked = set(self._held)
        for waiter in tuple(self._queue):
            if blocked.isdisjoint(waiter.keys) and not waiter.is_claimed:
                self._held |= waiter.keys
                self._queue.remove(waiter)
                waiter.answered.set()
            # A later writer must not pass an earlier writer that waits for the same lock.
            blocked |= waiter.keys

    # ---- how long it takes

    def note_lock_time(self, keys: Iterable[LockKey], seconds: float) -> None:
        """Remember the seconds for which the locks were held."""
        with self._guard:
            for key in keys:
                times = self._lock_times.get(key)
                self._lock_times.put(key, deque((*(times or ()), seconds), maxlen=LOCK_TIMES_KNOWN))

    def estimate_wait(self, waiter: Waiter) -> ExpectedWait | None:
        """Count the writes before a waiter; None when too few of their durations are known.

        Writers that may be taken into a group count once for as many as a group may have, the others one each.
        """
        with self._guard:
            if waiter not in self._queue:
                return None
            before = self._queue[: self._queue.index(waiter)]
            waits = [
                wait
                for key in sorted(waiter.keys)
                if (wait := self._estimate_wait(waiter, before, key))
            ]
        return max(waits, key=lambda wait: wait.seconds, default=None)

    def _estimate_wait(
        self, waiter: Waiter, before: Collection[Waiter], key: LockKey
    ) -> ExpectedWait | None:
        last = self._lock_times.get(key)
        if last is None or len(last) < LOCK_TIMES_KNOWN:
            return None
        rivals = [rival for rival in before if key in rival.keys]
        single = sum(rival.member is None for rival in rivals)
        grouped = len(rivals) - single
        if waiter.member is not None:
            # The next holder may take it along, past the writers that publish alone.
            return ExpectedWait(grouped // GROUP_MEMBERS_MAX, min(last))
        return ExpectedWait(single + -(-grouped // GROUP_MEMBERS_MAX), min(last))
