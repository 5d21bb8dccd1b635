"""A cache bounded by bytes: what is known of table versions, dropped oldest first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class ByteCache:
    """Values by key, each with its size; safe to share between threads. A value is loaded once at a time."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._bytes = 0

    @property
    def bytes_held(self) -> int:
        """The size of everything in it."""
        return self._bytes

    def peek(self, key: Hashable) -> Any | None:
        """Give what is there, if anything."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def get(self, key: Hashable, load: Callable[[], T], size: Callable[[T], int]) -> T:
        """Give what is there, or load it; two threads that want the same wait for one load."""
        found: T | None = self.peek(key)
        if found is not None:
            return found
        with self._lock:
            turn = self._loading.setdefault(key, threading.Lock())
        with turn:
            found = self.peek(key)
            if found is None:
                found = load()
                self._keep(key, found, size(found))
        with self._lock:
            self._loading.pop(key, None)
        return found

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        with self._lock:
            if size > self.bytes_max:
                return
            self._values[key] = (value, size)
            self._bytes += size
            while self._bytes > self.bytes_max:
                _, (_, gone) = self._values.popitem(last=False)
                self._bytes -= gone

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._values.clear()
            self._bytes = 0
