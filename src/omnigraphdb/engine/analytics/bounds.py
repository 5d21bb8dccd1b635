"""Bounds of an algorithm, in rounds and seconds; the error about a reached bound reports the progress."""

from collections.abc import Iterator

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.errors import BoundReached
from omnigraphdb.runtime import Runtime


class Bounds:
    """The most rounds and seconds of one algorithm, which keeps `state` true: how far it has come."""

    def __init__(
        self, name: str, runtime: Runtime, rounds_max: int, seconds_max: float | None
    ) -> None:
        self._name, self._runtime = name, runtime
        self._rounds_max, self._seconds_max = rounds_max, seconds_max
        self._started = runtime.monotonic()
        self.state = "nothing is done"

    def count_rounds(self) -> Iterator[int]:
        """Count rounds; raise when the algorithm wants more of them than there may be."""
        for number in range(self._rounds_max):
            self.check_time()
            yield number
        raise BoundReached(self._name, f"{self._rounds_max} rounds", self.state)

    def check_time(self) -> None:
        """Raise when the time is over, or when the caller has cancelled."""
        check_cancelled()
        if self._seconds_max is None:
            return
        # A bound that is not a number leaves no time.
        if not self._runtime.monotonic() - self._started <= self._seconds_max:
            raise BoundReached(self._name, f"{self._seconds_max:g} s", self.state)
