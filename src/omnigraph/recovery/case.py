"""One pending operation under its turns: what was seen of it, and how its settling ends."""

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.commit.locks import HeldLocks
from omnigraph.commit.protocol import Committer
from omnigraph.commit.sidecar import Sidecar, TableOutcome, WriterKind
from omnigraph.errors import NotFoundError, RecoveryRequired
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import RECOVERY_ACTOR, BranchName, CommitId, OperationId
from omnigraph.logs import get_logger
from omnigraph.manifest.change import Change, Draft
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import CommitKind, GraphCommit, graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import find_commit
from omnigraph.recovery.audit import Audit, RecoveryKind, row_of
from omnigraph.recovery.classify import Facts
from omnigraph.recovery.schema_files import StagingAction
from omnigraph.storage.objects.protocol import Objects
from omnigraph.values import dataclass

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pending operation and the state it was judged on; main's when its own branch is gone."""

    committer: Committer
    audit: Audit
    sidecar: Sidecar
    held_locks: HeldLocks
    state: BranchState
    facts: Facts
    staging: StagingAction = StagingAction.NOTHING

    @property
    def id(self) -> OperationId:
        """The operation."""
        return self.sidecar.operation_id

    @property
    def branch(self) -> BranchName:
        """The graph branch it writes."""
        return graph_branch(self.sidecar.branch)

    @property
    def snapshot(self) -> Snapshot:
        """What is visible there."""
        return self.state.snapshot

    @property
    def objects(self) -> Objects:
        """The texts of the graph."""
        return self.committer.sidecars.objects

    @property
    def is_schema_apply(self) -> bool:
        """Whether schema files are part of it."""
        return self.sidecar.writer_kind is WriterKind.SCHEMA_APPLY


def draft(
    committer: Committer,
    operation_id: OperationId,
    merged: CommitId | None = None,
    batch_id: str | None = None,
) -> Draft:
    """The commit of a recovery; it names the operation it settles."""
    return Draft(
        commit=CommitId(committer.runtime.new_id()),
        kind=CommitKind.RECOVERY,
        actor=RECOVERY_ACTOR,
        merged_parent=merged,
        operation_id=operation_id,
        batch_id=batch_id,
        not_before=0 if merged is None else _dated(committer.manifest, merged),
    )


def _dated(manifest: Manifest, commit: CommitId) -> int:
    """When a commit was made, as far as a branch still tells."""
    try:
        return find_commit(manifest, commit).created_at
    except NotFoundError:
        return 0


def recovery_commit(state: BranchState, operation_id: OperationId) -> GraphCommit | None:
    """Find the commit by which an earlier attempt settled this operation."""
    made = state.lineage.listed(actor=RECOVERY_ACTOR)
    return next((commit for commit in made if commit.operation_id == operation_id), None)


def publish_commit(committer: Committer, change: Change) -> CommitId:
    """Publish a change that makes a commit."""
    done = committer.publish(change)
    assert done.commit is not None, "a draft always makes a commit"
    return done.commit.id


def lineage_only(
    committer: Committer,
    operation_id: OperationId,
    branch: BranchName,
    merge: Sidecar | None = None,
) -> CommitId:
    """A recovery commit without table changes, with the lineage that a merge brings; an earlier attempt's is taken
    when there is one."""
    found = recovery_commit(committer.manifest.current(branch), operation_id)
    if found is not None:
        return found.id
    if merge is None:
        return publish_commit(
            committer, Change(branch=branch, draft=draft(committer, operation_id))
        )
    made = replace(draft(committer, operation_id, merge.merge_source), agreed=merge.agreed)
    return publish_commit(committer, Change(branch=branch, draft=made, brought=merge.brought))


def require_locks(case: Case) -> None:
    """Stop before the next effect when a turn was lost: a writer may have begun that believes in its own."""
    lost = case.held_locks.lost()
    if lost is not None:
        raise RecoveryRequired(
            case.id,
            f"operation {case.id} could not be settled: the recoverer lost its turn on {lost.name} while it worked; "
            "the next one goes on where it stopped",
        )


def finish(
    case: Case, commit: CommitId, kind: RecoveryKind, outcomes: Sequence[TableOutcome] = ()
) -> None:
    """Record the outcome once, then disarm."""
    fail(Failpoint.AUDIT)
    row = row_of(case.sidecar, commit, kind, outcomes, case.committer.runtime.now_us())
    case.audit.record(row)
    _log.info(
        "recovery.settled",
        operation=case.id,
        kind=str(kind),
        tables={o.table_key: (o.from_version, o.to_version) for o in outcomes},
    )
    case.committer.sidecars.disarm(case.id)
