"""Per-key decisions: every row of a set of keys is there, so each rule can be asked once and for all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Columns, EdgeType, NodeType, TableType
from omnigraph.commit.constraints import Final
from omnigraph.commit.constraints.cardinality import edge_counts
from omnigraph.commit.constraints.endpoints import SIDES, check_end, list_incident_sides, orphans
from omnigraph.commit.constraints.keys import strict_inserts, unique_group
from omnigraph.commit.constraints.report import Violations
from omnigraph.commit.delta import Deltas, TableDelta
from omnigraph.errors import Problem
from omnigraph.ids import TableKey
from omnigraph.limits import PROBLEMS_SHOWN_MAX
from omnigraph.pipeline.checks import Job, change_of, make_finding
from omnigraph.pipeline.findings import DUPLICATES
from omnigraph.pipeline.input.intake import find_duplicates, has_duplicates, keep_last
from omnigraph.pipeline.input.read import POSITION, with_ids
from omnigraph.pipeline.input.splits import CommittedSplit, Split, splits_of
from omnigraph.pipeline.keys.bucket import Bucket
from omnigraph.pipeline.keys.extract import Keys
from omnigraph.pipeline.keys.plan import ID, UNIQUE, KeyPlan
from omnigraph.pipeline.messages import (
    ANSWERS,
    Found,
    Message,
    Phase,
    Piece,
    PieceKind,
    Placed,
    encode,
)
from omnigraph.pipeline.runner import Shuffle
from omnigraph.storage.arrow import column
from omnigraph.storage.lance.search import ROW_ID
from omnigraph.storage.lance.table import ROW_ADDRESS
from omnigraph.values import dataclass

STRICT, TUPLES, ENDS, STRANDED, COUNTS = 1, 2, 3, 4, 5
"""Where rules stand in reports, after those about single values."""


def decide_step(
    key_plan: KeyPlan, splits: Sequence[Split], held: Sequence[CommittedSplit]
) -> Shuffle:
    """Bring keys together and decide."""
    return Shuffle(
        name="decide",
        splits=(*splits, *held),
        keys=Keys(key_plan),
        sides=key_plan.schemas,
        decide=Decide(key_plan),
        out=ANSWERS,
    )


@dataclass(frozen=True, slots=True)
class Decide:
    """Decides about every key of one bucket."""

    key_plan: KeyPlan

    def __call__(self, sides: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
        bucket = Bucket(self.key_plan, sides, self.key_plan.job.store())
        answers: list[Message] = []
        if self.key_plan.identifies:
            answers += resolve_ids(bucket)
        if self.key_plan.judges:
            answers += _check_rules(bucket)
        yield encode(answers)


# ---- who is who


def resolve_ids(bucket: Bucket) -> Iterator[Message]:
    """Tell ids that are there twice, those that lose, and rows that replace others."""
    for table in bucket.key_plan.meeting:
        type_ = bucket.job.type(table)
        rows = bucket.put(table, ID)
        if not rows.num_rows:
            continue
        if has_duplicates(column(rows, "id")):
            if not keep_last(type_, bucket.job.kind_of(table)):
                yield _find_duplicates(bucket, type_, rows)
                continue
            positions = _find_superseded(rows)
            yield from _pieces(bucket, PieceKind.SUPERSEDED, table, pa.table({POSITION: positions}))
            rows = rows.filter(pc.invert(pc.is_in(rows[POSITION], value_set=positions)))
        if not bucket.key_plan.replaces:
            yield from _find_existing(bucket, type_, rows)


def _find_duplicates(bucket: Bucket, type_: TableType, rows: pa.Table) -> Found:
    duplicates = find_duplicates(column(rows, "id"), column(rows, POSITION))
    shown = duplicates.slice(0, PROBLEMS_SHOWN_MAX).to_pylist()
    return Found(
        phase=Phase.IDS,
        order=(bucket.job.rank(type_.table_key), DUPLICATES),
        problems=tuple(
            Placed(
                problem=Problem(rule="", message="", table_key=type_.table_key, row_id=one["id"]),
                position=one["second"],
                twin=one["first"],
            )
            for one in shown
        ),
        total=duplicates.num_rows,
    )


def _find_superseded(rows: pa.Table) -> pa.Array:
    """Positions of every row but the last of its id."""
    last = rows.group_by("id", use_threads=False).aggregate([(POSITION, "max")])
    positions = column(rows, POSITION)
    winners = column(last, f"{POSITION}_max")
    return positions.filter(pc.invert(pc.is_in(positions, value_set=winners)))


def _find_existing(bucket: Bucket, type_: TableType, rows: pa.Table) -> Iterator[Message]:
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
    change = _order_rows(bucket.job, type_, rows)
    found = strict_inserts(Deltas({table: change}), _final(bucket, {table: change}))
    if found:
        yield make_finding(found, (STRICT, bucket.job.rank(table)))


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


def _check_rules(bucket: Bucket) -> Iterator[Message]:
    nodes = {node.table_key: _ids_change(bucket, node) for node in bucket.key_plan.nodes()}
    for table in bucket.key_plan.tables:
        yield from _unique(bucket, bucket.job.type(table))
    for edge in bucket.key_plan.edges():
        if edge.table_key not in bucket.key_plan.sure:
            yield from _ends(bucket, edge, nodes)
        if not edge.cardinality.is_free:
            yield from _check_cardinality(bucket, edge, nodes)
    if bucket.key_plan.replaces:
        for node in bucket.key_plan.nodes():
            yield from _check_stranded_edges(bucket, node, nodes)


def _ids_change(bucket: Bucket, node: NodeType) -> TableDelta:
    return TableDelta(
        type=node,
        kind=bucket.job.kind_of(node.table_key),
        rows=bucket.put(node.table_key, ID).select(["id"]),
    )


def _final(bucket: Bucket, deltas: Mapping[TableKey, TableDelta]) -> Final:
    return Final(
        deltas=Deltas(MappingProxyType(dict(deltas))),
        committed=bucket,
        catalog=bucket.job.catalog,
    )


def _order_rows(job: Job, type_: TableType, rows: pa.Table) -> TableDelta:
    """Rows in the order they were given, every one with its id."""
    return change_of(job, type_, with_ids(rows.sort_by(POSITION), job.seed))


def _apply_rule(
    job: Job,
    type_: TableType,
    rows: pa.Table,
    rule: Callable[[TableDelta], Violations],
    order: tuple[int, ...],
) -> Iterator[Found]:
    """Ask a rule; rows are put in order, and fresh ids made, only when it has something to say."""
    if rule(change_of(job, type_, rows)):
        yield make_finding(rule(_order_rows(job, type_, rows)), order)


def _unique(bucket: Bucket, type_: TableType) -> Iterator[Found]:
    rank = bucket.job.rank(type_.table_key)
    for place, group in enumerate(type_.unique):
        rows = bucket.put(type_.table_key, UNIQUE, place)
        if rows.num_rows:
            rule = partial(_unique_rule, bucket, group)
            yield from _apply_rule(bucket.job, type_, rows, rule, (TUPLES, rank, place))


def _unique_rule(bucket: Bucket, group: Columns, change: TableDelta) -> Violations:
    return unique_group(change, group, _final(bucket, {change.type.table_key: change}))


def _ends(bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableDelta]) -> Iterator[Found]:
    final = _final(bucket, nodes)
    for place, (side, word) in enumerate(SIDES):
        rows = bucket.put(edge.table_key, side)
        name = edge.source if side == "src" else edge.target
        missing = final.missing_nodes(name, column(rows, side))
        if len(missing):
            lost = rows.filter(pc.is_in(rows[side], value_set=missing))
            change = _order_rows(bucket.job, edge, lost)
            found = check_end(change, edge, side, word, final)
            yield make_finding(found, (ENDS, bucket.job.rank(edge.table_key), place))


def _check_cardinality(
    bucket: Bucket, edge: EdgeType, nodes: Mapping[TableKey, TableDelta]
) -> Iterator[Found]:
    rows = bucket.put(edge.table_key, "src")

    def rule(change: TableDelta) -> Violations:
        return edge_counts(change, edge, _final(bucket, {**nodes, edge.table_key: change}))

    order = (COUNTS, bucket.job.rank(edge.table_key))
    yield from _apply_rule(bucket.job, edge, rows, rule, order)


def _check_stranded_edges(
    bucket: Bucket, node: NodeType, nodes: Mapping[TableKey, TableDelta]
) -> Iterator[Found]:
    for place, (edge, side) in enumerate(list_incident_sides(node, bucket.job.catalog)):
        if edge.table_key not in bucket.key_plan.rows:
            found = orphans(nodes[node.table_key], edge, side, _final(bucket, nodes))
            if found:
                order = (STRANDED, bucket.job.rank(node.table_key), place)
                yield make_finding(found, order)
