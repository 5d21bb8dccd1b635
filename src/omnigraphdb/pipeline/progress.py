"""Progress reports of bulk work while it runs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Literal, TypeVar

from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_A = TypeVar("_A")


class Unit(StrEnum):
    """The unit that a phase counts."""

    PARTS = "parts"
    ROWS = "rows"
    TABLES = "tables"


@dataclass(frozen=True, slots=True)
class Progress(Value):
    """The progress of a phase: `done` of `total`, counted in `unit`; `total` is None while it is not known.

    `rows` and `bytes` count the rows and bytes that the phase has handled so far; None where they are not counted.
    """

    phase: str
    done: int
    total: int | None
    unit: Unit = field(default=Unit.PARTS, metadata=wire(hint=Literal["parts", "rows", "tables"]))
    rows: int | None = None
    bytes: int | None = None


OnProgress = Callable[[Progress], object]


def ignore_progress(_progress: Progress) -> None:
    """Stand for a caller who does not want to know."""


def track_tables(
    report: OnProgress,
    phase: str,
    tables: Sequence[_A],
    count_rows: Callable[[_A], int] | None = None,
) -> Iterator[_A]:
    """Yield tables one after the other; report before the first table and when the work on each is done."""
    rows = None if count_rows is None else 0
    report(Progress(phase, 0, len(tables), Unit.TABLES, rows))
    for done, table in enumerate(tables, 1):
        yield table
        if count_rows is not None:
            rows = (rows or 0) + count_rows(table)
        report(Progress(phase, done, len(tables), Unit.TABLES, rows))
