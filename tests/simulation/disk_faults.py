"""Random steps on a local disk: which write comes next, which failpoint interrupts it and how, all from one seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from omnigraphdb.failpoints import Failpoint
from tests.support.plain_model import Age, Befriend, Leave, Load, Maintain, Plain, Settle, Write

NAMES: Final = "abcdef"
PLACES: Final = "xyz"
BRANCHES_MAX: Final = 2

WRITING: Final = (
    Failpoint.STAGED,
    Failpoint.SIDECAR_WRITE,
    Failpoint.ARMED,
    Failpoint.FORK_CREATED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISH_LOAD,
    Failpoint.PUBLISHED,
    Failpoint.SIDECAR_DELETE,
    Failpoint.SIDECAR_LIST,
)
TENDING: Final = (
    Failpoint.INDICES_ARMED,
    Failpoint.INDICES_TABLE_COMMITTED,
    Failpoint.INDICES_COMMITTED,
    Failpoint.OPTIMIZE_ARMED,
    Failpoint.OPTIMIZE_COMPACTED,
    Failpoint.OPTIMIZE_TABLE_COMMITTED,
    Failpoint.OPTIMIZE_COMMITTED,
    Failpoint.PUBLISHED,
    Failpoint.SIDECAR_DELETE,
)
BRANCHING: Final = (
    Failpoint.BRANCH_CREATED,
    Failpoint.BRANCH_DROP_FORKS,
    Failpoint.BRANCH_DROP_LINEAGE,
)
RECOVERING: Final = (
    Failpoint.SIDECAR_LIST,
    Failpoint.SIDECAR_LISTED,
    Failpoint.SWEEP_LISTED,
    Failpoint.ROLL_FORWARD,
    Failpoint.ROLLBACK_RESTORED,
    Failpoint.ROLLBACK_PUBLISHED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
    Failpoint.AUDIT,
    Failpoint.ORPHAN_AUDIT,
    Failpoint.SIDECAR_DELETE,
)


class Way(StrEnum):
    """How an interruption happens."""

    ERROR = "error"
    """An error that the code may handle."""
    DEATH = "death"
    """The thread ends there: what handles errors does not run, what a kernel would release is released."""
    KILL = "kill"
    """A process is killed there."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An interruption: at the how-manieth arrival at which failpoint, and how."""

    point: Failpoint
    skip: int
    way: Way

    def __str__(self) -> str:
        return f"{self.way} at {self.point.value}+{self.skip}"


@dataclass(frozen=True, slots=True)
class Fork:
    """Make a branch."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete a branch."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: what is done on which branch, what interrupts it, and what interrupts the opens after it.

    `stays`: the handle is kept and refreshed instead, as a service does that is not restarted.
    """

    act: Write | Fork | Drop
    branch: str
    fault: Fault | None
    reopening: tuple[Fault, ...]
    stays: bool

    def __str__(self) -> str:
        after = "".join(f", then {fault}" for fault in self.reopening)
        kept = ", kept open" if self.stays else ""
        return f"{self.act} on {self.branch}: {self.fault or 'no fault'}{after}{kept}"


class Chance:
    """Draws steps; the same seed and the same graph give the same ones."""

    def __init__(self, seed: int, *, kills: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._kills = kills
        self._count = 0

    def step(self, graph: Mapping[str, Plain]) -> Step:
        """Draw the next step for a graph that shows this."""
        self._count += 1
        branch = self._random.choice(sorted(graph))
        act = self._act(graph, branch)
        points: Sequence[Failpoint] = WRITING
        if isinstance(act, Fork | Drop):
            points = BRANCHING
        elif isinstance(act, Maintain):
            points = TENDING
        stays = self._random.random() < 0.3
        again = 0 if stays else self._random.choice((0, 0, 0, 1, 1, 2))
        return Step(
            act=act,
            branch=branch,
            fault=self._fault(points) if self._random.random() < 0.85 else None,
            reopening=tuple(self._fault(RECOVERING) for _ in range(again)),
            stays=stays,
        )

    def _fault(self, points: Sequence[Failpoint]) -> Fault:
        way = self._random.choice((Way.ERROR, Way.DEATH))
        if self._random.random() < self._kills:
            way = Way.KILL
        return Fault(self._random.choice(points), self._random.choice((0, 0, 0, 1, 1, 2)), way)

    def _act(self, graph: Mapping[str, Plain], branch: str) -> Write | Fork | Drop:
        others = sorted(graph.keys() - {"main"})
        roll = self._random.random()
        if roll < 0.1 and len(others) < BRANCHES_MAX:
            return Fork(f"b{self._random.randint(1, 3)}", branch)
        if roll < 0.15 and others:
            return Drop(self._random.choice(others))
        if roll < 0.25:
            return Maintain(self._random.choice(("optimize", "ensure_indices")))
        return self._write(graph[branch])

    def _write(self, plain: Plain) -> Write:
        chance, n = self._random, self._random.randint(0, 99)
        name, place = chance.choice(NAMES), chance.choice(PLACES)
        people = plain.names
        match chance.randrange(7):
            case 0:
                return Settle(name, place, n)
            case 1 if people:
                return Befriend(chance.choice(people), chance.choice(people))
            case 2:
                return Age(name, n)
            case 3:
                return Leave(name)
            case 4:
                fresh = f"p{self._count}"
                return Load("append", ((fresh, n),), ((f"c{self._count}", n),), ((fresh, fresh),))
            case 5:
                both = ((name, n), (f"p{self._count}", n))
                return Load("merge", both, ((place, n),), (), ((name, place),))
            case _:
                pair = (name, f"p{self._count}")
                people_ = tuple((k, n) for k in pair)
                return Load("overwrite", people_, ((place, n),), (pair,), ((name, place),))
