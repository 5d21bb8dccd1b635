"""The hands of this process for maintenance: all tables share them, and the heaviest chore that waits comes first."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from queue import PriorityQueue

from omnigraph.engine.session.engine import Engine
from omnigraph.storage.counters import carry_context
from omnigraph.storage.tables import MaintenanceTask


class LocalWorkers:
    """Threads that do chores of any table."""

    count = 1
    """What this process builds stays whole."""

    def __init__(self, work: Callable[[MaintenanceTask], bytes], pool: ThreadPoolExecutor) -> None:
        self._work = work
        self._pool = pool
        self._waiting: PriorityQueue[tuple[int, int, partial[None]]] = PriorityQueue()
        self._turns = count()

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        """Do chores; answers in their order."""
        return [one.result() for one in [self._offer(task) for task in tasks]]

    def _offer(self, task: MaintenanceTask) -> "Future[bytes]":
        answer: Future[bytes] = Future()
        work = partial(_answer, answer, carry_context(self._work), task)
        self._waiting.put((-task.weight, next(self._turns), work))
        self._pool.submit(self._take)
        return answer

    def _take(self) -> None:
        self._waiting.get()[-1]()


def _answer(
    answer: "Future[bytes]", work: Callable[[MaintenanceTask], bytes], task: MaintenanceTask
) -> None:
    try:
        answer.set_result(work(task))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to who asked
        answer.set_exception(error)


@contextmanager
def open_local_workers(engine: Engine) -> Iterator[LocalWorkers]:
    """As many hands as there are cores; more where a store has to be waited for."""
    bound = engine.settings.maintenance_concurrency
    workers = bound if engine.store.root.is_distant else min(bound, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, "omnigraph-chores") as pool:
        yield LocalWorkers(engine.store.tables.do, pool)
