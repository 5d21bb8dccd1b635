"""How inputs and tables are cut: numbered, picklable parts, and the positions of their rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from omnigraph.errors import UserInputError
from omnigraph.ids import TableKey
from omnigraph.limits import SPLIT_ROWS, SPLITS_MAX, SPREAD_BYTES, SPREAD_ROWS
from omnigraph.storage.tables import FragmentInfo, TableAt
from omnigraph.values import dataclass

POSITION_BITS = 32
"""Rows of one split that can be told apart; the bits above count splits."""
_ROW = (1 << POSITION_BITS) - 1

NO_BOUND = 1 << 60
"""More than any input has."""


# ---- what a split holds


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The lines of a file that begin in a range of its bytes; all of it when there is no end."""

    path: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class SpilledLines:
    """Lines of a stream in a scratch file of the run."""

    path: str


@dataclass(frozen=True, slots=True)
class SpilledRecords:
    """Records from memory in a scratch file of the run."""

    path: str


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of a Parquet file that follow one another, or some rows of them."""

    path: str
    groups: tuple[int, ...]
    start: int = 0
    rows: int | None = None
    """How many rows, from `start` on; all of them when it is None."""

    @property
    def is_sliced(self) -> bool:
        """Whether other splits read the rest of the same row groups."""
        return self.rows is not None


@dataclass(frozen=True, slots=True)
class TextTable:
    """A whole CSV file: only its reader knows where a row ends."""

    path: str


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows of a frame in this process."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Spilled:
    """Rows of a frame in a scratch file of the run."""

    path: str


@dataclass(frozen=True, slots=True)
class Shaped:
    """Rows of one table, typed and checked, in a scratch file of the run."""

    path: str


Frame = RowGroups | TextTable | InMemory | Spilled
Lines = ByteRange | SpilledLines
Loose = Lines | SpilledRecords
"""Records one by one, as opposed to frames."""


@dataclass(frozen=True, slots=True)
class Several:
    """Small inputs that one task reads one after the other; each of them keeps its name and counts its own lines."""

    splits: "tuple[Split, ...]"


Content = Loose | Frame | Shaped | Several


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of the input: its number, the input it is part of, in the order they were given, and which part of that.

    Without `table_key` it holds records of any type. `file` is what an error calls the input; it counts lines there,
    or rows.
    """

    number: int
    source: int
    part: int = 0
    content: Content
    table_key: TableKey | None = None
    file: str | None = None
    counts_lines: bool = False
    bytes: int = 0
    """About how much there is to read."""
    rows: int | None = None
    """How many rows, where that is known beforehand."""

    @property
    def first(self) -> int:
        """The position of its first row or line."""
        return first_position(self.number)

    @property
    def inputs(self) -> "tuple[Split, ...]":
        """The inputs that it reads: itself, unless it holds several."""
        return self.content.splits if isinstance(self.content, Several) else (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSplit:
    """Some fragments of a pinned table: committed rows that incoming ones are judged against."""

    table_key: TableKey
    at: TableAt
    fragments: tuple[int, ...]


# ---- positions


def first_position(split: int) -> int:
    """The position of the first row of a split."""
    return (split << POSITION_BITS) + 1


def split_of(position: int) -> int:
    """The split a position is in."""
    return position >> POSITION_BITS


def number_in(position: int) -> int:
    """Which row or line of its split a position is, from 1."""
    return position & _ROW


def splits_of(positions: "np.ndarray[Any, np.dtype[np.int64]]") -> "np.ndarray[Any, Any]":
    """The split each position is in."""
    return positions >> POSITION_BITS


# ---- cutting


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """How much one task reads at most: in bytes, in rows, and as a worker's fair share of the whole."""

    bytes: int
    rows: int
    share_bytes: int
    share_rows: int

    def slices(self, size: int, rows: int) -> int:
        """Into how many tasks rows are cut that could be read by one: as many as bring a share to each worker."""
        return max(1, -(-size // self.share_bytes), -(-rows // self.share_rows))


def grain_of(bytes_wanted: int, size: int, rows: int = 0, workers: int = 1) -> Grain:
    """How an input of a size is cut for some workers: none of them is idle while others have much to do."""
    bytes_max = split_bytes(bytes_wanted, size)
    if workers < 2:
        return Grain(bytes=bytes_max, rows=SPLIT_ROWS, share_bytes=NO_BOUND, share_rows=NO_BOUND)
    share_bytes, share_rows = -(-size // workers), max(SPREAD_ROWS, -(-rows // workers))
    return Grain(
        bytes=min(bytes_max, max(SPREAD_BYTES, share_bytes)),
        rows=min(SPLIT_ROWS, share_rows),
        # To cut inside a row group costs the reading of what comes before: only idle workers are worth it.
        share_bytes=max(bytes_max, share_bytes),
        share_rows=share_rows,
    )


@dataclass(frozen=True, slots=True)
class Portion:
    """What becomes a split once all inputs are known: it only lacks a number."""

    content: Content
    bytes: int
    rows: int | None = None


def cut_lines(path: Path, bytes_max: int) -> Iterator[Portion]:
    """Cut a file of lines by its bytes; a compressed one stays whole."""
    try:
        size = path.stat().st_size
        with open(path, "rb"):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserInputError(f"'{path}' cannot be read: {reason}; no changes were made") from error
    if path.suffix == ".gz":
        # Text shrinks to about a fifth when it is compressed.
        yield Portion(ByteRange(str(path)), 5 * size)
        return
    for start in range(0, max(size, 1), bytes_max):
        end = min(start + bytes_max, size)
        yield Portion(ByteRange(str(path), start, end), end - start)


def cut_parquet(path: Path, grain: Grain) -> Iterator[Portion]:
    """Cut a Parquet file between its row groups, and inside those that are more than a worker's share."""
    try:
        metadata = pyarrow.parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; no changes were made") from error
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    # A group weighs by its bytes or by its rows, whichever is nearer to its bound.
    weights = [
        max(group.total_byte_size / grain.bytes, group.num_rows / grain.rows) for group in groups
    ]
    for run in _runs(weights, 1):
        size = sum(groups[number].total_byte_size for number in run)
        rows = sum(groups[number].num_rows for number in run)
        yield from _sliced(RowGroups(str(path), tuple(run)), size, rows, grain.slices(size, rows))
    if not groups:
        yield Portion(RowGroups(str(path), ()), 0, 0)


def _sliced(content: RowGroups, size: int, rows: int, count: int) -> Iterator[Portion]:
    """Some row groups as one portion, or cut into several that are read apart."""
    if count < 2 or rows < 2:
        yield Portion(content, size, rows)
        return
    step = -(-rows // count)
    for start in range(0, rows, step):
        taken = min(step, rows - start)
        yield Portion(replace(content, start=start, rows=taken), size * taken // rows, taken)


def cut_frame(rows: pa.Table, grain: Grain) -> Iterator[Portion]:
    """Cut a frame in memory; nothing is copied."""
    per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    step = max(1, min(grain.bytes // per_row, grain.rows))
    for start in range(0, max(rows.num_rows, 1), step):
        part = rows.slice(start, step)
        yield Portion(InMemory(part), per_row * part.num_rows, part.num_rows)


def cut_table(
    table_key: TableKey, at: TableAt, fragments: Sequence[FragmentInfo], rows_max: int
) -> Iterator[CommittedSplit]:
    """Cut a pinned table into groups of fragments."""
    live = [fragment for fragment in fragments if fragment.rows]
    for run in _runs([fragment.rows for fragment in live], rows_max):
        numbers = tuple(live[place].id for place in run)
        yield CommittedSplit(table_key=table_key, at=at, fragments=numbers)


def pack_splits(splits: Iterable[Split], grain: Grain) -> Iterator[Split]:
    """Put small inputs that follow one another together until they are worth a task, and number the result."""
    for number, run in enumerate(_packed_runs(splits, grain)):
        yield replace(run[0], number=number) if len(run) == 1 else _several(run, number)


def _packed_runs(splits: Iterable[Split], grain: Grain) -> Iterator[list[Split]]:
    run: list[Split] = []
    size, rows = 0, 0
    for split in splits:
        size, rows = size + split.bytes, rows + (split.rows or 0)
        if run and (size > grain.bytes or rows > grain.rows or not _go_together(run[-1], split)):
            yield run
            run, size, rows = [], split.bytes, split.rows or 0
        run.append(split)
    if run:
        yield run


def _go_together(one: Split, other: Split) -> bool:
    """Whether one task can read both: lines, or frames of one type, that all processes can reach."""
    kinds = [_kind(split.content) for split in (one, other)]
    return kinds[0] is not None and kinds[0] == kinds[1] and one.table_key == other.table_key


def _kind(content: Content) -> str | None:
    match content:
        case ByteRange():
            return "lines"
        case RowGroups() if not content.is_sliced:
            return "frame"
        case TextTable() | Spilled():
            return "frame"
        case _:
            return None


def _several(run: Sequence[Split], number: int) -> Split:
    inputs = tuple(replace(split, number=number) for split in run)
    counts = [split.rows for split in run]
    return replace(
        inputs[0],
        content=Several(inputs),
        bytes=sum(split.bytes for split in run),
        rows=None if None in counts else sum(count or 0 for count in counts),
    )


def split_bytes(wanted: int, total: int) -> int:
    """How many bytes a split may have: more than wanted when there would be too many of them."""
    return max(1, wanted, total // SPLITS_MAX)


def _runs(sizes: Sequence[float], size_max: int) -> Iterator[list[int]]:
    """Numbers that follow one another, together until a size is reached; at least one."""
    totals = np.cumsum([0, *sizes])[:-1] // max(1, size_max)
    for _, run in groupby(range(len(sizes)), key=lambda number: int(totals[number])):
        yield list(run)
