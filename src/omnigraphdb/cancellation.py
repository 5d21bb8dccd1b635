"""Cancellation: stops reads that run, from another thread or when their time is over."""

import threading
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Self, TypeVar

from omnigraphdb.errors import ReadCancelled, UserInputError
from omnigraphdb.runtime import SYSTEM, Runtime

T = TypeVar("T")


class Cancellation:
    """Stops the reads of the blocks that it guards: by `cancel`, from any thread, or after so many `seconds`.

    A read stops between two steps of its work and raises `ReadCancelled`, which names the `setting` that bounds the time.
    Writes are never stopped.

    Example:
        >>> limit = omnigraphdb.Cancellation(seconds=30)
        >>> with limit:
        ...     graph.query("query q() { match { $p: Person } return { count($p) as people } }").rows
        [{'people': 7}]
        >>> limit.cancel()
        >>> with limit:
        ...     graph.query("query q() { match { $p: Person } return { $p.name } }")
        Traceback (most recent call last):
        omnigraphdb.errors.input.ReadCancelled: the read was cancelled...
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        setting: str | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        if seconds is not None and not seconds > 0:
            raise UserInputError(f"seconds is {seconds}, not a time; nothing was read")
        self._runtime, self._seconds, self._setting = runtime, seconds, setting
        self._end = None if seconds is None else runtime.monotonic() + seconds
        self._asked = threading.Event()

    def cancel(self) -> None:
        """Stop the reads that this guards, now and later.

        Example:
            >>> limit.cancel()
            >>> limit.is_over
            True
        """
        self._asked.set()

    @property
    def is_over(self) -> bool:
        """Whether its reads stop: it was cancelled, or its time has passed."""
        late = self._end is not None and self._runtime.monotonic() > self._end
        return late or self._asked.is_set()

    def check(self) -> None:
        """Raise when its reads stop; for work of your own that belongs to them.

        Example:
            >>> omnigraphdb.Cancellation(seconds=60).check()
        """
        if self.is_over:
            raise ReadCancelled(None if self._asked.is_set() else self._seconds, self._setting)

    def __enter__(self) -> Self:
        _guards.set((*_guards.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _guards.set(_guards.get()[:-1])


_guards: ContextVar[tuple[Cancellation, ...]] = ContextVar("omnigraph_cancellations", default=())


def check_cancelled() -> None:
    """Stop here if the caller does not wait for this read any more."""
    for guard in _guards.get():
        guard.check()


def check_between(parts: Iterable[T]) -> Iterator[T]:
    """Check before each part of the work that a caller still waits for it; free where nobody may cancel.

    The guards of this call guard the parts, even if these are taken elsewhere later.
    """
    guards = _guards.get()
    return _check_between(guards, parts) if guards else iter(parts)


def _check_between(guards: tuple[Cancellation, ...], parts: Iterable[T]) -> Iterator[T]:
    for part in parts:
        for guard in guards:
            guard.check()
        yield part
