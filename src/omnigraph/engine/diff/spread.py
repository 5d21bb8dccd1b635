"""Comparing large tables with many hands: the sides of every row meet by id, and only rows that may differ come back."""

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
"""From the rows of both sides to the moves among them; a picklable function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A runner, and where its tasks find the tables."""

    runner: Runner
    location: StoreLocation
    rows_min: int
    """Fewer rows to read than this are read here: a task costs more than they do."""

    def is_worth(self, *portions: "Portion") -> bool:
        """Whether there is enough to read."""
        return sum(portion.rows for portion in portions) >= self.rows_min


@dataclass(frozen=True, slots=True)
class ReadSplit:
    """Fragments of one side that are read whole."""

    location: StoreLocation
    side: str
    held: CommittedSplit


@dataclass(frozen=True, slots=True)
class GivenSplit:
    """Rows of one side that are known already: few, for they travel with the split."""

    side: str
    rows: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """One side of a comparison: a table, the fragments of it to be read, and addresses of single rows.

    `known` are those rows once they were read.
    """

    table: Table | None
    fragments: tuple[int, ...]
    single: pa.Array
    known: pa.Table | None = None

    @property
    def rows(self) -> int:
        """How many are to be read."""
        return sum(one.rows for one in self.parts)

    @property
    def parts(self) -> tuple[FragmentInfo, ...]:
        """The fragments to be read."""
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
    """Let the runner read both sides and bring equal ids together; `schemas` are those of a side and of a move."""
    side, move = schemas
    keyed = side.insert(0, pa.field(KEY, pa.string()))
    step = Shuffle(
        name="compare",
        splits=[*_splits(spread, BEFORE, before), *_splits(spread, AFTER, after)],
        keys=partial(_keys, read),
        sides={BEFORE: keyed, AFTER: keyed},
        decide=partial(_decide, keep),
        out=move,
    )
    return spread.runner.run(step)


def _splits(spread: Spread, side: str, portion: Portion) -> Iterator[ReadSplit | GivenSplit]:
    if portion.known is not None and portion.known.num_rows:
        yield GivenSplit(side, portion.known)
    if portion.table is not None:
        key = TableKey(portion.table.at.path)
        for held in cut_table(key, portion.table.at, portion.parts, COMPARE_SPLIT_ROWS):
            yield ReadSplit(spread.location, side, held)


def _keys(
    read: Callable[[Table, Sequence[int]], pa.Table], split: ReadSplit | GivenSplit
) -> Iterator[tuple[str, pa.Table]]:
    rows = split.rows if isinstance(split, GivenSplit) else _read(read, split)
    yield split.side, rows.add_column(0, pa.field(KEY, pa.string()), rows["id"])


def _read(read: Callable[[Table, Sequence[int]], pa.Table], split: ReadSplit) -> pa.Table:
    return read(split.location.store().tables.open(split.held.at), split.held.fragments)


def _decide(keep: Keep, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    yield keep(sides[BEFORE].drop_columns([KEY]), sides[AFTER].drop_columns([KEY]))
