"""Acting: publish what landed, or put back what was; then record it and disarm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from omnigraph.commit.protocol import Desk
from omnigraph.commit.queues import Hold, queue_key
from omnigraph.commit.sidecar import Decided, Recorded, Sidecar
from omnigraph.errors import ManifestConflict, RecoveryRequired
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, RECOVERY_ACTOR, BranchName, CommitId, TableKey, Version
from omnigraph.logs import get_logger
from omnigraph.manifest.change import Change, Draft, Update
from omnigraph.manifest.publish import publish
from omnigraph.manifest.records import CommitKind, GraphCommit, graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.recovery.audit import Audit, RecoveryKind, TableOutcome, row_of
from omnigraph.recovery.classify import Finding, Observed, classify
from omnigraph.recovery.observe import table_path
from omnigraph.storage.tables import TableAt

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One pending operation under its turns, with what was seen of it."""

    desk: Desk
    audit: Audit
    sidecar: Sidecar
    hold: Hold
    state: BranchState
    seen: tuple[Observed, ...] = ()

    @property
    def branch(self) -> BranchName:
        """The graph branch it writes."""
        return graph_branch(self.sidecar.branch)

    @property
    def snapshot(self) -> Snapshot:
        """What is visible on that branch."""
        return self.state.snapshot


# ---- forward


def roll_forward(case: Case) -> None:
    """Publish every table at the version that was classified; a rival that did the same is a success."""
    fail(Failpoint.ROLL_FORWARD)
    updates = tuple(_landed_update(case, seen) for seen in case.seen)
    try:
        commit: CommitId | None = _publish(case, updates, merged=case.sidecar.merge_source)
    except ManifestConflict:
        commit = _converged(case)
    if commit is None:
        return
    outcomes = [
        TableOutcome(table_key=s.pin.table_key, from_version=s.pin.expected, to_version=s.head)
        for s in case.seen
    ]
    finish(case, commit, RecoveryKind.ROLLED_FORWARD, outcomes)


def _landed_update(case: Case, seen: Observed) -> Update:
    at = TableAt(
        path=table_path(seen.pin, case.snapshot), branch=seen.pin.table_branch, version=seen.head
    )
    return Update(table_key=seen.pin.table_key, at=at, row_count=case.desk.tables.open(at).count())


def _publish(case: Case, updates: Sequence[Update], merged: CommitId | None = None) -> CommitId:
    sidecar = case.sidecar
    change = Change(
        branch=case.branch,
        updates=(*updates, *_pointer_updates(case)),
        registrations=_missing_registrations(case),
        tombstones=_standing_tombstones(case),
        expected={pin.table_key: pin.expected for pin in sidecar.tables} | dict(sidecar.read_set),
        draft=_draft(case, merged),
    )
    published = publish(case.desk.manifest, change)
    assert published.commit is not None, "a draft always makes a commit"
    return published.commit.id


def _draft(case: Case, merged: CommitId | None = None) -> Draft:
    return Draft(
        commit=CommitId(case.desk.runtime.new_id()),
        kind=CommitKind.RECOVERY,
        actor=RECOVERY_ACTOR,
        merged_parent=merged,
        operation_id=case.sidecar.operation_id,
    )


def _pointer_updates(case: Case) -> list[Update]:
    found = []
    for pointer in case.sidecar.pointer_updates:
        path = pointer.path or case.snapshot.entry(pointer.table_key).at.path
        at = TableAt(path=path, branch=pointer.branch, version=pointer.version)
        entry = case.snapshot.entries.get(pointer.table_key)
        if entry is None or entry.at != at:
            found.append(Update(table_key=pointer.table_key, at=at, row_count=pointer.row_count))
    return found


def _missing_registrations(case: Case) -> dict[TableKey, str]:
    known = case.snapshot.entries
    return {
        r.table_key: r.table_path for r in case.sidecar.registrations if r.table_key not in known
    }


def _standing_tombstones(case: Case) -> dict[TableKey, Version]:
    known = case.snapshot.entries
    return {t.table_key: t.version for t in case.sidecar.tombstones if t.table_key in known}


