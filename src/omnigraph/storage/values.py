"""Lance branch refs: what a listing tells of one."""

from omnigraph.ids import Version
from omnigraph.values import dataclass

Incarnation = tuple[tuple[int, str], ...]
"""Tells one life of a branch name from another: delete and recreate never give the same one again."""

MAIN_INCARNATION: Incarnation = ()
"""The main line is never recreated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRef:
    """One Lance branch: where it forked, when, and which life of its name this is."""

    name: str
    parent: str | None
    parent_version: Version
    created_us: int
    incarnation: Incarnation
