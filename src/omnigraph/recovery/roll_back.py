"""Rolling back: put every table the operation moved back to what is visible, under a recorded decision.

A kernel lock ends with its process, and so does everything the process was about to write. On an object store a PUT
of a dead writer may be on its way for longer than its lease. So each table that did not move gets a version of its
own there that changes nothing: it takes the version that the dead writer's PUT would create, and the PUT is refused.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from omnigraph.commit.forks import fork_table
from omnigraph.commit.plan import TableWrite
from omnigraph.commit.sidecar import Decided, Pin, Recorded, Registration, TableOutcome
from omnigraph.errors import NotFoundError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, RECOVERY_ACTOR, BranchName, CommitId, TableKey, Version
from omnigraph.manifest.change import Change, Update
from omnigraph.manifest.forks import ForkStatus, fork_status
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import graph_branch
from omnigraph.manifest.table_history import TableIncarnation
from omnigraph.recovery.audit import RecoveryKind
from omnigraph.recovery.case import (
    Case,
    draft,
    finish,
    lineage_only,
    publish_commit,
    require_locks,
)
from omnigraph.recovery.classify import REACHED, UNTOUCHED, Finding, Observed
from omnigraph.recovery.observe import table_path
from omnigraph.recovery.schema_files import remove

_KEPT = UNTOUCHED | (REACHED - {Finding.ROLLED_PAST_EXPECTED})
"""Findings of tables that a roll-back leaves alone: nothing of the operation is past what is visible."""


def roll_back(case: Case) -> None:
    """Restore, remove what only this operation made, publish the restored versions, record."""
    case, recorded = _record_decision(case)
    fail(Failpoint.ROLLBACK_DECIDED)
    case, recorded = _restore_moved(case, recorded)
    drop_created(case, recorded.restored)
    fail(Failpoint.ROLLBACK_RESTORED)
    commit = _repin(case, recorded)
    fail(Failpoint.ROLLBACK_PUBLISHED)
    finish(case, commit, RecoveryKind.ROLLED_BACK, recorded.outcomes)


def _list_moved(case: Case) -> Iterator[Observed]:
    for seen, finding in zip(case.facts.seen, case.facts.findings, strict=True):
        if finding not in _KEPT and seen.visible:
            yield seen


# ---- the decision


def _record_decision(case: Case) -> tuple[Case, Recorded]:
    """Record the decision and what it will undo, before the first destructive act."""
    known = case.sidecar.recorded
    if known is not None and (known.outcomes or known.restored):
        return case, known
    return _record_restored(
        case, Recorded(decision=Decided.ROLL_BACK, outcomes=tuple(_outcomes(case)))
    )


def _outcomes(case: Case) -> Iterator[TableOutcome]:
    for seen in _list_moved(case):
        yield TableOutcome(
            table_key=seen.pin.table_key, from_version=seen.head, to_version=seen.visible
        )


def _record_restored(case: Case, recorded: Recorded) -> tuple[Case, Recorded]:
    sidecar = case.sidecar.decided(recorded)
    if sidecar != case.sidecar:
        case.committer.sidecars.record(sidecar)
    return replace(case, sidecar=sidecar), recorded


# ---- the tables


def may_move_late(case: Case) -> bool:
    """Whether a PUT of the dead writer may still move a table of the operation."""
    return any(_still(case))


def _still(case: Case) -> Iterator[Observed]:
    """Tables that did not move, and whose next version a PUT on its way could still create."""
    for seen, finding in zip(case.facts.seen, case.facts.findings, strict=True):
        is_next_free = seen.head == seen.visible == seen.pin.expected
        if finding is Finding.NO_MOVEMENT and is_next_free and _is_open(case, seen.pin):
            yield seen


def _is_open(case: Case, pin: Pin) -> bool:
    """Whether a write of the dead holder of a lock may come after its death."""
    return not case.held_locks.lock(pin.lock_key).exclusive


def _restore_moved(case: Case, recorded: Recorded) -> tuple[Case, Recorded]:
    """Restore what moved and was not restored before, and what could still move; each is on disk before the next."""
    for seen in (*_list_moved(case), *_still(case)):
        if seen.is_fork and not _is_open(case, seen.pin):
            continue
        version = seen.head if seen.is_restored else _restore(case, seen)
        done = {**recorded.restored, seen.pin.table_key: version}
        case, recorded = _record_restored(case, replace(recorded, restored=done))
    return case, recorded


def _restore(case: Case, seen: Observed) -> Version:
    """Move HEAD to a copy of what is visible; a fork that could still appear is made first, and so taken."""
    require_locks(case)
    head = seen.head
    if _is_fork_missing(case, seen):
        head = fork_table(
            case.committer.tables, case.committer.manifest, _first_write(case, seen.pin)
        ).version
    landed = case.committer.tables.restore(
        table_path(seen.pin, case.snapshot),
        seen.pin.table_branch,
        seen.visible,
        expected_head=head,
        operation_id=case.id,
        actor=RECOVERY_ACTOR,
        lock=case.held_locks.lock(seen.pin.lock_key),
    )
    fail(Failpoint.ROLLBACK_TABLE_RESTORED)
    return landed.at.version


def _is_fork_missing(case: Case, seen: Observed) -> bool:
    placed = case.snapshot.entry(seen.pin.table_key).at.branch
    return not seen.is_fork and placed != seen.pin.table_branch


def _first_write(case: Case, pin: Pin) -> TableWrite:
    """The first write of a table on a branch, as far as its fork goes."""
    base = case.snapshot.entry(pin.table_key).at
    return TableWrite(table_key=pin.table_key, base=base, strict=False, fork=pin.table_branch)


def _repin(case: Case, recorded: Recorded) -> CommitId:
    """Publish the restored versions, unless an earlier attempt did."""
    pins = case.snapshot.pins
    behind = {
        table: version
        for table, version in recorded.restored.items()
        if pins.get(table, version) < version
    }
    if not behind:
        return lineage_only(case.committer, case.id, case.branch)
    change = Change(
        branch=case.branch,
        updates=tuple(_make_repin(case, table, version) for table, version in behind.items()),
        expected={table: pins[table] for table in behind},
        draft=draft(case.committer, case.id),
    )
    return publish_commit(case.committer, change)


def _make_repin(case: Case, table: TableKey, version: Version) -> Update:
    branch = next(pin.table_branch for pin in case.sidecar.tables if pin.table_key == table)
    at = replace(case.snapshot.entry(table).at, branch=branch, version=version)
    return Update(table_key=table, at=at, row_count=case.committer.tables.open(at).count())


# ---- what only this operation made


def drop_created(case: Case, restored: Collection[TableKey] = ()) -> None:
    """Remove forks nobody adopts, tables nobody registered, and staged schema files."""
    for seen, finding in zip(case.facts.seen, case.facts.findings, strict=True):
        adopted = seen.pin.table_key in restored
        if seen.is_fork and finding is not Finding.FOREIGN and not adopted:
            drop_fork(case, seen.pin)
    for registration in case.sidecar.registrations:
        if _is_nobodys(case, registration):
            case.committer.tables.delete_table(registration.table_path)
    if case.is_schema_apply:
        remove(case.objects)


def drop_fork(case: Case, pin: Pin) -> None:
    """Remove the fork of a pin, if no manifest places the table on it."""
    path = table_path(pin, case.snapshot)
    if pin.table_branch is None or pin.table_branch not in case.committer.tables.forks(path):
        return
    if (
        fork_status(case.committer.manifest, path, graph_branch(pin.table_branch))
        is ForkStatus.ORPHAN
    ):
        case.committer.tables.drop_fork(path, pin.table_branch)


def _is_nobodys(case: Case, registration: Registration) -> bool:
    """Whether this operation made the table, and no manifest of any branch and no other operation knows its place."""
    path = registration.table_path
    rivals = (one for one in case.committer.sidecars.pending() if one.operation_id != case.id)
    claimed = {r.table_path for rival in rivals for r in rival.registrations}
    if not registration.created or path in claimed:
        return False
    manifest = case.committer.manifest
    branches = (MAIN, *map(BranchName, manifest.rows.branches()))
    return not any(
        life.path == path
        for branch in branches
        for named in _table_history(manifest, branch)
        for life in named
    )


def _table_history(
    manifest: Manifest, branch: BranchName
) -> Iterable[tuple[TableIncarnation, ...]]:
    """The tables a branch names; none when it was deleted since the branches were listed."""
    try:
        return manifest.load(branch).table_history.by_key.values()
    except NotFoundError:
        if branch == MAIN or branch in manifest.rows.branch_names():
            raise
        return ()
