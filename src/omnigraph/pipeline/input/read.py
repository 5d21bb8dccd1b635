"""A split read: taken in with everything that is wrong, or, once it was found right, as rows with their positions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from omnigraph.catalog.model import Catalog, NodeType, TableType
from omnigraph.errors import InternalError
from omnigraph.ids import TableKey
from omnigraph.pipeline.input.frames import (
    column_name,
    list_columns,
    read_frame,
    shape_column,
    take_frame,
)
from omnigraph.pipeline.input.identity import fresh_ids_at, key_ids
from omnigraph.pipeline.input.intake import Intake, is_keyed
from omnigraph.pipeline.input.lines import Block, blocks_in, read_blocks, take_block, take_row_block
from omnigraph.pipeline.input.record_blobs import decode_records
from omnigraph.pipeline.input.records import as_record, take_records
from omnigraph.pipeline.input.splits import (
    ByteRange,
    Frame,
    InMemory,
    Lines,
    RowGroups,
    Several,
    Shaped,
    Spilled,
    SpilledLines,
    SpilledRecords,
    Split,
    TextTable,
)
from omnigraph.pipeline.messages import Piece
from omnigraph.storage.arrow import column
from omnigraph.storage.store import Store

POSITION = "row position"
"""The column that says where a row was given; named as no property can be."""

SLICE_ROWS = 1 << 16
"""Rows that are read at once where only some rows of a row group are wanted."""

# ---- the first time: everything may be wrong


def take(split: Split, catalog: Catalog, store: Store, first: int) -> tuple[Intake, int]:
    """Take in one input, numbered from a position on; says how many lines or rows it has."""
    intake = Intake(catalog)
    match split.content:
        case ByteRange() | SpilledLines():
            return intake, _take_lines(split, _blocks(split.content, store), intake, first)
        case SpilledRecords(path):
            return intake, _take_records(
                split, decode_records(unpack_frame(store.scratch.read(path))), intake, first
            )
        case Shaped() | Several():
            raise InternalError(f"split {split.number} is not one input that was not read yet")
        case content:
            type_ = catalog.tables[_table(split)]
            frame = read_content(content, type_, store)
            take_frame(type_, frame, intake, first)
            return intake, frame.num_rows


def _blocks(content: Lines, store: Store) -> Iterator[Block]:
    match content:
        case ByteRange():
            return read_blocks(Path(content.path), content.start, content.end)
        case SpilledLines():
            return blocks_in(unpack_frame(store.scratch.read(content.path))[TEXT][0].as_py())


def _take_lines(split: Split, blocks: Iterator[Block], intake: Intake, first: int) -> int:
    type_ = None if split.table_key is None else intake.catalog.tables[split.table_key]
    lines = 0
    for block in blocks:
        numbered = replace(block, first=first + lines)
        lines += len(block.texts)
        if type_ is None:
            take_block(numbered, intake)
        else:
            take_row_block(numbered, type_, intake)
    return lines


def _take_records(split: Split, records: Sequence[Any], intake: Intake, first: int) -> int:
    if split.table_key is not None:
        type_ = intake.catalog.tables[split.table_key]
        records = [as_record(type_, row) for row in records]
    take_records(records, intake, first)
    return len(records)


def _table(split: Split) -> TableKey:
    if split.table_key is None:
        raise InternalError(f"split {split.number} is a frame without a type")
    return split.table_key


def read_content(
    content: Frame, type_: TableType, store: Store, names: Sequence[str] | None = None
) -> pa.Table:
    """Read a frame, or some of its columns as far as the source can tell them apart."""
    match content:
        case InMemory():
            return content.rows
        case Spilled():
            return unpack_frame(store.scratch.read(content.path))
        case TextTable():
            return read_frame(Path(content.path), type_)
        case RowGroups():
            return read_frame(_Groups(content, type_, names), type_)


_PACKED = "__packed"
TEXT = "__text"
"""The column of a spilled part of a stream of lines."""


def pack_frame(rows: pa.Table) -> pa.Table:
    """A frame of any columns as one that every file takes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    whole = sink.getvalue()
    ends = pa.py_buffer(np.array([0, whole.size], dtype=np.int64))
    return pa.table({_PACKED: pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, whole])})


def unpack_frame(rows: pa.Table) -> pa.Table:
    """The frame that was packed; one that was not is as it is."""
    if rows.column_names != [_PACKED]:
        return rows
    return pa.ipc.open_stream(rows[_PACKED][0].as_buffer()).read_all()


