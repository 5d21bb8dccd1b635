"""Frames that a library computes while they are read: each is a stream of Arrow batches."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa

_LAZY = {
    ("pyarrow", "Dataset"),
    ("pyarrow", "Scanner"),
    ("polars", "LazyFrame"),
    ("duckdb", "DuckDBPyRelation"),
}


def is_lazy(frame: Any) -> bool:
    """Whether a frame is a pyarrow Dataset or Scanner, a polars LazyFrame or a DuckDB relation."""
    return _kind_of(frame) is not None


def open_frame(frame: Any) -> pa.RecordBatchReader:
    """Begin to compute a lazy frame; its batches come as they are asked for, where the library can."""
    match _kind_of(frame):
        case "pyarrow", "Dataset":
            return frame.scanner().to_reader()
        case "polars", _:
            return _open_polars(frame)
        case "duckdb", _:
            return pa.RecordBatchReader.from_stream(frame)
        case _:
            return frame.to_reader()


def _kind_of(frame: Any) -> tuple[str, str] | None:
    """Return the library and the class of a lazy frame; neither is imported for it."""
    bases = (
        (base.__module__.partition(".")[0].lstrip("_"), base.__name__)
        for base in type(frame).__mro__
    )
    return next((base for base in bases if base in _LAZY), None)


def _open_polars(frame: Any) -> pa.RecordBatchReader:
    empty = import_module("polars").DataFrame(schema=frame.collect_schema())
    schema = pa.table(empty).schema
    return pa.RecordBatchReader.from_batches(schema, _read_polars(frame))


def _read_polars(frame: Any) -> Iterator[pa.RecordBatch]:
    # Older versions of polars compute a frame as a whole.
    parts = frame.collect_batches() if hasattr(frame, "collect_batches") else [frame.collect()]
    try:
        for part in parts:
            yield from pa.table(part).to_batches()
    except import_module("polars").exceptions.PolarsError as error:
        raise ValueError(str(error)) from error
