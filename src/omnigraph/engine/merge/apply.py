"""The commits that bring one table to its merged state: new rows first, then changed ones, in chunks or by taking over;
removed ones go with the last of them."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import TableType
from omnigraph.commit.plan import Step, TableWrite
from omnigraph.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraph.engine.merge.relate import TableRelation, Way
from omnigraph.engine.merge.resolve import REMOVED, Resolved
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import BranchName
from omnigraph.limits import MERGE_COMMITS_MAX
from omnigraph.storage.addresses import chunk_rows, rows_at, whole_fragments
from omnigraph.storage.arrow import column
from omnigraph.storage.blobs import BlobForm
from omnigraph.storage.counters import Cost, record
from omnigraph.storage.tables import Table, Tables
from omnigraph.storage.values import Staged, Successors, TableAt, Written
from omnigraph.values import dataclass

_NONE_REMOVED = REMOVED.empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """One table of a merge: how its sides relate and what is decided."""

    type: TableType
    relation: TableRelation
    resolved: Resolved
    row_cache: RowCache = NO_ROW_CACHE


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
    replacing = [
        *(
            _read_replacement(merge, source, pairs, names)
            for pairs in _chunks(resolved.changed, source)
        ),
        *(_mixing(merge, triples, names) for triples in _chunks(resolved.mixed, source)),
    ]
    if len(replacing) == 1 and _is_far(merge, tables, replacing[0]):
        yield from _in_two_steps(merge, source, replacing[0], names)
        return
    if appended:
        yield _append(merge, source, names)
    for replacement in replacing[:-1]:
        yield _replace(merge, replacement, appended=appended, first=replacement is replacing[0])
    if replacing:
        # Rows that only go need no commit of their own beside rows that are replaced.
        last, alone = replacing[-1], len(replacing) == 1
        yield _replace(merge, last, appended=appended, first=alone, removed=resolved.removed)
    elif resolved.removed.num_rows:
        yield _delete(merge, after_others=appended)


def _append(merge: TableMerge, source: Table, names: Sequence[str]) -> Step:
    return lambda tables, at: _stage_new_rows(merge, source, names, tables, at)


def _stage_new_rows(
    merge: TableMerge,
    source: Table,
    names: Sequence[str],
    tables: Tables,
    at: TableAt,
    parts: Sequence[Written] = (),
) -> Staged:
    """Stage the new rows: whole fragments of the source as they are, the others written together."""
    rows = merge.resolved.new
    whole, others = whole_fragments(source, rows)
    copies = tables.copy(at, source.at, whole) if whole else None
    if copies is not None:
        parts, rows = [*parts, copies], others
    stream = _stream(merge.row_cache.stream(source, rows, names)) if len(rows) else None
    return tables.stage_append(at, stream, parts=parts)


def _stream(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    head = next(batches)

    def all_of_them() -> Iterator[pa.RecordBatch]:
        yield head
        yield from batches

    return pa.RecordBatchReader.from_batches(head.schema, all_of_them())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replacement:
    """Rows that take the place of others, whose places and row ids are null where they are not known.

    `sources` says where they lie in the source, if they are its rows.
    """

    rows: Callable[[Tables], pa.Table]
    sources: pa.Array | None
    places: pa.Array
    row_ids: pa.Array


def _read_replacement(
    merge: TableMerge, source: Table, pairs: pa.Table, names: Sequence[str]
) -> _Replacement:
    def rows(_: Tables) -> pa.Table:
        return merge.row_cache.rows(source, column(pairs, "source"), names, BlobForm.INPUT)

    return _Replacement(
        rows=rows,
        sources=column(pairs, "source"),
        places=column(pairs, "target"),
        row_ids=column(pairs, "row_id"),
    )


def _mixing(merge: TableMerge, triples: pa.Table, names: Sequence[str]) -> _Replacement:
    return _Replacement(
        rows=lambda tables: _mix_properties(merge, tables, triples, names),
        sources=None,
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
        if not first:
            fail(Failpoint.MERGE_CHUNK_UPSERTED)
        if removed.num_rows and (appended or not first):
            _fail_before_removal(merge)
        return _stage_replacement(tables, at, replacement, removed)

    return step


def _stage_replacement(
    tables: Tables, at: TableAt, replacement: _Replacement, removed: pa.Table
) -> Staged:
    """Stage rows in the place of others; where those lie is known unless the target was rewritten meanwhile."""
    rows, places, gone = (
        _materialised(replacement, tables),
        replacement.places,
        column(removed, "target"),
    )
    if places.null_count or gone.null_count:
        return tables.stage_merge(at, rows, deletes=column(removed, "id"))
    row_ids = replacement.row_ids
    if row_ids.null_count:
        row_ids = tables.open(at).row_ids(places)
    # By row id, so that the ids take little room in the manifest.
    order = pc.sort_indices(row_ids)
    written = tables.write(at, rows.take(order), row_ids=row_ids.take(order))
    return tables.stage_update(at, [written], pa.concat_arrays([places, gone]))


def _materialised(replacement: _Replacement, tables: Tables) -> pa.Table:
    """Bring the rows of a replacement into memory, and count that once they are there."""
    rows = replacement.rows(tables)
    record(Cost.DELTA_MATERIALISATIONS)
    return rows


def _is_far(merge: TableMerge, tables: Tables, replacement: _Replacement) -> bool:
    """Whether rows are better replaced in two steps; where all of them lie has to be known for it."""
    gone = column(merge.resolved.removed, "target")
    if replacement.places.null_count or gone.null_count:
        return False
    appending = bool(len(merge.resolved.new))
    return tables.are_scattered(merge.relation.target.at, replacement.places, appending=appending)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Rows that came with an append, and what they take over in the next step."""

    written: Written
    successors: Successors


