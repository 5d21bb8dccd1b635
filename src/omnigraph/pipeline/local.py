"""Steps run by threads of this process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.limits import BUCKET_BYTES
from omnigraph.pipeline.buckets import by_bucket
from omnigraph.pipeline.steps import Each, Shuffle, Split, Step
from omnigraph.storage.counters import carried

_R = TypeVar("_R")


class LocalRunner:
    """Runs steps in threads; Arrow and Lance work outside the interpreter's lock, so they share the cores."""

    engine = "local"

    def __init__(self, hands: int, *, buckets: int | None = None) -> None:
        """Take so many splits at a time. `buckets` is chosen by size unless it is given."""
        self._hands = max(1, hands)
        self._buckets = buckets

    def run(self, step: Step) -> pa.Table:
        """All answers of a step, in the order of its splits or buckets."""
        match step:
            case Each():
                return _joined(self._every(step.run, step.splits), step.out)
            case Shuffle():
                return self._shuffled(step)

    def _shuffled(self, step: Shuffle) -> pa.Table:
        given: dict[str, list[pa.Table]] = {side: [] for side in step.sides}
        for parts in self._every(step.keys, step.splits):
            for side, table in parts:
                given[side].append(table)
        held = sum(table.nbytes for tables in given.values() for table in tables)
        buckets = self._buckets or 1 + held // BUCKET_BYTES
        met = _met(step, given, buckets)
        del given
        return _joined(self._every(step.decide, met), step.out)

    def _every(self, work: Callable[[Any], Iterator[_R]], items: Sequence[Split]) -> list[list[_R]]:
        """Do all the work, some of it at a time; the first failure stops what has not begun."""
        if self._hands == 1 or len(items) < 2:
            return [list(work(item)) for item in items]
        answers: list[list[_R]] = [[] for _ in items]
        whole = carried(lambda item: list(work(item)))
        waiting = enumerate(items)
        with ThreadPoolExecutor(self._hands, "omnigraph-step") as pool:
            running: dict[Future[list[_R]], int] = {}
            while True:
                for number, item in islice(waiting, self._hands - len(running)):
                    running[pool.submit(whole, item)] = number
                if not running:
                    return answers
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    answers[running.pop(future)] = future.result()


def _met(
    step: Shuffle, given: dict[str, list[pa.Table]], buckets: int
) -> list[dict[str, pa.Table]]:
    """What each bucket is given: every side of it, an empty table where there is nothing."""
    met: list[dict[str, pa.Table]] = [
        {side: schema.empty_table() for side, schema in step.sides.items()} for _ in range(buckets)
    ]
    for side, schema in step.sides.items():
        tables = given.pop(side)
        if tables:
            for number, rows in by_bucket(pa.concat_tables(tables).cast(schema), buckets):
                met[number][side] = rows
    return met


def _joined(answers: Iterable[Iterable[pa.Table]], out: pa.Schema) -> pa.Table:
    tables = [table.cast(out) for answer in answers for table in answer]
    return pa.concat_tables(tables) if tables else out.empty_table()
