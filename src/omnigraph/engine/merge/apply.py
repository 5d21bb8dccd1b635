"""The commits that bring one table to its merged state: new rows streamed, changed ones in chunks, then deletes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.commit.changes import ChangeKind, TableChange, column
from omnigraph.commit.plan import Step, TableWrite
from omnigraph.engine.compare.fetch import chunk_rows, row_ids_at, rows_at, stream_at
from omnigraph.engine.compare.rows import compared
from omnigraph.engine.merge.relate import TableRelation, Way
from omnigraph.engine.merge.resolve import Resolved
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName
from omnigraph.limits import MERGE_COMMITS_MAX
from omnigraph.storage.blobs import BlobForm
from omnigraph.storage.counters import Cost, record
from omnigraph.storage.tables import Staged, Table, TableAt, Tables

EVERY_PROBLEM = 2**62
"""A merge reports all conflicts at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """One table of a merge: how its sides relate and what is decided."""

    type: TableType
    relation: TableRelation
    resolved: Resolved


# ---- what is judged


def change_of(merge: TableMerge, tables: Tables) -> TableChange:
    """What the merge does to the target's table, with the columns that rules look at."""
    resolved, type_ = merge.resolved, merge.type
    names = _judged(type_)
    source = tables.open(merge.relation.source.at)
    rows = pa.concat_arrays([resolved.new, column(resolved.changed, "source")])
    parts = [pa.Table.from_batches([batch]) for batch in stream_at(source, rows, names)]
    parts += [pa.Table.from_batches([b]).select(names) for b in _mixed_rows(merge, tables, names)]
    found = pa.concat_tables(parts) if parts else type_.schema.empty_table().select(names)
    return TableChange(
        type=type_,
        kind=ChangeKind.MERGE,
        rows=_stood_in(found, type_),
        deleted=column(resolved.removed, "id"),
        shown_max=EVERY_PROBLEM,
    )


def _judged(type_: TableType) -> list[str]:
    ends = ["src", "dst"] if isinstance(type_, EdgeType) else []
    ruled = {name for group in type_.unique for name in group.columns}
    if isinstance(type_, NodeType):
        ruled |= {rule.property for rule in type_.ranges} | {c.property for c in type_.checks}
    properties = type_.properties
    ruled |= {n for n, p in properties.items() if p.type.is_enum or not p.type.nullable}
    narrow = {n for n in ruled if n in properties and not _is_wide(type_, n)}
    return ["id", *ends, *sorted(narrow)]


def _is_wide(type_: TableType, name: str) -> bool:
    declared = type_.properties[name].type
    return declared.is_vector or declared.is_blob


def _stood_in(rows: pa.Table, type_: TableType) -> pa.Table:
    """Add stand-ins for required vectors and blobs: storage refuses a NULL there, so none was written."""
    for name, declared in sorted(type_.properties.items()):
        if not declared.type.nullable and _is_wide(type_, name):
            rows = rows.append_column(name, pa.array(np.ones(rows.num_rows, dtype=bool)))
    return rows


# ---- what is written


def table_write(merge: TableMerge, tables: Tables, branch: BranchName) -> TableWrite:
    """Stage the first commit now when the target owns the table, the others when their turn comes."""
    relation = merge.relation
    steps = tuple(_steps(merge, tables))
    fork = relation.fork(branch)
    if fork is not None:
        return TableWrite(
            table_key=relation.table_key,
            base=relation.target.at,
            strict=True,
            steps=steps,
            fork=fork,
        )
    return TableWrite(
        table_key=relation.table_key,
        base=relation.target.at,
        strict=True,
        staged=steps[0](tables, relation.target.at),
        steps=steps[1:],
    )


def _steps(merge: TableMerge, tables: Tables) -> Iterator[Step]:
    resolved = merge.resolved
    source = tables.open(merge.relation.source.at)
    names = merge.type.schema.names
    if len(resolved.new):
        yield _append(source, resolved.new, names)
    first = True
    for pairs in _chunks(resolved.changed, source):
        yield _upsert(merge, source, pairs, names, first=first and bool(len(resolved.new)))
        first = False
    for triples in _chunks(resolved.mixed, source):
        yield _mix(merge, triples, names)
    if resolved.removed.num_rows:
        yield _delete(merge, after_others=not first or bool(len(resolved.new)))


