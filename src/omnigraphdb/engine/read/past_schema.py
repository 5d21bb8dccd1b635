"""Reading an earlier commit: the schema that a query is compiled for, and the names of properties at that commit.

A query is compiled for the present schema: a renamed property is found by its identity, a property that was dropped
and added again by its name, and a property that was added since has no value. A query that does not fit the present
schema, or that reads a property which came back with another type, or a type that was dropped and declared again, is
compiled for the schema of that commit.

A query with an open form (`$v.*`, `entity`, `edges`, `type`, an interface, `--`) covers all types or properties of that
commit. It is compiled for the schema of that commit, under the names of that commit or, if it does not fit these, under
present names.
"""

from collections.abc import Iterator

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.ir.past import is_unchanged_since
from omnigraphdb.catalog.mixed import split_types
from omnigraphdb.catalog.model import Catalog, TableType
from omnigraphdb.compile.checked import CheckedRead, Hop, Pattern
from omnigraphdb.compile.plan.plan import Plan
from omnigraphdb.compile.plan.visit import list_references
from omnigraphdb.engine.cached.plans import Plans
from omnigraphdb.engine.read.snapshot_tables import NO_NAMES, Names
from omnigraphdb.errors import QueryError
from omnigraphdb.ids import TableKey, edge_key, type_name
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.view import View, by_identity
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierSchema:
    """A schema of an earlier commit, with its tables under the names of that schema."""

    contract: Contract
    snapshot: Snapshot
    names: Names


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
    present = Compiled(
        checked=checked,
        plan=plan,
        catalog=view.catalog,
        snapshot=view.snapshot,
        names=NO_NAMES if view.past is None else map_past_names(view.contract, view.past),
    )
    if view.past is None:
        return present
    other = _find_retyped_property(checked, view.contract, view.past)
    other = other or _find_redeclared_type(checked, view.contract, view.past)
    if other is None and not checked.open_forms:
        return present
    try:
        return _compile_for_past(plans, view, source, name, other or _refuse_open_forms(checked))
    except QueryError:
        if other is None and is_unchanged_since(view.past, view.contract):
            return present
        raise


def _compile_for_past(
    plans: Plans, view: View, source: Source, name: str | None, error: QueryError
) -> Compiled:
    """Compile a query for the schema of a commit; raise `error` if it does not fit that schema either."""
    for schema in list_past_schemas(plans, view):
        try:
            checked, plan = plans.read(schema.contract, source, name)
        except QueryError:
            continue
        return Compiled(
            checked=checked,
            plan=plan,
            catalog=schema.contract.catalog,
            snapshot=schema.snapshot,
            names=schema.names,
        )
    raise error from None


def list_past_schemas(plans: Plans, view: View) -> Iterator[EarlierSchema]:
    """List the schema of the commit that a view shows, if it is not the present one: under past, then present names."""
    if view.past is None:
        return
    yield EarlierSchema(contract=view.past, snapshot=view.state.snapshot, names=NO_NAMES)
    renamed = plans.past_schema(view.contract, view.past)
    if renamed is not None:
        yield EarlierSchema(
            contract=renamed,
            snapshot=by_identity(view.state.snapshot, renamed),
            names=map_past_names(renamed, view.past),
        )


def find_shown_schema(plans: Plans, view: View) -> EarlierSchema:
    """Return the types and tables of a view under present names, including the types that were dropped since."""
    *_, renamed = (None, *list_past_schemas(plans, view))
    return renamed or EarlierSchema(contract=view.contract, snapshot=view.snapshot, names=NO_NAMES)


def _refuse_open_forms(read: CheckedRead) -> QueryError:
    forms = ", ".join(f"'{form}'" for form in read.open_forms)
    return QueryError(
        f"{forms} would leave out types or properties that were dropped since this commit, and the query does"
        " not fit the schema of this commit; nothing was read",
        hint="write the query for the schema of that commit, or name types and properties",
    )


