"""The rows of tables in a merge by steps: tasks read the rows that may differ and decide each bucket of ids by itself.

A bucket holds every row of its ids on all sides, so the truth table of `resolve` applies to it as to a whole table. The
decided rows go into scratch files; the driver gets counts, and the first conflicts. All tables share one step, since a job
of Spark takes some tenths of a second, however small it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.commit.addressed import AddressedRows
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.engine.diff.rows import Comparison
from omnigraphdb.engine.diff.sides import (
    AFTER,
    BEFORE,
    AlignedPair,
    DigestedRows,
    ReadSides,
    SideSplit,
    VersionPair,
    pair_versions,
)
from omnigraphdb.engine.merge.conflicts import Conflict, in_order, pack_conflicts
from omnigraphdb.engine.merge.prepare import describe_clash
from omnigraphdb.engine.merge.relate import MergeStrategy, TableRelation
from omnigraphdb.engine.merge.resolve import (
    Resolution,
    StoredSides,
    adopt_moves,
    resolve_moves,
)
from omnigraphdb.engine.merge.virtual import list_other_versions, merge_over
from omnigraphdb.engine.merge_base import Node
from omnigraphdb.ids import Granularity, TableKey
from omnigraphdb.limits import AGREED_ROWS_MAX, CONFLICTS_SHOWN_MAX
from omnigraphdb.pipeline.checks import LoadSpec, write_slices
from omnigraphdb.pipeline.messages import MESSAGES, ScratchSlice, SliceKind, encode
from omnigraphdb.pipeline.runner import Shuffle
from omnigraphdb.storage.addresses import find_addresses_in
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.values import dataclass

SOURCE, TARGET = "source", "target"
"""The pairs of a three-way comparison: the base and what each side made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictsFound:
    """The first conflicts of one kind in one bucket, how many there are, and the scratch file that has all of them."""

    table_key: TableKey
    conflicts: tuple[Conflict, ...]
    total: int
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFacts:
    """The facts of a bucket about its table: the properties that mixed rows mark, and ids of rows on which both sides agree.

    `agreed` is None when some rows agree in a part only, or when there are many.
    """

    table_key: TableKey
    properties: tuple[str, ...]
    agreed: tuple[str, ...] | None


def pair_table(
    tables: Tables, relation: TableRelation, row_cache: RowCache, seed: int
) -> tuple[VersionPair, ...]:
    """Pair the versions of a table that a merge compares."""
    base = None if relation.base is None else relation.base.at
    source, target = relation.source.at, relation.target.at
    match relation.way:
        case MergeStrategy.SAME:
            return ()
        case MergeStrategy.POINT | MergeStrategy.ADOPT:
            name = _name_pair(relation, SOURCE)
            return (pair_versions(tables, name, target, source, seed=seed, row_cache=row_cache),)
        case MergeStrategy.THREE_WAY:
            return _pair_three_ways(
                tuple(
                    pair_versions(
                        tables, _name_pair(relation, name), base, at, seed=seed, row_cache=row_cache
                    )
                    for name, at in ((SOURCE, source), (TARGET, target))
                )
            )
        case MergeStrategy.PUT_TOGETHER:
            pairs = (
                pair_versions(
                    tables, _name_pair(relation, str(number)), target, at, row_cache=row_cache
                )
                for number, at in enumerate(list_other_versions(relation))
            )
            return tuple(replace(pair, columns=None) for pair in pairs)


def _pair_three_ways(pairs: tuple[VersionPair, ...]) -> tuple[VersionPair, ...]:
    """Keep the columns if every version has the same ones, so that digests can be compared; else values are compared."""
    shapes = {pair.columns for pair in pairs}
    is_same = len(shapes) == 1 and all(
        column_pair.left == column_pair.right
        for pair in pairs
        for column_pair in pair.columns or ()
    )
    return pairs if is_same else tuple(replace(pair, columns=None) for pair in pairs)


def _name_pair(relation: TableRelation, name: str) -> str:
    """Name a pair apart from those of other tables in the same step."""
    return f"{relation.table_key}|{name}"


def compare_step(merges: Sequence["BucketMerge"], splits: Sequence[SideSplit]) -> Shuffle:
    """Read the sides of all tables and decide their rows, bucket by bucket."""
    return Shuffle(
        name="compare",
        splits=splits,
        keys=ReadSides(merges[0].spec),
        sides={name: pair.schema for merge in merges for name, pair in merge.sides.items()},
        decide=MergedTables(tuple(merges)),
        out=MESSAGES,
        rows=sum(split.rows for split in splits),
    )


