"""Cutting what a load is given into splits, as far as it can be read more than once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph.engine.write.sources import (
    ForeignFrame,
    FrameFile,
    FrameSource,
    Given,
    LineFile,
    Records,
    Source,
    Stream,
)
from omnigraph.errors import InternalError
from omnigraph.pipeline.splits import (
    InMemory,
    Portion,
    Spilled,
    Split,
    TextTable,
    cut_frame,
    cut_lines,
    cut_parquet,
    split_bytes,
)
from omnigraph.storage.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large an input is, as far as its files and frames tell; `rows` counts those that say."""

    bytes: int
    rows: int
    foreign: Any | None = None
    """A frame whose rows are elsewhere, which only Spark can cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An input in splits."""

    splits: tuple[Split, ...]
    size: Size


Spread = Callable[[Any], Sequence[Portion]]
"""Cuts a frame whose rows are elsewhere: they are written to scratch files there, in an order that is kept."""


def cut(given: Given, bytes_wanted: int, spread: Spread | None = None) -> Cut | None:
    """Cut every source; None when one can be read only once, and only here."""
    sources = given.sources
    if not sources or any(isinstance(one, Stream | Records) for one in sources):
        return None
    bytes_max = split_bytes(bytes_wanted, sum(_file_bytes(source) for source in sources))
    splits: list[Split] = []
    bytes_, rows = 0, 0
    for number, source in enumerate(sources):
        for part, portion in enumerate(_portions(source, bytes_max, spread)):
            splits.append(_split(source, portion, len(splits), number, part))
            bytes_ += portion.bytes
            rows += portion.rows or 0
    return Cut(splits=tuple(splits), size=Size(bytes=bytes_, rows=rows))


def _file_bytes(source: Source) -> int:
    path = source.path if isinstance(source, LineFile | FrameFile) else None
    return path.stat().st_size if path is not None and path.is_file() else 0


def _portions(source: Source, bytes_max: int, spread: Spread | None) -> Iterator[Portion]:
    match source:
        case LineFile(path):
            yield from cut_lines(path, bytes_max)
        case FrameFile(path) if path.suffix == ".parquet":
            yield from cut_parquet(path, bytes_max)
        case FrameFile(path):
            yield Portion(TextTable(str(path)), _file_bytes(source))
        case FrameSource():
            yield from cut_frame(source.frame, bytes_max)
        case ForeignFrame(frame) if spread is not None:
            yield from spread(frame)
        case Stream() | Records() | ForeignFrame():
            raise InternalError("a source that is read once was to be cut")


def _split(source: Source, portion: Portion, number: int, place: int, part: int) -> Split:
    assert not isinstance(source, Stream), "a stream is not cut"
    file = None
    if isinstance(source, LineFile) or (isinstance(source, FrameFile) and source.named):
        file = str(source.path)
    return Split(
        number=number,
        source=place,
        part=part,
        content=portion.content,
        table_key=None if source.type is None else source.type.table_key,
        file=file,
        counts_lines=isinstance(source, LineFile),
    )


def spilled(split: Split, store: Store, area: str) -> Split:
    """The same split as other processes can read it: rows in memory go to a scratch file."""
    if not isinstance(split.content, InMemory):
        return split
    path = f"{area}/frame-{split.number}.lance"
    store.scratch.write(path, split.content.rows)
    return Split(
        number=split.number,
        source=split.source,
        part=split.part,
        content=Spilled(path),
        table_key=split.table_key,
        file=split.file,
        counts_lines=split.counts_lines,
    )
