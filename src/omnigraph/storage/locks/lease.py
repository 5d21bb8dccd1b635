"""Locks on an object store: a JSON lease that its holder renews and that a rival may take over once it is stale."""

import json
import os
import socket
import threading
from dataclasses import replace
from typing import Final

from omnigraph.errors import StorageError, shorten
from omnigraph.limits import (
    LEASE_MARGIN_PART,
    LEASE_POLL_SECONDS,
    LEASE_RENEW_SECONDS,
    LEASE_SECONDS,
    LEASES_KNOWN_MAX,
)
from omnigraph.runtime import SYSTEM, Runtime
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

    def to_json(self) -> str:
        """The stored form."""
        body = {"owner": self.owner, "token": self.token, "expires": self.expires_us}
        held = {} if self.holder is None else {"holder": self.holder.to_json()}
        return json.dumps(body | held)

    def is_free(self, now_us: int, margin_us: int) -> bool:
        """Whether a rival may take it: it was released, or it expired by more than clocks may differ."""
        return self.owner is None or now_us > self.expires_us + margin_us


def lease_of(text: str, path: str) -> Lease:
    """Read the stored form."""
    try:
        body = json.loads(text)
        return Lease(
            owner=body["owner"],
            token=int(body["token"]),
            expires_us=int(body["expires"]),
            holder=holder_of(body.get("holder")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"the lease '{path}' cannot be read ({error}): {shorten(text)}; nothing was written",
            storage_kind=StorageKind.PERMANENT,
            hint="make sure that no writer runs, then remove the file",
        ) from error


def _lease_path(key: str) -> str:
    return f"{LOCKS}/{lock_name(key)}.json"


def _holder_by_name(lease: Lease) -> Holder:
    """Describe the holder by the owner's name: earlier releases recorded no more."""
    host, _, rest = (lease.owner or "").partition(":")
    process = rest.partition(":")[0]
    return Holder(process=int(process) if process.isdigit() else 0, host=host, since_us=0)


class LeaseLock:
    """A held lease; its holder must check `still_held` before every effect."""

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

    def still_held(self) -> bool:
        """Whether no rival can have taken it yet, by both clocks; a suspended machine stops only one."""
        wall = self._runtime.now_us() < self._lease.expires_us - int(self._margin * _US)
        return not self.over and wall and self._runtime.monotonic() < self._safe_until

    def landed(self, lease: Lease, version: str | None, started: float, seconds: float) -> None:
        """Note the stored lease; `started` is when the write of it began."""
        self._lease, self.version = lease, version
        self._safe_until = started + seconds - self._margin


class LeaseLocks:
    """Leases under `__locks/`, created by put-if-absent, renewed and taken over by put-if-match.

    A release writes the lease without an owner instead of removing it: its token must keep growing.
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
        pause = LEASE_POLL_SECONDS / 16
        lock = self._try_reacquire(key, path, activity) or self._try(key, path, activity)
        while lock is None:
            left = deadline - self._runtime.monotonic()
            if left <= 0:
                return None
            self._runtime.wait(min(left, pause / 2 + self._runtime.jitter(pause)))
            pause = min(pause * 2, LEASE_POLL_SECONDS)
            lock = self._try(key, path, activity)
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

    def _try(self, key: str, path: str, activity: Activity) -> LeaseLock | None:
        seen = self._objects.read_versioned(path)
        current = lease_of(seen.text, path) if seen is not None else None
        if current is not None and not self._is_free(current):
            return None
        return self._try_take(key, path, activity, current, None if seen is None else seen.token)

    def _try_reacquire(self, key: str, path: str, activity: Activity) -> LeaseLock | None:
        """Acquire a lock that this process released last; fails when another process acquired it since."""
        released = self._released.pop(path)
        lock = None if released is None else self._try_take(key, path, activity, *released)
        if lock is not None:
            lock.unbroken = True
        return lock

    def _try_take(
        self, key: str, path: str, activity: Activity, current: Lease | None, seen: str | None
    ) -> LeaseLock | None:
        started = self._runtime.monotonic()
        lease = Lease(
            owner=f"{socket.gethostname()}:{os.getpid()}:{self._runtime.new_id()}",
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
        found = lease_of(seen.text, path)
        return seen.token if (found.owner, found.token) == (lease.owner, lease.token) else None

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
                version = self._rewrite(lock, lease)
            except StorageError:
                # The lease may expire: `still_held` becomes false by itself while the store does not answer.
                return False
            if version is None:
                lock.over = True
            else:
                lock.landed(lease, version, started, self._seconds)
            return True

    def _rewrite(self, lock: LeaseLock, lease: Lease) -> str | None:
        """Replace our lease by its next state; None when another process took it over."""
        if lock.version is not None:
            version = self._objects.put_if_match(lock.path, lease.to_json(), lock.version)
            if version is not None:
                return version
        # Either another process took it over, or an earlier answer was lost and the noted version is old.
        found = self._find(lock.path, lock.lease)
        if found is None:
            return None
        return self._objects.put_if_match(lock.path, lease.to_json(), found)

    # ---- releasing

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
            free = replace(lock.lease, owner=None, expires_us=0, holder=None)
            try:
                version = self._rewrite(lock, free)
            except StorageError:
                return
            if version is not None:
                self._released.put(lock.path, (free, version))
