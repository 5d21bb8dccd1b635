"""From changes to a plan: check every rule, stage every table."""

from concurrent.futures import ThreadPoolExecutor

from omnigraph.commit.constraints import violations
from omnigraph.commit.delta import DeltaKind, Deltas, TableDelta
from omnigraph.commit.plan import TableWrite, WritePlan
from omnigraph.commit.sidecar import WriterKind
from omnigraph.engine.write.committed import SnapshotRows
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import CommitId, OperationId
from omnigraph.logs import get_logger
from omnigraph.manifest.records import CommitKind, lance_branch
from omnigraph.manifest.snapshot import Entry
from omnigraph.manifest.view import View
from omnigraph.storage.counters import carry_context
from omnigraph.storage.tables import Staged, TableAt, Tables
from omnigraph.values import dataclass

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What identifies one write, the same over all its attempts."""

    kind: WriterKind
    commit_kind: CommitKind
    actor: str | None
    operation_id: OperationId
    commit_id: CommitId
    if_commit: CommitId | None = None
    batch_id: str | None = None

    def is_spent(self, view: View) -> bool:
        """Whether the batch this write brings was brought before: then there is nothing left to write."""
        if self.batch_id is None:
            return False
        found = (one for one in view.lineage.commits if one.batch_id == self.batch_id)
        commit = next(found, None)
        if commit is not None:
            _log.warning("batch.skipped", batch_id=self.batch_id, commit=str(commit.id))
        return commit is not None


def prepare(
    view: View,
    deltas: Deltas,
    committed: SnapshotRows,
    workers: ThreadPoolExecutor,
    header: Header,
) -> WritePlan | None:
    """Check the final image and stage it; None when there is nothing to write."""
    if deltas.is_empty or header.is_spent(view):
        return None
    found = violations(deltas, committed, view.catalog)
    if found:
        raise found.error()
    writes = _stage_all(view, deltas, committed, workers)
    if not writes:
        return None
    fail(Failpoint.PREPARED)
    written = {write.table_key for write in writes}
    return WritePlan(
        kind=header.kind,
        commit_kind=header.commit_kind,
        branch=view.branch,
        actor=header.actor,
        operation_id=header.operation_id,
        commit_id=header.commit_id,
        tables=writes,
        read_set={k: v for k, v in committed.read_set().items() if k not in written},
        if_commit=header.if_commit,
        batch_id=header.batch_id,
    )


def _stage_all(
    view: View, deltas: Deltas, committed: SnapshotRows, workers: ThreadPoolExecutor
) -> tuple[TableWrite, ...]:
    """Stage tables at once; a table that must fork first is staged when its turn comes."""

    def stage(change: TableDelta) -> TableWrite | None:
        return _table_write(view, change, committed)

    every = list(deltas)
    if len(every) == 1:
        writes = [stage(every[0])]
    else:
        # This thread only waits: as many tables are staged at once as the pool has threads.
        waiting = [workers.submit(carry_context(stage), change) for change in every]
        writes = [future.result() for future in waiting]
    return tuple(write for write in writes if write is not None)


def _table_write(view: View, change: TableDelta, committed: SnapshotRows) -> TableWrite | None:
    entry = view.snapshot.entry(change.type.table_key)
    branch = lance_branch(view.branch)
    kind = _choose_staging(change, entry, committed)
    if entry.at.branch != branch:
        return TableWrite(
            table_key=entry.table_key,
            base=entry.at,
            strict=change.kind.is_strict,
            steps=(lambda tables, at: _stage(change, kind, tables, at),),
            fork=branch,
        )
    staged = _stage(change, kind, committed.tables, entry.at)
    if staged is None:
        return None
    return TableWrite(
        table_key=entry.table_key, base=entry.at, strict=change.kind.is_strict, staged=staged
    )


def _choose_staging(change: TableDelta, entry: Entry, committed: SnapshotRows) -> DeltaKind:
    """An upsert that meets none of its ids is an append: nothing is looked up, nothing is marked deleted."""
    if change.kind is DeltaKind.MERGE and committed.holds_none_of(entry.table_key, change.ids):
        return DeltaKind.APPEND
    return change.kind


def _stage(change: TableDelta, kind: DeltaKind, tables: Tables, at: TableAt) -> Staged | None:
    match kind:
        case DeltaKind.INSERT | DeltaKind.APPEND:
            return tables.stage_append(at, change.rows)
        case DeltaKind.MERGE | DeltaKind.UPDATE:
            return tables.stage_merge(at, change.rows)
        case DeltaKind.REPLACE:
            return tables.stage_overwrite(at, change.rows)
        case DeltaKind.DELETE:
            return tables.stage_delete(at, change.deleted)
