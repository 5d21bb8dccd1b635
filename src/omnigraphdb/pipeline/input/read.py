"""Reading of splits: the first time with every problem, later as rows with their positions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from omnigraphdb.catalog.model import Catalog, NodeType, TableType
from omnigraphdb.errors import InternalError, Problem, UserInputError
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import PROBLEMS_SHOWN_MAX
from omnigraphdb.pipeline.input.blobs import decode_records
from omnigraphdb.pipeline.input.frames import (
    column_name,
    list_columns,
    number_rows,
    read_frame,
    shape_table_column,
    take_frame,
    take_frames,
)
from omnigraphdb.pipeline.input.intake import Intake, fresh_ids_at, is_keyed, key_ids
from omnigraphdb.pipeline.input.lines import (
    Block,
    blocks_in,
    read_blocks,
    take_block,
    take_row_block,
)
from omnigraphdb.pipeline.input.records import as_record, take_records
from omnigraphdb.pipeline.input.splits import (
    ByteRange,
    CheckedRows,
    Frame,
    InMemory,
    Lines,
    RowGroups,
    SmallFiles,
    Spilled,
    SpilledLines,
    SpilledRecords,
    Split,
    TextTable,
    TypedRows,
)
from omnigraphdb.pipeline.messages import ScratchSlice
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.store import Store

POSITION = "row position"
"""The column of input positions; no property can have this name."""

SLICE_ROWS = 1 << 16
"""Rows of one batch where a split needs only a slice of a row group."""

# ---- the first time: every value may be wrong


SpillProblems = Callable[[Split, Sequence[Problem]], None]
"""Takes problems of an input away when they are many."""


def read_inputs(
    split: Split,
    catalog: Catalog,
    store: Store,
    shown_max: int = PROBLEMS_SHOWN_MAX,
    spill: SpillProblems | None = None,
) -> Iterator[tuple[Split, Intake, int]]:
    """Read the inputs of a split; yield each with its rows and problems, and its number of lines or rows.

    When several frames have no problem, all of their rows come with the first. Of the problems of an input,
    `shown_max` are described.
    """

    def start(input_split: Split) -> Intake:
        spill_input = None if spill is None else partial(spill, input_split)
        return Intake(catalog, shown_max=shown_max, spill=spill_input)

    inputs, first = split.inputs, split.first
    frames = _read_frames(split, catalog, store)
    if frames is None:
        for input_split in inputs:
            intake, count = _read_input(input_split, start(input_split), store, first)
            first += count
            yield input_split, intake, count
        return
    type_, numbered = catalog.tables[_table(split)], []
    for frame in frames:
        numbered.append((frame, number_rows(frame, first)))
        first += frame.num_rows
    joined = Intake(catalog, shown_max=0)
    take_frames(type_, numbered, joined)
    intakes = [joined, *(start(input_split) for input_split in inputs[1:])]
    if joined.total:
        intakes = [start(input_split) for input_split in inputs]
        for pair, intake in zip(numbered, intakes, strict=True):
            take_frames(type_, [pair], intake)
    for input_split, intake, frame in zip(inputs, intakes, frames, strict=True):
        yield input_split, intake, frame.num_rows


def _read_frames(split: Split, catalog: Catalog, store: Store) -> list[pa.Table] | None:
    """Read the frames of a split of several inputs; None when it holds one input, or lines."""
    if not isinstance(split.content, SmallFiles):
        return None
    frames: list[pa.Table] = []
    for input_split in split.inputs:
        if not isinstance(input_split.content, RowGroups | TextTable | Spilled):
            return None
        frames.append(read_content(input_split.content, catalog.tables[_table(input_split)], store))
    return frames


def _read_input(split: Split, intake: Intake, store: Store, first: int) -> tuple[Intake, int]:
    """Read one input, its rows numbered from `first` on; return also how many lines or rows it has."""
    match split.content:
        case ByteRange() | SpilledLines():
            return intake, _take_lines(split, _blocks(split.content, store), intake, first)
        case SpilledRecords(path):
            return intake, _take_records(
                split, decode_records(unpack_frame(store.scratch.read(path))), intake, first
            )
        case TypedRows() | SmallFiles() | CheckedRows():
            raise InternalError(f"split {split.number} was read before, or holds several inputs")
        case content:
            type_ = intake.catalog.tables[_table(split)]
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
    """Read a frame, or some of its columns where the source allows that."""
    match content:
        case InMemory():
            return content.rows
        case Spilled():
            return unpack_frame(store.scratch.read(content.path))
        case TextTable():
            return read_frame(Path(content.path), type_)
        case RowGroups():
            return _read_row_groups(content, type_, names)


_PACKED = "__packed"
TEXT = "__text"
"""The column of a spilled part of a stream of lines."""


def pack_frame(rows: pa.Table) -> pa.Table:
    """Pack a frame of any columns into one cell, so that every scratch file can hold it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    packed = sink.getvalue()
    offsets = pa.py_buffer(np.array([0, packed.size], dtype=np.int64))
    cell = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, packed])
    return pa.table({_PACKED: cell})


def unpack_frame(rows: pa.Table) -> pa.Table:
    """Unpack a frame; a frame that is not packed stays as it is."""
    if rows.column_names != [_PACKED]:
        return rows
    return pa.ipc.open_stream(rows[_PACKED][0].as_buffer()).read_all()


