"""The log of several branches: the commits that each branch shows, and all of them in one order."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import NotFoundError
from omnigraphdb.ids import MAIN, CommitId
from omnigraphdb.limits import BRANCH_STATES_MAX
from omnigraphdb.manifest.branches import list_branches
from omnigraphdb.manifest.lineage import decode_commits
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import KEY, GraphCommit
from omnigraphdb.manifest.state import BranchState

Shows = Callable[[str], bool]
"""A test for branches that are shown."""


def read_states(manifest: Manifest, shows: Shows) -> dict[str, BranchState]:
    """Read every branch that is shown, main first; a branch that is deleted meanwhile is left out."""
    listed = [branch.name for branch in list_branches(manifest) if shows(branch.name)]
    # Many branches would push the branches in use out of the cache.
    remember = len(listed) <= BRANCH_STATES_MAX
    states: dict[str, BranchState] = {}
    for name in listed:
        with suppress(NotFoundError):
            states[name] = manifest.current(name, remember=remember or name == MAIN)
    return states


def list_log(states: Iterable[BranchState], shows: Shows) -> list[GraphCommit]:
    """List the commits of branches and of the branches merged into them, newest first; each commit is decoded once."""
    commits: dict[CommitId, GraphCommit] = {}
    for state in states:
        if state.branch == MAIN:
            # The history of main is decoded once, and stays with its state.
            commits |= {
                commit.id: commit for commit in (*state.merged.commits, *state.lineage.commits)
            }
        else:
            listed_ids = pa.array(list(commits), pa.string())
            commits |= {
                commit.id: commit
                for commit in decode_commits(drop_foreign_commits(state.ancestors, listed_ids))
            }
    readable = {name for name in {commit.branch for commit in commits.values()} if shows(name)}
    visible = (commit for commit in commits.values() if commit.branch in readable)
    return sorted(visible, key=lambda commit: (commit.created_at, commit.id), reverse=True)


def drop_foreign_commits(rows: pa.Table, excluded_ids: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Drop the commits with excluded ids, and the commits of which only the id is stored."""
    is_excluded = pc.is_in(rows[KEY], value_set=excluded_ids)
    return rows.filter(pc.and_(pc.invert(is_excluded), pc.is_valid(rows["metadata"])))


def name_heads(states: dict[str, BranchState]) -> dict[str, list[str]]:
    """Name the branches whose head is a commit, by commit."""
    names: dict[str, list[str]] = {}
    for name, state in states.items():
        if state.head is not None:
            names.setdefault(state.head.id, []).append(name)
    return names
