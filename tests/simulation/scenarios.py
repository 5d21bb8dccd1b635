"""Universes: who is there, what they do, and what is known of it when everybody is done."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Final, TypeVar

from omnigraphdb.commit.lock_queue import LockQueue
from omnigraphdb.commit.plan import WriteOptions
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey
from tests.simulation import verbs
from tests.simulation.handles import TABLES, Handle
from tests.simulation.objects import Asker, Store, Stored
from tests.simulation.requested import Plan
from tests.simulation.universe import Fate, Life, judge_refusal
from tests.simulation.world import EPOCH_US, NEVER, Client, Task

T = TypeVar("T")

BRANCH: Final = "b"


@dataclass
class Call:
    """What a client asked for, and what it was told; one with a key may be asked for again."""

    name: str
    branch: str
    began: float = 0.0
    ended: float = NEVER
    """When its effect came at the latest, as far as its clients know."""
    told: list[Fate] = field(default_factory=list)
    """What each attempt was told that has ended."""
    pending: int = 0
    """How many attempts have not ended; those of a client that dies never do."""
    said: str = ""
    finished: float = NEVER
    """When its last attempt ended."""
    seconds: float = 0.0
    is_undisturbed: bool = True
    """Whether its client met no fault meanwhile."""

    @property
    def fate(self) -> Fate:
        """What its clients know of it."""
        if Fate.ACKNOWLEDGED in self.told:
            return Fate.ACKNOWLEDGED
        is_open = self.pending or not self.told or Fate.UNKNOWN in self.told
        return Fate.UNKNOWN if is_open else Fate.REFUSED


@dataclass
class Write(Call):
    """One write; `tables` are those that show its name."""

    tables: tuple[TableKey, ...] = ()
    commit: CommitId | None = None
    if_commit: CommitId | None = None
    """The head that it must follow."""
    receipt: str | None = None
    """What the first carrier of a keyed write told."""
    has_key: bool = False
    is_adoption: bool = False


@dataclass
class BranchChange(Call):
    """A branch that is made of main, or deleted; `is_merged`: unless it has a commit that main has not."""

    is_made: bool = True
    is_merged: bool = False


@dataclass(frozen=True)
class Start:
    """A bucket in which a universe begins, and the writes that it holds."""

    objects: dict[str, Stored]
    writes: tuple[Write, ...]
    branches: frozenset[str]
    now: float
    ids: int


class Universe(Life):
    """A life of the protocol. A scenario is a universe that knows what its clients do."""

    def __init__(
        self,
        seed: int = 0,
        *,
        start: "Start | None" = None,
        plan: Plan = lambda _: None,
        first: Callable[[Task], int] | None = None,
    ) -> None:
        super().__init__(seed, plan=plan, first=first)
        self.store = Store(self._tell_time)
        self.writes: dict[str, Write] = {}
        self.branch_changes: dict[str, BranchChange] = {}
        self.has_cleaned = False
        self.has_readings = False
        """Whether rows say what their writers read."""
        self.may_drift = True
        """Whether a version may lie past its pin until somebody writes, as a late one of an earlier branch does."""
        self.branch_changers: Counter[Client] = Counter()
        """Clients that make or delete a branch at this moment."""
        self.initial_branches: frozenset[str] = frozenset()
        self.groups = 0
        """How many groups of writes the judge saw."""
        self._queues: dict[Client, LockQueue] = {}
        if start is not None:
            self.store = Store(self._tell_time, dict(start.objects), len(start.objects) + start.ids)
            self.world.begin(start.now, start.ids)
            # Each universe notes more of them, so that it has copies.
            self.initial_branches = start.branches
            self.writes |= {one.name: replace(one, told=[*one.told]) for one in start.writes}

    def _tell_time(self) -> float:
        """The clock of the store."""
        return EPOCH_US / 1_000_000 + self.world.now

    # ---- who is there

    def client(self, name: str, skew: float = 0.0) -> Client:
        """A new process."""
        made = super().client(name, skew)
        self._queues[made] = LockQueue()
        return made

    def handle(self, client: Client) -> Handle:
        """A new handle of a client."""
        return Handle(Asker(self.store, client, self.requests), self._queues[client])

    # ---- what they do

    def open(self, client: Client) -> Handle | None:
        """Open the graph; None when that was refused."""
        handle = self.handle(client)
        try:
            handle.open()
        except OmniError as error:
            self.say(client, "open", error)
            return None
        self.requests.say(client, "is open")
        return handle

    def insert(
        self, handle: Handle, branch: str, name: str, tables: Sequence[TableKey] = TABLES
    ) -> Write:
        """Insert a row, and note what the client is told."""
        write = self.writes[name] = Write(name, branch, tables=tuple(tables))
        return self._write(handle, write, lambda: handle.insert(branch, name, tables))

    def extend(self, handle: Handle, branch: str, name: str, tables: Sequence[TableKey]) -> Write:
        """Extend the list of each table."""
        write = self.writes[name] = Write(name, branch, tables=tuple(tables))
        return self._write(handle, write, lambda: verbs.extend(handle, branch, name, tables))

    def adopt(self, handle: Handle, branch: str, name: str) -> Write:
        """Let a branch show what main shows."""
        write = self.writes[name] = Write(name, branch, is_adoption=True)
        return self._write(handle, write, lambda: verbs.adopt(handle, branch))

    def insert_after_head(
        self, handle: Handle, branch: str, name: str, tables: Sequence[TableKey]
    ) -> Write:
        """Read the head of a branch, and insert a row if it is the head still."""
        head = handle.manifest.current(BranchName(branch)).head
        assert head is not None, "the branch has commits"
        write = self.writes[name] = Write(name, branch, tables=tuple(tables), if_commit=head.id)
        options = WriteOptions(if_commit=head.id)
        return self._write(handle, write, lambda: handle.insert(branch, name, tables, options))

    def insert_by_reading(
        self, handle: Handle, branch: str, name: str, table: TableKey, read: TableKey
    ) -> Write:
        """Insert a row into one table by what another one shows."""
        self.has_readings = True
        write = self.writes[name] = Write(name, branch, tables=(table,))
        return self._write(
            handle, write, lambda: verbs.insert_by_reading(handle, branch, name, table, read)
        )

    def insert_under(
        self, handle: Handle, branch: str, key: str, name: str, tables: Sequence[TableKey]
    ) -> Write:
        """Insert a row under a key that another request may have as well: one of them is refused."""
        write = self.writes[name] = Write(name, branch, tables=tuple(tables))
        return self._write(
            handle, write, lambda: verbs.insert_once(handle, branch, name, tables, key=key).commit
        )

    def insert_once(
        self,
        handle: Handle,
        branch: str,
        name: str,
        tables: Sequence[TableKey] = TABLES,
        *,
        is_refused: bool = False,
    ) -> Write:
        """Insert a row under a key of its name, for the first time or again; `is_refused`: on a head that is not there."""
        write = self.writes.setdefault(
            name, Write(name, branch, tables=tuple(tables), has_key=True)
        )

        def ask() -> CommitId | None:
            answer = verbs.insert_once(handle, branch, name, tables, expects_no_head=is_refused)
            if write.receipt not in (None, answer.receipt) and not self._may_be_gone(branch):
                self.problems.append(f"S1 {name} was told two receipts")
            write.receipt = answer.receipt
            return answer.commit

        return self._write(handle, write, ask)

    def _may_be_gone(self, branch: str) -> bool:
        """Whether somebody asked to delete a branch."""
        return any(one.branch == branch and not one.is_made for one in self.branch_changes.values())

    def _write(self, handle: Handle, write: Write, ask: Callable[[], CommitId | None]) -> Write:
        commit = self._call(handle, write, ask)
        if commit is not None:
            if write.commit not in (None, commit) and not self._may_be_gone(write.branch):
                self.problems.append(f"S1 {write.name} was told two commits")
            write.commit = commit
        return write

    def make_branch(self, handle: Handle, branch: str, name: str, *, has_key: bool) -> None:
        """Make a branch of main."""
        made = self.branch_changes.setdefault(name, BranchChange(name, branch))
        if has_key:
            self._change(handle, made, lambda: verbs.create_branch_once(handle, branch, name))
        else:
            self._change(handle, made, lambda: handle.create_branch(branch))

    def drop_branch(self, handle: Handle, branch: str, name: str, *, has_key: bool) -> None:
        """Delete a branch."""
        gone = self.branch_changes.setdefault(name, BranchChange(name, branch, is_made=False))
        if has_key:
            self._change(handle, gone, lambda: verbs.delete_branch_once(handle, branch, name))
        else:
            self._change(handle, gone, lambda: handle.delete_branch(branch))

    def drop_merged_branch(self, handle: Handle, branch: str, name: str) -> None:
        """Delete a branch, unless it has a commit that main has not."""
        gone = BranchChange(name, branch, is_made=False, is_merged=True)
        self.branch_changes[name] = gone
        self._change(handle, gone, lambda: verbs.delete_merged_branch(handle, branch))

    def _change(self, handle: Handle, change: BranchChange, ask: Callable[[], None]) -> None:
        self.branch_changers[handle.client] += 1
        self._call(handle, change, ask)
        self.branch_changers[handle.client] -= 1

    def make_again(self, handle: Handle, branch: str, name: str = "again") -> None:
        """Delete a branch, with what was written to it, and make another one of its name."""
        self.drop_branch(handle, branch, f"{name}, deleted", has_key=False)
        self.make_branch(handle, branch, f"{name}, made", has_key=False)

    def clean(self, handle: Handle) -> None:
        """Remove what nothing needs."""
        self.has_cleaned = True
        self._upkeep(handle, "cleanup", lambda: verbs.clean(handle))

    def fold(self, handle: Handle, branch: str) -> None:
        """Store the rows of the manifest as one fragment."""
        self._upkeep(handle, f"fold of {branch}", lambda: verbs.fold(handle, branch))

    def _upkeep(self, handle: Handle, what: str, ask: Callable[[], object]) -> None:
        try:
            self.requests.say(handle.client, f"{what}: {ask()}")
        except OmniError as error:
            self.say(handle.client, what, error)

    def _call(self, handle: Handle, call: Call, ask: Callable[[], T]) -> T | None:
        """Ask, and note what the client is told."""
        began, faults = self.world.now, self.requests.faults[handle.client.name]
        if not call.told and not call.pending:
            call.began = began
        call.pending += 1
        call.finished = NEVER
        answer: T | None = None
        try:
            answer = ask()
        except OmniError as error:
            fate, call.said = judge_refusal(error), f"{type(error).__name__}: {error}"
            self.say(handle.client, call.name, error)
        else:
            fate = Fate.ACKNOWLEDGED
            self.requests.say(handle.client, f"{call.name} acknowledged as {answer}")
            call.ended = min(call.ended, self.world.now)
        call.pending -= 1
        call.finished = NEVER if call.pending else self.world.now
        call.told.append(fate)
        call.seconds = max(call.seconds, self.world.now - began)
        call.is_undisturbed &= self.requests.faults[handle.client.name] == faults
        return answer


# ---- where universes begin


class Line(StrEnum):
    """The branch that is written, and how much of it there is."""

    MAIN = "main"
    OWN = "own"
    """A branch that owns its tables."""
    FORK = "fork"
    """A branch that owns none, so that the first write forks them."""

    @property
    def branch(self) -> str:
        """Its graph branch."""
        return str(MAIN) if self is Line.MAIN else BRANCH


@cache
def make_start(line: Line) -> Start:
    """Make a graph with one commit on main, and the branch that is to be written."""
    universe = Universe()

    def begin() -> None:
        handle = universe.handle(universe.client("init"))
        handle.initialise()
        universe.insert(handle, MAIN, "before")
        universe.insert(handle, MAIN, verbs.LIST)
        if line is not Line.MAIN:
            handle.create_branch(BRANCH)
        if line is Line.OWN:
            universe.insert(handle, BRANCH, "own")
        universe.wait_until_quiet()

    universe.run(begin)
    unfinished = [one for one in universe.writes.values() if one.fate is not Fate.ACKNOWLEDGED]
    assert not unfinished, unfinished
    return Start(
        universe.store.objects,
        tuple(universe.writes.values()),
        frozenset({line.branch} - {str(MAIN)}),
        universe.world.now,
        universe.world.ids,
    )
