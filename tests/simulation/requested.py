"""Requests of clients, and what happens to them: lost, late, repeated, cut off, or the end of their client."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Final, TypeVar

from tests.simulation.world import NEVER, Client, Late, World

T = TypeVar("T")

_ATTEMPTS: Final = 2
"""A client of a store repeats a request that was lost once."""
_LOST_SECONDS: Final = 1.0
_SILENT_SECONDS: Final = 30.0
"""After how long a client gives up a request that is not answered."""
_DELAYS: Final = (0.05, 5.0, 40.0, 60.0, 100.0, 200.0)
"""How much later a request may reach the store."""
_STANDS: Final = (5.0, 36.0, 40.0)
"""For how long a client is cut off; the longer ones outlast its leases."""
_OWED_MAX: Final = 60
_FULL_SECONDS: Final = (0.1, 5.0, 60.0)
_JUMPS: Final = (-3_600.0, 3_600.0)


class Verb(StrEnum):
    """What a request does."""

    READ = "GET"
    LIST = "LIST"
    WRITE = "PUT"
    CONDITIONAL = "PUT-IF"
    DELETE = "DELETE"

    @property
    def has_effect(self) -> bool:
        """Whether it may change the store."""
        return self not in (Verb.READ, Verb.LIST)


class Fault(StrEnum):
    """What happens to a request, or to its client meanwhile."""

    LOST_BEFORE = "lost before"
    LOST_AFTER = "lost after"
    ERROR_BEFORE = "error before"
    """The store answers with an error until the client gives up."""
    ERROR_AFTER = "error after"
    DENIED = "denied"
    """The store refuses it, and would refuse it again."""
    TORN = "torn"
    """Half of a body comes: the client of the store sees that, and gives up."""
    FULL = "full"
    """The store takes no writes of anybody for a while."""
    JUMP = "jump"
    """Somebody sets the wall clock of the client by an hour."""
    LATE = "late"
    ORPHAN = "orphan"
    """Late, and its client is dead."""
    HELD = "held"
    """An orphan that arrives when the plan lets it go."""
    TWICE = "twice"
    STALL = "stall"
    """The client is cut off with the request on its way."""
    PAUSE = "pause"
    """The client is cut off after its answer, before it goes on."""
    SLEEP = "sleep"
    """As a stall, and the machine sleeps: its monotonic clock stands still."""
    CUT = "cut"
    """The client is cut off as the plan has set it."""
    KILL_BEFORE = "kill before"
    KILL_AFTER = "kill after"


ANSWERED: Final = frozenset(
    {
        None,
        Fault.JUMP,
        Fault.TWICE,
        Fault.STALL,
        Fault.PAUSE,
        Fault.SLEEP,
        Fault.CUT,
        Fault.KILL_AFTER,
    }
)
"""Faults with which the client gets its answer, if it lives."""
EFFECTIVE: Final = ANSWERED | {Fault.LOST_AFTER, Fault.ERROR_AFTER}
_FINAL: Final = frozenset(
    {Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.DENIED, Fault.TORN, Fault.FULL}
)
"""Faults after which the client does not repeat the request."""
DELAYING: Final = frozenset(
    {Fault.LATE, Fault.ORPHAN, Fault.TWICE, Fault.STALL, Fault.PAUSE, Fault.SLEEP}
)
"""Faults after which a request comes, or its client goes on, when others were at work meanwhile."""
OF_READS: Final = frozenset(
    {
        Fault.LOST_BEFORE,
        Fault.ERROR_BEFORE,
        Fault.DENIED,
        Fault.TORN,
        Fault.JUMP,
        Fault.STALL,
        Fault.PAUSE,
        Fault.SLEEP,
        Fault.KILL_BEFORE,
    }
)
"""Faults of a request that changes nothing: after its effect they are the same."""


def fits(fault: Fault, verb: Verb) -> bool:
    """Whether a fault can happen to such a request; of what changes nothing, it is the same before and after."""
    if fault is Fault.TORN:
        return verb is Verb.READ
    return verb.has_effect or fault in OF_READS


@dataclass(frozen=True)
class Request:
    """One request, before it reaches the store."""

    client: Client
    verb: Verb
    key: str
    number: int
    """Among those of its client."""


Plan = Callable[[Request], Fault | None]
"""What happens to a request."""


class Lost(Exception):
    """The answer of the store never came, or was an error."""

    def __init__(self, request: Request, fault: Fault | None) -> None:
        super().__init__(f"{request.verb} {request.key}")
        self.is_denied = fault is Fault.DENIED
        self.is_full = fault is Fault.FULL
        self.is_answered = fault in _FINAL
        """Whether the store answered, with an error."""


class Requests:
    """Carries the requests of a world out, and writes down what happened to them."""

    def __init__(self, world: World, plan: Plan = lambda _: None) -> None:
        self.plan = plan
        self.trace: list[str] = []
        self.counts: Counter[str] = Counter()
        """The requests of each client, by its name."""
        self.faults: Counter[str] = Counter()
        """How many faults each client met."""
        self._world = world
        self._held: list[Late] = []
        self._full_until = 0.0
        self.faults_met: dict[tuple[str, int], Fault] = {}
        """What happened to which request, by its client and its number."""

    def request(self, client: Client, verb: Verb, key: str, effect: Callable[[], T]) -> T:
        """Carry out one request with whatever the plan has for it; repeated as the client of a store repeats it."""
        fault = None
        for _ in range(_ATTEMPTS):
            self._world.step()
            request = Request(client, verb, key, self.counts[client.name] + 1)
            is_full = verb.has_effect and self._world.now < self._full_until
            fault = Fault.FULL if is_full else self.plan(request)
            self._note(request, fault)
            if fault is not None:
                self._begin(request, fault, effect)
            if fault in EFFECTIVE:
                result = effect()
                self._end(request, fault)
                if fault in ANSWERED:
                    return result
            if fault in _FINAL:
                break
            is_silent = fault in (Fault.LATE, Fault.ORPHAN)
            self._world.block(
                lambda: False, _SILENT_SECONDS if is_silent else _LOST_SECONDS, "no answer"
            )
        raise Lost(request, fault)

    def _begin(self, request: Request, fault: Fault, effect: Callable[[], object]) -> None:
        """What happens before the request has its effect."""
        # Drawn for this request alone: another fault more or less changes nothing here.
        chance = self._world.make_random(f"{request.client.name} {request.number}")
        if fault in (Fault.LATE, Fault.ORPHAN, Fault.TWICE):
            due = self._world.now + chance.choice(_DELAYS)
            arrive = partial(self._arrive, request, effect)
            self._world.late.append(Late(due, chance.random(), arrive))
        if fault is Fault.HELD:
            self._held.append(Late(NEVER, 0.0, partial(self._arrive, request, effect)))
        if fault in (Fault.KILL_BEFORE, Fault.ORPHAN, Fault.HELD):
            self.kill(request.client)
        if fault is Fault.FULL and self._full_until <= self._world.now:
            self._full_until = self._world.now + chance.choice(_FULL_SECONDS)
        if fault is Fault.JUMP:
            request.client.skew += chance.choice(_JUMPS)
        self._world.require_alive()
        if fault in (Fault.STALL, Fault.PAUSE, Fault.SLEEP):
            seconds, owed = chance.choice(_STANDS), chance.randrange(_OWED_MAX)
            request.client.cut_off(seconds, owed, sleeps=fault is Fault.SLEEP)
        if fault in (Fault.STALL, Fault.SLEEP, Fault.CUT):
            self._world.step()

    def _end(self, request: Request, fault: Fault | None) -> None:
        """What happens between the effect and the answer."""
        if fault is Fault.KILL_AFTER:
            self.kill(request.client)
        self._world.step()

    def let_go(self) -> None:
        """Let what is held arrive before anything else happens."""
        held, self._held = self._held, []
        for late in held:
            late.due = self._world.now
        self._world.late += held

    def kill(self, client: Client) -> None:
        """End a client: none of its handlers reaches the store."""
        client.is_dead = True
        self._write(client, "KILLED")

    def _arrive(self, request: Request, effect: Callable[[], object]) -> None:
        effect()
        self._write(request.client, f"{request.verb} {request.key}  ARRIVES")

    def say(self, client: Client, what: str) -> None:
        """Write down what a client says, beside its requests; who is dead says nothing."""
        self._world.require_alive()
        self._write(client, f"| {what}")

    def _write(self, client: Client, what: str) -> None:
        self.trace.append(f"{self._world.now:9.3f} {client.name:6} {what}")

    def _note(self, request: Request, fault: Fault | None) -> None:
        self.counts[request.client.name] += 1
        if fault is not None:
            self.faults[request.client.name] += 1
            self.faults_met[request.client.name, request.number] = fault
        suffix = "" if fault is None else f"  {fault.upper()}"
        self._write(request.client, f"{request.verb} {request.key}{suffix}")
        for other in self._world.clients:
            # The requests that end a standstill are counted from the moment at which its leases are over.
            if other is not request.client and other.stands_until <= self._world.now:
                other.owed = max(0, other.owed - 1)
