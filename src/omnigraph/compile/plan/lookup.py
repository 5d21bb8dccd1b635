"""Lookups: reads that find one node by its id and show it, or the nodes one hop away from it."""

from collections.abc import Sequence

from omnigraph.compile.checked import Compare, Const, EntityRef, ParamRef, PropertyRef
from omnigraph.compile.plan.operators import Expand, Multiplicity, Operator, Output, Project, Scan
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lookup:
    """Find the node with an `id`, walk the `hop` if there is one, and show columns of where that leads.

    It stands for its plan: two of them are never equal.
    """

    type_name: str
    id: Const | ParamRef
    hop: Expand | None
    shown_type: str
    columns: tuple[str, ...]


def lookup_of(root: Project) -> Lookup | None:
    """Take a plan for a lookup, if it is no more than that."""
    hop = root.input if isinstance(root.input, Expand) else None
    start = root.input if hop is None else hop.input
    identity = _identity(start)
    if not isinstance(start, Scan) or identity is None or not (hop is None or _is_plain(hop)):
        return None
    columns = _columns(root.columns, start.variable if hop is None else hop.target)
    if not columns:
        return None
    return Lookup(
        type_name=start.type_name,
        id=identity,
        hop=hop,
        shown_type=start.type_name if hop is None else hop.target_type,
        columns=columns,
    )


def _identity(start: Operator) -> Const | ParamRef | None:
    match start:
        case Scan(
            filter=(Compare(left=EntityRef(), op="=", right=Const() | ParamRef() as fixed),),
            search=(),
        ):
            return fixed
        case _:
            return None


def _is_plain(hop: Expand) -> bool:
    """Whether a hop gives every neighbour once, and nothing else."""
    is_one = hop.low == hop.high == 1 and hop.multiplicity is Multiplicity.EACH
    return is_one and hop.edge_variable is None and not hop.closes


def _columns(outputs: Sequence[Output], variable: str) -> tuple[str, ...]:
    """The columns that are shown; none when anything else is."""
    found = []
    for one in outputs:
        match one.expr:
            case PropertyRef(variable=owner, property=name) if owner == variable:
                found.append(name)
            case EntityRef(variable=owner) if owner == variable:
                found.append("id")
            case _:
                return ()
    return tuple(found)
