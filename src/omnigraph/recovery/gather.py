"""Gathering the facts of one pending operation."""

from omnigraph.commit.locks import HeldLocks
from omnigraph.commit.protocol import Committer
from omnigraph.commit.sidecar import Sidecar, WriterKind
from omnigraph.ids import MAIN
from omnigraph.manifest.records import graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.recovery.audit import Audit
from omnigraph.recovery.case import Case, recovery_commit
from omnigraph.recovery.classify import Facts
from omnigraph.recovery.observe import observe
from omnigraph.recovery.roll_forward import is_reached
from omnigraph.recovery.schema_files import StagingAction, is_placed, judge_staging, read_staging


def gather(committer: Committer, audit: Audit, sidecar: Sidecar, held_locks: HeldLocks) -> Case:
    """Read everything a verdict depends on, fresh, changing nothing."""
    alive = _is_alive(committer, sidecar)
    state = committer.manifest.current(graph_branch(sidecar.branch) if alive else MAIN)
    staging = _staging(committer, sidecar, state.snapshot) if alive else StagingAction.NOTHING
    facts = Facts(sidecar=sidecar, is_alive=False)
    if alive:
        facts = Facts(
            sidecar=sidecar,
            seen=observe(sidecar, state.snapshot, committer.tables),
            is_published=_is_published(committer, sidecar, state)
            or _is_completed(audit, sidecar, state, staging),
            is_reached=is_reached(sidecar, state.snapshot),
            relies=_relies(sidecar, state.snapshot),
            has_leftovers=_has_leftovers(committer, sidecar, state.snapshot, staging),
            may_complete=sidecar.writer_kind is not WriterKind.SCHEMA_APPLY
            or staging is StagingAction.PROMOTE,
        )
    return Case(
        committer=committer,
        audit=audit,
        sidecar=sidecar,
        held_locks=held_locks,
        state=state,
        facts=facts,
        staging=staging,
    )


def _is_published(committer: Committer, sidecar: Sidecar, state: BranchState) -> bool:
    """Whether its own commit is visible, or the schema it brings is in place, which comes after any publish."""
    if sidecar.commit_id is not None and state.shows(sidecar.commit_id) is not None:
        return True
    hash_ = sidecar.schema_hash
    return hash_ is not None and is_placed(committer.sidecars.objects, hash_)


def _is_completed(
    audit: Audit, sidecar: Sidecar, state: BranchState, staging: StagingAction
) -> bool:
    """Whether an earlier recoverer made it visible and died before its record.

    Of the commits that name an operation only a completing one shows tables, brings a merged parent, or leaves
    schema files to be put in place; a decision to roll back is in the sidecar before its commit.
    """
    made = recovery_commit(state, sidecar.operation_id)
    if made is None or sidecar.recorded is not None:
        return False
    if sidecar.operation_id in audit.rolled_back():
        # Its sidecar came once more, after its roll-back.
        return False
    waits = staging is StagingAction.PROMOTE
    return waits or bool(made.tables) or made.merged_parent is not None


def _is_alive(committer: Committer, sidecar: Sidecar) -> bool:
    """Whether the branch is there, in the life the operation wrote; the list decides, never a failed open."""
    if sidecar.branch is None:
        return True
    ref = committer.manifest.rows.branches().get(sidecar.branch)
    return ref is not None and (
        sidecar.branch_incarnation is None or ref.incarnation == sidecar.branch_incarnation
    )


def _relies(sidecar: Sidecar, snapshot: Snapshot) -> bool:
    pins = snapshot.pins
    return all(pins.get(table) == expected for table, expected in sidecar.read_set.items())


def _staging(committer: Committer, sidecar: Sidecar, snapshot: Snapshot) -> StagingAction:
    if sidecar.writer_kind is not WriterKind.SCHEMA_APPLY:
        return StagingAction.NOTHING
    seen = read_staging(committer.sidecars.objects, snapshot, is_covered=True)
    foreign = seen.staged is not None and sidecar.schema_hash not in (None, seen.staged.hash)
    return StagingAction.HOLD_BACK if foreign else judge_staging(seen)


def _has_leftovers(
    committer: Committer, sidecar: Sidecar, snapshot: Snapshot, staging: StagingAction
) -> bool:
    """Whether tables or schema files that only this operation made are there."""
    made = (
        registration.table_path
        for registration in sidecar.registrations
        if registration.created and registration.table_key not in snapshot.entries
    )
    return staging is not StagingAction.NOTHING or any(
        committer.tables.exists(path) for path in made
    )
