"""A bounded cache of the values used last; safe between threads."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Recent(Generic[_K, _V]):
    """Keeps a number of values; the one unused for longest goes first."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._lock = threading.Lock()
        self._held: OrderedDict[_K, _V] = OrderedDict()

    def get(self, key: _K) -> _V | None:
        """Give a value, if it is held, and count it as used."""
        with self._lock:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def pop(self, key: _K) -> _V | None:
        """Give a value, if it is held, and let go of it."""
        with self._lock:
            return self._held.pop(key, None)

    def put(self, key: _K, value: _V) -> _V:
        """Hold a value."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._size_max:
                self._held.popitem(last=False)
            return value

    def newest(self, fits: Callable[[_K], bool]) -> _V | None:
        """Give the value used last among those whose key fits."""
        with self._lock:
            return next((self._held[key] for key in reversed(self._held) if fits(key)), None)

    def drop(self, fits: Callable[[_K], bool]) -> None:
        """Let go of every value whose key fits."""
        with self._lock:
            for key in [key for key in self._held if fits(key)]:
                del self._held[key]

    def __len__(self) -> int:
        return len(self._held)
