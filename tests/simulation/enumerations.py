"""Every place of a fault in turn: no chance is left in these universes."""

from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.handles import TABLES
from tests.simulation.judge import judge
from tests.simulation.requested import Fault, Request, fits
from tests.simulation.scenarios import Line, Universe, make_start
from tests.simulation.world import Client, Task

LEASE_IS_OVER: Final = 36.0
"""A client that stands still for so long has lost its leases."""
FOREVER: Final = 10**9
PLACES_MAX: Final = 1_000
SINGLE_FAULTS: Final = tuple(fault for fault in Fault if fault not in (Fault.CUT, Fault.HELD))
"""The faults that one request meets by itself."""
_TWO: Final = TABLES[:2]


class Staged(Universe):
    """A universe whose clients have an order: the first of those that can run does."""

    order: str = ""

    def __init__(self, line: Line) -> None:
        super().__init__(start=make_start(line), plan=self.decide, first=self._rank)
        self.line = line
        self.branch = line.branch
        self.met = 0
        """How many places the fault could have had so far."""

    def _rank(self, task: Task) -> int:
        place = self.order.find(task.client.name)
        return place if place >= 0 else len(self.order)

    def decide(self, request: Request) -> Fault | None:
        """What happens to a request."""
        raise NotImplementedError

    def act(self) -> None:
        """Let the clients do what they do; ends when they are done."""
        raise NotImplementedError

    def run_and_judge(self) -> list[str]:
        """Run, and give the complaints of the judge."""

        def work() -> None:
            self.act()
            self.wait_until_quiet()
            judge(self)

        self.run(work)
        return self.problems

    def start_client(self, client: Client, work: Callable[[], object]) -> None:
        """Let a client begin."""
        self.world.spawn(client, "main", work)


class Single(Staged):
    """One writer, and one fault at one of its requests."""

    order = "w"

    def __init__(self, line: Line, i: int, fault: Fault) -> None:
        super().__init__(line)
        self.i, self.fault = i, fault
        self.fits = True
        """Whether the fault fits the request."""

    def __str__(self) -> str:
        return f"single {self.line} {self.i} {self.fault}"

    def decide(self, request: Request) -> Fault | None:
        if request.client.name != "w":
            return None
        self.met += 1
        if self.met != self.i:
            return None
        self.fits = fits(self.fault, request.verb)
        return self.fault if self.fits else None

    def act(self) -> None:
        writer = self.client("w")

        def write() -> None:
            handle = self.open(writer)
            if handle is not None:
                self.insert(handle, self.branch, "w")

        self.start_client(writer, write)
        self.wait_for(writer)


class Pair(Staged):
    """`w` is cut off at its i-th request, and wakes after the j-th request of `r`, which recovers and writes."""

    order = "wr"

    def __init__(self, line: Line, i: int, j: int) -> None:
        super().__init__(line)
        self.i, self.j = i, j

    def __str__(self) -> str:
        return f"pair {self.line} {self.i} {self.j}"

    def decide(self, request: Request) -> Fault | None:
        if request.client.name != "w":
            return None
        self.met += 1
        if self.met != self.i:
            return None
        request.client.cut_off(LEASE_IS_OVER, self.j)
        return Fault.CUT

    def act(self) -> None:
        writer, rival = self.client("w"), self.client("r")
        handle = self.handle(writer)

        def recover() -> None:
            rival.wait(LEASE_IS_OVER + 0.5)
            opened = self.open(rival)
            if opened is not None:
                self.insert(opened, self.branch, "r")

        self.start_client(writer, lambda: self.insert(handle, self.branch, "w"))
        self.start_client(rival, recover)
        self.wait_for(writer, rival)


