"""Load sources: files, frames, streams and records, identified before anything is read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraphdb.catalog.model import Catalog, TableType
from omnigraphdb.commit.origins import Origins
from omnigraphdb.errors import InternalError, UserInputError
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import RECORDS_TYPED
from omnigraphdb.pipeline.input.blobs import encode_records, estimate_bytes
from omnigraphdb.pipeline.input.frames import number_rows, read_frame, take_frame, take_frames
from omnigraphdb.pipeline.input.intake import Intake
from omnigraphdb.pipeline.input.json_arrays import is_array, read_items
from omnigraphdb.pipeline.input.lazy_frames import is_lazy, open_frame
from omnigraphdb.pipeline.input.lines import (
    Texts,
    blocks_in,
    take_file,
    take_row_file,
    take_texts,
    texts_of,
)
from omnigraphdb.pipeline.input.read import TEXT
from omnigraphdb.pipeline.input.records import as_record, take_records
from omnigraphdb.pipeline.input.splits import SplitDraft
from omnigraphdb.storage.values import MAIN_INCARNATION, Incarnation
from omnigraphdb.values import dataclass

RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
FRAME_SUFFIXES = (".parquet", ".csv")

JOINED_BYTES = 16 * 1024 * 1024
"""Rows of small files that are converted together."""


@dataclass(frozen=True, slots=True)
class LineFile:
    """A file of records, or of rows of one type."""

    path: Path
    type: TableType | None = None


@dataclass(frozen=True, slots=True)
class FrameFile:
    """A file that is one frame; `named` when there are several files, so that errors name the file."""

    path: Path
    type: TableType
    named: bool = False


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A frame in memory."""

    frame: pa.Table
    type: TableType


@dataclass(frozen=True, slots=True)
class FrameStream:
    """A frame that can be read once, batch by batch; `ahead` was read already."""

    ahead: pa.Table
    rest: Iterator[pa.RecordBatch]
    type: TableType

    def all(self) -> pa.Table:
        """Read the whole frame into memory."""
        return pa.concat_tables([self.ahead, *map(_as_table, self.rest)])

    def parts(self, bytes_max: int) -> Iterator[pa.Table]:
        """Read the frame in parts of about `bytes_max`; a frame without rows gives one empty part."""
        no_rows = self.ahead.slice(0, 0)
        gathered, size, yielded = [no_rows], 0, False
        for batch in chain(self.ahead.to_batches(), self.rest):
            gathered.append(_as_table(batch))
            size += batch.nbytes
            if size >= bytes_max:
                yield pa.concat_tables(gathered)
                gathered, size, yielded = [no_rows], 0, True
        if size or not yielded:
            yield pa.concat_tables(gathered)


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


@dataclass(frozen=True, slots=True)
class SpilledFrame:
    """A frame whose rows Spark tasks wrote already: to scratch files, or as fragments for a target."""

    portions: tuple[SplitDraft, ...]
    schema_hash: str | None = None
    """The schema that the rows were checked against; None when no row was checked."""
    incarnation: Incarnation = MAIN_INCARNATION
    """That of the branch beside which fragments were written."""


@dataclass(frozen=True, slots=True)
class ForeignFrame:
    """A frame whose rows are in other processes: a Spark DataFrame, or a `SpilledFrame`."""

    frame: Any
    type: TableType


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """An open file of records, which can be read once; `ahead` was read already."""

    name: str
    ahead: tuple[bytes, ...] = ()
    """Lines are kept joined: a short one takes many times its bytes by itself."""
    rest: Iterator[Texts]

    @property
    def ahead_bytes(self) -> int:
        """The bytes that were read ahead."""
        return sum(map(len, self.ahead))

    def texts(self) -> Iterator[Texts]:
        """Read all lines, some at a time."""
        for text in self.ahead:
            for block in blocks_in(text):
                yield list(block.texts)
        yield from self.rest

    def parts(self, bytes_max: int) -> Iterator[pa.Table]:
        """Read all lines in parts of about `bytes_max`."""
        gathered: list[bytes] = []
        size = 0
        for text in chain(self.ahead, map(b"".join, self.rest)):
            gathered.append(text)
            size += len(text)
            if size >= bytes_max:
                yield _as_text(gathered)
                gathered, size = [], 0
        if gathered:
            yield _as_text(gathered)


