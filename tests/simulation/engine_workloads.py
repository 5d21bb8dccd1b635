"""What clients of a random universe of the engine do, as data: drawn from a seed, printed, cut down, and run again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from random import Random
from typing import Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import MAIN
from tests.simulation.appends import check_appends, list_transactions
from tests.simulation.engine_judge import judge
from tests.simulation.engine_operations import (
    SCHEMA,
    UPKEEP,
    Append,
    Audit,
    Close,
    Decide,
    Drop,
    Fork,
    Hold,
    Join,
    Look,
    Mail,
    Open,
    Operation,
    Transfer,
    Upkeep,
    Watch,
)
from tests.simulation.engine_universe import START, EngineStart, EngineUniverse
from tests.simulation.plans import Drawn, Scripted, is_unconditional
from tests.simulation.requested import Fault, Plan
from tests.simulation.world import Client

_WAITS: Final = (0.0, 0.0, 0.0, 0.1, 3.0, 30.0)
_RESTARTS: Final = (1.0, 20.0, 50.0)
_SKEW_MAX: Final = 2.5
_OPERATIONS: Final = (2, 3, 4, 5, 6)
_FAULTS_MAX: Final = 3
ACCOUNTS: Final = ("a", "b", "c", "d")
FORKED: Final = "b"
"""A branch that owns no table yet."""


class Work(StrEnum):
    """What the clients of a universe do."""

    STORY = "story"
    BANK = "bank"
    APPENDS = "appends"
    BRANCHES = "branches"
    KEYS = "keys"
    READ_SET = "read_set"
    UPKEEP = "upkeep"


@dataclass(frozen=True)
class EngineCrew:
    """A client: what each of its threads does, and after how long it is started again when it died."""

    name: str
    threads: tuple[tuple[Operation, ...], ...]
    skew: float = 0.0
    restarts_after: float = 20.0


@dataclass(frozen=True)
class EngineScript:
    """A whole universe; without `faults` they are drawn."""

    seed: int
    work: Work
    crews: tuple[EngineCrew, ...]
    faults: Mapping[tuple[str, int], Fault] | None = field(default=None)


# ---- drawing


def draw_script(seed: int, work: Work | None = None) -> EngineScript:
    """Draw what two or three clients do, with two to six operations each."""
    random = Random(f"{seed}/engine")
    drawn = random.choice(list(Work))
    chosen = work or drawn
    crews = []
    for number in range(random.choice((2, 3))):
        operations = [
            _DRAWN[chosen](random, f"w{number}.{place}")
            for place in range(random.choice(_OPERATIONS))
        ]
        # Lance does upkeep by several requests at once; what belongs to which thread could not be told.
        threads = 1 if chosen is Work.UPKEEP else random.choice((1, 1, 2))
        shares = tuple(tuple(operations[thread::threads]) for thread in range(threads))
        skew = random.uniform(-_SKEW_MAX, _SKEW_MAX)
        crews.append(EngineCrew(f"w{number}", shares, skew, random.choice(_RESTARTS)))
    return EngineScript(seed, chosen, tuple(crews))


def _draw_place(random: Random) -> tuple[str, float]:
    return random.choice((MAIN, MAIN, FORKED)), random.choice(_WAITS)


def _draw_story(random: Random, name: str) -> Operation:
    place = _draw_place(random)
    return random.choice((Open(*place, name=name), Open(*place, name=name), Audit(*place)))


def _draw_bank(random: Random, _name: str) -> Operation:
    place = _draw_place(random)
    if random.random() < 0.2:
        return Audit(*place, pause=random.choice((None, 1.0, 40.0)))
    ends = [(type_name, key) for type_name in ("Account", "Vault") for key in ACCOUNTS[:2]]
    source, target = random.sample(ends, 2)
    return Transfer(*place, source=source, target=target, amount=random.randint(1, 6))


def _draw_appends(random: Random, name: str) -> Operation:
    # Each number is appended once: it is the client's and the place's.
    branch, wait = random.choice((MAIN, MAIN, FORKED)), random.choice((0.0, 0.0, 0.1, 3.0))
    place, number = (branch, wait), int(name.removeprefix("w").replace(".", "0"))
    accounts = tuple(random.sample(ACCOUNTS, random.choice((1, 2, 3))))
    match random.choice(("look", "append", "watch", "watch", "decide")):
        case "watch":
            # Two that look at each other's list and change their own: the smallest write skew.
            source, target = ((name, "a") for name in random.sample(("Account", "Vault"), 2))
            return Watch(*place, source=source, target=target, number=number)
        case "look":
            return Look(*place, accounts=accounts)
        case "append":
            vaults = tuple(random.sample(ACCOUNTS, random.choice((0, 1))))
            return Append(*place, accounts=accounts, vaults=vaults, number=number)
        case _:
            pause = random.choice((0.0, 0.1, 5.0))
            return Decide(*place, accounts=accounts, number=number, pause=pause)


def _draw_branches(random: Random, name: str) -> Operation:
    wait = random.choice(_WAITS)
    source, target = random.sample((MAIN, FORKED, "c"), 2)
    match random.choice(("fork", "drop", "join", "join", "write", "write", "write")):
        case "fork":
            return Fork(random.choice((FORKED, "c")), wait, source=MAIN)
        case "drop":
            return Drop(random.choice((FORKED, "c")), wait)
        case "join":
            return Join(target, wait, source=source)
        case _:
            keys = tuple(random.sample(ACCOUNTS, 1))
            number = random.randrange(1_000_000)
            return random.choice(
                (Open(source, wait, name=name), Append(source, wait, accounts=keys, number=number))
            )


def _draw_keys(random: Random, _name: str) -> Operation:
    wait, key = random.choice(_WAITS), random.choice(("k1", "k2", "k3"))
    # A key is of one request: what it asks for follows from it.
    place = FORKED if key == "k3" else MAIN
    return random.choice(
        (
            Open(place, wait, name=f"new {key}", key=f"open {key}"),
            Append(place, wait, accounts=("a", "b"), number=int(key[1:]), key=f"append {key}"),
        )
    )


def _draw_read_set(random: Random, _name: str) -> Operation:
    place = _draw_place(random)
    key, other = random.sample(ACCOUNTS[:3], 2)
    return random.choice(
        (
            Hold(*place, source=key, target=other),
            Hold(*place, source=key, target=other),
            Mail(*place, account=key, mail=random.choice(("x", "y"))),
            Close(*place, type_name="Vault", node=other),
            Close(*place, type_name="Account", node=key),
        )
    )


def _draw_upkeep(random: Random, name: str) -> Operation:
    branch, wait = _draw_place(random)
    match random.choice(("upkeep", "upkeep", "write", "append", "held")):
        case "upkeep":
            return Upkeep(branch, wait, kind=random.choice(UPKEEP))
        case "write":
            return Open(branch, wait, name=name)
        case "append":
            number = random.randrange(1_000_000)
            return Append(branch, wait, accounts=ACCOUNTS[:2], vaults=("a",), number=number)
        case _:
            return Audit(branch, wait, pause=random.choice((1.0, 40.0)))


_DRAWN: Final[Mapping[Work, Callable[[Random, str], Operation]]] = {
    Work.STORY: _draw_story,
    Work.BANK: _draw_bank,
    Work.APPENDS: _draw_appends,
    Work.BRANCHES: _draw_branches,
    Work.KEYS: _draw_keys,
    Work.READ_SET: _draw_read_set,
    Work.UPKEEP: _draw_upkeep,
}


# ---- running


@cache
def make_start() -> EngineStart:
    """Make a graph with accounts on main, and a branch."""
    universe = EngineUniverse()
    client = universe.client("init")

    def begin() -> None:
        graph = universe.init(client, SCHEMA)
        for key in ACCOUNTS:
            Open(name=key).run(graph, START, client.wait)
        for type_name in ("Account", "Vault"):
            text = f"query m() {{ update {type_name} set {{ n: 10 }} where k is not null }}"
            graph.mutate(text, message=START)
        graph.mutate('query m() { delete Holds where from in ["a", "b", "c"] }', message=START)
        graph.branch_create(FORKED)

    def work() -> None:
        universe.let(client, begin)
        universe.wait_until_quiet()

    universe.run(work)
    assert not universe.problems, universe.problems
    return universe.end()


class EngineWeather(EngineUniverse):
    """A random universe: clients that work and are started again when they die, and faults at any request."""

    def __init__(self, script: EngineScript, plan: Plan | None = None) -> None:
        if plan is None and script.faults is None:
            plan = Drawn(script.seed, _FAULTS_MAX, is_unconditional)
        super().__init__(
            script.seed, start=make_start(), plan=plan or Scripted(script.faults or {})
        )
        self.script = script

    def __str__(self) -> str:
        return f"engine {self.script.work} {self.script.seed}"

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
        if self.script.work is Work.APPENDS:
            self._look_at_everything()
        judging = self.client("judge")
        self.let(judging, lambda: judge(self, judging))
        if self.script.work is Work.APPENDS:
            self.problems += check_appends(list_transactions(self), self.orders)

    def _look_at_everything(self) -> None:
        """Read every list once more: what was acknowledged is in a history only where somebody reads it."""
        reader = self.client("reader")

        def look() -> None:
            graph = self.open(reader)
            for branch in (MAIN, FORKED) if graph is not None else ():
                assert graph is not None
                self.call(graph, reader, f"{branch}.last", Look(branch, accounts=ACCOUNTS))

        self.let(reader, look)

    def _await_and_restart(self, client: Client, crew: EngineCrew) -> None:
        """Wait for a client; where it died, start another process, which repeats what has a key, and writes once."""
        self.wait_for(client)
        if client.is_dead:
            name = f"{client.name}'"
            operations = [operation for thread in crew.threads for operation in thread]
            again = [one for one in operations if one.key is not None]
            last = EngineCrew(name, ((*again, Open(wait=crew.restarts_after, name=name)),))
            repeating = self.client(name, crew.skew)
            self.let(repeating, partial(self._work, repeating, last))

    def _work(self, client: Client, crew: EngineCrew) -> None:
        graph = self.open(client)
        if graph is None:
            return
        first, *others = crew.threads
        for number, operations in enumerate(others, 1):
            work = partial(self._operate, graph, client, f"{crew.name}.{number}", operations)
            self.world.spawn(client, f"main {number}", work)
        self._operate(graph, client, f"{crew.name}.0", first)

    def _operate(
        self, graph: Graph, client: Client, name: str, operations: tuple[Operation, ...]
    ) -> None:
        for number, operation in enumerate(operations):
            client.wait(operation.wait)
            self.call(graph, client, f"{name}.{number}", operation)
