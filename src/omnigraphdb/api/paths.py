"""A path between two nodes as a value: its nodes, its edges, and what it costs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypedDict

from omnigraphdb.catalog.model import Catalog, EdgeType
from omnigraphdb.display import Displayable, Grid, Report, count_of
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Codec, Value, derived, wire

Ask = Callable[[str, Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""Runs a query and gives its rows."""

_SYSTEM: Final = ("type", "id", "from", "to")

PathEdgeOutput = TypedDict(
    "PathEdgeOutput",
    {"type": str, "id": str, "from": str, "to": str, "properties": dict[str, Any]},
)
"""An edge of a path; it may be walked against its direction."""


def _spell_edges(edges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **{name: edge[name] for name in _SYSTEM},
            "properties": {name: value for name, value in edge.items() if name not in _SYSTEM},
        }
        for edge in edges
    ]


def _read_edges(edges: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple({name: edge[name] for name in _SYSTEM} | edge["properties"] for edge in edges)


_EDGES: Final = Codec(encode=_spell_edges, decode=_read_edges, hint=list[PathEdgeOutput])
_COST: Final = Codec(encode=lambda cost: cost, decode=lambda cost: cost, hint=float)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPath(Displayable, Value):
    """A path between two nodes of a type; without `by` its cost is the number of its hops."""

    type_name: str = field(metadata=wire("type"))
    nodes: tuple[str, ...]
    """The ids of the nodes, from the first to the last."""
    edges: tuple[Mapping[str, Any], ...] = field(metadata=wire(codec=_EDGES))
    """The edges in between: `type`, `id`, `from`, `to` and their properties."""
    cost: float | int = field(metadata=wire(codec=_COST))

    @derived
    def hops(self) -> int:
        """The number of edges."""
        return len(self.edges)

    def _report(self) -> Report:
        rows = [(one["type"], one["from"], one["to"], one["id"]) for one in self.edges]
        grid = Grid(columns=("edge", "from", "to", "id"), rows=rows)
        ends = f"{self.type_name} {self.nodes[0]} to {self.nodes[-1]}"
        return Report(
            title=f"{ends}: {count_of(self.hops, 'hop')}, cost {self.cost}", grids=(grid,)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths(Value):
    """The best paths between two nodes, the best first."""

    commit: str | None = field(metadata=wire("graph_commit_id"))
    paths: tuple[EntityPath, ...]


def find_paths(
    ask: Ask,
    catalog: Catalog,
    type_name: str,
    ends: tuple[str, str],
    *,
    edges: Sequence[str] | None,
    by: str | None,
    undirected: bool,
    hops_max: int,
    best: int,
) -> tuple[EntityPath, ...]:
    """Find the best paths between two nodes of a type that exist, by a query."""
    types = _find_edges(catalog, type_name, edges)
    text = _write_query(type_name, types, by, undirected=undirected, best=best)
    params = {"start": ends[0], "end": ends[1], "hops": hops_max, "best": best}
    return tuple(
        EntityPath(
            type_name=type_name,
            nodes=tuple(row["nodes"]),
            edges=tuple({"type": types[0].name} | one for one in row["edges"]),
            cost=row["cost"] if by is not None and row["edges"] else len(row["edges"]),
        )
        for row in ask(text, params)
    )


def _find_edges(catalog: Catalog, type_name: str, edges: Sequence[str] | None) -> list[EdgeType]:
    """Find the edge types by name; all that connect the type with itself without names."""
    between = [one for one in catalog.edges.values() if {one.source, one.target} == {type_name}]
    if edges is None:
        if not between:
            raise UserInputError(
                f"no edge type leads from {type_name} to {type_name}, so there are no paths; nothing was read"
            )
        return between
    found = [_find_edge(catalog, one) for one in edges]
    if not found:
        raise UserInputError("'edges' names no edge type; nothing was read")
    other = next((one for one in found if one not in between), None)
    if other is not None:
        raise UserInputError(
            f"edge '{other.name}' leads from {other.source} to {other.target}, and a path between nodes of {type_name} "
            "takes edges from it to itself; nothing was read"
        )
    return found


def _find_edge(catalog: Catalog, name: str) -> EdgeType:
    found = catalog.edges.get(name) or catalog.edge(name)
    if found is None:
        raise NotFound("edge type", name, known=catalog.edges)
    return found


def _write_query(
    type_name: str, types: Sequence[EdgeType], by: str | None, *, undirected: bool, best: int
) -> str:
    for one in types if by is not None else ():
        if by not in one.properties:
            raise NotFound(f"property of {one.name}", str(by), known=one.properties)
    words = "|".join(one.name[0].lower() + one.name[1:] for one in types)
    edge = f"<{words}>" if undirected else words
    chosen = f" by {by}" if by is not None else ""
    chosen += " best $best" if best > 1 else ""
    cost = f", sum($w.{by}) as cost" if by is not None else ""
    counted = ", $best: I64" if best > 1 else ""
    return (
        f"query path($start: String, $end: String, $hops: I64{counted}) {{\n"
        f"  match {{ $x: {type_name}  $y: {type_name}  id($x) = $start  id($y) = $end\n"
        f"    $x $w:{edge}{{0,$hops{chosen}}} $y }}\n"
        f"  return {{ nodes($w) as nodes, edges($w) as edges{cost} }}\n}}"
    )
