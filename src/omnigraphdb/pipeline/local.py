"""The local runner: threads of this process run the steps."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from omnigraphdb.limits import BUCKET_BYTES, SPILLED_BUCKETS
from omnigraphdb.pipeline.memory import release_freed
from omnigraphdb.pipeline.runner import Each, Shuffle, Split, Step, count_buckets
from omnigraphdb.pipeline.shuffle import ShuffleBuffer
from omnigraphdb.storage.counters import carry_context

_R = TypeVar("_R")


class LocalRunner:
    """Runs steps in threads; Arrow and Lance release the interpreter's lock, so the threads use all cores."""

    engine = "local"

    def __init__(
        self,
        workers: int,
        *,
        buckets: int | None = None,
        keys_bytes_max: int = BUCKET_BYTES,
        watch: Callable[[Split], object] | None = None,
        saves_memory: bool = False,
    ) -> None:
        """Run `workers` splits at a time; keys of a shuffle past `keys_bytes_max` wait in temporary files.

        `watch` is called in the thread of the caller with every split that is done. With `saves_memory` freed memory
        goes back to the system after every split.
        """
        self._workers = max(1, workers)
        self._buckets = buckets
        self._keys_bytes_max = keys_bytes_max
        self._watch = watch
        self._saves_memory = saves_memory

    def with_watch(self, watch: Callable[[Split], object]) -> "LocalRunner":
        """Return the same runner with a callback that is told of every split that is done."""
        return LocalRunner(
            self._workers,
            buckets=self._buckets,
            keys_bytes_max=self._keys_bytes_max,
            watch=watch,
            saves_memory=self._saves_memory,
        )

    @property
    def workers(self) -> int:
        """The number of splits that run at once."""
        return self._workers

    def run(self, step: Step) -> pa.Table:
        """Run a step; rows come in the order of its splits or buckets."""
        match step:
            case Each():
                tables = self._run_all(step.run, step.splits, step.schedule(), self._watch)
                return _join_tables(tables, step.out)
            case Shuffle():
                return self._run_shuffle(step)

    def _run_shuffle(self, step: Shuffle) -> pa.Table:
        spilled = max(SPILLED_BUCKETS, count_buckets(step.rows or 0, self._workers))
        with ShuffleBuffer(step.sides, self._keys_bytes_max, self._buckets, spilled) as buffer:
            for position, parts in self._run_as_done(step.keys, step.splits):
                for side, rows in parts:
                    buffer.add(side, rows, position)
                if self._watch is not None:
                    self._watch(step.splits[position])
            results = self._run_all(
                lambda number: step.decide(buffer.read_bucket(number)), buffer.list_buckets()
            )
        return _join_tables(results, step.out)

    def _run_all(
        self,
        work: Callable[[Any], Iterator[_R]],
        items: Sequence[Any],
        schedule: Sequence[int] | None = None,
        watch: Callable[[Any], object] | None = None,
    ) -> list[list[_R]]:
        """Run the work for all items; results come in the order of the items."""
        schedule = range(len(items)) if schedule is None else schedule
        results: list[list[_R]] = [[] for _ in items]
        ordered = [items[number] for number in schedule]
        for position, result in self._run_as_done(work, ordered):
            results[schedule[position]] = result
            if watch is not None:
                watch(ordered[position])
        return results

    def _run_as_done(
        self, work: Callable[[Any], Iterator[_R]], items: Sequence[Any]
    ) -> Iterator[tuple[int, list[_R]]]:
        """Run the work and yield results as they are done; the first failure stops the work that has not begun."""
        if self._workers == 1 or len(items) < 2:
            for number, item in enumerate(items):
                yield number, list(work(item))
                if self._saves_memory:
                    release_freed()
            return
        work_in_context = carry_context(lambda item: list(work(item)))
        waiting = enumerate(items)
        with ThreadPoolExecutor(self._workers, "omnigraph-step") as pool:
            running: dict[Future[list[_R]], int] = {}
            while True:
                for number, item in islice(waiting, self._workers - len(running)):
                    running[pool.submit(work_in_context, item)] = number
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()


def _join_tables(results: Iterable[Iterable[pa.Table]], out: pa.Schema) -> pa.Table:
    tables = [table.cast(out) for result in results for table in result]
    return pa.concat_tables(tables) if tables else out.empty_table()
