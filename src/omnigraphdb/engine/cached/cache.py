"""The cache of a handle: values of table versions, bounded by bytes, the oldest dropped first; and fragment counts."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from omnigraphdb.limits import CACHE_NAMES_MAX, SMALL_FRAGMENTS_MAX

T = TypeVar("T")


class ByteCache:
    """Values by key, each with its size; safe to share between threads. One thread loads a value, others wait.

    Values of one family succeed one another: the next value may be made from the last one.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._bytes = 0
        self._latest: OrderedDict[Hashable, Hashable] = OrderedDict()
        self._interned: OrderedDict[Hashable, Any] = OrderedDict()
        self._spent: dict[Hashable, float] = {}
        self._derived: dict[Hashable, Any] = {}
        self._drops = 0

    @property
    def bytes_cached(self) -> int:
        """The size of all cached values."""
        return self._bytes

    def peek(self, key: Hashable) -> Any | None:
        """Return the cached value, if there is one."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def get(
        self,
        key: Hashable,
        load: Callable[[], T],
        size: Callable[[T], int],
        family: Hashable | None = None,
    ) -> T:
        """Return the cached value, or load it; threads that want the same value wait for one load."""
        value: T | None = self.peek(key)
        if value is not None:
            return value
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        try:
            with loading:
                value = self.peek(key)
                if value is None:
                    value = load()
                    self._keep(key, value, size(value), family)
        finally:
            with self._lock:
                self._loading.pop(key, None)
        return value

    def keep(self, key: Hashable, value: T, size: int) -> T:
        """Cache a value that the caller has made."""
        self._keep(key, value, size, None)
        return value

    def derived(self, key: Hashable) -> Any | None:
        """Return a value that was derived, if nothing was dropped since."""
        return self._derived.get(key)

    def derive(self, key: Hashable, make: Callable[[], T | None]) -> T | None:
        """Return a value that is derived from cached values.

        It has no size, and is dropped when any cached value may be dropped.
        """
        value: T | None = self._derived.get(key)
        if value is not None:
            return value
        drops = self._drops
        value = make()
        with self._lock:
            if value is not None and drops == self._drops:
                if len(self._derived) >= CACHE_NAMES_MAX:
                    self._derived.clear()
                self._derived[key] = value
        return value

    def latest(self, family: Hashable) -> Any | None:
        """Return the value of a family that was cached last, if it is still cached."""
        with self._lock:
            key = self._latest.get(family)
        return None if key is None else self.peek(key)

    def intern(self, name: Hashable, value: T) -> T:
        """Return the one value that stands for a name: the first value that was passed for it."""
        with self._lock:
            interned: T = self._interned.setdefault(name, value)
            self._interned.move_to_end(name)
            _shrink(self._interned)
            return interned

    def spend(self, key: Hashable, cost: float) -> float:
        """Add the cost of doing without a value, and return the cost before that."""
        with self._lock:
            if len(self._spent) > CACHE_NAMES_MAX:
                self._spent.clear()
            before = self._spent.get(key, 0.0)
            self._spent[key] = before + cost
            return before

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._values.clear()
            self._latest.clear()
            self._interned.clear()
            self._spent.clear()
            self._drop_derived()
            self._bytes = 0

    def _keep(self, key: Hashable, value: Any, size: int, family: Hashable | None) -> None:
        with self._lock:
            if size > self.bytes_max:
                return
            replaced = self._values.pop(key, (None, 0))
            if replaced[1] or self._bytes + size > self.bytes_max:
                self._drop_derived()
            self._values[key] = (value, size)
            self._bytes += size - replaced[1]
            if family is not None:
                self._latest[family] = key
                self._latest.move_to_end(family)
                _shrink(self._latest)
            while self._bytes > self.bytes_max:
                _, (_, dropped_size) = self._values.popitem(last=False)
                self._bytes -= dropped_size

    def _drop_derived(self) -> None:
        # A thread may be deriving a value from values that are dropped now; the count tells it not to cache the result.
        self._drops += 1
        self._derived.clear()


def _shrink(names: OrderedDict[Hashable, Any]) -> None:
    while len(names) > CACHE_NAMES_MAX:
        names.popitem(last=False)


# ---- fragments


class FragmentCounts:
    """The number of fragments of each table incarnation at its last maintenance; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Hashable, int] = {}

    def is_due(self, table: Hashable, fragments: int) -> bool:
        """Whether enough fragments were added since the last maintenance; without one, all fragments count."""
        with self._lock:
            return fragments - self._seen.get(table, 0) > SMALL_FRAGMENTS_MAX

    def note(self, table: Hashable, fragments: int) -> None:
        """Remember the number of fragments."""
        with self._lock:
            if len(self._seen) >= CACHE_NAMES_MAX:
                self._seen.clear()
            self._seen[table] = fragments
