"""Paths between two nodes: of fewest hops, searched from both ends at once, of least cost, and the best of them."""

import heapq
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.engine.read.columns.row_ids import ABSENT, Mask, RowIds, count_up
from omnigraphdb.engine.read.graph.path_search import (
    NOTHING_BARRED,
    Excluded,
    PathGraph,
    SearchTarget,
    find_label,
    loosen,
    search,
    trace,
)
from omnigraphdb.engine.read.graph.reach import Step
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.limits import PATHS_TRIED_MAX
from omnigraphdb.values import dataclass

Path = tuple[int, ...]
"""The edges of a path, from its left end."""

Distances = npt.NDArray[np.uint16]
"""Hops by the slot of a node."""

_UNSEEN, _BARRED = 65535, 65534

_PARTS = (0.25, 0.35, 0.5, 0.7, 1.0)
"""The parts of the cost of a path with fewest hops within which a cheaper one is searched, one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path: its nodes, its edges, and its cost."""

    nodes: tuple[int, ...]
    edges: Path
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortestPaths:
    """All paths of fewest hops from `start` to `end`: a step leads to a node that is one hop nearer to the end.

    `left` is the number of hops to the end, of every node on such a path at least.
    """

    graph: PathGraph
    start: int
    end: int
    hops: int
    left: Distances
    barred: Excluded = NOTHING_BARRED

    def step(self, node: int, hops_before: int) -> tuple[RowIds, RowIds]:
        """Return the nodes and edges that go on from a node that is reached after some hops, by edge id."""
        source = np.array([node], dtype=np.int64)
        walk = self.graph.forward(source).walk(source)
        assert walk.edges is not None, "paths are searched by edge"
        nearer = self.left[self.graph.slots.of(walk.targets)] == self.hops - hops_before - 1
        if not hops_before and self.barred.edges:
            nearer &= ~np.isin(walk.edges, list(self.barred.edges))
        targets, edges = walk.targets[nearer], walk.edges[nearer]
        if len(edges) < 2:
            return targets, edges
        order = np.argsort(self.graph.rank(edges), kind="stable")
        return targets[order], edges[order]

    def first(self, count: int) -> Iterator[Route]:
        """List the first paths by edge ids; every step leads to the end, so none is tried in vain."""
        waiting: list[tuple[tuple[int, ...], Path]] = [((self.start,), ())]
        yielded = 0
        while waiting and yielded < count:
            nodes, edges = waiting.pop()
            if len(edges) == self.hops:
                yielded += 1
                yield Route(nodes=nodes, edges=edges, cost=self.hops)
                continue
            further, by = self.step(nodes[-1], len(edges))
            more = zip(further.tolist(), by.tolist(), strict=True)
            waiting += [((*nodes, node), (*edges, edge)) for node, edge in list(more)[::-1]]


def find_shortest(
    graph: PathGraph, start: int, end: int, high: int, barred: Excluded = NOTHING_BARRED
) -> ShortestPaths | None:
    """Find the distance of two different nodes from both ends at once; None if it is more than `high` hops."""
    from_start, from_end = _Side(graph, graph.forward, start), _Side(graph, graph.back, end)
    for node in barred.nodes:
        from_start.bar(node)
        from_end.bar(node)
    # No path comes back to its start, and some of the first edges may be barred.
    from_end.bar(start)
    while from_start.hops + from_end.hops < high:
        check_cancelled()
        first = not from_start.hops
        smaller = len(from_start.front) <= len(from_end.front)
        side, other = (from_start, from_end) if first or smaller else (from_end, from_start)
        fresh = side.advance(barred.edges if first else frozenset())
        if not len(fresh):
            return None
        meeting_nodes = fresh[other.distance[graph.slots.of(fresh)] < _BARRED]
        if len(meeting_nodes):
            hops = from_start.hops + from_end.hops
            left = _spread(graph, from_start, from_end, meeting_nodes, hops)
            return ShortestPaths(
                graph=graph, start=start, end=end, hops=hops, left=left, barred=barred
            )
    return None


