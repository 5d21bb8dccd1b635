"""Objects that fail on request: the store as recovery may meet it, one scripted fault at a time."""

import errno
import fnmatch
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.layout import Root
from omnigraphdb.storage.objects.faults import StoreAction, storage_error
from omnigraphdb.storage.objects.protocol import Objects, Stamp, Versioned

_R = TypeVar("_R")


class Failure(StrEnum):
    """How an operation fails."""

    ERROR = "error"
    FULL = "full"
    DENIED = "denied"
    LOST = "lost"
    """It takes effect, and the answer never comes."""


_CAUSES = {
    Failure.ERROR: (errno.EIO, "Input/output error"),
    Failure.FULL: (errno.ENOSPC, "No space left on device"),
    Failure.DENIED: (errno.EACCES, "Permission denied"),
    Failure.LOST: (errno.ETIMEDOUT, "Connection timed out"),
}


@dataclass
class Fault:
    """One line of the script: which operation on which paths fails how, after how many, how often."""

    operation: str
    pattern: str
    failure: Failure
    skip: int = 0
    times: int | None = 1
    seen: int = 0

    def is_due(self, operation: str, paths: tuple[str, ...]) -> bool:
        """Count an arrival that fits, and return whether it fails."""
        fits = fnmatch.fnmatchcase(operation, self.operation)
        if not fits or not any(fnmatch.fnmatchcase(path, self.pattern) for path in paths):
            return False
        self.seen += 1
        number = self.seen - self.skip
        return number > 0 and (self.times is None or number <= self.times)


class FaultObjects:
    """Another `Objects`, and a script of what goes wrong with it; without a script, just the other one."""

    def __init__(self, inner: Objects, root: Root) -> None:
        self._inner = inner
        self._root = root
        self._script: list[Fault] = []
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []

    def fail(
        self,
        operation: str,
        pattern: str = "*",
        failure: Failure = Failure.ERROR,
        *,
        skip: int = 0,
        times: int | None = 1,
    ) -> Fault:
        """Make an operation fail on paths that match; `times=None`: until the script is cleared."""
        fault = Fault(operation, pattern, failure, skip, times)
        with self._lock:
            self._script.append(fault)
        return fault

    def clear(self) -> None:
        """Forget the script."""
        with self._lock:
            self._script.clear()

    def read(self, path: str) -> str | None:
        return self._run("read", StoreAction.READ, lambda: self._inner.read(path), path)

    def read_all(self, paths: Sequence[str]) -> list[str | None]:
        return [self.read(path) for path in paths]

    def read_versioned(self, path: str) -> Versioned | None:
        return self._run(
            "read_versioned", StoreAction.READ, lambda: self._inner.read_versioned(path), path
        )

    def read_bytes(self, path: str) -> bytes | None:
        return self._run("read_bytes", StoreAction.READ, lambda: self._inner.read_bytes(path), path)

    def map_bytes(self, path: str) -> memoryview | None:
        return self._run("map_bytes", StoreAction.READ, lambda: self._inner.map_bytes(path), path)

    def put(self, path: str, text: str) -> str:
        return self._run("put", StoreAction.WRITE, lambda: self._inner.put(path, text), path)

    def put_bytes(self, path: str, data: bytes) -> None:
        self._run("put_bytes", StoreAction.WRITE, lambda: self._inner.put_bytes(path, data), path)

    def put_if_absent(self, path: str, text: str | bytes) -> str | None:
        return self._run(
            "put_if_absent", StoreAction.CREATE, lambda: self._inner.put_if_absent(path, text), path
        )

    def put_if_match(self, path: str, text: str, token: str) -> str | None:
        return self._run(
            "put_if_match",
            StoreAction.REPLACE,
            lambda: self._inner.put_if_match(path, text, token),
            path,
        )

    def exists(self, path: str) -> bool:
        return self._run("exists", StoreAction.LOOK, lambda: self._inner.exists(path), path)

    def rename(self, source: str, target: str) -> None:
        self._run(
            "rename", StoreAction.RENAME, lambda: self._inner.rename(source, target), source, target
        )

    def copy(self, source: str, target: str) -> None:
        self._run(
            "copy", StoreAction.WRITE, lambda: self._inner.copy(source, target), source, target
        )

    def delete(self, path: str) -> None:
        self._run("delete", StoreAction.DELETE, lambda: self._inner.delete(path), path)

    def list(self, prefix: str) -> tuple[str, ...]:
        return self._run("list", StoreAction.LIST, lambda: self._inner.list(prefix), prefix)

    def times(self, prefix: str) -> Mapping[str, int]:
        return self._run("times", StoreAction.LIST, lambda: self._inner.times(prefix), prefix)

    def stamps(self, paths: Sequence[str]) -> Mapping[str, Stamp]:
        return self._run("stamps", StoreAction.LIST, lambda: self._inner.stamps(paths), *paths)

    def have_stamps(self, paths: Sequence[str], stamps: Mapping[str, Stamp]) -> bool:
        return self._run(
            "have_stamps", StoreAction.LIST, lambda: self._inner.have_stamps(paths, stamps), *paths
        )

    def delete_prefix(self, prefix: str) -> None:
        self._run(
            "delete_prefix", StoreAction.DELETE, lambda: self._inner.delete_prefix(prefix), prefix
        )

    def _run(self, name: str, action: StoreAction, act: Callable[[], _R], *paths: str) -> _R:
        with self._lock:
            self.calls.append((name, paths[0]))
            due = next((fault for fault in self._script if fault.is_due(name, paths)), None)
        if due is None:
            return act()
        if due.failure is Failure.LOST:
            act()
        raise self._error(due.failure, action, paths[0])

    def _error(self, failure: Failure, action: StoreAction, path: str) -> StorageError:
        number, words = _CAUSES[failure]
        return storage_error(OSError(number, words), action, self._root, path)
