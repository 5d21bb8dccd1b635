"""Nodes that a load creates because its edges name them: which types can be created, and the rows of new ids."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.catalog.values import key_texts
from omnigraphdb.commit.constraints import CommittedRows, RowsAfterWrite
from omnigraphdb.commit.constraints.endpoints import SIDES
from omnigraphdb.commit.delta import NO_IDS, DeltaKind, Deltas, TableDelta, deltas_of
from omnigraphdb.commit.origins import join_origins, rows_in
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.ids import TableKey, node_key
from omnigraphdb.storage.arrow import column


def require_creatable(catalog: Catalog, names: Iterable[str]) -> frozenset[TableKey]:
    """Require types whose nodes an id alone can make; give their tables."""
    for name in names:
        if name not in catalog.nodes:
            raise NotFound("node type", name, known=catalog.nodes)
        _require_id_enough(catalog.nodes[name])
    return frozenset(node_key(name) for name in names)


def _require_id_enough(type_: NodeType) -> None:
    if len(type_.key_columns) > 1:
        raise _refuse_type(type_, f"its key has several properties: {', '.join(type_.key_columns)}")
    required = [
        name
        for name, property_ in type_.properties.items()
        if not property_.type.nullable and name not in type_.key_columns
    ]
    if required:
        raise _refuse_type(type_, f"a {type_.name} must have {', '.join(required)}")


def _refuse_type(type_: NodeType, reason: str) -> UserInputError:
    return UserInputError(
        f"create_missing= cannot make a {type_.name} of an id alone: {reason}; no changes were made",
        hint=f"load the nodes of {type_.name} with the edges, or make those properties optional",
    )


def list_ends(edge: EdgeType, node: NodeType) -> Iterator[str]:
    """List the columns of an edge type that name nodes of a type."""
    for side, _ in SIDES:
        if node.name == (edge.source if side == "src" else edge.target):
            yield side


def make_missing_rows(type_: NodeType, ends: Iterable[pa.Array], final: RowsAfterWrite) -> pa.Table:
    """Make rows of the ids that edges name and no node has after the write."""
    end_ids = pa.concat_arrays([NO_IDS, *ends])
    return _make_rows(type_, final.missing_nodes(type_.name, end_ids))


def make_created_delta(type_: NodeType, rows: pa.Table, shown_max: int) -> TableDelta:
    """Make the delta of created rows; a type that is not loaded itself is added to, even by an overwrite."""
    return TableDelta(
        type=type_, kind=DeltaKind.APPEND, rows=rows, shown_max=shown_max, nulls_reported=True
    )


def create_missing(
    deltas: Deltas, tables: Collection[TableKey], committed: CommittedRows, catalog: Catalog
) -> tuple[Deltas, Mapping[TableKey, int]]:
    """Add rows of nodes that the edges of a load name; return also the number of new nodes of each type."""
    final = RowsAfterWrite(deltas=deltas, committed=committed, catalog=catalog)
    complete_deltas, created = dict(deltas.tables), dict[TableKey, int]()
    for table in sorted(tables):
        type_ = catalog.tables[table]
        assert isinstance(type_, NodeType), "only nodes are created"
        edges = [(delta, delta.type) for delta in deltas if isinstance(delta.type, EdgeType)]
        ends = [
            column(delta.rows, side) for delta, edge in edges for side in list_ends(edge, type_)
        ]
        rows = make_missing_rows(type_, ends, final)
        if rows.num_rows:
            created[table] = rows.num_rows
            complete_deltas[table] = _extend_delta(
                deltas.of(table), type_, rows, edges[0][0].shown_max
            )
    return deltas_of(complete_deltas), created


def _extend_delta(
    delta: TableDelta | None, type_: NodeType, rows: pa.Table, shown_max: int
) -> TableDelta:
    if delta is None:
        return make_created_delta(type_, rows, shown_max)
    joined_rows = pa.concat_tables([delta.rows, rows]).combine_chunks()
    created_origins = rows_in(None, np.zeros(rows.num_rows, np.int64))
    origins = None if delta.origins is None else join_origins([delta.origins, created_origins])
    return replace(delta, rows=joined_rows, origins=origins)


def _make_rows(type_: NodeType, ids: pa.Array) -> pa.Table:
    """Make rows of ids in their order: the key from the id, other values NULL. An id that cannot be a key is left out."""
    ids = ids.take(pc.sort_indices(ids))
    columns = {name: pa.nulls(len(ids), type_.schema.field(name).type) for name in type_.properties}
    for name in type_.key_columns:
        columns[name] = _read_keys(ids, type_.properties[name].type)
    rows = pa.table({"id": ids, **columns}).select(type_.schema.names)
    for name in type_.key_columns:
        rows = rows.filter(rows[name].is_valid())
    return rows.cast(type_.schema)


def _read_keys(ids: pa.Array, target: PropertyType) -> pa.Array:
    """Read ids as values of a key; NULL where an id is not the text of a value."""
    if target.is_text:
        return ids
    try:
        values = _cast_ids(ids, target)
    except pa.ArrowInvalid:
        # Some id is not a value: each is tried by itself.
        values = pa.concat_arrays([_try_id(ids.slice(row, 1), target) for row in range(len(ids))])
    is_exact = pc.fill_null(pc.equal(key_texts(values, target), ids), False)
    return pc.if_else(is_exact, values, pa.scalar(None, values.type))


def _try_id(id_array: pa.Array, target: PropertyType) -> pa.Array:
    try:
        return _cast_ids(id_array, target)
    except pa.ArrowInvalid:
        return pa.nulls(1, target.arrow)


def _cast_ids(ids: pa.Array, target: PropertyType) -> pa.Array:
    """Cast texts to a type; the key text of a date or an instant is its number."""
    numbers = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(target.scalar)
    return (ids if numbers is None else ids.cast(numbers)).cast(target.arrow)
