"""Locks on an object store: a JSON lease that its holder renews and that a rival may take over once it is stale."""

import json
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Final

from omnigraph.errors import StorageError, shorten
from omnigraph.limits import (
    LEASE_MARGIN_PART,
    LEASE_POLL_SECONDS,
    LEASE_PUTS_MAX,
    LEASE_RENEW_SECONDS,
    LEASE_SECONDS,
    LEASE_TURN_SECONDS,
    LEASE_WAITERS_MAX,
    LEASES_KNOWN_MAX,
    OBJECT_ROUNDS_MAX,
)
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.storage.counters import carry_context
from omnigraph.storage.layout import LOCKS, lock_name
from omnigraph.storage.locks.holders import UNNAMED, Activity, Holder, holder_of
from omnigraph.storage.lru import Recent
from omnigraph.storage.objects.faults import StorageKind
from omnigraph.storage.objects.protocol import Objects
from omnigraph.values import dataclass

_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The contents of `__locks/<key>.json`: the holder of the lock, its fencing token, and its expiry."""

    owner: str | None
    token: int
    expires_us: int
    holder: Holder | None = None
    waiting: tuple[str, ...] = ()
    """Who waits for the lock, in the order in which they came."""
    released_us: int = 0
    """When the lock was released; 0 while it is held, and where an earlier release wrote the lease."""

    def to_json(self) -> str:
        """The stored form."""
        body = {"owner": self.owner, "token": self.token, "expires": self.expires_us}
        held = {} if self.holder is None else {"holder": self.holder.to_json()}
        queue = {"waiting": self.waiting, "released": self.released_us} if self.waiting else {}
        return json.dumps(body | held | queue)

    def is_free(self, now_us: int, margin_us: int) -> bool:
        """Whether a rival may take it: it was released, or it expired by more than clocks may differ."""
        return self.owner is None or now_us > self.expires_us + margin_us

    def may_take(self, waiter: str, now_us: int) -> bool:
        """Whether it is the turn of a waiter: the first at once, the others when those before them had their time.

        Somebody before may have died; that nobody else has the lock is decided by the store, not here.
        """
        if not self.waiting:
            return True
        if waiter not in self.waiting:
            return False
        since = self.released_us or self.expires_us
        place = self.waiting.index(waiter)
        return place == 0 or now_us - since > place * LEASE_TURN_SECONDS * _US

    def waiting_after(self, waiter: str) -> tuple[str, ...]:
        """Who waits on when a waiter gets the lock; those before it did not come in time and are dropped."""
        place = self.waiting.index(waiter) if waiter in self.waiting else -1
        return self.waiting[place + 1 :]


def lease_of(text: str, path: str) -> Lease:
    """Read the stored form."""
    try:
        body = json.loads(text)
        return Lease(
            owner=body["owner"],
            token=int(body["token"]),
            expires_us=int(body["expires"]),
            holder=holder_of(body.get("holder")),
            waiting=tuple(map(str, body.get("waiting", ()))),
            released_us=int(body.get("released", 0)),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"the lease '{path}' cannot be read ({error}): {shorten(text)}; nothing was written",
            storage_kind=StorageKind.PERMANENT,
            hint="make sure that no writer runs, then remove the file",
        ) from error


def _is_same(found: Lease, ours: Lease) -> bool:
    return (found.owner, found.token) == (ours.owner, ours.token)


def _lease_path(key: str) -> str:
    return f"{LOCKS}/{lock_name(key)}.json"


def _holder_by_name(lease: Lease) -> Holder:
    """Describe the holder by the owner's name: earlier releases recorded no more."""
    host, _, rest = (lease.owner or "").partition(":")
    process = rest.partition(":")[0]
    return Holder(process=int(process) if process.isdigit() else 0, host=host, since_us=0)


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
        """Whether no rival can have taken it yet, by both clocks; a suspended machine stops only one."""
        wall = self._runtime.now_us() < self._lease.expires_us - int(self._margin * _US)
        return not self.over and wall and self._runtime.monotonic() < self._safe_until

    def landed(self, lease: Lease, version: str | None, started: float, seconds: float) -> None:
        """Note the stored lease; `started` is when the write of it began."""
        self._lease, self.version = lease, version
        self._safe_until = started + seconds - self._margin


