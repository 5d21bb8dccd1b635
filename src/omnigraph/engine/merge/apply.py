"""The commits that bring one table to its merged state: new rows streamed, then changed ones in chunks; removed ones
go with the last of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.commit.changes import ChangeKind, TableChange, column
from omnigraph.commit.plan import Step, TableWrite
from omnigraph.engine.compare.fetch import chunk_rows, row_ids_at, rows_at
from omnigraph.engine.compare.rows import compared
from omnigraph.engine.compare.shelf import NO_SHELF, Shelf
from omnigraph.engine.merge.relate import TableRelation, Way
from omnigraph.engine.merge.resolve import REMOVED, Resolved
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName
from omnigraph.limits import MERGE_COMMITS_MAX
from omnigraph.storage.blobs import BlobForm
from omnigraph.storage.counters import Cost, record
from omnigraph.storage.tables import Staged, Table, TableAt, Tables

EVERY_PROBLEM = 2**62
"""A merge reports all conflicts at once."""

_NONE_REMOVED = REMOVED.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """One table of a merge: how its sides relate and what is decided."""

    type: TableType
    relation: TableRelation
    resolved: Resolved
    shelf: Shelf = NO_SHELF


# ---- what is judged


def change_of(merge: TableMerge, tables: Tables) -> TableChange:
    """What the merge does to the target's table, with the columns that rules look at."""
    resolved, type_ = merge.resolved, merge.type
    names = _judged(type_)
    source = tables.open(merge.relation.source.at)
    rows = pa.concat_arrays([resolved.new, column(resolved.changed, "source")])
    parts = [pa.Table.from_batches([batch]) for batch in merge.shelf.stream(source, rows, names)]
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
    appended = bool(len(resolved.new))
    if appended:
        yield _append(merge, source, names)
    replacing = [
        *(_changed(merge, source, pairs, names) for pairs in _chunks(resolved.changed, source)),
        *(_mixing(merge, triples, names) for triples in _chunks(resolved.mixed, source)),
    ]
    for replacement in replacing[:-1]:
        yield _replace(merge, replacement, appended=appended, first=replacement is replacing[0])
    if replacing:
        # Rows that only go need no commit of their own beside rows that are replaced.
        last, alone = replacing[-1], len(replacing) == 1
        yield _replace(merge, last, appended=appended, first=alone, removed=resolved.removed)
    elif resolved.removed.num_rows:
        yield _delete(merge, after_others=appended)


def _append(merge: TableMerge, source: Table, names: Sequence[str]) -> Step:
    def step(tables: Tables, at: TableAt) -> Staged:
        return tables.stage_append(
            at, _stream(merge.shelf.stream(source, merge.resolved.new, names))
        )

    return step


def _stream(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    head = next(batches)

    def all_of_them() -> Iterator[pa.RecordBatch]:
        yield head
        yield from batches

    return pa.RecordBatchReader.from_batches(head.schema, all_of_them())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    """Rows that take the place of others, whose places and row ids are null where they are not known."""

    rows: Callable[[Tables], pa.Table]
    places: pa.Array
    row_ids: pa.Array


def _changed(
    merge: TableMerge, source: Table, pairs: pa.Table, names: Sequence[str]
) -> _Replacement:
    def rows(_: Tables) -> pa.Table:
        return merge.shelf.rows(source, column(pairs, "source"), names, BlobForm.INPUT)

    return _Replacement(rows=rows, places=column(pairs, "target"), row_ids=column(pairs, "row_id"))


def _mixing(merge: TableMerge, triples: pa.Table, names: Sequence[str]) -> _Replacement:
    return _Replacement(
        rows=lambda tables: _mixed(merge, tables, triples, names),
        places=column(triples, "target"),
        row_ids=pa.nulls(triples.num_rows, pa.uint64()),
    )


def _replace(
    merge: TableMerge,
    replacement: _Replacement,
    *,
    appended: bool,
    first: bool,
    removed: pa.Table = _NONE_REMOVED,
) -> Step:
    def step(tables: Tables, at: TableAt) -> Staged:
        if appended and first and _adopts(merge):
            fail(Failpoint.MERGE_APPENDED)
        if removed.num_rows and (appended or not first):
            _fail_before_removal(merge)
        return _replaced(tables, at, replacement, removed)

    return step


def _replaced(tables: Tables, at: TableAt, replacement: _Replacement, removed: pa.Table) -> Staged:
    """Stage rows in the place of others; where those lie is known unless the target was rewritten meanwhile."""
    record(Cost.DELTA_MATERIALISATIONS)
    rows, places, gone = replacement.rows(tables), replacement.places, column(removed, "target")
    if places.null_count or gone.null_count:
        return tables.stage_merge(at, rows, deletes=column(removed, "id"))
    row_ids = replacement.row_ids
    if row_ids.null_count:
        row_ids = row_ids_at(tables.open(at), places)
    # By row id, so that the ids take little room in the manifest.
    order = pc.sort_indices(row_ids)
    written = tables.write(at, rows.take(order), row_ids=row_ids.take(order))
    return tables.stage_update(at, [written], pa.concat_arrays([places, gone]))


def _delete(merge: TableMerge, *, after_others: bool) -> Step:
    def step(tables: Tables, at: TableAt) -> Staged | None:
        if after_others:
            _fail_before_removal(merge)
        removed = merge.resolved.removed
        places = column(removed, "target")
        known = None if places.null_count else places
        return tables.stage_delete(at, column(removed, "id"), addresses=known)

    return step


def _fail_before_removal(merge: TableMerge) -> None:
    fail(Failpoint.MERGE_UPSERTED if _adopts(merge) else Failpoint.MERGE_REWRITTEN)


def _adopts(merge: TableMerge) -> bool:
    return merge.relation.way is not Way.THREE_WAY


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
