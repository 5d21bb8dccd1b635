"""The operator FindPaths: binds the best paths from the rows of bindings, or between two of their variables."""

from collections.abc import Iterator, Sequence

import numpy as np

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.compile.plan.operators import FindPaths
from omnigraphdb.engine.read.bindings import Bindings
from omnigraphdb.engine.read.columns.mixed_entities import MixedEntities, numbers_of
from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    RowIds,
    count_up,
    lay_out_runs,
    no_row_ids,
)
from omnigraphdb.engine.read.graph.adjacency import NeighbourUnit, make_slots
from omnigraphdb.engine.read.graph.pair_paths import Route, find_best, find_cheapest, find_shortest
from omnigraphdb.engine.read.graph.path_search import (
    Found,
    Labels,
    PathGraph,
    list_labels,
    read_ends,
    search,
    store_all,
    store_labels,
)
from omnigraphdb.engine.read.graph.path_store import PathStore
from omnigraphdb.engine.read.graph.reach import Step
from omnigraphdb.engine.read.operators.expand import empty_result
from omnigraphdb.engine.read.operators.path_weights import read_weights
from omnigraphdb.engine.read.operators.steps import Steps, make_steps, read_bounds, read_count
from omnigraphdb.engine.read.reader import Reader
from omnigraphdb.errors import QueryError, ResourceLimit
from omnigraphdb.limits import PATH_PAIRS_ALONE_MAX
from omnigraphdb.values import dataclass


def find_paths(operator: FindPaths, bindings: Bindings, reader: Reader) -> Iterator[Bindings]:
    """Find the paths of one operator; there is a row for each."""
    bounds = _read_path_bounds(operator, reader)
    present = bindings.columns[operator.source] != ABSENT
    if operator.closes:
        present &= bindings.columns[operator.target] != ABSENT
    rows = bindings.keep(present)
    if not rows.rows:
        yield empty_result(operator, rows)
        return
    finder = _Finder(
        graph=_open_graph(operator, bounds[1], reader),
        low=bounds[0],
        high=bounds[1],
        best=None if operator.choice.best is None else read_count(operator.choice.best, reader),
        every=operator.choice.every,
        backward=operator.backward,
        reader=reader,
    )
    yield (_close if operator.closes else _walk)(operator, rows, finder)


def name_algorithm(operator: FindPaths) -> str:
    """Name the algorithm of a search for paths."""
    choice, cost = (
        operator.choice,
        "by hops" if operator.choice.by is None else "by cost over (node, hops)",
    )
    if choice.best is not None:
        return f"Yen's best paths, each searched {cost}"
    if choice.every:
        return "breadth-first search, then every way back"
    if not operator.closes:
        return f"search {cost} from every start"
    pair_search = "from both ends" if choice.by is None else f"{cost}, bounded from the end"
    return (
        f"search {pair_search} for up to {PATH_PAIRS_ALONE_MAX} pairs, else {cost} from every start"
    )


def _read_path_bounds(operator: FindPaths, reader: Reader) -> tuple[int, int]:
    low, high = read_bounds(operator, reader)
    hops_max = reader.traversal.path_hops_max
    if high > hops_max:
        raise ResourceLimit(
            f"hops of the path ${operator.choice.variable}",
            hops_max,
            high,
            hint="lower the maximum of hops, or raise OMNIGRAPH_PATH_HOPS_MAX",
        )
    if operator.choice.by is not None and low > 1:
        message = f"with by the minimum of hops is 0 or 1, not {low}; nothing was read"
        raise QueryError(message, code="T68")
    return low, high


def _open_graph(operator: FindPaths, high: int, reader: Reader) -> PathGraph:
    steps = make_steps(operator, high, reader)
    forward, back = (steps.reversed(), steps) if operator.backward else (steps, steps.reversed())
    edges = reader.entities(operator.walked)

    def names(row_ids: RowIds) -> tuple[object, ...]:
        texts = edges.id_texts(row_ids).to_pylist()
        if not isinstance(edges, MixedEntities):
            return tuple(texts)
        return tuple(zip(texts, numbers_of(row_ids).tolist(), strict=True))

    return PathGraph(
        forward=_make_step(forward),
        back=_make_step(back),
        slots=make_slots(steps.near.row_offsets),
        rank=edges.id_ranks,
        names=names,
        weigh=read_weights(operator, steps, reader),
        store=reader.paths,
    )


def _make_step(steps: Steps) -> Step:
    """Make the step of a search; one adjacency serves all its hops if it is in memory."""
    if (adjacency := steps.in_memory(NeighbourUnit.EDGE)) is not None:
        return lambda _: adjacency
    return lambda nodes: steps.of(nodes, NeighbourUnit.EDGE)


