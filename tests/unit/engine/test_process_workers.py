"""The workers of one process: every task is answered, the heaviest that waits is next, and errors reach who asked."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from omnigraphdb.engine.maintenance.operation import LocalWorkers
from omnigraphdb.failpoints import PARK_SECONDS_MAX
from omnigraphdb.ids import Version
from omnigraphdb.storage.values import MaintenanceTask, TableAt

AT = TableAt(path="nodes/x", branch=None, version=Version(1))


def task(name: bytes, weight: int = 0) -> MaintenanceTask:
    return MaintenanceTask(AT, name, weight)


def test_of_all_chores_that_wait_the_heaviest_is_next() -> None:
    done: list[bytes] = []
    waits, goes = Event(), Event()

    def work(given: MaintenanceTask) -> bytes:
        if given.work == b"first":
            waits.set()
            assert goes.wait(PARK_SECONDS_MAX)
        done.append(given.work)
        return given.work.upper()

    class Offered(list[MaintenanceTask]):
        def __iter__(self) -> Iterator[MaintenanceTask]:
            yield from super().__iter__()
            goes.set()

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        workers = LocalWorkers(work, pool)
        first = other.submit(workers.do, [task(b"first")])
        assert waits.wait(PARK_SECONDS_MAX)
        more = Offered([task(b"light", 1), task(b"heavy", 9), task(b"even", 1)])
        assert workers.do(more) == [b"LIGHT", b"HEAVY", b"EVEN"]
        assert first.result() == [b"FIRST"]
    assert done == [b"first", b"heavy", b"light", b"even"]


def test_an_error_reaches_who_asked_and_nobody_else() -> None:
    def work(given: MaintenanceTask) -> bytes:
        if given.work == b"bad":
            raise OSError("no room")
        return given.work

    with ThreadPoolExecutor(2) as pool:
        workers = LocalWorkers(work, pool)
        with pytest.raises(OSError, match="no room"):
            workers.do([task(b"good"), task(b"bad")])
        assert workers.do([task(b"good")]) == [b"good"]