def _find_retyped_property(
    read: CheckedRead, current: Contract, earlier: Contract
) -> QueryError | None:
    """Find a property of the query that had another type at the commit.

    The returned error names it; None if there is no such property.
    """
    retyped = {
        (key, name): (old.properties[name].type, type_.properties[name].type)
        for key, type_, old in _list_lasting_types(current, earlier)
        for name in _list_readded(type_, old)
        if not _has_same_column_type(type_, old, name)
    }
    for reference in list_references(read) if retyped else ():
        tables = read.variables[reference.variable].tables
        types = next(
            (retyped[at] for at in ((t, reference.property) for t in tables) if at in retyped), None
        )
        if types is not None:
            former, present = types
            type_name = read.variables[reference.variable].type_name
            return QueryError(
                f"property '{reference.property}' of {type_name} was {former} at this commit, was dropped, and is {present} "
                "since it was added again; the query fits neither schema as a whole; nothing was read",
                hint="write the query for the schema of that commit, or leave the property out",
            )
    return None


def _find_redeclared_type(
    read: CheckedRead, current: Contract, earlier: Contract
) -> QueryError | None:
    """Find a type of the query that was dropped since the commit and declared again.

    The returned error names it; None if there is no such type.
    """
    redeclared = set(_list_redeclared(current, earlier))
    if not redeclared:
        return None
    used = {key for variable in read.variables.values() for key in variable.tables}
    hops = (hop for pattern in read.patterns for hop in _list_hops(pattern))
    used |= {edge_key(name) for hop in hops for name in split_types(hop.edge)}
    if not redeclared & used:
        return None
    name = type_name(min(redeclared & used))
    return QueryError(
        f"{name} of this commit was dropped, and was declared again since; the query does not fit the schema of this"
        " commit; nothing was read",
        hint="write the query for the schema of that commit",
    )


def _list_hops(pattern: Pattern) -> Iterator[Hop]:
    yield from pattern.hops
    for block in pattern.nested:
        yield from _list_hops(block)


def _list_redeclared(current: Contract, earlier: Contract) -> Iterator[TableKey]:
    """List the types that were dropped since the commit and declared again under the same name.

    Renamed types are left out.
    """
    still = {table_type.type_id for table_type in current.catalog.tables.values()}
    before = {table_type.type_id for table_type in earlier.catalog.tables.values()}
    for key, type_ in current.catalog.tables.items():
        old = earlier.catalog.tables.get(key)
        if old is not None and old.type_id not in still and type_.type_id not in before:
            yield key


def map_past_names(current: Contract, earlier: Contract) -> Names:
    """Map present property names to past columns, for the tables in which some name differs."""
    pairs = _list_lasting_types(current, earlier)
    return {key: _map_stored_names(type_, old) for key, type_, old in pairs if _differ(type_, old)}


def _list_lasting_types(
    current: Contract, earlier: Contract
) -> Iterator[tuple[TableKey, TableType, TableType]]:
    """List the types that both schemas have, by their present key."""
    before = {type_.type_id: type_ for type_ in earlier.catalog.tables.values()}
    for key, type_ in current.catalog.tables.items():
        if type_.type_id in before:
            yield key, type_, before[type_.type_id]


def _differ(current: TableType, earlier: TableType) -> bool:
    shared = {name: name for name in current.properties if name in earlier.properties}
    return _map_stored_names(current, earlier) != shared


def _map_stored_names(current: TableType, earlier: TableType) -> dict[str, str]:
    names = {property_.property_id: name for name, property_ in earlier.properties.items()}
    lasting = {
        name: names[property_.property_id]
        for name, property_ in current.properties.items()
        if property_.property_id in names
    }
    return lasting | {
        name: name
        for name in _list_readded(current, earlier)
        if _has_same_column_type(current, earlier, name)
    }


def _list_readded(current: TableType, earlier: TableType) -> Iterator[str]:
    """List the properties that were dropped since the commit and added again under the same name.

    Renamed properties are left out.
    """
    still = {property_.property_id for property_ in current.properties.values()}
    before = {property_.property_id for property_ in earlier.properties.values()}
    for name, property_ in current.properties.items():
        old = earlier.properties.get(name)
        if old is not None and old.property_id not in still and property_.property_id not in before:
            yield name


def _has_same_column_type(current: TableType, earlier: TableType, name: str) -> bool:
    """Whether past values fit the present type: the column type is the same, only NULL may differ."""
    return bool(current.properties[name].type.arrow == earlier.properties[name].type.arrow)
