"""A history to be drawn: a page of commits of several branches, each with its lane, its parents and what points to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph.api.drawings import spell_counts
from omnigraph.display import Grid, Sheet, Shown, count_of
from omnigraph.engine.history.counts import count_commit
from omnigraph.engine.history.lanes import Lanes, assign_lanes, list_parents
from omnigraph.engine.history.log import Shows, list_log, name_heads, read_states
from omnigraph.engine.results import Commit
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import HistoryReclaimed, NotFound, TableNotFound
from omnigraph.ids import MAIN, CommitId
from omnigraph.limits import COMMITS_COUNTED_MAX
from omnigraph.manifest.records import GraphCommit
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.tags import list_tags
from omnigraph.values import dataclass

COMMITS_DRAWN = 100

Names = dict[str, list[str]]
"""What points to commits, by commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDrawing(Shown):
    """A page of a drawn history, newest first; `next` is the commit after which the next page begins."""

    commits: tuple[dict[str, Any], ...]
    lanes: int
    total: int
    next: str | None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "commits": list(self.commits),
            "lanes": self.lanes,
            "total": self.total,
            "next": self.next,
        }

    def _sheet(self) -> Sheet:
        rows = [
            (one["lane"], one["graph_commit_id"], one["kind"], ", ".join(one["branches"]))
            for one in self.commits
        ]
        shown = f"{len(self.commits)} of {count_of(self.total, 'commit')}"
        grid = Grid(columns=("lane", "commit", "kind", "branches"), rows=rows)
        return Sheet(title=f"{shown} in {count_of(self.lanes, 'lane')}", grids=(grid,))


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
    drawn = [_spell_commit(Commit.of(one), lanes, names, tags) for one in page]
    if counts:
        known = {one.id: one for one in commits}
        for commit, spelled in zip(page[:COMMITS_COUNTED_MAX], drawn, strict=False):
            spelled["counts"] = _count_changes(engine, commit, known)
    return LogDrawing(
        commits=tuple(drawn),
        lanes=lanes.count,
        total=len(commits),
        next=page[-1].id if page and start + limit < len(commits) else None,
    )


def _count_changes(
    engine: Engine, commit: GraphCommit, known: Mapping[CommitId, GraphCommit]
) -> dict[str, int] | None:
    """Count what a commit changed against its first parent; None where that cannot be known any more."""
    parent = None if commit.parent is None else known.get(commit.parent)
    try:
        return None if parent is None else spell_counts(count_commit(engine, parent, commit))
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


def _spell_commit(commit: Commit, lanes: Lanes, names: Names, tags: Names) -> dict[str, Any]:
    lane = lanes.by_commit[commit.id]
    return commit.to_dict() | {
        "lane": lane,
        "parents": [
            {"id": one, "lane": lanes.by_commit.get(one, lane)} for one in list_parents(commit)
        ],
        "branches": names.get(commit.id, []),
        "tags": tags.get(commit.id, []),
    }
