"""Rolling forward: publish every table at the version that was classified."""

from dataclasses import replace

from omnigraph.commit.sidecar import Registration, Sidecar, TableOutcome
from omnigraph.errors import ManifestConflict
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import RECOVERY_ACTOR, CommitId, TableKey, Version
from omnigraph.logs import get_logger
from omnigraph.manifest.change import Change, Draft, Update
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.recovery.audit import RecoveryKind
from omnigraph.recovery.case import (
    Case,
    draft,
    finish,
    lineage_only,
    publish_commit,
    recovery_commit,
)
from omnigraph.recovery.classify import Observed
from omnigraph.recovery.observe import table_path
from omnigraph.recovery.schema_files import StagingAction, promote
from omnigraph.storage.tables import TableAt

_log = get_logger(__name__)


def roll_forward(case: Case) -> bool:
    """Make the whole operation visible; a rival who did the same is a success, one in the way is not ours to end."""
    fail(Failpoint.ROLL_FORWARD)
    try:
        commit: CommitId | None = publish_commit(case.committer, _change(case))
    except ManifestConflict:
        if case.committer.sidecars.find(case.id) is None:
            return True
        commit = _find_rival_commit(case)
    if commit is None:
        return False
    if case.staging is StagingAction.PROMOTE:
        # After the publish, as the writer itself would: a crash between the two is then seen for what it is.
        promote(case.objects)
    finish(case, commit, RecoveryKind.ROLLED_FORWARD, _outcomes(case))
    return True


def is_reached(sidecar: Sidecar, snapshot: Snapshot) -> bool:
    """Whether all it registers, drops and points elsewhere is visible."""
    entries = snapshot.entries
    registered = all(r.table_key in entries for r in sidecar.registrations)
    dropped = not any(t.table_key in entries for t in sidecar.tombstones)
    pointed = all(
        (entry := entries.get(p.table_key)) is not None
        and (entry.at.branch, entry.version) == (p.branch, p.version)
        for p in sidecar.pointer_updates
    )
    return registered and dropped and pointed


# ---- the publish


def _change(case: Case) -> Change:
    moved = [seen for seen in case.facts.seen if seen.head > seen.visible]
    missing = [r for r in case.sidecar.registrations if r.table_key not in case.snapshot.entries]
    # A renamed table is published under its new key, by its registration.
    taken = {r.table_path for r in case.sidecar.registrations}
    standing = [t for t in case.sidecar.tombstones if t.table_key in case.snapshot.entries]
    expected = dict(case.sidecar.read_set)
    expected |= {seen.pin.table_key: seen.visible for seen in case.facts.seen}
    expected |= {r.table_key: Version(0) for r in missing}
    expected |= {t.table_key: Version(t.version - 1) for t in standing}
    return Change(
        branch=case.branch,
        updates=(
            *(_make_update(case, seen) for seen in moved if seen.pin.table_path not in taken),
            *(_make_registration(case, r) for r in missing),
            *_list_pointer_updates(case),
        ),
        registrations={r.table_key: r.table_path for r in missing},
        tombstones={t.table_key: t.version for t in standing},
        expected=expected,
        draft=_draft(case),
        brought=case.sidecar.brought,
    )


def _draft(case: Case) -> Draft:
    made = draft(case.committer, case.id, case.sidecar.merge_source, case.sidecar.batch_id)
    return replace(made, agreed=case.sidecar.agreed)


def _make_update(case: Case, seen: Observed) -> Update:
    path = table_path(seen.pin, case.snapshot)
    at = TableAt(path=path, branch=seen.pin.table_branch, version=seen.head)
    return replace(_update(case, seen.pin.table_key, at), digests=seen.pin.digests)


def _make_registration(case: Case, registration: Registration) -> Update:
    path, branch = registration.table_path, registration.table_branch
    head = case.committer.tables.head(path, branch)
    return _update(case, registration.table_key, TableAt(path=path, branch=branch, version=head))


def _update(case: Case, table: TableKey, at: TableAt) -> Update:
    return Update(table_key=table, at=at, row_count=case.committer.tables.open(at).count())


def _list_pointer_updates(case: Case) -> list[Update]:
    found = []
    for pointer in case.sidecar.pointer_updates:
        path = pointer.path or case.snapshot.entry(pointer.table_key).at.path
        at = TableAt(path=path, branch=pointer.branch, version=pointer.version)
        entry = case.snapshot.entries.get(pointer.table_key)
        if entry is None or entry.at != at:
            found.append(Update(table_key=pointer.table_key, at=at, row_count=pointer.row_count))
    return found


# ---- a publish that was lost


def _find_rival_commit(case: Case) -> CommitId | None:
    """The commit of the rival who reached the goal; None when nobody did."""
    state = case.committer.manifest.load(case.branch)
    entries = state.snapshot.entries
    dropped = {tombstone.table_key for tombstone in case.sidecar.tombstones}
    reached = all(
        (entry := entries.get(seen.pin.table_key)) is not None and entry.version >= seen.head
        for seen in case.facts.seen
        if seen.pin.table_key not in dropped
    )
    if not reached or not is_reached(case.sidecar, state.snapshot):
        _log.warning("recovery.lost_publish", operation=case.id)
        return None
    # A recoverer that names no operations leaves its actor only; the head may be a later writer's by now.
    newest = next(iter(state.lineage.listed(actor=RECOVERY_ACTOR, limit=1)), None)
    known = recovery_commit(state, case.id) or newest
    return known.id if known is not None else lineage_only(case.committer, case.id, case.branch)


def _outcomes(case: Case) -> list[TableOutcome]:
    return [
        TableOutcome(table_key=s.pin.table_key, from_version=s.pin.expected, to_version=s.head)
        for s in case.facts.seen
    ]
