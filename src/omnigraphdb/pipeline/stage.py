"""Staging by workers: splits become fragments, replaced rows are marked as deleted, and tasks send only receipts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import ROW_ADDRESS, ROW_ID
from omnigraphdb.errors import InternalError
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import SCAN_BATCH_ROWS
from omnigraphdb.pipeline.checks import LoadSpec
from omnigraphdb.pipeline.input.read import POSITION, drop_rows, read_slices, split_rows, with_ids
from omnigraphdb.pipeline.input.splits import Split
from omnigraphdb.pipeline.memory import release_freed
from omnigraphdb.pipeline.messages import (
    MESSAGES,
    MarkedRows,
    ScratchSlice,
    ScratchSlices,
    WroteFragments,
    encode,
)
from omnigraphdb.pipeline.runner import Each
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import Data, Successors, TableAt, Written
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSplit:
    """Splits of one table that one task writes, and for each split its superseded and its matched rows."""

    number: int
    table_key: TableKey
    at: TableAt
    splits: tuple[Split, ...]
    superseded: tuple[tuple[ScratchSlice, ...], ...]
    matched: tuple[tuple[ScratchSlice, ...], ...]
    takes_over: bool
    """True if rows that match committed ones are appended first and take over in the next commit."""

    @property
    def bytes(self) -> int:
        """About how much the task writes."""
        return sum(split.bytes for split in self.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkSplit:
    """Replaced rows of some fragments, which one task marks as deleted."""

    number: int
    table_key: TableKey
    at: TableAt
    slices: tuple[ScratchSlice, ...]
    bytes: int = 0
    """Marking weighs nothing beside writing."""


def write_splits(
    splits: Sequence[Split],
    sites: Mapping[TableKey, TableAt],
    superseded: ScratchSlices,
    matched: ScratchSlices,
    workers: int | None,
    taking_over: Collection[TableKey],
) -> list[WriteSplit]:
    """Put consecutive splits of a table together, a fair share for each worker; None leaves every split alone."""
    writes: list[WriteSplit] = []
    for table, group in groupby(splits, key=_require_table):
        table_splits = list(group)
        size = _share(len(table_splits), workers)
        for start in range(0, len(table_splits), size):
            run = tuple(table_splits[start : start + size])
            writes.append(
                WriteSplit(
                    number=len(writes),
                    table_key=table,
                    at=sites[table],
                    splits=run,
                    superseded=tuple(superseded.get((table, split.number), ()) for split in run),
                    matched=tuple(matched.get((table, split.number), ()) for split in run),
                    takes_over=table in taking_over,
                )
            )
    return writes


def mark_splits(
    sites: Mapping[TableKey, TableAt], replaced: ScratchSlices, workers: int | None
) -> list[MarkSplit]:
    """Distribute fragments over workers; one task marks all replaced rows of a fragment."""
    marks: list[MarkSplit] = []
    for table, fragments in groupby(sorted(replaced), key=lambda key: key[0]):
        fragment_keys = list(fragments)
        size = _share(len(fragment_keys), workers)
        for start in range(0, len(fragment_keys), size):
            slices = tuple(
                scratch_slice
                for key in fragment_keys[start : start + size]
                for scratch_slice in replaced[key]
            )
            marks.append(
                MarkSplit(number=len(marks), table_key=table, at=sites[table], slices=slices)
            )
    return marks


def _share(count: int, workers: int | None) -> int:
    return 1 if workers is None else max(1, -(-count // max(1, workers)))


def _require_table(split: Split) -> TableKey:
    if split.table_key is None:
        raise InternalError(f"split {split.number} has no table")
    return split.table_key


def make_stage_step(
    load: LoadSpec, writes: Sequence[WriteSplit], marks: Sequence[MarkSplit]
) -> Each:
    """Write the rows of every split, and mark the rows that they replace."""
    return Each(
        name="stage",
        splits=(*writes, *marks),
        run=Stage(load),
        out=MESSAGES,
        weigh=attrgetter("bytes"),
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """Writes the fragments of some splits, successors of committed rows apart from new rows; or marks replaced rows."""

    load: LoadSpec

    def __call__(self, split: WriteSplit | MarkSplit) -> Iterator[pa.Table]:
        # All keys are resolved, so no task needs the cached ids any more.
        self.load.clear_cache()
        match split:
            case WriteSplit():
                yield self._write(split)
            case MarkSplit():
                yield self._mark(split)

    def _mark(self, split: MarkSplit) -> pa.Table:
        store = self.load.store()
        addresses = column(read_slices(split.slices, store), ROW_ADDRESS)
        marked = store.tables.mark(split.at, addresses)
        return encode([MarkedRows(number=split.number, table_key=split.table_key, marked=marked)])

    def _write(self, split: WriteSplit) -> pa.Table:
        store = self.load.store()
        written: list[Written] = []
        if any(split.matched):
            for index, _ in enumerate(split.splits):
                written += self._write_successors(split, index, store)
                # Lance's buffers of one split would stay beside those of the next.
                release_freed()
        fresh = store.tables.write(split.at, self._read_new_rows(split, store))
        if fresh.rows:
            written.append(fresh)
        return encode(
            [WroteFragments(number=split.number, table_key=split.table_key, written=tuple(written))]
        )

    def _read_rows(self, split: WriteSplit, index: int, store: Store) -> pa.Table:
        type_ = self.load.type(split.table_key)
        names = [name for name in type_.schema.names if name != "id"]
        rows = split_rows(split.splits[index], type_, names, self.load.catalog, store)
        return drop_rows(rows, split.superseded[index], store)

    def _read_new_rows(self, split: WriteSplit, store: Store) -> pa.RecordBatchReader:
        """Stream the rows that match no committed row; one split is in memory at a time."""
        schema = self.load.type(split.table_key).schema

        def batches() -> Iterator[pa.RecordBatch]:
            for index, slices in enumerate(split.matched):
                rows = drop_rows(self._read_rows(split, index, store), slices, store)
                stored_rows = with_ids(rows, self.load.seed).select(schema.names).cast(schema)
                yield from stored_rows.to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _write_successors(self, split: WriteSplit, index: int, store: Store) -> Iterator[Written]:
        """Write the rows that replace committed ones under the row ids of those, in row id order."""
        if not split.matched[index]:
            return
        schema = self.load.type(split.table_key).schema
        matched = read_slices(split.matched[index], store).sort_by(ROW_ID)
        rows = self._read_rows(split, index, store)
        order = pc.index_in(matched[POSITION], value_set=column(rows, POSITION)).combine_chunks()
        successors = pa.RecordBatchReader.from_batches(
            schema, _stream_rows(rows.select(schema.names), order, schema)
        )
        row_ids, replaced = column(matched, ROW_ID), column(matched, ROW_ADDRESS)
        if split.takes_over:
            yield write_successors(store.tables, split.at, successors, row_ids, replaced)
        else:
            yield store.tables.write(split.at, successors, row_ids=row_ids)


def write_successors(
    tables: Tables, at: TableAt, rows: Data, row_ids: pa.Array, replaced: pa.Array
) -> Written:
    """Write rows, by row id, that inherit from the rows at some addresses when they take over."""
    created = tables.open(at).created_versions(replaced)
    return tables.write_successors(at, rows, Successors(row_ids, created))


def _stream_rows(rows: pa.Table, order: pa.Array, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Take rows in an order, some at a time, so that no second copy of all of them is in memory."""
    for start in range(0, len(order), SCAN_BATCH_ROWS):
        part = rows.take(order.slice(start, SCAN_BATCH_ROWS))
        yield from part.cast(schema).to_batches()
