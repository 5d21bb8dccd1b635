"""Traces of the model drive the protocol: each action is a place up to which one client runs, while all others stand still.

Where the code goes another way than the model, the place is not reached: that is counted, and must not become more.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from omnigraphdb.commit.locks import lock_key
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import OperationId
from omnigraphdb.storage.layout import LOCKS, MANIFEST, RECOVERY
from omnigraphdb.storage.locks.holders import UNNAMED
from omnigraphdb.storage.locks.stored_lease import Lease, lease_of, lease_path
from tests.simulation.handles import TABLES, Handle
from tests.simulation.judge import judge
from tests.simulation.requested import Fault, Plan, Request, Requests, Verb
from tests.simulation.scenarios import Line, Universe, make_start
from tests.simulation.stored_traces import Action, Trace, list_files, read_traces
from tests.simulation.world import Client, Task, World

T = TypeVar("T")

PLACE_SECONDS_MAX: Final = 5.0
"""After so much virtual time a place counts as missed: its client waits for a lock, or goes another way."""
LEASE_IS_OVER: Final = 36.5
TAKE_SECONDS_MAX: Final = 45.0
"""Whoever waits for a lock looks at its lease until that is over."""
_TABLES: Final = dict(zip("AB", TABLES, strict=False))
_LEASES: Final = frozenset(lease_path(lock_key(table, None).name) for table in _TABLES.values())


# ---- places


@dataclass(frozen=True, eq=False)
class _Place:
    """A request up to which a client goes, or past which."""

    is_at: Callable[[Request], bool]
    is_past: bool = False


@dataclass
class _Walk:
    """One client, and how far it may go."""

    client: Client
    handle: Handle
    is_writer: bool
    goal: _Place | None = None
    """Without one it stands still after the answer that it got last."""
    is_passing: bool = False
    """Whether its request is the one past which it goes."""
    leases: set[str] = field(default_factory=set)
    """The leases that it has for what it does, by their keys."""
    operation: OperationId | None = None
    """What it writes under."""
    has_sent: bool = False
    """Whether the request at which it stands is on its way."""
    is_doomed: bool = False
    sleeps: bool = False
    is_running: bool = False

    @property
    def stands(self) -> bool:
        """Whether it stands still."""
        return self.goal is None

    @property
    def is_over(self) -> bool:
        """Whether it does nothing any more, or not yet."""
        return not self.is_running or self.client.is_dead


_PUTS: Final = (Verb.WRITE, Verb.CONDITIONAL)


def _is_lease(request: Request) -> bool:
    return request.key.startswith(f"{LOCKS}/")


def _writes_version(table: str, request: Request) -> bool:
    """Whether a request creates a version: of a table, of the manifest (`swap`), of any of them."""
    is_version = request.verb in _PUTS and "/_versions/" in request.key
    is_swap = request.key.startswith(f"{MANIFEST}/")
    is_table = request.key.startswith("nodes/")
    return is_version and (is_swap if table == "swap" else is_table)


def _reads_version(request: Request) -> bool:
    return request.verb is Verb.READ and "/_versions/" in request.key


def _is_sidecar(verbs: tuple[Verb, ...], request: Request) -> bool:
    return request.verb in verbs and request.key.startswith(f"{RECOVERY}/")


def _has_effect(request: Request) -> bool:
    return request.verb.has_effect and not _is_lease(request)


_UP_TO_SIDECAR: Final = _Place(partial(_is_sidecar, _PUTS))
_PAST_SIDECAR: Final = _Place(partial(_is_sidecar, _PUTS), is_past=True)
_PAST_DELETE: Final = _Place(partial(_is_sidecar, (Verb.DELETE,)), is_past=True)
_UP_TO_SWAP: Final = _Place(partial(_writes_version, "swap"))
_PAST_SWAP: Final = _Place(partial(_writes_version, "swap"), is_past=True)
_UP_TO_VERSION: Final = _Place(partial(_writes_version, ""))
_THE_END: Final = _Place(lambda _: False)
_PLACES: Final = {
    "gather": _Place(_has_effect),
    "prepare": _UP_TO_SIDECAR,
    "arm": _PAST_SIDECAR,
    "decide": _PAST_SIDECAR,
    "note": _PAST_SIDECAR,
    "send_table": _UP_TO_VERSION,
    "send_restore": _UP_TO_VERSION,
    "begin_restore": _Place(_reads_version),
    "send_swap": _UP_TO_SWAP,
    "roll_forward": _PAST_SWAP,
    "repin": _PAST_SWAP,
    "finish": _PAST_DELETE,
    "disarm": _PAST_DELETE,
    "stop": _THE_END,
    "withdraw": _THE_END,
    "give_way": _THE_END,
    "leave": _THE_END,
}
_SENDING: Final = ("send_table", "send_swap", "send_restore")


class _Requests(Requests):
    """Requests after whose answer a client may have to stand still, before it does anything else."""

    def __init__(
        self, world: World, plan: Plan, stand: Callable[[Client, Verb, str], None]
    ) -> None:
        super().__init__(world, plan)
        self._stand = stand

    def request(self, client: Client, verb: Verb, key: str, effect: Callable[[], T]) -> T:
        try:
            return super().request(client, verb, key, effect)
        finally:
            self._stand(client, verb, key)


class Traced(Universe):
    """A universe in which clients go where a trace of the model says; then all run freely and the judge speaks."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(start=make_start(Line.MAIN), first=self._rank)
        self.requests = _Requests(self.world, self._decide, self._stand)
        self.trace = trace
        self.missed: list[Action] = []
        """The actions whose place was not reached."""
        self._is_free = False
        self._walks: dict[str, _Walk] = {}
        self._owners: dict[str, str | None] = {}
        """Who has each lease."""

    def __str__(self) -> str:
        missed = ", ".join(map(str, self.missed))
        return f"trace {self.trace}" + (f"; missed: {missed}" if missed else "")

    def run_and_judge(self) -> list[str]:
        """Run, and give the complaints of the judge."""

        def work() -> None:
            for name in sorted({action.client for action in self.trace.actions}):
                client = self.client(name)
                is_writer = name in self.trace.tables
                self._walks[name] = _Walk(client, self.handle(client), is_writer)
            for action in self.trace.actions:
                if not self._follow(action):
                    self.missed.append(action)
            self._end()
            judge(self)

        self.run(work)
        return self.problems

    def _rank(self, task: Task) -> int:
        return 0 if task.client.name == "keeper" else 1

    def _end(self) -> None:
        self._is_free = True
        for walk in self._walks.values():
            walk.sleeps = False
        self.requests.let_go()
        self.wait_for(*(walk.client for walk in self._walks.values()))
        self.wait_until_quiet()

    # ---- an action

    def _follow(self, action: Action) -> bool:
        """Let its client go to the place of an action; tells whether it came there."""
        walk = self._walks[action.client]
        if action.name == "run_out":
            walk.sleeps = True
            return not self.world.block(lambda: False, LEASE_IS_OVER, "a lease runs out")
        if walk.client.is_dead:
            return action.name == "arrive" and self._let_arrive()
        match action.name:
            case "die":
                return self._kill(walk)
            case "take":
                self._begin(walk, action.about)
                is_at = partial(self._holds, walk, action.about)
                return self._go(walk, _Place(is_at), TAKE_SECONDS_MAX)
            case "arrive":
                is_at = partial(_writes_version, action.about)
                return self._go(walk, _Place(is_at, is_past=True))
        reached = self._go(walk, _PLACES[action.name])
        walk.has_sent = reached and action.name in _SENDING
        if action.name in ("finish", "disarm"):
            # The locks are given back.
            return self._go(walk, _THE_END) and reached
        return reached

    def _let_arrive(self) -> bool:
        self.requests.let_go()
        return not self.world.block(lambda: False, 1.0, "a request arrives")

    def _kill(self, walk: _Walk) -> bool:
        if walk.is_over:
            return False
        if walk.has_sent:
            walk.is_doomed = True
            self.world.block(lambda: walk.client.is_dead, PLACE_SECONDS_MAX, "its death")
        else:
            self.requests.kill(walk.client)
        return not self.world.block(lambda: False, LEASE_IS_OVER, "its leases run out")

    def _begin(self, walk: _Walk, about: str) -> None:
        """Let a client begin with its write, or with the recovery of an operation."""
        if not walk.is_over:
            return
        walk.is_running, walk.sleeps, walk.leases = True, False, set()

        def work() -> None:
            if walk.is_writer:
                name = f"{about}.{len(self.writes)}"
                tables = [_TABLES[letter] for letter in self.trace.tables[about]]
                self.insert(walk.handle, Line.MAIN.branch, name, tables)
            else:
                self._recover(walk, self._walks[about])
            walk.is_running, walk.sleeps = False, False

        self.world.spawn(walk.client, "main", work)

    def _recover(self, walk: _Walk, writer: _Walk) -> None:
        handle = walk.handle
        try:
            sidecar = writer.operation and handle.committer.sidecars.find(writer.operation)
            if sidecar:
                handle.recovery.recover_operation(sidecar)
        except OmniError as error:
            self.say(walk.client, "the recovery", error)

    def _go(self, walk: _Walk, place: _Place, seconds_max: float = PLACE_SECONDS_MAX) -> bool:
        """Let a client run to a place, or to the end of what it does; tells whether it came there."""
        if walk.is_over:
            return False
        walk.goal, walk.has_sent = place, False
        self.world.block(lambda: walk.stands or walk.is_over, seconds_max, "a place")
        is_there = walk.stands or (place is _THE_END and walk.is_over)
        walk.goal = None
        return is_there

    def _holds(self, walk: _Walk, about: str, request: Request) -> bool:
        """Whether a client has all of its locks at a request."""
        return len(walk.leases) == len(self.trace.tables[about]) and not _is_lease(request)

    # ---- a request

    def _find_walk(self, client: Client) -> _Walk | None:
        """Find the walk whose work this thread does; the renewal of leases is none."""
        task = self.world.task
        is_work = task is not None and task.client is client and task.name == "main"
        return self._walks.get(client.name) if is_work else None

    def _decide(self, request: Request) -> Fault | None:
        """What happens to a request; its client waits before it that it may go on."""
        walk = self._find_walk(request.client)
        if walk is None:
            asleep = self._walks.get(request.client.name)
            # A lease that ran out is not renewed.
            return Fault.LOST_BEFORE if asleep is not None and asleep.sleeps else None
        while not self._is_free:
            if walk.is_doomed:
                return Fault.HELD
            if walk.goal is None:
                self._wait_for_goal(walk)
                continue
            if not walk.goal.is_at(request):
                break
            if walk.goal.is_past:
                walk.is_passing = True
                break
            walk.goal = None
        return None

    def _stand(self, client: Client, verb: Verb, key: str) -> None:
        """Let a client that came past its place stand still after the answer."""
        walk = self._find_walk(client)
        if walk is None or self._is_free:
            return
        if verb in _PUTS and key in _LEASES:
            self._note_lease(walk, key)
        if walk.is_passing:
            walk.is_passing, walk.goal = False, None
        while walk.stands and not walk.is_doomed and not self._is_free:
            self._wait_for_goal(walk)

    def _wait_for_goal(self, walk: _Walk) -> None:
        self.world.block(
            lambda: self._is_free or not walk.stands or walk.is_doomed, None, "stands still"
        )

    def _note_lease(self, walk: _Walk, key: str) -> None:
        """Note which leases a client has for what it does: a writer that recovers first has others before."""
        lease = self._read_lease(key)
        if lease is None or lease.owner == self._owners.get(key):
            # Somebody else has it still.
            return
        self._owners[key] = lease.owner
        activity = UNNAMED if lease.holder is None else lease.holder.activity
        is_own_write = activity.kind == WriterKind.MUTATION
        if lease.owner is None or is_own_write != walk.is_writer:
            walk.leases.discard(key)
            return
        walk.leases.add(key)
        if walk.is_writer and activity.operation_id is not None:
            walk.operation = OperationId(activity.operation_id)

    def _read_lease(self, key: str) -> Lease | None:
        stored = self.store.get(key)
        if stored is None:
            return None
        assert isinstance(stored.value, bytes), "a lease is a text"
        return lease_of(stored.value.decode(), key)


def list_traced(names: str) -> Iterator[Traced]:
    """List a universe for each trace of some files; prints after each file how many actions could be followed."""
    for path in list_files(names):
        missed: Counter[str] = Counter()
        actions = 0
        for trace in read_traces(path):
            universe = Traced(trace)
            yield universe
            actions += len(trace.actions)
            missed.update(action.name for action in universe.missed)
        where = ", ".join(f"{count} {name}" for name, count in missed.most_common())
        followed = actions - missed.total()
        print(f"{path.stem}: followed {followed} of {actions} actions; missed: {where or 'none'}")
