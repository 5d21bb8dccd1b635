"""Export to files: every table of a snapshot as part files, each written by one task of a runner."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from omnigraphdb.catalog.border import public_reader
from omnigraphdb.catalog.model import TableType
from omnigraphdb.display import Displayable, Report, count_of, tabulate
from omnigraphdb.engine.history.export import lines, list_shown, list_tables
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import PartFormat, TableKey, is_node
from omnigraphdb.limits import EXPORT_PART_ROWS
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.view import View
from omnigraphdb.pipeline.input.splits import cut_table
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.runner import Each, Runner
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Value):
    """One file of an export."""

    table_key: TableKey
    file: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSplit:
    """Fragments of one table version, and the file that receives them."""

    location: StoreLocation
    at: TableAt
    type: TableType
    fragments: tuple[int, ...]
    file: str
    format: PartFormat
    rows: int


_PARTIAL: Final = ".partial"
_PARTS: Final = pa.schema([("table_key", pa.string()), ("file", pa.string()), ("rows", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport(Displayable, Value):
    """The files of an export, and the engine that wrote them: `local` or `spark`."""

    uri: str
    commit: str | None
    engine: str
    parts: tuple[Part, ...]

    def _report(self) -> Report:
        """Tabulate the files and their rows."""
        rows = count_of(sum(part.rows for part in self.parts), "record")
        return Report(
            title=f"export: {rows} in {count_of(len(self.parts), 'file')}",
            facts={"commit": self.commit, "engine": self.engine},
            grids=(tabulate(self.parts, "table_key", "rows", "file"),),
        )


def export_parts(
    engine: Engine,
    view: View,
    directory: str | os.PathLike[str],
    format: str,
    types: Sequence[str] | None,
    runner: Runner,
) -> tuple[Part, ...]:
    """Write the tables of a view as part files; a file appears whole or not at all, and no file stays if one fails."""
    part_format = _parse_format(format)
    folder = _prepare_directory(directory)
    splits = [
        split
        for entry, type_ in list_tables(view, types)
        for split in _cut_splits(engine, entry, type_, folder, part_format)
    ]
    try:
        rows = runner.run(
            Each(name="export", splits=splits, run=_write_part, out=_PARTS)
        ).to_pylist()
    except BaseException:
        _remove_files(splits)
        raise
    ordered = sorted(rows, key=lambda row: (not is_node(row["table_key"]), row["file"]))
    return tuple(Part(**row) for row in ordered)


def _parse_format(name: str) -> PartFormat:
    if name not in tuple(PartFormat):
        names = " or ".join(PartFormat)
        raise UserInputError(
            f"export format '{name}' is unknown; it is {names}; nothing was written"
        )
    return PartFormat(name)


def _prepare_directory(directory: str | os.PathLike[str]) -> Path:
    """Create the directory, or require an empty one: files of another export would be loaded together with these."""
    text = os.fspath(directory).removeprefix("file://")
    if "://" in text:
        raise UserInputError(
            f"'{text}' is not a directory of this file system; nothing was written",
            hint="export to a directory that every executor shares, then copy it",
        )
    folder = Path(text).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise UserInputError(
            f"'{folder}' cannot be written: {error.strerror}; nothing was written"
        ) from error
    if not is_empty:
        raise UserInputError(
            f"'{folder}' is not empty; nothing was written", hint="choose a new directory"
        )
    return folder


def _cut_splits(
    engine: Engine, entry: Entry, type_: TableType, folder: Path, format: PartFormat
) -> Iterator[PartSplit]:
    fragments = engine.store.tables.open(entry.at).fragments()
    rows = {fragment.id: fragment.rows for fragment in fragments}
    kind = "node" if is_node(entry.table_key) else "edge"
    cut = cut_table(entry.table_key, entry.at, fragments, EXPORT_PART_ROWS)
    for number, split in enumerate(cut):
        yield PartSplit(
            location=engine.location,
            at=split.at,
            type=type_,
            fragments=split.fragments,
            file=str(folder / f"{kind}-{type_.name}-{number:05}.{format}"),
            format=format,
            rows=sum(rows[fragment] for fragment in split.fragments),
        )


def _remove_files(splits: Iterable[PartSplit]) -> None:
    """Remove the files written so far; a task that still runs on another machine may write one file again."""
    for split in splits:
        file = Path(split.file)
        for path in (file, *file.parent.glob(f"{file.name}.*{_PARTIAL}")):
            with suppress(OSError):
                path.unlink(missing_ok=True)


# ---- one part


def _write_part(split: PartSplit) -> Iterator[pa.Table]:
    """Write a file under another name and rename it: a task that dies or runs twice leaves no partial file."""
    table = split.location.store().tables.open(split.at)
    names = list_shown(split.type, table.schema)
    batches = table.scan(names, fragments=split.fragments, blobs=BlobForm.BYTES)
    partial = f"{split.file}.{os.getpid()}{_PARTIAL}"
    write = _write_lines if split.format is PartFormat.JSONL else _write_parquet
    try:
        rows = write(partial, batches, split.type)
        os.replace(partial, split.file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    yield pa.table([[split.type.table_key], [split.file], [rows]], schema=_PARTS)


def _write_lines(path: str, batches: pa.RecordBatchReader, type_: TableType) -> int:
    rows = 0
    with open(path, "wb") as file:
        for batch in batches:
            rows += batch.num_rows
            file.writelines(lines(batch, type_))
    return rows


def _write_parquet(path: str, batches: pa.RecordBatchReader, _type: TableType) -> int:
    rows = 0
    reader = public_reader(batches)
    with pyarrow.parquet.ParquetWriter(path, reader.schema) as file:
        for batch in reader:
            rows += batch.num_rows
            file.write_batch(batch)
    return rows
