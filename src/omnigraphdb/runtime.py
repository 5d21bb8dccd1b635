"""The world outside: clock, fresh identifiers and waiting, in one value that a test can replace."""

import random
import threading
import time
from dataclasses import field
from datetime import UTC, datetime
from typing import Final, Protocol

from omnigraphdb.values import dataclass

_ULID_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_PAIRS: Final = [first + second for first in _ULID_DIGITS for second in _ULID_DIGITS]
_ULID_SHIFTS: Final = range(120, -1, -10)
_ULID_RANDOM_BITS: Final = 80


class Runtime(Protocol):
    """The source of time, randomness and waiting."""

    def now_us(self) -> int:
        """Return the microseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps back."""
        ...

    def new_id(self) -> str:
        """Return a fresh ULID; ids made by one runtime sort in the order they were made."""
        ...

    def wait(self, seconds: float) -> None:
        """Let that much time pass."""
        ...

    def jitter(self, seconds: float) -> float:
        """Return a random part of a delay, so that rivals do not stay in step."""
        ...


@dataclass(slots=True)
class SystemRuntime:
    """The real clock. Ids made within one millisecond still sort in order."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last: int = 0
    _random: random.Random = field(default_factory=random.SystemRandom)

    def now_us(self) -> int:
        """Return the microseconds since the epoch."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps back."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return a fresh ULID, greater than every one this runtime made before."""
        with self._lock:
            milliseconds = time.time_ns() // 1_000_000
            drawn = milliseconds << _ULID_RANDOM_BITS | self._random.getrandbits(_ULID_RANDOM_BITS)
            self._last = value = max(drawn, self._last + 1)
        return _encode_ulid(value)

    def wait(self, seconds: float) -> None:
        """Let that much time pass."""
        time.sleep(seconds)

    def jitter(self, seconds: float) -> float:
        """Return a random part of a delay."""
        return self._random.uniform(0, seconds)


def _encode_ulid(value: int) -> str:
    """Write a 128-bit number as a ULID; a package for it would take longer to load than a point query runs."""
    return "".join([_ULID_PAIRS[value >> shift & 1023] for shift in _ULID_SHIFTS])


SYSTEM = SystemRuntime()


def datetime_of(us: int) -> datetime:
    """Convert microseconds since the epoch to an aware UTC datetime."""
    return datetime.fromtimestamp(us / 1_000_000, tz=UTC)


def us_of(moment: datetime) -> int:
    """Convert an aware datetime to microseconds since the epoch; a naive one counts as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