def _in_two_steps(
    merge: TableMerge, source: Table, replacement: _Replacement, names: Sequence[str]
) -> Iterator[Step]:
    """Bring the rows beside the new ones, then let them take the place of others."""
    arrived: list[_Arrival] = []

    def bring(tables: Tables, at: TableAt) -> Staged:
        target = tables.open(merge.relation.target.at)
        successors = Successors(
            target.row_ids(replacement.places), target.created_versions(replacement.places)
        )
        whole = _copy_whole_fragments(merge, tables, at, source, replacement, successors)
        if whole is not None:
            arrived[:] = [whole]
            return tables.stage_append(at, None, parts=[whole.written])
        order = pc.sort_indices(successors.row_ids)
        written = tables.write(at, _materialised(replacement, tables).take(order))
        arrived[:] = [_Arrival(written, successors.take(order))]
        return _stage_new_rows(merge, source, names, tables, at, [written])

    def take_over(tables: Tables, at: TableAt) -> Staged:
        removed = merge.resolved.removed
        if _adopts(merge):
            fail(Failpoint.MERGE_APPENDED)
        if removed.num_rows:
            _fail_before_removal(merge)
        [one] = arrived
        doomed = pa.concat_arrays([replacement.places, column(removed, "target")])
        like = merge.relation.source.at
        return tables.stage_takeover(at, one.written, one.successors, doomed, like=like)

    yield bring
    yield take_over


def _copy_whole_fragments(
    merge: TableMerge,
    tables: Tables,
    at: TableAt,
    source: Table,
    replacement: _Replacement,
    successors: Successors,
) -> _Arrival | None:
    """Take over fragments of the source that hold nothing but new and changed rows; None when there are other rows."""
    if replacement.sources is None:
        return None
    rows = pc.array_sort_indices(
        all_rows := pa.concat_arrays([replacement.sources, merge.resolved.new])
    )
    ordered = all_rows.take(rows)
    whole, others = whole_fragments(source, ordered)
    if len(others):
        return None
    written = tables.copy(at, source.at, whole)
    if written is None:
        return None
    return _Arrival(written, successors.take(pc.index_in(ordered, value_set=replacement.sources)))


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
    return merge.relation.way not in (Way.THREE_WAY, Way.PUT_TOGETHER)


def _chunks(rows: pa.Table, table: Table) -> Iterator[pa.Table]:
    step = _step_rows(rows.num_rows, table)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _step_rows(rows: int, table: Table) -> int:
    return max(chunk_rows(table.schema), -(-rows // MERGE_COMMITS_MAX))


# ---- rows of both sides


def read_mixed_rows(
    merge: TableMerge, tables: Tables, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Give the rows that take properties from both sides."""
    source = tables.open(merge.relation.source.at)
    for triples in _chunks(merge.resolved.mixed, source):
        yield from _mix_properties(merge, tables, triples, names).to_batches()


def _mix_properties(
    merge: TableMerge, tables: Tables, triples: pa.Table, names: Sequence[str]
) -> pa.Table:
    """Take every property from the side that changed it; the target's where neither or both did."""
    relation, count = merge.relation, triples.num_rows
    source, target = (tables.open(entry.at) for entry in (relation.source, relation.target))
    left = rows_at(source, column(triples, "source"), names, BlobForm.INPUT)
    right = rows_at(target, column(triples, "target"), names, BlobForm.INPUT)
    ours = column(triples, "ours").flatten().to_numpy(zero_copy_only=False).reshape(count, -1)
    changed = dict(zip(merge.resolved.names, ours.T, strict=True)) if count else {}
    columns = []
    for name in left.column_names:
        mine = changed.get(name, np.zeros(count, dtype=bool))
        picked = pa.array(np.where(mine, np.arange(count), count + np.arange(count)))
        columns.append(pa.concat_arrays([column(left, name), column(right, name)]).take(picked))
    return pa.table(columns, schema=left.schema)