class LeaseLocks:
    """Leases under `__locks/`, created by put-if-absent, renewed and taken over by put-if-match.

    Whoever finds a lease held writes its name into it, so that a busy process does not take it again before others had
    their turn; the order is a courtesy, and only the conditions of the store decide who holds the lock. A release writes the lease without an owner instead of removing it: its token must keep growing.
    """

    def __init__(
        self,
        objects: Objects,
        runtime: Runtime = SYSTEM,
        *,
        lease_seconds: float = LEASE_SECONDS,
        renew_seconds: float = LEASE_RENEW_SECONDS,
    ) -> None:
        self._objects = objects
        self._runtime = runtime
        self._seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._margin = lease_seconds / LEASE_MARGIN_PART
        self._changed = threading.Condition()
        self._held: set[LeaseLock] = set()
        self._released: Recent[str, tuple[Lease, str]] = Recent(LEASES_KNOWN_MAX)
        self._renewer: threading.Thread | None = None

    # ---- acquiring

    def acquire(self, key: str, *, wait: float, activity: Activity = UNNAMED) -> LeaseLock | None:
        """Acquire the lock of a key; that of a dead holder is free when its lease has expired."""
        path = _lease_path(key)
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
        """Read who holds the lease of a key; None when a rival may take it."""
        path = _lease_path(key)
        seen = self._objects.read_versioned(path)
        lease = None if seen is None else lease_of(seen.text, path)
        if lease is None or self._is_free(lease):
            return None
        return lease.holder or _holder_by_name(lease)

    def _is_free(self, lease: Lease) -> bool:
        return lease.is_free(self._runtime.now_us(), int(self._margin * _US))

    def _try(
        self, key: str, path: str, activity: Activity, waiter: str, *, is_queued: bool
    ) -> LeaseLock | None:
        """Take the lock if it is free and the waiter's turn; a waiter that is queued stands in line else."""
        seen = self._objects.read_versioned(path)
        if seen is None:
            return self._try_take(key, path, activity, waiter, None, None)
        current = lease_of(seen.text, path)
        may_take = not is_queued or current.may_take(waiter, self._runtime.now_us())
        if self._is_free(current) and may_take:
            return self._try_take(key, path, activity, waiter, current, seen.token)
        has_room = len(current.waiting) < LEASE_WAITERS_MAX
        if is_queued and has_room and waiter not in current.waiting:
            queued = replace(current, waiting=(*current.waiting, waiter))
            self._try_queue(path, queued, seen.token)
        return None

    def _try_queue(self, path: str, queued: Lease, version: str) -> None:
        # Another wrote the lease meanwhile, or the store fails: the next look tells.
        with suppress(StorageError):
            self._objects.put_if_match(path, queued.to_json(), version)

    def _leave_queue(self, path: str, waiter: str, *, was_queued: bool) -> None:
        """Take the name of a waiter that gives up out of the lease; if that fails, others wait a moment longer."""
        if not was_queued:
            return
        with suppress(StorageError):
            seen = self._objects.read_versioned(path)
            current = None if seen is None else lease_of(seen.text, path)
            if seen is not None and current is not None and waiter in current.waiting:
                left = tuple(one for one in current.waiting if one != waiter)
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
            found = self._find(path, lease)
            if found is None:
                raise
            return True, found
        # The client repeats a request whose answer was lost, and then conflicts with its own write.
        found = self._find(path, lease)
        return found is not None, found

    def _find(self, path: str, lease: Lease) -> str | None:
        """Find the stored version of our lease; None when the store has another's."""
        seen = self._objects.read_versioned(path)
        if seen is None:
            return None
        return seen.token if _is_same(lease_of(seen.text, path), lease) else None

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
                held = tuple(self._held)
            renewed = [self._try_renew(lock) for lock in held]
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
        """Replace our lease by its next state, which keeps those who stand in line; None when another process took it over."""
        if lock.version is not None:
            version = self._objects.put_if_match(lock.path, lease.to_json(), lock.version)
            if version is not None:
                return lease, version
        # Another process took it over or stands in line, or an earlier answer was lost and the noted version is old.
        for _ in range(OBJECT_ROUNDS_MAX):
            seen = self._objects.read_versioned(lock.path)
            current = None if seen is None else lease_of(seen.text, lock.path)
            if seen is None or current is None or not _is_same(current, lock.lease):
                return None
            kept = replace(lease, waiting=current.waiting)
            version = self._objects.put_if_match(lock.path, kept.to_json(), seen.token)
            if version is not None:
                return kept, version
        raise StorageError(
            f"the lease '{lock.path}' was written by those who wait {OBJECT_ROUNDS_MAX} times in a row",
            storage_kind=StorageKind.TRANSIENT,
        )

    # ---- releasing

    def release_all(self, locks: Sequence[object]) -> None:
        """Release locks, all at once: nobody waits for one answer before the next."""
        if len(locks) < 2:
            for lock in locks:
                self.release(lock)
            return
        with ThreadPoolExecutor(min(len(locks), LEASE_PUTS_MAX), "omnigraph-release") as pool:
            list(pool.map(carry_context(self.release), locks))

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
            free = replace(
                lock.lease,
                owner=None,
                expires_us=0,
                holder=None,
                released_us=self._runtime.now_us(),
            )
            try:
                rewritten = self._rewrite(lock, free)
            except StorageError:
                return
            # Whoever stands in line comes first: only then may this process not take the lock again as it left it.
            if rewritten is not None and not rewritten[0].waiting:
                self._released.put(lock.path, rewritten)
