"""Acting: carry out the decision on one pending operation and record the outcome."""

from dataclasses import replace
from enum import StrEnum

from omnigraphdb.commit.schema_files import install_staged_files
from omnigraphdb.commit.sidecar import Pin, Registration, Sidecar, TableOutcome
from omnigraphdb.errors import ManifestConflict, RecoveryRequired
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, CommitId, TableKey, Version
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.operations import KeyPublished
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.recovery.classify import Decision, Observed, decide
from omnigraphdb.recovery.commits import (
    draft_commit,
    publish_commit,
    publish_lineage_only,
    record_outcome,
)
from omnigraphdb.recovery.gather import (
    GatheredOperation,
    find_recovery_commit,
    is_reached,
    table_path,
)
from omnigraphdb.recovery.roll_back import drop_created, drop_fork, may_move_late, roll_back
from omnigraphdb.recovery.schema_files import StagingAction
from omnigraphdb.storage.values import TableAt

_log = get_logger(__name__)


class RecoveryMode(StrEnum):
    """The permitted actions of a recoverer."""

    FORWARD_ONLY = "forward_only"
    FULL = "full"


class Outcome(StrEnum):
    """The outcome of a pending operation."""

    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"
    DEFERRED = "deferred"
    ALIVE = "alive"
    GONE = "gone"

    @property
    def is_ended(self) -> bool:
        """Whether this recoverer ended it."""
        return self in (Outcome.ROLLED_FORWARD, Outcome.ROLLED_BACK, Outcome.DISCARDED)


def act(operation: GatheredOperation, power: RecoveryMode) -> Outcome:
    """Carry out the decision on an operation, as far as the power allows."""
    match decide(operation.facts):
        case Decision.ABORT:
            if power is RecoveryMode.FULL:
                raise _make_abort_error(operation)
            return Outcome.DEFERRED
        case Decision.ROLL_FORWARD:
            return Outcome.ROLLED_FORWARD if roll_forward(operation) else Outcome.DEFERRED
        case Decision.ROLL_BACK:
            if power is RecoveryMode.FORWARD_ONLY:
                return Outcome.DEFERRED
            roll_back(operation)
            return Outcome.ROLLED_BACK
        case Decision.DISCARD:
            discard_unstarted(operation)
            return Outcome.ROLLED_BACK
        case Decision.STALE:
            finish_visible(operation)
            return Outcome.ROLLED_FORWARD
        case Decision.ORPHAN:
            discard_orphan(operation)
            return Outcome.DISCARDED
        case Decision.GIVEN_UP:
            finish_discard(operation)
            return Outcome.DISCARDED


def _make_abort_error(operation: GatheredOperation) -> RecoveryRequired:
    """Make the error for tables at versions that no writer can have left."""
    seen = ", ".join(
        f"{s.pin.table_key} HEAD {s.head} pin {s.visible}: {finding}"
        for s, finding in zip(operation.facts.observed, operation.facts.findings, strict=True)
    )
    return RecoveryRequired(
        operation.sidecar.operation_id,
        f"operation {operation.sidecar.operation_id} ('{operation.sidecar.path}') cannot be recovered: {seen}; "
        "nothing was changed, restore the missing table versions or discard the operation",
    )


# ---- rolling forward


def roll_forward(operation: GatheredOperation) -> bool:
    """Make the whole operation visible; True also when a rival did so, False when a rival's commit is in the way."""
    fail(Failpoint.ROLL_FORWARD)
    try:
        commit: CommitId | None = publish_commit(operation.committer, _change(operation))
    except (ManifestConflict, KeyPublished):
        if operation.committer.sidecars.find(operation.id) is None:
            return True
        commit = _find_rival_commit(operation)
    if commit is None:
        return False
    if operation.staging is StagingAction.PROMOTE:
        # After the publish, in the writer's order, so that a crash between the two is recognised.
        install_staged_files(operation.objects, operation.require_locks)
    record_outcome(operation, commit, RecoveryKind.ROLLED_FORWARD, _head_outcomes(operation))
    return True


