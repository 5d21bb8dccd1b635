"""One kernel lock on one file: held while the file is open, released by the kernel when the process dies."""

import fcntl
import os
import threading
from contextlib import suppress
from typing import Final


def open_lock_file(file: str) -> int:
    """Open a lock file; creates it and its directory when they do not exist."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def try_lock(file: str) -> int | None:
    """Acquire the lock if it is free; the descriptor is the lock."""
    descriptor = open_lock_file(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return _open_current(descriptor, file)


def is_locked(file: str) -> bool:
    """Tell whether a process holds the lock, without creating its file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _wait_without_end(file: str) -> int | None:
    """Wait in the kernel's queue; None when the file was replaced meanwhile, so that its lock excludes no one."""
    descriptor = open_lock_file(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return _open_current(descriptor, file)


def leads_to(file: str, descriptor: int) -> bool:
    """Whether the name still leads to the open file: a removed lock file excludes no one."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def unlock(descriptor: int) -> None:
    """Release the lock, also when a forked process has inherited the open file."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _open_current(descriptor: int, file: str) -> int | None:
    if leads_to(file, descriptor):
        return descriptor
    unlock(descriptor)
    return None


# ---- waiting in the kernel's queue, for a while


class QueuedLock:
    """A position in the kernel's queue, kept by a thread of its own, because a wait in that queue has no timeout.

    The queue is first come, first served; a waiter that polled would lose against a busy rival. A position whose
    waiter timed out stays for the next waiter of this process, so that at most one thread per file waits for no one.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._ended = threading.Event()
        self._is_left = False
        self._descriptor: int | None = None
        self._error: OSError | None = None
        threading.Thread(target=self._run, name="omnigraph-lock", daemon=True).start()

    def _run(self) -> None:
        try:
            descriptor, error = _wait_without_end(self._file), None
        except OSError as raised:
            descriptor, error = None, raised
        with _queue_guard:
            self._descriptor, self._error = descriptor, error
            self._ended.set()
            if self._is_left:
                self._give_up_file()

    def take(self, seconds: float) -> tuple[bool, int | None]:
        """Wait that long; says whether the wait ended, and gives the lock, None when its file was replaced."""
        try:
            self._ended.wait(seconds)
        except BaseException:
            with _queue_guard:
                self._leave()
            raise
        with _queue_guard:
            if not self._ended.is_set():
                self._leave()
                return False, None
        if self._error is not None:
            raise self._error
        return True, self._descriptor

    def join(self) -> None:
        """Take over the position of a waiter that timed out."""
        self._is_left = False

    def _leave(self) -> None:
        self._is_left = True
        _left[self._file] = self
        if self._ended.is_set():
            self._give_up_file()

    def _give_up_file(self) -> None:
        if _left.get(self._file) is self:
            del _left[self._file]
        if self._descriptor is not None:
            unlock(self._descriptor)


_queue_guard: Final = threading.Lock()
_left: Final[dict[str, QueuedLock]] = {}


def queue_for_lock(file: str) -> QueuedLock:
    """Take over the position of a waiter of this process that timed out, else queue anew."""
    with _queue_guard:
        left = _left.pop(file, None)
        if left is not None:
            left.join()
            return left
    return QueuedLock(file)


def _forget_queued() -> None:
    # The waiting threads belong to the parent process.
    _left.clear()
    _queue_guard.release()


os.register_at_fork(
    before=_queue_guard.acquire,
    after_in_parent=_queue_guard.release,
    after_in_child=_forget_queued,
)
