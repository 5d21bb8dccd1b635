"""What tasks say: a few small values each, told in one column, so that every step answers alike."""

import pickle
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import pyarrow as pa

from omnigraph.errors import Problem
from omnigraph.ids import TableKey
from omnigraph.storage.tables import Marked, Written
from omnigraph.values import dataclass

ANSWERS: Final = pa.schema([("answer", pa.binary())])


class Phase(IntEnum):
    """When a problem counts: those of a later phase are told only when there are none before."""

    READ = 0
    IDS = 1
    RULES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Problems of one kind in one place: the first of them in full, and how many there are.

    `order` tells kinds apart and puts them in order. `problems` come with the positions they are told by, and those
    of twins with the position of the first twin.
    """

    phase: Phase
    order: tuple[int, ...]
    problems: tuple["Placed", ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A problem, the position it is at, and the other one it may be about."""

    problem: Problem
    position: int | None
    twin: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many rows of a table a split holds, the ids they bring, and the scratch file that has them shaped.

    `sure` says that they are edges whose ends all come with them.
    """

    split: int
    table_key: TableKey
    rows: int
    ids: "Ids"
    shaped: str | None = None
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Ids:
    """How many rows bring an id, and the first and last of these when they ascend."""

    count: int
    span: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CheckPassed:
    """How many lines or rows a split passed over, input by input."""

    split: int
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Undecided:
    """A table of edges some of whose ends were not found at a glance."""

    table_key: TableKey


class PieceKind(IntEnum):
    """What rows of a scratch file mean."""

    SUPERSEDED = 0
    MATCHED = 1
    REPLACED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Rows of a scratch file that belong to one split, or to one fragment when they are `REPLACED`."""

    kind: PieceKind
    table_key: TableKey
    part: int
    path: str
    start: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WroteFragments:
    """Fragments that hold the rows of some splits; `number` names the task."""

    number: int
    table_key: TableKey
    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """Fragments in which the task of a number marked replaced rows."""

    number: int
    table_key: TableKey
    marked: tuple[Marked, ...]


Message = Found | Counted | CheckPassed | Undecided | Piece | WroteFragments | Discarded


def encode(answers: Iterable[Message]) -> pa.Table:
    """Spell answers as a table."""
    return pa.table({"answer": [pickle.dumps(answer) for answer in answers]}, schema=ANSWERS)


def decode(table: pa.Table) -> Sequence[Message]:
    """Read answers back."""
    return [pickle.loads(answer) for answer in table["answer"].to_pylist()]
