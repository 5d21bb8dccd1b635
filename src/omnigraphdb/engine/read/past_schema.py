"""Reading an earlier commit: the schema that a query is compiled for, and the names that properties had then.

A query is compiled for the present schema: a renamed property is found by its identity, a property that was dropped
and added again by its name, and a property that was added since has no value. A query that does not fit the present
schema, or that reads a property which came back with another type, or a type that was dropped and declared again, is
compiled for the schema of that commit.

A query with an open form (`$v.*`, `entity`, `edges`, `type`, an interface, `--`) speaks of all types or properties that
there are, and means those of that commit: it is compiled for the schema of that commit, under the names of then or, if
it does not fit these, of now.
"""

from collections.abc import Iterator

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.ir.past import lasts_whole
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
class PastSchema:
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
        if other is None and lasts_whole(view.past, view.contract):
            return present
        raise


def _compile_for_past(
    plans: Plans, view: View, source: Source, name: str | None, error: QueryError
) -> Compiled:
    """Compile a query for the schema of a commit; raises the given error if it does not fit that either."""
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


def list_past_schemas(plans: Plans, view: View) -> Iterator[PastSchema]:
    """The schema of the commit that a view shows, if it is another one: in the words of then, and in those of now."""
    if view.past is None:
        return
    yield PastSchema(contract=view.past, snapshot=view.state.snapshot, names=NO_NAMES)
    renamed = plans.past_schema(view.contract, view.past)
    if renamed is not None:
        yield PastSchema(
            contract=renamed,
            snapshot=by_identity(view.state.snapshot, renamed),
            names=map_past_names(renamed, view.past),
        )


def find_shown_schema(plans: Plans, view: View) -> PastSchema:
    """The types and tables of a view under present names, what was dropped since included."""
    *_, renamed = (None, *list_past_schemas(plans, view))
    return renamed or PastSchema(contract=view.contract, snapshot=view.snapshot, names=NO_NAMES)


def _refuse_open_forms(read: CheckedRead) -> QueryError:
    forms = ", ".join(f"'{one}'" for one in read.open_forms)
    return QueryError(
        f"{forms} would leave out what was dropped since this commit, and the query does not fit the schema of this"
        " commit; nothing was read",
        hint="write the query for the schema of that commit, or name types and properties",
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
        tables = read.variables[one.variable].tables
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


def _find_redeclared_type(read: CheckedRead, now: Contract, then: Contract) -> QueryError | None:
    """Find a type of the query that was dropped since then and declared again; the error names it, None if there is none."""
    again = set(_list_redeclared(now, then))
    if not again:
        return None
    used = {key for one in read.variables.values() for key in one.tables}
    hops = (hop for pattern in read.patterns for hop in _list_hops(pattern))
    used |= {edge_key(name) for hop in hops for name in split_types(hop.edge)}
    if not again & used:
        return None
    name = type_name(min(again & used))
    return QueryError(
        f"{name} of this commit was dropped, and was declared again since; the query does not fit the schema of this"
        " commit; nothing was read",
        hint="write the query for the schema of that commit",
    )


def _list_hops(pattern: Pattern) -> Iterator[Hop]:
    yield from pattern.hops
    for block in pattern.nested:
        yield from _list_hops(block)


def _list_redeclared(now: Contract, then: Contract) -> Iterator[TableKey]:
    """List the types that were dropped since then and declared again under the same name; renamed ones are not among them."""
    still = {one.type_id for one in now.catalog.tables.values()}
    before = {one.type_id for one in then.catalog.tables.values()}
    for key, type_ in now.catalog.tables.items():
        old = then.catalog.tables.get(key)
        if old is not None and old.type_id not in still and type_.type_id not in before:
            yield key


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
