"""Loading: a source of records or frames becomes the change of tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.catalog.model import Catalog, TableType
from omnigraph.commit.changes import ChangeKind, Changes
from omnigraph.errors import UserInputError
from omnigraph.ids import TableKey
from omnigraph.pipeline.frames import read_frame, take_frame
from omnigraph.pipeline.intake import Intake
from omnigraph.pipeline.lines import take_file, take_row_file, take_stream
from omnigraph.pipeline.records import as_record, take_records
from omnigraph.runtime import Runtime

KINDS = {
    "append": ChangeKind.APPEND,
    "merge": ChangeKind.MERGE,
    "overwrite": ChangeKind.REPLACE,
}
RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")


@dataclass(frozen=True, slots=True)
class Input:
    """What a load brings: the changes, how many records came for each table, and what it was called."""

    changes: Changes
    records: Mapping[TableKey, int]
    name: str


def change_kind(mode: str) -> ChangeKind:
    """The kind of change a mode asks for."""
    if mode not in KINDS:
        raise UserInputError(
            f"load mode '{mode}' is unknown; it is append, merge or overwrite; no changes were made"
        )
    return KINDS[mode]


def read_input(source: Any, kind: ChangeKind, catalog: Catalog, runtime: Runtime) -> Input:
    """Read, type and identify everything a source brings; raise with all that is wrong."""
    intake = Intake(catalog)
    name = "the input"
    if isinstance(source, Mapping):
        for type_name, frame in source.items():
            _take_frame(catalog.table(str(type_name)), frame, intake)
    elif isinstance(source, str | Path):
        name = f"'{source}'"
        _take_files([source], intake)
    elif isinstance(source, list | tuple) and source and _are_paths(source):
        name = ", ".join(f"'{one}'" for one in source)
        _take_files(source, intake)
    elif hasattr(source, "readlines"):
        name = f"'{getattr(source, 'name', 'the stream')}'"
        take_stream(source, intake)
    elif isinstance(source, Iterable) and not isinstance(source, bytes | bytearray):
        take_records(source, intake)
    else:
        raise UserInputError(
            f"cannot load from a {type(source).__name__}: give a path, records, or a mapping of type names "
            "to frames; no changes were made"
        )
    return Input(intake.changes(kind, runtime), intake.records, name)


# ---- files


def _are_paths(source: Sequence[Any]) -> bool:
    return all(isinstance(one, str | Path) for one in source)


def _take_files(sources: Sequence[str | Path], intake: Intake) -> None:
    for source in sources:
        for file in _files(_local(source)):
            take_file(file, intake)


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


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.name.endswith(RECORD_SUFFIXES))
    if not found:
        raise UserInputError(
            f"'{path}' holds no record file ({', '.join(RECORD_SUFFIXES)}); no changes were made"
        )
    return found


# ---- frames


def _take_frame(type_: TableType, frame: Any, intake: Intake) -> None:
    if isinstance(frame, str | Path):
        path = _local(frame)
        if path.name.endswith(RECORD_SUFFIXES):
            take_row_file(path, type_, intake)
            return
        frame = path
    elif isinstance(frame, list | tuple):
        take_records((as_record(type_, row) for row in frame), intake)
        return
    take_frame(type_, read_frame(frame, type_), intake)
