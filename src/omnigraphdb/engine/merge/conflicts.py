"""The conflicts of a merge: kind, row, the change of each side, and the three rows."""

import heapq
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from omnigraphdb.engine.diff.rows import Row
from omnigraphdb.errors import MergeConflicts, Problem, UserInputError, shorten
from omnigraphdb.ids import TableKey
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value


class ConflictKind(StrEnum):
    """The closed set of conflict kinds."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"
    ORPHAN_EDGE = "orphan_edge"
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict(Value):
    """One conflict of a merge; `base`, `source` and `target` are the rows of the three sides, None where there is none."""

    table_key: str
    row_id: str | None
    kind: ConflictKind
    message: str
    base: Row | None = None
    source: Row | None = None
    target: Row | None = None
    properties: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.table_key} {self.row_id} {self.kind}: {self.message}"


_KIND_OF_RULE: Mapping[str, ConflictKind] = {
    "W13": ConflictKind.UNIQUE_VIOLATION,
    "W14": ConflictKind.CARDINALITY_VIOLATION,
    "W15": ConflictKind.ORPHAN_EDGE,
    "W16": ConflictKind.ORPHAN_EDGE,
}


def kind_of(problem: Problem) -> ConflictKind:
    """Return the kind of a rule that the merged graph would break."""
    return _KIND_OF_RULE.get(problem.rule, ConflictKind.VALUE_CONSTRAINT_VIOLATION)


def in_order(conflicts: Iterable[Conflict]) -> tuple[Conflict, ...]:
    """By table key, then id, then kind."""
    return tuple(sorted(conflicts, key=lambda c: (c.table_key, c.row_id or "", c.kind)))


# ---- many of them


CONFLICT_LINES: Final = pa.schema(
    [(name, pa.string()) for name in ("table_key", "row_id", "kind", "line")]
)
"""Conflicts in a scratch file: what they are ordered by, and their JSON."""


def pack_conflicts(conflicts: Iterable[Conflict]) -> pa.Table:
    """Make a table of conflicts, for a scratch file."""
    rows = [
        {
            "table_key": conflict.table_key,
            "row_id": conflict.row_id or "",
            "kind": str(conflict.kind),
            "line": json.dumps(conflict.to_dict(), ensure_ascii=False),
        }
        for conflict in conflicts
    ]
    return pa.Table.from_pylist(rows, CONFLICT_LINES)


CONFLICT_ROWS: Final = pa.schema(
    [
        ("table_key", pa.string()),
        ("row_id", pa.string()),
        ("kind", pa.string()),
        ("message", pa.string()),
        ("properties", pa.list_(pa.string())),
        ("base", pa.string()),
        ("source", pa.string()),
        ("target", pa.string()),
    ]
)
"""Conflicts as a table: the rows of the three sides are JSON, NULL where a side has none."""
_JSON: Final = ("base", "source", "target")


class ConflictSink(Protocol):
    """A destination that gets every conflict of a merge."""

    def write(self, read: Callable[[str], pa.Table], parts: Sequence[str]) -> None:
        """Take the conflicts of scratch files, which are in order each."""

    def write_lines(self, lines: Iterable[tuple[str, ...]]) -> None:
        """Take conflicts in order; the last item of each is its JSON."""


class ConflictTable:
    """Keeps every conflict of a merge as a table in memory."""

    def __init__(self) -> None:
        self.rows: pa.Table = CONFLICT_ROWS.empty_table()

    def write(self, read: Callable[[str], pa.Table], parts: Sequence[str]) -> None:
        """Take the conflicts of scratch files, which are in order each."""
        self.write_lines(_merge_parts(read, parts))

    def write_lines(self, lines: Iterable[tuple[str, ...]]) -> None:
        """Take conflicts in order; another attempt of the merge takes the place of the one before."""
        self.rows = pa.Table.from_pylist(
            [_spell_row(json.loads(line[-1])) for line in lines], CONFLICT_ROWS
        )


def _spell_row(conflict: dict[str, Any]) -> dict[str, Any]:
    sides = {
        name: None if conflict[name] is None else json.dumps(conflict[name], ensure_ascii=False)
        for name in _JSON
    }
    return conflict | sides


def _merge_parts(
    read: Callable[[str], pa.Table], parts: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    return heapq.merge(*(_read_lines(read, part) for part in parts))


@dataclass(frozen=True, slots=True)
class ConflictFile:
    """The file that gets every conflict of a merge, one JSON object a line, by table key, then id."""

    path: Path

    def write(self, read: Callable[[str], pa.Table], parts: Sequence[str]) -> None:
        """Write the conflicts of scratch files, which are in order each; a few rows of every file are in memory."""
        self.write_lines(_merge_parts(read, parts))

    def write_lines(self, lines: Iterable[tuple[str, ...]]) -> None:
        """Write under another name and rename: the file is whole or not there."""
        partial = self.path.with_name(f"{self.path.name}.partial")
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.writelines(f"{line[-1]}\n" for line in lines)
            os.replace(partial, self.path)
        finally:
            partial.unlink(missing_ok=True)


def parse_conflict_file(
    rejects: str | os.PathLike[str] | None,
) -> ConflictFile | ConflictTable | None:
    """Parse the destination of conflicts, before anything is compared."""
    if rejects is None:
        return None
    if rejects == "frame":
        return ConflictTable()
    path = Path(rejects).expanduser()
    if path.suffix != ".jsonl":
        raise UserInputError(
            f"rejects= of a merge is 'frame' or a file that ends in .jsonl, not '{path}'; nothing was written"
        )
    if not path.absolute().parent.is_dir():
        raise UserInputError(
            f"the folder of rejects='{path}' does not exist; nothing was written",
            hint="make the folder, or name a file in one that exists",
        )
    return ConflictFile(path)


def _read_lines(read: Callable[[str], pa.Table], part: str) -> Iterator[tuple[str, ...]]:
    for batch in read(part).to_batches(max_chunksize=1024):
        yield from zip(
            *(batch.column(n).to_pylist() for n in range(batch.num_columns)), strict=True
        )


def list_lines(conflicts: Iterable[Conflict]) -> Iterator[tuple[str, ...]]:
    """List the lines of conflicts in memory."""
    rows = pack_conflicts(conflicts)
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


@contextmanager
def raise_with_table(rejects: ConflictSink | None) -> Iterator[None]:
    """Attach the table of conflicts to an error of conflicts."""
    try:
        yield
    except MergeConflicts as error:
        if isinstance(rejects, ConflictTable):
            error.rejects = rejects.rows
        raise


# ---- words


def row_message(
    table_key: TableKey,
    kind: ConflictKind,
    row_id: str,
    rows: tuple[Row | None, Row | None, Row | None],
    properties: Sequence[str],
) -> str:
    """Describe the change of each side to a row; `rows` are base, source and target."""
    base, source, target = rows
    name = f"{table_key} '{shorten(row_id)}'"
    match kind:
        case ConflictKind.DIVERGENT_INSERT:
            values = "; ".join(
                _show_values(p, (None, source, target)) for p in properties[:_SHOWN_MAX]
            )
            return f"{name} was inserted on both sides with different values: {values}"
        case ConflictKind.DELETE_VS_UPDATE if source is None:
            return f"{name} was deleted by the source and updated by the target: {_show_moves(base, target)}"
        case ConflictKind.DELETE_VS_UPDATE:
            return f"{name} was updated by the source and deleted by the target: {_show_moves(base, source)}"
        case _:
            values = "; ".join(_show_values(p, rows) for p in properties[:_SHOWN_MAX])
            return f"{name} was updated on both sides in different ways: {values}"


_SHOWN_MAX = 3
"""Properties that one message names; the rows carry all of them."""


def _show_values(name: str, rows: tuple[Row | None, Row | None, Row | None]) -> str:
    base, source, target = rows
    if source is None or name not in source:
        return f"{name} (a blob) differs"
    before = f"base {_show_value(base[name])}, " if base is not None and name in base else ""
    return f"{name}: {before}source {_show_value(source[name])}, target {_show_value((target or {}).get(name))}"


def _show_moves(base: Row | None, current: Row | None) -> str:
    if base is None or current is None:
        return "it is not as either side found it"
    names = [n for n in current if current[n] != base.get(n)]
    changes = ", ".join(
        f"{n} {_show_value(base.get(n))} to {_show_value(current[n])}" for n in names[:_SHOWN_MAX]
    )
    return changes or "its blob changed"


def _show_value(value: object) -> str:
    return "NULL" if value is None else f"'{shorten(value)}'"
