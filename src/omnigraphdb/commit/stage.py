"""The only stager: it turns the changes of a write to a table into staged Lance work, and alone chooses its form."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.commit.addressed import (
    AddressedRows,
    Follows,
    cut_replaced,
    read_replacing,
    stream_source,
)
from omnigraphdb.commit.delta import DeltaKind, TableDelta, UnwrittenRows, WrittenRows
from omnigraphdb.commit.plan import (
    BuildIndexes,
    ClearSettings,
    CompactFragments,
    IndexChoice,
    ReleaseSegments,
    ReshapeColumns,
    RewriteRows,
    Step,
    TableWrite,
    TakeOver,
    TakeOverWritten,
)
from omnigraphdb.commit.wanted_indexes import list_incomplete_indexes, list_worthwhile_indexes
from omnigraphdb.errors import InternalError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.addresses import whole_fragments
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.tables import Table, Tables, Workers
from omnigraphdb.storage.values import IndexSpec, Staged, Successors, TableAt, Written
from omnigraphdb.values import dataclass


class RowWriter(Protocol):
    """Workers that write the rows of an input as fragments; the pipeline's runners are behind it."""

    def write(self, delta: TableDelta, at: TableAt) -> WrittenRows:
        """Write the rows of a delta beside a version, and mark the rows that they replace."""
        ...