class _Side:
    """One side of a search from both ends: the distance of every node that it has visited."""

    def __init__(self, graph: PathGraph, step: Step, node: int) -> None:
        self._graph, self._step = graph, step
        self.front = np.array([node], dtype=np.int64)
        self.hops = 0
        self.distance: Distances = np.full(graph.width, _UNSEEN, dtype=np.uint16)
        self.distance[graph.slots.of(self.front)] = 0
        self._last = np.empty(graph.width, dtype=np.int64)

    def bar(self, node: int) -> None:
        """Keep the search from a node."""
        self.distance[self._graph.slots.one(node)] = _BARRED

    def advance(self, barred: frozenset[int]) -> RowIds:
        """Visit the nodes one hop further, and return them."""
        walk = self._step(self.front).walk(self.front)
        targets = walk.targets
        if barred:
            assert walk.edges is not None, "paths are searched by edge"
            targets = targets[~np.isin(walk.edges, list(barred))]
        slots = self._graph.slots.of(targets)
        unseen = self.distance[slots] == _UNSEEN
        targets, slots = targets[unseen], slots[unseen]
        self.hops += 1
        self.distance[slots] = self.hops
        self.front = targets[self._is_last(slots)]
        return self.front

    def _is_last(self, slots: RowIds) -> Mask:
        """Mark the last of equal slots; nothing is sorted."""
        positions = count_up(len(slots))
        self._last[slots] = positions
        return np.asarray(self._last[slots] == positions)


def _spread(
    graph: PathGraph, from_start: _Side, from_end: _Side, meeting_nodes: RowIds, hops: int
) -> Distances:
    """Set the distance from the end for the nodes between the start and the nodes where both sides meet."""
    left, nodes = from_end.distance, meeting_nodes
    for hop in range(from_start.hops - 1, 0, -1):
        predecessors = graph.back(nodes).walk(nodes).targets
        nodes = np.unique(predecessors[from_start.distance[graph.slots.of(predecessors)] == hop])
        left[graph.slots.of(nodes)] = hops - hop
    return left


# ---- least cost


def find_cheapest(
    graph: PathGraph, start: int, end: int, high: int, barred: Excluded = NOTHING_BARRED
) -> Route | None:
    """Find the path of least cost between two different nodes, of at most `high` hops; None if there is none.

    The cost of a path of fewest hops is an upper bound, often far above the least cost. A part of that bound is tried
    first, then more of it, since the number of nodes within a cost grows much faster than the cost.
    """
    shortest = find_shortest(graph, start, end, high, barred)
    if shortest is None:
        return None
    bound = add_costs(graph, next(shortest.first(1)).edges)
    attempts = (_find_within(graph, start, end, high, barred, bound * part) for part in _PARTS)
    return next(route for route in attempts if route is not None)


def _find_within(
    graph: PathGraph, start: int, end: int, high: int, barred: Excluded, cost_max: float
) -> Route | None:
    """Find the path of least cost if it costs no more than `cost_max`.

    A search from the end finds the least cost from each node to the end, up to half of `cost_max`. That cost keeps the
    search from the start to nodes that may be on the path.
    """
    half = loosen(cost_max / 2)
    # The search from the end ignores barred edges, so that its arrival at the start bounds nothing.
    no_aim = SearchTarget(target=ABSENT, most=half, rest=np.zeros(graph.width))
    inner = Excluded(nodes=barred.nodes)
    back = search(
        graph, np.array([end]), high, backward=True, aim=no_aim, barred=inner, ranked=False
    )
    rest = np.full(graph.width, cost_max / 2)
    for layer in back.layers:
        assert layer.costs is not None, "a search by cost has costs"
        rest[graph.slots.of(layer.nodes)] = layer.costs
    aim = SearchTarget(target=end, most=loosen(cost_max), rest=rest)
    forward = search(graph, np.array([start]), high, backward=False, aim=aim, barred=barred)
    labels = find_label(forward, end)
    graph.store.release(back.nbytes + forward.nbytes)
    if not len(labels.hops):
        return None
    nodes, edges = trace(forward.layers, int(labels.hops[0]), labels.places)
    path = tuple(edges[0].tolist())
    return Route(nodes=tuple(nodes[0].tolist()), edges=path, cost=add_costs(graph, path))


