"""Writers that prepare: who has the locks waits for those who will be ready in a moment, and for nobody else."""

import threading

from omnigraphdb.commit.arrivals import PreparingWriters
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.runtime import SystemRuntime

LONG = 60.0
OTHER = BranchName("other")


class SteppedRuntime(SystemRuntime):
    """A clock that moves when it is told to."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def waits(arrivals: PreparingWriters, seconds_max: float, branch: BranchName = MAIN) -> bool:
    """Whether a wait lasts until somebody ends it."""
    thread = threading.Thread(target=arrivals.wait, args=(branch, seconds_max), daemon=True)
    thread.start()
    thread.join(0.05)
    return thread.is_alive()


def test_nobody_is_waited_for_when_nobody_prepares() -> None:
    arrivals = PreparingWriters(SystemRuntime())
    assert not waits(arrivals, LONG)
    with arrivals.announce(MAIN):
        pass
    assert not waits(arrivals, LONG)


def test_a_writer_that_prepares_is_waited_for_until_it_stands_in_the_queue() -> None:
    arrivals = PreparingWriters(SystemRuntime())
    waiter = threading.Thread(target=arrivals.wait, args=(MAIN, LONG), daemon=True)
    with arrivals.announce(MAIN) as tell_first, arrivals.announce(MAIN) as tell_second:
        waiter.start()
        tell_first()
        waiter.join(0.05)
        assert waiter.is_alive()
        tell_second()
        waiter.join(LONG)
        assert not waiter.is_alive()


def test_a_writer_that_fails_before_it_is_ready_keeps_nobody() -> None:
    arrivals = PreparingWriters(SystemRuntime())
    waiter = threading.Thread(target=arrivals.wait, args=(MAIN, LONG), daemon=True)
    try:
        with arrivals.announce(MAIN):
            waiter.start()
            raise ValueError
    except ValueError:
        waiter.join(LONG)
    assert not waiter.is_alive()


def test_a_writer_of_another_branch_is_not_waited_for() -> None:
    arrivals = PreparingWriters(SystemRuntime())
    with arrivals.announce(OTHER):
        assert not waits(arrivals, LONG)


def test_a_wait_ends_and_whoever_prepares_for_longer_is_not_waited_for_again() -> None:
    runtime = SteppedRuntime()
    arrivals = PreparingWriters(runtime)
    with arrivals.announce(MAIN):
        assert not waits(arrivals, 0.01)
        assert waits(arrivals, 2.0)
        runtime.seconds = 3.0
        assert not waits(arrivals, 2.0)
