"""Every place at which a client stands still, or dies, while somebody else changes the ground that it stands on."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from omnigraphdb.errors import StorageError
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import LEASE_SECONDS
from omnigraphdb.storage.layout import LOCKS
from tests.simulation.enumerations import FOREVER, LEASE_IS_OVER, PLACES_MAX, Staged
from tests.simulation.handles import TABLES, Handle
from tests.simulation.objects import Store
from tests.simulation.plans import is_unconditional
from tests.simulation.requested import Fault, Request
from tests.simulation.scenarios import Line
from tests.simulation.universe import Fate
from tests.simulation.world import Client

_HOUR: Final = 3_600.0
_TWO: Final = TABLES[:2]
_MARGINS: Final = 5.0 + 10.0
"""What a lease is waited for beyond its term, and what a write may take besides."""
_ASKED_MAX: Final = 40
"""How often in a second a client may ask while it waits."""


class Encounter(Staged):
    """`w` stands still at its i-th request while `r` is at work, and goes on after the j-th request of `r`."""

    order = "wr"
    name = "encounter"
    seconds = LEASE_IS_OVER
    """For how long it stands still at least."""
    rival_waits = LEASE_IS_OVER + 0.5
    """After how long `r` begins."""

    def __init__(self, line: Line, i: int, j: int = FOREVER) -> None:
        super().__init__(line)
        self.i, self.j = i, j

    def __str__(self) -> str:
        return f"{self.name} {self.line} {self.i}" + (f" {self.j}" if self.j < FOREVER else "")

    def decide(self, request: Request) -> Fault | None:
        if request.client.name != "w":
            return None
        self.met += 1
        if self.met != self.i or self.is_exempt(request):
            return None
        request.client.cut_off(self.seconds, self.j)
        return Fault.CUT

    def is_exempt(self, request: Request) -> bool:
        """Whether nothing can be done about a standstill there."""
        return False

    def act(self) -> None:
        writer, rival = self.client("w"), self.client("r")
        handle = self.handle(writer)

        def meet() -> None:
            rival.wait(self.rival_waits)
            opened = self.enter(rival)
            if opened is not None:
                self.change(opened)

        self.start_client(writer, lambda: self.begin(handle))
        self.start_client(rival, meet)
        self.wait_for(writer, rival)

    def enter(self, rival: Client) -> Handle | None:
        """Give the handle with which `r` changes the ground; one that it opens recovers first."""
        return self.open(rival)

    def begin(self, handle: Handle) -> None:
        """Do what is interrupted."""
        self.insert(handle, self.branch, "w")

    def change(self, handle: Handle) -> None:
        """Change the ground."""
        raise NotImplementedError


class Remade(Encounter):
    """`r` deletes the branch that `w` writes, makes another one of its name, and writes that."""

    name = "remade"

    def change(self, handle: Handle) -> None:
        self.make_again(handle, self.branch)
        self.insert(handle, self.branch, "r")


class Deleted(Encounter):
    """`w` deletes a branch, and `r` makes another one of its name, and writes that."""

    name = "deleted"

    def is_exempt(self, request: Request) -> bool:
        return is_unconditional(request)

    def begin(self, handle: Handle) -> None:
        self.drop_branch(handle, self.branch, "w", has_key=False)

    def change(self, handle: Handle) -> None:
        self.make_again(handle, self.branch)
        self.insert(handle, self.branch, "r")


class Passed(Encounter):
    """`w` stands still for more than an hour, while `r` writes and removes what nothing needs."""

    name = "passed"
    seconds = 2 * _HOUR

    def change(self, handle: Handle) -> None:
        self.insert(handle, self.branch, "r")
        self.insert(handle, self.branch, "again")
        handle.client.wait(_HOUR + 60.0)
        self.insert(handle, self.branch, "later")
        self.clean(handle)
        self.insert(handle, self.branch, "last")


class Cleaned(Encounter):
    """`w` makes a branch, adopts, or extends lists, while `r` extends them and removes what nothing needs."""

    name = "cleaned"

    def __init__(self, line: Line, i: int, kind: str) -> None:
        super().__init__(line, i)
        self.kind = kind

    def __str__(self) -> str:
        return f"{super().__str__()} {self.kind}"

    def begin(self, handle: Handle) -> None:
        match self.kind:
            case "maker":
                self.make_branch(handle, "x", "w", has_key=False)
            case "adopter":
                self.adopt(handle, self.branch, "w")
            case _:
                self.extend(handle, self.branch, "w", TABLES)

    def change(self, handle: Handle) -> None:
        self.extend(handle, "main", "r", TABLES)
        self.clean(handle)
        self.extend(handle, "main", "again", TABLES)
        self.clean(handle)


class Adopting(Encounter):
    """`w` lets the branch show what main shows, while `r` writes the branch."""

    name = "adopting"

    def begin(self, handle: Handle) -> None:
        # Main is ahead by more than `r` writes, so that versions alone do not tell the pins apart.
        self.insert(handle, "main", "more")
        self.insert(handle, "main", "and more")
        self.adopt(handle, self.branch, "w")

    def change(self, handle: Handle) -> None:
        self.insert(handle, self.branch, "r")


class Mortal(Staged):
    """`w` dies after its k-th write."""

    def __init__(self, line: Line, k: int) -> None:
        super().__init__(line)
        self.k = k
        self.changes = 0

    def decide(self, request: Request) -> Fault | None:
        if request.client.name == "w" and request.verb.has_effect:
            self.changes += 1
            return Fault.KILL_AFTER if self.changes == self.k else None
        return None

    def start_writer(self) -> None:
        """Let the writer begin a second later, when the others are open."""
        writer = self.client("w")
        handle = self.handle(writer)

        def write() -> None:
            writer.wait(1.0)
            self.insert(handle, self.branch, "w", _TWO)

        self.start_client(writer, write)


class Recoverers(Mortal):
    """`r` recovers what `w` left, and stands still at its i-th request, while `s` recovers too and writes twice."""

    order = "wrs"

    def __init__(self, line: Line, k: int, i: int) -> None:
        super().__init__(line, k)
        self.i = i

    def __str__(self) -> str:
        return f"recoverers {self.line} {self.k} {self.i}"

    def decide(self, request: Request) -> Fault | None:
        if request.client.name == "r":
            self.met += 1
            if self.met == self.i:
                request.client.cut_off(LEASE_IS_OVER, FOREVER)
                return Fault.CUT
        return super().decide(request)

    def act(self) -> None:
        rival, service = self.client("r"), self.client("s")

        def recover() -> None:
            rival.wait(38.0)
            self.open(rival)

        def serve() -> None:
            service.wait(78.0)
            opened = self.open(service)
            if opened is not None:
                self.insert(opened, self.branch, "first", _TWO)
                self.insert(opened, self.branch, "second", _TWO)

        self.start_writer()
        self.start_client(rival, recover)
        self.start_client(service, serve)
        self.wait_for(*self.world.clients[1:])


class Adopted(Mortal):
    """`s`, which is open since before, lets the branch show what main shows, as soon as it has the locks of `w`."""

    order = "ws"

    def __str__(self) -> str:
        return f"adopted {self.line} {self.k}"

    def act(self) -> None:
        service = self.client("s")
        served = self.handle(service)

        def serve() -> None:
            self.insert(served, "main", "more")
            service.wait(3.0)
            self.adopt(served, self.branch, "s")

        self.start_client(service, serve)
        self.start_writer()
        self.wait_for(*self.world.clients[1:])


class Lone(Staged):
    """All clients but one die or sleep for ever amid a write; the one gets through, and does not ask all the time."""

    order = ""

    def __init__(self, line: Line, seed: int) -> None:
        super().__init__(line)
        self._chance = Random(f"{seed}/lone")
        self.seed = seed
        self._rivals = [f"w{number}" for number in range(self._chance.choice((1, 2, 3)))]
        self._ends = {name: self._chance.randint(1, 40) for name in self._rivals}
        self._sleeps = {name for name in self._rivals if self._chance.random() < 0.5}
        self.asked: list[float] = []

    def __str__(self) -> str:
        return f"lone {self.line} {self.seed}"

    def decide(self, request: Request) -> Fault | None:
        name = request.client.name
        if name == "one" and request.key.startswith(f"{LOCKS}/"):
            self.asked.append(self.world.now)
        if self._ends.get(name) != request.number:
            return None
        if name not in self._sleeps:
            return Fault.KILL_AFTER
        request.client.cut_off(LEASE_IS_OVER, 10 * FOREVER)
        return Fault.CUT

    def act(self) -> None:
        one = self.client("one")
        handle = self.open(one)
        assert handle is not None, "nobody else is there yet"
        for name in self._rivals:
            rival = self.client(name)
            tables = self._chance.sample(TABLES, 2)
            work = self._make_work(self.handle(rival), name, tables)
            self.start_client(rival, work)
        self.start_client(one, lambda: self._get_through(handle))
        self.wait_for(one)

    def _make_work(self, handle: Handle, name: str, tables: list[TableKey]) -> Callable[[], object]:
        return lambda: self.insert(handle, self.branch, name, sorted(tables))

    def _get_through(self, handle: Handle) -> None:
        handle.client.wait(2.0)
        self.asked.clear()
        began = self.world.now
        write = self.insert(handle, self.branch, "one")
        if write.fate is Fate.REFUSED:
            # A handle that is open completes what others left; only one that is opened takes back.
            opened = self.open(handle.client)
            assert opened is not None, "nobody else is alive"
            write = self.insert(opened, self.branch, "one again")
        if write.fate is not Fate.ACKNOWLEDGED:
            self.problems.append(f"S9 one did not get through: {write.said}")
        if self.world.now - began > LEASE_SECONDS + _MARGINS:
            self.problems.append(f"S9 one took {self.world.now - began:.0f} s to get through")
        most = max(sum(at <= one < at + 1.0 for one in self.asked) for at in self.asked)
        if most > _ASKED_MAX:
            self.problems.append(f"S9 one asked {most} times in a second")


class Refused(Staged):
    """A store that ignores conditions: no graph is made there."""

    def __init__(self) -> None:
        super().__init__(Line.MAIN)
        self.store = Unconditional(self.store.now)

    def __str__(self) -> str:
        return "refused"

    def decide(self, request: Request) -> Fault | None:
        return None

    def run_and_judge(self) -> list[str]:
        self.run(self.act)
        return self.problems

    def act(self) -> None:
        try:
            self.handle(self.client("init")).initialise()
        except StorageError as error:
            if "does not honour conditional puts" not in str(error):
                self.problems.append(f"S7 the refusal does not say why: {error}")
            if self.store.objects:
                self.problems.append(f"S4 the refused init leaves {sorted(self.store.objects)}")
        else:
            self.problems.append("S1 a graph is made on a store that ignores conditions")


class Unconditional(Store):
    """A store that replaces what exists, whatever is asked."""

    def put(
        self, key: str, value: object, *, is_new: bool = False, token: str | None = None
    ) -> str | None:
        return super().put(key, value)


# ---- all places


def list_encounters(
    kind: Callable[[Line, int, int], Encounter], line: Line, step: int = 1
) -> Iterator[Staged]:
    """Every place of the standstill, and every place at which it ends."""
    for i in range(1, PLACES_MAX, step):
        for j in range(0, PLACES_MAX, step):
            one = kind(line, i, j)
            yield one
            if one.met < i:
                return
            if one.requests.counts["r"] < j:
                break


def list_standstills(
    kind: Callable[[Line, int], Encounter], line: Line, step: int = 1
) -> Iterator[Staged]:
    """Every place of a standstill that ends when everybody else is done."""
    for i in range(1, PLACES_MAX, step):
        one = kind(line, i)
        yield one
        if one.met < i:
            return


def list_cleaned(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every place between two requests of a writer, of a maker of a branch, of one that adopts."""
    for kind in ("maker", "extender", *(("adopter",) if line is Line.FORK else ())):
        for i in range(1, PLACES_MAX, step):
            one = Cleaned(line, i, kind)
            yield one
            if one.met < i:
                break


def list_recoverers(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every write after which the writer dies, and every request of the first recoverer."""
    for k in range(1, PLACES_MAX):
        one = None
        for i in range(1, PLACES_MAX, step):
            one = Recoverers(line, k, i)
            yield one
            if one.met < i:
                break
        if one is None or one.changes < k:
            return


def list_adopted(line: Line) -> Iterator[Staged]:
    """Every write after which the writer dies."""
    for k in range(1, PLACES_MAX):
        one = Adopted(line, k)
        yield one
        if one.changes < k:
            return
