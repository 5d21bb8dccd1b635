"""Comparing large tables by a runner: its tasks join both versions by id and return only rows that may differ."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from omnigraph.ids import TableKey
from omnigraph.limits import COMPARE_SPLIT_ROWS
from omnigraph.pipeline.input.splits import CommittedSplit, cut_table
from omnigraph.pipeline.location import StoreLocation
from omnigraph.pipeline.runner import KEY, Runner, Shuffle
from omnigraph.storage.tables import Table
from omnigraph.storage.values import FragmentInfo
from omnigraph.values import dataclass

BEFORE: Final = "before"
AFTER: Final = "after"

Keep = Callable[[pa.Table, pa.Table], pa.Table]
"""Computes the moves of the rows of both sides; a picklable function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A runner, and the store in which its tasks find the tables."""

    runner: Runner
    location: StoreLocation
    rows_min: int
    """Fewer rows than this are read in this process: a task costs more than reading them."""

    def is_worth(self, *portions: "Portion") -> bool:
        """Whether there are enough rows to read."""
        return sum(portion.rows for portion in portions) >= self.rows_min


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """Fragments of one side; a task reads them whole."""

    location: StoreLocation
    side: str
    fragments_split: CommittedSplit


@dataclass(frozen=True, slots=True)
class RowsSplit:
    """Rows of one side that the driver has read; few, because they travel with the split."""

    side: str
    rows: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One side of a comparison: a table, the fragments to read, and the addresses of single rows.

    `single_rows` are the single rows, once they were read.
    """

    table: Table | None
    fragments: tuple[int, ...]
    single: pa.Array
    single_rows: pa.Table | None = None

    @property
    def rows(self) -> int:
        """How many rows the fragments have."""
        return sum(one.rows for one in self.parts)

    @property
    def parts(self) -> tuple[FragmentInfo, ...]:
        """The fragments to read."""
        if self.table is None or not self.fragments:
            return ()
        chosen = frozenset(self.fragments)
        return tuple(one for one in self.table.fragments() if one.id in chosen)


def align_sides(
    spread: Spread,
    before: Portion,
    after: Portion,
    read: Callable[[Table, Sequence[int]], pa.Table],
    keep: Keep,
    schemas: tuple[pa.Schema, pa.Schema],
) -> pa.Table:
    """Let the runner read both sides and join them by id; `schemas` are those of a side and of a move."""
    side, move = schemas
    keyed = side.insert(0, pa.field(KEY, pa.string()))
    step = Shuffle(
        name="compare",
        splits=[*_cut_splits(spread, BEFORE, before), *_cut_splits(spread, AFTER, after)],
        keys=partial(_key_rows, read),
        sides={BEFORE: keyed, AFTER: keyed},
        decide=partial(_decide, keep),
        out=move,
    )
    return spread.runner.run(step)


def _cut_splits(spread: Spread, side: str, portion: Portion) -> Iterator[ReadSplit | RowsSplit]:
    if portion.single_rows is not None and portion.single_rows.num_rows:
        yield RowsSplit(side, portion.single_rows)
    if portion.table is not None:
        key = TableKey(portion.table.at.path)
        for fragments_split in cut_table(key, portion.table.at, portion.parts, COMPARE_SPLIT_ROWS):
            yield ReadSplit(spread.location, side, fragments_split)


def _key_rows(
    read: Callable[[Table, Sequence[int]], pa.Table], split: ReadSplit | RowsSplit
) -> Iterator[tuple[str, pa.Table]]:
    rows = split.rows if isinstance(split, RowsSplit) else _read(read, split)
    yield split.side, rows.add_column(0, pa.field(KEY, pa.string()), rows["id"])


def _read(read: Callable[[Table, Sequence[int]], pa.Table], split: ReadSplit) -> pa.Table:
    return read(
        split.location.store().tables.open(split.fragments_split.at),
        split.fragments_split.fragments,
    )


def _decide(keep: Keep, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    yield keep(sides[BEFORE].drop_columns([KEY]), sides[AFTER].drop_columns([KEY]))
