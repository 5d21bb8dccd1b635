"""The authors of changes between two states: the commits of one state only, and the entities that an actor's commits changed."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.engine.history.compare import (
    EVERYTHING,
    ChangeFilter,
    find_steps,
    list_differing_pairs,
)
from omnigraphdb.engine.history.log import Shows, drop_foreign_commits
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.ids import CommitId
from omnigraphdb.limits import AUTHORED_COMMITS_MAX
from omnigraphdb.manifest.lineage import decode_commits
from omnigraphdb.manifest.records import KEY, GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import find_commit, state_of

Ids = dict[str, pa.Array]
"""Ids of entities, by the path of their table."""


def list_between(base: BranchState, head: BranchState, shows: Shows) -> tuple[GraphCommit, ...]:
    """List the commits that one of two states has and the other has not, of branches that are shown."""
    commits = (*_list_missing(base, head), *_list_missing(head, base))
    readable = {name for name in {commit.branch for commit in commits} if shows(name)}
    return tuple(commit for commit in commits if commit.branch in readable)


def _list_missing(state: BranchState, other: BranchState) -> tuple[GraphCommit, ...]:
    return decode_commits(drop_foreign_commits(state.ancestors, other.ancestors[KEY]))


def list_actors(base: BranchState, head: BranchState, shows: Shows) -> tuple[str, ...]:
    """List the actors of the commits between two states, by name."""
    return tuple(
        sorted({commit.actor for commit in list_between(base, head, shows) if commit.actor})
    )


def find_authored(
    engine: Engine, base: BranchState, head: BranchState, filters: ChangeFilter, shows: Shows
) -> ChangeFilter:
    """Name the entities that commits of the requested actors changed; without requested actors nothing is searched."""
    if filters.actors is None:
        return filters
    commits = [
        commit for commit in list_between(base, head, shows) if commit.actor in filters.actors
    ]
    if len(commits) > AUTHORED_COMMITS_MAX:
        hint = "compare states that are nearer to each other, or ask without an actor"
        raise ResourceLimit(
            "commits of an actor in a comparison", AUTHORED_COMMITS_MAX, len(commits), hint
        )
    ids_by_path: dict[str, list[pa.Array]] = {}
    for commit in commits:
        for path, ids in _find_changed(engine, commit).items():
            ids_by_path.setdefault(path, []).append(ids)
    entities = {path: pa.concat_arrays(parts).unique() for path, parts in ids_by_path.items()}
    return replace(filters, entities=entities)


def _find_changed(engine: Engine, commit: GraphCommit) -> Ids:
    """Find the ids that a commit changed; of a merge, the ids that it decided, which are different from both parents."""
    own = _find_against(engine, commit, commit.parent)
    if commit.merged_parent is None:
        return own
    other = _find_against(engine, commit, commit.merged_parent)
    return {path: _intersect(ids, other[path]) for path, ids in own.items() if path in other}


def _intersect(ids: pa.Array, other: pa.Array) -> pa.Array:
    return ids.filter(pc.is_in(ids, value_set=other))


def _find_against(engine: Engine, commit: GraphCommit, parent: CommitId | None) -> Ids:
    if parent is None:
        return {}
    parent_commit = find_commit(engine.manifest, parent)
    before = state_of(engine.manifest, parent_commit.branch, parent_commit)
    after = state_of(engine.manifest, commit.branch, commit)
    ids_by_path = {}
    for pair in list_differing_pairs(before, after, EVERYTHING):
        steps = (
            step.moves["id"].combine_chunks() for step, _ in find_steps(engine.store.tables, pair)
        )
        ids_by_path[pair.path] = _concatenate(steps)
    return ids_by_path


def _concatenate(parts: Iterator[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *parts])
