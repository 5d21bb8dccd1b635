"""A history to be drawn: a page of commits of several branches, each with its lane, its parents and what points to it."""

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from enum import Enum
from typing import Final, TypedDict

from omnigraphdb.api.drawings import OperationCounts, count_operations
from omnigraphdb.display import Displayable, Grid, Report, count_of
from omnigraphdb.engine.history.counts import count_commit
from omnigraphdb.engine.history.lanes import Lanes, assign_lanes, list_parents
from omnigraphdb.engine.history.log import Shows, list_log, name_heads, read_states
from omnigraphdb.engine.results import Commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import HistoryReclaimed, NotFound, TableNotFound
from omnigraphdb.ids import MAIN, CommitId
from omnigraphdb.limits import COMMITS_COUNTED_MAX
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.tags import list_tags
from omnigraphdb.values import dataclass, replace
from omnigraphdb.wire import Codec, Value, wire

COMMITS_DRAWN = 100

Names = dict[str, list[str]]
"""What points to commits, by commit."""


class LaneOutput(TypedDict):
    """A parent of a commit, and the lane in which it is drawn."""

    id: str
    lane: int


class Uncounted(Enum):
    """The counts of a commit that nobody asked for."""

    UNCOUNTED = "uncounted"


_COUNTS: Final = Codec(
    encode=lambda counts: counts, decode=lambda counts: counts, hint=OperationCounts | None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCommit(Commit):
    """A commit with its place in a drawing, and the branches and tags that point to it.

    `counts` is None where the history is gone.
    """

    lane: int
    parents: tuple[LaneOutput, ...]
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    counts: OperationCounts | Uncounted | None = field(
        default=Uncounted.UNCOUNTED, metadata=wire(omit=True, codec=_COUNTS)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDrawing(Displayable, Value):
    """A page of a drawn history, newest first; `next` is the commit after which the next page begins."""

    commits: tuple[DrawnCommit, ...]
    lanes: int
    total: int
    next: str | None

    def _report(self) -> Report:
        rows = [
            (commit.lane, commit.id, str(commit.kind), ", ".join(commit.branches))
            for commit in self.commits
        ]
        shown = f"{len(self.commits)} of {count_of(self.total, 'commit')}"
        grid = Grid(columns=("lane", "commit", "kind", "branches"), rows=rows)
        return Report(title=f"{shown} in {count_of(self.lanes, 'lane')}", grids=(grid,))


def draw_log(
    engine: Engine,
    branches: Sequence[str] | None,
    limit: int,
    before: str | None,
    shows: Shows,
    *,
    counts: bool = False,
) -> LogDrawing:
    """Draw a page of the log of some branches, or of all that are shown."""
    states = read_states(engine.manifest, shows)
    chosen = states if branches is None else {name: _find(states, name) for name in branches}
    commits = list_log(chosen.values(), shows)
    main = chosen[MAIN].head if MAIN in chosen else None
    lanes = assign_lanes(commits, None if main is None else main.id)
    start = _find_start(commits, before)
    page = commits[start : start + limit]
    names, tags = name_heads(states), _name_tags(engine)
    drawn = [_draw_commit(commit, lanes, names, tags) for commit in page]
    if counts:
        by_id = {commit.id: commit for commit in commits}
        for position, commit in enumerate(page[:COMMITS_COUNTED_MAX]):
            changes = _count_changes(engine, commit, by_id)
            drawn[position] = replace(drawn[position], counts=changes)
    return LogDrawing(
        commits=tuple(drawn),
        lanes=lanes.count,
        total=len(commits),
        next=page[-1].id if page and start + limit < len(commits) else None,
    )


def _count_changes(
    engine: Engine, commit: GraphCommit, known: Mapping[CommitId, GraphCommit]
) -> OperationCounts | None:
    """Count what a commit changed against its first parent; None where that cannot be known any more."""
    parent = None if commit.parent is None else known.get(commit.parent)
    try:
        return None if parent is None else count_operations(count_commit(engine, parent, commit))
    except (HistoryReclaimed, TableNotFound):
        return None


def _find(states: dict[str, BranchState], name: str) -> BranchState:
    if name not in states:
        raise NotFound("branch", name, known=states)
    return states[name]


def _find_start(commits: Sequence[GraphCommit], before: str | None) -> int:
    if before is None:
        return 0
    place = next((n for n, one in enumerate(commits) if one.id == before), None)
    if place is None:
        raise NotFound("commit", before)
    return place + 1


def _name_tags(engine: Engine) -> Names:
    found: Names = {}
    for tag in list_tags(engine.manifest.current(MAIN)):
        found.setdefault(str(tag.commit), []).append(tag.name)
    return found


def _draw_commit(commit: GraphCommit, lanes: Lanes, names: Names, tags: Names) -> DrawnCommit:
    lane, public = lanes.by_commit[commit.id], Commit.of(commit)
    return DrawnCommit(
        **{field.name: getattr(public, field.name) for field in fields(Commit)},
        lane=lane,
        parents=tuple(
            LaneOutput(id=parent, lane=lanes.by_commit.get(parent, lane))
            for parent in list_parents(public)
        ),
        branches=tuple(names.get(commit.id, ())),
        tags=tuple(tags.get(commit.id, ())),
    )
