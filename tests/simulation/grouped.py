"""Groups whose writes do not all land: three threads of a client write the same tables, and something happens to a version."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from omnigraphdb.ids import TableKey
from tests.simulation.enumerations import LEASE_IS_OVER, PLACES_MAX, Staged
from tests.simulation.handles import TABLES, Handle
from tests.simulation.requested import Fault, Request, Verb
from tests.simulation.scenarios import Line
from tests.simulation.world import Task

_MEMBERS: Final = (TABLES[:2], TABLES[:1], TABLES[:2])
"""What the members of the group write."""
_VERSIONS: Final = sum(map(len, _MEMBERS))


class Ending(StrEnum):
    """What happens to one version of a group; all of them are on their way at the same time."""

    REFUSED = "refused"
    """The store answers with an error; the client lives."""
    KILLED = "killed"
    """It is the last one that arrives."""
    LATE = "late"
    """Those before it arrive, the client dies, and it arrives later."""
    ALONE = "alone"
    """As late, and those before it never arrive."""


class Grouped(Staged):
    """`w` commits a group, and the k-th version of it meets its end; what is late comes before the j-th request of `r`.

    `r` recovers and writes.
    """

    order = "wr"

    def __init__(self, k: int, ending: Ending, j: int = 0) -> None:
        super().__init__(Line.MAIN)
        self.k, self.ending, self.j = k, ending, j
        self.may_drift = False
        self._is_alone = True
        """Whether the version that comes before those of the group is still to come."""

    def __str__(self) -> str:
        return f"grouped {self.ending} {self.k} {self.j}"

    def _rank(self, task: Task) -> int:
        # Those who are to be members stand in the queue before the first writer gives its locks back.
        return 2 * super()._rank(task) + (task.name == "main")

    def decide(self, request: Request) -> Fault | None:
        if request.client.name == "r" and request.number == self.j:
            self.requests.let_go()
        is_version = request.key.startswith("nodes/") and "/_versions/" in request.key
        if request.client.name != "w" or request.verb is not Verb.CONDITIONAL or not is_version:
            return None
        if self._is_alone:
            self._is_alone = False
            return None
        self.met += 1
        if self.met < self.k and self.ending is Ending.ALONE:
            return Fault.ERROR_BEFORE
        if self.met != self.k:
            return None
        match self.ending:
            case Ending.REFUSED:
                return Fault.ERROR_BEFORE
            case Ending.KILLED:
                return Fault.KILL_AFTER
            case _:
                return Fault.HELD

    def act(self) -> None:
        writer, rival = self.client("w"), self.client("r")
        handle = self.handle(writer)

        def recover() -> None:
            rival.wait(LEASE_IS_OVER + 4.0)
            opened = self.open(rival)
            if opened is not None:
                self.insert(opened, self.branch, "r")

        self.start_client(writer, lambda: self.insert(handle, self.branch, "w", TABLES[:1]))
        for number, tables in enumerate(_MEMBERS, 1):
            self.world.spawn(writer, f"main {number}", self._make_member(handle, number, tables))
        self.start_client(rival, recover)
        self.wait_for(writer, rival)
        self.requests.let_go()

    def _make_member(
        self, handle: Handle, number: int, tables: Sequence[TableKey]
    ) -> Callable[[], None]:
        def write() -> None:
            self.world.block(lambda: not self._is_alone, None, "somebody has the locks")
            self.insert(handle, self.branch, f"w {number}", tables)

        return write


def list_grouped(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every version of a group, every end of it, and every place, or every so manieth, at which a late one arrives."""
    assert line is Line.MAIN, "versions of a branch are made one after the other"
    for ending in (Ending.REFUSED, Ending.KILLED):
        for k in range(1, _VERSIONS + 1):
            yield Grouped(k, ending)
    for ending in (Ending.LATE, Ending.ALONE):
        for k in range(1, _VERSIONS + 1):
            for j in range(1, PLACES_MAX, step):
                one = Grouped(k, ending, j)
                yield one
                if one.requests.counts["r"] < j:
                    break
