"""Walking edges: from rows of bindings to rows with one more variable, or to fewer rows."""

import numpy as np
import pyarrow.compute as pc

from omnigraph.compile.operators import Expand, Multiplicity
from omnigraph.engine.read.bindings import Bindings
from omnigraph.engine.read.entities import ABSENT, Numbers
from omnigraph.engine.read.reader import Reader
from omnigraph.engine.read.topology import Adjacency, Topology


def expand(operator: Expand, bindings: Bindings, reader: Reader) -> Bindings:
    """Walk one operator's edges."""
    topology = reader.topology(operator.edge)
    if operator.edge_variable is not None:
        return _by_edge(operator, bindings, topology, reader)
    if _is_single(operator, topology):
        return _single(operator, bindings, topology)
    return _reach(operator, bindings, topology, reader)


def _is_single(operator: Expand, topology: Topology) -> bool:
    return operator.low <= 1 and operator.high == 1


# ---- one hop


def _single(operator: Expand, bindings: Bindings, topology: Topology) -> Bindings:
    adjacency = topology.pairs(operator.direction)
    sources = bindings.columns[operator.source]
    if operator.closes:
        return bindings.keep(_connected(adjacency, sources, bindings.columns[operator.target]))
    if operator.keep is not None and operator.target not in operator.keep:
        degrees = adjacency.degrees(sources)
        kept = bindings.keep(degrees > 0)
        match operator.multiplicity:
            case Multiplicity.ANY:
                return kept
            case Multiplicity.COUNTED:
                return kept.weighted(degrees[degrees > 0])
            case Multiplicity.EACH:
                pass
    rows, places = adjacency.expand(sources)
    return bindings.take(rows).with_column(operator.target, adjacency.targets[places])


def _connected(adjacency: Adjacency, sources: Numbers, targets: Numbers) -> np.ndarray:
    """Mark the rows whose pair is an edge: binary search inside each source's sorted neighbours."""
    if not len(adjacency.targets):
        return np.zeros(len(sources), dtype=bool)
    safe = np.where(sources == ABSENT, 0, sources)
    low, high = adjacency.offsets[safe].copy(), adjacency.offsets[safe + 1].copy()
    end = high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        less = adjacency.targets[np.minimum(middle, len(adjacency.targets) - 1)] < targets
        active = low < high
        low = np.where(active & less, middle + 1, low)
        high = np.where(active & ~less, middle, high)
    hit = (low < end) & (adjacency.targets[np.minimum(low, len(adjacency.targets) - 1)] == targets)
    return np.asarray(hit & (sources != ABSENT) & (targets != ABSENT))


# ---- one row per edge


def _by_edge(operator: Expand, bindings: Bindings, topology: Topology, reader: Reader) -> Bindings:
    assert operator.edge_variable is not None
    adjacency = topology.by_edge(operator.direction)
    rows, places = adjacency.expand(bindings.columns[operator.source])
    targets, edges = adjacency.targets[places], adjacency.edges[places]
    if operator.closes:
        same = targets == bindings.columns[operator.target][rows]
        rows, targets, edges = rows[same], targets[same], edges[same]
    order = _by_edge_id(rows, edges, operator.edge, reader)
    rows, targets, edges = rows[order], targets[order], edges[order]
    walked = bindings.take(rows)
    if not operator.closes:
        walked = walked.with_column(operator.target, targets)
    return walked.with_column(operator.edge_variable, edges)


def _by_edge_id(rows: Numbers, edges: Numbers, edge: str, reader: Reader) -> Numbers:
    """The order of rows as they came, edges of one row by their id."""
    wanted, places = np.unique(edges, return_inverse=True)
    ids = reader.edges(edge).id_texts(wanted)
    ranks = pc.rank(ids, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return np.lexsort((ranks[places] if len(ranks) else edges, rows)).astype(np.int64)


# ---- several hops


def _reach(operator: Expand, bindings: Bindings, topology: Topology, reader: Reader) -> Bindings:
    edge = reader.catalog.edges[operator.edge]
    chains = edge.source == edge.target
    if not chains and operator.low > 1:
        return bindings.take(np.empty(0, dtype=np.int64)).with_column(
            operator.target, np.empty(0, dtype=np.int64)
        )
    adjacency = topology.pairs(operator.direction)
    sources, inverse = np.unique(bindings.columns[operator.source], return_inverse=True)
    high = operator.high if chains else 1
    starts, reached = reachable(
        adjacency, sources, operator.low, high, len(topology.pairs_out.offsets)
    )
    if operator.closes:
        width = max(topology.source_nodes, topology.target_nodes, 1)
        wanted = inverse * width + bindings.columns[operator.target]
        return bindings.keep(np.isin(wanted, starts * width + reached))
    return _join_reached(operator, bindings, inverse, starts, reached, len(sources))


def _join_reached(
    operator: Expand,
    bindings: Bindings,
    inverse: Numbers,
    starts: Numbers,
    reached: Numbers,
    distinct: int,
) -> Bindings:
    order = np.argsort(starts, kind="stable")
    offsets = np.zeros(distinct + 1, dtype=np.int64)
    np.cumsum(np.bincount(starts, minlength=distinct), out=offsets[1:])
    found = Adjacency(offsets, reached[order], reached[order])
    rows, places = found.expand(inverse.astype(np.int64))
    return bindings.take(rows).with_column(operator.target, found.targets[places])


def reachable(
    adjacency: Adjacency, sources: Numbers, low: int, high: int, width: int
) -> tuple[Numbers, Numbers]:
    """Breadth first from every source at once: (place of source, node) at its shortest distance.

    A node is met once; the source itself only through a loop of its own, at the first hop.
    """
    starts = np.flatnonzero(sources != ABSENT).astype(np.int64)
    nodes = sources[starts]
    visited = starts * width + nodes
    found: list[Numbers] = []
    for hop in range(1, high + 1):
        rows, places = adjacency.expand(nodes)
        keys = np.unique(starts[rows] * width + adjacency.targets[places])
        if hop == 1:
            loops = keys[np.isin(keys, visited)]
            if low <= 1:
                found.append(loops)
        keys = keys[~np.isin(keys, visited)]
        if not len(keys):
            break
        visited = np.concatenate([visited, keys])
        if hop >= low:
            found.append(keys)
        starts, nodes = keys // width, keys % width
    keys = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    return keys // width, keys % width