def _change(operation: GatheredOperation) -> Change:
    """Build the change that makes an operation visible; a group gets a commit for each of its writes, in one swap."""
    if not operation.sidecar.members:
        return _single_change(operation)
    *before, last = (_member_change(operation, member) for member in operation.sidecar.members)
    return replace(last, before=tuple(before))


def _member_change(operation: GatheredOperation, member: Sidecar) -> Change:
    moved_keys = {s.pin.table_key for s in operation.facts.observed if s.head > s.visible}
    pins = [pin for pin in member.tables if pin.table_key in moved_keys]
    draft = draft_commit(operation.committer, member.operation_id)
    return Change(
        branch=operation.branch,
        branch_incarnation=operation.sidecar.branch_incarnation,
        updates=tuple(_make_member_update(operation, pin) for pin in pins),
        expected={**operation.sidecar.read_set, **{pin.table_key: pin.expected for pin in pins}},
        draft=replace(draft, message=member.message, group=operation.id),
        if_head=member.if_commit,
        operation=member.operation,
    )


def _make_member_update(operation: GatheredOperation, pin: Pin) -> Update:
    path = table_path(pin, operation.snapshot)
    at = TableAt(path=path, branch=pin.table_branch, version=pin.post_commit)
    return replace(_update(operation, pin.table_key, at), digests=pin.digests)


def _single_change(operation: GatheredOperation) -> Change:
    moved_tables = [seen for seen in operation.facts.observed if seen.head > seen.visible]
    missing = [
        r for r in operation.sidecar.registrations if r.table_key not in operation.snapshot.entries
    ]
    # A renamed table is published under its new key, by its registration.
    registered_paths = {r.table_path for r in operation.sidecar.registrations}
    live_tombstones = [
        t for t in operation.sidecar.tombstones if t.table_key in operation.snapshot.entries
    ]
    expected = dict(operation.sidecar.read_set)
    expected |= {seen.pin.table_key: seen.visible for seen in operation.facts.observed}
    expected |= {r.table_key: Version(0) for r in missing}
    expected |= {t.table_key: Version(t.version - 1) for t in live_tombstones}
    return Change(
        branch=operation.branch,
        branch_incarnation=operation.sidecar.branch_incarnation,
        updates=(
            *(
                _make_update(operation, seen)
                for seen in moved_tables
                if seen.pin.table_path not in registered_paths
            ),
            *(_make_registration(operation, r) for r in missing),
            *_list_pointer_updates(operation),
        ),
        registrations={r.table_key: r.table_path for r in missing},
        tombstones={t.table_key: t.version for t in live_tombstones},
        expected=expected,
        draft=_draft(operation),
        if_head=operation.sidecar.if_commit,
        merged_commits=operation.sidecar.merged_commits,
        operation=operation.sidecar.operation,
    )


def _draft(operation: GatheredOperation) -> Draft:
    sidecar = operation.sidecar
    draft = draft_commit(operation.committer, operation.id, sidecar.merge_source)
    return replace(
        draft,
        agreed=sidecar.agreed,
        message=sidecar.message,
        batch_id=sidecar.batch_id,
        batch_request=sidecar.batch_request,
    )


def _make_update(operation: GatheredOperation, seen: Observed) -> Update:
    path = table_path(seen.pin, operation.snapshot)
    at = TableAt(path=path, branch=seen.pin.table_branch, version=seen.head)
    return replace(_update(operation, seen.pin.table_key, at), digests=seen.pin.digests)


def _make_registration(operation: GatheredOperation, registration: Registration) -> Update:
    path, branch = registration.table_path, registration.table_branch
    head = operation.committer.tables.head(path, branch)
    return _update(
        operation, registration.table_key, TableAt(path=path, branch=branch, version=head)
    )


def _update(operation: GatheredOperation, table: TableKey, at: TableAt) -> Update:
    return Update(table_key=table, at=at, row_count=operation.committer.tables.open(at).count())


def _list_pointer_updates(operation: GatheredOperation) -> list[Update]:
    updates = []
    for pointer in operation.sidecar.pointer_updates:
        path = pointer.path or operation.snapshot.entry(pointer.table_key).at.path
        at = TableAt(path=path, branch=pointer.branch, version=pointer.version)
        entry = operation.snapshot.entries.get(pointer.table_key)
        if entry is None or entry.at != at:
            updates.append(Update(table_key=pointer.table_key, at=at, row_count=pointer.row_count))
    return updates


