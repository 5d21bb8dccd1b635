"""Lance branches as values: refs and incarnations."""

from collections.abc import Iterable
from typing import Any

from omnigraph.ids import Version
from omnigraph.values import dataclass

Incarnation = tuple[tuple[int, str], ...]
"""Tells one incarnation of a branch name from another: delete and recreate never give the same one again."""

MAIN_INCARNATION: Incarnation = ()
"""Main is never deleted, so it has one incarnation."""


def incarnation_of(pairs: Iterable[Any]) -> Incarnation:
    """Read the identifier that Lance gives a branch: the versions and uuids of its forks."""
    return tuple((int(version), str(uuid)) for version, uuid in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRef:
    """One Lance branch: its parent, the parent's version it forked from, when, and its incarnation."""

    name: str
    parent: str | None
    parent_version: Version
    created_us: int
    incarnation: Incarnation
