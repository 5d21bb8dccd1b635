"""The digest of the sources of a load, by which a repeated load is recognised."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from omnigraphdb.ids import TableKey
from omnigraphdb.pipeline.input.sources import (
    ForeignFrame,
    FrameFile,
    FrameSource,
    FrameStream,
    LineFile,
    LoadSource,
    Records,
    Source,
    Stream,
)

_STREAM: Final = "stream"
"""In the place of rows that can be read once and are too many to be kept, or that are in other processes."""


def digest_source(load_source: LoadSource, bytes_max: int, rows_max: int) -> list[str]:
    """Digest the types and the content of every source; a stream that was read ahead only in part counts by its type alone."""
    return [
        f"{_type_of(source)} {_digest(source, bytes_max, rows_max)}"
        for source in load_source.sources
    ]


def list_tables(load_source: LoadSource) -> frozenset[TableKey]:
    """List the types that a load names before its rows are read; none when records name their own."""
    names = {_type_of(source) for source in load_source.sources}
    return frozenset() if "" in names else frozenset(map(TableKey, names))


def _type_of(source: Source) -> str:
    table = None if isinstance(source, Stream) else source.type
    return "" if table is None else str(table.table_key)


def _digest(source: Source, bytes_max: int, rows_max: int) -> str:
    match source:
        case LineFile() | FrameFile():
            return _digest_file(source.path)
        case FrameSource():
            return _digest_frame(source.frame)
        case Records() if source.ahead_bytes <= bytes_max and source.ahead_rows <= rows_max:
            return _digest_records([record for batch in source.ahead for record in batch])
        case Stream() if source.ahead_bytes <= bytes_max:
            return hashlib.sha256(b"".join(source.ahead)).hexdigest()
        case Records() | Stream() | FrameStream() | ForeignFrame():
            return _STREAM


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_frame(frame: pa.Table) -> str:
    # Equal rows in other chunks are the same rows.
    combined = frame.combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, combined.schema) as writer:
        writer.write_table(combined)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _digest_records(records: list[Any]) -> str:
    text = json.dumps(records, sort_keys=True, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
