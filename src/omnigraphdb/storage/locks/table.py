"""Locks between writers of one key: kernel locks on a disk, leases on an object store, plain locks in memory."""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol
from weakref import WeakSet

from omnigraphdb.errors import StorageError
from omnigraphdb.limits import (
    HOLDER_BYTES_MAX,
    LEASE_RENEW_SECONDS,
    LEASE_SECONDS,
    OBJECT_ROUNDS_MAX,
)
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.kernel_locks import is_locked, leads_to, queue_for_lock, try_lock, unlock
from omnigraphdb.storage.layout import LOCKS, Root, lock_name
from omnigraphdb.storage.locks.holders import (
    UNNAMED,
    Activity,
    Holder,
    decode_holder,
    encode_holder,
)
from omnigraphdb.storage.locks.lease import LeaseLocks
from omnigraphdb.storage.objects.faults import StorageKind, StoreAction, translate_object_faults
from omnigraphdb.storage.objects.protocol import Objects


class TableLock(Protocol):
    """A held lock."""

    @property
    def exclusive(self) -> bool:
        """Whether no other process can hold it, independent of any clock: only then may the commit fence be used."""
        ...

    @property
    def token(self) -> str | None:
        """The fencing token of a lease, greater than every one before it; None for other locks."""
        ...

    @property
    def unbroken(self) -> bool:
        """Whether no other process held this lock since this process last released it."""
        ...

    def is_valid(self) -> bool:
        """Whether the lock is still held, as far as this process can tell without a request."""
        ...


class Locks(Protocol):
    """Locks by key, between threads, handles and processes alike; no lock may be acquired twice."""

    def acquire(self, key: str, *, wait: float, activity: Activity = UNNAMED) -> TableLock | None:
        """Acquire the lock of a key, waiting that many seconds (0: try once); None when the wait timed out.

        Others that wait for the lock see the activity.
        """
        ...

    def holder(self, key: str) -> Holder | None:
        """Read the holder of the lock of a key, without acquiring it; None when it is free."""
        ...

    def release(self, lock: TableLock) -> None:
        """Release a lock; a second release does nothing."""
        ...

    def release_all(self, locks: Sequence[TableLock]) -> None:
        """Release locks; at once where each takes a request."""
        ...


RequireLocks = Callable[[], None]
"""Raises when a lock of its caller was lost: the next request removes, restores or withdraws something."""


def hold_nothing() -> None:
    """Require no lock, where nobody else can be at work."""


def open_locks(
    root: Root, objects: Objects, runtime: Runtime = SYSTEM, *, read_only: bool = False
) -> Locks:
    """Choose the kind of locks for a root."""
    if root.is_local:
        return FileLocks(root, runtime)
    if root.is_memory:
        return ProcessLocks(root, runtime)
    return LeaseLocks(
        objects,
        runtime,
        lease_seconds=LEASE_SECONDS,
        renew_seconds=LEASE_RENEW_SECONDS,
        read_only=read_only,
    )


# ---- on a disk


class FileLock:
    """A kernel lock on one file of `__locks`; dies with its process."""

    __slots__ = ("__weakref__", "_descriptor", "_file", "key")

    def __init__(self, key: str, file: str, descriptor: int) -> None:
        self.key = key
        self._file = file
        self._descriptor: int | None = descriptor
        _held.add(self)

    @property
    def exclusive(self) -> bool:
        """The kernel gives the lock to one holder only."""
        return True

    @property
    def token(self) -> None:
        """A kernel lock needs no fencing."""
        return None

    @property
    def unbroken(self) -> bool:
        """A kernel lock does not record earlier holders."""
        return False

    def is_valid(self) -> bool:
        """Whether it was not released, and its file was not removed."""
        return self._descriptor is not None and leads_to(self._file, self._descriptor)

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            unlock(descriptor)

    def _forget(self) -> None:
        # Closed without unlocking: the lock belongs to the parent process and must end with it.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_held: Final[WeakSet[FileLock]] = WeakSet()


def _forget_inherited() -> None:
    for lock in tuple(_held):
        lock._forget()


# A forked child shares the open files of its parent and would keep the locks of a killed parent.
os.register_at_fork(after_in_child=_forget_inherited)


