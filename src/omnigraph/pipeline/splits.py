"""How inputs and tables are cut: numbered, picklable parts, and the positions of their rows."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from omnigraph.errors import UserInputError
from omnigraph.ids import TableKey
from omnigraph.limits import SPLITS_MAX
from omnigraph.storage.tables import FragmentInfo, TableAt
from omnigraph.values import dataclass

POSITION_BITS = 32
"""Rows of one split that can be told apart; the bits above count splits."""
_ROW = (1 << POSITION_BITS) - 1


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
    """Some row groups of a Parquet file that follow one another."""

    path: str
    groups: tuple[int, ...]


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
Content = Loose | Frame | Shaped


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSplit:
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


def cut_parquet(path: Path, bytes_max: int) -> Iterator[Portion]:
    """Cut a Parquet file between its row groups."""
    try:
        metadata = pyarrow.parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise UserInputError(f"'{path}' cannot be read: {error}; no changes were made") from error
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for run in _runs([group.total_byte_size for group in groups], bytes_max):
        held = [groups[number] for number in run]
        yield Portion(
            RowGroups(str(path), tuple(run)),
            sum(group.total_byte_size for group in held),
            sum(group.num_rows for group in held),
        )
    if not groups:
        yield Portion(RowGroups(str(path), ()), 0, 0)


def cut_frame(rows: pa.Table, bytes_max: int) -> Iterator[Portion]:
    """Cut a frame in memory; nothing is copied."""
    per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    step = max(1, bytes_max // per_row)
    for start in range(0, max(rows.num_rows, 1), step):
        part = rows.slice(start, step)
        yield Portion(InMemory(part), per_row * part.num_rows, part.num_rows)


def cut_table(
    table_key: TableKey, at: TableAt, fragments: Sequence[FragmentInfo], rows_max: int
) -> Iterator[HeldSplit]:
    """Cut a pinned table into groups of fragments."""
    live = [fragment for fragment in fragments if fragment.rows]
    for run in _runs([fragment.rows for fragment in live], rows_max):
        numbers = tuple(live[place].id for place in run)
        yield HeldSplit(table_key=table_key, at=at, fragments=numbers)


def split_bytes(wanted: int, total: int) -> int:
    """How many bytes a split may have: more than wanted when there would be too many of them."""
    return max(1, wanted, total // SPLITS_MAX)


def _runs(sizes: Sequence[int], size_max: int) -> Iterator[list[int]]:
    """Numbers that follow one another, together until a size is reached; at least one."""
    totals = np.cumsum([0, *sizes])[:-1] // max(1, size_max)
    for _, run in groupby(range(len(sizes)), key=lambda number: int(totals[number])):
        yield list(run)
