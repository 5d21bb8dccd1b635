"""Strict serialisability of one branch, exact and in one pass: its commits are the order, so nothing has to be searched."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

NEVER = float("inf")


@dataclass(frozen=True)
class Placed:
    """A call that took effect, or read, at one commit of a branch."""

    name: str
    began: float
    ended: float
    """NEVER for a call that nobody was answered."""
    place: int
    """Which commit of its branch that is."""
    is_write: bool


@dataclass(frozen=True)
class Unplaced:
    """A call that changed nothing: it may have run at any commit of its time."""

    began: float
    ended: float


def check_order(calls: Iterable[Placed]) -> Iterator[str]:
    """Complain of calls that come, in the order of commits, before one that ended before they began."""
    ending: list[tuple[float, int, str]] = []
    last, name = -1, "nobody"
    for call in sorted(calls, key=lambda call: call.began):
        while ending and ending[0][0] < call.began:
            _, place, ended = heappop(ending)
            if place > last:
                last, name = place, ended
        if call.place < last or (call.is_write and call.place == last):
            verb = "is" if call.is_write else "read"
            yield f"{call.name} began after {name} at commit {last} had ended, and {verb} commit {call.place}"
        heappush(ending, (call.ended, call.place, call.name))


def list_places(call: Unplaced, placed: Iterable[Placed]) -> range:
    """List the commits at which a call may have run."""
    others = list(placed)
    first = max((one.place for one in others if one.ended < call.began), default=0)
    writes = (one.place for one in others if one.is_write and one.began < call.ended)
    return range(first, max(writes, default=first) + 1)
