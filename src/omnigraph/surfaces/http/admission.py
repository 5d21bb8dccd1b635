"""Admission: how many writes, and how many bytes of them, one actor may have under way."""

import threading
from dataclasses import field
from types import TracebackType

from omnigraph.errors import TooManyRequests
from omnigraph.values import dataclass

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
            full = use.writes >= self.writes_max
            if full or (use.writes > 0 and use.bytes + size > self.bytes_max):
                self.rejections += 1
                what = "writes in flight" if full else "bytes of writes in flight"
                raise TooManyRequests(what, self.writes_max if full else self.bytes_max)
            use.writes += 1
            use.bytes += size
        return Slot(self, actor, size)

    def give_back(self, actor: str | None, size: int) -> None:
        """Give back what a write took."""
        with self._lock:
            use = self._uses[actor]
            use.writes -= 1
            use.bytes -= size
            if use.writes == 0:
                del self._uses[actor]

    def counts(self) -> dict[str, int]:
        """Writes under way, by actor."""
        with self._lock:
            return {actor or "": use.writes for actor, use in self._uses.items()}


class Slot:
    """The right to one write; releasing it twice does nothing."""

    def __init__(self, admission: Admission, actor: str | None, size: int) -> None:
        self._admission, self._actor, self._size = admission, actor, size
        self._open = True

    def release(self) -> None:
        """End the write."""
        if self._open:
            self._open = False
            self._admission.give_back(self._actor, self._size)

    def __enter__(self) -> "Slot":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
