"""Splits: numbered, picklable parts of inputs and tables, and the positions of their rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import SPLIT_ROWS, SPLITS_MAX, SPREAD_BYTES, SPREAD_ROWS
from omnigraphdb.pipeline.messages import IdRange
from omnigraphdb.storage.values import FragmentInfo, TableAt, Written
from omnigraphdb.values import dataclass

POSITION_BITS = 32
"""The low bits of a position number the rows of a split; the bits above number the splits."""
_ROW = (1 << POSITION_BITS) - 1

NO_BOUND = 1 << 60
"""More than any input has."""


# ---- the content of a split


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The lines of a file that begin in a range of its bytes; without an end, all lines from `start` on."""

    path: str
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class SpilledLines:
    """Lines of a stream in a scratch file."""

    path: str


@dataclass(frozen=True, slots=True)
class SpilledRecords:
    """A record blob in a scratch file."""

    path: str


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Consecutive row groups of a Parquet file, or a slice of their rows."""

    path: str
    groups: tuple[int, ...]
    start: int = 0
    rows: int | None = None
    """The number of rows from `start` on; None stands for all rows."""

    @property
    def is_sliced(self) -> bool:
        """Whether other splits read the rest of the same row groups."""
        return self.rows is not None


@dataclass(frozen=True, slots=True)
class TextTable:
    """A whole CSV file: only its parser knows where a row ends."""

    path: str


@dataclass(frozen=True, slots=True)
class InMemory:
    """Rows of a frame in the memory of this process."""

    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Spilled:
    """Rows of a frame in a scratch file."""

    path: str


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Typed and checked rows of one table in a scratch file."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """Typed rows of one table that a task checked before the load began; a scratch file holds their keys, or all of them.

    `written` are fragments that hold the whole rows, beside the version `at`; without it the scratch file does.
    """

    path: str
    columns: tuple[str, ...]
    """The columns of the scratch file beside `id`."""
    ids: IdRange
    at: TableAt
    written: Written | None = None


Frame = RowGroups | TextTable | InMemory | Spilled
Lines = ByteRange | SpilledLines
Loose = Lines | SpilledRecords
"""Content that is read record by record, as opposed to frames."""


@dataclass(frozen=True, slots=True)
class SmallFiles:
    """Small inputs that one task reads one after the other; each has its own file name and line numbers."""

    splits: "tuple[Split, ...]"


Content = Loose | Frame | TypedRows | SmallFiles | CheckedRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A part of the input: `source` is the index of the input, `part` the index of this part in that input.

    Without `table_key` it holds records of any type. `file` names the input in errors, together with a line
    (`counts_lines`) or a record number.
    """

    number: int
    source: int
    part: int = 0
    content: Content
    table_key: TableKey | None = None
    file: str | None = None
    counts_lines: bool = False
    bytes: int = 0
    """About how many bytes the task reads."""
    rows: int | None = None
    """The number of rows, where it is known before reading."""

    @property
    def first(self) -> int:
        """The position of its first row or line."""
        return first_position(self.number)

    @property
    def inputs(self) -> "tuple[Split, ...]":
        """The inputs of the split: several small ones, or the split itself."""
        return self.content.splits if isinstance(self.content, SmallFiles) else (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSplit:
    """Some fragments of a pinned table: committed rows whose keys are joined with incoming ones."""

    table_key: TableKey
    at: TableAt
    fragments: tuple[int, ...]


# ---- positions


def first_position(split: int) -> int:
    """Return the position of the first row of a split."""
    return (split << POSITION_BITS) + 1


def split_of(position: int) -> int:
    """Return the split that a position is in."""
    return position >> POSITION_BITS


def number_in(position: int) -> int:
    """Return the number of a position inside its split, from 1."""
    return position & _ROW


def splits_of(positions: "np.ndarray[Any, np.dtype[np.int64]]") -> "np.ndarray[Any, Any]":
    """Return the split that each position is in."""
    return positions >> POSITION_BITS


# ---- cutting


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitLimits:
    """The most that one task reads: bytes, rows, and a worker's fair share of the whole input."""

    bytes: int
    rows: int
    share_bytes: int
    share_rows: int

    def slices(self, size: int, rows: int) -> int:
        """Into how many tasks a run of row groups is cut, so that each worker gets a share."""
        return max(1, -(-size // self.share_bytes), -(-rows // self.share_rows))


def grain_of(bytes_wanted: int, size: int, rows: int = 0, workers: int = 1) -> SplitLimits:
    """Choose the grain for an input of a size, so that no worker is idle while others have much to do."""
    bytes_max = split_bytes(bytes_wanted, size)
    if workers < 2:
        return SplitLimits(
            bytes=bytes_max, rows=SPLIT_ROWS, share_bytes=NO_BOUND, share_rows=NO_BOUND
        )
    share_bytes, share_rows = -(-size // workers), max(SPREAD_ROWS, -(-rows // workers))
    return SplitLimits(
        bytes=min(bytes_max, max(SPREAD_BYTES, share_bytes)),
        rows=min(SPLIT_ROWS, share_rows),
        # A task that reads a slice also decodes the rows before it; that pays only when workers would be idle.
        share_bytes=max(bytes_max, share_bytes),
        share_rows=share_rows,
    )


@dataclass(frozen=True, slots=True)
class SplitDraft:
    """A split without its number, which is known once all inputs are cut."""

    content: Content
    bytes: int
    rows: int | None = None


def cut_lines(path: Path, bytes_max: int) -> Iterator[SplitDraft]:
    """Cut a file of lines by bytes; a compressed file stays whole."""
    try:
        size = path.stat().st_size
        with open(path, "rb"):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserInputError(f"'{path}' cannot be read: {reason}; no changes were made") from error
    if path.suffix == ".gz":
        # Compression shrinks text to about a fifth.
        yield SplitDraft(ByteRange(str(path)), 5 * size)
        return
    for start in range(0, max(size, 1), bytes_max):
        end = min(start + bytes_max, size)
        yield SplitDraft(ByteRange(str(path), start, end), end - start)


def cut_parquet(path: Path, grain: SplitLimits) -> Iterator[SplitDraft]:
    """Cut a Parquet file between its row groups, and inside row groups that exceed a worker's share."""
    try:
        metadata = pyarrow.parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip()
        raise UserInputError(f"'{path}' cannot be read: {reason}; no changes were made") from error
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    # The weight of a group is its bytes or its rows: the measure nearer to its bound.
    weights = [
        max(group.total_byte_size / grain.bytes, group.num_rows / grain.rows) for group in groups
    ]
    for run in cut_runs(weights, 1):
        size = sum(groups[number].total_byte_size for number in run)
        rows = sum(groups[number].num_rows for number in run)
        yield from _cut_slices(
            RowGroups(str(path), tuple(run)), size, rows, grain.slices(size, rows)
        )
    if not groups:
        yield SplitDraft(RowGroups(str(path), ()), 0, 0)


def _cut_slices(content: RowGroups, size: int, rows: int, count: int) -> Iterator[SplitDraft]:
    """Make one portion of some row groups, or cut them into slices."""
    if count < 2 or rows < 2:
        yield SplitDraft(content, size, rows)
        return
    step = -(-rows // count)
    for start in range(0, rows, step):
        slice_rows = min(step, rows - start)
        yield SplitDraft(
            replace(content, start=start, rows=slice_rows), size * slice_rows // rows, slice_rows
        )


def cut_frame(rows: pa.Table, grain: SplitLimits) -> Iterator[SplitDraft]:
    """Cut a frame in memory without copying it."""
    per_row = max(1, rows.nbytes // max(1, rows.num_rows))
    step = max(1, min(grain.bytes // per_row, grain.rows))
    for start in range(0, max(rows.num_rows, 1), step):
        part = rows.slice(start, step)
        yield SplitDraft(InMemory(part), per_row * part.num_rows, part.num_rows)


def cut_table(
    table_key: TableKey, at: TableAt, fragments: Sequence[FragmentInfo], rows_max: int
) -> Iterator[CommittedSplit]:
    """Cut a pinned table into groups of fragments."""
    live = [fragment for fragment in fragments if fragment.rows]
    for run in cut_runs([fragment.rows for fragment in live], rows_max):
        numbers = tuple(live[index].id for index in run)
        yield CommittedSplit(table_key=table_key, at=at, fragments=numbers)


def pack_splits(splits: Iterable[Split], grain: SplitLimits) -> Iterator[Split]:
    """Put consecutive small inputs together until they fill a task, and number the splits."""
    for number, run in enumerate(_packed_runs(splits, grain)):
        yield replace(run[0], number=number) if len(run) == 1 else _join_splits(run, number)


def _packed_runs(splits: Iterable[Split], grain: SplitLimits) -> Iterator[list[Split]]:
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


def _go_together(first: Split, other: Split) -> bool:
    """Whether one task can read both: both lines, or both frames of one type, readable by every process."""
    kinds = [_kind(split.content) for split in (first, other)]
    return kinds[0] is not None and kinds[0] == kinds[1] and first.table_key == other.table_key


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


def _join_splits(run: Sequence[Split], number: int) -> Split:
    inputs = tuple(replace(split, number=number) for split in run)
    counts = [split.rows for split in run]
    return replace(
        inputs[0],
        content=SmallFiles(inputs),
        bytes=sum(split.bytes for split in run),
        rows=None if None in counts else sum(count or 0 for count in counts),
    )


def split_bytes(target_bytes: int, total: int) -> int:
    """Return the bytes of a split: more than the target when there would be too many splits."""
    return max(1, target_bytes, total // SPLITS_MAX)


def cut_runs(sizes: Sequence[float], size_max: int) -> Iterator[list[int]]:
    """Group consecutive indexes until their sizes reach a bound; a group has at least one."""
    totals = np.cumsum([0, *sizes])[:-1] // max(1, size_max)
    for _, run in groupby(range(len(sizes)), key=lambda number: int(totals[number])):
        yield list(run)
