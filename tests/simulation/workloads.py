"""What clients of a random universe do, as data: it is drawn from a seed, printed, cut down, and run again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final

from omnigraphdb.ids import TableKey
from tests.simulation.handles import TABLES, Handle
from tests.simulation.judge import judge
from tests.simulation.plans import Drawn, Scripted, is_unconditional
from tests.simulation.requested import Fault, Plan, Request
from tests.simulation.scenarios import BRANCH, Line, Universe, make_start
from tests.simulation.universe import Fate
from tests.simulation.world import Client

_WAITS: Final = (0.0, 0.0, 0.0, 0.1, 3.0, 30.0)
_RESTARTS: Final = (1.0, 20.0, 50.0)
"""After how long a process that died is started again."""
_SKEW_MAX: Final = 5.0
"""How far the wall clocks of clients may be apart."""
_CLIENTS: Final = (2, 3, 3, 4, 5)
_OPERATIONS_MAX: Final = 12
_FAULTS_MAX: Final = 4
"""With more of them nothing is acknowledged."""
_SKEWS_MAX: Final = (5.0, 5.0, 60.0, 7200.0)
"""The same for clients whose clocks nobody set."""
_OTHER: Final = "x"
"""A branch that is not there at first."""
_REPEATS: Final = 3
"""How often a client asks for a keyed write of which it knows nothing."""


class Work(StrEnum):
    """What clients do. The script of a seed is another one for each."""

    INSERTS = "inserts"
    KEYS = "keys"
    """Writes and branch changes under keys, repeated by clients that know nothing."""
    GROUPS = "groups"
    """Three threads a client, which write the same branch at the same time."""
    BRANCHES = "branches"
    """Branches are made, written, deleted and made again."""
    LISTS = "lists"
    """Writes that read what they change, and merges that move pins alone."""
    UPKEEP = "upkeep"
    """Cleanups and folds among writers and makers of branches."""
    ALL = "all"
    READS = "reads"
    """Inserts into one table by what another one shows."""


@dataclass(frozen=True)
class Insert:
    """One row into each of some tables; with a key it is asked for until something is known."""

    wait: float
    branch: str
    tables: tuple[int, ...]
    has_key: bool = False
    is_refused: bool = False


@dataclass(frozen=True)
class Extend:
    """A name more in the list of each of some tables."""

    wait: float
    branch: str
    tables: tuple[int, ...]


@dataclass(frozen=True)
class InsertByReading:
    """One row into a table, by what another table shows."""

    wait: float
    branch: str
    table: int
    read: int


@dataclass(frozen=True)
class Adopt:
    """A branch that owns nothing shows what main shows."""

    wait: float
    branch: str


@dataclass(frozen=True)
class MakeBranch:
    """A branch of main."""

    wait: float
    branch: str
    has_key: bool = False


@dataclass(frozen=True)
class DropBranch:
    """The end of a branch."""

    wait: float
    branch: str
    has_key: bool = False


@dataclass(frozen=True)
class Clean:
    """What nothing needs goes."""

    wait: float


@dataclass(frozen=True)
class Fold:
    """The manifest becomes one fragment."""

    wait: float
    branch: str


@dataclass(frozen=True)
class Reopen:
    """Another handle, which recovers what is pending."""

    wait: float


Operation = (
    Insert | InsertByReading | Extend | Adopt | MakeBranch | DropBranch | Clean | Fold | Reopen
)


@dataclass(frozen=True)
class Crew:
    """A client: what each of its threads does, and after how long it is started again when it died."""

    name: str
    threads: tuple[tuple[Operation, ...], ...]
    skew: float = 0.0
    restarts_after: float = 20.0


@dataclass(frozen=True)
class Script:
    """A whole universe; without `faults` they are drawn."""

    seed: int
    line: Line
    crews: tuple[Crew, ...]
    faults: Mapping[tuple[str, int], Fault] | None = field(default=None)
    work: Work = Work.INSERTS


def draw_script(seed: int, line: Line | None = None, work: Work = Work.INSERTS) -> Script:
    """Draw what two to five clients do, with two to twelve operations together."""
    random = Random(f"{seed}/script" if work is Work.INSERTS else f"{seed}/script/{work}")
    chosen = line or random.choice(list(Line))
    clients = random.choice(_CLIENTS)
    left = random.randint(clients, _OPERATIONS_MAX)
    crews = []
    for number in range(clients):
        share = max(1, left // (clients - number))
        left -= share
        crews.append(_draw_crew(random, f"w{number}", chosen, share, work))
    return Script(seed, chosen, tuple(crews), work=work)


def _draw_crew(random: Random, name: str, line: Line, operations: int, work: Work) -> Crew:
    threads = 3 if work is Work.GROUPS else random.choice((1, 1, 2, 3))
    drawn = [_draw_operation(random, line, work) for _ in range(operations)]
    shares = (tuple(drawn[number::threads]) for number in range(threads))
    skew_max = _SKEW_MAX if work is Work.INSERTS else random.choice(_SKEWS_MAX)
    skew = random.uniform(-skew_max, skew_max) / 2
    return Crew(name, tuple(filter(None, shares)), skew, random.choice(_RESTARTS))


def _draw_operation(random: Random, line: Line, work: Work) -> Operation:
    wait = random.choice(_WAITS)
    if random.random() < 0.1:
        return Reopen(wait)
    branch = random.choice((line.branch, line.branch, Line.MAIN.branch))
    if work is Work.INSERTS:
        return Insert(wait, branch, _draw_tables(random))
    kind = random.choice(_KINDS[work])
    if work is Work.GROUPS:
        wait, branch = random.choice((0.0, 0.0, 0.0, 3.0)), line.branch
    if work in (Work.BRANCHES, Work.ALL):
        branch = random.choice((branch, branch, _OTHER))
    has_key = work in (Work.KEYS, Work.ALL, Work.GROUPS) and random.random() < 0.6
    changed = random.choice((_OTHER, _OTHER, BRANCH))
    if kind is Insert:
        is_refused = has_key and random.random() < 0.1
        return Insert(wait, branch, _draw_tables(random), has_key, is_refused)
    if kind is Extend:
        return Extend(wait, branch, _draw_tables(random))
    if kind is InsertByReading:
        return InsertByReading(wait, branch, *random.sample(range(len(TABLES)), 2))
    if kind in (MakeBranch, DropBranch):
        return kind(wait, changed, has_key)
    if kind is Clean:
        return Clean(wait)
    return Adopt(wait, BRANCH) if kind is Adopt else Fold(wait, branch)


def _draw_tables(random: Random) -> tuple[int, ...]:
    return tuple(sorted(random.sample(range(len(TABLES)), random.choice((1, 2, 2, 3)))))


class Weather(Universe):
    """A random universe: clients that write and are started again when they die, and faults at any request."""

    def __init__(self, script: Script) -> None:
        plan: Plan = Scripted(script.faults or {})
        if script.faults is None:
            plan = Drawn(script.seed, _FAULTS_MAX, self._is_exempt)
        super().__init__(script.seed, start=make_start(script.line), plan=plan)
        self.script = script

    def __str__(self) -> str:
        return f"weather {self.script.line} {self.script.seed}"

    def _is_exempt(self, request: Request) -> bool:
        return bool(self.branch_changers[request.client]) and is_unconditional(request)

    def run_and_judge(self) -> list[str]:
        """Run, and give the complaints of the judge."""
        self.run(self._act)
        return self.problems

    def _act(self) -> None:
        clients = [self.client(crew.name, crew.skew) for crew in self.script.crews]
        for client, crew in zip(clients, self.script.crews, strict=True):
            self.world.spawn(client, "main", partial(self._work, client, crew))
        for client, crew in zip(clients, self.script.crews, strict=True):
            self._await_and_restart(client, crew)
        self.wait_until_quiet()
        judge(self)

    def _await_and_restart(self, client: Client, crew: Crew) -> None:
        """Wait for a client; where it died, start another process, which opens the graph and writes once.

        It repeats the keyed requests of the dead one, of which it knows nothing.
        """
        self.wait_for(client)
        if client.is_dead:
            again = self.client(f"{client.name}'", crew.skew)
            again.wait(crew.restarts_after)
            last = Insert(0.0, self.script.line.branch, (0, 1, 2))
            work = partial(self._work, again, Crew(again.name, ((last,),)), self._list_asked(crew))
            self.world.spawn(again, "main", work)
            self.wait_for(again)

    def _list_asked(self, crew: Crew) -> dict[str, Operation]:
        """List the keyed requests that a client began, by name."""
        named = (
            (f"{crew.name}.{thread}.{number}", operation)
            for thread, operations in enumerate(crew.threads)
            for number, operation in enumerate(operations)
        )
        asked = self.writes.keys() | self.branch_changes.keys()
        return {
            name: operation
            for name, operation in named
            if name in asked and getattr(operation, "has_key", False)
        }

    def _work(
        self, client: Client, crew: Crew, asked: Mapping[str, Operation] = MappingProxyType({})
    ) -> None:
        handle = self.open(client)
        if handle is None:
            return
        for name, operation in asked.items():
            self._do(handle, name, operation)
        first, *others = crew.threads or ((),)
        for number, operations in enumerate(others, 1):
            work = partial(self._operate, handle, f"{crew.name}.{number}", operations)
            self.world.spawn(client, f"main {number}", work)
        self._operate(handle, f"{crew.name}.0", first)

    def _operate(self, handle: Handle, name: str, operations: tuple[Operation, ...]) -> None:
        for number, operation in enumerate(operations):
            handle.client.wait(operation.wait)
            handle = self._do(handle, f"{name}.{number}", operation)

    def _do(self, handle: Handle, name: str, operation: Operation) -> Handle:
        """Do one thing; gives the handle to go on with."""
        match operation:
            case Insert(branch=branch, has_key=False):
                self.insert(handle, branch, name, _name_tables(operation))
            case Insert():
                self._insert_until_known(handle, name, operation)
            case InsertByReading(branch=branch, table=table, read=read):
                self.insert_by_reading(handle, branch, name, TABLES[table], TABLES[read])
            case Extend(branch=branch):
                self.extend(handle, branch, name, _name_tables(operation))
            case Adopt(branch=branch):
                self.adopt(handle, branch, name)
            case MakeBranch(branch=branch, has_key=has_key):
                self.make_branch(handle, branch, name, has_key=has_key)
            case DropBranch(branch=branch, has_key=has_key):
                self.drop_branch(handle, branch, name, has_key=has_key)
            case Clean():
                self.clean(handle)
            case Fold(branch=branch):
                self.fold(handle, branch)
            case Reopen():
                return self.open(handle.client) or handle
        return handle

    def _insert_until_known(self, handle: Handle, name: str, insert: Insert) -> None:
        for _ in range(_REPEATS):
            write = self.insert_once(
                handle,
                insert.branch,
                name,
                _name_tables(insert),
                is_refused=insert.is_refused,
            )
            if write.told[-1] is not Fate.UNKNOWN:
                return


def _name_tables(operation: Insert | Extend) -> list[TableKey]:
    return [TABLES[table] for table in operation.tables]


_KINDS: Final = {
    Work.KEYS: (Insert, Insert, Insert, Insert, MakeBranch, DropBranch),
    Work.GROUPS: (Insert, Insert, Insert, Extend),
    Work.BRANCHES: (Insert, Insert, Insert, MakeBranch, DropBranch, DropBranch),
    Work.LISTS: (Extend, Extend, Extend, Insert, Adopt),
    Work.UPKEEP: (Insert, Extend, Extend, Clean, Clean, Fold, MakeBranch),
    Work.ALL: (Insert, Insert, Extend, Adopt, MakeBranch, DropBranch, Clean, Fold),
    Work.READS: (InsertByReading, InsertByReading, InsertByReading, Insert),
}
"""Kinds of operations, as often as they are drawn."""
