"""Reading at a point in history: which schema a query is meant for, and what properties were called then.

A query is taken as one for the schema of now: what was renamed since is found by its identity, what was added
since was not there. One that does not fit the schema of now is taken as one of that time.
"""

from omnigraph.catalog.contract import Contract
from omnigraph.catalog.model import Catalog, TableType
from omnigraph.compile.checked import CheckedRead
from omnigraph.compile.plan import Plan
from omnigraph.engine.held.plans import Plans
from omnigraph.engine.read.opened import NO_NAMES, Names
from omnigraph.errors import QueryError
from omnigraph.language.source import Source
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.view import View
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A query that is ready to run, with the schema it is for and the tables as that schema calls them."""

    checked: CheckedRead
    plan: Plan
    catalog: Catalog
    snapshot: Snapshot
    names: Names


def compiled(plans: Plans, view: View, source: Source, name: str | None) -> Compiled:
    """Compile a query for what a view shows."""
    try:
        checked, plan = plans.read(view.contract, source, name)
    except QueryError as error:
        return _as_of_then(plans, view, source, name, error)
    return Compiled(
        checked=checked,
        plan=plan,
        catalog=view.catalog,
        snapshot=view.snapshot,
        names=NO_NAMES if view.past is None else names_then(view.contract, view.past),
    )


def _as_of_then(
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


def names_then(now: Contract, then: Contract) -> Names:
    """The columns of properties at another time, for the tables where a name meant something else."""
    before = {type_.type_id: type_ for type_ in then.catalog.tables.values()}
    pairs = (
        (key, type_, before[type_.type_id])
        for key, type_ in now.catalog.tables.items()
        if type_.type_id in before
    )
    return {key: _stored(type_, old) for key, type_, old in pairs if _differ(type_, old)}


def _differ(now: TableType, then: TableType) -> bool:
    shared = {name: name for name in now.properties if name in then.properties}
    return _stored(now, then) != shared


def _stored(now: TableType, then: TableType) -> dict[str, str]:
    names = {one.property_id: name for name, one in then.properties.items()}
    return {
        name: names[one.property_id]
        for name, one in now.properties.items()
        if one.property_id in names
    }
