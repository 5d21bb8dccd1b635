"""Operations with nothing left to do: they never began, are visible already, or their branch is gone."""

from omnigraph.commit.sidecar import TableOutcome
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, CommitId
from omnigraph.recovery.audit import RecoveryKind
from omnigraph.recovery.case import Case, finish, lineage_only
from omnigraph.recovery.roll_back import drop_created, drop_fork, may_move_late, roll_back
from omnigraph.recovery.schema_files import StagingAction, promote


def discard(case: Case) -> None:
    """Drop an operation that moved nothing, so that it never will: a commit says so, and the file goes."""
    if may_move_late(case):
        roll_back(case)
        return
    drop_created(case)
    finish(case, lineage_only(case.committer, case.id, case.branch), RecoveryKind.ROLLED_BACK)


def settle_stale(case: Case) -> None:
    """Record an operation that is visible: only its file was left."""
    if case.staging is StagingAction.PROMOTE:
        promote(case.objects)
    finish(case, _visible_commit(case), RecoveryKind.ROLLED_FORWARD, _outcomes(case))


def discard_orphan(case: Case) -> None:
    """Drop an operation of a branch that is gone, and the forks it made there."""
    for pin in case.sidecar.tables:
        if pin.table_branch is not None and pin.table_branch == case.sidecar.branch:
            drop_fork(case, pin)
    commit = lineage_only(case.committer, case.id, MAIN)
    fail(Failpoint.ORPHAN_AUDIT)
    finish(case, commit, RecoveryKind.ORPHANED_BRANCH_DISCARDED)


def _visible_commit(case: Case) -> CommitId:
    """The commit that made it visible: its own, else one that recovery makes for it."""
    own = case.sidecar.commit_id
    if own is not None and case.state.shows(own) is not None:
        return own
    source = case.sidecar.merge_source
    if source is None or not case.facts.is_satisfied:
        return lineage_only(case.committer, case.id, case.branch)
    merged = (c.id for c in case.state.lineage.listed() if c.merged_parent == source)
    return next(merged, None) or lineage_only(case.committer, case.id, case.branch, case.sidecar)


def _outcomes(case: Case) -> list[TableOutcome]:
    pins = case.snapshot.pins
    return [
        TableOutcome(
            table_key=pin.table_key,
            from_version=pin.expected,
            to_version=pins.get(pin.table_key, pin.post_commit),
        )
        for pin in case.sidecar.tables
    ]