def _as_text(texts: list[bytes]) -> pa.Table:
    return pa.table({TEXT: pa.array([b"".join(texts)], pa.large_binary())})


@dataclass(frozen=True, slots=True)
class Records:
    """Records from memory or of the array of a file, or rows of one type; those in `ahead` were read already."""

    rest: Iterator[Any]
    type: TableType | None = None
    file: str | None = None
    ahead: tuple[list[Any], ...] = ()

    @property
    def ahead_bytes(self) -> int:
        """About how many bytes were read ahead."""
        return sum(map(estimate_bytes, self.ahead))

    @property
    def ahead_rows(self) -> int:
        """The number of records that were read ahead."""
        return sum(map(len, self.ahead))

    def all(self) -> Iterator[Any]:
        """Iterate over every record."""
        return chain(*self.ahead, self.rest)

    def parts(self, bytes_max: int) -> Iterator[pa.Table]:
        """Encode the records as blobs of about `bytes_max`."""
        gathered: list[Any] = []
        for batch in chain(self.ahead, batch_records(self.rest)):
            gathered += batch
            records_max = max(1, bytes_max * len(batch) // max(1, estimate_bytes(batch)))
            while len(gathered) >= records_max:
                yield encode_records(gathered[:records_max])
                gathered = gathered[records_max:]
        if gathered:
            yield encode_records(gathered)


def batch_records(records: Iterator[Any]) -> Iterator[list[Any]]:
    """Cut records into batches."""
    while batch := list(islice(records, RECORDS_TYPED)):
        yield batch


Source = LineFile | FrameFile | FrameSource | FrameStream | ForeignFrame | Stream | Records


@dataclass(frozen=True, slots=True)
class LoadSource:
    """All sources of a load, in order, and their name in messages."""

    sources: tuple[Source, ...]
    name: str = "the input"

    def read_ahead(self, bytes_max: int, rows_max: int) -> "LoadSource":
        """Read streams ahead: short ones into memory, others up to a bound."""
        return replace(
            self, sources=tuple(_read_ahead(source, bytes_max, rows_max) for source in self.sources)
        )

    @property
    def streams(self) -> bool:
        """Whether a source can be read only once."""
        return any(isinstance(source, FrameStream | Stream | Records) for source in self.sources)

    @property
    def foreign(self) -> Any | None:
        """The first frame whose rows are in other processes."""
        frames = (source.frame for source in self.sources if isinstance(source, ForeignFrame))
        return next(frames, None)


def _read_ahead(source: Source, bytes_max: int, rows_max: int) -> Source:
    match source:
        case FrameStream():
            return _read_frame_ahead(source, bytes_max, rows_max)
        case Stream():
            return _read_lines_ahead(source, bytes_max)
        case Records():
            return _read_records_ahead(source, bytes_max, rows_max)
        case _:
            return source


def _read_lines_ahead(stream: Stream, bytes_max: int) -> Stream:
    ahead, size = list(stream.ahead), stream.ahead_bytes
    for lines in stream.rest:
        ahead.append(b"".join(lines))
        size += len(ahead[-1])
        if size > bytes_max:
            break
    return replace(stream, ahead=tuple(ahead))


def _read_records_ahead(records: Records, bytes_max: int, rows_max: int) -> Records:
    ahead, size, rows = list(records.ahead), records.ahead_bytes, records.ahead_rows
    for batch in batch_records(records.rest):
        ahead.append(batch)
        size += estimate_bytes(batch)
        rows += len(batch)
        if size > bytes_max or rows > rows_max:
            break
    return replace(records, ahead=tuple(ahead))


def _read_frame_ahead(
    stream: FrameStream, bytes_max: int, rows_max: int
) -> FrameSource | FrameStream:
    ahead, size, rows = [stream.ahead], stream.ahead.nbytes, stream.ahead.num_rows
    for batch in stream.rest:
        ahead.append(_as_table(batch))
        size += batch.nbytes
        rows += batch.num_rows
        if size > bytes_max or rows > rows_max:
            return FrameStream(pa.concat_tables(ahead), stream.rest, stream.type)
    return FrameSource(pa.concat_tables(ahead), stream.type)


def identify_source(source: Any, catalog: Catalog) -> LoadSource:
    """Identify a source by its names and Python types; only of a `.json` file the first characters are read."""
    if _is_frame(source):
        raise UserInputError(
            f"a frame ({type(source).__name__}) needs type=, the name of the type of its rows; no changes were made",
            hint=_suggest_type(catalog),
        )
    if _is_record(source, catalog):
        raise UserInputError(
            "a single record goes in a list: load([{…}]); a mapping names the types of frames; no changes were made"
        )
    if isinstance(source, Mapping):
        sources = (
            typed_source
            for name, frame in source.items()
            for typed_source in _type_sources(catalog.table(str(name)), frame)
        )
        return LoadSource(tuple(sources))
    if isinstance(source, str | Path):
        return LoadSource(tuple(_record_files([source])), f"'{source}'")
    if isinstance(source, list | tuple) and source and _are_paths(source):
        return LoadSource(tuple(_record_files(source)), ", ".join(f"'{path}'" for path in source))
    if hasattr(source, "readlines"):
        stream = Stream(name=str(getattr(source, "name", "stream")), rest=texts_of(source))
        return LoadSource((stream,), f"'{getattr(source, 'name', 'the stream')}'")
    if isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
        return LoadSource((Records(iter(source)),))
    raise UserInputError(
        f"cannot load from a {type(source).__name__}: give a path, records, or a mapping of type names "
        "to frames; no changes were made"
    )


def _is_frame(source: Any) -> bool:
    """Whether rows without a type were given: an Arrow, pandas, polars or Spark table."""
    if type(source).__module__.partition(".")[0] in ("pandas", "polars", "pyspark"):
        return True
    is_arrow = hasattr(source, "__arrow_c_stream__") or is_lazy(source)
    return is_arrow or isinstance(source, SpilledFrame)


def _suggest_type(catalog: Catalog) -> str:
    name = next(iter((*catalog.nodes, *catalog.edges)), "Person")
    return f"for example type='{name}'"


def _is_record(source: Any, catalog: Catalog) -> bool:
    """Whether a mapping is one record, not frames by the names of their types."""
    if not isinstance(source, Mapping) or not {"type", "edge"} & source.keys():
        return False
    return not any(name in catalog.nodes or name in catalog.edges for name in source)


def read_sources(sources: Sequence[Source], intake: Intake) -> None:
    """Read whole sources into memory; small files of one type together."""
    for table, group in groupby(sources, key=_find_frame_table):
        if table is None:
            for source in group:
                _read_source(source, intake)
        else:
            _read_frame_files(intake.catalog.tables[table], group, intake)


def _find_frame_table(source: Source) -> TableKey | None:
    return source.type.table_key if isinstance(source, FrameFile) else None


def _read_frame_files(type_: TableType, sources: Iterable[Source], intake: Intake) -> None:
    frames: list[tuple[pa.Table, Origins]] = []
    size = 0
    for source in sources:
        assert isinstance(source, FrameFile), "only files of frames have a frame table"
        frame = read_frame(source.path, type_)
        file = str(source.path) if source.named else None
        frames.append((frame, number_rows(frame, file=file)))
        size += frame.nbytes
        if size > JOINED_BYTES:
            take_frames(type_, frames, intake)
            frames, size = [], 0
    take_frames(type_, frames, intake)


def _read_source(source: Source, intake: Intake) -> None:
    match source:
        case LineFile(path, None):
            take_file(path, intake)
        case LineFile(path, type_):
            assert type_ is not None, "the case before had none"
            take_row_file(path, type_, intake)
        case FrameFile(path, type_):
            take_frame(type_, read_frame(path, type_), intake)
        case FrameSource(frame, type_):
            take_frame(type_, frame, intake)
        case FrameStream(_, _, type_):
            take_frame(type_, source.all(), intake)
        case ForeignFrame(_, type_):
            raise InternalError(f"the frame of '{type_.name}' cannot be read in this process")
        case Stream():
            take_texts(source.texts(), source.name, intake)
        case Records(_, None):
            take_records(source.all(), intake, file=source.file)
        case Records(_, type_):
            assert type_ is not None, "the case before had none"
            rows = (as_record(type_, row) for row in source.all())
            take_records(rows, intake, file=source.file)


# ---- files


def _are_paths(source: Sequence[Any]) -> bool:
    return all(isinstance(path, str | Path) for path in source)


def _record_files(sources: Sequence[str | Path]) -> Iterator[LineFile | Records]:
    for source in sources:
        for path in _files(_local(source), RECORD_SUFFIXES, "record file"):
            yield Records(read_items(path), file=str(path)) if is_array(path) else LineFile(path)


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


def _files(path: Path, suffixes: tuple[str, ...], noun: str) -> list[Path]:
    """List a file, or the files of a directory in name order."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.name.endswith(suffixes))
    if not files:
        raise UserInputError(
            f"'{path}' holds no {noun} ({', '.join(suffixes)}); no changes were made"
        )
    return files


# ---- sources of one type


def _type_sources(type_: TableType, frame: Any) -> Iterator[Source]:
    if isinstance(frame, str | Path):
        yield from _type_files(type_, [frame])
    elif isinstance(frame, list | tuple) and frame and _are_paths(frame):
        yield from _type_files(type_, frame)
    elif isinstance(frame, list | tuple):
        yield Records(iter(frame), type_)
    elif isinstance(frame, SpilledFrame) or type(frame).__module__.startswith("pyspark."):
        yield ForeignFrame(frame, type_)
    elif isinstance(frame, pa.RecordBatchReader):
        yield FrameStream(frame.schema.empty_table(), _translate_errors(frame, type_), type_)
    elif is_lazy(frame):
        reader = _open_lazy(frame, type_)
        yield FrameStream(reader.schema.empty_table(), _translate_errors(reader, type_), type_)
    else:
        yield FrameSource(read_frame(frame, type_), type_)


def _open_lazy(frame: Any, type_: TableType) -> pa.RecordBatchReader:
    try:
        return open_frame(frame)
    except (OSError, pa.ArrowException, TypeError, ValueError, RuntimeError) as error:
        where = f"the frame of '{type_.name}'"
        raise UserInputError(f"{where} cannot be read: {error}; no changes were made") from error


def _translate_errors(reader: pa.RecordBatchReader, type_: TableType) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream; its errors become errors of ours."""
    try:
        yield from reader
    except (OSError, pa.ArrowException, TypeError, ValueError) as error:
        where = f"the frame of '{type_.name}'"
        raise UserInputError(f"{where} cannot be read: {error}; no changes were made") from error


def _type_files(type_: TableType, locations: Sequence[str | Path]) -> Iterator[Source]:
    paths = [
        path
        for location in locations
        for path in _files(_local(location), (*FRAME_SUFFIXES, *RECORD_SUFFIXES), "file of rows")
    ]
    for path in paths:
        if is_array(path):
            yield Records(read_items(path), type_, str(path))
        elif path.name.endswith(RECORD_SUFFIXES):
            yield LineFile(path, type_)
        else:
            yield FrameFile(path, type_, named=len(paths) > 1)
