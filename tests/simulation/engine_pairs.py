"""Pairs with real Lance: one writer is cut off at a request of its own, and wakes after a request of the one that recovers."""

from collections.abc import Iterator

from omnigraphdb.api.graph import Graph
from tests.simulation.engine_judge import judge
from tests.simulation.engine_operations import Open
from tests.simulation.engine_universe import EngineUniverse
from tests.simulation.engine_workloads import make_start
from tests.simulation.enumerations import LEASE_IS_OVER
from tests.simulation.requested import Fault, Request
from tests.simulation.world import Task

_ORDER = ("w", "r", "judge", "keeper")


class EnginePair(EngineUniverse):
    """`w` is cut off at its i-th request, and wakes after the j-th request of `r`, which recovers and writes."""

    def __init__(self, branch: str, i: int, j: int) -> None:
        super().__init__(start=make_start(), plan=self._decide, first=_rank)
        self.branch, self.i, self.j = branch, i, j
        self.met = 0
        """How many requests the first write made."""
        self._is_open = False

    def __str__(self) -> str:
        return f"engine pair {self.branch} {self.i} {self.j}"

    def run_and_judge(self) -> list[str]:
        """Run, and give the complaints of the judge."""
        self.run(self._act)
        return self.problems

    def _decide(self, request: Request) -> Fault | None:
        if request.client.name != "w" or not self._is_open:
            return None
        self.met += 1
        if self.met != self.i:
            return None
        request.client.cut_off(LEASE_IS_OVER, self.j)
        return Fault.CUT

    def _act(self) -> None:
        writer, rival, judging = (self.client(name) for name in ("w", "r", "judge"))

        def write() -> None:
            graph = self.open(writer)
            self._is_open = True
            if graph is not None:
                self.call(graph, writer, "w", Open(self.branch, name="w"))

        def recover() -> None:
            rival.wait(LEASE_IS_OVER + 2.0)
            graph: Graph | None = self.open(rival)
            if graph is not None:
                self.call(graph, rival, "r", Open(self.branch, name="r"))

        self.world.spawn(writer, "main", write)
        self.world.spawn(rival, "main", recover)
        self.wait_for(writer, rival)
        self.wait_until_quiet()
        self.let(judging, lambda: judge(self, judging))


def _rank(task: Task) -> int:
    return _ORDER.index(task.client.name)


def list_pairs(branch: str, step: int) -> Iterator[EnginePair]:
    """List every so-manieth pair of places; the judge's and the universes' own requests are no places."""
    alone = EnginePair(branch, 0, 0)
    yield alone
    rivals = alone.requests.counts["r"]
    places = ((i, j) for i in range(1, alone.met + 1) for j in range(1, rivals + 1))
    for number, (i, j) in enumerate(places):
        if number % step == 0:
            yield EnginePair(branch, i, j)
