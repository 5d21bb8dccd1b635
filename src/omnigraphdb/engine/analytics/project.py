"""A projection: the nodes and edges of chosen types at one moment, as integer arrays."""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, EdgeType
from omnigraphdb.catalog.types import Scalar
from omnigraphdb.engine.analytics.arcs import Arcs, Nodes, Values
from omnigraphdb.engine.read.columns.row_ids import RowIds
from omnigraphdb.engine.read.graph.adjacency import drop_dangling
from omnigraphdb.engine.read.graph.edge_ends import EdgeEnds, NodeIds, read_node_ids
from omnigraphdb.engine.read.past_schema import list_past_schemas, map_past_names
from omnigraphdb.engine.read.snapshot_tables import NO_NAMES, SnapshotTables, open_snapshot
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

_NUMBERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64})


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeUse:
    """The use of an edge type by a projection: the property that weighs its edges, and whether they lead both ways."""

    weight: str | None = None
    undirected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedNodes:
    """The nodes of a projection: those of each type, one type after another."""

    types: Mapping[str, NodeIds]
    starts: Mapping[str, int]
    count: int

    def find(self, type_name: str, id: str) -> int:
        """Find the number of one node."""
        node_ids = self.types.get(type_name)
        if node_ids is None:
            raise NotFound("node type", type_name, known=self.types)
        position = pc.index(node_ids.ids, pa.scalar(id, node_ids.ids.type)).as_py()
        if position < 0:
            raise NotFound(type_name, id)
        return self.starts[type_name] + int(position)

    def number(self, type_name: str, row_ids: RowIds) -> Nodes:
        """Return the numbers of nodes that exist."""
        offsets = self.types[type_name].row_offsets.of(row_ids)
        start = self.starts[type_name]
        return offsets + start if start else offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """The content of a projection: its nodes, the edges of each type, and the arcs that they make."""

    nodes: ProjectedNodes
    edges: Mapping[str, tuple[EdgeType, EdgeEnds]]
    arcs: Arcs


def open_tables(engine: Engine, view: View) -> Iterator[SnapshotTables]:
    """Open the tables of a view by the names of the present schema, then by those of the schema of its commit."""
    names = NO_NAMES if view.past is None else map_past_names(view.contract, view.past)
    yield open_snapshot(view.catalog, view.snapshot, names, engine.store.tables, engine.cache)
    for past in list_past_schemas(engine.plans, view):
        yield open_snapshot(
            past.contract.catalog, past.snapshot, past.names, engine.store.tables, engine.cache
        )


def count_projection(
    tables: SnapshotTables, names: tuple[str, ...], uses: Mapping[str, EdgeUse]
) -> tuple[int, int]:
    """Count the nodes and the arcs of a projection by the fragments of its tables; no rows are read."""
    arcs = [len(tables.edges(name)) * (2 if use.undirected else 1) for name, use in uses.items()]
    return sum(len(tables.nodes(name)) for name in names), sum(arcs)


def read_projection(
    tables: SnapshotTables, names: tuple[str, ...], uses: Mapping[str, EdgeUse]
) -> Projected:
    """Read nodes and edges through the cache: after a commit that changed little, little is read."""
    nodes = _read_nodes(tables, names)
    edges = {
        name: (tables.catalog.edges[name], tables.topology(name).ends.read_all()) for name in uses
    }
    return Projected(nodes=nodes, edges=edges, arcs=_make_arcs(tables, nodes, edges, uses))


def _read_nodes(tables: SnapshotTables, names: tuple[str, ...]) -> ProjectedNodes:
    types: dict[str, NodeIds] = {}
    starts: dict[str, int] = {}
    count = 0
    for name in names:
        types[name], starts[name] = read_node_ids(tables.nodes(name)), count
        count += len(types[name].ids)
    return ProjectedNodes(types=types, starts=starts, count=count)


