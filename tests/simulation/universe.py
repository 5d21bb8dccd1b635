"""The life of a world: who is there, who waits for whom, and what a client is told about its write."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

from omnigraphdb.errors import (
    ConflictError,
    LimitError,
    NotFoundError,
    OmniError,
    RecoveryRequired,
    UserInputError,
)
from tests.simulation import threads
from tests.simulation.requested import Plan, Requests
from tests.simulation.world import Client, Task, World

QUIET_SECONDS: Final = 400.0
"""After so long no lease of a dead client is left, and no request is on its way."""


class Fate(StrEnum):
    """What a client was told about its write."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """Nothing of it was written."""
    UNKNOWN = "unknown"


class Life:
    """One life of a world: its clients, its requests, and what the judge complains of."""

    def __init__(
        self,
        seed: int = 0,
        *,
        plan: Plan = lambda _: None,
        first: Callable[[Task], int] | None = None,
    ) -> None:
        self.world = World(seed, first)
        self.requests = Requests(self.world, plan)
        self.problems: list[str] = []

    def client(self, name: str, skew: float = 0.0) -> Client:
        """A new process."""
        return Client(self.world, name, skew)

    def run(self, work: Callable[[], object]) -> None:
        """Run work in a task of its own, and everything that it spawns, to the end."""
        threads.enter(self.world)
        self.world.spawn(self.client("keeper"), "main", work)
        self.world.run()

    def let(self, client: Client, work: Callable[[], object]) -> None:
        """Let a client do some work, and wait for its end."""
        self.world.spawn(client, "main", work)
        self.wait_for(client)

    def wait_for(self, *clients: Client) -> None:
        """Wait until no task of these clients runs any more."""
        self.world.block(
            lambda: all(task.is_over for task in self._main_tasks(clients)), None, "end"
        )

    def _main_tasks(self, clients: Iterable[Client]) -> list[Task]:
        return [one for one in self.world.tasks_of(*clients) if one.name.startswith("main")]

    def wait_until_quiet(self) -> None:
        """Wait until every lease has run out and every late request has arrived."""
        self.world.block(lambda: False, QUIET_SECONDS, "quiet")

    def say(self, client: Client, what: str, error: OmniError) -> None:
        """Write down what a client was refused; it is not sent to repair what is not broken."""
        self.requests.say(client, f"{what} refused: {type(error).__name__} {error}")
        if "omnigraphdb repair" in f"{error} {error.hint}":
            self.problems.append(f"S7 {what} is sent to repair, and nothing is broken: {error}")


def judge_refusal(error: OmniError) -> Fate:
    """What an error says about the write that it ended."""
    if isinstance(error, RecoveryRequired):
        return Fate.UNKNOWN if error.has_begun else Fate.REFUSED
    if isinstance(error, ConflictError | NotFoundError | UserInputError | LimitError):
        return Fate.REFUSED
    is_denied = "nothing was written" in str(error) or "nothing was changed" in str(error)
    return Fate.REFUSED if is_denied else Fate.UNKNOWN
