"""Admission: how many writes, and how many bytes of requests, one actor may have under way."""

import threading
from dataclasses import field
from types import TracebackType
from typing import Final

from omnigraphdb.errors import TooManyRequests
from omnigraphdb.values import dataclass

WRITES_SETTING: Final = "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX"
BYTES_SETTING: Final = "OMNIGRAPH_PER_ACTOR_BYTES_MAX"
METADATA_BYTES = 256
"""What a write without data counts."""


@dataclass(slots=True)
class _Use:
    writes: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Admission:
    """Counts what is under way, by actor; the anonymous actor has one budget."""

    writes_max: int
    bytes_max: int
    rejections: int = 0
    _uses: dict[str | None, _Use] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, actor: str | None, size: int) -> "Slot":
        """Take a slot, or refuse; the slot is given back by `Slot.release`."""
        with self._lock:
            use = self._uses.setdefault(actor, _Use())
            if use.writes >= self.writes_max:
                self.rejections += 1
                raise TooManyRequests("writes in flight", self.writes_max, WRITES_SETTING)
            self._take_bytes(use, size, others=use.bytes)
            use.writes += 1
        return Slot(self, actor, writes=1, size=size)

    def receive(self, actor: str | None) -> "Slot":
        """Begin to count a body that is arriving; it takes no place of a write."""
        return Slot(self, actor, writes=0, size=0)

    def grow(self, actor: str | None, held: int, more: int) -> None:
        """Count more bytes of a body of which some are counted, or refuse."""
        with self._lock:
            use = self._uses.setdefault(actor, _Use())
            self._take_bytes(use, more, others=use.bytes - held)

    def _take_bytes(self, use: _Use, size: int, *, others: int) -> None:
        """Count bytes, or refuse; what an actor has under way alone may have any size that its route allows."""
        if others > 0 and use.bytes + size > self.bytes_max:
            self.rejections += 1
            raise TooManyRequests("bytes of requests in flight", self.bytes_max, BYTES_SETTING)
        use.bytes += size

    def give_back(self, actor: str | None, writes: int, size: int) -> None:
        """Give back what a request took."""
        with self._lock:
            use = self._uses.get(actor)
            if use is None:
                return
            use.writes -= writes
            use.bytes -= size
            if use.writes == 0 and use.bytes == 0:
                del self._uses[actor]

    def counts(self) -> dict[str, int]:
        """Writes under way, by actor."""
        with self._lock:
            return {actor or "": use.writes for actor, use in self._uses.items() if use.writes}


class Slot:
    """A request's part of the budget of its actor: that of a write, or of a body that is arriving; releasing it twice does nothing."""

    def __init__(self, admission: Admission, actor: str | None, *, writes: int, size: int) -> None:
        self._admission, self._actor, self._writes, self._size = admission, actor, writes, size
        self._open = True

    def grow(self, size: int) -> None:
        """Count more bytes, or refuse."""
        self._admission.grow(self._actor, self._size, size)
        self._size += size

    def release(self) -> None:
        """End the request."""
        if self._open:
            self._open = False
            self._admission.give_back(self._actor, self._writes, self._size)

    def __enter__(self) -> "Slot":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
