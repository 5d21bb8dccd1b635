"""Turns of reads: how many reads of one actor run at a time, and how many more of its reads wait.

All callers without a token are one actor.
"""

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import field
from typing import Final

from omnigraphdb.errors import TooManyRequests
from omnigraphdb.values import dataclass

READERS_MAX: Final = 4
"""Reads of one actor that run at a time: two cores are busy with fewer, and lookups of others still get their share."""
WAITING_MAX: Final = 64
"""Reads of one actor that wait; a larger crowd is told to come back."""
READERS_SETTING: Final = "OMNIGRAPH_PER_ACTOR_READERS_MAX"
WAITING_SETTING: Final = "OMNIGRAPH_PER_ACTOR_WAITING_READS_MAX"

Turn = Future[None]


@dataclass(slots=True)
class _Reads:
    running: int = 0
    waiting: deque[Turn] = field(default_factory=deque)


@dataclass(slots=True)
class Turns:
    """The reads under way, by actor; a read over the bound waits in the queue of its own actor."""

    running_max: int = READERS_MAX
    waiting_max: int = WAITING_MAX
    rejections: int = 0
    _actors: dict[str | None, _Reads] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, actor: str | None) -> Turn | None:
        """Begin a read, or give the turn to wait for; refuses a read for which the queue has no place."""
        with self._lock:
            reads = self._actors.setdefault(actor, _Reads())
            if reads.running < self.running_max:
                reads.running += 1
                return None
            if len(reads.waiting) >= self.waiting_max:
                self.rejections += 1
                raise TooManyRequests("reads that wait", self.waiting_max, WAITING_SETTING)
            turn = Turn()
            reads.waiting.append(turn)
            return turn

    async def wait(self, actor: str | None, turn: Turn) -> None:
        """Wait for a turn in the loop; whoever is interrupted leaves the queue."""
        try:
            await asyncio.wrap_future(turn)
        except BaseException:
            self.abandon(actor, turn)
            raise

    def abandon(self, actor: str | None, turn: Turn) -> None:
        """Leave the queue; a turn that came meanwhile goes to the next read."""
        with self._lock:
            is_given = turn.done() and not turn.cancelled()
            if not is_given:
                turn.cancel()
                reads = self._actors[actor]
                if turn in reads.waiting:
                    reads.waiting.remove(turn)
        if is_given:
            self.leave(actor)

    def leave(self, actor: str | None) -> None:
        """End a read: its turn goes to the read of the actor that waits longest."""
        with self._lock:
            reads = self._actors[actor]
            while reads.waiting:
                turn = reads.waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            reads.running -= 1
            if not reads.running:
                del self._actors[actor]

    def counts(self) -> dict[str, int]:
        """Reads that run, by actor."""
        with self._lock:
            return {actor or "": reads.running for actor, reads in self._actors.items()}
