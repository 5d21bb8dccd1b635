"""How long an algorithm may run: rounds and seconds; a bound that is reached is an error that says how far it came."""

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
        """Raise when the time is over, or whoever waits for it cancelled it."""
        check_cancelled()
        if self._seconds_max is None:
            return
        # No time is left of a bound that is no number.
        if not self._runtime.monotonic() - self._started <= self._seconds_max:
            raise BoundReached(self._name, f"{self._seconds_max:g} s", self.state)