class Trio(Staged):
    """`w` dies after its k-th write, `r` is cut off at its i-th request of the recovery, while `s` writes twice."""

    order = "wsr"

    def __init__(self, line: Line, k: int, i: int) -> None:
        super().__init__(line)
        self.k, self.i = k, i
        self.changes = 0

    def __str__(self) -> str:
        return f"trio {self.line} {self.k} {self.i}"

    def decide(self, request: Request) -> Fault | None:
        if request.client.name == "w" and request.verb.has_effect:
            self.changes += 1
            return Fault.KILL_AFTER if self.changes == self.k else None
        if request.client.name == "r":
            self.met += 1
            if self.met == self.i:
                request.client.cut_off(LEASE_IS_OVER, FOREVER)
                return Fault.CUT
        return None

    def act(self) -> None:
        writer, service, rival = self.client("w"), self.client("s"), self.client("r")
        served = self.handle(service)

        def serve() -> None:
            self.insert(served, self.branch, "first", _TWO)
            service.wait(80.0)
            self.insert(served, self.branch, "one", _TWO)
            self.insert(served, self.branch, "two", _TWO)

        def write() -> None:
            handle = self.handle(writer)
            writer.wait(1.0)
            self.insert(handle, self.branch, "w", _TWO)

        def recover() -> None:
            rival.wait(38.0)
            self.open(rival)

        self.start_client(service, serve)
        self.start_client(writer, write)
        self.start_client(rival, recover)
        self.wait_for(writer, service, rival)


class Orphan(Staged):
    """`w` dies with its k-th write on its way, which arrives before the j-th request of `r`, or after the last.

    `r` recovers and writes; `is_made_again`: it deletes the branch, makes it again and writes that.
    """

    order = "wr"

    def __init__(self, line: Line, k: int, j: int, *, is_made_again: bool = False) -> None:
        super().__init__(line)
        self.k, self.j, self.is_made_again = k, j, is_made_again
        self.may_drift = is_made_again

    def __str__(self) -> str:
        return f"orphan {self.line} {self.k} {self.j}"

    def decide(self, request: Request) -> Fault | None:
        if request.client.name == "w" and request.verb.has_effect:
            self.met += 1
            return Fault.HELD if self.met == self.k else None
        if request.client.name == "r" and request.number == self.j:
            self.requests.let_go()
        return None

    def act(self) -> None:
        writer, rival = self.client("w"), self.client("r")
        handle = self.handle(writer)

        def recover() -> None:
            rival.wait(LEASE_IS_OVER + 0.5)
            opened = self.open(rival)
            if opened is not None and self.is_made_again:
                self.make_again(opened, self.branch)
            if opened is not None:
                self.insert(opened, self.branch, "r")

        self.start_client(writer, lambda: self.insert(handle, self.branch, "w"))
        self.start_client(rival, recover)
        self.wait_for(writer, rival)
        self.requests.let_go()


# ---- all places


def list_singles(line: Line, fault: Fault) -> Iterator[Staged]:
    """Every request of a writer that a fault fits; each universe has run when the next one is asked for."""
    for i in range(1, PLACES_MAX):
        one = Single(line, i, fault)
        yield one
        if one.met < i:
            return


def list_pairs(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every pair of places, or every so manieth of both."""
    for i in range(1, PLACES_MAX, step):
        for j in range(0, PLACES_MAX, step):
            one = Pair(line, i, j)
            yield one
            if one.met < i:
                return
            if one.requests.counts["r"] < j:
                break


def list_trios(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every write after which the writer dies, and every request of the recoverer."""
    for k in range(1, PLACES_MAX):
        one = None
        for i in range(1, PLACES_MAX, step):
            one = Trio(line, k, i)
            yield one
            if one.met < i:
                break
        if one is None or one.changes < k:
            return


def list_orphans(line: Line, step: int = 1, *, is_made_again: bool = False) -> Iterator[Staged]:
    """Every write of a dead writer that is still on its way, and every place at which it arrives."""
    for k in range(1, PLACES_MAX):
        for j in range(1, PLACES_MAX, step):
            one = Orphan(line, k, j, is_made_again=is_made_again)
            yield one
            if one.met < k:
                return
            if one.requests.counts["r"] < j:
                break
