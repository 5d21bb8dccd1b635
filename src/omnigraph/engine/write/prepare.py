"""From deltas to a plan: check every rule, stage every table."""

from concurrent.futures import ThreadPoolExecutor

from omnigraph.commit.constraints import violations
from omnigraph.commit.delta import DeltaKind, Deltas, TableDelta
from omnigraph.commit.plan import Header, TableWrite, WritePlan, plan_of
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.snapshot_rows import SnapshotRows
from omnigraph.failpoints import Failpoint, fail
from omnigraph.logs import get_logger
from omnigraph.manifest.records import lance_branch
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.storage.counters import carry_context
from omnigraph.storage.tables import Tables
from omnigraph.storage.values import Staged, TableAt

_log = get_logger(__name__)


def is_batch_loaded(view: View, batch_id: str | None) -> bool:
    """Whether a batch was loaded before: then there is nothing left to write."""
    if batch_id is None:
        return False
    commit = next((one for one in view.lineage.commits if one.batch_id == batch_id), None)
    if commit is not None:
        _log.warning("batch.skipped", batch_id=batch_id, commit=str(commit.id))
    return commit is not None


def open_committed_rows(engine: Engine, view: View) -> SnapshotRows:
    """The rows of a view, for rules to look at."""
    return SnapshotRows(
        snapshot=view.snapshot, tables=engine.store.tables, cached_ids=engine.cached_ids
    )


def prepare_deltas(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    workers: ThreadPoolExecutor,
    header: Header,
) -> WritePlan | None:
    """Check the final image and stage it; None when there is nothing to write."""
    if deltas.is_empty or is_batch_loaded(view, header.batch_id):
        return None
    found = violations(deltas, committed, view.catalog)
    if found:
        raise found.error()
    writes = _stage_all(view, deltas, committed, workers)
    if not writes:
        return None
    fail(Failpoint.PREPARED)
    return plan_of(header, view.branch, writes, committed.read_set())


def _stage_all(
    view: View, deltas: Deltas, committed: SnapshotRows, workers: ThreadPoolExecutor
) -> tuple[TableWrite, ...]:
    """Stage tables at once; a table that must fork first is staged when its turn comes."""

    def stage(delta: TableDelta) -> TableWrite | None:
        return _table_write(view, delta, committed)

    every = list(deltas)
    if len(every) == 1:
        writes = [stage(every[0])]
    else:
        # This thread only waits: as many tables are staged at once as the pool has threads.
        waiting = [workers.submit(carry_context(stage), delta) for delta in every]
        writes = [future.result() for future in waiting]
    return tuple(write for write in writes if write is not None)


def _table_write(view: View, delta: TableDelta, committed: SnapshotRows) -> TableWrite | None:
    entry = view.snapshot.entry(delta.type.table_key)
    branch = lance_branch(view.branch)
    kind = _choose_staging(delta, entry, committed)
    if entry.at.branch != branch:
        return TableWrite(
            table_key=entry.table_key,
            base=entry.at,
            strict=delta.kind.is_strict,
            steps=(lambda tables, at: _stage(delta, kind, tables, at),),
            fork=branch,
            delta=delta,
        )
    staged = _stage(delta, kind, committed.tables, entry.at)
    if staged is None:
        return None
    return TableWrite(
        table_key=entry.table_key,
        base=entry.at,
        strict=delta.kind.is_strict,
        staged=staged,
        delta=delta,
    )


def _choose_staging(delta: TableDelta, entry: Entry, committed: SnapshotRows) -> DeltaKind:
    """An upsert that meets none of its ids is an append: nothing is looked up, nothing is marked deleted."""
    if delta.kind is DeltaKind.MERGE and committed.holds_none_of(entry.table_key, delta.ids):
        return DeltaKind.APPEND
    return delta.kind


def _stage(delta: TableDelta, kind: DeltaKind, tables: Tables, at: TableAt) -> Staged | None:
    match kind:
        case DeltaKind.INSERT | DeltaKind.APPEND:
            return tables.stage_append(at, delta.rows)
        case DeltaKind.MERGE | DeltaKind.UPDATE:
            return tables.stage_merge(at, delta.rows)
        case DeltaKind.REPLACE:
            return tables.stage_overwrite(at, delta.rows)
        case DeltaKind.DELETE:
            return tables.stage_delete(at, delta.deleted)