# ---- rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Paths, each with a key: the position of its start, or of its pair of ends, among those requested."""

    keys: Integers
    nodes: RowIds
    paths: RowIds

    def take(self, offsets: Integers) -> "Results":
        """Select some of the paths."""
        return Results(
            keys=self.keys[offsets], nodes=self.nodes[offsets], paths=self.paths[offsets]
        )


def _walk(operator: FindPaths, rows: Bindings, finder: "_Finder") -> Bindings:
    """Join each row with the paths from its start, and with their ends."""
    origins, keys = np.unique(rows.columns[operator.source], return_inverse=True)
    results = finder.find_from(origins)
    row_offsets, offsets = _repeat(keys, results, len(origins))
    joined = rows.only(operator.keep).take(row_offsets)
    new_columns = {
        operator.target: results.nodes[offsets],
        operator.choice.variable: results.paths[offsets],
    }
    return _with_columns(operator, joined, new_columns)


def _close(operator: FindPaths, rows: Bindings, finder: "_Finder") -> Bindings:
    """Join each row with the paths between its two ends; a row without a path is dropped."""
    starts, ends = rows.columns[operator.source], rows.columns[operator.target]
    keys = count_up(rows.rows)
    if rows.rows > 1:
        pairs, keys = np.unique(np.column_stack([starts, ends]), axis=0, return_inverse=True)
        (starts, ends), keys = pairs.T, keys.reshape(-1)
    results = finder.find_between(starts, ends)
    row_offsets, offsets = _repeat(keys, results, len(starts))
    joined = rows.only(operator.keep).take(row_offsets)
    return _with_columns(operator, joined, {operator.choice.variable: results.paths[offsets]})


def _repeat(keys: Integers, results: Results, count: int) -> tuple[Integers, Integers]:
    """Pair rows with the paths of their key: the offset of the row, and the offset of the path."""
    counts = np.bincount(results.keys, minlength=count)
    starts = np.cumsum(counts) - counts
    return lay_out_runs(starts[keys], counts[keys])


def _with_columns(operator: FindPaths, rows: Bindings, fresh: dict[str, RowIds]) -> Bindings:
    for name, column in fresh.items():
        if operator.keep is None or name in operator.keep:
            rows = rows.with_column(name, column)
    return rows