@dataclass(frozen=True, slots=True)
class MergedTables:
    """Decides the rows of all tables whose ids are in one bucket."""

    merges: tuple["BucketMerge", ...]

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        for merge in self.merges:
            if any(sides[name].num_rows for name in merge.sides):
                yield from merge(sides)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketMerge:
    """Decides the rows of one table whose ids are in one bucket."""

    spec: LoadSpec
    relation: TableRelation
    node: Node
    granularity: Granularity
    pairs: tuple[VersionPair, ...]
    implied: tuple[str, ...] = ()
    """Columns that follow from the id."""
    names_all: bool = False
    """True if every conflict is described, not only the first of a bucket."""

    @property
    def sides(self) -> Mapping[str, VersionPair]:
        """The sides of the shuffle that hold its rows, each with the pair that it belongs to."""
        return {pair.name_side(side): pair for pair in self.pairs for side in (BEFORE, AFTER)}

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        store = self.spec.store()
        aligned = [AlignedPair(pair, sides) for pair in self.pairs]
        resolution = self._resolve(store.tables, aligned)
        yield encode(
            [
                *self._write(store, resolution.rows),
                *self._describe(store, resolution),
                self._tell_facts(resolution),
            ]
        )

    def _resolve(self, tables: Tables, aligned: Sequence[AlignedPair]) -> Resolution:
        relation, row_cache = (
            self.relation,
            RowCache(0, {self.relation.target.at.path: self.implied}),
        )
        source, target = relation.source.at, relation.target.at
        if relation.way is MergeStrategy.PUT_TOGETHER:
            moves = [pair.moves for pair in aligned]
            return merge_over(tables, self.node, relation, self.granularity, moves, row_cache)
        moves = aligned[0].find_changed(tables, row_cache).moves
        if relation.way is not MergeStrategy.THREE_WAY:
            return adopt_moves(target, source, moves)
        rows = AddressedRows(source=source, target=target)
        bucket = BucketSides(tables, relation, aligned[0], aligned[1])
        return resolve_moves(rows, moves, aligned[1].moves, bucket, self.granularity)

    def _write(self, store: Store, rows: AddressedRows) -> Iterator[ScratchSlice]:
        """Write the decided rows, sorted by the fragments in which they lie."""
        table, target = self.relation.table_key, store.tables.open(self.relation.target.at)
        changed = pa.table(
            [rows.changed["source"], rows.changed["target"], _read_row_ids(target, rows.changed)],
            names=rows.changed.column_names,
        )
        addresses = pa.concat_arrays([rows.replaced_at, rows.removed_at])
        written = {
            SliceKind.NEW: pa.table({"source": rows.new}),
            SliceKind.CHANGED: changed,
            SliceKind.MIXED: rows.mixed.select(["source", "id", "base", "target", "from_source"]),
            SliceKind.REMOVED: rows.removed.select(["target", "id"]),
            SliceKind.REPLACED: pa.table({ROW_ADDRESS: addresses}),
        }
        for kind, part in written.items():
            yield from write_slices(self.spec, store, kind, table, part)

    def _describe(self, store: Store, resolution: Resolution) -> Iterator[ConflictsFound]:
        for clash in resolution.clashes:
            listed_clash = clash if self.names_all else clash.take_first(CONFLICTS_SHOWN_MAX)
            conflicts = in_order(describe_clash(self.relation, listed_clash, store.tables))
            path = None
            if self.names_all:
                path = self.spec.write_scratch(store, "conflicts", pack_conflicts(conflicts))
            yield ConflictsFound(
                table_key=self.relation.table_key,
                conflicts=conflicts[:CONFLICTS_SHOWN_MAX],
                total=clash.rows.num_rows,
                path=path,
            )

    def _tell_facts(self, resolution: Resolution) -> BucketFacts:
        ids = resolution.agreed
        return BucketFacts(
            table_key=self.relation.table_key,
            properties=resolution.rows.properties,
            agreed=None if ids is None or len(ids) > AGREED_ROWS_MAX else tuple(ids.to_pylist()),
        )


def _read_row_ids(target: Table, changed: pa.Table) -> pa.Array:
    """Read the row ids of replaced rows; the manifest of the table has the ids that the comparison did not read."""
    row_ids = column(changed, "row_id")
    return row_ids if not row_ids.null_count else target.row_ids(column(changed, "target"))


class BucketSides:
    """The three versions as a bucket has them: by digests, or by value where columns have none."""

    def __init__(
        self, tables: Tables, relation: TableRelation, source: AlignedPair, target: AlignedPair
    ) -> None:
        base = None if relation.base is None else relation.base.at
        self._stored = StoredSides(tables, base, relation.source.at, relation.target.at)
        self._base = None if base is None else tables.open(base)
        self._table = tables.open(relation.target.at)
        self._tables, self._ours, self._theirs = tables, source, target

    def in_target(self, moves: pa.Table) -> pa.Array:
        """Find the addresses of base rows in the target.

        Rows whose fragment the target rewrote are found by id among the rows of the target.
        """
        rows = column(moves, "before")
        if self._base is None or rows.null_count == len(rows):
            return rows
        addresses = find_addresses_in(self._base, self._table, rows)
        positions = pc.index_in(column(moves, "id"), value_set=column(self._theirs.after, "id"))
        return pc.coalesce(addresses, column(self._theirs.after, "row").take(positions))

    def by_target(self) -> Comparison:
        """Base against target."""
        return self._compare(self._theirs, self._stored.by_target())

    def by_source(self) -> Comparison:
        """Base against source."""
        return self._compare(self._ours, self._stored.by_source())

    def across(self) -> Comparison:
        """Source against target."""
        pair = self._ours.pair
        if pair.columns is None:
            return self._stored.across()
        return DigestedRows(
            left=self._ours.after,
            right=self._theirs.after,
            digests=tuple(pair.digests),
            names=pair.names,
        )

    def _compare(self, aligned: AlignedPair, stored: Comparison) -> Comparison:
        return (
            stored if aligned.pair.columns is None else aligned.compare(self._tables, NO_ROW_CACHE)
        )
