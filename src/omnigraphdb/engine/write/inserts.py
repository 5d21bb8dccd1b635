"""Inserts and upserts: one entity, or one for every row of a match or a list."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import EdgeType, NodeType, TableType
from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.compile.checked import (
    CREATED,
    CheckedInsert,
    CheckedRead,
    CheckedUpsert,
    PropertyRef,
)
from omnigraphdb.compile.plan.visit import walk
from omnigraphdb.engine.write.assigned_values import assign_columns, list_columns
from omnigraphdb.engine.write.mutating import Mutating
from omnigraphdb.engine.write.repeated_rows import keep_first
from omnigraphdb.engine.write.table_source import TableSource
from omnigraphdb.errors import OmniError, Problem, data_error
from omnigraphdb.pipeline.input.intake import first_of_each_id, fresh_ids, key_ids
from omnigraphdb.storage.arrow import column


def insert(statement: CheckedInsert, mutating: Mutating) -> None:
    """Insert the rows of a statement; a keyed row replaces the row that has its key."""
    type_ = mutating.find_type(statement)
    source = mutating.open_origin(statement.origin)
    columns = assign_columns(type_, statement.assignments, source, statement.origin)
    _require_values(type_, columns)
    rows = list_columns(type_, columns, source.rows)
    rows = _set_ids(type_, rows, mutating, source)
    if statement.if_absent:
        _insert_absent(statement, type_, rows, mutating)
        return
    is_keyed = isinstance(type_, NodeType) and type_.key is not None
    written = keep_first(type_, rows) if is_keyed else rows
    mutating.pending.put(type_, written, DeltaKind.MERGE if is_keyed else DeltaKind.INSERT)
    mutating.counts.add(type_, written.num_rows)
    mutating.give_back(statement.returning, rows)


def _require_values(type_: TableType, columns: Mapping[str, pa.Array]) -> None:
    """Refuse an insert without a required value, also when a later statement would give one."""
    for name, property_ in type_.properties.items():
        if not property_.type.nullable and name not in columns:
            raise _refuse_missing(type_, name)


def _refuse_missing(type_: TableType, name: str) -> OmniError:
    message = f"the insert gives no value to '{name}' of {type_.name}, which is required"
    return data_error(
        [Problem(rule="W01", message=message, table_key=type_.table_key, property=name)]
    )


# ---- ids


def _set_ids(type_: TableType, rows: pa.Table, mutating: Mutating, source: TableSource) -> pa.Table:
    column_index = rows.schema.get_field_index("id")
    if isinstance(type_, NodeType) and type_.key is not None:
        ids = _make_key_ids(type_, rows, source)
    elif rows.num_rows == 1:
        ids = pa.array([mutating.runtime.new_id()], pa.string())
    else:
        ids = fresh_ids(mutating.runtime.new_id(), rows.num_rows)
    return rows.set_column(column_index, type_.schema.field("id"), ids)


def _make_key_ids(type_: NodeType, rows: pa.Table, source: TableSource) -> pa.Array:
    ids = key_ids(type_, rows)
    if ids.null_count:
        offset = pc.index(ids.is_null(), True).as_py()
        location = f", in the row {source.describe(offset)}" if source.rows > 1 else ""
        message = f"the key of {type_.name} has no finite value{location}"
        raise data_error([Problem(rule="W04", message=message, table_key=type_.table_key)])
    return ids


# ---- if absent


def _insert_absent(
    statement: CheckedInsert, type_: TableType, rows: pa.Table, mutating: Mutating
) -> None:
    """Insert the rows that do not exist yet; the other rows stay as they are, and their ids are returned."""
    identities = _name_rows(type_, rows)
    existing = _find_existing(statement, type_, rows, mutating)
    existing_offsets = pc.index_in(identities, value_set=_name_rows(type_, existing))
    # Of several rows with one identity the first creates the entity.
    created = np.zeros(rows.num_rows, dtype=bool)
    created[first_of_each_id(identities).to_numpy()] = True
    created &= existing_offsets.is_null().to_numpy(zero_copy_only=False)
    written = rows.filter(pa.array(created))
    kind = DeltaKind.INSERT if isinstance(type_, EdgeType) else DeltaKind.MERGE
    mutating.pending.put(type_, written, kind)
    mutating.counts.add(type_, written.num_rows)
    if statement.returning:
        all_rows = pa.concat_tables([existing, written.select(existing.column_names)])
        all_rows = all_rows.combine_chunks()
        offsets = pc.index_in(identities, value_set=_name_rows(type_, all_rows))
        returned = all_rows.take(offsets).append_column(CREATED, pa.array(created))
        mutating.give_back(statement.returning, returned)


def _name_rows(type_: TableType, rows: pa.Table) -> pa.Array:
    """Return the identity of each row: the id of a keyed node, the ends of an edge."""
    if not isinstance(type_, EdgeType):
        return column(rows, "id")
    start, end = column(rows, "src"), column(rows, "dst")
    # The length separates the two ids, for any characters in them.
    length = pc.binary_length(start).cast(pa.string())
    return pc.binary_join_element_wise(length, start, end, ":")


def _find_existing(
    statement: CheckedInsert, type_: TableType, rows: pa.Table, mutating: Mutating
) -> pa.Table:
    """Return the existing rows, pending rows first; of parallel edges the edge with the least id comes first."""
    names = ["id", *(("src", "dst") if isinstance(type_, EdgeType) else ())]
    read = walk(tuple(returned.expr for returned in statement.returning))
    properties = [reference.property for reference in read if isinstance(reference, PropertyRef)]
    names = list(dict.fromkeys([*names, *properties]))
    lookup_name = "src" if isinstance(type_, EdgeType) else "id"
    values = pc.unique(column(rows, lookup_name))
    committed = mutating.committed.where(type_.table_key, lookup_name, values, names).select(names)
    pending = mutating.pending.rows(type_).select(names)
    existing = pa.concat_tables([pending, committed.cast(pending.schema)]).combine_chunks()
    return existing.sort_by("id") if lookup_name == "src" else existing


# ---- upsert


def upsert(statement: CheckedUpsert, mutating: Mutating) -> None:
    """Set properties of the nodes with the keys of a statement, keep their other properties, and insert missing nodes."""
    type_ = mutating.catalog.nodes[statement.type_name]
    source = mutating.open_origin(statement.origin)
    keys = assign_columns(type_, statement.key, source, statement.origin)
    keyed_rows = _set_ids(type_, list_columns(type_, keys, source.rows), mutating, source)
    before = _find_before(type_, column(keyed_rows, "id"), mutating)
    values = _assign_beside(statement, source, before, mutating)
    columns = {name: column(before, name) for name in before.column_names}
    columns |= keys | values | {"id": column(keyed_rows, "id")}
    rows = list_columns(type_, columns, source.rows)
    _require_whole(type_, rows)
    written = keep_first(type_, rows)
    mutating.pending.put(type_, written, DeltaKind.MERGE)
    mutating.counts.add(type_, written.num_rows)
    if statement.returning:
        created = column(before, "id").is_null()
        mutating.give_back(statement.returning, rows.append_column(CREATED, created))


def _find_before(type_: NodeType, ids: pa.Array, mutating: Mutating) -> pa.Table:
    """Return the existing row of every id, pending rows before committed ones; NULL for an id without a row."""
    unique_ids = pc.unique(ids)
    committed = mutating.committed.whole(type_.table_key, unique_ids)
    committed = committed.select(type_.schema.names).cast(type_.schema)
    existing = pa.concat_tables([mutating.pending.rows(type_), committed]).combine_chunks()
    return existing.take(pc.index_in(ids, value_set=column(existing, "id")))


def _assign_beside(
    statement: CheckedUpsert, source: TableSource, before: pa.Table, mutating: Mutating
) -> dict[str, pa.Array]:
    """Compute the values of the rows of an origin, with the existing rows at hand."""
    type_ = mutating.catalog.nodes[statement.type_name]
    computed = [
        assignment
        for assignment in statement.assignments
        if not isinstance(statement.origin, CheckedRead)
        or assignment.property not in source.table.schema.names
    ]
    matched = [assignment for assignment in statement.assignments if assignment not in computed]
    return assign_columns(type_, matched, source, statement.origin) | assign_columns(
        type_, computed, _join_before(source, before)
    )


def _join_before(source: TableSource, before: pa.Table) -> TableSource:
    """Join the rows of an origin to the existing rows, under names that no property has."""
    table = before
    for name in source.table.column_names:
        if name not in before.column_names:
            table = table.append_column(name, source.table[name])
    return TableSource(table=table, given=source.given)


def _require_whole(type_: TableType, rows: pa.Table) -> None:
    """Refuse a new row without a required value."""
    for name, property_ in type_.properties.items():
        if not property_.type.nullable and rows[name].null_count:
            raise _refuse_missing(type_, name)