# ---- searches


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finder:
    """The search of an operator for paths, with its bounds."""

    graph: PathGraph
    low: int
    high: int
    best: int | None
    every: bool
    backward: bool
    reader: Reader

    def find_from(self, origins: RowIds) -> Results:
        """Find the paths between each origin and every node within the bounds."""
        size = self.graph.block()
        blocks = range(0, len(origins), size)
        return _join([self._search_block(origins[at : at + size], at) for at in blocks])

    def _search_block(self, origins: RowIds, first: int, cells: Integers | None = None) -> Results:
        """Search from a block of origins; `cells`, if set, are the only pairs of origin and node in the result."""
        tree = search(self.graph, origins, self.high, backward=self.backward)
        weighed = self.graph.weigh is not None
        low = self.low if self.best is None else 0
        labels = list_labels(tree, low, weighed=weighed)
        if cells is not None:
            labels = self._select(tree, labels, cells)
        if self.best is not None:
            results = self._find_best_of(tree, labels, origins)
        elif self.every:
            rows, paths = store_all(self.graph, tree, labels, backward=self.backward)
            keys, nodes = read_ends(tree, labels)
            results = Results(keys=keys[rows], nodes=nodes[rows], paths=paths)
        else:
            keys, nodes = read_ends(tree, labels)
            paths = store_labels(tree, labels, self.graph.store, backward=self.backward)
            results = Results(keys=keys, nodes=nodes, paths=paths)
        self.graph.store.release(tree.nbytes)
        if cells is None and self.best is None:
            results = _join([results, self._store_loops(tree)])
        ordered = results.take(np.argsort(results.keys, kind="stable"))
        return Results(keys=ordered.keys + first, nodes=ordered.nodes, paths=ordered.paths)

    def _select(self, tree: Found, labels: Labels, cells: Integers) -> Labels:
        origins, nodes = read_ends(tree, labels)
        mask = np.isin(origins * self.graph.width + self.graph.slots.of(nodes), cells)
        return Labels(hops=labels.hops[mask], places=labels.places[mask])

    def _store_loops(self, tree: Found) -> Results:
        """Store the loops of origins, which are paths from a node to itself if the minimum is one hop."""
        loops = tree.loops
        if self.low != 1:
            loops = loops.take(no_row_ids())
        if not self.every:
            _, firsts = np.unique(loops.origins, return_index=True)
            loops = loops.take(firsts)
        ends = np.column_stack([loops.nodes, loops.nodes]).reshape(-1)
        hops = np.ones(len(loops.nodes), dtype=np.int64)
        paths = self.graph.store.add(hops, ends, loops.edges)
        return Results(keys=loops.origins, nodes=loops.nodes, paths=paths)

    # ---- pair by pair

    def find_between(self, starts: RowIds, ends: RowIds) -> Results:
        """Find the paths of each pair of nodes."""
        by_pair = self.best is not None or (len(starts) <= PATH_PAIRS_ALONE_MAX and not self.every)
        if by_pair:
            self.reader.note("pairs searched from both ends")
            return self._find_each(starts, ends)
        self.reader.note("search from every start")
        is_loop = starts == ends
        loops = self._find_each(starts[is_loop], ends[is_loop])
        loops = Results(
            keys=np.flatnonzero(is_loop)[loops.keys], nodes=loops.nodes, paths=loops.paths
        )
        others = self._find_shared(starts[~is_loop], ends[~is_loop])
        others = Results(
            keys=np.flatnonzero(~is_loop)[others.keys], nodes=others.nodes, paths=others.paths
        )
        results = _join([loops, others])
        return results.take(np.argsort(results.keys, kind="stable"))

    def _find_shared(self, starts: RowIds, ends: RowIds) -> Results:
        """Find the paths of many pairs of different nodes, by one search for all pairs with a start."""
        origins, of_pair = np.unique(starts, return_inverse=True)
        size, width = self.graph.block(), self.graph.width
        parts = []
        for at in range(0, len(origins), size):
            pairs = np.flatnonzero((of_pair >= at) & (of_pair < at + size))
            cells = (of_pair[pairs] - at) * width + self.graph.slots.of(ends[pairs])
            results = self._search_block(origins[at : at + size], 0, cells)
            order = np.argsort(cells, kind="stable")
            result_cells = results.keys * width + self.graph.slots.of(results.nodes)
            keys = pairs[order[np.searchsorted(cells, result_cells, sorter=order)]]
            parts.append(Results(keys=keys, nodes=results.nodes, paths=results.paths))
        return _join(parts)

    def _find_each(self, starts: RowIds, ends: RowIds) -> Results:
        keys: list[int] = []
        routes: list[Route] = []
        for key, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            check_cancelled()
            pair_routes = self._find_pair(start, end)
            keys += [key] * len(pair_routes)
            routes += pair_routes
        nodes = np.array([route.nodes[-1] for route in routes], dtype=np.int64)
        return Results(
            keys=np.array(keys, dtype=np.int64),
            nodes=nodes,
            paths=_store_routes(routes, self.graph.store),
        )

    def _find_best_of(self, tree: Found, labels: Labels, origins: RowIds) -> Results:
        """Find the best paths to every node that a search reached, and from every origin to itself."""
        keys, nodes = read_ends(tree, labels)
        origin_keys = np.arange(len(origins), dtype=np.int64)
        keys, nodes = np.concatenate([origin_keys, keys]), np.concatenate([origins, nodes])
        keys, nodes = np.unique(np.column_stack([keys, nodes]), axis=0).T
        near = origins[keys]
        results = self._find_each(nodes, near) if self.backward else self._find_each(near, nodes)
        return Results(keys=keys[results.keys], nodes=nodes[results.keys], paths=results.paths)

    def _find_pair(self, start: int, end: int) -> Sequence[Route]:
        """Find the paths from one node to another, the best first."""
        if start == end:
            return self._find_loops(start)
        if self.best is not None:
            return find_best(self.graph, start, end, (self.low, self.high), self.best)
        if self.graph.weigh is not None:
            cheapest = find_cheapest(self.graph, start, end, self.high)
            return [] if cheapest is None else [cheapest]
        shortest = find_shortest(self.graph, start, end, self.high)
        return [] if shortest is None or shortest.hops < self.low else list(shortest.first(1))

    def _find_loops(self, node: int) -> Sequence[Route]:
        """Find the paths from a node to itself: without a hop, then by a loop."""
        routes = [Route(nodes=(node,), edges=(), cost=0)] if self.low == 0 else []
        if self.low > 1 or not self.high or (routes and self.best is None):
            return routes
        origin = np.array([node], dtype=np.int64)
        loops = search(self.graph, origin, 1, backward=False).loops
        routes += [
            Route(nodes=(node, node), edges=(edge,), cost=0) for edge in loops.edges.tolist()
        ]
        return routes if self.every else routes[: self.best or 1]


def _store_routes(routes: Sequence[Route], store: PathStore) -> RowIds:
    hops = np.array([len(route.edges) for route in routes], dtype=np.int64)
    nodes = np.array([node for route in routes for node in route.nodes], dtype=np.int64)
    edges = np.array([edge for route in routes for edge in route.edges], dtype=np.int64)
    return store.add(hops, nodes, edges)


def _join(parts: Sequence[Results]) -> Results:
    return Results(
        keys=np.concatenate([no_row_ids(), *(part.keys for part in parts)]),
        nodes=np.concatenate([no_row_ids(), *(part.nodes for part in parts)]),
        paths=np.concatenate([no_row_ids(), *(part.paths for part in parts)]),
    )
