"""Messages of tasks to the driver: a few small values each, pickled in one column, so that every step has the same schema."""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

import pyarrow as pa

from omnigraphdb.errors import InternalError, Problem
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.values import Marked, Written
from omnigraphdb.values import dataclass

_M = TypeVar("_M")

MESSAGES: Final = pa.schema([("message", pa.binary())])


class Phase(IntEnum):
    """When a problem is reported: problems of a later phase only when no earlier phase has any."""

    READ = 0
    IDS = 1
    RULES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Problems of one kind in one place: the first of them in full, and how many there are.

    `order` tells kinds apart and is their order in reports.
    """

    phase: Phase
    order: tuple[int, ...]
    problems: tuple["LocatedProblem", ...]
    total: int
    rejects: str | None = None
    """The scratch file with all problems, when the message holds only the first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedProblem:
    """A problem, the position of its row, and for a duplicate the position of the first row with the same id."""

    problem: Problem
    position: int | None
    duplicate_of: int | None = None


_PROBLEMS: Final = pa.schema(
    [
        (name, pa.string())
        for name in ("rule", "message", "table_key", "row_id", "property", "value", "file")
    ]
    + [("position", pa.int64()), ("duplicate_of", pa.int64())]
)


def pack_problems(problems: Sequence[LocatedProblem]) -> pa.Table:
    """Make a table of problems, for a scratch file."""
    texts = _PROBLEMS.names[:-2]
    rows = [
        {name: getattr(located.problem, name) for name in texts}
        | {"position": located.position, "duplicate_of": located.duplicate_of}
        for located in problems
    ]
    return pa.Table.from_pylist(rows, _PROBLEMS)


def unpack_problems(table: pa.Table) -> list[LocatedProblem]:
    """Read the problems of a scratch file."""
    return [
        LocatedProblem(
            position=row.pop("position"),
            duplicate_of=row.pop("duplicate_of"),
            problem=Problem(**row),
        )
        for row in table.to_pylist()
    ]


def order_problem(phase: Phase) -> Callable[[LocatedProblem], tuple[str, int]]:
    """Return the order of problems of one kind: rules are reported by id, everything else in input order."""

    def order(located: LocatedProblem) -> tuple[str, int]:
        first = located.duplicate_of
        position = located.position if first is None else first
        row_id = located.problem.row_id if phase is Phase.RULES else None
        return (row_id or "", -1 if position is None else position)

    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitCount:
    """The number of rows of a table in a split, the range of their ids, and the scratch file that holds them shaped."""

    split: int
    table_key: TableKey
    rows: int
    ids: "IdRange"
    shaped: str | None = None
    endpoints_found: bool = False
    """True if the rows are edges whose endpoints were all found while reading."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """The number of rows that have an id, and the first and last id when the ids ascend."""

    count: int
    span: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SplitLines:
    """The number of lines or rows of each input of a split."""

    split: int
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndpointsMissing:
    """An edge table some of whose endpoints a task did not find."""

    table_key: TableKey


@dataclass(frozen=True, slots=True)
class CreatedNodes:
    """Rows of nodes that edges of the load name and no input brings, in a scratch file."""

    table_key: TableKey
    path: str
    rows: int


class SliceKind(IntEnum):
    """The meaning of the rows of a scratch slice."""

    SUPERSEDED = 0
    MATCHED = 1
    REPLACED = 2
    """Committed rows that the write removes, with or without a row that replaces them."""
    NEW = 3
    """Rows of the source of a merge that the target does not have."""
    CHANGED = 4
    """Rows of the source of a merge, the rows of the target that they replace, and the row ids of those."""
    MIXED = 5
    """Rows of a merge that take properties from both sides."""
    REMOVED = 6
    """Committed rows that the write removes without a row that replaces them, with their ids."""

    @property
    def is_input(self) -> bool:
        """Whether its rows are those of an input, by position; all others are rows of a table, by address."""
        return self in (SliceKind.SUPERSEDED, SliceKind.MATCHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchSlice:
    """Rows of a scratch file that belong to one split of an input, or to one fragment of a table."""

    kind: SliceKind
    table_key: TableKey
    part: int
    path: str
    start: int
    rows: int


ScratchSlices = Mapping[tuple[TableKey, int], tuple[ScratchSlice, ...]]
"""Slices by table and split, or by table and fragment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WroteFragments:
    """Fragments that hold the rows of some splits; `number` is that of the task."""

    number: int
    table_key: TableKey
    written: tuple[Written, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedRows:
    """Fragments in which a task marked replaced rows as deleted; `number` is that of the task."""

    number: int
    table_key: TableKey
    marked: tuple[Marked, ...]


Message = (
    Finding
    | SplitCount
    | SplitLines
    | EndpointsMissing
    | CreatedNodes
    | ScratchSlice
    | WroteFragments
    | MarkedRows
)


def encode(messages: Iterable[object]) -> pa.Table:
    """Encode messages as a table."""
    return pa.table({"message": [pickle.dumps(message) for message in messages]}, schema=MESSAGES)


def decode(table: pa.Table) -> Sequence[Any]:
    """Decode the messages of a table."""
    return [pickle.loads(pickled_message) for pickled_message in table["message"].to_pylist()]


def select(messages: Iterable[Any], kind: type[_M]) -> list[_M]:
    """Select the messages of one kind."""
    return [message for message in messages if isinstance(message, kind)]


def require_all(actual: Sequence[int], expected: Sequence[int], step: str) -> None:
    """Require one message of every split; else nothing is committed."""
    if sorted(actual) != sorted(expected):
        raise InternalError(
            f"step '{step}' has {len(expected)} splits, {len(actual)} answers came of {len(set(actual))} of "
            "them; nothing was committed"
        )


def collect_marks(answers: Sequence[MarkedRows], tasks: int) -> Mapping[TableKey, list[Marked]]:
    """Collect the marked fragments of every table."""
    require_all([answer.number for answer in answers], range(tasks), "stage")
    marks: defaultdict[TableKey, list[Marked]] = defaultdict(list)
    for answer in answers:
        marks[answer.table_key] += answer.marked
    return marks


def group_slices(pieces: Iterable[ScratchSlice], kind: SliceKind) -> ScratchSlices:
    """Group the slices of one kind by table and split, or by table and fragment."""
    groups: defaultdict[tuple[TableKey, int], list[ScratchSlice]] = defaultdict(list)
    for piece in pieces:
        if piece.kind is kind:
            groups[piece.table_key, piece.part].append(piece)
    return {key: tuple(of_part) for key, of_part in groups.items()}


def count_rows(pieces: ScratchSlices, table: TableKey) -> int:
    """Count the rows of a table that the slices hold."""
    return sum(
        piece.rows for (key, _), of_part in pieces.items() if key == table for piece in of_part
    )
