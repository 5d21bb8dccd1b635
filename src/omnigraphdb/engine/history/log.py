"""The log of several branches: what each shows, and the commits that they know together, in one order."""

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
"""Whether a branch is shown."""


def read_states(manifest: Manifest, shows: Shows) -> dict[str, BranchState]:
    """Read every branch that is shown, main first; one that is deleted meanwhile is left out."""
    listed = [one.name for one in list_branches(manifest) if shows(one.name)]
    # Many branches would push those in use out of the cache.
    remember = len(listed) <= BRANCH_STATES_MAX
    found: dict[str, BranchState] = {}
    for name in listed:
        with suppress(NotFoundError):
            found[name] = manifest.current(name, remember=remember or name == MAIN)
    return found


def list_log(states: Iterable[BranchState], shows: Shows) -> list[GraphCommit]:
    """List the commits of branches and of what was merged into them, newest first; each is decoded once."""
    found: dict[CommitId, GraphCommit] = {}
    for state in states:
        if state.branch == MAIN:
            # Its history is decoded once, and stays with its state.
            found |= {one.id: one for one in (*state.merged.commits, *state.lineage.commits)}
        else:
            known = pa.array(list(found), pa.string())
            found |= {
                one.id: one for one in decode_commits(drop_foreign_commits(state.ancestors, known))
            }
    readable = {name for name in {one.branch for one in found.values()} if shows(name)}
    shown = (one for one in found.values() if one.branch in readable)
    return sorted(shown, key=lambda one: (one.created_at, one.id), reverse=True)


def drop_foreign_commits(rows: pa.Table, known: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Drop the commits that another branch brought, and those that are known by name only."""
    is_known = pc.is_in(rows[KEY], value_set=known)
    return rows.filter(pc.and_(pc.invert(is_known), pc.is_valid(rows["metadata"])))


def name_heads(states: dict[str, BranchState]) -> dict[str, list[str]]:
    """Name the branches whose head is a commit, by commit."""
    found: dict[str, list[str]] = {}
    for name, state in states.items():
        if state.head is not None:
            found.setdefault(state.head.id, []).append(name)
    return found
