"""Branches as users see them: their heads, their parents, and how far they went apart."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

from omnigraphdb.display import Displayable, Grid, Report, count_of, format_time
from omnigraphdb.engine.history.log import Shows
from omnigraphdb.errors import NotFound, NotFoundError
from omnigraphdb.ids import MAIN, BranchName
from omnigraphdb.limits import BRANCH_STATES_MAX
from omnigraphdb.manifest.ancestry import count_apart
from omnigraphdb.manifest.branches import Branch as ListedBranch
from omnigraphdb.manifest.branches import list_branches, read_head
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.runtime import datetime_of
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, derived, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(Value):
    """A live branch: its head, and the branch it was made from (None for main, and for a parent that is not shown).

    `ahead` counts the commits that its parent lacks, `behind` those of the parent that it lacks; None where they were
    not counted.
    """

    name: str
    head: str | None
    parent: str | None = None
    created_at: datetime | None = field(default=None, metadata=wire(omit=True))
    """When it was made; None for main."""
    head_at: datetime | None = field(default=None, metadata=wire(omit=True))
    """When its head was committed."""
    head_actor: str | None = field(default=None, metadata=wire(omit=True))
    """Who committed it."""
    ahead: int | None = field(default=None, metadata=wire(omit=True))
    behind: int | None = field(default=None, metadata=wire(omit=True))
    replayed: bool = field(default=False, metadata=wire(omit=True))
    """Whether an earlier call with the same idempotency key made it."""

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        apart = "" if self.ahead is None else f", {self.ahead} ahead, {self.behind} behind"
        made = "" if self.parent is None else f" from {self.parent}"
        return f"<Branch {self.name}{made} at {self.head}{apart}>"


class Branches(Displayable, list[Branch]):
    """Branches: main, then the others by name."""

    def _report(self) -> Report:
        return Report(title=count_of(len(self), "branch", "branches"), grids=(self.grid(),))

    def grid(self, caption: str = "") -> Grid:
        """The branches, one a row."""
        counts = any(branch.ahead is not None for branch in self)
        columns = (
            "branch",
            "head",
            "committed",
            "parent",
            *(("ahead", "behind") if counts else ()),
        )
        rows = [_row(branch, counts=counts) for branch in self]
        return Grid(columns=columns, rows=rows, firm=2, rows_max=len(rows), caption=caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchList(Value):
    """Names of branches, in order, and the facts of each."""

    details: tuple[Branch, ...]

    @derived
    def branches(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(sorted(branch.name for branch in self.details))


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCreated(Value):
    """A branch that was created, as it is then."""

    uri: str
    parent: str = field(metadata=wire("from"))
    name: str
    actor: str | None = field(metadata=wire("actor_id"))
    head: str | None = None
    created_at: datetime | None = field(default=None, metadata=wire(omit=True))
    head_at: datetime | None = field(default=None, metadata=wire(omit=True))
    head_actor: str | None = field(default=None, metadata=wire(omit=True))
    replayed: bool = field(default=False, metadata=wire(omit=True))
    """Whether an earlier call with the same idempotency key made it."""

    @property
    def branch(self) -> Branch:
        """The branch."""
        return Branch(
            name=self.name,
            head=self.head,
            parent=self.parent,
            created_at=self.created_at,
            head_at=self.head_at,
            head_actor=self.head_actor,
            replayed=self.replayed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchDeleted(Value):
    """A branch that was deleted."""

    uri: str
    name: str
    actor: str | None = field(metadata=wire("actor_id"))


def _row(branch: Branch, *, counts: bool) -> list[Any]:
    when = "" if branch.head_at is None else format_time(branch.head_at)
    apart = ["" if n is None else n for n in (branch.ahead, branch.behind)] if counts else []
    return [branch.name, branch.head or "", when, branch.parent or "", *apart]


def list_shown(manifest: Manifest, shows: Shows, *, compare: bool) -> Branches:
    """List the branches that are shown; with `compare` count the commits between each and its parent, which reads their histories."""
    return Branches(_show_all(manifest, shows, compare=compare))


def find_shown(manifest: Manifest, name: BranchName) -> Branch:
    """Find one branch, compared with its parent."""
    listed = {branch.name: branch for branch in list_branches(manifest)}
    found = _show_compared(manifest.current, listed[name]) if name in listed else None
    if found is None:
        raise NotFound("branch", name, known=listed)
    return found


def show_new(made: ListedBranch, base: BranchState, uri: str, actor: str | None) -> BranchCreated:
    """Show a branch that was just made; its head is that of the state it was made from."""
    branch = _make_branch(made, base.head)
    return BranchCreated(
        uri=uri,
        parent=base.branch,
        name=branch.name,
        actor=actor,
        head=branch.head,
        created_at=branch.created_at,
        head_at=branch.head_at,
        head_actor=branch.head_actor,
    )


def show_made(
    receipt: Mapping[str, Any], uri: str, actor: str | None, *, replayed: bool
) -> BranchCreated:
    """Show a branch as it was when a request with a key made it."""
    return BranchCreated(
        uri=uri,
        parent=receipt["parent"],
        name=receipt["name"],
        actor=actor,
        head=receipt["head"],
        replayed=replayed,
    )


def _show_all(manifest: Manifest, shows: Shows, *, compare: bool) -> Iterator[Branch]:
    listed = {branch.name: branch for branch in list_branches(manifest)}
    shown = {name for name in listed if shows(name)}
    # Many branches would push those in use out of the cache.
    read = _read_once(manifest, remember=len(shown) <= BRANCH_STATES_MAX)
    for branch in listed.values():
        if branch.name not in shown:
            continue
        found = (
            _show_compared(read, branch)
            if compare and branch.parent in (None, *shown)
            else _show(manifest, branch, listed)
        )
        if found is not None:
            yield found if found.parent in shown else replace(found, parent=None)


Read = Callable[[BranchName], BranchState]
"""Reads a branch as it is now."""


def _read_once(manifest: Manifest, *, remember: bool) -> Read:
    """Make a reader that reads each branch once: most have the same parent."""
    return lru_cache(BRANCH_STATES_MAX)(partial(manifest.current, remember=remember))


def _show(
    manifest: Manifest, branch: ListedBranch, listed: Mapping[BranchName, ListedBranch]
) -> Branch | None:
    """Show a branch by its head alone; None when it was deleted after the branches were listed."""
    try:
        return _make_branch(branch, read_head(manifest, branch, _list_parents(branch, listed)))
    except NotFoundError:
        if branch.name == MAIN:
            raise
        return None


def _list_parents(
    branch: ListedBranch, listed: Mapping[BranchName, ListedBranch]
) -> Iterator[BranchName]:
    parent = branch.parent
    while parent is not None:
        yield parent
        parent = listed[parent].parent if parent in listed else None


def _show_compared(read: Read, branch: ListedBranch) -> Branch | None:
    """Show a branch with how far it went from its parent, which reads both histories."""
    try:
        state = read(branch.name)
        apart: tuple[int, int] | tuple[()] = ()
        if branch.parent is not None:
            apart = count_apart(state, read(branch.parent))
    except NotFoundError:
        if branch.name == MAIN:
            raise
        return None
    return _make_branch(branch, state.head, *apart)


def _make_branch(
    listed: ListedBranch,
    head: GraphCommit | None,
    ahead: int | None = None,
    behind: int | None = None,
) -> Branch:
    return Branch(
        name=listed.name,
        head=None if head is None else head.id,
        parent=listed.parent,
        created_at=None if listed.created_at is None else datetime_of(listed.created_at),
        head_at=None if head is None else datetime_of(head.created_at),
        head_actor=None if head is None else head.actor,
        ahead=ahead,
        behind=behind,
    )
