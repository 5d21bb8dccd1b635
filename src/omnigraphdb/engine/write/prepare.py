"""From deltas to a plan: check every rule, stage every table."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from omnigraphdb.commit.constraints import Violations, violations
from omnigraphdb.commit.delta import DeltaKind, Deltas, TableDelta
from omnigraphdb.commit.plan import Header, TableWrite, WritePlan, plan_of
from omnigraphdb.commit.stage import stage_write
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.snapshot_rows import SnapshotRows
from omnigraphdb.engine.write.batches import find_loaded_batch
from omnigraphdb.engine.writer import CandidateView
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.progress import Progress, Tell, Unit, tell_nobody, track_tables
from omnigraphdb.storage.counters import carry_context


def open_committed_rows(engine: Engine, view: View) -> SnapshotRows:
    """The rows of a view, for rules to look at."""
    cached_ids = view.ids if isinstance(view, CandidateView) else engine.cached_ids
    return SnapshotRows(snapshot=view.snapshot, tables=engine.store.tables, cached_ids=cached_ids)


def prepare_deltas(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    workers: ThreadPoolExecutor,
    header: Header,
    tell: Tell = tell_nobody,
    make_error: Callable[[Violations], OmniError] = Violations.error,
) -> WritePlan | None:
    """Check the final image and stage it; None when there is nothing to write."""
    if deltas.is_empty or find_loaded_batch(view, header.batch_id, header.batch_request):
        return None
    rows = sum(map(_count_rows, deltas))
    tell(Progress("check", 0, rows, Unit.ROWS, 0))
    check_deltas(view, deltas, committed, make_error)
    tell(Progress("check", rows, rows, Unit.ROWS, rows))
    writes = _stage_all(view, deltas, committed, workers, tell)
    if not writes:
        return None
    fail(Failpoint.PREPARED)
    return plan_of(header, view.snapshot, writes, committed.read_set())


def check_deltas(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    make_error: Callable[[Violations], OmniError] = Violations.error,
) -> None:
    """Refuse a write that breaks a rule, with every broken one."""
    found = violations(deltas, committed, view.catalog)
    if found:
        raise make_error(found)


def _stage_all(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    workers: ThreadPoolExecutor,
    tell: Tell,
) -> tuple[TableWrite, ...]:
    """Stage tables in parallel; a table that must be forked first is staged under the locks."""

    def stage(delta: TableDelta) -> TableWrite | None:
        entry = view.snapshot.entry(delta.type.table_key)
        is_new = delta.kind is DeltaKind.MERGE and committed.holds_none_of(
            entry.table_key, delta.ids
        )
        found = replace(delta, is_new=True) if is_new else delta
        return stage_write(committed.tables, entry, view.branch, found)

    every = list(deltas)
    if len(every) == 1:
        writes = [stage(delta) for delta in track_tables(tell, "stage", every, _count_rows)]
    else:
        # This thread only waits: as many tables are staged at once as the pool has threads.
        waiting = {n: workers.submit(carry_context(stage), delta) for n, delta in enumerate(every)}
        numbers = track_tables(tell, "stage", range(len(every)), lambda n: _count_rows(every[n]))
        writes = [waiting[number].result() for number in numbers]
    return tuple(write for write in writes if write is not None)


def _count_rows(delta: TableDelta) -> int:
    return len(delta.rows) + len(delta.deleted)
