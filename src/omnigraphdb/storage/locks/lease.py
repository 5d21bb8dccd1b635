"""Locks on an object store: a JSON lease that its holder renews and that a rival may take over once it is stale."""

import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from omnigraphdb.errors import StorageError
from omnigraphdb.limits import (
    LEASE_MARGIN_PART,
    LEASE_POLL_SECONDS,
    LEASE_PUTS_MAX,
    LEASE_RENEW_SECONDS,
    LEASE_SECONDS,
    LEASE_WAITERS_MAX,
    LEASES_KNOWN_MAX,
    OBJECT_ROUNDS_MAX,
)
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.locks.holders import UNNAMED, Activity, Holder
from omnigraphdb.storage.locks.store_clock import StoreClock
from omnigraphdb.storage.locks.stored_lease import Lease, holder_of_lease, lease_of, lease_path
from omnigraphdb.storage.locks.watch import LeaseWatch
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.faults import StorageKind
from omnigraphdb.storage.objects.protocol import Objects, Versioned

_Lock = TypeVar("_Lock")
_Answer = TypeVar("_Answer")
_US: Final = 1_000_000


class LeaseLock:
    """A held lease; its holder must check `is_valid` before every effect."""

    def __init__(self, key: str, path: str, runtime: Runtime, margin: float) -> None:
        self.key = key
        self.path = path
        self.mutex = threading.Lock()
        self.version: str | None = None
        self.over = False
        self.unbroken = False
        self._runtime = runtime
        self._margin = margin
        self._lease = Lease(owner=None, token=0, expires_us=0)
        self._safe_until = 0.0

    @property
    def exclusive(self) -> bool:
        """A lease depends on clocks."""
        return False

    @property
    def token(self) -> str:
        """The fencing token: greater than that of every holder before."""
        return str(self._lease.token)

    @property
    def lease(self) -> Lease:
        """The lease as it was last written to the store."""
        return self._lease

    def is_valid(self) -> bool:
        """Whether no rival can have taken it yet, by both clocks of this machine; a suspended machine stops only one."""
        wall = self._runtime.now_us() < self._lease.expires_us - int(self._margin * _US)
        return not self.over and wall and self._runtime.monotonic() < self._safe_until

    def landed(self, lease: Lease, version: str | None, started: float, seconds: float) -> None:
        """Note the stored lease; `started` is when the write of it began."""
        self._lease, self.version = lease, version
        self._safe_until = started + seconds - self._margin


def _do_at_once(
    name: str, act: Callable[[_Lock], _Answer], locks: Collection[_Lock]
) -> list[_Answer]:
    """Do something with each lock, with several at the same time; in this thread when there is only one."""
    if len(locks) < 2:
        return [act(lock) for lock in locks]
    with ThreadPoolExecutor(min(len(locks), LEASE_PUTS_MAX), name) as pool:
        return list(pool.map(carry_context(act), locks))