def _converged(case: Case) -> CommitId | None:
    """After a lost publish: the commit of the rival who reached the goal, or None when it is not ours to end."""
    if case.desk.sidecars.read(case.sidecar.path) is None:
        return None
    state = case.desk.manifest.load(case.branch)
    reached = all(
        (entry := state.snapshot.entries.get(s.pin.table_key)) is not None
        and entry.version >= s.head
        for s in case.seen
    )
    if not reached:
        _log.warning(
            "recovery.deferred", operation=case.sidecar.operation_id, reason="lost publish"
        )
        return None
    return settled_by(state, case.sidecar)


def settled_by(state: BranchState, sidecar: Sidecar) -> CommitId:
    """The commit that settled an operation: by its id, else the newest of recovery, else the head."""
    newest_first = state.lineage.listed()
    for commit in newest_first:
        if sidecar.operation_id == commit.operation_id:
            return commit.id
    for commit in newest_first:
        if commit.actor == RECOVERY_ACTOR:
            return commit.id
    return newest_first[0].id


# ---- back


def roll_back(case: Case) -> None:
    """Put every moved table back to its visible version and publish that, all under a recorded decision."""
    case = _decided(case)
    case = _restored(case)
    _drop_created(case)
    fail(Failpoint.ROLLBACK_RESTORED)
    commit = _repin(case)
    fail(Failpoint.ROLLBACK_PUBLISHED)
    finish(case, commit, RecoveryKind.ROLLED_BACK, _undone(case))


def _decided(case: Case) -> Case:
    if case.sidecar.recorded is not None:
        return case
    sidecar = replace(case.sidecar, recorded=Recorded(decision=Decided.ROLL_BACK))
    case.desk.sidecars.record(sidecar)
    return replace(case, sidecar=sidecar)


def _moved(case: Case) -> list[Observed]:
    return [s for s in case.seen if classify(s, case.sidecar.mode) is not Finding.NO_MOVEMENT]


def _restored(case: Case) -> Case:
    """Restore what moved and was not restored before; each restore is on disk before the next."""
    for seen in _moved(case):
        if seen.fork_exists:
            continue
        recorded = case.sidecar.recorded
        done = {} if recorded is None else dict(recorded.restored)
        if done.get(seen.pin.table_key) == seen.head:
            continue
        landed = case.desk.tables.restore(
            table_path(seen.pin, case.snapshot),
            seen.pin.table_branch,
            seen.visible,
            expected_head=seen.head,
            operation_id=case.sidecar.operation_id,
            actor=RECOVERY_ACTOR,
            lock=case.hold.lock(queue_key(seen.pin.table_key, seen.pin.table_branch)),
        )
        done[seen.pin.table_key] = landed.at.version
        sidecar = replace(
            case.sidecar, recorded=Recorded(decision=Decided.ROLL_BACK, restored=done)
        )
        case.desk.sidecars.record(sidecar)
        case = replace(case, sidecar=sidecar)
    return case


def _drop_created(case: Case) -> None:
    """Remove what only this operation made: forks nobody adopted, datasets nobody registered."""
    for seen in case.seen:
        if seen.fork_exists and seen.pin.table_branch is not None:
            path = table_path(seen.pin, case.snapshot)
            case.desk.tables.drop_fork(path, seen.pin.table_branch)
    registered = {entry.at.path for entry in case.snapshot.entries.values()}
    for registration in case.sidecar.registrations:
        if registration.created and registration.table_path not in registered:
            case.desk.tables.delete_table(registration.table_path)


def _repin(case: Case) -> CommitId:
    """Publish the restored versions, unless an earlier attempt did."""
    recorded = case.sidecar.recorded
    restored = {} if recorded is None else recorded.restored
    behind = {
        table: version
        for table, version in restored.items()
        if case.snapshot.entry(table).version != version
    }
    if restored and not behind:
        return settled_by(case.state, case.sidecar)
    change = Change(
        branch=case.branch,
        updates=tuple(_restored_update(case, table, version) for table, version in behind.items()),
        expected={table: case.snapshot.entry(table).version for table in behind},
        draft=_draft(case),
    )
    published = publish(case.desk.manifest, change)
    assert published.commit is not None
    return published.commit.id


