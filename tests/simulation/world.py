"""A world: clients with clocks of their own, and the scheduler that every request, wait and moment belongs to.

A task is a thread that runs only while it has the turn, so that the synchronous engine needs no change. A client that is
killed is never scheduled again: none of its handlers reaches the store.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

EPOCH_US: Final = 1_700_000_000_000_000
STEP_SECONDS: Final = 0.005
"""The virtual time of one request."""
STEPS_MAX: Final = 200_000
NEVER: Final = float("inf")
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CHANGES: Final = 3
"""How often the priorities of a universe change."""
_HORIZON: Final = 2_000
"""Within how many steps they do."""

Ready = Callable[[], bool]


class Died(BaseException):
    """Unwinds the thread of a dead client, or of a world that is over; no handler of errors may see it."""


class Stuck(Exception):
    """A universe that goes on and on: somebody polls for what never comes."""


@dataclass(eq=False)
class Client:
    """A simulated process, and its `Runtime`."""

    world: "World"
    name: str
    skew: float = 0.0
    """How far its wall clock is ahead, in seconds."""
    is_dead: bool = False
    stands_until: float = 0.0
    """Until when it is cut off."""
    owed: int = 0
    """How many requests of others it is cut off for after that."""
    slept: float = 0.0
    """For how long its monotonic clock stood still."""
    _asleep_since: float | None = None

    def __post_init__(self) -> None:
        self.random = self.world.make_random(f"client {self.name}")
        self.world.clients.append(self)

    def now_us(self) -> int:
        """The wall clock."""
        return self.world.epoch_us + int((self.world.now + self.skew) * 1_000_000)

    def monotonic(self) -> float:
        """The monotonic clock; a machine that was suspended lacks that time."""
        return self.world.now - self.slept

    def new_id(self) -> str:
        """A fresh ULID; those of a world sort in the order they were made, and nobody who is dead gets one."""
        self.world.require_alive()
        return self.world.new_id()

    def wait(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.world.block(lambda: False, seconds, "wait")

    def jitter(self, seconds: float) -> float:
        """A random part of a delay."""
        return self.random.uniform(0, seconds)

    def cut_off(self, seconds: float, owed: int, *, sleeps: bool = False) -> None:
        """Stand still for so long, and then until others made so many requests; a machine that sleeps loses the time."""
        self.stands_until, self.owed = self.world.now + seconds, owed
        self._asleep_since = self.world.now if sleeps else None

    def wake(self) -> None:
        """Go on, with a monotonic clock that stood still."""
        if self._asleep_since is not None:
            self.slept += self.world.now - self._asleep_since
            self._asleep_since = None

    @property
    def is_awake(self) -> bool:
        """Whether it may run."""
        return not self.is_dead and self.stands_until <= self.world.now and self.owed <= 0


@dataclass(eq=False)
class Task:
    """A thread of a client. `ready` is what it waits for, until `deadline`."""

    client: Client
    name: str
    priority: float
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    ready: Ready | None = None
    deadline: float = 0.0
    is_ended: bool = False
    has_left: bool = False
    """Whether somebody else has its turn though its thread has not ended."""
    error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether it will not run again."""
        return self.is_ended or self.client.is_dead


@dataclass(eq=False)
class Late:
    """An effect that comes by itself, when it is due."""

    due: float
    priority: float
    act: Callable[[], object]


