"""Plans that are lookups: one node by its id, the nodes near it, and nothing else."""

from collections.abc import Sequence

from omnigraphdb.catalog.mixed import is_mixed
from omnigraphdb.compile.checked import Compare, Const, EntityRef, Field, ParamRef, PropertyRef
from omnigraphdb.compile.plan.operators import (
    Expand,
    Group,
    Multiplicity,
    Operator,
    Output,
    Project,
    Scan,
    Tally,
)
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lookup:
    """Find the node with an `id`, walk the hops, and show columns of the last nodes; without columns, count the walks.

    It stands for its plan: two of them are never equal.
    """

    type_name: str
    id: Const | ParamRef
    hops: tuple[Expand, ...]
    shown_type: str
    columns: tuple[str, ...]


def find_lookup(root: Project) -> Lookup | None:
    """Read a plan as a lookup, if it does nothing else."""
    is_counted = _counts_rows(root)
    walk = root.input.input if is_counted and isinstance(root.input, Group) else root.input
    hops, start = _split_walk(walk)
    identity = _identity(start)
    if not isinstance(start, Scan) or identity is None or is_mixed(start.type_name):
        return None
    multiplicity = Multiplicity.COUNTED if is_counted else Multiplicity.EACH
    if not all(_is_plain(hop, multiplicity) for hop in hops) or not _is_chain(start.variable, hops):
        return None
    columns = (
        () if is_counted else _columns(root.columns, hops[-1].target if hops else start.variable)
    )
    if not (is_counted and hops) and not (columns and len(hops) <= 1):
        return None
    return Lookup(
        type_name=start.type_name,
        id=identity,
        hops=hops,
        shown_type=hops[-1].target_type if hops else start.type_name,
        columns=columns,
    )


def _counts_rows(root: Project) -> bool:
    """Whether the result is the number of rows, and nothing else."""
    match root:
        case Project(
            input=Group(
                keys=(),
                tallies=(Tally(name=counted, function="count", argument=None, distinct=False),),
            ),
            columns=(Output(expr=Field(name=shown)),),
        ):
            return shown == counted
        case _:
            return False


def _split_walk(operator: Operator) -> tuple[tuple[Expand, ...], Operator]:
    """Split hops, the first one first, from the operator at which they start."""
    hops: list[Expand] = []
    while isinstance(operator, Expand):
        hops.append(operator)
        operator = operator.input
    return tuple(reversed(hops)), operator


def _is_chain(start: str, hops: Sequence[Expand]) -> bool:
    """Whether every hop goes on from where the one before it leads."""
    sources = [start, *(hop.target for hop in hops)]
    return all(hop.source == source for hop, source in zip(hops, sources, strict=False))


def _identity(start: Operator) -> Const | ParamRef | None:
    match start:
        case Scan(
            filter=(Compare(left=EntityRef(), op="=", right=Const() | ParamRef() as fixed),),
            search=(),
        ):
            return fixed
        case _:
            return None


def _is_plain(hop: Expand, multiplicity: Multiplicity) -> bool:
    """Whether a hop gives every neighbour once, and nothing else."""
    is_single = hop.low == hop.high == 1 and hop.multiplicity is multiplicity
    if is_mixed(hop.edge) or is_mixed(hop.target_type) or hop.where:
        return False
    return is_single and hop.edge_variable is None and not (hop.closes or hop.any_edge)


def _columns(outputs: Sequence[Output], variable: str) -> tuple[str, ...]:
    """List the columns that are shown; return none when an output is not a column of the node."""
    names = []
    for output in outputs:
        match output.expr:
            case PropertyRef(variable=owner, property=name) if owner == variable:
                names.append(name)
            case EntityRef(variable=owner) if owner == variable:
                names.append("id")
            case _:
                return ()
    return tuple(names)
