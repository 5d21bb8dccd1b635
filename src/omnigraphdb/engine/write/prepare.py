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
from omnigraphdb.engine.writer import GroupView
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.progress import OnProgress, Progress, Unit, ignore_progress, track_tables
from omnigraphdb.storage.counters import carry_context


def open_committed_rows(engine: Engine, view: View) -> SnapshotRows:
    """Open the rows of a view for the checks of rules."""
    cached_ids = view.ids if isinstance(view, GroupView) else engine.cached_ids
    return SnapshotRows(snapshot=view.snapshot, tables=engine.store.tables, cached_ids=cached_ids)


def prepare_deltas(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    workers: ThreadPoolExecutor,
    header: Header,
    on_progress: OnProgress = ignore_progress,
    make_error: Callable[[Violations], OmniError] = Violations.error,
) -> WritePlan | None:
    """Check the final image and stage it; None when there is nothing to write."""
    if deltas.is_empty or find_loaded_batch(view, header.batch_id, header.batch_request):
        return None
    rows = sum(map(_count_rows, deltas))
    on_progress(Progress("check", 0, rows, Unit.ROWS, 0))
    check_deltas(view, deltas, committed, make_error)
    on_progress(Progress("check", rows, rows, Unit.ROWS, rows))
    writes = _stage_all(view, deltas, committed, workers, on_progress)
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
    """Refuse a write that breaks a rule; the error names every broken rule."""
    rule_violations = violations(deltas, committed, view.catalog)
    if rule_violations:
        raise make_error(rule_violations)


def _stage_all(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    workers: ThreadPoolExecutor,
    on_progress: OnProgress,
) -> tuple[TableWrite, ...]:
    """Stage tables in parallel; a table that must be forked first is staged under the locks."""

    def stage(delta: TableDelta) -> TableWrite | None:
        entry = view.snapshot.entry(delta.type.table_key)
        is_new = delta.kind is DeltaKind.MERGE and committed.holds_none_of(
            entry.table_key, delta.ids
        )
        staged_delta = replace(delta, is_new=True) if is_new else delta
        return stage_write(committed.tables, entry, view.branch, staged_delta)

    all_deltas = list(deltas)
    if len(all_deltas) == 1:
        writes = [
            stage(delta) for delta in track_tables(on_progress, "stage", all_deltas, _count_rows)
        ]
    else:
        # This thread only waits: as many tables are staged at once as the pool has threads.
        futures = {
            n: workers.submit(carry_context(stage), delta) for n, delta in enumerate(all_deltas)
        }
        numbers = track_tables(
            on_progress, "stage", range(len(all_deltas)), lambda n: _count_rows(all_deltas[n])
        )
        writes = [futures[number].result() for number in numbers]
    return tuple(write for write in writes if write is not None)


def _count_rows(delta: TableDelta) -> int:
    return len(delta.rows) + len(delta.deleted)