class RowRewriter(Protocol):
    """Workers that write the rows of a version anew."""

    def rewrite(self, at: TableAt) -> Sequence[Written]:
        """Write all rows of a version as fragments that no version shows yet, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class StageWorkers:
    """The helpers of staging: none, unless indexes are built or rows are written elsewhere."""

    maintenance: Workers | None = None
    rows: RowWriter | None = None
    rewriter: RowRewriter | None = None


ALONE = StageWorkers()


@dataclass(frozen=True, slots=True)
class StagedStep:
    """A step on its version: None when there turns out to be nothing to change; and the steps that follow it."""

    staged: Staged | None
    then: tuple[Step, ...] = ()


def stage_write(
    tables: Tables,
    entry: Entry,
    branch: BranchName,
    delta: TableDelta,
    *,
    strict: bool | None = None,
) -> TableWrite | None:
    """Stage a delta as far as that is possible now; None when there is nothing to change.

    Of a table that the branch owns, the first commit is staged here and later ones under the locks. A table that must
    be forked first is staged after its fork.
    """
    own = lance_branch(branch)
    steps = cut_into_commits(tables, delta)
    write = TableWrite(
        table_key=entry.table_key,
        base=entry.at,
        strict=delta.kind.is_strict if strict is None else strict,
        steps=steps,
        fork=None if entry.at.branch == own else own,
        delta=delta if delta.source is None else None,
    )
    if write.fork is not None:
        return write
    first = stage_commit(tables, entry.at, steps[0])
    if first.staged is None:
        return None
    return replace(write, staged=first.staged, steps=(*first.then, *steps[1:]))


def cut_into_commits(tables: Tables, delta: TableDelta) -> tuple[TableDelta, ...]:
    """Cut a delta into the commits it takes: new rows first, then rows that replace others; removed ones go last."""
    rows = delta.source
    if not isinstance(rows, AddressedRows):
        return (delta,)
    parts = list(cut_replaced(rows, tables.open(rows.source)))
    if len(parts) == 1 and _are_scattered(tables, rows):
        return (replace(delta, source=replace(rows, takes_over=True)),)
    return tuple(replace(delta, source=part) for part in _order_commits(rows, parts))


def _order_commits(rows: AddressedRows, parts: Sequence[AddressedRows]) -> Iterator[AddressedRows]:
    follows = Follows.NOTHING
    if len(rows.new):
        yield rows.only(new=rows.new)
        follows = Follows.APPEND
    for number, part in enumerate(parts):
        # Rows that only go need no commit of their own beside rows that are replaced.
        is_last = number == len(parts) - 1
        yield replace(part, follows=follows, removed=rows.removed if is_last else part.removed)
        follows = Follows.UPSERT
    if not parts and rows.removed.num_rows:
        yield replace(rows.only(removed=rows.removed), follows=follows)


def _are_scattered(tables: Tables, rows: AddressedRows) -> bool:
    """Whether rows lie so far apart that two commits replace them better; where all of them lie has to be known for it."""
    if rows.replaced_at.null_count or rows.removed_at.null_count:
        return False
    return tables.are_scattered(rows.target, rows.replaced_at, appending=bool(len(rows.new)))


# ---- one commit


def stage_commit(
    tables: Tables, at: TableAt, step: Step, workers: StageWorkers = ALONE
) -> StagedStep:
    """Stage one commit on a version."""
    match step:
        case TableDelta():
            return _stage_delta(tables, at, step, workers)
        case TakeOver():
            return StagedStep(_stage_takeover(tables, at, step))
        case TakeOverWritten(rows=rows):
            fail(Failpoint.ROWS_APPENDED)
            return StagedStep(tables.stage_marked_takeover(at, rows.written, rows.marked))
        case ReshapeColumns(changes=changes):
            return StagedStep(tables.stage_columns(at, changes))
        case RewriteRows():
            written = _rewrite(tables, at, workers.rewriter)
            return StagedStep(tables.stage_written(at, written, overwrite=True))
        case ClearSettings():
            return StagedStep(tables.stage_settings(at))
        case ReleaseSegments():
            return StagedStep(tables.stage_release(at))
        case CompactFragments(rows_max=rows_max):
            return StagedStep(tables.stage_compaction(at, rows_max, workers.maintenance))
        case BuildIndexes():
            return StagedStep(_stage_indexes(tables, at, step, workers.maintenance))


def _stage_delta(
    tables: Tables, at: TableAt, delta: TableDelta, workers: StageWorkers
) -> StagedStep:
    match delta.source:
        case None:
            return StagedStep(_stage_in_memory(tables, at, delta))
        case WrittenRows() as rows:
            return _stage_written(tables, at, delta, rows)
        case UnwrittenRows():
            if workers.rows is None:
                raise InternalError(f"{delta.type.table_key} has rows that nobody is to write")
            return _stage_written(tables, at, delta, workers.rows.write(delta, at))
        case AddressedRows(takes_over=True) as rows:
            return _stage_arrival(tables, at, rows, delta.type.schema.names)
        case AddressedRows() as rows:
            return StagedStep(_stage_addressed(tables, at, rows, delta.type.schema.names))


def _stage_in_memory(tables: Tables, at: TableAt, delta: TableDelta) -> Staged | None:
    match delta.kind:
        case DeltaKind.INSERT | DeltaKind.APPEND:
            return tables.stage_append(at, delta.rows)
        case DeltaKind.MERGE if delta.is_new:
            return tables.stage_append(at, delta.rows)
        case DeltaKind.MERGE | DeltaKind.UPDATE:
            return tables.stage_merge(at, delta.rows)
        case DeltaKind.REPLACE:
            return tables.stage_overwrite(at, delta.rows)
        case DeltaKind.DELETE:
            return tables.stage_delete(at, delta.deleted)


def _stage_written(tables: Tables, at: TableAt, delta: TableDelta, rows: WrittenRows) -> StagedStep:
    if rows.takes_over:
        appended = tables.stage_written(at, rows.written)
        # A recoverer that completes the operation knows the digests of its first commit only.
        return StagedStep(replace(appended, digests=rows.digests), (TakeOverWritten(rows),))
    if rows.marked:
        return StagedStep(tables.stage_marked(at, rows.written, rows.marked))
    return StagedStep(tables.stage_written(at, rows.written, overwrite=delta.replaces))


def _rewrite(tables: Tables, at: TableAt, rewriter: RowRewriter | None) -> Sequence[Written]:
    if rewriter is not None:
        return rewriter.rewrite(at)
    return [tables.write(at, tables.open(at).scan(blobs=BlobForm.INPUT))]


def _stage_indexes(
    tables: Tables, at: TableAt, step: BuildIndexes, workers: Workers | None
) -> Staged | None:
    if step.after_compaction:
        fail(Failpoint.OPTIMIZE_COMPACTED)
    specs = _choose_indexes(tables, at, step)
    return tables.stage_indices(at, specs, workers) if specs else None


def _choose_indexes(tables: Tables, at: TableAt, step: BuildIndexes) -> tuple[IndexSpec, ...]:
    match step.specs:
        case IndexChoice.INCOMPLETE:
            table = tables.open(at)
            return list_incomplete_indexes(step.type, table) if table.count() else ()
        case IndexChoice.WORTHWHILE:
            return tuple(list_worthwhile_indexes(step.type, tables.open(at)))
        case specs:
            return specs


# ---- rows by address


def _stage_addressed(
    tables: Tables, at: TableAt, rows: AddressedRows, names: Sequence[str]
) -> Staged | None:
    _pass_failpoints(rows)
    if len(rows.replaced_at):
        return _stage_replacement(tables, at, rows, names)
    if len(rows.new):
        return _stage_new_rows(tables, at, rows, names)
    addresses = None if rows.removed_at.null_count else rows.removed_at
    return tables.stage_delete(at, column(rows.removed, "id"), addresses=addresses)


def _pass_failpoints(rows: AddressedRows) -> None:
    if rows.follows is Follows.APPEND and rows.is_adopted and len(rows.replaced_at):
        fail(Failpoint.MERGE_APPENDED)
    if rows.follows is Follows.UPSERT:
        fail(Failpoint.MERGE_CHUNK_UPSERTED)
    if rows.follows is not Follows.NOTHING and rows.removed.num_rows:
        _fail_before_removal(is_adopted=rows.is_adopted)


def _fail_before_removal(*, is_adopted: bool) -> None:
    fail(Failpoint.MERGE_UPSERTED if is_adopted else Failpoint.MERGE_REWRITTEN)


def _stage_new_rows(
    tables: Tables,
    at: TableAt,
    rows: AddressedRows,
    names: Sequence[str],
    parts: Sequence[Written] = (),
) -> Staged:
    """Stage the new rows: whole fragments of the source are copied, the other rows are written together."""
    addresses = rows.new
    fragment_ids, others = whole_fragments(tables.open(rows.source), addresses)
    copies = tables.copy(at, rows.source, fragment_ids) if fragment_ids else None
    if copies is not None:
        parts, addresses = [*parts, copies], others
    stream = None
    if len(addresses):
        stream = _open_stream(stream_source(tables, rows, addresses, names))
    return tables.stage_append(at, stream, parts=parts)


def _open_stream(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    first = next(batches)

    def all_batches() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, all_batches())


def _stage_replacement(
    tables: Tables, at: TableAt, rows: AddressedRows, names: Sequence[str]
) -> Staged:
    """Stage rows that replace others; addresses are known unless the target was rewritten meanwhile."""
    replacing, addresses, removed = (
        _materialise(tables, rows, names),
        rows.replaced_at,
        rows.removed_at,
    )
    if addresses.null_count or removed.null_count:
        return tables.stage_merge(at, replacing, deletes=column(rows.removed, "id"))
    row_ids = rows.replaced_row_ids
    if row_ids.null_count:
        row_ids = tables.open(at).row_ids(addresses)
    # Sorted row ids take little room in the manifest.
    order = pc.sort_indices(row_ids)
    written = tables.write(at, replacing.take(order), row_ids=row_ids.take(order))
    return tables.stage_update(at, [written], pa.concat_arrays([addresses, removed]))


def _materialise(tables: Tables, rows: AddressedRows, names: Sequence[str]) -> pa.Table:
    """Read the rows that replace others into memory, and count that afterwards."""
    replacing = read_replacing(tables, rows, names)
    record(Cost.DELTA_MATERIALISATIONS)
    return replacing


# ---- append, then take over


def _stage_arrival(
    tables: Tables, at: TableAt, rows: AddressedRows, names: Sequence[str]
) -> StagedStep:
    """Stage an append of new and replacing rows together; the next commit lets the latter take over."""
    source, target = tables.open(rows.source), tables.open(rows.target)
    successors = Successors(
        target.row_ids(rows.replaced_at), target.created_versions(rows.replaced_at)
    )
    copied = _copy_whole_fragments(tables, at, source, rows, successors)
    if copied is not None:
        written, successors = copied
        staged = tables.stage_append(at, None, parts=[written])
    else:
        order = pc.sort_indices(successors.row_ids)
        written = tables.write(at, _materialise(tables, rows, names).take(order))
        successors = successors.take(order)
        staged = _stage_new_rows(tables, at, rows, names, [written])
    takeover = TakeOver(
        written=written,
        successors=successors,
        addresses=pa.concat_arrays([rows.replaced_at, rows.removed_at]),
        like=rows.source,
        is_adopted=rows.is_adopted,
        removes=bool(rows.removed.num_rows),
    )
    return StagedStep(staged, (takeover,))


def _copy_whole_fragments(
    tables: Tables, at: TableAt, source: Table, rows: AddressedRows, successors: Successors
) -> tuple[Written, Successors] | None:
    """Copy fragments of the source that hold nothing but new and changed rows; None when there are other rows."""
    if rows.mixed.num_rows:
        return None
    changed = column(rows.changed, "source")
    addresses = pa.concat_arrays([changed, rows.new])
    ordered = addresses.take(pc.array_sort_indices(addresses))
    fragment_ids, others = whole_fragments(source, ordered)
    if len(others):
        return None
    written = tables.copy(at, source.at, fragment_ids)
    if written is None:
        return None
    return written, successors.take(pc.index_in(ordered, value_set=changed))


def _stage_takeover(tables: Tables, at: TableAt, step: TakeOver) -> Staged:
    if step.is_adopted:
        fail(Failpoint.MERGE_APPENDED)
    if step.removes:
        _fail_before_removal(is_adopted=step.is_adopted)
    return tables.stage_takeover(at, step.written, step.successors, step.addresses, like=step.like)