class _Groups:
    """Row groups of a Parquet file, as something that a frame can be read from."""

    def __init__(self, content: RowGroups, type_: TableType, names: Sequence[str] | None) -> None:
        self._content, self._type, self._names = content, type_, names

    def __str__(self) -> str:
        return self._content.path

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        # A local file is not worth the threads that fetch it ahead.
        with pyarrow.parquet.ParquetFile(self._content.path, pre_buffer=False) as file:
            names = file.schema_arrow.names
            if self._names is not None:
                names = [name for name in names if column_name(self._type, name) in self._names]
            rows = _read_groups(file, self._content, names)
        return rows.__arrow_c_stream__(requested_schema)


def _read_groups(
    file: pyarrow.parquet.ParquetFile, content: RowGroups, names: Sequence[str]
) -> pa.Table:
    """Rows of row groups; of those before a slice no more than a batch is held, and none after it is read."""
    groups = list(content.groups)
    if content.rows is None:
        return file.read_row_groups(groups, columns=names, use_threads=False)
    held: list[pa.RecordBatch] = []
    start, end, passed = content.start, content.start + content.rows, 0
    for batch in file.iter_batches(SLICE_ROWS, row_groups=groups, columns=names, use_threads=False):
        low, high = max(start - passed, 0), min(end - passed, batch.num_rows)
        if low < high:
            held.append(batch.slice(low, high - low))
        passed += batch.num_rows
        if passed >= end:
            break
    return pa.Table.from_batches(held)


# ---- later: what was found right


def split_rows(split: Split, type_: TableType, names: Sequence[str], store: Store) -> pa.Table:
    """Read some columns of a split that was found right, with `id` and the position; a NULL id is a fresh one."""
    match split.content:
        case Shaped():
            return store.scratch.read(split.content.path, ["id", *names, POSITION])
        case Several(splits):
            return _several_rows(splits, type_, names, store)
        case ByteRange() | SpilledLines() | SpilledRecords():
            raise InternalError(f"split {split.number} was not shaped")
        case content:
            return _reshape(split.first, content, type_, names, store)


def _several_rows(
    splits: Sequence[Split], type_: TableType, names: Sequence[str], store: Store
) -> pa.Table:
    """Frames of one type read one after the other, their rows counted through."""
    parts: list[pa.Table] = []
    first = splits[0].first
    for split in splits:
        if not isinstance(split.content, RowGroups | TextTable | Spilled):
            raise InternalError(f"split {split.number} was not shaped")
        parts.append(_reshape(first, split.content, type_, names, store))
        first += parts[-1].num_rows
    return pa.concat_tables(parts)


def _reshape(
    first: int, content: Frame, type_: TableType, names: Sequence[str], store: Store
) -> pa.Table:
    keys = type_.key_columns if isinstance(type_, NodeType) and is_keyed(type_) else ("id",)
    frame = read_content(content, type_, store, [*names, *keys])
    named = frame.rename_columns([column_name(type_, name) for name in frame.column_names])
    targets = list_columns(type_)
    columns = {
        name: shape_column(column(named, name), targets[name]).values
        if name in named.column_names
        else pa.nulls(named.num_rows, targets[name].arrow)
        for name in dict.fromkeys([*names, *(key for key in keys if key != "id")])
    }
    if isinstance(type_, NodeType) and is_keyed(type_):
        ids = key_ids(type_, pa.table({name: columns[name] for name in type_.key_columns}))
    elif "id" in named.column_names:
        ids = column(named, "id").cast(pa.string())
    else:
        ids = pa.nulls(named.num_rows, pa.string())
    positions = pa.array(np.arange(first, first + named.num_rows), pa.int64())
    return pa.table({"id": ids, **{name: columns[name] for name in names}, POSITION: positions})


def with_ids(rows: pa.Table, seed: str) -> pa.Table:
    """Fill in fresh ids: those of the same load and position are always the same."""
    ids = column(rows, "id")
    if not ids.null_count:
        return rows
    missing = ids.is_null()
    places = column(rows, POSITION).filter(missing).to_numpy()
    filled = pc.replace_with_mask(ids, missing, fresh_ids_at(seed, places))
    return rows.set_column(rows.schema.get_field_index("id"), "id", filled)


def without(rows: pa.Table, pieces: Sequence[Piece], store: Store) -> pa.Table:
    """Leave out the rows at the positions that pieces name."""
    if not pieces:
        return rows
    gone = positions_in(pieces, store)[POSITION]
    return rows.filter(pc.invert(pc.is_in(rows[POSITION], value_set=gone)))


def positions_in(pieces: Sequence[Piece], store: Store) -> pa.Table:
    """Read pieces of scratch files, one after the other."""
    parts = [store.scratch.read(piece.path, start=piece.start, rows=piece.rows) for piece in pieces]
    return pa.concat_tables(parts)
