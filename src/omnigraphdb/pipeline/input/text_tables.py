"""CSV files as frames: cells whose type Arrow would guess wrongly are read as texts first."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from omnigraphdb.catalog.model import EdgeType, TableType
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.pipeline.input.columns import TypedColumn, json_type, shape, shape_arrow

WIDE: Final = pa.decimal128(38, 0)
"""Holds integers beyond U64 and I64, so that an error can name each integer that does not fit."""

THREADED_BYTES: Final = 1 << 20
"""Files up to this size are read by one thread."""

_INFERRED: Final = frozenset({Scalar.BOOL, Scalar.I32, Scalar.I64, Scalar.U32})
"""Types that Arrow reads from text as we do. Arrow reads a U64 beyond I64 as a float, and `-0` as an integer."""


def read_csv(path: Path, type_: TableType) -> pa.Table:
    """Read a text table: an empty cell is NULL, a quoted empty one is the empty text; texts stay texts."""
    ends = ("src", "dst", "from", "to") if isinstance(type_, EdgeType) else ()
    types = {name: property.type for name, property in type_.properties.items()}
    texts = [name for name, property_type in types.items() if _is_read_as_text(property_type)]
    source, options = _open_csv(path)
    rows = pyarrow.csv.read_csv(
        source,
        read_options=options,
        # Without this, a text with a line break is cut where a block ends.
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(["id", *ends, *texts], pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for index, name in enumerate(rows.column_names):
        read = _READERS.get(types[name].scalar) if name in types else None
        if read is not None and types[name].is_plain:
            rows = rows.set_column(index, name, read(rows.column(index)))
    return rows


def is_worth_threads(path: Path) -> bool:
    """Whether several threads read a file sooner than one: for a small file, starting them costs more."""
    return path.stat().st_size > THREADED_BYTES


def _open_csv(path: Path) -> tuple[Path | pa.BufferReader, pyarrow.csv.ReadOptions]:
    """Read a small file at once, for one thread and one block; a large one is left to Arrow."""
    if is_worth_threads(path):
        return _end_last_line(path), pyarrow.csv.ReadOptions()
    text = path.read_bytes()
    if text and text[-1:] not in b"\r\n":
        text += b"\n"
    options = pyarrow.csv.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return pa.BufferReader(text), options


def _end_last_line(path: Path) -> Path | pa.BufferReader:
    """Give a file whose last line ends: Arrow reads an empty cell at the very end as a quoted one."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        if not size or file.read(1) in b"\r\n":
            return path
        file.seek(0)
        return pa.BufferReader(file.read() + b"\n")


def _is_read_as_text(property_type: PropertyType) -> bool:
    return property_type.scalar not in _INFERRED or property_type.is_list or property_type.is_vector


def _integers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return _first_cast(texts, pa.uint64(), WIDE)


def _floats(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return _first_cast(texts, pa.float64())


def _first_cast(texts: pa.ChunkedArray, *types: pa.DataType) -> pa.ChunkedArray:
    """Cast texts to the first type that holds them all; else they stay texts, which the load refuses by value."""
    trimmed = pc.utf8_trim_whitespace(texts)
    for arrow_type in types:
        try:
            return trimmed.cast(arrow_type)
        except pa.ArrowInvalid:
            continue
    return texts


def _instants(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Complete instants as databases write them: `+00` is short for `+00:00`."""
    return pc.replace_substring_regex(texts, r"(:[0-9.]+[+-][0-9]{2})$", r"\1:00")


_READERS: Final[Mapping[Scalar, Callable[[pa.ChunkedArray], pa.ChunkedArray]]] = {
    Scalar.U64: _integers,
    Scalar.F32: _floats,
    Scalar.F64: _floats,
    Scalar.DATETIME: _instants,
}


# ---- lists in cells


def shape_lists(texts: pa.Array, target: PropertyType) -> TypedColumn:
    """Read the cells of a text column as JSON arrays, the form of lists and vectors in CSV."""
    read = _read_arrays(texts, target)
    shaped = None if read is None else shape_arrow(read, target)
    if shaped is not None:
        return TypedColumn(shaped)
    return shape(
        [None if text is None else _decode_cell(text) for text in texts.to_pylist()], target
    )


def _read_arrays(texts: pa.Array, target: PropertyType) -> pa.Array | None:
    """Parse all cells at once; None when a cell is not a JSON array of such values."""
    if not len(texts):
        return pa.array([], json_type(target))
    json_texts = pc.fill_null(texts.cast(pa.large_string()), "null")
    parts = [pa.scalar(part, pa.large_string()) for part in ('{"v":', "}\n", "")]
    records = pc.binary_join_element_wise(parts[0], json_texts, parts[1], parts[2])
    schema = pa.schema([("v", json_type(target))])
    options = pyarrow.json.ParseOptions(explicit_schema=schema, newlines_in_values=True)
    try:
        # The data buffer of a text array without offset holds all texts one after the other.
        rows = pyarrow.json.read_json(pa.BufferReader(records.buffers()[2]), parse_options=options)
    except pa.ArrowInvalid:
        return None
    is_exact = rows.num_rows == len(texts) and rows.column_names == ["v"]
    return rows.column(0).combine_chunks() if is_exact else None


def _decode_cell(text: str) -> Any:
    """Decode one cell; a text that is no JSON stays, and fits no list."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