class LeaseLocks:
    """Leases under `__locks/`, created by put-if-absent, renewed and taken over by put-if-match.

    A process that meets a held lease writes its name into it, so that a busy process does not take it again
    before others had their turn. The order is a courtesy: only the conditions of the store decide about the lock. A release
    writes the lease without an owner instead of removing it: its token must keep growing.
    """

    def __init__(
        self,
        objects: Objects,
        runtime: Runtime = SYSTEM,
        *,
        lease_seconds: float = LEASE_SECONDS,
        renew_seconds: float = LEASE_RENEW_SECONDS,
        read_only: bool = False,
    ) -> None:
        self._objects = objects
        self._runtime = runtime
        self._seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._margin = lease_seconds / LEASE_MARGIN_PART
        self._watch = LeaseWatch(runtime, None if read_only else StoreClock(objects, runtime))
        self._changed = threading.Condition()
        self._held: set[LeaseLock] = set()
        self._released: Recent[str, tuple[Lease, str]] = Recent(LEASES_KNOWN_MAX)
        self._renewer: threading.Thread | None = None

    # ---- acquiring

    def acquire(self, key: str, *, wait: float, activity: Activity = UNNAMED) -> LeaseLock | None:
        """Acquire the lock of a key; that of a dead holder is free when its lease has run out."""
        path = lease_path(key)
        deadline = self._runtime.monotonic() + wait
        waiter = self._name_owner()
        pause = LEASE_POLL_SECONDS / 16
        lock = self._try_reacquire(key, path, activity) or self._try(
            key, path, activity, waiter, is_queued=wait > 0
        )
        while lock is None:
            left = deadline - self._runtime.monotonic()
            if left <= 0:
                self._leave_queue(path, waiter, was_queued=wait > 0)
                return None
            self._runtime.wait(min(left, pause / 2 + self._runtime.jitter(pause)))
            pause = min(pause * 2, LEASE_POLL_SECONDS)
            lock = self._try(key, path, activity, waiter, is_queued=True)
        self._keep(lock)
        return lock

    def holder(self, key: str) -> Holder | None:
        """Read the holder of the lease of a key; None when a rival may take it.

        The first look may show a dead holder; later looks do not when the term of its lease is over.
        """
        path = lease_path(key)
        stored = self._objects.read_versioned(path)
        lease = None if stored is None else lease_of(stored.text, path)
        if stored is None or lease is None or lease.owner is None:
            return None
        is_free = self._seconds_free(path, lease, stored) > 0
        return None if is_free else holder_of_lease(lease)

    def _seconds_free(self, path: str, lease: Lease, stored: Versioned) -> float:
        return lease.seconds_free(self._watch.seconds_unchanged(path, lease, stored.changed_us))

    def _try(
        self, key: str, path: str, activity: Activity, waiter: str, *, is_queued: bool
    ) -> LeaseLock | None:
        """Take the lock if it is free and the waiter's turn; a waiter that is queued stands in line else."""
        stored = self._objects.read_versioned(path)
        if stored is None:
            return self._try_take(key, path, activity, waiter, None, None)
        current = lease_of(stored.text, path)
        if self._may_take(path, current, stored, waiter, is_queued=is_queued):
            return self._try_take(key, path, activity, waiter, current, stored.token)
        has_room = len(current.waiting) < LEASE_WAITERS_MAX
        if is_queued and has_room and waiter not in current.waiting:
            queued = replace(current, waiting=(*current.waiting, waiter))
            self._try_queue(path, queued, stored.token)
        return None

    def _may_take(
        self, path: str, lease: Lease, stored: Versioned, waiter: str, *, is_queued: bool
    ) -> bool:
        """Whether a lease is free and it is the turn of the waiter; a released lease without waiters asks no clock."""
        if lease.owner is None and not (is_queued and lease.waiting):
            return True
        seconds_free = self._seconds_free(path, lease, stored)
        is_free = lease.owner is None or seconds_free > 0
        return is_free and (not is_queued or lease.may_take(waiter, seconds_free))

    def _try_queue(self, path: str, queued: Lease, version: str) -> None:
        # Another wrote the lease meanwhile, or the store fails: the next look tells.
        with suppress(StorageError):
            self._objects.put_if_match(path, queued.to_json(), version)

    def _leave_queue(self, path: str, waiter: str, *, was_queued: bool) -> None:
        """Remove the name of a waiter that gives up from the lease; if that fails, others wait a moment longer."""
        if not was_queued:
            return
        with suppress(StorageError):
            seen = self._objects.read_versioned(path)
            current = None if seen is None else lease_of(seen.text, path)
            if seen is not None and current is not None and waiter in current.waiting:
                left = tuple(name for name in current.waiting if name != waiter)
                self._try_queue(path, replace(current, waiting=left), seen.token)

    def _try_reacquire(self, key: str, path: str, activity: Activity) -> LeaseLock | None:
        """Acquire a lock that this process released last; fails when another process acquired it since."""
        released = self._released.pop(path)
        if released is None:
            return None
        lock = self._try_take(key, path, activity, self._name_owner(), *released)
        if lock is not None:
            lock.unbroken = True
        return lock

    def _name_owner(self) -> str:
        return f"{socket.gethostname()}:{os.getpid()}:{self._runtime.new_id()}"

    def _try_take(
        self,
        key: str,
        path: str,
        activity: Activity,
        owner: str,
        current: Lease | None,
        seen: str | None,
    ) -> LeaseLock | None:
        started = self._runtime.monotonic()
        lease = Lease(
            owner=owner,
            waiting=() if current is None else current.waiting_after(owner),
            token=1 if current is None else current.token + 1,
            expires_us=self._expiry(),
            seconds=self._seconds,
            holder=Holder.of_this_process(activity, self._runtime.now_us()),
        )
        lock = LeaseLock(key, path, self._runtime, self._margin)
        won, version = self._claim(path, lease, seen)
        if not won:
            return None
        lock.landed(lease, version, started, self._seconds)
        return lock

    def _claim(self, path: str, lease: Lease, version: str | None) -> tuple[bool, str | None]:
        """Write the lease; when the store refuses or fails, check whether the lease landed all the same."""
        try:
            if version is None:
                if self._objects.put_if_absent(path, lease.to_json()):
                    return True, None
            else:
                new = self._objects.put_if_match(path, lease.to_json(), version)
                if new is not None:
                    return True, new
        except StorageError:
            landed_version = self._find(path, lease)
            if landed_version is None:
                raise
            return True, landed_version
        # The client repeats a request whose answer was lost, and then conflicts with its own write.
        landed_version = self._find(path, lease)
        return landed_version is not None, landed_version

    def _find(self, path: str, lease: Lease) -> str | None:
        """Find the stored version of our lease; None when the store has another's."""
        seen = self._objects.read_versioned(path)
        if seen is None:
            return None
        return seen.token if lease_of(seen.text, path).is_same_hold(lease) else None

    def _expiry(self) -> int:
        return self._runtime.now_us() + int(self._seconds * _US)

    # ---- renewing

    def _keep(self, lock: LeaseLock) -> None:
        with self._changed:
            self._held.add(lock)
            if self._renewer is None or not self._renewer.is_alive():
                self._renewer = threading.Thread(
                    target=self._renew_all, name="omnigraph-leases", daemon=True
                )
                self._renewer.start()

    def _renew_all(self) -> None:
        pause = self._renew_seconds
        while True:
            with self._changed:
                self._changed.wait(pause)
                if not self._held:
                    self._renewer = None
                    return
                locks = sorted(self._held, key=lambda lock: lock.key)
            renewed = _do_at_once("omnigraph-renew", self._try_renew, locks)
            pause = self._renew_seconds if all(renewed) else self._renew_seconds / 4

    def _try_renew(self, lock: LeaseLock) -> bool:
        with lock.mutex:
            if lock.over:
                return True
            started = self._runtime.monotonic()
            lease = replace(lock.lease, expires_us=self._expiry())
            try:
                rewritten = self._rewrite(lock, lease)
            except StorageError:
                # The lease may expire: `is_valid` becomes false by itself while the store does not answer.
                return False
            if rewritten is None:
                lock.over = True
            else:
                lock.landed(*rewritten, started, self._seconds)
            return True

    def _rewrite(self, lock: LeaseLock, lease: Lease) -> tuple[Lease, str] | None:
        """Replace our lease by its next state, with its waiters; None when another process took it over."""
        if lock.version is not None:
            version = self._objects.put_if_match(lock.path, lease.to_json(), lock.version)
            if version is not None:
                return lease, version
        # Another process took it over or stands in line, or an earlier answer was lost and the noted version is old.
        for _ in range(OBJECT_ROUNDS_MAX):
            seen = self._objects.read_versioned(lock.path)
            current = None if seen is None else lease_of(seen.text, lock.path)
            if seen is None or current is None or not current.is_same_hold(lock.lease):
                return None
            updated = replace(lease, waiting=current.waiting)
            version = self._objects.put_if_match(lock.path, updated.to_json(), seen.token)
            if version is not None:
                return updated, version
        raise StorageError(
            f"the lease '{lock.path}' was written by waiting processes {OBJECT_ROUNDS_MAX} times in a row",
            storage_kind=StorageKind.TRANSIENT,
        )

    # ---- releasing

    def release_all(self, locks: Sequence[object]) -> None:
        """Release locks, all at once: nobody waits for one answer before the next."""
        _do_at_once("omnigraph-release", self.release, locks)

    def release(self, lock: object) -> None:
        """Release a lock that is still held; when the store fails, the lease expires."""
        if not isinstance(lock, LeaseLock):
            return
        with self._changed:
            self._held.discard(lock)
        with lock.mutex:
            if lock.over:
                return
            lock.over = True
            free_lease = replace(lock.lease, owner=None, expires_us=0, holder=None)
            try:
                rewritten = self._rewrite(lock, free_lease)
            except StorageError:
                return
            # A waiter in line comes first: only then may this process not take the lock again as it left it.
            if rewritten is not None and not rewritten[0].waiting:
                self._released.put(lock.path, rewritten)
