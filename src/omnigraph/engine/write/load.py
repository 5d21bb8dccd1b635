"""Loading: a source of records or frames becomes the change of tables."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.catalog.model import Catalog
from omnigraph.commit.changes import ChangeKind, Changes, changes_of
from omnigraph.errors import UserInputError, data_error
from omnigraph.ids import TableKey
from omnigraph.pipeline.entities import table_change
from omnigraph.pipeline.frames import frame_change, read_frame
from omnigraph.pipeline.records import Records, open_lines, read_lines, read_records
from omnigraph.runtime import Runtime

KINDS = {
    "append": ChangeKind.APPEND,
    "merge": ChangeKind.MERGE,
    "overwrite": ChangeKind.REPLACE,
}
JSONL_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")


@dataclass(frozen=True, slots=True)
class Input:
    """What a load brings: the changes, and how many records came for each table."""

    changes: Changes
    records: Mapping[TableKey, int]


def change_kind(mode: str) -> ChangeKind:
    """The kind of change a mode asks for."""
    if mode not in KINDS:
        raise UserInputError(
            f"load mode '{mode}' is unknown; it is append, merge or overwrite; no changes were made"
        )
    return KINDS[mode]


def read_input(source: Any, kind: ChangeKind, catalog: Catalog, runtime: Runtime) -> Input:
    """Read, type and identify everything a source brings; raise with all that is wrong."""
    if isinstance(source, Mapping):
        return _from_frames(source, kind, catalog, runtime)
    if isinstance(source, str | Path):
        return _from_files(Path(source), kind, catalog, runtime)
    if isinstance(source, Iterable):
        return _from_records(read_records(source, catalog), kind, runtime)
    raise UserInputError(
        f"cannot load from a {type(source).__name__}: give a path, records, or a mapping of type names to "
        "frames; no changes were made"
    )


def _from_records(records: Records, kind: ChangeKind, runtime: Runtime) -> Input:
    changes = {
        key: table_change(records.tables[key], kind, records, runtime)
        for key in sorted(records.tables)
    }
    if records.problems.total:
        raise data_error(records.problems.kept, total=records.problems.total)
    kept = {key: change for key, change in changes.items() if change is not None}
    counts = {key: len(records.tables[key].data) for key in sorted(records.tables)}
    return Input(changes_of(kept), counts)


def _from_files(path: Path, kind: ChangeKind, catalog: Catalog, runtime: Runtime) -> Input:
    files = _files(path)
    if len(files) != 1:
        raise UserInputError(
            f"'{path}' holds {len(files)} record files; one file is one load; no changes were made"
        )
    try:
        records = read_lines(open_lines(files[0]), catalog, str(files[0]))
    except (OSError, EOFError) as error:
        raise UserInputError(
            f"'{files[0]}' cannot be read: {error}; no changes were made"
        ) from error
    return _from_records(records, kind, runtime)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.iterdir() if p.name.endswith(JSONL_SUFFIXES))


def _from_frames(
    source: Mapping[Any, Any], kind: ChangeKind, catalog: Catalog, runtime: Runtime
) -> Input:
    records = Records()
    kept = {}
    counts: dict[TableKey, int] = {}
    for name, frame in source.items():
        type_ = catalog.table(str(name))
        rows = read_frame(frame, type_.name)
        counts[type_.table_key] = rows.num_rows
        change = frame_change(type_, rows, kind, records, runtime)
        if change is not None:
            kept[type_.table_key] = change
    if records.problems.total:
        raise data_error(records.problems.kept, total=records.problems.total)
    return Input(changes_of(kept), dict(sorted(counts.items())))
