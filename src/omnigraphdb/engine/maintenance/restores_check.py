"""Check of restored versions: a release before conditional Restores could undo acknowledged commits of other writers."""

from collections.abc import Iterator, Sequence

from omnigraphdb.engine.maintenance.issues import Issue
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import RECOVERY_ACTOR, TableKey, Version
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import state_of


def check_restores(engine: Engine, state: BranchState) -> Iterator[Issue]:
    """Find the recovery commits of a branch whose tables show an older version than the version visible before."""
    commits = sorted(state.lineage.commits, key=lambda commit: commit.order)
    for position, commit in enumerate(commits):
        if commit.actor != RECOVERY_ACTOR or commit.branch != state.branch:
            continue
        for table, version in commit.pins.items():
            undone_commits = _list_undone(engine, commit, table, version, commits[:position])
            if undone_commits:
                yield _make_issue(commit, table, undone_commits)


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
    return [earlier for earlier in before if restored < earlier.pins.get(table, restored)]


def _find_restored(
    engine: Engine, commit: GraphCommit, table: TableKey, version: Version
) -> Version | None:
    """Find the version that a recovery commit restored; None if it restored no version, or cleanup removed it."""
    try:
        entry = state_of(engine.manifest, commit.branch, commit).snapshot.entries.get(table)
        if entry is None:
            return None
        at = entry.at
        transactions = engine.store.tables.transactions(
            at.path, at.branch, Version(version - 1), version
        )
    except OmniError:
        return None
    return transactions[0].restored


def _make_issue(
    commit: GraphCommit, table: TableKey, undone_commits: Sequence[GraphCommit]
) -> Issue:
    names = ", ".join(undone_commit.id for undone_commit in undone_commits)
    return Issue(
        check="undone commits",
        message=f"the recovery commit {commit.id} restored the table to its state before {names}",
        remedy=f"read the rows at commit {undone_commits[-1].id} and write again what is missing",
        branch=commit.branch,
        table_key=table,
    )
