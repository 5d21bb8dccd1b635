"""The statements of a mutation: they become table deltas, reading committed plus pending rows."""

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType, TableType
from omnigraphdb.commit.delta import DeltaKind, Deltas
from omnigraphdb.compile.checked import (
    TARGET,
    AssignedValue,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedRead,
    CheckedUpdate,
    CheckedUpsert,
    PropertyRef,
)
from omnigraphdb.compile.plan.visit import walk
from omnigraphdb.engine.write.assigned_values import assign_columns, resolve_value
from omnigraphdb.engine.write.inserts import insert, upsert
from omnigraphdb.engine.write.mutating import Mutating
from omnigraphdb.engine.write.repeated_rows import keep_first
from omnigraphdb.engine.write.table_source import TableSource
from omnigraphdb.storage.arrow import column


def run_statements(mutation: CheckedMutation, mutating: Mutating) -> Deltas:
    """Run the statements in order; nothing is written."""
    for statement in mutation.statements:
        match statement:
            case CheckedInsert():
                insert(statement, mutating)
            case CheckedUpsert():
                upsert(statement, mutating)
            case CheckedUpdate():
                _update(statement, mutating)
            case CheckedDelete():
                _delete(statement, mutating)
    return mutating.pending.deltas()


# ---- update


def _update(statement: CheckedUpdate, mutating: Mutating) -> None:
    type_ = mutating.find_type(statement)
    if statement.origin is not None:
        rows = _update_matched(statement, statement.origin, type_, mutating)
    else:
        rows = _update_where(statement, type_, mutating)
    mutating.pending.put(type_, rows, DeltaKind.UPDATE)
    mutating.counts.add(type_, rows.num_rows)
    mutating.give_back(statement.returning, rows)


def _update_where(statement: CheckedUpdate, type_: TableType, mutating: Mutating) -> pa.Table:
    """Return the rows that satisfy the condition, with the assigned values."""
    for assign in statement.assignments:
        if isinstance(assign.value, AssignedValue):
            # A value that no row could take is refused also when no row matches.
            resolve_value(type_, assign, mutating.given)
    assert statement.where is not None
    rows = mutating.matching.find_rows(type_, statement.where)
    if statement.returning:
        rows = rows.sort_by("id")
    source = TableSource(table=rows, given=mutating.given)
    return _set_columns(type_, rows, assign_columns(type_, statement.assignments, source))


def _update_matched(
    statement: CheckedUpdate, origin: CheckedRead, type_: TableType, mutating: Mutating
) -> pa.Table:
    """Return the entities that a match found, with the values that are assigned to each."""
    source = mutating.open_origin(origin)
    is_present = column(source.table, TARGET).is_valid()
    source = TableSource(table=source.table.filter(is_present), given=mutating.given)
    columns = assign_columns(type_, statement.assignments, source, origin)
    images = pa.table({"id": column(source.table, TARGET), **columns})
    images = keep_first(type_, images)
    ids = column(images, "id")
    committed_rows = mutating.committed.whole(type_.table_key, ids)
    committed_rows = committed_rows.select(type_.schema.names).cast(type_.schema)
    rows = committed_rows.take(pc.index_in(ids, value_set=column(committed_rows, "id")))
    return _set_columns(type_, rows, {name: column(images, name) for name in columns})


def _set_columns(type_: TableType, rows: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        column_index = rows.schema.get_field_index(name)
        rows = rows.set_column(column_index, type_.schema.field(name), values)
    return rows


# ---- delete


def _delete(statement: CheckedDelete, mutating: Mutating) -> None:
    type_ = mutating.find_type(statement)
    ids = _find_deleted(statement, type_, mutating)
    already_deleted = pc.is_in(ids, value_set=mutating.pending.deleted(type_))
    ids = pc.unique(ids.filter(pc.invert(already_deleted)))
    _give_deleted(statement, type_, ids, mutating)
    mutating.counts.add(type_, mutating.pending.delete(type_, ids))
    if isinstance(type_, EdgeType):
        return
    for edge in mutating.catalog.incident(type_.name):
        removed = mutating.pending.delete(edge, _cascade(edge, type_, ids, mutating))
        mutating.counts.add(edge, removed)


def _find_deleted(statement: CheckedDelete, type_: TableType, mutating: Mutating) -> pa.Array:
    if statement.origin is not None:
        return column(mutating.run_match(statement.origin), TARGET).drop_null()
    assert statement.where is not None
    return mutating.matching.find_ids(type_, statement.where)


def _give_deleted(
    statement: CheckedDelete, type_: TableType, ids: pa.Array, mutating: Mutating
) -> None:
    """Return the requested columns of rows that are deleted."""
    if not statement.returning:
        return
    read = walk(tuple(returned.expr for returned in statement.returning))
    names = [
        "id",
        *(reference.property for reference in read if isinstance(reference, PropertyRef)),
    ]
    names = list(dict.fromkeys(names))
    rows = mutating.committed.where(type_.table_key, "id", ids, names)
    mutating.give_back(statement.returning, rows.select(names).sort_by("id"))


def _cascade(edge: EdgeType, node: TableType, ids: pa.Array, mutating: Mutating) -> pa.Array:
    """Return the ids of the edges that start or end at removed nodes."""
    sides = [s for s, end in (("src", edge.source), ("dst", edge.target)) if end == node.name]
    if not len(ids):
        return pa.array([], pa.string())
    edge_rows = [mutating.committed.where(edge.table_key, side, ids, ["id"]) for side in sides]
    return pa.concat_arrays([column(rows, "id") for rows in edge_rows])
