"""The time of an object store: it dates every object, independent of the clocks of its clients."""

from typing import NamedTuple

from omnigraphdb.errors import StorageError
from omnigraphdb.limits import STORE_TIME_SECONDS_MAX, STORE_TIME_STEP_SECONDS
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.layout import STORE_TIME
from omnigraphdb.storage.objects.faults import StorageKind
from omnigraphdb.storage.objects.protocol import Objects

_US = 1_000_000


class _Reading(NamedTuple):
    """A time of the store, and when this process had it by its own monotonic clock."""

    store_us: int
    at: float


class StoreClock:
    """Reads the time of a store off an object that was just put, and counts on from there for a while.

    It never runs ahead of the store, and less than two seconds and one request behind: an age by it is at least so much.
    """

    def __init__(self, objects: Objects, runtime: Runtime) -> None:
        self._objects = objects
        self._runtime = runtime
        self._last: _Reading | None = None

    def now_us(self) -> int:
        """Return the time of the store, in microseconds since the epoch; two requests now and then."""
        reading = self._last
        if reading is None or self._seconds_since(reading) > STORE_TIME_SECONDS_MAX:
            reading = self._last = self._read()
        return reading.store_us + int(self._seconds_since(reading) * _US)

    def seconds_since(self, changed_us: int) -> float:
        """Return the least number of seconds since the store changed an object with this date."""
        age = (self.now_us() - changed_us) / _US - STORE_TIME_STEP_SECONDS
        return max(0.0, age)

    def _read(self) -> _Reading:
        self._objects.put(STORE_TIME, "{}")
        dated = self._objects.read_versioned(STORE_TIME)
        if dated is None:
            raise StorageError(
                f"'{STORE_TIME}' was removed by another program before it was read",
                storage_kind=StorageKind.TRANSIENT,
                hint="nothing but the graph may change the directory __locks",
            )
        # This clock is read after the answer came: the store dated the object before it.
        return _Reading(dated.changed_us, self._runtime.monotonic())

    def _seconds_since(self, reading: _Reading) -> float:
        return self._runtime.monotonic() - reading.at
