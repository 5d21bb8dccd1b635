"""Turns between writers of one key: kernel locks on a disk, leases on an object store, plain locks in memory."""

import os
import threading
from typing import Final, Protocol
from weakref import WeakSet

from omnigraph.errors import StorageError
from omnigraph.limits import LOCK_POLL_SECONDS, OBJECT_ROUNDS_MAX
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.storage.kernel_locks import leads_to, try_lock, unlock, wait_for_lock
from omnigraph.storage.layout import LOCKS, Root, lock_name
from omnigraph.storage.leases import LeaseLocks
from omnigraph.storage.object_faults import Doing, StorageKind, object_faults
from omnigraph.storage.objects import Objects


class TableLock(Protocol):
    """A turn that is held."""

    @property
    def exclusive(self) -> bool:
        """Whether nobody else can hold it whatever the clocks say: only then may the commit fence be used."""
        ...

    @property
    def token(self) -> str | None:
        """The fencing token of a lease, greater than every one before it; None for other locks."""
        ...

    @property
    def unbroken(self) -> bool:
        """Whether it is known that nobody had this turn since it was last given back here."""
        ...

    def still_held(self) -> bool:
        """Whether the turn is still ours, as far as can be told without asking anyone."""
        ...


class Locks(Protocol):
    """Turns by key, between threads, handles and processes alike; none may be taken twice."""

    def acquire(self, key: str, *, wait: float | None) -> TableLock | None:
        """Take the turn of a key, waiting that many seconds (0: try once, None: without end); None: not in time."""
        ...

    def release(self, lock: TableLock) -> None:
        """Give a turn back; giving it back twice is harmless."""
        ...


def open_locks(root: Root, objects: Objects, runtime: Runtime = SYSTEM) -> Locks:
    """Choose the kind of turns a root can give."""
    if root.is_local:
        return FileLocks(root, runtime)
    if root.is_memory:
        return ProcessLocks(root, runtime)
    return LeaseLocks(objects, runtime)


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
        """The kernel gives it to one holder only."""
        return True

    @property
    def token(self) -> None:
        """A kernel lock needs no fencing."""
        return None

    @property
    def unbroken(self) -> bool:
        """A kernel lock does not tell who had it before."""
        return False

    def still_held(self) -> bool:
        """Whether it was neither given back nor cut off from its name."""
        return self._descriptor is not None and leads_to(self._file, self._descriptor)

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            unlock(descriptor)

    def _forget(self) -> None:
        # Closed without unlocking: the lock belongs to the parent, and must end with the parent.
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_held: Final[WeakSet[FileLock]] = WeakSet()


def _forget_inherited() -> None:
    for lock in tuple(_held):
        lock._forget()


# A forked child shares its parent's open files and would keep the locks of a parent that was killed.
os.register_at_fork(after_in_child=_forget_inherited)


class FileLocks:
    """Kernel locks under `__locks/`: files are made on first use and never removed."""

    def __init__(self, root: Root, runtime: Runtime = SYSTEM) -> None:
        self._root = root
        self._runtime = runtime

    def acquire(self, key: str, *, wait: float | None) -> FileLock | None:
        """Take the turn of a key; every holder opens the file anew, so that threads exclude each other too."""
        path = f"{LOCKS}/{lock_name(key)}.lock"
        file = self._root.at(path)
        with object_faults(Doing.LOCK, self._root, path):
            descriptor = self._queue(file) if wait is None else self._poll(file, wait)
        return None if descriptor is None else FileLock(key, file, descriptor)

    def release(self, lock: object) -> None:
        """Give a turn back."""
        if isinstance(lock, FileLock):
            lock._let_go()

    def _queue(self, file: str) -> int:
        for _ in range(OBJECT_ROUNDS_MAX):
            descriptor = wait_for_lock(file)
            if descriptor is not None:
                return descriptor
        raise StorageError(
            f"the lock file '{file}' was removed {OBJECT_ROUNDS_MAX} times while waiting for it; "
            "nothing was written",
            storage_kind=StorageKind.TRANSIENT,
            hint="nothing but the graph may change the directory __locks",
        )

    def _poll(self, file: str, wait: float) -> int | None:
        deadline = self._runtime.monotonic() + wait
        descriptor = try_lock(file)
        while descriptor is None and (left := deadline - self._runtime.monotonic()) > 0:
            self._runtime.wait(min(left, self._runtime.jitter(LOCK_POLL_SECONDS)))
            descriptor = try_lock(file)
        return descriptor


# ---- in memory


class ProcessLock:
    """A turn inside this process, the only one that can see a memory store."""

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
        """Nobody asks: a look into memory costs nothing."""
        return False

    def still_held(self) -> bool:
        """Whether it was not given back yet."""
        return not self._free.locked()

    def _let_go(self) -> None:
        if self._free.acquire(blocking=False):
            self._lock.release()


_process_guard: Final = threading.Lock()
_process_locks: Final[dict[tuple[str, str], threading.Lock]] = {}


class ProcessLocks:
    """Turns of a memory store: shared by all its handles in this process, as the store is."""

    def __init__(self, root: Root, runtime: Runtime = SYSTEM) -> None:
        self._root = root
        self._runtime = runtime

    def acquire(self, key: str, *, wait: float | None) -> ProcessLock | None:
        """Take the turn of a key."""
        with _process_guard:
            lock = _process_locks.setdefault((self._root.uri, key), threading.Lock())
        taken = (
            lock.acquire(timeout=-1 if wait is None else wait) if wait != 0 else lock.acquire(False)
        )
        return ProcessLock(key, lock) if taken else None

    def release(self, lock: object) -> None:
        """Give a turn back."""
        if isinstance(lock, ProcessLock):
            lock._let_go()
