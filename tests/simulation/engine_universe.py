"""Universes of the whole engine: the public API, real Lance and obstore, on a bucket whose requests the scheduler owns.

The task that sent a request waits below Python and has the turn, so the handler of the request takes its part.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit
from omnigraphdb.commit.lock_queue import LockQueue
from omnigraphdb.engine.session import engine as session
from omnigraphdb.engine.session.open import init_graph, open_graph
from omnigraphdb.errors import OmniError
from omnigraphdb.language.source import Source
from omnigraphdb.storage.layout import LOCKS
from tests.simulation.bucket import NAME, Answer, Bucket, NoAnswer, Request, Stored, refuse
from tests.simulation.bucket_server import ServedBucket, serve
from tests.simulation.engine_operations import Operation, Reply
from tests.simulation.requested import Lost, Plan, Verb
from tests.simulation.universe import Fate, Life, judge_refusal
from tests.simulation.world import Client, Died, Task

URI: Final = f"s3://{NAME}/g"
QUIET: Final[Mapping[str, Any]] = {"maintenance": "off"}
ACTOR: Final = "ada"
"""All clients are one actor: a key belongs to an actor."""
START: Final = "start"
"""The message of commits that were there before the clients came."""
_END_SECONDS: Final = 20.0
"""How long threads of dead clients may take to end, by the real clock."""
_OWN_NAMES: Final = re.compile(r"/(data|_transactions|_deletions|_indices)/")
"""Files with names of their own, which nobody contends for."""
_EPOCH_US: Final = int(time.time() // 86_400) * 86_400_000_000
"""The beginning of the day: Lance asks the clock of the machine whether files are old enough to be removed."""
_KEEPERS: Final = frozenset(
    f"omnigraph-{name}" for name in ("jobs", "leases", "renew", "release", "heartbeat")
)
_KEPT: Final = re.compile(r"g/__(locks|jobs|recovery)/")
"""Files that threads in the background keep alive."""
_VERBS: Final = {
    "GET": Verb.READ,
    "HEAD": Verb.READ,
    "LIST": Verb.LIST,
    "PUT": Verb.WRITE,
    "PART": Verb.WRITE,
    "DELETE": Verb.DELETE,
}


@dataclass(frozen=True)
class EngineStart:
    """A bucket in which a universe begins."""

    objects: Stored
    now: float
    ids: int


@dataclass
class Call:
    """One call of a client, and what it was told."""

    name: str
    """The message of its commit: calls under one idempotency key share it."""
    client: str
    operation: Operation
    began: int
    """Moments are counted by calls that begin or end."""
    ended: int | None = None
    """None while it runs, and for ever when its client died."""
    fate: Fate = Fate.UNKNOWN
    answer: Reply = field(default_factory=Reply)
    error: OmniError | None = None
    seconds: float = 0.0
    is_undisturbed: bool = True
    """Whether its client met no fault meanwhile."""

    def __str__(self) -> str:
        return f"{self.name} of {self.client} ({self.operation})"


class EngineUniverse(Life):
    """A life of the engine. What its clients do belongs to the workload."""

    def __init__(
        self,
        seed: int = 0,
        *,
        start: EngineStart | None = None,
        plan: Plan = lambda _: None,
        first: Callable[[Task], int] | None = None,
    ) -> None:
        super().__init__(seed, plan=plan, first=first)
        self.world.epoch_us = _EPOCH_US
        self.bucket = Bucket(lambda: _EPOCH_US / 1_000_000 + self.world.now)
        self.calls: list[Call] = []
        self.orders: dict[str, tuple[Commit, ...]] = {}
        """The commits of each branch, oldest first, as the judge finds them."""
        self._moment = 0
        self._queues: dict[Client, LockQueue] = {}
        self._answered = threading.Condition()
        self._asking: dict[Task, Request] = {}
        self._served: ServedBucket | None = None
        if start is not None:
            self.bucket.objects = dict(start.objects)
            self.world.begin(start.now, start.ids)

    # ---- who is there

    def client(self, name: str, skew: float = 0.0) -> Client:
        """A new process."""
        made = super().client(name, skew)
        self._queues[made] = LockQueue()
        return made

    def run(self, work: Callable[[], object]) -> None:
        """Run work in a task of its own, and everything that it spawns, to the end."""
        usual = vars(session)["queue_of"]
        vars(session)["queue_of"] = lambda _root: self._queues[self._me]
        self.bucket.step = self._step
        try:
            with serve(self.bucket) as self._served:
                super().run(work)
                self.problems += [f"{name} does not end" for name in self.world.join(_END_SECONDS)]
        finally:
            vars(session)["queue_of"] = usual

    @property
    def _me(self) -> Client:
        task = self.world.task
        assert task is not None, "graphs are opened by tasks"
        return task.client

    def end(self) -> EngineStart:
        """The bucket as it is, to begin other universes in."""
        return EngineStart(dict(self.bucket.objects), self.world.now, self.world.ids)

    # ---- graphs of clients

    def init(self, client: Client, schema: str) -> Graph:
        """Make a graph."""
        options = self._options(client)
        source = Source(schema, "_schema.pg")
        return Graph(init_graph(URI, source, storage_options=options, config=QUIET, runtime=client))

    def open_or_raise(self, client: Client, *, read_only: bool = False) -> Graph:
        """Open the graph; a client that may write recovers what others left."""
        options = self._options(client)
        return Graph(
            open_graph(
                URI, storage_options=options, config=QUIET, runtime=client, read_only=read_only
            ),
            actor=ACTOR,
        )

    def open(self, client: Client) -> Graph | None:
        """Open the graph; None when that was refused."""
        try:
            graph = self.open_or_raise(client)
        except OmniError as error:
            self.say(client, "open", error)
            return None
        self.requests.say(client, "is open")
        return graph

    def _options(self, client: Client) -> dict[str, str]:
        assert self._served is not None, "graphs are opened while the universe runs"
        return self._served.options(client.name)

    def list_lasting(self) -> dict[str, str]:
        """List the objects that are more than locks, with their tokens."""
        return {
            key: stored.etag
            for key, stored in self.bucket.objects.items()
            if not key.startswith(f"g/{LOCKS}/")
        }

    # ---- calls

    def call(self, graph: Graph, client: Client, name: str, operation: Operation) -> Call:
        """Make a call, and note what the client is told."""
        title = operation.key or name
        call = Call(title, client.name, operation, self._tick())
        self.calls.append(call)
        began, faults = self.world.now, self.requests.faults[client.name]
        try:
            call.answer = operation.run(graph, title, client.wait)
        except OmniError as error:
            # Who is dead is told nothing.
            self.world.require_alive()
            call.error, call.fate = error, judge_refusal(error)
            self.say(client, name, error)
        except Exception as error:
            self.world.require_alive()
            self.problems.append(f"S7 {call} ended by {type(error).__name__}: {error}")
        else:
            self.world.require_alive()
            call.fate = Fate.ACKNOWLEDGED
            self.requests.say(client, f"{name} {operation} acknowledged as {call.answer.commit}")
        call.ended, call.seconds = self._tick(), self.world.now - began
        call.is_undisturbed = self.requests.faults[client.name] == faults
        return call

    def _tick(self) -> int:
        self._moment += 1
        return self._moment

    # ---- requests

    def _step(self, name: str, request: Request) -> Answer:
        """Carry out a request of the task that has the turn, with whatever the plan has for it."""
        if _OWN_NAMES.search(request.key) and request.verb != "DELETE":
            self._require_alive(name)
            return request.carry_out()
        task = self._begin(name, request)
        if task is None:
            self._require_alive(name)
            return request.carry_out()
        try:
            with self.world.standing_for(task):
                return self.requests.request(
                    task.client, _verb_of(request), request.key, request.carry_out
                )
        except Lost as lost:
            return _answer_lost(lost)
        except Died:
            raise NoAnswer from None
        finally:
            with self._answered:
                del self._asking[task]
                self._answered.notify_all()
            self.world.leave(task)

    def _begin(self, name: str, request: Request) -> Task | None:
        """Find the task that sent a request; None for a request beside another one of its task, when that has ended.

        Lance reads and removes several files at once. Such requests have the turn of the first of them.
        """
        self._require_alive(name)
        with self._answered:
            task = self.world.active
            if task is not None and task not in self._asking and _may_send(task, name, request):
                self._asking[task] = request
                return task
            beside = next((one for one in self._asking if one.client.name == name), None)
            if beside is None:
                if not self.world.is_over:
                    self.problems.append(f"stray: {name} {request.verb} {request.key}")
                raise NoAnswer
            first = self._asking[beside]
            self._answered.wait_for(lambda: self._asking.get(beside) is not first)
            return None

    def _require_alive(self, name: str) -> None:
        """Let nothing of a dead client have an effect."""
        if self.world.is_over or any(one.is_dead for one in self.world.clients if one.name == name):
            raise NoAnswer


def _may_send(task: Task, name: str, request: Request) -> bool:
    """Whether a request may be of a task: threads that keep something alive ask for nothing else."""
    is_keeper = task.name in _KEEPERS
    return task.client.name == name and (not is_keeper or bool(_KEPT.match(request.key)))


def _verb_of(request: Request) -> Verb:
    verb = _VERBS[request.verb]
    return Verb.CONDITIONAL if verb is Verb.WRITE and request.is_conditional else verb


def _answer_lost(lost: Lost) -> Answer:
    """The answer to a request that the plan has lost: an error of the store, or none at all."""
    if lost.is_denied:
        return refuse(403, "AccessDenied")
    if lost.is_answered:
        return refuse(503, "SlowDown")
    raise NoAnswer
