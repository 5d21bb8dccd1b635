"""Per-key decisions: a bucket holds every row of its keys, so each rule is asked once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Columns, EdgeType, NodeType, TableType
from omnigraphdb.catalog.names import ROW_ADDRESS, ROW_ID
from omnigraphdb.commit.constraints import RowsAfterWrite
from omnigraphdb.commit.constraints.cardinality import edge_counts
from omnigraphdb.commit.constraints.endpoints import SIDES, check_end, list_incident_sides, orphans
from omnigraphdb.commit.constraints.keys import strict_inserts, unique_group
from omnigraphdb.commit.constraints.report import Violations
from omnigraphdb.commit.delta import NO_IDS, Deltas, TableDelta
from omnigraphdb.errors import Problem
from omnigraphdb.ids import TableKey
from omnigraphdb.pipeline.checks import (
    LoadSpec,
    check_values,
    delta_of,
    make_finding,
    spill_findings,
    write_slices,
)
from omnigraphdb.pipeline.findings import DUPLICATES
from omnigraphdb.pipeline.input.intake import find_duplicates, has_duplicates, keep_last
from omnigraphdb.pipeline.input.read import POSITION, with_ids
from omnigraphdb.pipeline.input.splits import CommittedSplit, Split
from omnigraphdb.pipeline.keys.create import list_ends, make_created_delta, make_missing_rows
from omnigraphdb.pipeline.keys.extract import Keys, RemovedSplit
from omnigraphdb.pipeline.keys.plan import FORMER, ID, UNIQUE, KeyPlan, KeySide, Origin
from omnigraphdb.pipeline.messages import (
    MESSAGES,
    CreatedNodes,
    EndpointsMissing,
    Finding,
    LocatedProblem,
    Message,
    Phase,
    SliceKind,
    encode,
)
from omnigraphdb.pipeline.runner import KEY, Shuffle
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store
from omnigraphdb.values import dataclass

STRICT, TUPLES, ENDPOINTS, STRANDED, COUNTS = 1, 2, 3, 4, 5
"""The order of rules in reports, after the rules about single values (0)."""


def decide_step(
    key_plan: KeyPlan,
    splits: Sequence[Split],
    committed: Sequence[CommittedSplit],
    removed: Sequence[RemovedSplit] = (),
) -> Shuffle:
    """Shuffle incoming and committed keys, then decide bucket by bucket."""
    return Shuffle(
        name="decide",
        splits=(*splits, *committed, *removed),
        keys=Keys(key_plan),
        sides=key_plan.schemas,
        decide=Decide(key_plan),
        out=MESSAGES,
        rows=key_plan.key_rows,
    )


@dataclass(frozen=True, slots=True)
class Decide:
    """Decides about every key of one bucket."""

    key_plan: KeyPlan

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        bucket = Bucket(self.key_plan, sides, self.key_plan.load.store())
        messages: list[Message] = []
        if self.key_plan.resolves_ids:
            messages += resolve_ids(bucket)
        if self.key_plan.checks_rules:
            messages += _check_rules(bucket)
        yield encode(spill_findings(bucket.load, bucket.store, messages))


# ---- the rows of a bucket


@dataclass(frozen=True, slots=True)
class Bucket:
    """The rows of a set of keys; for the rules it is the view of committed rows (`commit.constraints.CommittedRows`)."""

    key_plan: KeyPlan
    sides: Mapping[str, pa.Table]
    store: Store

    @property
    def load(self) -> LoadSpec:
        """The settings that every task of the load gets."""
        return self.key_plan.load

    def incoming(self, table: TableKey, role: str, group: int = 0) -> pa.Table:
        """Incoming rows of one side, under the column names of the table; empty when no rule needs them."""
        side = KeySide(Origin.INCOMING, table, role, group)
        if side.name not in self.sides:
            return _name_columns(side, self.key_plan.schema(side).empty_table())
        return _name_columns(side, self.sides[side.name])

    def committed(self, table: TableKey, role: str, group: int = 0) -> pa.Table | None:
        """Committed rows of one side; None when the join does not read them."""
        side = KeySide(Origin.COMMITTED, table, role, group)
        return _name_columns(side, self.sides[side.name]) if side.name in self.sides else None

    def removed(self, table: TableKey) -> pa.Array:
        """Return the ids of committed rows of a table that are removed and not replaced."""
        side = KeySide(Origin.REMOVED, table, ID)
        return column(self.sides[side.name], KEY) if side.name in self.sides else NO_IDS

    # ---- the questions of rules about committed rows

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Committed rows whose column holds one of the values."""
        if name == ID and "src" in columns:
            former = self.committed(table, FORMER)
            return self._no_rows(table, columns) if former is None else former.select(list(columns))
        rows = self._find_side(table, name, columns)
        if rows is None:
            return self._look_up(table, name, values, columns)
        return rows.filter(pc.is_in(rows[name], value_set=values)).select(list(columns))

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Return every committed row of this bucket under the endpoint among the columns."""
        side = next(name for name in ("src", "dst") if name in columns)
        rows = self.committed(table, side)
        return self._no_rows(table, columns) if rows is None else rows.select(list(columns))

    def _find_side(self, table: TableKey, name: str, columns: Sequence[str]) -> pa.Table | None:
        if name == ID or not set(columns) - {ID, name}:
            rows = self.committed(table, name)
            if rows is not None:
                return rows
        for group, constraint in enumerate(self.load.type(table).unique):
            if name == constraint.columns[0] and set(columns) == {ID, *constraint.columns}:
                return self.committed(table, UNIQUE, group)
        return None

    def _look_up(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        if not self.key_plan.committed_rows.get(table):
            return self._no_rows(table, columns)
        opened = self.store.tables.open(self.key_plan.pins[table])
        return opened.lookup(name, values, list(columns))

    def _no_rows(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        return self.load.type(table).schema.empty_table().select(list(columns))

    def find_by_id(self, table: TableKey, ids: pa.Array) -> pa.Table:
        """Committed rows with one of the ids, with their row ids and row addresses."""
        rows = self.committed(table, ID)
        if rows is not None:
            return rows.filter(pc.is_in(rows[ID], value_set=ids))
        if not self.key_plan.committed_rows.get(table):
            return pa.table({ID: ids.slice(0, 0), ROW_ID: _NO_NUMBERS, ROW_ADDRESS: _NO_NUMBERS})
        opened = self.store.tables.open(self.key_plan.pins[table])
        return opened.lookup(ID, ids, (ID,), row_id=True, row_address=True)


_NO_NUMBERS = pa.array([], pa.uint64())


def _name_columns(side: KeySide, rows: pa.Table) -> pa.Table:
    if side.role == UNIQUE:
        return rows.drop([KEY])
    name = "src" if side.role == FORMER else side.role
    return rows.rename_columns(
        [name if column_name == KEY else column_name for column_name in rows.column_names]
    )


# ---- ids


def resolve_ids(bucket: Bucket) -> Iterator[Message]:
    """Find duplicate ids, superseded rows, and rows that match committed ones."""
    for table in bucket.key_plan.unresolved:
        type_ = bucket.load.type(table)
        rows = bucket.incoming(table, ID)
        if not rows.num_rows:
            continue
        if has_duplicates(column(rows, ID)):
            keeps_last = keep_last(type_, bucket.load.kind_of(table))
            if not keeps_last:
                yield _refuse_duplicates(bucket, type_, rows)
            # Of refused duplicates the first counts for the other rules.
            positions = _find_superseded(rows, "max" if keeps_last else "min")
            yield from write_slices(
                bucket.load,
                bucket.store,
                SliceKind.SUPERSEDED,
                table,
                pa.table({POSITION: positions}),
            )
            rows = rows.filter(pc.invert(pc.is_in(rows[POSITION], value_set=positions)))
        if not bucket.key_plan.overwrites:
            yield from _match_committed(bucket, type_, rows)


def _refuse_duplicates(bucket: Bucket, type_: TableType, rows: pa.Table) -> Finding:
    duplicates = find_duplicates(column(rows, ID), column(rows, POSITION))
    described_duplicates = duplicates.slice(
        0, min(bucket.load.shown_max, duplicates.num_rows)
    ).to_pylist()
    return Finding(
        phase=Phase.IDS,
        order=(bucket.load.rank(type_.table_key), DUPLICATES),
        problems=tuple(
            LocatedProblem(
                problem=Problem(
                    rule="", message="", table_key=type_.table_key, row_id=duplicate["id"]
                ),
                position=duplicate["second"],
                duplicate_of=duplicate["first"],
            )
            for duplicate in described_duplicates
        ),
        total=duplicates.num_rows,
    )


def _find_superseded(rows: pa.Table, aggregation: str) -> pa.Array:
    """Find the positions of every row but the last (`max`) or the first (`min`) of its id."""
    groups = rows.group_by(ID, use_threads=False).aggregate([(POSITION, aggregation)])
    positions = column(rows, POSITION)
    successors = column(groups, f"{POSITION}_{aggregation}")
    return positions.filter(pc.invert(pc.is_in(positions, value_set=successors)))


def _match_committed(bucket: Bucket, type_: TableType, rows: pa.Table) -> Iterator[Message]:
    """Find rows whose id is committed: a merge replaces those rows, an append refuses them."""
    table = type_.table_key
    committed = bucket.find_by_id(table, column(rows, ID))
    if not committed.num_rows:
        return
    order = pc.index_in(rows[ID], value_set=column(committed, ID))
    order = column(pa.table({"o": order}), "o")
    matched = pa.table(
        {
            POSITION: rows[POSITION],
            ROW_ID: column(committed, ROW_ID).take(order),
            ROW_ADDRESS: column(committed, ROW_ADDRESS).take(order),
        }
    ).filter(order.is_valid())
    yield from write_slices(bucket.load, bucket.store, SliceKind.MATCHED, table, matched)
    yield from write_slices(
        bucket.load, bucket.store, SliceKind.REPLACED, table, committed.select([ROW_ADDRESS])
    )
    delta = _order_rows(bucket.load, type_, rows)
    violations = strict_inserts(Deltas({table: delta}), _final(bucket, {table: delta}))
    if violations:
        yield make_finding(violations, (STRICT, bucket.load.rank(table)))


# ---- rules about several rows


def _check_rules(bucket: Bucket) -> Iterator[Message]:
    key_plan = bucket.key_plan
    nodes = {node.table_key: _make_ids_delta(bucket, node) for node in key_plan.nodes()}
    created = _list_created(bucket, nodes)
    for table, rows in created.items():
        yield from _keep_created(bucket, table, rows)
    nodes |= {table: _add_ids(nodes.get(table), rows) for table, rows in created.items()}
    for table in key_plan.tables:
        yield from _check_unique(bucket, bucket.load.type(table))
    for edge in key_plan.edges():
        if edge.table_key not in key_plan.endpoints_found:
            check = _find_missing_endpoints if key_plan.compact_endpoints else _check_endpoints
            yield from check(bucket, edge, nodes)
        if not edge.cardinality.is_free:
            yield from _check_cardinality(bucket, edge, nodes)
    for node in key_plan.nodes():
        if key_plan.strands(node.table_key):
            yield from _check_stranded_edges(bucket, node, nodes)


def _list_created(
    bucket: Bucket, nodes: Mapping[TableKey, TableDelta]
) -> dict[TableKey, TableDelta]:
    """Make the nodes that edges of this bucket name and that the load is to create."""
    created_nodes: dict[TableKey, TableDelta] = {}
    final = _final(bucket, nodes)
    key_plan, load = bucket.key_plan, bucket.load
    edges = [edge for edge in key_plan.edges() if edge.table_key not in key_plan.endpoints_found]
    for table in sorted(load.creates):
        type_ = load.type(table)
        assert isinstance(type_, NodeType), "only nodes are created"
        ends = [
            column(bucket.incoming(edge.table_key, side), side)
            for edge in edges
            for side in list_ends(edge, type_)
        ]
        rows = make_missing_rows(type_, ends, final)
        if rows.num_rows:
            created_nodes[table] = make_created_delta(type_, rows, load.shown_max)
    return created_nodes


def _keep_created(bucket: Bucket, table: TableKey, delta: TableDelta) -> Iterator[Message]:
    """Write created rows to a scratch file, from which they are staged, and check their values."""
    load = bucket.load
    numbered = delta.rows.append_column(POSITION, pa.array([0] * len(delta.rows), pa.int64()))
    yield from check_values(load, delta.type, numbered)
    path = load.write_scratch(bucket.store, f"created-{load.rank(table)}", numbered)
    yield CreatedNodes(table, path, numbered.num_rows)


def _add_ids(before: TableDelta | None, created: TableDelta) -> TableDelta:
    ids = created.rows.select([ID])
    if before is None:
        return replace(created, rows=ids)
    return replace(before, rows=pa.concat_tables([before.rows, ids.cast(before.rows.schema)]))


def _make_ids_delta(bucket: Bucket, node: NodeType) -> TableDelta:
    return TableDelta(
        type=node,
        kind=bucket.load.kind_of(node.table_key),
        rows=bucket.incoming(node.table_key, ID).select([ID]),
        deleted=bucket.removed(node.table_key),
        shown_max=bucket.load.shown_max,
    )


def _final(bucket: Bucket, deltas: Mapping[TableKey, TableDelta]) -> RowsAfterWrite:
    return RowsAfterWrite(
        deltas=Deltas(MappingProxyType(dict(deltas))),
        committed=bucket,
        catalog=bucket.load.catalog,
    )


def _order_rows(load: LoadSpec, type_: TableType, rows: pa.Table) -> TableDelta:
    """Put rows in input order and give every row its id."""
    return delta_of(load, type_, with_ids(rows.sort_by(POSITION), load.seed))


def _apply_rule(
    load: LoadSpec,
    type_: TableType,
    rows: pa.Table,
    rule: Callable[[TableDelta], Violations],
    order: tuple[int, ...],
) -> Iterator[Finding]:
    """Ask a rule; rows are ordered, and fresh ids made, only when the rule is broken."""
    if rule(delta_of(load, type_, rows)):
        yield make_finding(rule(_order_rows(load, type_, rows)), order)


def _check_unique(bucket: Bucket, type_: TableType) -> Iterator[Finding]:
    rank = bucket.load.rank(type_.table_key)
    for index, group in enumerate(type_.unique):
        rows = bucket.incoming(type_.table_key, UNIQUE, index)
        if rows.num_rows:
            rule = partial(_ask_unique, bucket, group)
            yield from _apply_rule(bucket.load, type_, rows, rule, (TUPLES, rank, index))


def _ask_unique(bucket: Bucket, group: Columns, delta: TableDelta) -> Violations:
    return unique_group(delta, group, _final(bucket, {delta.type.table_key: delta}))


def _find_missing_endpoints(
    bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableDelta]
) -> Iterator[Message]:
    """Name the edge type when an endpoint is missing; a join of whole rows then says which edges name it."""
    final = _final(bucket, nodes)
    names = {"src": edge.source, "dst": edge.target}
    if any(
        len(final.missing_nodes(name, column(bucket.incoming(edge.table_key, side), side)))
        for side, name in names.items()
    ):
        yield EndpointsMissing(edge.table_key)


def _check_endpoints(
    bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableDelta]
) -> Iterator[Finding]:
    final = _final(bucket, nodes)
    for index, (side, word) in enumerate(SIDES):
        rows = bucket.incoming(edge.table_key, side)
        name = edge.source if side == "src" else edge.target
        missing = final.missing_nodes(name, column(rows, side))
        if len(missing):
            wrong = rows.filter(pc.is_in(rows[side], value_set=missing))
            delta = _order_rows(bucket.load, edge, wrong)
            violations = check_end(delta, edge, side, word, final)
            yield make_finding(violations, (ENDPOINTS, bucket.load.rank(edge.table_key), index))


def _check_cardinality(
    bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableDelta]
) -> Iterator[Finding]:
    rows = bucket.incoming(edge.table_key, "src")

    def rule(delta: TableDelta) -> Violations:
        return edge_counts(delta, edge, _final(bucket, {**nodes, edge.table_key: delta}))

    order = (COUNTS, bucket.load.rank(edge.table_key))
    yield from _apply_rule(bucket.load, edge, rows, rule, order)


def _check_stranded_edges(
    bucket: Bucket, node: NodeType, nodes: Mapping[TableKey, TableDelta]
) -> Iterator[Finding]:
    for index, (edge, side) in enumerate(list_incident_sides(node, bucket.load.catalog)):
        if bucket.key_plan.keeps_edges(edge.table_key):
            violations = orphans(nodes[node.table_key], edge, side, _final(bucket, nodes))
            if violations:
                order = (STRANDED, bucket.load.rank(node.table_key), index)
                yield make_finding(violations, order)