def add_costs(graph: PathGraph, edges: Path) -> float:
    """Add the costs of a path: its weights from the left, or its hops."""
    if graph.weigh is None:
        return len(edges)
    return float(sum(graph.weigh(np.array(edges, dtype=np.int64)).tolist()))


# ---- the best paths


def find_best(
    graph: PathGraph, start: int, end: int, bounds: tuple[int, int], count: int
) -> list[Route]:
    """Find the best paths without a loop between two different nodes, the best first."""
    low, high = bounds
    if graph.weigh is None:
        shortest = find_shortest(graph, start, end, high)
        if shortest is None:
            return []
        routes = list(shortest.first(count)) if shortest.hops >= low else []
        if len(routes) == count:
            return routes
    return _YenPaths(graph, start, end, high).list(low, count)


_Ordered = tuple[float, int, tuple[object, ...], int, Route]


class _YenPaths:
    """The best paths by Yen's algorithm: each next path leaves an earlier path at some node, by a new edge."""

    def __init__(self, graph: PathGraph, start: int, end: int, high: int) -> None:
        self._graph, self._end, self._high = graph, end, high
        self._taken: defaultdict[Path, set[int]] = defaultdict(set)
        self._waiting: list[_Ordered] = []
        self._wanted = 0
        self._push((start,), ())

    def list(self, low: int, count: int) -> list[Route]:
        """List the first paths of at least `low` hops."""
        routes: list[Route] = []
        tried = 0
        while self._waiting and len(routes) < count:
            check_cancelled()
            *_, shared, route = heapq.heappop(self._waiting)
            routes += [route] if len(route.edges) >= low else []
            self._wanted = count - len(routes) if low <= 1 else 0
            tried += 1
            if tried > PATHS_TRIED_MAX:
                raise ResourceLimit(
                    "paths tried for the best",
                    PATHS_TRIED_MAX,
                    tried,
                    hint="lower the minimum of hops",
                )
            for at in range(shared, len(route.edges)):
                self._taken[route.edges[:at]].add(route.edges[at])
                if self._wanted or low > 1:
                    self._push(route.nodes[: at + 1], route.edges[:at])
        return routes

    def _push(self, nodes: tuple[int, ...], edges: Path) -> None:
        """Find the best path with these first nodes that goes on by an edge that no earlier path took."""
        barred = Excluded(nodes=nodes[:-1], edges=frozenset(self._taken[edges]))
        rest = self._find(nodes[-1], self._limit() - len(edges), barred)
        if rest is None:
            return
        path = (*edges, *rest.edges)
        cost = add_costs(self._graph, path)
        names = self._graph.names(np.array(path, dtype=np.int64))
        route = Route(nodes=(*nodes[:-1], *rest.nodes), edges=path, cost=cost)
        heapq.heappush(self._waiting, (cost, len(path), names, len(edges), route))

    def _limit(self) -> int:
        """Bound the hops of a further path: if enough paths wait, by the hops of the last path that is needed."""
        if self._graph.weigh is not None or not 0 < self._wanted <= len(self._waiting):
            return self._high
        return min(self._high, heapq.nsmallest(self._wanted, self._waiting)[-1][1])

    def _find(self, node: int, high: int, barred: Excluded) -> Route | None:
        if self._graph.weigh is not None:
            return find_cheapest(self._graph, node, self._end, high, barred)
        shortest = find_shortest(self._graph, node, self._end, high, barred)
        return None if shortest is None else next(shortest.first(1))