def _append(source: Table, rows: pa.Array, names: Sequence[str]) -> Step:
    def step(tables: Tables, at: TableAt) -> Staged:
        return tables.stage_append(at, _stream(stream_at(source, rows, names)))

    return step


def _stream(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    head = next(batches)

    def all_of_them() -> Iterator[pa.RecordBatch]:
        yield head
        yield from batches

    return pa.RecordBatchReader.from_batches(head.schema, all_of_them())


def _upsert(
    merge: TableMerge, source: Table, pairs: pa.Table, names: Sequence[str], *, first: bool
) -> Step:
    def step(tables: Tables, at: TableAt) -> Staged:
        if first and merge.relation.way is not Way.THREE_WAY:
            fail(Failpoint.MERGE_APPENDED)
        rows = rows_at(source, column(pairs, "source"), names, BlobForm.INPUT)
        return _replaced(tables, at, rows, column(pairs, "target"))

    return step


def _mix(merge: TableMerge, triples: pa.Table, names: Sequence[str]) -> Step:
    def step(tables: Tables, at: TableAt) -> Staged:
        rows = _mixed(merge, tables, triples, names)
        return _replaced(tables, at, rows, column(triples, "target"))

    return step


def _replaced(tables: Tables, at: TableAt, rows: pa.Table, places: pa.Array) -> Staged:
    """Stage rows in the place of others; where those lie is known unless the target was rewritten meanwhile."""
    record(Cost.DELTA_MATERIALISATIONS)
    if places.null_count:
        return tables.stage_merge(at, rows)
    row_ids = row_ids_at(tables.open(at), places)
    # By row id, so that the ids take little room in the manifest.
    order = pc.sort_indices(row_ids)
    written = tables.write(at, rows.take(order), row_ids=row_ids.take(order))
    return tables.stage_update(at, [written], places)


def _delete(merge: TableMerge, *, after_others: bool) -> Step:
    adopting = merge.relation.way is not Way.THREE_WAY

    def step(tables: Tables, at: TableAt) -> Staged | None:
        if after_others:
            fail(Failpoint.MERGE_UPSERTED if adopting else Failpoint.MERGE_REWRITTEN)
        removed = merge.resolved.removed
        places = column(removed, "target")
        known = None if places.null_count else places
        return tables.stage_delete(at, column(removed, "id"), addresses=known)

    return step


def _chunks(rows: pa.Table, table: Table) -> Iterator[pa.Table]:
    step = _step_rows(rows.num_rows, table)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _step_rows(rows: int, table: Table) -> int:
    return max(chunk_rows(table.schema), -(-rows // MERGE_COMMITS_MAX))


# ---- rows of both sides


def _mixed_rows(
    merge: TableMerge, tables: Tables, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    source = tables.open(merge.relation.source.at)
    for triples in _chunks(merge.resolved.mixed, source):
        yield from _mixed(merge, tables, triples, names).to_batches()


def _mixed(merge: TableMerge, tables: Tables, triples: pa.Table, names: Sequence[str]) -> pa.Table:
    """Take every property from the side that changed it; the target's where neither or both did."""
    relation = merge.relation
    assert relation.base is not None, "rows are mixed only where there was a base"
    base, source, target = (
        tables.open(entry.at) for entry in (relation.base, relation.source, relation.target)
    )
    both = compared(base, source)
    ours = both.matrix(column(triples, "base"), column(triples, "source"))
    left = rows_at(source, column(triples, "source"), names, BlobForm.INPUT)
    right = rows_at(target, column(triples, "target"), names, BlobForm.INPUT)
    changed = dict(zip(both.names, ours.T, strict=True))
    count = triples.num_rows
    columns = []
    for name in left.column_names:
        mine = changed.get(name, np.zeros(count, dtype=bool))
        picked = pa.array(np.where(mine, np.arange(count), count + np.arange(count)))
        columns.append(pa.concat_arrays([column(left, name), column(right, name)]).take(picked))
    return pa.table(columns, schema=left.schema)
