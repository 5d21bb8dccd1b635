"""Reading an earlier commit: the schema that a query is compiled for, and the names that properties had then.

A query is compiled for the present schema: a renamed property is found by its identity, a property that was dropped
and added again by its name, and a property that was added since has no value. A query that does not fit the present
schema, or that reads a property which came back with another type, is compiled for the schema of that commit.
"""

from collections.abc import Iterator

from omnigraph.catalog.ir.contract import Contract
from omnigraph.catalog.model import Catalog, TableType
from omnigraph.compile.checked import CheckedRead, Variable, VariableKind
from omnigraph.compile.plan.plan import Plan
from omnigraph.compile.plan.visit import list_references
from omnigraph.engine.cached.plans import Plans
from omnigraph.engine.read.snapshot_tables import NO_NAMES, Names
from omnigraph.errors import QueryError
from omnigraph.ids import TableKey, edge_key, node_key
from omnigraph.language.source import Source
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.view import View
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A compiled query, with its schema and the tables under the names of that schema."""

    checked: CheckedRead
    plan: Plan
    catalog: Catalog
    snapshot: Snapshot
    names: Names


def compile_as_of(plans: Plans, view: View, source: Source, name: str | None) -> Compiled:
    """Compile a query for the state that a view shows."""
    try:
        checked, plan = plans.read(view.contract, source, name)
    except QueryError as error:
        return _compile_for_past(plans, view, source, name, error)
    other = None if view.past is None else _find_retyped_property(checked, view.contract, view.past)
    if other is not None:
        return _compile_for_past(plans, view, source, name, other)
    return Compiled(
        checked=checked,
        plan=plan,
        catalog=view.catalog,
        snapshot=view.snapshot,
        names=NO_NAMES if view.past is None else map_past_names(view.contract, view.past),
    )


def _compile_for_past(
    plans: Plans, view: View, source: Source, name: str | None, error: QueryError
) -> Compiled:
    if view.past is None:
        raise error
    try:
        checked, plan = plans.read(view.past, source, name)
    except QueryError:
        raise error from None
    snapshot = view.state.snapshot
    return Compiled(
        checked=checked, plan=plan, catalog=view.past.catalog, snapshot=snapshot, names=NO_NAMES
    )


def _find_retyped_property(read: CheckedRead, now: Contract, then: Contract) -> QueryError | None:
    """Find a property of the query that had another type then; the error names it, None if there is none."""
    others = {
        (key, name): (old.properties[name].type, type_.properties[name].type)
        for key, type_, old in _list_lasting_types(now, then)
        for name in _list_readded(type_, old)
        if not _has_same_column_type(type_, old, name)
    }
    for one in list_references(read) if others else ():
        tables = _list_tables(read.variables[one.variable])
        found = next(
            (others[at] for at in ((t, one.property) for t in tables) if at in others), None
        )
        if found is not None:
            before, since = found
            type_name = read.variables[one.variable].type_name
            return QueryError(
                f"property '{one.property}' of {type_name} was {before} at this commit, was dropped, and is {since} "
                "since it was added again; the query fits neither schema as a whole; nothing was read",
                hint="write the query for the schema of that commit, or leave the property out",
            )
    return None


def _list_tables(variable: Variable) -> list[TableKey]:
    match variable.kind:
        case VariableKind.NODE:
            return [node_key(one) for one in variable.types]
        case VariableKind.EDGE | VariableKind.PATH:
            return [edge_key(one) for one in variable.types]


def map_past_names(now: Contract, then: Contract) -> Names:
    """Map present property names to past columns, for the tables in which some name differs."""
    pairs = _list_lasting_types(now, then)
    return {key: _map_stored_names(type_, old) for key, type_, old in pairs if _differ(type_, old)}


def _list_lasting_types(
    now: Contract, then: Contract
) -> Iterator[tuple[TableKey, TableType, TableType]]:
    """List the types that both schemas have, by their present key."""
    before = {type_.type_id: type_ for type_ in then.catalog.tables.values()}
    for key, type_ in now.catalog.tables.items():
        if type_.type_id in before:
            yield key, type_, before[type_.type_id]


def _differ(now: TableType, then: TableType) -> bool:
    shared = {name: name for name in now.properties if name in then.properties}
    return _map_stored_names(now, then) != shared


def _map_stored_names(now: TableType, then: TableType) -> dict[str, str]:
    names = {one.property_id: name for name, one in then.properties.items()}
    lasting = {
        name: names[one.property_id]
        for name, one in now.properties.items()
        if one.property_id in names
    }
    return lasting | {
        name: name for name in _list_readded(now, then) if _has_same_column_type(now, then, name)
    }


def _list_readded(now: TableType, then: TableType) -> Iterator[str]:
    """List the properties that were dropped since then and added again under the same name; renamed ones are not among them."""
    still = {one.property_id for one in now.properties.values()}
    before = {one.property_id for one in then.properties.values()}
    for name, one in now.properties.items():
        old = then.properties.get(name)
        if old is not None and old.property_id not in still and one.property_id not in before:
            yield name


def _has_same_column_type(now: TableType, then: TableType, name: str) -> bool:
    """Whether past values fit the present type: the column type is the same, only NULL may differ."""
    return bool(now.properties[name].type.arrow == then.properties[name].type.arrow)
