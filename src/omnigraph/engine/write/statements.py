"""The statements of a mutation: they become table deltas, reading committed plus pending rows."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.catalog.values import Misfit, composite_id, fit, key_text, to_arrow
from omnigraph.commit.delta import Accumulator, DeltaKind, Deltas
from omnigraph.compile.checked import (
    Assign,
    AssignedValue,
    CheckedDelete,
    CheckedInsert,
    CheckedMutation,
    CheckedUpdate,
    Compare,
    Const,
    Now,
    ParamRef,
    PropertyRef,
    VariableKind,
    Where,
)
from omnigraph.compile.coerce import coerce
from omnigraph.engine.read.columns.compare import compare_value
from omnigraph.engine.read.evaluate import repeat_value
from omnigraph.engine.read.operators.pushdown import render_filter
from omnigraph.engine.snapshot_rows import SnapshotRows
from omnigraph.errors import Problem, data_error
from omnigraph.pipeline.input.columns import blob
from omnigraph.runtime import Runtime
from omnigraph.storage.arrow import column
from omnigraph.values import dataclass

_TEXT = PropertyType(scalar=Scalar.STRING)


@dataclass(slots=True)
class Counts:
    """How many entities the statements touched."""

    nodes: int = 0
    edges: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutating:
    """One mutation while its statements run."""

    catalog: Catalog
    committed: SnapshotRows
    params: Mapping[str, object]
    now: datetime
    runtime: Runtime
    pending: Accumulator = field(default_factory=Accumulator)
    counts: Counts = field(default_factory=Counts)


def run_statements(mutation: CheckedMutation, mutating: Mutating) -> Deltas:
    """Run the statements in order; nothing is written."""
    for statement in mutation.statements:
        match statement:
            case CheckedInsert():
                _insert(statement, mutating)
            case CheckedUpdate():
                _update(statement, mutating)
            case CheckedDelete():
                _delete(statement, mutating)
    return mutating.pending.deltas()


def _type(name: str, kind: VariableKind, catalog: Catalog) -> TableType:
    return catalog.nodes[name] if kind is VariableKind.NODE else catalog.edges[name]


# ---- values


def _value(value: AssignedValue, mutating: Mutating) -> object:
    match value:
        case Const(value=found):
            return found
        case ParamRef(name=name):
            return mutating.params.get(name)
        case Now():
            return mutating.now


def _spell_key(value: object, written: AssignedValue, declared: PropertyType) -> object:
    """The id of a node that is named by a value of its key: the checker lets such values pass at the ends of edges."""
    if value is None or isinstance(value, str) or not declared.is_text or declared.is_list:
        return value
    return key_text(value, written.type)


def _resolve_value(type_: TableType, assign: Assign, mutating: Mutating) -> object:
    """The value a property will hold, or the refusal that names it."""
    value = _spell_key(_value(assign.value, mutating), assign.value, assign.type)
    found = blob(value) if assign.type.is_blob and value is not None else fit(value, assign.type)
    if isinstance(found, Misfit):
        rule = "W03" if found.rule.startswith("J") else found.rule
        message = f"property '{assign.property}' of {type_.name}: {found.reason}"
        raise data_error(
            [
                Problem(
                    rule=rule, message=message, table_key=type_.table_key, property=assign.property
                )
            ]
        )
    return found


def _property_type(type_: TableType, name: str) -> PropertyType:
    return type_.properties[name].type if name in type_.properties else _TEXT


# ---- insert


def _insert(statement: CheckedInsert, mutating: Mutating) -> None:
    type_ = _type(statement.type_name, statement.kind, mutating.catalog)
    values = {a.property: _resolve_value(type_, a, mutating) for a in statement.assignments}
    _require_values(type_, values)
    is_keyed = isinstance(type_, NodeType) and type_.key is not None
    values["id"] = (
        _key(type_, values)
        if isinstance(type_, NodeType) and is_keyed
        else mutating.runtime.new_id()
    )
    row = pa.Table.from_arrays(
        [to_arrow([values.get(name)], _property_type(type_, name)) for name in type_.schema.names],
        schema=type_.schema,
    )
    # A keyed insert replaces the row that has its key.
    mutating.pending.put(type_, row, DeltaKind.MERGE if is_keyed else DeltaKind.INSERT)
    if isinstance(type_, EdgeType):
        mutating.counts.edges += 1
    else:
        mutating.counts.nodes += 1


def _require_values(type_: TableType, values: Mapping[str, object]) -> None:
    """Refuse an insert without a required value, also when a later statement would give one."""
    for name, one in type_.properties.items():
        if not one.type.nullable and values.get(name) is None:
            message = f"the insert gives no value to '{name}' of {type_.name}, which is required"
            raise data_error(
                [Problem(rule="W01", message=message, table_key=type_.table_key, property=name)]
            )


def _key(type_: NodeType, values: Mapping[str, object]) -> str:
    texts = [key_text(values.get(name), type_.properties[name].type) for name in type_.key_columns]
    present = [text for text in texts if text is not None]
    if len(present) != len(texts):
        message = f"the key of {type_.name} has no finite value"
        raise data_error([Problem(rule="W04", message=message, table_key=type_.table_key)])
    return present[0] if len(present) == 1 else composite_id(present)


# ---- update


def _update(statement: CheckedUpdate, mutating: Mutating) -> None:
    type_ = mutating.catalog.nodes[statement.type_name]
    _refuse_keys(type_, statement.assignments)
    values = {a.property: _resolve_value(type_, a, mutating) for a in statement.assignments}
    rows = _matching_rows(type_, statement.where, mutating)
    for name, value in values.items():
        place = rows.schema.get_field_index(name)
        filled = repeat_value(value, type_.properties[name].type, rows.num_rows)
        rows = rows.set_column(place, type_.schema.field(name), filled)
    mutating.pending.put(type_, rows, DeltaKind.UPDATE)
    mutating.counts.nodes += rows.num_rows


def _refuse_keys(type_: NodeType, assignments: Sequence[Assign]) -> None:
    for assign in assignments:
        if assign.property in type_.key_columns:
            message = (
                f"'{assign.property}' is a key of {type_.name} and cannot be updated; delete the entity "
                "and insert it again"
            )
            raise data_error(
                [
                    Problem(
                        rule="W05",
                        message=message,
                        table_key=type_.table_key,
                        property=assign.property,
                    )
                ]
            )


# ---- delete


def _delete(statement: CheckedDelete, mutating: Mutating) -> None:
    type_ = _type(statement.type_name, statement.kind, mutating.catalog)
    ids = _read_committed_ids(type_, statement.where, mutating)
    removed = mutating.pending.delete(type_, ids)
    if isinstance(type_, EdgeType):
        mutating.counts.edges += removed
        return
    mutating.counts.nodes += removed
    for edge in mutating.catalog.incident(type_.name):
        mutating.counts.edges += mutating.pending.delete(edge, _cascade(edge, type_, ids, mutating))


def _cascade(edge: EdgeType, node: TableType, ids: pa.Array, mutating: Mutating) -> pa.Array:
    """Ids of the edges that start or end at removed nodes."""
    sides = [s for s, end in (("src", edge.source), ("dst", edge.target)) if end == node.name]
    if not len(ids):
        return pa.array([], pa.string())
    found = [mutating.committed.where(edge.table_key, side, ids, ["id"]) for side in sides]
    return pa.concat_arrays([column(rows, "id") for rows in found])


# ---- what a predicate matches


def _read_committed_ids(type_: TableType, where: Where, mutating: Mutating) -> pa.Array:
    """Ids of committed rows that satisfy a predicate."""
    value = _spell_key(_value(where.value, mutating), where.value, where.type)
    if value is None:
        return pa.array([], pa.string())
    if where.op == "=" and _is_identity(type_, where.column):
        wanted = pa.array([value], pa.string())
        return column(mutating.committed.where(type_.table_key, "id", wanted, ["id"]), "id")
    return column(_satisfying(type_, where, value, ["id"], mutating), "id")


def _read_committed_rows(type_: NodeType, where: Where, mutating: Mutating) -> pa.Table:
    """Whole committed rows that satisfy a predicate."""
    value = _value(where.value, mutating)
    if value is None:
        return type_.schema.empty_table()
    if where.op == "=" and _is_identity(type_, where.column):
        found = mutating.committed.whole(type_.table_key, pa.array([value], pa.string()))
    else:
        found = _satisfying(type_, where, value, type_.schema.names, mutating)
    return found.select(type_.schema.names).cast(type_.schema)


def _satisfying(
    type_: TableType, where: Where, value: object, names: Sequence[str], mutating: Mutating
) -> pa.Table:
    """Columns of the rows that satisfy a predicate; storage filters where it compares as we do."""
    test = Compare(
        left=PropertyRef(variable="", property=where.column, type=where.type),
        op=where.op,
        right=Const(value=value, type=where.type),
    )
    filter = render_filter(test, lambda _: value)
    if filter is not None:
        return mutating.committed.matching(type_.table_key, names, filter)
    wanted = list(dict.fromkeys([*names, where.column]))
    rows = mutating.committed.matching(type_.table_key, wanted)
    return rows.filter(_holds(rows, where, value)).select(list(names))


def _is_identity(type_: TableType, name: str) -> bool:
    """Whether equality on a property is equality on the id."""
    is_key = isinstance(type_, NodeType) and type_.key_columns == (name,)
    return is_key and type_.properties[name].type.scalar is Scalar.STRING


def _holds(rows: pa.Table, where: Where, value: object) -> pa.Array:
    truth = compare_value(
        column(rows, where.column), where.type, coerce(where.op, value, where.type)
    )
    return pc.fill_null(truth, False)


def _matching_rows(type_: NodeType, where: Where, mutating: Mutating) -> pa.Table:
    """Whole rows that satisfy a predicate: pending ones, and committed ones they do not hide."""
    committed = _read_committed_rows(type_, where, mutating)
    pending = mutating.pending.rows(type_)
    value = _value(where.value, mutating)
    if not pending.num_rows or value is None:
        return committed
    hidden = pc.is_in(committed["id"], value_set=column(pending, "id"))
    visible = committed.filter(pc.invert(hidden))
    return pa.concat_tables([pending.filter(_holds(pending, where, value)), visible])
