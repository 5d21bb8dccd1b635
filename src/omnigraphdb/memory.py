"""Memory of reads: the bytes of intermediate results that one read holds, and all reads of a server together.

The operators of a query count the columns that they gather, where they gather them. A column stops counting when it is
freed, or when the read has ended: a column of a cache outlives the reads that hold it. Small columns are not counted, so
that a lookup pays nothing.
"""

import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from omnigraphdb.errors import ResourceLimit, ServerBusy
from omnigraphdb.values import dataclass

COUNTED_BYTES_MIN: Final = 64 * 1024
"""A smaller column is not counted."""


@dataclass(slots=True)
class MemoryPool:
    """The bytes that all reads of a server may hold together."""

    bytes_max: int
    setting: str
    """The option that changes the bound."""
    used: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Guards the pool and the bounds that count in it: a column of any read may be freed while this thread counts."""

    def take(self, size: int) -> None:
        """Count bytes; refuse bytes that would pass the bound."""
        with self.lock:
            if self.used + size > self.bytes_max:
                raise ServerBusy("memory_bytes", self.bytes_max, self.used + size, self.setting)
            self.used += size

    def give_back(self, size: int) -> None:
        """Stop counting bytes."""
        with self.lock:
            self.used -= size


class MemoryBound:
    """Bounds the bytes that the reads of its blocks hold at a time, and counts them in a pool."""

    def __init__(self, bytes_max: int, setting: str, pool: MemoryPool) -> None:
        self._bytes_max, self._setting, self._pool = bytes_max, setting, pool
        self._lock = pool.lock
        self._columns: dict[int, tuple[int, weakref.ref[Any]]] = {}
        """The size of each counted column, and the weak reference that notices its release, by its identity."""
        self._is_over = False
        self.used = 0

    def take(self, size: int) -> None:
        """Count bytes of the read; refuse bytes that would pass its bound or the bound of the pool."""
        with self._lock:
            if self._is_over:
                return
            if self.used + size > self._bytes_max:
                raise ResourceLimit(
                    "query_memory_bytes",
                    self._bytes_max,
                    self.used + size,
                    hint=f"make the pattern more selective, add a limit, or raise {self._setting}",
                )
            self._pool.take(size)
            self.used += size

    def give_back(self, size: int) -> None:
        """Stop counting bytes of the read."""
        with self._lock:
            if self._is_over:
                return
            self.used -= size
            self._pool.give_back(size)

    def count(self, column: Any) -> None:
        """Count a column once until it is freed; a view of a counted column is part of it."""
        size = column.nbytes
        if size < COUNTED_BYTES_MIN:
            return
        key, base = id(column), getattr(column, "base", None)
        with self._lock:
            if key in self._columns or id(base) in self._columns:
                return
            self.take(size)
            freed = partial(_stop_counting, weakref.ref(self), key)
            self._columns[key] = size, weakref.ref(column, freed)

    def stop_counting(self, key: int) -> None:
        """Stop counting a column that is freed."""
        with self._lock:
            counted = self._columns.pop(key, None)
            if counted is not None:
                self.give_back(counted[0])

    def end(self) -> None:
        """Stop counting everything: the read is over, and counts nothing more."""
        with self._lock:
            self.give_back(self.used)
            self._is_over = True
            self._columns.clear()

    def __del__(self) -> None:
        self.end()

    def __enter__(self) -> Self:
        _bound.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _bound.set(None)


_bound: ContextVar[MemoryBound | None] = ContextVar("omnigraph_memory", default=None)


def count_columns(columns: Iterable[Any]) -> None:
    """Count columns against the bound of this read until each is freed; free where there is no bound."""
    bound = _bound.get()
    if bound is None:
        return
    for column in columns:
        bound.count(column)


def _stop_counting(reference: "weakref.ref[MemoryBound]", key: int, _: "weakref.ref[Any]") -> None:
    bound = reference()
    if bound is not None:
        bound.stop_counting(key)


class HeldBytes:
    """Bytes that something of a read holds, which count until they are released or this object is freed."""

    def __init__(self) -> None:
        self._bound = _bound.get()
        self._size = 0

    def take(self, size: int) -> None:
        """Count more bytes; refuse bytes that would pass the bound."""
        if self._bound is not None:
            self._bound.take(size)
            self._size += size

    def give_back(self, size: int) -> None:
        """Stop counting some of the bytes."""
        if self._bound is not None:
            self._bound.give_back(size)
            self._size -= size

    def __del__(self) -> None:
        self.give_back(self._size)


def counted_bytes(size: int) -> AbstractContextManager[None]:
    """Count the temporary columns of a block, before they are made."""
    bound = _bound.get()
    return _UNCOUNTED if bound is None or size < COUNTED_BYTES_MIN else _count(bound, size)


_UNCOUNTED: Final = nullcontext()


@contextmanager
def _count(bound: MemoryBound, size: int) -> Iterator[None]:
    bound.take(size)
    try:
        yield
    finally:
        bound.give_back(size)
