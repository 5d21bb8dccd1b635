"""Gathered records → the change of a table: typed rows with ids, or the problems that forbid it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType, TableType
from omnigraph.commit.changes import ChangeKind, TableChange, column, last_of_each_id
from omnigraph.errors import Problem, shorten
from omnigraph.pipeline.columns import Misplaced, shape
from omnigraph.pipeline.identity import fresh_ids, key_ids
from omnigraph.pipeline.records import Gathered, Records
from omnigraph.runtime import Runtime


def table_change(
    gathered: Gathered, kind: ChangeKind, records: Records, runtime: Runtime
) -> TableChange | None:
    """Type the records of one table; None, with the problems noted, when some are wrong."""
    before = records.problems.total
    rows = _typed(gathered, records)
    ids = _ids(gathered, rows, records, runtime)
    if records.problems.total > before:
        return None
    columns = {"id": ids} | {name: rows[name] for name in rows.column_names}
    whole = conforming(gathered.type, columns)
    return keyed_change(
        gathered.type, whole, kind, records, lines=np.asarray(gathered.lines, dtype=np.int64)
    )


def keyed_change(
    type_: TableType,
    rows: pa.Table,
    kind: ChangeKind,
    records: Records,
    lines: np.ndarray[Any, Any],
) -> TableChange | None:
    """Settle ids that occur twice: the last wins in a merge without key, else they are refused."""
    survivors = last_of_each_id(rows)
    if len(survivors) != rows.num_rows:
        is_keyed = isinstance(type_, NodeType) and type_.key is not None
        if is_keyed or kind is not ChangeKind.MERGE:
            _refuse_twins(type_, column(rows, "id"), lines, records, is_keyed)
            return None
        rows, lines = rows.take(survivors), lines[survivors.to_numpy()]
    placed = pa.array(lines, pa.int64()) if records.file is not None else None
    return TableChange(type=type_, kind=kind, rows=rows, lines=placed, file=records.file)


def conforming(type_: TableType, columns: Mapping[str, Any]) -> pa.Table:
    """Columns as a table of exactly the type's schema."""
    return pa.Table.from_arrays([columns[name] for name in type_.schema.names], schema=type_.schema)


def _typed(gathered: Gathered, records: Records) -> pa.Table:
    columns: dict[str, pa.Array] = {}
    if isinstance(gathered.type, EdgeType):
        columns = {"src": pa.array(gathered.sources, pa.string())}
        columns["dst"] = pa.array(gathered.targets, pa.string())
    for name in sorted(gathered.type.properties):
        shaped = shape(
            [data.get(name) for data in gathered.data], gathered.type.properties[name].type
        )
        columns[name] = shaped.values
        _note(gathered, name, shaped.misplaced, records)
    if not columns:
        return pa.table({"__rows": pa.nulls(len(gathered.data))}).select([])
    return pa.table(columns)


def _note(gathered: Gathered, name: str, misplaced: Iterable[Misplaced], records: Records) -> None:
    for wrong in misplaced:
        label = _label(gathered.type, gathered.data[wrong.index])
        message = f"property '{name}' of {label}: {wrong.reason}"
        if wrong.rule == "J14":
            message = f"property '{name}' of {label} is missing: {wrong.reason}"
        records.refuse(
            gathered.lines[wrong.index],
            wrong.rule,
            message,
            table=gathered.type.table_key,
            property=name,
        )


def _label(type_: TableType, data: Mapping[str, Any]) -> str:
    """The type and, where a record has one, its key or id."""
    names: Sequence[str] = type_.key_columns if isinstance(type_, NodeType) else ()
    found = [data[name] for name in (names or ("id",)) if data.get(name) is not None]
    return (
        f"{type_.name} '{shorten(found[0] if len(found) == 1 else found)}'" if found else type_.name
    )


def _ids(gathered: Gathered, rows: pa.Table, records: Records, runtime: Runtime) -> pa.Array:
    given = [data.get("id") for data in gathered.data]
    if isinstance(gathered.type, NodeType) and gathered.type.key is not None:
        ids = key_ids(gathered.type, rows)
        _check_keys(gathered, ids, given, records)
        return ids
    for line, identity in zip(gathered.lines, given, strict=True):
        if identity is not None and not isinstance(identity, str):
            message = f"the id of {gathered.type.name} is text, got '{shorten(identity)}'"
            records.refuse(line, "J09", message, table=gathered.type.table_key, property="id")
    explicit = pa.array([one if isinstance(one, str) else None for one in given], pa.string())
    if explicit.null_count == 0:
        return explicit
    return pc.coalesce(explicit, fresh_ids(runtime.new_id(), len(explicit)))


def _check_keys(gathered: Gathered, ids: pa.Array, given: Sequence[Any], records: Records) -> None:
    """A key has a value, and an explicit id repeats it."""
    table = gathered.type.table_key
    if records.problems.total == 0:
        for row in pc.indices_nonzero(pc.is_null(ids)).to_pylist():
            message = f"the key of {gathered.type.name} has no finite value"
            records.refuse(gathered.lines[row], "W04", message, table=table)
    if not any(one is not None for one in given):
        return
    for line, identity, key in zip(gathered.lines, given, ids.to_pylist(), strict=True):
        if identity is not None and not isinstance(identity, str):
            message = f"the id of {gathered.type.name} is text, got '{shorten(identity)}'"
            records.refuse(line, "J09", message, table=table, property="id")
        elif identity is not None and key is not None and identity != key:
            message = (
                f"id '{shorten(identity)}' of {gathered.type.name} contradicts its key, "
                f"whose id is '{shorten(key)}'"
            )
            records.refuse(line, "J10", message, table=table, property="id")


def _refuse_twins(
    type_: TableType, ids: pa.Array, lines: np.ndarray[Any, Any], records: Records, is_keyed: bool
) -> None:
    counted = pa.table({"id": ids, "line": pa.array(lines)}).group_by("id", use_threads=False)
    twins = counted.aggregate([("line", "list"), ("line", "count")])
    twins = twins.filter(pc.greater(twins["line_count"], 1)).sort_by("id")
    word = "line" if records.file is not None else "record"
    for identity, places in zip(
        twins["id"].to_pylist(), twins["line_list"].to_pylist(), strict=True
    ):
        what = "@unique violation on the key of" if is_keyed else "the same id twice in"
        message = f"{what} {type_.name}: '{shorten(identity)}' is in {word} {places[0]} and in {word} {places[1]}"
        records.problems.add(
            Problem(
                rule="W13" if is_keyed else "W20",
                message=message,
                file=records.file,
                line=places[1] if records.file is not None else None,
                record=places[1] if records.file is None else None,
                table_key=type_.table_key,
                row_id=identity,
            )
        )
