"""The search of paths from many nodes at once: labels by hops, each with the label before it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    Mask,
    RowIds,
    count_up,
    no_row_ids,
)
from omnigraphdb.engine.read.graph.adjacency import Slots
from omnigraphdb.engine.read.graph.path_store import PathStore
from omnigraphdb.engine.read.graph.reach import Step
from omnigraphdb.limits import REACH_CELLS
from omnigraphdb.memory import count_columns
from omnigraphdb.values import dataclass

Costs = npt.NDArray[Any]
"""Costs of paths: whole numbers where all weights are, else floats."""

_SLACK = 1e-9
"""A float cost that is greater by less than this part may be so by rounding alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathGraph:
    """The edges that paths may take: forward as a traversal is written, and back.

    `rank` orders edges by their ids, among the edges of one call; `names` returns keys that order them among all edges;
    `weigh` returns their costs.
    """

    forward: Step
    back: Step
    slots: Slots
    rank: Callable[[RowIds], Integers]
    names: Callable[[RowIds], tuple[object, ...]]
    weigh: Callable[[RowIds], Costs] | None
    store: PathStore

    @property
    def width(self) -> int:
        """The number of cells that the nodes of one origin take."""
        return self.slots.size + 1

    def block(self) -> int:
        """Count the origins that one search may start from, so that its cells fit in memory."""
        cells = REACH_CELLS if self.weigh is None else REACH_CELLS // 8
        return max(1, cells // self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The labels of paths of equal length: the ends of each path, its last edge, and the label before it."""

    origins: Integers
    nodes: RowIds
    parents: Integers
    edges: RowIds
    costs: Costs | None
    ranks: Integers
    """The order of the paths by their edge ids; unset in a search from the right end, which needs none."""

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """Every column."""
        costs = () if self.costs is None else (self.costs,)
        return (self.origins, self.nodes, self.parents, self.edges, self.ranks, *costs)

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return sum(array.nbytes for array in self.arrays)

    def take(self, offsets: Integers | Mask) -> "Layer":
        """Select some of the labels."""
        return Layer(
            origins=self.origins[offsets],
            nodes=self.nodes[offsets],
            parents=self.parents[offsets],
            edges=self.edges[offsets],
            costs=None if self.costs is None else self.costs[offsets],
            ranks=self.ranks[offsets],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTarget:
    """The one target of a search: a path that costs more than `most` is discarded.

    `rest` holds the least cost from each node to the target.
    """

    target: int
    most: float
    rest: Costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """The nodes that a path must avoid, and the edges that its first hop must avoid."""

    nodes: tuple[int, ...] = ()
    edges: frozenset[int] = frozenset()


NOTHING_BARRED = Excluded()


@dataclass(slots=True)
class Found:
    """The layers of a search, the first without a hop, and the loops of its origins."""

    layers: list[Layer]
    loops: Layer

    @property
    def nbytes(self) -> int:
        """The size in memory."""
        return sum(layer.nbytes for layer in self.layers)


def search(
    graph: PathGraph,
    origins: RowIds,
    high: int,
    *,
    backward: bool,
    aim: SearchTarget | None = None,
    barred: Excluded = NOTHING_BARRED,
    ranked: bool = True,
) -> Found:
    """Find the best path of up to `high` hops from every origin to every node.

    A label is kept if no path with fewer hops is as good; a better path replaces it in a later layer. With
    `backward` the paths lead from the nodes to the origins. A search that is not `ranked` finds the costs of paths, but
    any of several equally good paths.
    """
    step = graph.back if backward else graph.forward
    first = _begin(graph, origins)
    best = _BestCosts(graph, len(origins))
    best.improve(graph.slots.of(origins) + first.origins * graph.width, first.costs)
    best.bar(graph.slots.of(np.array(barred.nodes, dtype=np.int64)))
    tree = Found([first], first.take(no_row_ids()))
    cost_max = np.inf if aim is None else aim.most
    for hop in range(1, high + 1):
        check_cancelled()
        front = tree.layers[-1]
        candidates = _step(graph, step, front)
        count_columns(candidates.arrays)
        if hop == 1 and barred.edges:
            candidates = candidates.take(~np.isin(candidates.edges, list(barred.edges)))
        if hop == 1:
            tree.loops = _find_loops(graph, candidates, origins)
        cells = candidates.origins * graph.width + graph.slots.of(candidates.nodes)
        mask = best.is_better(cells, candidates.costs)
        if aim is not None and candidates.costs is not None:
            mask &= candidates.costs + aim.rest[graph.slots.of(candidates.nodes)] <= cost_max
        candidates, cells = candidates.take(mask), cells[mask]
        if not len(cells):
            break
        graph.store.spend(candidates.nbytes)
        layer = _choose(graph, candidates, cells, front, backward=backward, ranked=ranked)
        graph.store.release(candidates.nbytes)
        graph.store.spend(layer.nbytes)
        best.improve(layer.origins * graph.width + graph.slots.of(layer.nodes), layer.costs)
        if aim is not None and layer.costs is not None:
            arrived = layer.costs[layer.nodes == aim.target]
            cost_max = min(cost_max, loosen(arrived.min())) if len(arrived) else cost_max
        tree.layers.append(layer)
    return tree


def loosen(cost: Any) -> float:
    """Return a bound that also lets pass a cost that is greater by rounding alone."""
    return float(cost) * (1 + _SLACK)


def _begin(graph: PathGraph, origins: RowIds) -> Layer:
    numbers = count_up(len(origins))
    nothing = np.full(len(origins), ABSENT, dtype=np.int64)
    costs = None
    if graph.weigh is not None:
        costs = np.zeros(len(origins), dtype=graph.weigh(no_row_ids()).dtype)
    return Layer(
        origins=numbers, nodes=origins, parents=nothing, edges=nothing, costs=costs, ranks=numbers
    )


def _step(graph: PathGraph, step: Step, front: Layer) -> Layer:
    """Extend all labels by one hop."""
    walk = step(front.nodes).walk(front.nodes)
    assert walk.edges is not None, "paths are searched by edge"
    costs = None
    if graph.weigh is not None:
        assert front.costs is not None, "a search by cost has costs"
        costs = front.costs[walk.rows] + graph.weigh(walk.edges)
    return Layer(
        origins=front.origins[walk.rows],
        nodes=walk.targets,
        parents=walk.rows,
        edges=walk.edges,
        costs=costs,
        ranks=walk.rows,
    )


def _find_loops(graph: PathGraph, candidates: Layer, origins: RowIds) -> Layer:
    """List the loops at the origins, the best of each first."""
    loops = candidates.take(np.flatnonzero(candidates.nodes == origins[candidates.origins]))
    keys: list[npt.NDArray[Any]] = [graph.rank(loops.edges)]
    if loops.costs is not None:
        keys.append(loops.costs)
    return loops.take(np.lexsort((*keys, loops.origins)))


class _BestCosts:
    """The best cost of every cell so far; without costs, whether it was visited."""

    def __init__(self, graph: PathGraph, origins: int) -> None:
        self._costs: npt.NDArray[Any] | None = None
        self._seen: npt.NDArray[np.bool_] | None = None
        if graph.weigh is None:
            self._seen = np.zeros(origins * graph.width, dtype=bool)
        else:
            self._costs = np.full(origins * graph.width, np.inf)

    def is_better(self, cells: Integers, costs: Costs | None) -> Mask:
        if self._seen is not None:
            return ~self._seen[cells]
        assert self._costs is not None
        return np.asarray(costs < self._costs[cells])

    def bar(self, cells: Integers) -> None:
        """Let no label be better in these cells."""
        self.improve(cells, np.full(len(cells), -np.inf))

    def improve(self, cells: Integers, costs: Costs | None) -> None:
        if self._seen is not None:
            self._seen[cells] = True
        else:
            assert self._costs is not None
            self._costs[cells] = costs


def _choose(
    graph: PathGraph,
    candidates: Layer,
    cells: Integers,
    front: Layer,
    *,
    backward: bool,
    ranked: bool,
) -> Layer:
    """Keep the best label of every cell: least cost, then least edge ids from the left end of the path."""
    if candidates.costs is not None:
        order = np.lexsort((candidates.costs, cells))
        starts = _find_starts(cells[order])
        cheapest = np.repeat(order[starts], np.diff(np.append(starts, len(order))))
        # Only labels as good as the best of their cell are compared by ids, which takes long.
        best = (
            order[candidates.costs[order] == candidates.costs[cheapest]]
            if ranked
            else order[starts]
        )
        candidates, cells = candidates.take(best), cells[best]
        if not ranked:
            return candidates
    ranks = graph.rank(candidates.edges)
    before = front.ranks[candidates.parents]
    order = np.lexsort((ranks, cells) if backward else (ranks, before, cells))
    firsts = order[_find_starts(cells[order])]
    path_ranks = count_up(len(firsts))
    if not backward:
        path_ranks = np.empty(len(firsts), dtype=np.int64)
        path_ranks[np.lexsort((ranks[firsts], before[firsts]))] = count_up(len(firsts))
    return replace(candidates.take(firsts), ranks=path_ranks)


def _find_starts(ordered: Integers) -> Integers:
    """Find the offsets at which runs of equal numbers begin."""
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


# ---- paths of labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels by hops and place in their layer, each for a row."""

    hops: Integers
    places: Integers


def list_labels(tree: Found, low: int, *, weighed: bool) -> Labels:
    """List the labels that are best for their cell, of at least `low` hops; by origin, then hops."""
    hops = np.concatenate(
        [np.full(len(layer.nodes), n, dtype=np.int64) for n, layer in enumerate(tree.layers)]
    )
    positions = np.concatenate([count_up(len(layer.nodes)) for layer in tree.layers])
    origins = np.concatenate([layer.origins for layer in tree.layers])
    nodes = np.concatenate([layer.nodes for layer in tree.layers])
    indices = np.flatnonzero(hops >= low)
    if weighed:
        # A label of a later layer costs less than the earlier labels of its cell, or it would not exist.
        last = np.lexsort((-hops, nodes, origins))
        fresh = (nodes[last][1:] != nodes[last][:-1]) | (origins[last][1:] != origins[last][:-1])
        indices = last[np.concatenate([[True], fresh])]
        indices = indices[hops[indices] >= low]
    indices = indices[np.lexsort((nodes[indices], hops[indices], origins[indices]))]
    return Labels(hops=hops[indices], places=positions[indices])


def find_label(tree: Found, node: int) -> Labels:
    """Find the best label of the only origin at one node, if there is one."""
    for hops in range(len(tree.layers) - 1, -1, -1):
        positions = np.flatnonzero(tree.layers[hops].nodes == node)
        if len(positions):
            return Labels(
                hops=np.array([hops], dtype=np.int64), places=positions[:1].astype(np.int64)
            )
    return Labels(hops=no_row_ids(), places=no_row_ids())


def read_ends(tree: Found, labels: Labels) -> tuple[Integers, RowIds]:
    """Read the origin and the node of every label."""
    origins = np.empty(len(labels.hops), dtype=np.int64)
    nodes = np.empty(len(labels.hops), dtype=np.int64)
    for hops in np.unique(labels.hops):
        rows = labels.hops == hops
        layer, positions = tree.layers[hops], labels.places[rows]
        origins[rows], nodes[rows] = layer.origins[positions], layer.nodes[positions]
    return origins, nodes


def store_labels(tree: Found, labels: Labels, store: PathStore, *, backward: bool) -> RowIds:
    """Store the paths of labels and return their numbers."""
    numbers = np.empty(len(labels.hops), dtype=np.int64)
    for hops in np.unique(labels.hops):
        rows = np.flatnonzero(labels.hops == hops)
        nodes, edges = trace(tree.layers, int(hops), labels.places[rows])
        if backward:
            nodes, edges = nodes[:, ::-1], edges[:, ::-1]
        numbers[rows] = store_matrix(nodes, edges, store)
    return numbers


def store_matrix(nodes: Integers, edges: Integers, store: PathStore) -> RowIds:
    """Store paths of equally many hops, one per row."""
    lengths = np.full(len(edges), edges.shape[1], dtype=np.int64)
    return store.add(lengths, nodes.reshape(-1), edges.reshape(-1))


def trace(
    layers: Sequence[Layer], hops: int, positions: Integers
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Trace the labels of one layer to their origins: the nodes and the edges of their paths, from the origin on.

    Each path is a row.
    """
    nodes = np.empty((len(positions), hops + 1), dtype=np.int64)
    edges = np.empty((len(positions), hops), dtype=np.int64)
    for at in range(hops, 0, -1):
        layer = layers[at]
        nodes[:, at], edges[:, at - 1] = layer.nodes[positions], layer.edges[positions]
        positions = layer.parents[positions]
    nodes[:, 0] = layers[0].nodes[positions]
    return nodes, edges


# ---- all paths


def store_all(
    graph: PathGraph, tree: Found, labels: Labels, *, backward: bool
) -> tuple[Integers, RowIds]:
    """Store every path with as few hops as a label has, by edge ids; return the row of its label and its number."""
    distance = np.full(len(tree.layers[0].nodes) * graph.width, _FAR, dtype=np.uint16)
    for hops, layer in enumerate(tree.layers):
        distance[layer.origins * graph.width + graph.slots.of(layer.nodes)] = hops
    origins, nodes = read_ends(tree, labels)
    rows, numbers = [no_row_ids()], [no_row_ids()]
    for hops in np.unique(labels.hops).tolist():
        indices = np.flatnonzero(labels.hops == hops)
        of_label, on_way, edges = _walk_back(
            graph, distance, origins[indices], nodes[indices], hops, backward=backward
        )
        if not backward:
            on_way, edges = on_way[:, ::-1], edges[:, ::-1]
        order = _order_paths(graph, of_label, edges)
        rows.append(indices[of_label[order]])
        numbers.append(store_matrix(on_way[order], edges[order], graph.store))
    return np.concatenate(rows), np.concatenate(numbers)


_FAR = 65535


def _walk_back(
    graph: PathGraph,
    distance: npt.NDArray[np.uint16],
    origins: Integers,
    nodes: RowIds,
    hops: int,
    *,
    backward: bool,
) -> tuple[Integers, Integers, Integers]:
    """Walk from nodes to their origins on every way that comes nearer with each hop."""
    step = graph.forward if backward else graph.back
    rows, on_way = count_up(len(nodes)), nodes.reshape(-1, 1)
    edges = np.empty((len(nodes), 0), dtype=np.int64)
    for left in range(hops - 1, -1, -1):
        check_cancelled()
        tips = on_way[:, -1]
        walk = step(tips).walk(tips)
        assert walk.edges is not None, "paths are searched by edge"
        cells = origins[rows[walk.rows]] * graph.width + graph.slots.of(walk.targets)
        nearer = np.flatnonzero(distance[cells] == left)
        parents = walk.rows[nearer]
        size = on_way.nbytes + edges.nbytes
        graph.store.spend(16 * len(nearer) * (hops - left + 1))
        rows = rows[parents]
        on_way = np.column_stack([on_way[parents], walk.targets[nearer]])
        edges = np.column_stack([edges[parents], walk.edges[nearer]])
        graph.store.release(size)
    graph.store.release(on_way.nbytes + edges.nbytes)
    return rows, on_way, edges


def _order_paths(graph: PathGraph, rows: Integers, edges: Integers) -> Integers:
    """Order paths by their row, then by their edge ids from the left."""
    ranks = graph.rank(edges.reshape(-1)).reshape(edges.shape)
    return np.lexsort((*ranks.T[::-1], rows))
