"""One kernel lock on one file: taken for as long as it is open, given back by the kernel on death."""

import fcntl
import os
from contextlib import suppress


def open_lock_file(file: str) -> int:
    """Open a lock file, making it and its directory when they are not there yet."""
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def try_lock(file: str) -> int | None:
    """Take the lock if it is free; the descriptor is the lock."""
    descriptor = open_lock_file(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return _current(descriptor, file)


def wait_for_lock(file: str) -> int | None:
    """Wait in the kernel's queue; None when the file was replaced meanwhile, so that the turn is no turn."""
    descriptor = open_lock_file(file)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return _current(descriptor, file)


def leads_to(file: str, descriptor: int) -> bool:
    """Whether the name still leads to the open file: a removed lock file excludes nobody."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(file))
    except FileNotFoundError:
        return False


def unlock(descriptor: int) -> None:
    """Give the lock back, also when a forked process has inherited the open file."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _current(descriptor: int, file: str) -> int | None:
    if leads_to(file, descriptor):
        return descriptor
    unlock(descriptor)
    return None