def _read_row_groups(content: RowGroups, type_: TableType, names: Sequence[str] | None) -> pa.Table:
    """Read row groups of a Parquet file, or some of their columns; a file that cannot be read is named."""
    try:
        # Threads that prefetch a local file cost more than they save.
        with pyarrow.parquet.ParquetFile(content.path, pre_buffer=False) as file:
            columns = file.schema_arrow.names
            if names is not None:
                columns = [name for name in columns if column_name(type_, name) in names]
            return _read_groups(file, content, columns)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).strip()
        raise UserInputError(
            f"'{content.path}' cannot be read: {reason}; no changes were made"
        ) from error


def _read_groups(
    file: pyarrow.parquet.ParquetFile, content: RowGroups, names: Sequence[str]
) -> pa.Table:
    """Read row groups or a slice of them; batches before the slice are dropped, those after it are not read."""
    groups = list(content.groups)
    if content.rows is None:
        return file.read_row_groups(groups, columns=names, use_threads=False)
    batches: list[pa.RecordBatch] = []
    start, end, passed = content.start, content.start + content.rows, 0
    for batch in file.iter_batches(SLICE_ROWS, row_groups=groups, columns=names, use_threads=False):
        low, high = max(start - passed, 0), min(end - passed, batch.num_rows)
        if low < high:
            batches.append(batch.slice(low, high - low))
        passed += batch.num_rows
        if passed >= end:
            break
    return pa.Table.from_batches(batches)


# ---- later: the values are known to be right


def split_rows(
    split: Split, type_: TableType, names: Sequence[str], catalog: Catalog, store: Store
) -> pa.Table:
    """Read some columns of a checked split, with `id` and position; a NULL id asks for a fresh id."""
    match split.content:
        case TypedRows():
            return store.scratch.read(split.content.path, ["id", *names, POSITION])
        case CheckedRows() as content:
            return _add_positions(_read_checked(content, names, store), split.first)
        case SmallFiles(splits):
            return _several_rows(splits, type_, names, catalog, store)
        case ByteRange() | SpilledLines() | SpilledRecords():
            raise InternalError(f"split {split.number} was not shaped")
        case content:
            return _reshape(split.first, content, type_, names, catalog, store)


def _read_checked(content: CheckedRows, names: Sequence[str], store: Store) -> pa.Table:
    """Read keys from their scratch file; whole rows that are written already are read only where some of them must go."""
    if content.written is None or set(names) <= set(content.columns):
        return store.scratch.read(content.path, ["id", *names])
    return store.tables.read_written(content.at, content.written, ["id", *names])


def _add_positions(rows: pa.Table, first: int) -> pa.Table:
    positions = pa.array(np.arange(first, first + rows.num_rows), pa.int64())
    return rows.append_column(POSITION, positions)


def _several_rows(
    splits: Sequence[Split],
    type_: TableType,
    names: Sequence[str],
    catalog: Catalog,
    store: Store,
) -> pa.Table:
    """Read frames of one type one after the other, their positions counted through."""
    parts: list[pa.Table] = []
    first = splits[0].first
    for split in splits:
        if not isinstance(split.content, RowGroups | TextTable | Spilled):
            raise InternalError(f"split {split.number} was not shaped")
        parts.append(_reshape(first, split.content, type_, names, catalog, store))
        first += parts[-1].num_rows
    return pa.concat_tables(parts)


def _reshape(
    first: int,
    content: Frame,
    type_: TableType,
    names: Sequence[str],
    catalog: Catalog,
    store: Store,
) -> pa.Table:
    keys = type_.key_columns if isinstance(type_, NodeType) and is_keyed(type_) else ("id",)
    frame = read_content(content, type_, store, [*names, *keys])
    renamed_frame = frame.rename_columns([column_name(type_, name) for name in frame.column_names])
    targets = list_columns(type_)
    columns = {
        name: shape_table_column(
            type_, name, column(renamed_frame, name), targets[name], catalog
        ).values
        if name in renamed_frame.column_names
        else pa.nulls(renamed_frame.num_rows, targets[name].arrow)
        for name in dict.fromkeys([*names, *(key for key in keys if key != "id")])
    }
    if isinstance(type_, NodeType) and is_keyed(type_):
        ids = key_ids(type_, pa.table({name: columns[name] for name in type_.key_columns}))
    elif "id" in renamed_frame.column_names:
        ids = column(renamed_frame, "id").cast(pa.string())
    else:
        ids = pa.nulls(renamed_frame.num_rows, pa.string())
    rows = pa.table({"id": ids, **{name: columns[name] for name in names}})
    return _add_positions(rows, first)


def with_ids(rows: pa.Table, seed: str) -> pa.Table:
    """Fill in fresh ids; the same load and position always give the same id."""
    ids = column(rows, "id")
    if not ids.null_count:
        return rows
    missing = ids.is_null()
    positions = column(rows, POSITION).filter(missing).to_numpy()
    filled = pc.replace_with_mask(ids, missing, fresh_ids_at(seed, positions))
    return rows.set_column(rows.schema.get_field_index("id"), "id", filled)


def drop_rows(rows: pa.Table, slices: Sequence[ScratchSlice], store: Store) -> pa.Table:
    """Drop the rows whose positions the slices hold."""
    if not slices:
        return rows
    dropped = read_slices(slices, store)[POSITION]
    return rows.filter(pc.invert(pc.is_in(rows[POSITION], value_set=dropped)))


def read_slices(slices: Sequence[ScratchSlice], store: Store) -> pa.Table:
    """Read slices of scratch files one after the other."""
    parts = [
        store.scratch.read(scratch_slice.path, start=scratch_slice.start, rows=scratch_slice.rows)
        for scratch_slice in slices
    ]
    return pa.concat_tables(parts)
