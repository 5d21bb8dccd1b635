"""A projection: the nodes and edges of chosen types at one moment, as integer arrays."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.names import ROW_ID
from omnigraph.catalog.types import Scalar
from omnigraph.engine.analytics.arcs import Arcs, Nodes, Values
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import NotFound, UserInputError
from omnigraph.manifest.view import View
from omnigraph.storage.arrow import column
from omnigraph.values import dataclass

_NUMBERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64})


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeUse:
    """How a projection uses an edge type: the property that weighs its edges, and whether they lead both ways."""

    weight: str | None = None
    undirected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedNodes:
    """The nodes of a projection: ids of each type, one type after another."""

    ids: Mapping[str, pa.Array]
    starts: Mapping[str, int]
    count: int

    def find(self, type_name: str, id: str) -> int:
        """The number of one node."""
        ids = self.ids.get(type_name)
        if ids is None:
            raise NotFound("node type", type_name, known=self.ids)
        place = pc.index(ids, pa.scalar(id, ids.type)).as_py()
        if place < 0:
            raise NotFound(type_name, id)
        return self.starts[type_name] + int(place)


def read_nodes(engine: Engine, view: View, names: tuple[str, ...]) -> ProjectedNodes:
    """Read the ids of some node types."""
    ids: dict[str, pa.Array] = {}
    starts: dict[str, int] = {}
    count = 0
    for name in names:
        found = _read_column(engine, view, view.catalog.nodes[name], "id")
        ids[name], starts[name] = found, count
        count += len(found)
    return ProjectedNodes(ids=ids, starts=starts, count=count)


def read_arcs(
    engine: Engine, view: View, nodes: ProjectedNodes, uses: Mapping[str, EdgeUse]
) -> Arcs:
    """Read the edges of some types; an undirected one that is no loop gives two arcs."""
    parts = [
        _read_edges(engine, view, nodes, view.catalog.edges[name], use)
        for name, use in uses.items()
    ]
    sources, targets, weights, rows = (np.concatenate(one) for one in zip(*parts, strict=True))
    weighted = any(use.weight is not None for use in uses.values())
    # Rows of several tables have the same numbers; the number of the table tells them apart.
    tables = np.repeat(np.arange(len(parts)), [len(one[0]) for one in parts])
    numbers = rows.astype(np.int64) * len(parts) + tables
    return Arcs(nodes.count, sources, targets, weights if weighted else None, numbers)


def check_projection(catalog: Catalog, nodes: tuple[str, ...], uses: Mapping[str, EdgeUse]) -> None:
    """Refuse types that do not exist, edges whose ends are left out, weights that are no numbers."""
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
    found = edge.properties.get(use.weight)
    if found is None:
        raise NotFound(f"property of {edge.name}", use.weight, known=edge.properties)
    if found.type.scalar not in _NUMBERS or found.type.is_list or found.type.is_vector:
        raise UserInputError(
            f"the weight {edge.name}.{use.weight} is of type {found.type}, which is no number; nothing was read"
        )


def _read_edges(
    engine: Engine, view: View, nodes: ProjectedNodes, edge: EdgeType, use: EdgeUse
) -> tuple[Nodes, Nodes, Values, Nodes]:
    ends = _read_columns(engine, view, edge, ["src", "dst"], row_id=True)
    sources = _number(column(ends, "src"), nodes, edge.source)
    targets = _number(column(ends, "dst"), nodes, edge.target)
    rows = column(ends, ROW_ID).to_numpy(zero_copy_only=False)
    weights = np.ones(len(sources))
    if use.weight is not None:
        weights = _read_weights(engine, view, edge, use.weight)
    if use.undirected:
        back = sources != targets
        sources, targets, weights, rows = (
            np.concatenate([sources, targets[back]]),
            np.concatenate([targets, sources[back]]),
            np.concatenate([weights, weights[back]]),
            np.concatenate([rows, rows[back]]),
        )
    return sources, targets, weights, rows


def _number(ids: pa.Array, nodes: ProjectedNodes, type_name: str) -> Nodes:
    places = pc.index_in(ids, nodes.ids[type_name])
    numbers: Nodes = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers + nodes.starts[type_name]


def _read_weights(engine: Engine, view: View, edge: EdgeType, name: str) -> Values:
    found = _read_column(engine, view, edge, name)
    values: Values = found.cast(pa.float64()).to_numpy(zero_copy_only=False)
    wrong = found.null_count + int((values < 0).sum()) + int(np.isinf(values).sum())
    if wrong or np.isnan(values).any():
        raise UserInputError(
            f"the weight {edge.name}.{name} is NULL, negative or not finite on {_count_wrong(values)} of {len(values)} edges; nothing was computed",
            hint="a weight is a finite number of at least 0 on every edge",
        )
    return values


def _count_wrong(values: Values) -> int:
    return int((~np.isfinite(values) | (values < 0)).sum())


def _read_column(engine: Engine, view: View, type_: NodeType | EdgeType, name: str) -> pa.Array:
    return column(_read_columns(engine, view, type_, [name]), name)


def _read_columns(
    engine: Engine,
    view: View,
    type_: NodeType | EdgeType,
    names: Sequence[str],
    *,
    row_id: bool = False,
) -> pa.Table:
    entry = view.snapshot.entries.get(type_.table_key)
    if entry is None:
        raise NotFound("table", type_.table_key, hint="the type did not exist yet")
    return engine.store.tables.open(entry.at).read(list(names), row_id=row_id)
