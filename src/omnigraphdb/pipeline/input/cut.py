"""Cutting of load sources into splits; sources that can be read only once go to scratch files first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraphdb.errors import InternalError
from omnigraphdb.pipeline.input.read import pack_frame
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
from omnigraphdb.pipeline.input.splits import (
    NO_BOUND,
    InMemory,
    Spilled,
    SpilledLines,
    SpilledRecords,
    Split,
    SplitDraft,
    SplitLimits,
    TextTable,
    cut_frame,
    cut_lines,
    cut_parquet,
    grain_of,
    pack_splits,
)
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.store import Store
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of an input, as far as its files and frames state it."""

    bytes: int
    rows: int
    foreign: Any | None = None
    """A Spark frame, which only Spark can cut."""


Spread = Callable[[Any], Sequence[SplitDraft]]
"""Cuts a Spark frame: its tasks write the rows to scratch files, whose order is kept."""


Spool = Callable[[Iterator[pa.Table]], Iterator[SplitDraft]]
"""Writes the parts of a stream to scratch files."""


def measure(load_source: LoadSource) -> Size:
    """Measure an input; of a stream only the part that was read ahead."""
    grain = grain_of(NO_BOUND, 0)
    portions = [
        portion
        for source in load_source.sources
        for portion in _cut_source(source, grain, None, None)
    ]
    return Size(
        bytes=sum(portion.bytes for portion in portions),
        rows=sum(portion.rows or 0 for portion in portions),
    )


def cut(
    load_source: LoadSource,
    grain: SplitLimits,
    spread: Spread | None = None,
    spool: Spool | None = None,
) -> tuple[Split, ...]:
    """Cut every source into splits; small sources share a split."""
    splits = (
        _make_split(source, portion, index, part)
        for index, source in enumerate(load_source.sources)
        for part, portion in enumerate(_cut_source(source, grain, spread, spool))
    )
    return tuple(pack_splits(splits, grain))


def _file_bytes(source: Source) -> int:
    path = source.path if isinstance(source, LineFile | FrameFile) else None
    return path.stat().st_size if path is not None and path.is_file() else 0


def _cut_source(
    source: Source, grain: SplitLimits, spread: Spread | None, spool: Spool | None
) -> Iterator[SplitDraft]:
    match source:
        case LineFile(path):
            yield from cut_lines(path, grain.bytes)
        case FrameFile(path) if path.suffix == ".parquet":
            yield from cut_parquet(path, grain)
        case FrameFile(path):
            yield SplitDraft(TextTable(str(path)), _file_bytes(source))
        case FrameSource():
            yield from cut_frame(source.frame, grain)
        case ForeignFrame(frame) if spread is not None:
            yield from spread(frame)
        case FrameStream() if spool is not None:
            yield from spool(source.parts(grain.bytes))
        case Stream() if spool is not None:
            yield from (
                SplitDraft(SpilledLines(scratch_path), n)
                for scratch_path, n in _spool_source(spool, source, grain.bytes)
            )
        case Stream():
            yield SplitDraft(SpilledLines(""), source.ahead_bytes)
        case Records() if spool is not None:
            yield from (
                SplitDraft(SpilledRecords(scratch_path), n)
                for scratch_path, n in _spool_source(spool, source, grain.bytes)
            )
        case Records():
            yield SplitDraft(SpilledRecords(""), source.ahead_bytes, source.ahead_rows)
        case FrameStream(ahead):
            # Only the part that was read ahead is known, which is enough to see that the stream is large.
            yield SplitDraft(InMemory(ahead), ahead.nbytes, ahead.num_rows)
        case ForeignFrame():
            raise InternalError("a Spark frame cannot be cut in this process")


def _make_split(source: Source, portion: SplitDraft, index: int, part: int) -> Split:
    file = None
    if isinstance(source, LineFile) or (isinstance(source, FrameFile) and source.named):
        file = str(source.path)
    elif isinstance(source, Stream):
        file = source.name
    elif isinstance(source, Records):
        file = source.file
    type_ = None if isinstance(source, Stream) else source.type
    return Split(
        number=0,
        source=index,
        part=part,
        content=portion.content,
        table_key=None if type_ is None else type_.table_key,
        file=file,
        counts_lines=isinstance(source, LineFile | Stream),
        bytes=portion.bytes,
        rows=portion.rows,
    )


def _spool_source(
    spool: Spool, source: Stream | Records, bytes_max: int
) -> Iterator[tuple[str, int]]:
    """Write the parts of a source to scratch files; yield their paths and sizes."""
    for portion in spool(source.parts(bytes_max)):
        assert isinstance(portion.content, Spilled), "a spool writes scratch files"
        yield portion.content.path, portion.bytes


def spool_stream(parts: Iterator[pa.Table], store: Store, area: str) -> Iterator[SplitDraft]:
    """Write the parts of a stream to scratch files as they arrive."""
    for number, rows in enumerate(parts):
        path = f"{area}/stream-{SYSTEM.new_id()}-{number}.lance"
        store.scratch.write(path, pack_frame(rows))
        yield SplitDraft(Spilled(path), rows.nbytes, rows.num_rows)


def spill_split(split: Split, store: Store, area: str) -> Split:
    """Write the rows of a split in memory to a scratch file, so that other processes can read them."""
    if not isinstance(split.content, InMemory):
        return split
    path = f"{area}/frame-{split.number}.lance"
    store.scratch.write(path, pack_frame(split.content.rows))
    return replace(split, content=Spilled(path))
