"""Two versions of a table as the sides of a shuffle: tasks read rows that may differ, a bucket joins them by id.

A side carries no values. It carries a digest of each column, so that a bucket finds the rows and columns that differ
without reading a row; tables with blobs, which have no digests, are compared by value inside the bucket.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import LAST_UPDATED, ROW_ADDRESS, ROW_ID
from omnigraphdb.engine.diff.candidates import (
    SIDE,
    compare_fragments,
    find_last_shared_version,
    find_moves,
    find_pruned_rows,
)
from omnigraphdb.engine.diff.digest import can_digest, digest_column, digest_nulls
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.engine.diff.rows import Comparison, Pair, Step, drop_equal, pair_columns
from omnigraphdb.engine.equality import Mask
from omnigraphdb.limits import COMPARE_SPLIT_ROWS, SIDE_BATCH_BYTES, SIDE_BATCH_ROWS
from omnigraphdb.pipeline.input.splits import cut_runs
from omnigraphdb.pipeline.runner import KEY
from omnigraphdb.storage.addresses import row_bytes, stream_rows_at
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import FragmentInfo, TableAt
from omnigraphdb.values import dataclass

BEFORE: Final = "before"
AFTER: Final = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionPair:
    """Two versions of one table that are compared; `name` tells several pairs of one shuffle apart."""

    name: str
    before: TableAt | None
    after: TableAt | None
    last_shared: int
    columns: tuple[Pair, ...] | None
    """The columns that have digests; None when rows are compared by value."""
    seed: int = 0

    def name_side(self, side: str) -> str:
        """Name a side in the shuffle."""
        return f"{self.name}|{side}"

    def at(self, side: str) -> TableAt | None:
        """Return the version of a side."""
        return self.before if side == BEFORE else self.after

    @property
    def schema(self) -> pa.Schema:
        """The columns of both sides."""
        digests = [pa.field(name, pa.uint64()) for name in self.digests]
        return pa.schema([pa.field(KEY, pa.string()), *SIDE, *digests])

    @property
    def digests(self) -> list[str]:
        """The columns of digests."""
        return [f"digest {number}" for number, _ in enumerate(self.columns or ())]

    @property
    def names(self) -> tuple[str, ...]:
        """The compared columns by their newer name."""
        return tuple(pair.right or pair.left or "" for pair in self.columns or ())


def pair_versions(
    tables: Tables,
    name: str,
    before: TableAt | None,
    after: TableAt | None,
    *,
    seed: int = 0,
    row_cache: RowCache = NO_ROW_CACHE,
) -> VersionPair:
    """Pair two versions; their columns have digests unless one of them is a blob."""
    return VersionPair(
        name=name,
        before=before,
        after=after,
        last_shared=find_last_shared_version(tables, before, after),
        columns=_choose_columns(tables, before, after, row_cache),
        seed=seed,
    )


def _choose_columns(
    tables: Tables, before: TableAt | None, after: TableAt | None, row_cache: RowCache
) -> tuple[Pair, ...] | None:
    opened = [tables.open(at) for at in (before, after) if at is not None]
    if not opened:
        return ()
    if not all(can_digest(field.type) for table in opened for field in table.schema):
        return None
    return pair_columns(opened[0], opened[-1], row_cache).pairs


# ---- splits


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSplit:
    """Fragments of one side of a pair.

    In fragments that both versions have, a task reads the rows that only one version shows.
    """

    pair: VersionPair
    side: str
    fragments: tuple[int, ...]
    is_shared: bool
    rows: int
    """The approximate number of rows that the task reads."""
    bytes: int
    """The approximate number of bytes of these rows."""


def cut_sides(tables: Tables, pair: VersionPair) -> list[SideSplit]:
    """Cut both sides of a pair into splits; fragments without a difference are in none."""
    if pair.before == pair.after:
        return []
    left, right = (
        () if at is None else tables.open(at).fragments() for at in (pair.before, pair.after)
    )
    return [*_cut_side(pair, BEFORE, left, right), *_cut_side(pair, AFTER, right, left)]


def _cut_side(
    pair: VersionPair, side: str, own: Sequence[FragmentInfo], other: Sequence[FragmentInfo]
) -> Iterator[SideSplit]:
    difference = compare_fragments(own, other)
    whole_fragments = [
        fragment for fragment in own if fragment.id in frozenset(difference.whole) and fragment.rows
    ]
    deleted = {fragment.id: fragment.deleted_rows for fragment in other}
    shared = {
        fragment.id: max(0, deleted[fragment.id] - fragment.deleted_rows)
        for fragment in difference.pruned
    }
    for run in cut_runs([fragment.rows for fragment in whole_fragments], COMPARE_SPLIT_ROWS):
        yield _make_split(pair, side, [whole_fragments[n] for n in run], {})
    # A fragment in which the other side deleted no more rows may still have rows that the other side deleted before.
    for run in cut_runs(
        [max(1, shared[fragment.id]) for fragment in difference.pruned], COMPARE_SPLIT_ROWS
    ):
        yield _make_split(pair, side, [difference.pruned[n] for n in run], shared)


def _make_split(
    pair: VersionPair, side: str, parts: Sequence[FragmentInfo], shared: Mapping[int, int]
) -> SideSplit:
    rows = sum(shared.get(fragment.id, fragment.rows) for fragment in parts)
    stored = sum(fragment.bytes for fragment in parts)
    return SideSplit(
        pair=pair,
        side=side,
        fragments=tuple(fragment.id for fragment in parts),
        is_shared=bool(shared),
        rows=rows,
        bytes=stored * rows // max(1, sum(fragment.physical_rows for fragment in parts)),
    )


# ---- reading, by tasks


class OpensStore(Protocol):
    """A value that a task in any process opens the store with."""

    def store(self) -> Store:
        """Open the store of the graph."""


@dataclass(frozen=True, slots=True)
class ReadSides:
    """Reads the rows of a split, some at a time, as rows of a side of the shuffle."""

    location: OpensStore

    def __call__(self, split: SideSplit) -> Iterator[tuple[str, pa.Table]]:
        tables, pair, at = self.location.store().tables, split.pair, split.pair.at(split.side)
        assert at is not None, "a version without rows has no splits"
        for rows in _stream_rows(tables, tables.open(at), split):
            yield pair.name_side(split.side), _digest_rows(pair, split.side, rows)


def _stream_rows(tables: Tables, table: Table, split: SideSplit) -> Iterator[pa.Table]:
    names = list(dict.fromkeys(["id", *_list_columns(split.pair, split.side)]))
    step = max(1, min(SIDE_BATCH_ROWS, SIDE_BATCH_BYTES // row_bytes(table.schema, names)))
    if split.is_shared:
        rows = _find_single_rows(tables, split)
        yield from stream_rows_at(table, rows, names, step, row_id=True)
        return
    batches = table.scan(
        [*names, LAST_UPDATED],
        row_id=True,
        row_address=True,
        fragments=split.fragments,
        batch_rows=step,
    )
    for batch in batches:
        yield pa.Table.from_batches([batch])


def _list_columns(pair: VersionPair, side: str) -> list[str]:
    own = (
        column_pair.left if side == BEFORE else column_pair.right
        for column_pair in pair.columns or ()
    )
    return [name for name in own if name is not None]


def _find_single_rows(tables: Tables, split: SideSplit) -> pa.Array:
    """Find the rows of shared fragments that only this side shows."""
    pair = split.pair
    assert pair.before is not None, "a fragment of both versions has a version before"
    assert pair.after is not None, "a fragment of both versions has a version after"
    fragment_ids = frozenset(split.fragments)
    left, right = tables.open(pair.before), tables.open(pair.after)
    older, newer = (
        [fragment for fragment in table.fragments() if fragment.id in fragment_ids]
        for table in (left, right)
    )
    lost, gained = find_pruned_rows(left, right, older, newer)
    return lost if split.side == BEFORE else gained


def _digest_rows(pair: VersionPair, side: str, rows: pa.Table) -> pa.Table:
    count = rows.num_rows
    versions = (
        rows[LAST_UPDATED].cast(pa.uint64())
        if LAST_UPDATED in rows.column_names
        else pa.nulls(count, pa.uint64())
    )
    digests = [
        pa.array(
            _digest_one(
                rows, column_pair.left if side == BEFORE else column_pair.right, pair.seed + number
            )
        )
        for number, column_pair in enumerate(pair.columns or ())
    ]
    ids, addresses, row_ids = rows["id"], rows[ROW_ADDRESS], rows[ROW_ID]
    columns = [ids, ids, addresses, row_ids, versions, *digests]
    return pa.table(columns, schema=pair.schema)


def _digest_one(rows: pa.Table, name: str | None, seed: int) -> Any:
    seed %= 1 << 64
    return (
        digest_nulls(rows.num_rows, seed)
        if name is None
        else digest_column(column(rows, name), seed)
    )


# ---- joining, in a bucket


class AlignedPair:
    """The rows of a bucket of one pair of versions: both sides, and which of them differ."""

    def __init__(self, pair: VersionPair, sides: Mapping[str, pa.Table]) -> None:
        self.pair = pair
        self.before, self.after = (
            sides[pair.name_side(side)].drop_columns([KEY]).combine_chunks()
            for side in (BEFORE, AFTER)
        )

    @cached_property
    def moves(self) -> pa.Table:
        """The rows that may differ, as `MOVES`, by id; where there are digests, only the rows that do differ."""
        left, right = self.before, self.after
        if self.pair.columns is not None:
            left, right = _drop_same_digests(left, right, self.pair.digests)
        names = SIDE.names
        last_shared = self.pair.last_shared
        return find_moves(lambda: last_shared, left.select(names), right.select(names)).sort_by(
            "id"
        )

    def compare(self, tables: Tables, row_cache: RowCache = NO_ROW_CACHE) -> Comparison:
        """Make the comparison of rows of both sides: by digests where there are any, else by value."""
        if self.pair.columns is not None:
            return DigestedRows(
                left=self.before,
                right=self.after,
                digests=tuple(self.pair.digests),
                names=self.pair.names,
            )
        assert self.pair.before is not None, "rows of one version alone are not compared"
        assert self.pair.after is not None, "rows of one version alone are not compared"
        return pair_columns(tables.open(self.pair.before), tables.open(self.pair.after), row_cache)

    def find_changed(self, tables: Tables, row_cache: RowCache = NO_ROW_CACHE) -> Step:
        """Find the rows that differ, and in which columns."""
        if self.pair.before is None or self.pair.after is None:
            return Step(self.moves, np.zeros((self.moves.num_rows, 0), dtype=bool))
        return drop_equal(self.moves, self.compare(tables, row_cache))

    def name_columns(self, tables: Tables, row_cache: RowCache = NO_ROW_CACHE) -> tuple[str, ...]:
        """Name the columns that `find_changed` compares; there are none when one version has no rows."""
        if self.pair.before is None or self.pair.after is None:
            return ()
        return self.compare(tables, row_cache).names


def _drop_same_digests(
    left: pa.Table, right: pa.Table, digests: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """Drop the rows that both sides have with the same digests in all columns."""
    positions = pc.index_in(column(left, "id"), value_set=column(right, "id"))
    in_both = positions.is_valid().to_numpy(zero_copy_only=False)
    left_at = np.flatnonzero(in_both)
    right_at = positions.drop_null().to_numpy()
    alike = np.ones(len(left_at), dtype=bool)
    for name in digests:
        alike &= _numbers(left, name)[left_at] == _numbers(right, name)[right_at]
    return _drop(left, left_at[alike]), _drop(right, right_at[alike])


def _drop(rows: pa.Table, numbers: Any) -> pa.Table:
    mask = np.ones(rows.num_rows, dtype=bool)
    mask[numbers] = False
    return rows.filter(pa.array(mask))


def _numbers(rows: pa.Table, name: str) -> Any:
    return column(rows, name).to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestedRows:
    """Compares rows of a bucket by the digests of their columns."""

    left: pa.Table
    right: pa.Table
    digests: tuple[str, ...]
    names: tuple[str, ...]

    def matrix(self, left_rows: pa.Array, right_rows: pa.Array) -> Mask:
        """Compare rows by address: one line per pair of rows, one column per compared column, True where they differ."""
        left_at = pc.index_in(left_rows, value_set=column(self.left, "row")).to_numpy(False)
        right_at = pc.index_in(right_rows, value_set=column(self.right, "row")).to_numpy(False)
        mask = np.zeros((len(left_rows), len(self.digests)), dtype=bool)
        for number, name in enumerate(self.digests):
            mask[:, number] = (
                _numbers(self.left, name)[left_at] != _numbers(self.right, name)[right_at]
            )
        return mask