def _find_rival_commit(operation: GatheredOperation) -> CommitId | None:
    """Find the commit by which a rival, or the writer itself, made the operation visible; None when nobody did."""
    state = operation.committer.manifest.load(operation.branch)
    own = operation.sidecar.commit_id
    if own is not None and state.shows(own) is not None:
        # The publish of the dead writer arrived late.
        return own
    entries = state.snapshot.entries
    dropped = {tombstone.table_key for tombstone in operation.sidecar.tombstones}
    all_reached = all(
        (entry := entries.get(seen.pin.table_key)) is not None and entry.version >= seen.head
        for seen in operation.facts.observed
        if seen.pin.table_key not in dropped
    )
    if not all_reached or not is_reached(operation.sidecar, state.snapshot):
        _log.warning("recovery.lost_publish", operation=operation.id)
        return None
    # Recoverers of earlier releases record only their actor; the head may be a later writer's by now.
    newest = next(iter(state.lineage.listed(actor=RECOVERY_ACTOR, limit=1)), None)
    commit = find_recovery_commit(state, operation.id) or newest
    return (
        commit.id
        if commit is not None
        else publish_lineage_only(operation.committer, operation.id, operation.branch)
    )


def _head_outcomes(operation: GatheredOperation) -> list[TableOutcome]:
    return [
        TableOutcome(table_key=s.pin.table_key, from_version=s.pin.expected, to_version=s.head)
        for s in operation.facts.observed
    ]


# ---- nothing left to do


def discard_unstarted(operation: GatheredOperation) -> None:
    """Discard an operation that moved nothing: publish a commit that says so, and remove the sidecar."""
    if may_move_late(operation):
        roll_back(operation)
        return
    drop_created(operation)
    record_outcome(
        operation,
        publish_lineage_only(operation.committer, operation.id, operation.branch),
        RecoveryKind.ROLLED_BACK,
    )


def finish_visible(operation: GatheredOperation) -> None:
    """Record an operation that is visible and whose sidecar was left."""
    if operation.staging is StagingAction.PROMOTE:
        install_staged_files(operation.objects, operation.require_locks)
    record_outcome(
        operation, _visible_commit(operation), RecoveryKind.ROLLED_FORWARD, _pin_outcomes(operation)
    )


def discard_orphan(operation: GatheredOperation) -> None:
    """Discard an operation of a deleted branch, and the forks it made there."""
    for pin in operation.sidecar.tables:
        if pin.table_branch is not None and pin.table_branch == operation.sidecar.branch:
            drop_fork(operation, pin)
    commit = publish_lineage_only(operation.committer, operation.id, MAIN)
    fail(Failpoint.ORPHAN_AUDIT)
    record_outcome(operation, commit, RecoveryKind.ORPHANED_BRANCH_DISCARDED)


def finish_discard(operation: GatheredOperation) -> None:
    """Complete the discarding of an operation whose operator was interrupted; its table versions stay."""
    commit = publish_lineage_only(operation.committer, operation.id, operation.state.branch)
    record_outcome(operation, commit, RecoveryKind.DISCARDED)


def _visible_commit(operation: GatheredOperation) -> CommitId:
    """Return the commit that made the operation visible: its own, or else a commit that recovery publishes for it."""
    own = operation.sidecar.commit_id
    if own is not None and operation.state.shows(own) is not None:
        return own
    source = operation.sidecar.merge_source
    if source is None or not operation.facts.is_satisfied:
        return publish_lineage_only(operation.committer, operation.id, operation.branch)
    merged = (c.id for c in operation.state.lineage.listed() if c.merged_parent == source)
    return next(merged, None) or publish_lineage_only(
        operation.committer, operation.id, operation.branch, operation.sidecar
    )


def _pin_outcomes(operation: GatheredOperation) -> list[TableOutcome]:
    pins = operation.snapshot.pins
    return [
        TableOutcome(
            table_key=pin.table_key,
            from_version=pin.expected,
            to_version=pins.get(pin.table_key, pin.post_commit),
        )
        for pin in operation.sidecar.tables
    ]
