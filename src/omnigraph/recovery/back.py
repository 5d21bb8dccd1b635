"""Rolling back: put every table the operation moved back to what is visible, under a recorded decision."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from omnigraph.commit.sidecar import Decided, Pin, Recorded, Registration, TableOutcome
from omnigraph.errors import NotFoundError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, RECOVERY_ACTOR, BranchName, CommitId, TableKey, Version
from omnigraph.manifest.change import Change, Update
from omnigraph.manifest.forks import ForkStatus, fork_status
from omnigraph.manifest.lives import Life
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import graph_branch
from omnigraph.recovery.audit import RecoveryKind
from omnigraph.recovery.case import (
    Case,
    draft,
    finish,
    lineage_only,
    published,
    require_turns,
)
from omnigraph.recovery.classify import REACHED, UNTOUCHED, Finding, Observed
from omnigraph.recovery.observe import table_path
from omnigraph.recovery.staging import remove

_KEPT = UNTOUCHED | (REACHED - {Finding.ROLLED_PAST_EXPECTED})
"""Findings of tables that a roll-back leaves alone: nothing of the operation is past what is visible."""


def roll_back(case: Case) -> None:
    """Restore, remove what only this operation made, publish the restored versions, record."""
    case, recorded = _decided(case)
    fail(Failpoint.ROLLBACK_DECIDED)
    case, recorded = _restored(case, recorded)
    drop_created(case)
    fail(Failpoint.ROLLBACK_RESTORED)
    commit = _repin(case, recorded)
    fail(Failpoint.ROLLBACK_PUBLISHED)
    finish(case, commit, RecoveryKind.ROLLED_BACK, recorded.outcomes)


def _moved(case: Case) -> Iterator[Observed]:
    for seen, finding in zip(case.facts.seen, case.facts.findings, strict=True):
        if finding not in _KEPT and seen.visible:
            yield seen


# ---- the decision


def _decided(case: Case) -> tuple[Case, Recorded]:
    """Record the decision and what it will undo, before the first destructive act."""
    known = case.sidecar.recorded
    if known is not None and (known.outcomes or known.restored):
        return case, known
    return _noted(case, Recorded(decision=Decided.ROLL_BACK, outcomes=tuple(_outcomes(case))))


def _outcomes(case: Case) -> Iterator[TableOutcome]:
    for seen in _moved(case):
        yield TableOutcome(
            table_key=seen.pin.table_key, from_version=seen.head, to_version=seen.visible
        )


def _noted(case: Case, recorded: Recorded) -> tuple[Case, Recorded]:
    sidecar = case.sidecar.decided(recorded)
    if sidecar != case.sidecar:
        case.desk.sidecars.record(sidecar)
    return replace(case, sidecar=sidecar), recorded


# ---- the tables


def _restored(case: Case, recorded: Recorded) -> tuple[Case, Recorded]:
    """Restore what moved and was not restored before; each restore is on disk before the next."""
    for seen in _moved(case):
        if seen.is_fork:
            continue
        version = seen.head if seen.is_restored else _restore(case, seen)
        done = {**recorded.restored, seen.pin.table_key: version}
        case, recorded = _noted(case, replace(recorded, restored=done))
    return case, recorded


def _restore(case: Case, seen: Observed) -> Version:
    require_turns(case)
    landed = case.desk.tables.restore(
        table_path(seen.pin, case.snapshot),
        seen.pin.table_branch,
        seen.visible,
        expected_head=seen.head,
        operation_id=case.id,
        actor=RECOVERY_ACTOR,
        lock=case.hold.lock(seen.pin.queue),
    )
    fail(Failpoint.ROLLBACK_TABLE_RESTORED)
    return landed.at.version


def _repin(case: Case, recorded: Recorded) -> CommitId:
    """Publish the restored versions, unless an earlier attempt did."""
    pins = case.snapshot.pins
    behind = {
        table: version
        for table, version in recorded.restored.items()
        if pins.get(table, version) < version
    }
    if not behind:
        return lineage_only(case.desk, case.id, case.branch)
    change = Change(
        branch=case.branch,
        updates=tuple(_repinned(case, table, version) for table, version in behind.items()),
        expected={table: pins[table] for table in behind},
        draft=draft(case.desk, case.id),
    )
    return published(case.desk, change)


def _repinned(case: Case, table: TableKey, version: Version) -> Update:
    at = replace(case.snapshot.entry(table).at, version=version)
    return Update(table_key=table, at=at, row_count=case.desk.tables.open(at).count())


# ---- what only this operation made


def drop_created(case: Case) -> None:
    """Remove forks nobody adopted, tables nobody registered, and staged schema files."""
    for seen, finding in zip(case.facts.seen, case.facts.findings, strict=True):
        if seen.is_fork and finding is not Finding.FOREIGN:
            drop_fork(case, seen.pin)
    for registration in case.sidecar.registrations:
        if _is_nobodys(case, registration):
            case.desk.tables.delete_table(registration.table_path)
    if case.is_schema_apply:
        remove(case.objects)


def drop_fork(case: Case, pin: Pin) -> None:
    """Remove the fork of a pin, if no manifest places the table on it."""
    path = table_path(pin, case.snapshot)
    if pin.table_branch is None or pin.table_branch not in case.desk.tables.forks(path):
        return
    if fork_status(case.desk.manifest, path, graph_branch(pin.table_branch)) is ForkStatus.ORPHAN:
        case.desk.tables.drop_fork(path, pin.table_branch)


def _is_nobodys(case: Case, registration: Registration) -> bool:
    """Whether this operation made the table, and no manifest of any branch and no other operation knows its place."""
    path = registration.table_path
    rivals = (one for one in case.desk.sidecars.pending() if one.operation_id != case.id)
    claimed = {r.table_path for rival in rivals for r in rival.registrations}
    if not registration.created or path in claimed:
        return False
    manifest = case.desk.manifest
    branches = (MAIN, *map(BranchName, manifest.rows.branches()))
    return not any(
        life.path == path
        for branch in branches
        for named in _lives(manifest, branch)
        for life in named
    )


def _lives(manifest: Manifest, branch: BranchName) -> Iterable[tuple[Life, ...]]:
    """The tables a branch names; none when it was deleted since the branches were listed."""
    try:
        return manifest.load(branch).lives.by_key.values()
    except NotFoundError:
        if branch == MAIN or branch in manifest.rows.branch_names():
            raise
        return ()
