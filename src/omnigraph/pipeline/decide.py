"""Per-key decisions: every row of a set of keys is there, so each rule can be asked once and for all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Columns, EdgeType, NodeType, TableType
from omnigraph.commit.changes import Changes, TableChange, column
from omnigraph.commit.constraints import Final
from omnigraph.commit.constraints.cardinality import edge_counts
from omnigraph.commit.constraints.endpoints import SIDES, incident_sides, one_end, orphans
from omnigraph.commit.constraints.keys import strict_inserts, unique_group
from omnigraph.commit.constraints.report import Violations
from omnigraph.errors import Problem
from omnigraph.ids import TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.pipeline.answers import (
    ANSWERS,
    Answer,
    Found,
    Phase,
    Piece,
    PieceKind,
    Placed,
    told,
)
from omnigraph.pipeline.checks import Job, change_of, ruled
from omnigraph.pipeline.findings import TWINS
from omnigraph.pipeline.intake import last_wins, twins_of
from omnigraph.pipeline.reading import POSITION, positions_in, split_rows, with_ids, without
from omnigraph.pipeline.sides import FORMER, ID, UNIQUE, Judgement, Side, tuple_keys
from omnigraph.pipeline.splits import HeldSplit, Split, splits_of
from omnigraph.pipeline.steps import KEY, Shuffle
from omnigraph.storage.search import ROW_ID
from omnigraph.storage.store import Store
from omnigraph.storage.table import ROW_ADDRESS

STRICT, TUPLES, ENDS, STRANDED, COUNTS = 1, 2, 3, 4, 5
"""Where rules stand in reports, after those about single values."""


def decide_step(
    judgement: Judgement, splits: Sequence[Split], held: Sequence[HeldSplit]
) -> Shuffle:
    """Bring keys together and decide."""
    return Shuffle(
        name="decide",
        splits=(*splits, *held),
        keys=Keys(judgement),
        sides=judgement.schemas,
        decide=Decide(judgement),
        out=ANSWERS,
    )


# ---- split → keys


@dataclass(frozen=True, slots=True)
class Keys:
    """Reads the narrow columns of a split and hands them out under their keys."""

    judgement: Judgement

    def __call__(self, split: Split | HeldSplit) -> Iterator[tuple[str, pa.Table]]:
        store = self.judgement.job.store()
        rows = (
            self._incoming(split, store)
            if isinstance(split, Split)
            else self._committed(split, store)
        )
        for side, table in rows:
            keyed = _keyed(side, self.judgement.job.type(side.table_key), table)
            schema = self.judgement.schemas[side.name]
            yield side.name, keyed.select(schema.names).cast(schema)

    def _incoming(self, split: Split, store: Store) -> Iterator[tuple[Side, pa.Table]]:
        assert split.table_key is not None, "rows that are told apart have a type"
        table = split.table_key
        type_ = self.judgement.job.type(table)
        sides = [side for side in self.judgement.put if side.table_key == table]
        rows = split_rows(split, type_, _needed(sides, type_), store)
        rows = without(rows, self.judgement.losers.get((table, split.number), ()), store)
        for side in sides:
            yield side, rows

    def _committed(self, split: HeldSplit, store: Store) -> Iterator[tuple[Side, pa.Table]]:
        judgement = self.judgement
        type_ = judgement.job.type(split.table_key)
        sides = [side for side in judgement.gathered if side.table_key == split.table_key]
        rows = store.tables.open(split.at).read(
            ["id", *_needed(sides, type_)],
            fragments=split.fragments,
            row_id=judgement.identifies,
            row_address=True,
        )
        pieces = [
            piece
            for fragment in split.fragments
            for piece in judgement.replaced.get((split.table_key, fragment), ())
        ]
        gone = rows.slice(0, 0)
        kept = rows
        if pieces:
            replaced = pc.is_in(
                rows[ROW_ADDRESS], value_set=column(positions_in(pieces, store), ROW_ADDRESS)
            )
            gone, kept = rows.filter(replaced), rows.filter(pc.invert(replaced))
        for side in sides:
            if side.role == FORMER:
                yield side, gone
            else:
                # An id that is replaced is still there for the edges that name it.
                yield side, rows if side.role == ID else kept


def _needed(sides: Sequence[Side], type_: TableType) -> list[str]:
    """The columns beside `id` that sides are made of."""
    names: dict[str, None] = {}
    for side in sides:
        if side.role in ("src", "dst"):
            names[side.role] = None
        elif side.role == FORMER:
            names["src"] = None
        elif side.role == UNIQUE:
            names |= dict.fromkeys(type_.unique[side.group].columns)
    return list(names)


def _keyed(side: Side, type_: TableType, rows: pa.Table) -> pa.Table:
    """Rows under the key of a side; those without one take no part."""
    if side.role == UNIQUE:
        keys = tuple_keys(rows, type_.unique[side.group].columns)
    else:
        keys = column(rows, "src" if side.role == FORMER else side.role)
    keyed = rows.append_column(KEY, keys)
    return keyed.filter(keys.is_valid()) if keys.null_count else keyed


# ---- keys → decisions


@dataclass(frozen=True, slots=True)
class Decide:
    """Decides about every key of one bucket."""

    judgement: Judgement

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        bucket = Bucket(self.judgement, sides, self.judgement.job.store())
        answers: list[Answer] = []
        if self.judgement.identifies:
            answers += _identified(bucket)
        if self.judgement.judges:
            answers += _judged(bucket)
        yield told(answers)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of a set of keys; it answers what rules ask about committed rows."""

    judgement: Judgement
    sides: Mapping[str, pa.Table]
    store: Store

    @property
    def job(self) -> Job:
        """What the load is about."""
        return self.judgement.job

    def put(self, table: TableKey, role: str, group: int = 0) -> pa.Table:
        """Incoming rows under one kind of key, named as the table names its columns."""
        return self._named(Side("put", table, role, group))

    def held(self, table: TableKey, role: str, group: int = 0) -> pa.Table | None:
        """Committed rows under one kind of key; None when they were not brought here."""
        side = Side("held", table, role, group)
        return self._named(side) if side.name in self.sides else None

    def _named(self, side: Side) -> pa.Table:
        rows = self.sides[side.name]
        if side.role == UNIQUE:
            return rows.drop([KEY])
        name = "src" if side.role == FORMER else side.role
        return rows.rename_columns([name if one == KEY else one for one in rows.column_names])

    # ---- as rules see what is committed

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Rows whose column holds one of the values."""
        if name == "id" and "src" in columns:
            former = self.held(table, FORMER)
            return self._nothing(table, columns) if former is None else former.select(list(columns))
        rows = self._brought(table, name, columns)
        if rows is None:
            return self._looked_up(table, name, values, columns)
        return rows.filter(pc.is_in(rows[name], value_set=values)).select(list(columns))

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Every row of this bucket under the end that is asked for."""
        side = next(name for name in ("src", "dst") if name in columns)
        rows = self.held(table, side)
        return self._nothing(table, columns) if rows is None else rows.select(list(columns))

    def _brought(self, table: TableKey, name: str, columns: Sequence[str]) -> pa.Table | None:
        if name == "id" or not set(columns) - {"id", name}:
            found = self.held(table, name)
            if found is not None:
                return found
        for group, one in enumerate(self.job.type(table).unique):
            if name == one.columns[0] and set(columns) == {"id", *one.columns}:
                return self.held(table, UNIQUE, group)
        return None

    def _looked_up(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        if not self.judgement.held.get(table):
            return self._nothing(table, columns)
        opened = self.store.tables.open(self.judgement.pins[table])
        return opened.lookup(name, values, list(columns))

    def _nothing(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        return self.job.type(table).schema.empty_table().select(list(columns))

    def addressed(self, table: TableKey, ids: pa.Array) -> pa.Table:
        """Committed rows with one of the ids, and where they are."""
        brought = self.held(table, ID)
        if brought is not None:
            return brought.filter(pc.is_in(brought["id"], value_set=ids))
        if not self.judgement.held.get(table):
            return pa.table({"id": ids.slice(0, 0), ROW_ID: _NO_NUMBERS, ROW_ADDRESS: _NO_NUMBERS})
        opened = self.store.tables.open(self.judgement.pins[table])
        return opened.lookup("id", ids, ("id",), row_id=True, row_address=True)


_NO_NUMBERS = pa.array([], pa.uint64())


# ---- who is who


def _identified(bucket: Bucket) -> Iterator[Answer]:
    for table in bucket.judgement.tables:
        type_ = bucket.job.type(table)
        rows = bucket.put(table, ID)
        if not rows.num_rows:
            continue
        if pc.count_distinct(rows["id"]).as_py() != rows.num_rows:
            if not last_wins(type_, bucket.job.kind_of(table)):
                yield _twins(bucket, type_, rows)
                continue
            positions = _losers(rows)
            yield from _pieces(bucket, PieceKind.LOSERS, table, pa.table({POSITION: positions}))
            rows = rows.filter(pc.invert(pc.is_in(rows[POSITION], value_set=positions)))
        if not bucket.judgement.replaces:
            yield from _met(bucket, type_, rows)


def _twins(bucket: Bucket, type_: TableType, rows: pa.Table) -> Found:
    twins = twins_of(column(rows, "id"), column(rows, POSITION))
    shown = twins.slice(0, PROBLEMS_SHOWN_MAX).to_pylist()
    return Found(
        phase=Phase.IDS,
        order=(bucket.job.rank(type_.table_key), TWINS),
        problems=tuple(
            Placed(
                problem=Problem(rule="", message="", table_key=type_.table_key, row_id=one["id"]),
                position=one["second"],
                twin=one["first"],
            )
            for one in shown
        ),
        total=twins.num_rows,
    )


def _losers(rows: pa.Table) -> pa.Array:
    """Positions of every row but the last of its id."""
    last = rows.group_by("id", use_threads=False).aggregate([(POSITION, "max")])
    positions = column(rows, POSITION)
    winners = column(last, f"{POSITION}_max")
    return positions.filter(pc.invert(pc.is_in(positions, value_set=winners)))


def _met(bucket: Bucket, type_: TableType, rows: pa.Table) -> Iterator[Answer]:
    """Rows whose id is there already: an append must not bring any, a merge replaces them."""
    table = type_.table_key
    held = bucket.addressed(table, column(rows, "id"))
    if not held.num_rows:
        return
    order = pc.index_in(rows["id"], value_set=column(held, "id"))
    matched = rows.append_column(
        ROW_ID, column(held, ROW_ID).take(column(pa.table({"o": order}), "o"))
    )
    matched = matched.filter(pc.is_valid(matched[ROW_ID]))
    yield from _pieces(bucket, PieceKind.MATCHED, table, matched.select([POSITION, ROW_ID]))
    yield from _pieces(bucket, PieceKind.REPLACED, table, held.select([ROW_ADDRESS]))
    change = _sorted(bucket.job, type_, rows)
    found = strict_inserts(Changes({table: change}), _final(bucket, {table: change}))
    if found:
        yield ruled(found, (STRICT, bucket.job.rank(table)))


def _pieces(bucket: Bucket, kind: PieceKind, table: TableKey, rows: pa.Table) -> Iterator[Piece]:
    """Keep rows in a scratch file, sorted by the split or fragment they belong to."""
    name = rows.column_names[0]
    rows = rows.sort_by(name)
    numbers = rows[name].to_numpy()
    parts = (numbers >> np.uint64(32)) if kind is PieceKind.REPLACED else splits_of(numbers)
    path = bucket.job.keep(bucket.store, f"{kind.name.lower()}-{bucket.job.rank(table)}", rows)
    found, starts, counts = np.unique(parts, return_index=True, return_counts=True)
    for part, start, count in zip(found.tolist(), starts.tolist(), counts.tolist(), strict=True):
        yield Piece(kind=kind, table_key=table, part=part, path=path, start=start, rows=count)


# ---- rules about several rows


def _judged(bucket: Bucket) -> Iterator[Answer]:
    nodes = {node.table_key: _ids_change(bucket, node) for node in bucket.judgement.nodes()}
    for table in bucket.judgement.tables:
        yield from _unique(bucket, bucket.job.type(table))
    for edge in bucket.judgement.edges():
        yield from _ends(bucket, edge, nodes)
        if not edge.cardinality.is_free:
            yield from _counted(bucket, edge, nodes)
    if bucket.judgement.replaces:
        for node in bucket.judgement.nodes():
            yield from _stranded(bucket, node, nodes)


def _ids_change(bucket: Bucket, node: NodeType) -> TableChange:
    return TableChange(
        type=node, kind=bucket.job.kind_of(node.table_key), rows=bucket.put(node.table_key, ID).select(["id"])
    )


def _final(bucket: Bucket, changes: Mapping[TableKey, TableChange]) -> Final:
    return Final(
        changes=Changes(MappingProxyType(dict(changes))),
        committed=bucket,
        catalog=bucket.job.catalog,
    )


def _sorted(job: Job, type_: TableType, rows: pa.Table) -> TableChange:
    """Rows in the order they were given, every one with its id."""
    return change_of(job, type_, with_ids(rows.sort_by(POSITION), job.seed))


def _told(
    job: Job,
    type_: TableType,
    rows: pa.Table,
    rule: Callable[[TableChange], Violations],
    order: tuple[int, ...],
) -> Iterator[Found]:
    """Ask a rule; rows are put in order, and fresh ids made, only when it has something to say."""
    if rule(change_of(job, type_, rows)):
        yield ruled(rule(_sorted(job, type_, rows)), order)


def _unique(bucket: Bucket, type_: TableType) -> Iterator[Found]:
    rank = bucket.job.rank(type_.table_key)
    for place, group in enumerate(type_.unique):
        rows = bucket.put(type_.table_key, UNIQUE, place)
        if rows.num_rows:
            rule = partial(_unique_rule, bucket, group)
            yield from _told(bucket.job, type_, rows, rule, (TUPLES, rank, place))


def _unique_rule(bucket: Bucket, group: Columns, change: TableChange) -> Violations:
    return unique_group(change, group, _final(bucket, {change.type.table_key: change}))


def _ends(bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableChange]) -> Iterator[Found]:
    final = _final(bucket, nodes)
    for place, (side, word) in enumerate(SIDES):
        rows = bucket.put(edge.table_key, side)
        name = edge.source if side == "src" else edge.target
        missing = final.missing_nodes(name, column(rows, side))
        if len(missing):
            lost = rows.filter(pc.is_in(rows[side], value_set=missing))
            change = _sorted(bucket.job, edge, lost)
            found = one_end(change, edge, side, word, final)
            yield ruled(found, (ENDS, bucket.job.rank(edge.table_key), place))


def _counted(
    bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableChange]
) -> Iterator[Found]:
    rows = bucket.put(edge.table_key, "src")

    def rule(change: TableChange) -> Violations:
        return edge_counts(change, edge, _final(bucket, {**nodes, edge.table_key: change}))

    order = (COUNTS, bucket.job.rank(edge.table_key))
    yield from _told(bucket.job, edge, rows, rule, order)


def _stranded(
    bucket: Bucket, node: NodeType, nodes: Mapping[TableKey, TableChange]
) -> Iterator[Found]:
    for place, (edge, side) in enumerate(incident_sides(node, bucket.job.catalog)):
        if edge.table_key not in bucket.judgement.rows:
            found = orphans(nodes[node.table_key], edge, side, _final(bucket, nodes))
            if found:
                order = (STRANDED, bucket.job.rank(node.table_key), place)
                yield ruled(found, order)