def _make_arcs(
    tables: SnapshotTables,
    nodes: ProjectedNodes,
    edges: Mapping[str, tuple[EdgeType, EdgeEnds]],
    uses: Mapping[str, EdgeUse],
) -> Arcs:
    """Make arcs of edges; an undirected edge that is not a loop gives two arcs."""
    weighted = any(use.weight is not None for use in uses.values())
    parts = [
        _make_arcs_of(tables, nodes, *edges[name], use, weighted=weighted)
        for name, use in uses.items()
    ]
    sources, targets = _join([part[0] for part in parts]), _join([part[1] for part in parts])
    weights = np.concatenate([part[2] for part in parts]) if weighted else None
    return Arcs(nodes.count, sources, targets, weights)


def _make_arcs_of(
    tables: SnapshotTables,
    nodes: ProjectedNodes,
    edge: EdgeType,
    edge_ends: EdgeEnds,
    use: EdgeUse,
    *,
    weighted: bool,
) -> tuple[Nodes, Nodes, Values]:
    ends, _ = drop_dangling(edge_ends.ends) if edge_ends.dangling else (edge_ends.ends, False)
    weights = np.ones(len(ends.edges) if weighted else 0)
    if use.weight is not None:
        weights = _read_weights(tables, edge, use.weight, ends.edges)
    sources, targets = nodes.number(edge.source, ends.near), nodes.number(edge.target, ends.far)
    if not use.undirected:
        return sources, targets, weights
    back = sources != targets
    return (
        np.concatenate([sources, targets[back]]),
        np.concatenate([targets, sources[back]]),
        np.concatenate([weights, weights[back]]) if weighted else weights,
    )


def _join(parts: list[Nodes]) -> Nodes:
    """Join arrays; one alone is not copied, the cache may have it too."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def check_projection(catalog: Catalog, nodes: tuple[str, ...], uses: Mapping[str, EdgeUse]) -> None:
    """Refuse types that do not exist, edges whose ends are left out, weights that are not numbers."""
    for name in nodes:
        if name not in catalog.nodes:
            raise NotFound("node type", name, known=catalog.nodes)
    for name, use in uses.items():
        edge = catalog.edges.get(name)
        if edge is None:
            raise NotFound("edge type", name, known=catalog.edges)
        missing = sorted({edge.source, edge.target} - set(nodes))
        if missing:
            raise UserInputError(
                f"edges of {name} end at {' and '.join(missing)}, which the projection leaves out; nothing was read",
                hint=f"add {', '.join(missing)} to nodes=",
            )
        _check_weight(edge, use)
    if not nodes or not uses:
        raise UserInputError(
            "a projection needs a node type and an edge type; nothing was read",
            hint='graph.project(nodes=["Person"], edges=["Knows"])',
        )


def _check_weight(edge: EdgeType, use: EdgeUse) -> None:
    if use.weight is None:
        return
    weight = edge.properties.get(use.weight)
    if weight is None:
        raise NotFound(f"property of {edge.name}", use.weight, known=edge.properties)
    if weight.type.scalar not in _NUMBERS or weight.type.is_list or weight.type.is_vector:
        raise UserInputError(
            f"the weight {edge.name}.{use.weight} is of type {weight.type}, which is not a number; nothing was read"
        )


def _read_weights(tables: SnapshotTables, edge: EdgeType, name: str, rows: RowIds) -> Values:
    entities = tables.edges(edge.name)
    weights = entities.whole(name)
    if len(weights) != len(rows):
        weights = weights.take(entities.row_offsets.indices(rows))
    # An integer past 2^53 is rounded, as in all other weights.
    values: Values = weights.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    wrong = int((~np.isfinite(values) | (values < 0)).sum())
    if wrong:
        raise UserInputError(
            f"the weight {edge.name}.{name} is NULL, negative or not finite on {wrong} of {len(values)} edges; nothing was computed",
            hint="a weight is a finite number of at least 0 on every edge",
        )
    return values
