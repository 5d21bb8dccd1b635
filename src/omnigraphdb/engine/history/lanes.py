"""Lanes: the column in which a drawing of a history shows each commit, so that lines between commits do not cross them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from omnigraphdb.values import dataclass


class Child(Protocol):
    """The facts of a commit that a drawing needs."""

    @property
    def id(self) -> str: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def merged_parent(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lane of each commit, and of the parents that were not listed."""

    by_commit: Mapping[str, int]
    count: int


def list_parents(commit: Child) -> tuple[str, ...]:
    """List the parents of a commit, the parent of its own branch first."""
    return tuple(parent for parent in (commit.parent, commit.merged_parent) if parent is not None)


def assign_lanes(commits: Sequence[Child], first: str | None = None) -> Lanes:
    """Give each commit a lane; commits come newest first, no parent before its child. `first` is the head of lane 0."""
    waiting: list[str | None] = [] if first is None else [first]
    lanes: dict[str, int] = {}
    for commit in commits:
        lane = _take_lane(waiting, commit.id)
        lanes[commit.id] = lane
        for position, parent in enumerate(list_parents(commit)):
            if parent in waiting:
                continue
            if position == 0:
                waiting[lane] = parent
            else:
                waiting[_find_free(waiting)] = parent
    lanes |= {commit_id: lane for lane, commit_id in enumerate(waiting) if commit_id is not None}
    return Lanes(lanes, max(1, len(waiting)))


def _take_lane(waiting: list[str | None], commit: str) -> int:
    """Take the lane that waits for a commit, which is free again; else take a free lane."""
    lane = waiting.index(commit) if commit in waiting else _find_free(waiting)
    waiting[lane] = None
    return lane


def _find_free(waiting: list[str | None]) -> int:
    if None not in waiting:
        waiting.append(None)
    return waiting.index(None)
