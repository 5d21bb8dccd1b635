"""Writers that prepare an insert and will wait for their locks in a moment: who has the locks may let them join its group."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraphdb.ids import BranchName
from omnigraphdb.runtime import Runtime
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class PreparingWriter:
    """One writer that was announced: its branch, and when it began."""

    branch: BranchName
    began: float


class PreparingWriters:
    """The writers of one handle that were announced and do not wait for their locks yet."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._changed = threading.Condition()
        self._announced: set[PreparingWriter] = set()

    @contextmanager
    def announce(self, branch: BranchName) -> Iterator[Callable[[], None]]:
        """Announce a writer until it stands in the queue, when it calls the yielded function, or until the block ends."""
        arrival = PreparingWriter(branch, self._runtime.monotonic())
        with self._changed:
            self._announced.add(arrival)
        try:
            yield lambda: self._end(arrival)
        finally:
            self._end(arrival)

    def _end(self, arrival: PreparingWriter) -> None:
        if arrival in self._announced:
            with self._changed:
                self._announced.discard(arrival)
                self._changed.notify_all()

    def wait(self, branch: BranchName, seconds_max: float) -> None:
        """Wait until the writers that were announced a moment ago stand in the queue, so many seconds at most.

        A writer that has prepared for longer than that is not expected soon.
        """
        if not self._announced:
            return
        since = self._runtime.monotonic() - seconds_max
        with self._changed:
            self._changed.wait_for(lambda: not self._expects(branch, since), timeout=seconds_max)

    def _expects(self, branch: BranchName, since: float) -> bool:
        return any(
            arrival.branch == branch and arrival.began >= since for arrival in self._announced
        )
