"""Every place at which a client stands still and goes on, alive and in time, while somebody else goes past it."""

from collections.abc import Iterator
from typing import Final

from omnigraphdb.ids import MAIN
from omnigraphdb.limits import MANIFEST_FRAGMENTS_MAX
from tests.simulation.encounters import Encounter
from tests.simulation.enumerations import FOREVER, PLACES_MAX, Staged
from tests.simulation.handles import TABLES, Handle
from tests.simulation.plans import is_unconditional
from tests.simulation.requested import Fault, Request
from tests.simulation.scenarios import Line
from tests.simulation.world import Client

_A, _B = TABLES[:1], TABLES[1:2]
_KEY: Final = "once"


class _Beside(Encounter):
    """`r`, which is open since before, begins as soon as `w` stands still, and recovers nothing."""

    seconds = 0.0
    rival_waits = 0.1

    def enter(self, rival: Client) -> Handle | None:
        return self.handle(rival)


class Reading(_Beside):
    """`w` writes one table by what another one shows, and loses its leases; `r` waits for them and writes that one."""

    name = "reading"
    seconds = Encounter.seconds

    def __init__(self, line: Line, i: int, *, is_dying: bool = False) -> None:
        super().__init__(line, i)
        self._is_dying = is_dying
        """Whether it dies there, so that recovery decides about what it wrote."""

    def __str__(self) -> str:
        return f"{super().__str__()} {'dies' if self._is_dying else ''}".rstrip()

    def decide(self, request: Request) -> Fault | None:
        fault = super().decide(request)
        return Fault.KILL_AFTER if fault is not None and self._is_dying else fault

    def begin(self, handle: Handle) -> None:
        self.insert_by_reading(handle, self.branch, "w", *_A, *_B)

    def change(self, handle: Handle) -> None:
        self.insert(handle, self.branch, "r", _B)


class Expecting(_Beside):
    """`w` writes on the head that it read, and dies; `r` moves the head by a write to another table."""

    name = "expecting"

    def decide(self, request: Request) -> Fault | None:
        return None if super().decide(request) is None else Fault.KILL_AFTER

    def begin(self, handle: Handle) -> None:
        self.insert_after_head(handle, self.branch, "w", _A)

    def change(self, handle: Handle) -> None:
        self.insert(handle, self.branch, "r", _B)


class Reclaiming(_Beside):
    """`w` makes a branch, while `r` extends a list of main and removes what nothing needs.

    The table that moved is cleaned last: the branch may be made after the first tables were.
    """

    name = "reclaiming"

    def begin(self, handle: Handle) -> None:
        self.make_branch(handle, "x", "w", has_key=False)

    def change(self, handle: Handle) -> None:
        self.extend(handle, MAIN, "r", TABLES[-1:])
        self.clean(handle)


class Folding(_Beside):
    """`w` publishes, folds the manifest and publishes again, while `r` publishes to another table."""

    name = "folding"

    def __init__(self, line: Line, i: int, j: int = FOREVER) -> None:
        super().__init__(line, i, j)
        self._is_full = False

    def decide(self, request: Request) -> Fault | None:
        return super().decide(request) if self._is_full else None

    def begin(self, handle: Handle) -> None:
        early = 0
        while handle.manifest.current(MAIN).fragments < MANIFEST_FRAGMENTS_MAX:
            early += 1
            self.insert(handle, MAIN, f"early {early}", _A)
        self._is_full = True
        self.insert(handle, MAIN, "w", _A)
        self.insert(handle, MAIN, "w again", _A)

    def change(self, handle: Handle) -> None:
        self.insert(handle, MAIN, "r", _B)


class Dropping(Encounter):
    """`w` deletes a branch because main has all of its commits, and `r` writes the branch."""

    name = "dropping"

    def is_exempt(self, request: Request) -> bool:
        return is_unconditional(request)

    def begin(self, handle: Handle) -> None:
        self.drop_merged_branch(handle, self.branch, "w")

    def change(self, handle: Handle) -> None:
        self.insert(handle, self.branch, "r")


class SameKey(_Beside):
    """`w` asks for one write and `r` for another one under the same key; `r` dies after its k-th change."""

    name = "same-key"
    seconds = 5.0

    def __init__(self, line: Line, i: int, k: int) -> None:
        super().__init__(line, i, 0)
        self.k = k
        self.changes = 0
        """How many changes `r` made."""

    def __str__(self) -> str:
        return f"{super().__str__()} {self.k}"

    def decide(self, request: Request) -> Fault | None:
        if request.client.name == "r" and request.verb.has_effect:
            self.changes += 1
            return Fault.KILL_AFTER if self.changes == self.k else None
        return super().decide(request)

    def begin(self, handle: Handle) -> None:
        self.insert_under(handle, self.branch, _KEY, "w", _A)

    def change(self, handle: Handle) -> None:
        self.insert_under(handle, self.branch, _KEY, "r", _B)


# ---- all places


def list_readings(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every request at which the writer stands still, or dies, until everybody else is done."""
    for i in range(1, PLACES_MAX, step):
        asleep = Reading(line, i)
        yield asleep
        if asleep.met < i:
            return
        yield Reading(line, i, is_dying=True)


def list_same_keys(line: Line, step: int = 1) -> Iterator[Staged]:
    """Every change after which one of them dies, and every request at which the other one stands still."""
    for k in range(1, PLACES_MAX):
        changes = 0
        for i in range(1, PLACES_MAX, step):
            one = SameKey(line, i, k)
            yield one
            changes = max(changes, one.changes)
            if one.met < i:
                break
        if changes < k:
            return
