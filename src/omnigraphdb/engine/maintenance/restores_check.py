"""Check of what recoveries restored: a release before conditional Restores could undo commits that others were acknowledged."""

from collections.abc import Iterator, Sequence

from omnigraphdb.engine.maintenance.issues import Issue
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import RECOVERY_ACTOR, TableKey, Version
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import state_of


def check_restores(engine: Engine, state: BranchState) -> Iterator[Issue]:
    """Find the recovery commits of a branch whose tables show an older version than the one that was visible before."""
    commits = sorted(state.lineage.commits, key=lambda commit: commit.order)
    for place, commit in enumerate(commits):
        if commit.actor != RECOVERY_ACTOR or commit.branch != state.branch:
            continue
        for table, version in commit.pins.items():
            undone = _list_undone(engine, commit, table, version, commits[:place])
            if undone:
                yield _make_issue(commit, table, undone)


def _list_undone(
    engine: Engine,
    commit: GraphCommit,
    table: TableKey,
    version: Version,
    before: Sequence[GraphCommit],
) -> list[GraphCommit]:
    """List the earlier commits whose rows of a table a restore left out."""
    restored = _find_restored(engine, commit, table, version)
    if restored is None:
        return []
    return [one for one in before if restored < one.pins.get(table, restored)]


def _find_restored(
    engine: Engine, commit: GraphCommit, table: TableKey, version: Version
) -> Version | None:
    """Find the version that a recovery commit restored; None when it restored none, or cleanup removed it."""
    try:
        entry = state_of(engine.manifest, commit.branch, commit).snapshot.entries.get(table)
        if entry is None:
            return None
        at = entry.at
        made = engine.store.tables.transactions(at.path, at.branch, Version(version - 1), version)
    except OmniError:
        return None
    return made[0].restored


def _make_issue(commit: GraphCommit, table: TableKey, undone: Sequence[GraphCommit]) -> Issue:
    names = ", ".join(one.id for one in undone)
    return Issue(
        check="undone commits",
        message=f"the recovery commit {commit.id} restored the table to its state before {names}",
        remedy=f"read the rows at commit {undone[-1].id} and write again what is missing",
        branch=commit.branch,
        table_key=table,
    )
