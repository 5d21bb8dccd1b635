"""The time since leases of others changed, by the clocks that this process may trust: its own, and the store's."""

from contextlib import suppress

from omnigraphdb.errors import StorageError
from omnigraphdb.limits import LEASES_KNOWN_MAX
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.locks.store_clock import StoreClock
from omnigraphdb.storage.locks.stored_lease import Lease
from omnigraphdb.storage.lru import Recent
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class _Sighting:
    """A lease as it was last seen to change, and since when it is like that by this process's monotonic clock."""

    lease: Lease
    since: float


class LeaseWatch:
    """Remembers when each lease was last seen to change.

    The clocks of other machines decide nothing. Without a clock of the store, which takes a write to read, every lease
    counts as changed when it was first seen.
    """

    def __init__(self, runtime: Runtime, store_clock: StoreClock | None) -> None:
        self._runtime = runtime
        self._store_clock = store_clock
        self._sightings: Recent[str, _Sighting] = Recent(LEASES_KNOWN_MAX)

    def seconds_unchanged(self, path: str, lease: Lease, changed_us: int) -> float:
        """For how long, at least, nobody but waiters wrote a lease that was just read; the store dates it `changed_us`."""
        sighting = self._sightings.get(path)
        if sighting is None or sighting.lease.signs_of_life != lease.signs_of_life:
            is_renewed = sighting is not None and sighting.lease.is_same_hold(lease)
            age = 0.0 if is_renewed else self._age_by_store(changed_us)
            sighting = self._sightings.put(path, _Sighting(lease, self._runtime.monotonic() - age))
        return self._runtime.monotonic() - sighting.since

    def _age_by_store(self, changed_us: int) -> float:
        """Return the age of a lease that this process meets for the first time: its holder may have died long ago."""
        if self._store_clock is None:
            return 0.0
        # A process that cannot write learns no time of the store, and watches.
        with suppress(StorageError):
            return self._store_clock.seconds_since(changed_us)
        return 0.0
