"""Assign a computed value to one property of many nodes: one commit, or nothing."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, NodeType
from omnigraphdb.commit.delta import DeltaKind, Deltas, TableDelta
from omnigraphdb.commit.plan import ANONYMOUS, WriteOptions, mint_header
from omnigraphdb.commit.sidecar import WriterKind
from omnigraphdb.engine.after_commit import after_commit
from omnigraphdb.engine.attempt import attempt
from omnigraphdb.engine.results import MutationResult, public_commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.write.prepare import open_committed_rows, prepare_deltas
from omnigraphdb.engine.writer import Prepared
from omnigraphdb.errors import NotFound, UserInputError, shorten
from omnigraphdb.ids import BranchName
from omnigraphdb.manifest.names import branch_name
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.arrow import column

_FITTING: Final = "write ranks to an F64 property, component and group numbers to an I64 property"


def assign_values(
    engine: Engine,
    type_name: str,
    property_name: str,
    ids: pa.Array,
    values: pa.Array,
    *,
    branch: BranchName,
    options: WriteOptions = ANONYMOUS,
) -> MutationResult:
    """Set a property of the nodes with these ids.

    Ids that no longer exist are left out; values that do not fit the property are refused.
    """
    engine.require_writable("assign")
    target = branch_name(branch, "assign")
    if len(ids) != len(values) or len(pc.unique(ids)) != len(ids):
        raise UserInputError(
            f"{len(ids)} ids, each once, and {len(values)} values do not go together; no changes were made"
        )
    header = mint_header(engine.runtime, WriterKind.MUTATION, CommitKind.MUTATION, options)

    def prepare(view: View) -> Prepared[int]:
        type_ = require_property(view.catalog, type_name, property_name)
        committed = open_committed_rows(engine, view)
        rows = committed.matching(type_.table_key, type_.schema.names)
        rows = rows.select(type_.schema.names).cast(type_.schema)
        changed = _set_changed(rows, type_, property_name, ids, values)
        delta = TableDelta(type=type_, kind=DeltaKind.UPDATE, rows=changed)
        deltas = Deltas({type_.table_key: delta})
        plan = prepare_deltas(view, deltas, committed, engine.workers, header)
        return Prepared(plan, changed.num_rows)

    done = attempt(engine, target, prepare, str(header.commit_kind))
    after_commit(engine, done)
    return MutationResult(
        branch=target,
        query_name=f"{type_name}.{property_name}",
        affected_nodes=done.outcome,
        affected_edges=0,
        actor=options.actor,
        commit=public_commit(done.commit),
    )


def require_property(catalog: Catalog, type_name: str, property_name: str) -> NodeType:
    """Refuse a property that cannot hold numbers."""
    if not type_name or not property_name:
        raise UserInputError(
            f"'{type_name}' names no property; no changes were made", hint='as in "Person.rank"'
        )
    type_ = catalog.nodes.get(type_name)
    if type_ is None:
        raise NotFound("node type", type_name, known=catalog.nodes)
    if property_name not in type_.properties:
        raise NotFound(f"property of {type_name}", property_name, known=type_.properties)
    if property_name in type_.key_columns:
        raise UserInputError(
            f"'{property_name}' is a key of {type_name} and cannot be written; no changes were made"
        )
    if not _is_number(type_.schema.field(property_name).type):
        raise UserInputError(
            f"numbers do not fit {type_name}.{property_name}, which is "
            f"{type_.properties[property_name].type}: it is not a number; no changes were made",
            hint=_FITTING,
        )
    return type_


def _set_changed(
    rows: pa.Table, type_: NodeType, property_name: str, ids: pa.Array, values: pa.Array
) -> pa.Table:
    """Return the rows whose value changes, with the new value."""
    field = type_.schema.field(property_name)
    fitted = _fit_values(values, field, type_)
    offsets = pc.index_in(column(rows, "id"), ids)
    after = fitted.take(offsets)
    before = column(rows, property_name)
    # NULL differs from every value, but not from NULL.
    only_one_is_null = pc.xor(before.is_null(), after.is_null())
    differs = pc.or_(only_one_is_null, pc.fill_null(pc.not_equal(before, after), False))
    changed = pc.and_(offsets.is_valid(), differs).to_numpy(zero_copy_only=False)
    changed_rows = rows.take(pa.array(np.flatnonzero(changed)))
    column_index = rows.schema.get_field_index(property_name)
    return changed_rows.set_column(column_index, field, after.filter(pa.array(changed)))


def _fit_values(values: pa.Array, field: pa.Field, type_: NodeType) -> pa.Array:
    """Give numbers the type of a property; a narrower float may round, a whole number may not lose its fraction."""
    is_float = pa.types.is_floating(field.type)
    try:
        if not (_is_number(values.type) and _is_number(field.type)):
            raise pa.ArrowInvalid("it is not a number")
        fitted = values.cast(field.type, safe=not is_float)
        if is_float and not pc.all(pc.is_finite(fitted), min_count=0).as_py():
            raise pa.ArrowInvalid("it is not finite")
    except pa.ArrowInvalid as error:
        raise UserInputError(
            f"values of type {values.type} do not fit {type_.name}.{field.name}, which is {type_.properties[field.name].type}: "
            f"{shorten(str(error))}; no changes were made",
            hint=_FITTING,
        ) from error
    return fitted


def _is_number(type_: pa.DataType) -> bool:
    return any(
        is_kind(type_) for is_kind in (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    )