def _restored_update(case: Case, table: TableKey, version: Version) -> Update:
    entry = case.snapshot.entry(table)
    at = TableAt(path=entry.at.path, branch=entry.at.branch, version=version)
    return Update(table_key=table, at=at, row_count=case.desk.tables.open(at).count())


def _undone(case: Case) -> list[TableOutcome]:
    return [
        TableOutcome(
            table_key=s.pin.table_key, from_version=s.pin.post_commit, to_version=s.pin.expected
        )
        if s.head == s.visible
        else TableOutcome(table_key=s.pin.table_key, from_version=s.head, to_version=s.visible)
        for s in case.seen
        if s.head != s.visible or _was_restored(case, s)
    ]


def _was_restored(case: Case, seen: Observed) -> bool:
    recorded = case.sidecar.recorded
    return recorded is not None and seen.pin.table_key in recorded.restored


# ---- nothing to undo


def discard_effect_free(case: Case) -> None:
    """An operation that moved nothing: a commit that says so, and the file goes."""
    _drop_created(case)
    finish(case, _lineage_only(case, case.branch), RecoveryKind.ROLLED_BACK, [])


def settle_stale(case: Case, commit: GraphCommit | None) -> None:
    """An operation that is visible already: only its file was left."""
    outcomes = [
        TableOutcome(
            table_key=pin.table_key,
            from_version=pin.expected,
            to_version=case.snapshot.entry(pin.table_key).version
            if pin.table_key in case.snapshot.entries
            else pin.post_commit,
        )
        for pin in case.sidecar.tables
    ]
    settled = _lineage_only(case, case.branch) if commit is None else commit.id
    finish(case, settled, RecoveryKind.ROLLED_FORWARD, outcomes)


def discard_orphan(case: Case) -> None:
    """An operation of a branch that is gone."""
    finish(case, _lineage_only(case, MAIN), RecoveryKind.ORPHANED_BRANCH_DISCARDED, [])


def _lineage_only(case: Case, branch: BranchName) -> CommitId:
    """A recovery commit without table changes; an earlier attempt's is taken when there is one."""
    state = case.desk.manifest.current(branch)
    for commit in state.lineage.listed(limit=_LOOK_BACK):
        if commit.operation_id == case.sidecar.operation_id and commit.actor == RECOVERY_ACTOR:
            return commit.id
    published = publish(case.desk.manifest, Change(branch=branch, draft=_draft(case)))
    assert published.commit is not None
    return published.commit.id


_LOOK_BACK = 1_000
"""Commits searched for an earlier attempt of the same recovery; it lies only a few back."""


# ---- the end


def finish(
    case: Case, commit: CommitId, kind: RecoveryKind, outcomes: Sequence[TableOutcome]
) -> None:
    """Record the outcome once, then disarm."""
    fail(Failpoint.AUDIT)
    row = row_of(case.sidecar, commit, kind, outcomes, case.desk.runtime.now_us())
    case.audit.record(row)
    _log.info(
        "recovery.settled",
        operation=case.sidecar.operation_id,
        kind=str(kind),
        tables={o.table_key: (o.from_version, o.to_version) for o in outcomes},
    )
    case.desk.sidecars.disarm(case.sidecar.operation_id)


def moved_elsewhere(case: Case) -> Mapping[TableKey, Version]:
    """Tables of the read set that are no longer where the operation relied on them."""
    entries = case.snapshot.entries
    return {
        table: entries[table].version if table in entries else Version(0)
        for table, expected in case.sidecar.read_set.items()
        if table not in entries or entries[table].version != expected
    }


def aborted(case: Case) -> RecoveryRequired:
    """The error of an operation whose tables stand where no writer can have left them."""
    seen = ", ".join(
        f"{s.pin.table_key} HEAD {s.head} pin {s.visible}: {classify(s, case.sidecar.mode)}"
        for s in case.seen
    )
    return RecoveryRequired(
        case.sidecar.operation_id,
        f"operation {case.sidecar.operation_id} ('{case.sidecar.path}') cannot be settled: {seen}; nothing was "
        "changed, restore the missing table versions or discard the operation",
    )
