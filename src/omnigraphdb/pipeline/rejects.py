"""Rejects: every problem of a load, in a file or as a table."""

import json
import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from omnigraphdb.errors import OmniError, Problem, UserInputError, data_error
from omnigraphdb.ids import TableKey, type_name
from omnigraphdb.limits import PROBLEMS_HELD_MAX, PROBLEMS_SHOWN_MAX, REJECTS_SORTED_MAX
from omnigraphdb.values import dataclass

SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("line", pa.int64()),
        ("record", pa.int64()),
        ("rule", pa.string()),
        ("type", pa.string()),
        ("id", pa.string()),
        ("property", pa.string()),
        ("value", pa.string()),
        ("message", pa.string()),
    ]
)
FRAME: Final = "frame"
SUFFIXES: Final = (".jsonl", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class Rejects:
    """The target of the problems of a load: a file, or without a path the error itself."""

    path: Path | None = None


def parse_rejects(target: str | os.PathLike[str] | None) -> Rejects | None:
    """Read the target of problems, before anything is loaded."""
    if target is None:
        return None
    if target == FRAME:
        return Rejects()
    path = Path(target).expanduser()
    if path.suffix not in SUFFIXES:
        raise UserInputError(
            f"rejects= is '{FRAME}' or a file that ends in {', '.join(SUFFIXES)}, not '{path}'; no changes were made"
        )
    if not path.absolute().parent.is_dir():
        raise UserInputError(
            f"the folder of rejects='{path}' does not exist; no changes were made",
            hint="make the folder, or name a file in one that exists",
        )
    return Rejects(path)


def make_load_error(
    problems: Iterable[Problem], total: int, batches: Iterable[pa.Table], rejects: Rejects | None
) -> OmniError:
    """Make the error of a load with problems; every problem also goes to the target that the caller asked for."""
    error = data_error(list(problems), total=total)
    if rejects is None:
        if total > len(error.details["data_errors"]):
            error.hint = "rejects='problems.jsonl' writes every problem to a file"
        return error
    ordered = _order_batches(batches, total)
    if rejects.path is None:
        error.rejects = pa.concat_tables([SCHEMA.empty_table(), *ordered])
        error.hint = "error.rejects is a table of every problem"
        return error
    try:
        _write_file(rejects.path, ordered)
    except OSError as failure:
        reason = failure.strerror or str(failure)
        error.hint = f"the problems could not be written to '{rejects.path}': {reason}"
        return error
    error.details["rejects"] = str(rejects.path)
    error.hint = f"every problem is in '{rejects.path}'"
    return error


class SpilledProblems:
    """The first problems of a load, which are too many for memory together, in a temporary file."""

    def __init__(self) -> None:
        self.first: tuple[Problem, ...] = ()
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, problems: Sequence[Problem]) -> None:
        """Write more problems."""
        if self._file is None:
            self.first = tuple(problems[:PROBLEMS_SHOWN_MAX])
            self._file = tempfile.TemporaryFile(prefix="omnigraph-rejects-")  # noqa: SIM115
            weakref.finalize(self, self._file.close)
            self._writer = pyarrow.ipc.new_stream(self._file, SCHEMA)
        self._writer.write_table(tabulate(problems))

    def read(self) -> Iterator[pa.Table]:
        """Read all problems, many at a time; none is added afterwards."""
        if self._file is None:
            return
        self._writer.close()
        self._file.seek(0)
        with pyarrow.ipc.open_stream(self._file) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


def tabulate_all(problems: Sequence[Problem]) -> Iterator[pa.Table]:
    """Make tables of problems, many at a time."""
    for start in range(0, len(problems), PROBLEMS_HELD_MAX):
        yield tabulate(problems[start : start + PROBLEMS_HELD_MAX])


def tabulate(problems: Iterable[Problem]) -> pa.Table:
    """Make the table of some problems."""
    return pa.Table.from_pylist([_describe_row(problem) for problem in problems], SCHEMA)


def _describe_row(problem: Problem) -> dict[str, Any]:
    key = problem.table_key
    return {
        "file": problem.file,
        "line": problem.line,
        "record": problem.record,
        "rule": problem.rule,
        "type": None if key is None else type_name(TableKey(key)),
        "id": problem.row_id,
        "property": problem.property,
        "value": problem.value,
        "message": problem.message,
    }


def _order_batches(batches: Iterable[pa.Table], total: int) -> Iterator[pa.Table]:
    """Put problems in input order, unless there are too many to hold in memory together."""
    if total > REJECTS_SORTED_MAX:
        yield from batches
        return
    rows = pa.concat_tables([SCHEMA.empty_table(), *batches])
    names = ("file", "line", "record", "rule", "property", "id")
    yield rows.sort_by([(name, "ascending") for name in names])


def _write_file(path: Path, batches: Iterable[pa.Table]) -> None:
    """Write under another name and rename: a file of rejects is whole or not there."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        match path.suffix:
            case ".csv":
                with pyarrow.csv.CSVWriter(partial, SCHEMA) as csv:
                    _write_all(csv, batches)
            case ".parquet":
                with pyarrow.parquet.ParquetWriter(partial, SCHEMA) as parquet:
                    _write_all(parquet, batches)
            case _:
                with partial.open("w", encoding="utf-8") as lines:
                    for rows in batches:
                        for some in rows.to_batches(max_chunksize=PROBLEMS_HELD_MAX):
                            lines.writelines(map(_spell_line, some.to_pylist()))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _write_all(writer: Any, batches: Iterable[pa.Table]) -> None:
    for rows in batches:
        writer.write_table(rows)


def _spell_line(row: dict[str, Any]) -> str:
    members = {name: value for name, value in row.items() if value is not None}
    return json.dumps(members, ensure_ascii=False) + "\n"
