"""Discarding by an operator: remove a pending operation, record it, and list its remains."""

from dataclasses import field

from omnigraphdb.commit.locks import HeldLocks
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecar import Decided, RecordedDecision, Sidecar
from omnigraphdb.commit.sidecars import operation_of
from omnigraphdb.errors import NotFound, OmniError, RecoveryRequired, SidecarUnreadable
from omnigraphdb.ids import MAIN, BranchName, CommitId, OperationId
from omnigraphdb.recovery.audit import Audit, AuditRow, RecoveryKind
from omnigraphdb.recovery.classify import Finding
from omnigraphdb.recovery.commits import publish_lineage_only
from omnigraphdb.recovery.gather import GatheredOperation, gather
from omnigraphdb.storage.layout import sidecar_path
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

UNKNOWN = "Unknown"
"""The writer of a sidecar that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedRecovery(Value):
    """A discarded operation: the commit that records it, and its remains, which an operator repairs."""

    operation_id: OperationId
    writer_kind: str
    commit: CommitId = field(metadata=wire("graph_commit_id"))
    leaves: tuple[str, ...]


def discard_operation(
    committer: Committer, audit: Audit, operation_id: OperationId
) -> DiscardedRecovery:
    """Remove a pending operation without completing or undoing it; its table versions stay."""
    names = committer.sidecars.names()
    if sidecar_path(operation_id) not in names:
        raise NotFound("pending operation", operation_id, known=map(operation_of, names))
    try:
        sidecar = committer.sidecars.find(operation_id)
    except SidecarUnreadable as error:
        unknown = (f"the tables it moved are unknown ({error.reason}); run `omnigraphdb doctor`",)
        return _record_discard(committer, audit, operation_id, None, unknown, HeldLocks({}))
    if sidecar is None:
        raise NotFound("pending operation", operation_id, hint="its writer has just finished it")
    with committer.locks.try_acquire(sidecar.lock_keys) as held_locks:
        if held_locks is None:
            raise RecoveryRequired(
                operation_id,
                f"operation {operation_id} has a live writer, which will finish it; nothing was changed",
            )
        left = _leaves(committer, audit, sidecar, held_locks)
        held_locks.require(f"the discarding of {operation_id}")
        # A recoverer that comes when this process is dead completes the discarding instead of the operation.
        committer.sidecars.record(sidecar.decided(RecordedDecision(decision=Decided.DISCARD)))
        return _record_discard(committer, audit, operation_id, sidecar, left, held_locks)


def _record_discard(
    committer: Committer,
    audit: Audit,
    operation_id: OperationId,
    sidecar: Sidecar | None,
    leaves: tuple[str, ...],
    held_locks: HeldLocks,
) -> DiscardedRecovery:
    work = f"the discarding of {operation_id}"
    held_locks.require(work)
    commit = publish_lineage_only(committer, operation_id, _branch(committer, sidecar))
    row = AuditRow(
        commit=commit,
        kind=RecoveryKind.DISCARDED,
        for_actor=None if sidecar is None else sidecar.actor,
        operation_id=operation_id,
        writer_kind=UNKNOWN if sidecar is None else str(sidecar.writer_kind),
        tables=(),
        created_at=committer.runtime.now_us(),
    )
    audit.record(row)
    held_locks.require(work)
    committer.sidecars.disarm(operation_id)
    return DiscardedRecovery(
        operation_id=operation_id, writer_kind=row.writer_kind, commit=commit, leaves=leaves
    )


def _branch(committer: Committer, sidecar: Sidecar | None) -> BranchName:
    """Choose the branch of the commit: the operation's while it exists, else main."""
    branch = None if sidecar is None else sidecar.branch
    return BranchName(branch) if branch in committer.manifest.rows.branches() and branch else MAIN


# ---- leftovers of the operation


def _leaves(
    committer: Committer, audit: Audit, sidecar: Sidecar, held_locks: HeldLocks
) -> tuple[str, ...]:
    try:
        operation = gather(committer, audit, sidecar, held_locks)
    except OmniError as error:
        return (f"its tables cannot be looked at ({error}); run `omnigraphdb doctor`",)
    return (*_list_drifted(operation), *_list_created(operation))


def _list_drifted(operation: GatheredOperation) -> list[str]:
    return [
        f"{seen.pin.table_key} at version {seen.head}, pinned at {seen.visible}: run `omnigraphdb repair`"
        for seen, finding in zip(operation.facts.observed, operation.facts.findings, strict=True)
        if seen.head != seen.visible and finding is not Finding.FOREIGN
    ]


def _list_created(operation: GatheredOperation) -> list[str]:
    forks = [
        f"the fork '{seen.pin.table_branch}' of {seen.pin.table_key}: the next write there takes it over or removes it"
        for seen in operation.facts.observed
        if seen.is_fork
    ]
    if operation.facts.has_leftovers:
        forks.append("tables or schema files of an unfinished schema change")
    return forks