class FileLocks:
    """Kernel locks under `__locks/`: files are created on first use and never removed."""

    def __init__(self, root: Root, runtime: Runtime = SYSTEM) -> None:
        self._root = root
        self._runtime = runtime

    def acquire(self, key: str, *, wait: float, activity: Activity = UNNAMED) -> FileLock | None:
        """Acquire the lock of a key; every holder opens the file anew, so that threads exclude each other too."""
        path = _lock_path(key)
        file = self._root.at(path)
        with translate_object_faults(StoreAction.LOCK, self._root, path):
            descriptor = try_lock(file)
            if descriptor is None and wait > 0:
                descriptor = self._queue(file, wait)
        if descriptor is None:
            return None
        _note_holder(descriptor, Holder.of_this_process(activity, self._runtime.now_us()))
        return FileLock(key, file, descriptor)

    def release(self, lock: object) -> None:
        """Release a lock."""
        if isinstance(lock, FileLock):
            lock._release()

    def release_all(self, locks: Sequence[object]) -> None:
        """Release locks one after another: none takes a request."""
        for lock in locks:
            self.release(lock)

    def holder(self, key: str) -> Holder | None:
        """Read the holder of the lock of a key; a holder that wrote no name is `UNKNOWN_HOLDER`."""
        path = _lock_path(key)
        file = self._root.at(path)
        with translate_object_faults(StoreAction.LOCK, self._root, path):
            if not is_locked(file):
                return None
            return _read_holder(file) or UNKNOWN_HOLDER

    def _queue(self, file: str, wait: float) -> int | None:
        """Wait in the kernel's queue, again when the lock file was replaced meanwhile."""
        deadline = self._runtime.monotonic() + wait
        for _ in range(OBJECT_ROUNDS_MAX):
            left = max(0.0, deadline - self._runtime.monotonic())
            ended, descriptor = queue_for_lock(file).take(left)
            if descriptor is not None or not ended:
                return descriptor
        raise StorageError(
            f"the lock file '{file}' was removed {OBJECT_ROUNDS_MAX} times while waiting for it; "
            "nothing was written",
            storage_kind=StorageKind.TRANSIENT,
            hint="nothing but the graph may change the directory __locks",
        )


UNKNOWN_HOLDER: Final = Holder(process=0, host="", since_us=0)
"""The holder of a lock whose file names none: an earlier release, or a process that has just acquired it."""


def _lock_path(key: str) -> str:
    return f"{LOCKS}/{lock_name(key)}.lock"


def _note_holder(descriptor: int, holder: Holder) -> None:
    # A full disk must not prevent a lock: the name of its holder is only shown to others.
    with suppress(OSError):
        os.pwrite(descriptor, encode_holder(holder), 0)


def _read_holder(file: str) -> Holder | None:
    with open(file, "rb") as opened:
        return decode_holder(opened.read(HOLDER_BYTES_MAX))


# ---- in memory


class ProcessLock:
    """A lock inside this process, the only process that can see a memory store."""

    __slots__ = ("_free", "_lock", "key")

    def __init__(self, key: str, lock: threading.Lock) -> None:
        self.key = key
        self._lock = lock
        self._free = threading.Lock()

    @property
    def exclusive(self) -> bool:
        """No other process can reach the store."""
        return True

    @property
    def token(self) -> None:
        """A lock in memory needs no fencing."""
        return None

    @property
    def unbroken(self) -> bool:
        """No one needs it: a read from memory costs nothing."""
        return False

    def is_valid(self) -> bool:
        """Whether it was not released yet."""
        return not self._free.locked()

    def _release(self) -> None:
        if self._free.acquire(blocking=False):
            self._lock.release()


_process_guard: Final = threading.Lock()
_process_locks: Final[dict[tuple[str, str], threading.Lock]] = {}
_process_holders: Final[dict[tuple[str, str], Holder]] = {}


class ProcessLocks:
    """Locks of a memory store: all its handles in this process share them."""

    def __init__(self, root: Root, runtime: Runtime = SYSTEM) -> None:
        self._root = root
        self._runtime = runtime

    def acquire(self, key: str, *, wait: float, activity: Activity = UNNAMED) -> ProcessLock | None:
        """Acquire the lock of a key."""
        name = (self._root.uri, key)
        with _process_guard:
            lock = _process_locks.setdefault(name, threading.Lock())
        if not lock.acquire(timeout=wait):
            return None
        _process_holders[name] = Holder.of_this_process(activity, self._runtime.now_us())
        return ProcessLock(key, lock)

    def release(self, lock: object) -> None:
        """Release a lock."""
        if isinstance(lock, ProcessLock):
            lock._release()

    def release_all(self, locks: Sequence[object]) -> None:
        """Release locks one after another."""
        for lock in locks:
            self.release(lock)

    def holder(self, key: str) -> Holder | None:
        """Give the holder of the lock of a key."""
        name = (self._root.uri, key)
        lock = _process_locks.get(name)
        return _process_holders.get(name) if lock is not None and lock.locked() else None
