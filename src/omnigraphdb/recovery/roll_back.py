"""Rolling back: restore every table that the operation moved to its visible version, under a recorded decision.

A kernel lock ends with its process, and so do the writes of that process. On an object store a PUT of a dead writer
may arrive after the end of its lease. There a roll-back also gives each unmoved table a new version that changes
nothing: it takes the version that the PUT would create, and the store refuses the PUT.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from omnigraphdb.commit.forks import fork_table
from omnigraphdb.commit.plan import TableWrite
from omnigraphdb.commit.sidecar import (
    Decided,
    Pin,
    RecordedDecision,
    Registration,
    TableOutcome,
    WriterKind,
)
from omnigraphdb.errors import NotFoundError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, BranchName, CommitId, TableKey, Version
from omnigraphdb.manifest.change import Change, Update
from omnigraphdb.manifest.forks import ForkStatus, fork_status
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import graph_branch
from omnigraphdb.manifest.table_history import TableIncarnation
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.recovery.classify import REACHED, UNTOUCHED, Finding, Observed
from omnigraphdb.recovery.commits import (
    draft_commit,
    publish_commit,
    publish_lineage_only,
    record_outcome,
)
from omnigraphdb.recovery.gather import GatheredOperation, table_path
from omnigraphdb.recovery.schema_files import remove_staged

_KEPT = UNTOUCHED | (REACHED - {Finding.ROLLED_PAST_EXPECTED})
"""Findings of tables that a roll-back does not restore: no commit of the operation is past the visible version."""


def roll_back(operation: GatheredOperation) -> None:
    """Restore the tables, remove the tables of this operation alone, publish the restored versions, record."""
    operation, recorded = _record_decision(operation)
    fail(Failpoint.ROLLBACK_DECIDED)
    operation, recorded = _restore_moved(operation, recorded)
    drop_created(operation, recorded.restored)
    fail(Failpoint.ROLLBACK_RESTORED)
    commit = _repin(operation, recorded)
    fail(Failpoint.ROLLBACK_PUBLISHED)
    record_outcome(operation, commit, RecoveryKind.ROLLED_BACK, recorded.outcomes)


def _list_moved(operation: GatheredOperation) -> Iterator[Observed]:
    for seen, finding in zip(operation.facts.observed, operation.facts.findings, strict=True):
        if finding not in _KEPT and seen.visible:
            yield seen


# ---- the decision


def _record_decision(operation: GatheredOperation) -> tuple[GatheredOperation, RecordedDecision]:
    """Record the decision and the outcomes that it undoes, before the first destructive act."""
    recorded = operation.sidecar.recorded
    if recorded is not None and (recorded.outcomes or recorded.restored):
        return operation, recorded
    return _record_restored(
        operation,
        RecordedDecision(decision=Decided.ROLL_BACK, outcomes=tuple(_outcomes(operation))),
    )


def _outcomes(operation: GatheredOperation) -> Iterator[TableOutcome]:
    for seen in _list_moved(operation):
        yield TableOutcome(
            table_key=seen.pin.table_key, from_version=seen.head, to_version=seen.visible
        )


def _record_restored(
    operation: GatheredOperation, recorded: RecordedDecision
) -> tuple[GatheredOperation, RecordedDecision]:
    sidecar = operation.sidecar.decided(recorded)
    if sidecar != operation.sidecar:
        operation.require_locks()
        operation.committer.sidecars.record(sidecar, brings_back=True)
    return replace(operation, sidecar=sidecar), recorded


# ---- the tables


def may_move_late(operation: GatheredOperation) -> bool:
    """Whether a PUT of the dead writer may still move a table of the operation."""
    return any(_list_still_movable(operation))


def _list_still_movable(operation: GatheredOperation) -> Iterator[Observed]:
    """List the unmoved tables whose next version a late PUT could still create."""
    for seen, finding in zip(operation.facts.observed, operation.facts.findings, strict=True):
        is_next_free = seen.head == seen.visible == seen.pin.expected
        if finding is Finding.NO_MOVEMENT and is_next_free and _may_write_late(operation, seen.pin):
            yield seen


def _may_write_late(operation: GatheredOperation, pin: Pin) -> bool:
    """Whether a write of the dead lock holder may arrive after its death."""
    return not operation.held_locks.lock(pin.lock_key).exclusive


def _restore_moved(
    operation: GatheredOperation, recorded: RecordedDecision
) -> tuple[GatheredOperation, RecordedDecision]:
    """Restore the tables that moved or could still move; each restore is recorded before the next begins."""
    for seen in (*_list_moved(operation), *_list_still_movable(operation)):
        if seen.is_fork and not _may_write_late(operation, seen.pin):
            continue
        last = _last_late(operation, seen)
        version = seen.head if seen.is_restored and seen.head >= last else _restore(operation, seen)
        done = {**recorded.restored, seen.pin.table_key: version}
        operation, recorded = _record_restored(operation, replace(recorded, restored=done))
    return operation, recorded


def _last_late(operation: GatheredOperation, seen: Observed) -> Version:
    """Return the last version that a late PUT could create: a group puts all of its versions at the same time."""
    is_group = operation.sidecar.writer_kind is WriterKind.GROUP
    if is_group and _may_write_late(operation, seen.pin):
        return seen.pin.post_commit
    return seen.head


def _restore(operation: GatheredOperation, seen: Observed) -> Version:
    """Move HEAD to copies of the visible version, past every version that a late PUT could create.

    A fork that a late PUT could create is created first.
    """
    head = seen.head
    if _is_fork_missing(operation, seen):
        head = fork_table(
            operation.committer.tables,
            operation.committer.manifest,
            _first_write(operation, seen.pin),
            operation.require_locks,
        ).version
    for _ in range(max(1, _last_late(operation, seen) - head)):
        operation.require_locks()
        landed = operation.committer.tables.restore(
            table_path(seen.pin, operation.snapshot),
            seen.pin.table_branch,
            seen.visible,
            expected_head=head,
            operation_id=operation.id,
            actor=RECOVERY_ACTOR,
            lock=operation.held_locks.lock(seen.pin.lock_key),
        )
        head = landed.at.version
        fail(Failpoint.ROLLBACK_TABLE_RESTORED)
    return head


def _is_fork_missing(operation: GatheredOperation, seen: Observed) -> bool:
    branch = operation.snapshot.entry(seen.pin.table_key).at.branch
    return not seen.is_fork and branch != seen.pin.table_branch


def _first_write(operation: GatheredOperation, pin: Pin) -> TableWrite:
    """Describe the first write of a table on a branch, as its fork needs it."""
    base = operation.snapshot.entry(pin.table_key).at
    return TableWrite(table_key=pin.table_key, base=base, strict=False, fork=pin.table_branch)


def _repin(operation: GatheredOperation, recorded: RecordedDecision) -> CommitId:
    """Publish the restored versions, unless an earlier recoverer did."""
    pins = operation.snapshot.pins
    versions_to_pin = {
        table: version
        for table, version in recorded.restored.items()
        if pins.get(table, version) < version
    }
    if not versions_to_pin:
        return publish_lineage_only(operation.committer, operation.id, operation.branch)
    change = Change(
        branch=operation.branch,
        branch_incarnation=operation.sidecar.branch_incarnation,
        updates=tuple(
            _make_repin(operation, table, version) for table, version in versions_to_pin.items()
        ),
        expected={table: pins[table] for table in versions_to_pin},
        draft=draft_commit(operation.committer, operation.id),
    )
    return publish_commit(operation.committer, change)


def _make_repin(operation: GatheredOperation, table: TableKey, version: Version) -> Update:
    branch = next(pin.table_branch for pin in operation.sidecar.tables if pin.table_key == table)
    at = replace(operation.snapshot.entry(table).at, branch=branch, version=version)
    return Update(table_key=table, at=at, row_count=operation.committer.tables.open(at).count())


# ---- tables of this operation alone


def drop_created(operation: GatheredOperation, restored: Collection[TableKey] = ()) -> None:
    """Remove forks that no manifest uses, tables that none registered, and staged schema files."""
    for seen, finding in zip(operation.facts.observed, operation.facts.findings, strict=True):
        adopted = seen.pin.table_key in restored
        if seen.is_fork and finding is not Finding.FOREIGN and not adopted:
            drop_fork(operation, seen.pin)
    for registration in operation.sidecar.registrations:
        if _is_unowned(operation, registration):
            operation.require_locks()
            operation.committer.tables.delete_table(registration.table_path)
    if operation.is_schema_apply:
        remove_staged(operation.objects, operation.require_locks)


def drop_fork(operation: GatheredOperation, pin: Pin) -> None:
    """Remove the fork of a pin if no manifest uses it.

    Where a request may arrive late, others may have taken the fork over by then: there it stays for the next write to
    the table, or for cleanup.
    """
    if _may_write_late(operation, pin):
        return
    path = table_path(pin, operation.snapshot)
    if pin.table_branch is None or pin.table_branch not in operation.committer.tables.forks(path):
        return
    if (
        fork_status(operation.committer.manifest, path, graph_branch(pin.table_branch))
        is ForkStatus.ORPHAN
    ):
        operation.require_locks()
        operation.committer.tables.drop_fork(path, pin.table_branch)


def _is_unowned(operation: GatheredOperation, registration: Registration) -> bool:
    """Whether this operation made the table, and no branch's manifest and no other operation names its path."""
    path = registration.table_path
    rivals = (
        sidecar
        for sidecar in operation.committer.sidecars.pending()
        if sidecar.operation_id != operation.id
    )
    claimed = {r.table_path for rival in rivals for r in rival.registrations}
    if not registration.created or path in claimed:
        return False
    manifest = operation.committer.manifest
    branches = (MAIN, *map(BranchName, manifest.rows.branches()))
    return not any(
        incarnation.path == path
        for branch in branches
        for incarnations in _table_history(manifest, branch)
        for incarnation in incarnations
    )


def _table_history(
    manifest: Manifest, branch: BranchName
) -> Iterable[tuple[TableIncarnation, ...]]:
    """List the tables that a branch names; none when the branch was deleted since the branches were listed."""
    try:
        return manifest.load(branch).table_history.by_key.values()
    except NotFoundError:
        if branch == MAIN or branch in manifest.rows.branch_names():
            raise
        return ()
