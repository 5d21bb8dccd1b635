"""Maintenance as an operation: its refusals, its workers, and its one publish, which makes no graph commit."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import TypeVar

from omnigraphdb.commit.liveness import is_interrupted
from omnigraphdb.commit.locks import HeldLocks
from omnigraphdb.commit.plan import Header, TableWrite, plan_of
from omnigraphdb.commit.stage import StageWorkers
from omnigraphdb.engine.attempt import attempt, commit_locked
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import CompletedWrite, Prepared
from omnigraphdb.errors import RecoveryRequired
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.publish import Published
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.progress import OnProgress, Progress, Unit, ignore_progress, track_tables
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.tables import Workers
from omnigraphdb.storage.values import MaintenanceTask

A = TypeVar("A")
B = TypeVar("B")

Writes = tuple[TableWrite, ...]


def run_maintenance(
    engine: Engine,
    header: Header,
    branch: BranchName,
    prepare: Callable[[View], tuple[Writes, A]],
    operation: str,
    workers: Workers | None = None,
    on_progress: OnProgress = ignore_progress,
) -> CompletedWrite[A]:
    """Prepare and commit; nothing is published when no table needs a commit."""

    def prepared(view: View) -> Prepared[A]:
        writes, outcome = prepare(view)
        if writes:
            on_progress(Progress("commit", 0, len(writes), Unit.TABLES))
        return Prepared(plan_of(header, view.snapshot, writes) if writes else None, outcome)

    done = attempt(engine, branch, prepared, operation, StageWorkers(maintenance=workers))
    if done.published is not None:
        _carry_cached_ids(engine, done.view, done.published)
    if done.plan is not None:
        count = len(done.plan.tables)
        on_progress(Progress("commit", count, count, Unit.TABLES))
    return done


def commit_maintenance(
    engine: Engine, header: Header, view: View, writes: Writes, held_locks: HeldLocks
) -> Published:
    """Commit prepared writes under locks that are held already."""
    published = commit_locked(engine, plan_of(header, view.snapshot, writes), held_locks).published
    _carry_cached_ids(engine, view, published)
    return published


def for_each_table(
    engine: Engine,
    work: Callable[[A], B],
    items: Iterable[A],
    weigh: Callable[[A], int] | None = None,
    *,
    phase: str,
    on_progress: OnProgress,
) -> list[B]:
    """Run `work` for several tables at once, within the bound, the heaviest first; results keep the order of `items`."""
    pending = list(items)
    if len(pending) < 2:
        return [work(item) for item in track_tables(on_progress, phase, pending)]
    order = range(len(pending))
    schedule = (
        order if weigh is None else sorted(order, key=lambda n: weigh(pending[n]), reverse=True)
    )
    workers = min(engine.settings.maintenance_concurrency, len(pending))
    with ThreadPoolExecutor(workers, "omnigraph-maintenance") as pool:
        running = {n: pool.submit(carry_context(work), pending[n]) for n in schedule}
        return [running[n].result() for n in track_tables(on_progress, phase, order)]


def _carry_cached_ids(engine: Engine, before: View, published: Published) -> None:
    """Keep the cached ids for the new versions: maintenance changes no row."""
    for table, after in published.state.snapshot.entries.items():
        entry = before.snapshot.entries.get(table)
        if entry is not None and entry.at != after.at:
            engine.cached_ids.carry(entry, after)


# ---- refusals


def refuse_pending(engine: Engine, operation: str, held_locks: HeldLocks | None = None) -> None:
    """Wait for live writers, and refuse while an interrupted write is pending: the HEADs of its tables mean nothing.

    `held_locks` are the locks of the caller.
    """
    held_keys = () if held_locks is None else tuple(held_locks.locks)
    for sidecar in engine.committer.sidecars.pending():
        if is_interrupted(engine.committer, sidecar, held_keys):
            raise RecoveryRequired(
                sidecar.operation_id,
                f"{operation} has to wait: the interrupted {sidecar.writer_kind} {sidecar.operation_id} on "
                f"{', '.join(sidecar.table_keys) or 'the schema'} is not settled; nothing was changed, "
                "run `omnigraphdb recovery run`, call graph.refresh(roll_back=True), or reopen the graph read-write",
            )


# ---- workers of this process


class LocalWorkers:
    """Threads that run the tasks of all tables; the heaviest task that waits comes first."""

    count = 1
    """One: an index that this process builds is not cut into parts."""

    def __init__(self, work: Callable[[MaintenanceTask], bytes], pool: ThreadPoolExecutor) -> None:
        self._work = work
        self._pool = pool
        self._waiting: list[tuple[int, int, partial[None]]] = []
        self._guard = threading.Lock()
        self._sequence = count()

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        """Run tasks; the results keep their order."""
        return [future.result() for future in [self._submit(task) for task in tasks]]

    def _submit(self, task: MaintenanceTask) -> "Future[bytes]":
        result: Future[bytes] = Future()
        work = partial(_run_task, result, carry_context(self._work), task)
        with self._guard:
            heappush(self._waiting, (-task.weight, next(self._sequence), work))
        self._pool.submit(self._run_heaviest)
        return result

    def _run_heaviest(self) -> None:
        # One task was added for each run.
        with self._guard:
            *_, work = heappop(self._waiting)
        work()


def _run_task(
    result: "Future[bytes]", work: Callable[[MaintenanceTask], bytes], task: MaintenanceTask
) -> None:
    try:
        result.set_result(work(task))
    except BaseException as error:  # noqa: BLE001 - every error belongs to the caller
        result.set_exception(error)


@contextmanager
def open_local_workers(engine: Engine) -> Iterator[LocalWorkers]:
    """Open as many workers as there are cores, and more for a distant store, where a worker mostly waits."""
    bound = engine.settings.maintenance_concurrency
    workers = bound if engine.store.root.is_distant else min(bound, os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, "omnigraph-tasks") as pool:
        yield LocalWorkers(engine.store.tables.do, pool)