class World:
    """The scheduler.

    `first` orders those who may run; without it chance does, evenly or by priorities that change a few times.
    """

    def __init__(self, seed: int, first: Callable[[Task], int] | None = None) -> None:
        self.seed = seed
        self.now = 0.0
        self.epoch_us = EPOCH_US
        """The moment at which it began, by the wall clock."""
        self.is_over = False
        self.steps = 0
        self.clients: list[Client] = []
        self.late: list[Late] = []
        self.ids = 0
        self.active: Task | None = None
        """The task that has the turn."""
        self._first = first
        self._schedule = self.make_random("schedule")
        self._has_priorities = self._schedule.random() < 0.5
        self._changes = {self._schedule.randrange(_HORIZON) for _ in range(_CHANGES)}
        self._tasks: list[Task] = []
        self._threads: list[threading.Thread] = []
        self._local = threading.local()
        self._done = threading.Semaphore(0)

    def make_random(self, name: str) -> random.Random:
        """Make a generator for one purpose: what one part draws changes nothing for the others."""
        return random.Random(f"{self.seed}/{name}")

    def new_id(self) -> str:
        """A fresh ULID."""
        self.ids += 1
        value = (self.epoch_us // 1000 + int(self.now * 1000) << 80) + self.ids
        return "".join(_DIGITS[value >> shift & 31] for shift in range(125, -1, -5))

    def begin(self, now: float, ids: int) -> None:
        """Begin at a moment of another world, after the ids that it gave."""
        self.now, self.ids = now, ids

    # ---- tasks

    def spawn(self, client: Client, name: str, work: Callable[[], object]) -> Task:
        """Add a thread to a client."""
        task = Task(client, name, self._schedule.random())
        self._tasks.append(task)
        thread = threading.Thread(
            target=self._live, args=(task, work), name=f"{client.name}/{name}", daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return task

    def _live(self, task: Task, work: Callable[[], object]) -> None:
        self._local.task = task
        task.turn.acquire()
        try:
            if not self.is_over:
                work()
        except Died:
            pass
        except BaseException as error:
            task.error = error
        task.is_ended = True
        if not self.is_over and not task.has_left:
            self._pass_on()

    def leave(self, task: Task) -> None:
        """Pass the turn of a dead client on while its thread waits below Python, where it may repeat a request for seconds."""
        if self.active is task and task.client.is_dead and not (self.is_over or task.has_left):
            task.has_left = True
            self._pass_on()

    @property
    def task(self) -> Task | None:
        """The task of this thread."""
        return getattr(self._local, "task", None)

    @contextmanager
    def standing_for(self, task: Task) -> Iterator[None]:
        """Let this thread take the part of a task that has the turn and waits for it."""
        self._local.task = task
        try:
            yield
        finally:
            self._local.task = None

    def join(self, seconds: float) -> list[str]:
        """Wait until the threads of a world that is over have ended; those that do not."""
        for thread in self._threads:
            thread.join(seconds)
        return [thread.name for thread in self._threads if thread.is_alive()]

    def run(self) -> None:
        """Run until nobody who lives waits for anything that will come; raises what a task did not handle."""
        self._pass_on()
        self._done.acquire()
        self.is_over = True
        for task in self._tasks:
            if not task.is_ended:
                task.turn.release()
        for task in self._tasks:
            if task.error is not None:
                raise task.error

    def tasks_of(self, *clients: Client) -> list[Task]:
        """The tasks of clients."""
        return [task for task in self._tasks if task.client in clients]

    # ---- turns

    def step(self) -> None:
        """End the turn before an effect; others may run before this task goes on."""
        task = self.task
        if task is not None:
            self.require_alive()
            self.now += STEP_SECONDS
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Stuck(f"{self.steps} steps")
            task.ready = None
            self._switch(task)

    def block(self, ready: Ready, seconds: float | None, why: str) -> bool:
        """Wait until a condition holds or virtual time has passed; tells whether the condition holds."""
        task = self.task
        if task is None:
            return ready()
        self.require_alive()
        if not ready():
            task.ready = ready
            task.deadline = NEVER if seconds is None else self.now + seconds
            self._switch(task)
        return ready()

    def require_alive(self) -> None:
        """End the thread of a client that is dead."""
        task = self.task
        if task is not None and (self.is_over or task.client.is_dead):
            raise Died

    def _switch(self, task: Task) -> None:
        self._pass_on()
        task.turn.acquire()
        self.require_alive()
        task.client.wake()

    def _pass_on(self) -> None:
        """Give the turn to the next, after late requests that come before it."""
        while True:
            alive = [task for task in self._tasks if not task.is_over]
            able = [task for task in alive if task.client.is_awake and self._is_able(task)]
            due = [one for one in self.late if one.due <= self.now]
            chosen = self._choose(able, due)
            if isinstance(chosen, Task):
                self.active = chosen
                chosen.turn.release()
                return
            if chosen is not None:
                self.late.remove(chosen)
                chosen.act()
            elif not self._pass_time(alive):
                self._done.release()
                return

    def _is_able(self, task: Task) -> bool:
        return task.ready is None or task.deadline <= self.now or task.ready()

    def _choose(self, able: list[Task], due: list[Late]) -> Task | Late | None:
        if self._first is not None:
            return min(able, key=self._first) if able and not due else next(iter(due), None)
        choices: list[Task | Late] = [*able, *due]
        if not choices:
            return None
        if not self._has_priorities:
            return choices[self._schedule.randrange(len(choices))]
        chosen = max(choices, key=lambda one: one.priority)
        if self.steps in self._changes and isinstance(chosen, Task):
            self._changes.discard(self.steps)
            chosen.priority = -self.steps
        return chosen

    def _pass_time(self, alive: list[Task]) -> bool:
        """Jump to the next moment at which somebody may run; whoever waits for others wakes when nobody else can."""
        moments = [
            max(task.deadline if task.ready else 0.0, task.client.stands_until) for task in alive
        ]
        moments += [one.due for one in self.late]
        following = min((moment for moment in moments if moment > self.now), default=NEVER)
        if following < NEVER:
            self.now = following
            return True
        owing = [task.client for task in alive if task.client.owed > 0]
        if owing:
            owing[0].owed = 0
        return bool(owing)
