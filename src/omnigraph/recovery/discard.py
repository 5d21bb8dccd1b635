"""Discarding by an operator: remove a pending operation, record it, and list what it leaves."""

from typing import Any

from omnigraph.commit.locks import HeldLocks
from omnigraph.commit.protocol import Committer
from omnigraph.commit.sidecar import Sidecar
from omnigraph.commit.sidecars import operation_of
from omnigraph.errors import NotFound, OmniError, RecoveryRequired, SidecarUnreadable
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId
from omnigraph.recovery.audit import Audit, AuditRow, RecoveryKind
from omnigraph.recovery.classify import Finding
from omnigraph.recovery.commits import publish_lineage_only
from omnigraph.recovery.gather import GatheredOperation, gather
from omnigraph.storage.layout import sidecar_path
from omnigraph.values import dataclass

UNKNOWN = "Unknown"
"""The writer of a sidecar that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedRecovery:
    """A discarded operation: the commit that records it, and what it leaves for an operator to repair."""

    operation_id: OperationId
    writer_kind: str
    commit: CommitId
    leaves: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "operation_id": self.operation_id,
            "writer_kind": self.writer_kind,
            "graph_commit_id": self.commit,
            "leaves": list(self.leaves),
        }


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
        unknown = (f"the tables it moved are unknown ({error.reason}); run `omnigraph doctor`",)
        return _record_discard(committer, audit, operation_id, None, unknown)
    if sidecar is None:
        raise NotFound("pending operation", operation_id, hint="its writer has just finished it")
    with committer.locks.try_acquire(sidecar.lock_keys) as held_locks:
        if held_locks is None:
            raise RecoveryRequired(
                operation_id,
                f"operation {operation_id} has a live writer, which will finish it; nothing was changed",
            )
        left = _leaves(committer, audit, sidecar, held_locks)
        return _record_discard(committer, audit, operation_id, sidecar, left)


def _record_discard(
    committer: Committer,
    audit: Audit,
    operation_id: OperationId,
    sidecar: Sidecar | None,
    leaves: tuple[str, ...],
) -> DiscardedRecovery:
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
    committer.sidecars.disarm(operation_id)
    return DiscardedRecovery(
        operation_id=operation_id, writer_kind=row.writer_kind, commit=commit, leaves=leaves
    )


def _branch(committer: Committer, sidecar: Sidecar | None) -> BranchName:
    """Choose the branch of the commit: the operation's while it exists, else main."""
    branch = None if sidecar is None else sidecar.branch
    return BranchName(branch) if branch in committer.manifest.rows.branches() and branch else MAIN


# ---- what it leaves


def _leaves(
    committer: Committer, audit: Audit, sidecar: Sidecar, held_locks: HeldLocks
) -> tuple[str, ...]:
    try:
        operation = gather(committer, audit, sidecar, held_locks)
    except OmniError as error:
        return (f"its tables cannot be looked at ({error}); run `omnigraph doctor`",)
    return (*_list_drifted(operation), *_list_created(operation))


def _list_drifted(operation: GatheredOperation) -> list[str]:
    return [
        f"{seen.pin.table_key} at version {seen.head}, pinned at {seen.visible}: run `omnigraph repair`"
        for seen, finding in zip(operation.facts.observed, operation.facts.findings, strict=True)
        if seen.head != seen.visible and finding is not Finding.FOREIGN
    ]


def _list_created(operation: GatheredOperation) -> list[str]:
    forks = [
        f"the fork '{seen.pin.table_branch}' of {seen.pin.table_key}: the next write there removes it"
        for seen in operation.facts.observed
        if seen.is_fork
    ]
    if operation.facts.has_leftovers:
        forks.append("tables or schema files of an unfinished schema change")
    return forks
