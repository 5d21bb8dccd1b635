"""A bounded cache of the values used last; safe between threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """Caches a number of values; the one unused for longest is removed first."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._lock = threading.Lock()
        self._cached: OrderedDict[_K, _V] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """Give a cached value and count it as used."""
        with self._lock:
            value = self._cached.get(key)
            if value is not None:
                self._cached.move_to_end(key)
            return value

    def pop(self, key: _K) -> _V | None:
        """Remove a cached value and give it."""
        with self._lock:
            return self._cached.pop(key, None)

    def put(self, key: _K, value: _V) -> _V:
        """Cache a value."""
        with self._lock:
            self._cached[key] = value
            self._cached.move_to_end(key)
            while len(self._cached) > self._size_max:
                self._cached.popitem(last=False)
            return value

    def newest(self, fits: Callable[[_K], bool]) -> _V | None:
        """Return the last used value among the entries whose key fits."""
        with self._lock:
            return next((self._cached[key] for key in reversed(self._cached) if fits(key)), None)

    def drop(self, fits: Callable[[_K], bool]) -> None:
        """Remove every value whose key fits."""
        with self._lock:
            for key in [key for key in self._cached if fits(key)]:
                del self._cached[key]

    def __len__(self) -> int:
        return len(self._cached)
