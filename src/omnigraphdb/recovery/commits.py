"""The commits that recovery publishes, and the record with which each recovery ends."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecar import Sidecar, TableOutcome
from omnigraphdb.errors import NotFoundError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import RECOVERY_ACTOR, BranchName, CommitId, OperationId
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.change import Change, Draft
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.travel import find_commit
from omnigraphdb.recovery.audit import AuditRow, RecoveryKind, row_of
from omnigraphdb.recovery.gather import (
    GatheredOperation,
    find_published_operation,
    find_recovery_commit,
)

_log = get_logger(__name__)


def draft_commit(
    committer: Committer,
    operation_id: OperationId,
    merged: CommitId | None = None,
) -> Draft:
    """Draft the commit of a recovery; it names the operation that it ends."""
    return Draft(
        commit=CommitId(committer.runtime.new_id()),
        kind=CommitKind.RECOVERY,
        actor=RECOVERY_ACTOR,
        merged_parent=merged,
        operation_id=operation_id,
        not_before=0 if merged is None else _created_at(committer.manifest, merged),
    )


def _created_at(manifest: Manifest, commit: CommitId) -> int:
    """Read when a commit was made; 0 when no branch shows the commit any more."""
    try:
        return find_commit(manifest, commit).created_at
    except NotFoundError:
        return 0


def publish_commit(committer: Committer, change: Change) -> CommitId:
    """Publish a change that makes a commit."""
    done = publish(committer.manifest, change)
    assert done.commit is not None, "a draft always makes a commit"
    return done.commit.id


def publish_lineage_only(
    committer: Committer,
    operation_id: OperationId,
    branch: BranchName,
    merge: Sidecar | None = None,
) -> CommitId:
    """Publish a recovery commit without table changes, with the lineage that a merge brings.

    If an earlier recoverer published a commit for this operation, that commit is the answer.
    """
    existing = find_recovery_commit(committer.manifest.current(branch), operation_id)
    if existing is not None:
        return existing.id
    if merge is None:
        return publish_commit(
            committer, Change(branch=branch, draft=draft_commit(committer, operation_id))
        )
    draft = replace(draft_commit(committer, operation_id, merge.merge_source), agreed=merge.agreed)
    change = Change(branch=branch, draft=draft, merged_commits=merge.merged_commits)
    if find_published_operation(merge, committer.manifest.current(branch)) is None:
        change = replace(change, operation=merge.operation)
    return publish_commit(committer, change)


def record_outcome(
    operation: GatheredOperation,
    commit: CommitId,
    kind: RecoveryKind,
    outcomes: Sequence[TableOutcome] = (),
) -> None:
    """Record the outcome once, then disarm the sidecar."""
    fail(Failpoint.AUDIT)
    operation.require_locks()
    now = operation.committer.runtime.now_us()
    row = row_of(operation.sidecar, commit, kind, outcomes, now)
    # The writes of a group that is taken back have no commits; their callers are told, or dead with their process.
    is_forward = kind is RecoveryKind.ROLLED_FORWARD
    operation.audit.record(row, *(_list_member_rows(operation, commit, now) if is_forward else ()))
    _log.info(
        "recovery.settled",
        operation=operation.id,
        kind=str(kind),
        tables={o.table_key: (o.from_version, o.to_version) for o in outcomes},
    )
    operation.require_locks()
    operation.committer.sidecars.disarm(operation.id)


def _list_member_rows(operation: GatheredOperation, last: CommitId, now: int) -> Iterator[AuditRow]:
    """Make a row for each write of a group that is visible, with its own commit and its own versions."""
    if not operation.sidecar.members:
        return
    state = operation.committer.manifest.current(operation.branch)
    for member in operation.sidecar.members:
        recovery_commit = find_recovery_commit(state, member.operation_id)
        own = member.commit_id is not None and state.shows(member.commit_id)
        if recovery_commit is None and not own:
            # It left the group, or was named anew when it was prepared again, after this sidecar was armed.
            continue
        commit = recovery_commit.id if recovery_commit is not None else own.id if own else last
        outcomes = [
            TableOutcome(table_key=p.table_key, from_version=p.expected, to_version=p.post_commit)
            for p in member.tables
        ]
        yield row_of(member, commit, RecoveryKind.ROLLED_FORWARD, outcomes, now)
