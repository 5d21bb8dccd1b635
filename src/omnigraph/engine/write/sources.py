"""What a load is given: files, frames, streams and records, told apart before anything is read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from omnigraph.catalog.model import Catalog, TableType
from omnigraph.errors import InternalError, UserInputError
from omnigraph.pipeline.frames import read_frame, take_frame
from omnigraph.pipeline.intake import Intake
from omnigraph.pipeline.lines import take_file, take_row_file, take_stream
from omnigraph.pipeline.records import as_record, take_records
from omnigraph.pipeline.splits import Portion

RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
FRAME_SUFFIXES = (".parquet", ".csv")


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file of records, or of rows of one type."""

    path: Path
    type: TableType | None = None


@dataclass(frozen=True, slots=True)
class FrameFile:
    """A file that is one table; `named` when there are several, so that an error says which."""

    path: Path
    type: TableType
    named: bool = False


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A frame in memory."""

    frame: pa.Table
    type: TableType


@dataclass(frozen=True, slots=True)
class SpilledFrame:
    """Rows that other processes wrote to scratch files already."""

    portions: tuple[Portion, ...]


@dataclass(frozen=True, slots=True)
class ForeignFrame:
    """A frame whose rows are in other processes: a Spark DataFrame, or what became of one."""

    frame: Any
    type: TableType


@dataclass(frozen=True, slots=True)
class Stream:
    """An open file of records."""

    stream: IO[Any]


@dataclass(frozen=True, slots=True)
class Records:
    """Records from memory, or rows of one type."""

    records: Iterable[Any]
    type: TableType | None = None


Source = LineFile | FrameFile | FrameSource | ForeignFrame | Stream | Records


@dataclass(frozen=True, slots=True)
class Given:
    """Everything a load brings, in order, and what messages call it."""

    sources: tuple[Source, ...]
    name: str = "the input"

    @property
    def foreign(self) -> Any | None:
        """The first frame whose rows are elsewhere."""
        found = (source.frame for source in self.sources if isinstance(source, ForeignFrame))
        return next(found, None)


def given_by(source: Any, catalog: Catalog) -> Given:
    """Tell what a source is; only names and kinds are looked at."""
    if isinstance(source, Mapping):
        found = (
            one for name, frame in source.items() for one in _typed(catalog.table(str(name)), frame)
        )
        return Given(tuple(found))
    if isinstance(source, str | Path):
        return Given(tuple(_record_files([source])), f"'{source}'")
    if isinstance(source, list | tuple) and source and _are_paths(source):
        return Given(tuple(_record_files(source)), ", ".join(f"'{one}'" for one in source))
    if hasattr(source, "readlines"):
        return Given((Stream(source),), f"'{getattr(source, 'name', 'the stream')}'")
    if isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
        return Given((Records(source),))
    raise UserInputError(
        f"cannot load from a {type(source).__name__}: give a path, records, or a mapping of type names "
        "to frames; no changes were made"
    )


def take(source: Source, intake: Intake) -> None:
    """Take all of it in, here and now."""
    match source:
        case LineFile(path, None):
            take_file(path, intake)
        case LineFile(path, type_):
            assert type_ is not None, "the case before had none"
            take_row_file(path, type_, intake)
        case FrameFile(path, type_, named):
            take_frame(type_, read_frame(path, type_), intake, file=str(path) if named else None)
        case FrameSource(frame, type_):
            take_frame(type_, frame, intake)
        case ForeignFrame(_, type_):
            raise InternalError(f"the frame of '{type_.name}' was to be read here")
        case Stream(stream):
            take_stream(stream, intake)
        case Records(records, None):
            take_records(records, intake)
        case Records(records, type_):
            assert type_ is not None, "the case before had none"
            take_records((as_record(type_, row) for row in records), intake)


# ---- files


def _are_paths(source: Sequence[Any]) -> bool:
    return all(isinstance(one, str | Path) for one in source)


def _record_files(sources: Sequence[str | Path]) -> Iterator[LineFile]:
    for source in sources:
        for path in _files(_local(source), RECORD_SUFFIXES, "record file"):
            yield LineFile(path)


def _local(source: str | Path) -> Path:
    text = str(source)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if "://" in text:
        raise UserInputError(
            f"'{text}' is not a local file; no changes were made",
            hint="copy the file to this machine, or load it as a frame that reads it",
        )
    return Path(text).expanduser()


def _files(path: Path, suffixes: tuple[str, ...], what: str) -> list[Path]:
    """A file, or the files of a directory in name order."""
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.name.endswith(suffixes))
    if not found:
        raise UserInputError(
            f"'{path}' holds no {what} ({', '.join(suffixes)}); no changes were made"
        )
    return found


# ---- what belongs to one type


def _typed(type_: TableType, frame: Any) -> Iterator[Source]:
    if isinstance(frame, str | Path):
        yield from _typed_files(type_, [frame])
    elif isinstance(frame, list | tuple) and frame and _are_paths(frame):
        yield from _typed_files(type_, frame)
    elif isinstance(frame, list | tuple):
        yield Records(frame, type_)
    elif isinstance(frame, SpilledFrame) or type(frame).__module__.startswith("pyspark."):
        yield ForeignFrame(frame, type_)
    else:
        yield FrameSource(read_frame(frame, type_), type_)


def _typed_files(type_: TableType, given: Sequence[str | Path]) -> Iterator[Source]:
    paths = [
        path
        for one in given
        for path in _files(_local(one), (*FRAME_SUFFIXES, *RECORD_SUFFIXES), "file of rows")
    ]
    for path in paths:
        if path.name.endswith(RECORD_SUFFIXES):
            yield LineFile(path, type_)
        else:
            yield FrameFile(path, type_, named=len(paths) > 1)
