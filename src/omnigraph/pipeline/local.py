"""Steps run by threads of this process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from omnigraph.limits import BUCKET_BYTES
from omnigraph.pipeline.runner import Each, Shuffle, Step
from omnigraph.pipeline.shuffle import Gathering
from omnigraph.storage.counters import carry_context

_R = TypeVar("_R")


class LocalRunner:
    """Runs steps in threads; Arrow and Lance work outside the interpreter's lock, so they share the cores."""

    engine = "local"

    def __init__(
        self, workers: int, *, buckets: int | None = None, keys_bytes_max: int = BUCKET_BYTES
    ) -> None:
        """Take so many splits at a time. More keys than fit under the bound wait in temporary files."""
        self._workers = max(1, workers)
        self._buckets = buckets
        self._keys_bytes_max = keys_bytes_max

    @property
    def workers(self) -> int:
        """How many splits it works on at once."""
        return self._workers

    def run(self, step: Step) -> pa.Table:
        """All answers of a step, in the order of its splits or buckets."""
        match step:
            case Each():
                return _join_results(self._every(step.run, step.splits, step.schedule()), step.out)
            case Shuffle():
                return self._run_shuffle(step)

    def _run_shuffle(self, step: Shuffle) -> pa.Table:
        with Gathering(step.sides, self._keys_bytes_max, self._buckets) as gathering:
            for position, parts in self._as_done(step.keys, step.splits):
                for side, rows in parts:
                    gathering.add(side, rows, position)
            answers = self._every(
                lambda number: step.decide(gathering.bucket(number)), gathering.numbers()
            )
        return _join_results(answers, step.out)

    def _every(
        self,
        work: Callable[[Any], Iterator[_R]],
        items: Sequence[Any],
        schedule: Sequence[int] | None = None,
    ) -> list[list[_R]]:
        """Do all the work, in turns; answers in the order of the items."""
        schedule = range(len(items)) if schedule is None else schedule
        answers: list[list[_R]] = [[] for _ in items]
        for position, answer in self._as_done(work, [items[number] for number in schedule]):
            answers[schedule[position]] = answer
        return answers

    def _as_done(
        self, work: Callable[[Any], Iterator[_R]], items: Sequence[Any]
    ) -> Iterator[tuple[int, list[_R]]]:
        """Do all the work, some of it at a time; the first failure stops what has not begun."""
        if self._workers == 1 or len(items) < 2:
            for number, item in enumerate(items):
                yield number, list(work(item))
            return
        whole = carry_context(lambda item: list(work(item)))
        waiting = enumerate(items)
        with ThreadPoolExecutor(self._workers, "omnigraph-step") as pool:
            running: dict[Future[list[_R]], int] = {}
            while True:
                for number, item in islice(waiting, self._workers - len(running)):
                    running[pool.submit(whole, item)] = number
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()


def _join_results(answers: Iterable[Iterable[pa.Table]], out: pa.Schema) -> pa.Table:
    tables = [table.cast(out) for answer in answers for table in answer]
    return pa.concat_tables(tables) if tables else out.empty_table()
