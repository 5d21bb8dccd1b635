"""Algorithms beside networkx and igraph, on a dozen graphs of different shapes."""

from collections.abc import Callable
from typing import Any

import igraph
import networkx as nx
import numpy as np
import pytest

from omnigraphdb.engine.analytics.arcs import Arcs
from omnigraphdb.engine.analytics.bounds import Bounds
from omnigraphdb.engine.analytics.communities import (
    compute_modularity,
    find_communities,
    propagate_labels,
)
from omnigraphdb.engine.analytics.components import (
    count_triangles,
    find_components,
    find_cores,
    update_components,
)
from omnigraphdb.engine.analytics.distances import count_hops, measure_distances
from omnigraphdb.engine.analytics.ranking import (
    compute_betweenness,
    compute_pagerank,
    count_degrees,
)
from omnigraphdb.errors import BoundReached
from omnigraphdb.runtime import SystemRuntime


def _weigh(graph: nx.MultiDiGraph) -> nx.MultiDiGraph:
    rng = np.random.default_rng(3)
    for _, _, found in graph.edges(data=True):
        found["weight"] = float(rng.integers(0, 9))
    return graph


def _random(nodes: int, edges: int, seed: int) -> nx.MultiDiGraph:
    ends = np.random.default_rng(seed).integers(0, nodes, (edges, 2))
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(ends.tolist())
    return graph


def _of(graph: Any) -> nx.MultiDiGraph:
    made = nx.MultiDiGraph()
    made.add_nodes_from(range(len(graph)))
    made.add_edges_from(nx.convert_node_labels_to_integers(graph).edges)
    return made


SHAPES: dict[str, Callable[[], nx.MultiDiGraph]] = {
    "empty": nx.MultiDiGraph,
    "one node": lambda: _of(nx.empty_graph(1)),
    "no edges": lambda: _of(nx.empty_graph(5)),
    "path": lambda: _of(nx.path_graph(9)),
    "tree": lambda: _of(nx.balanced_tree(3, 3)),
    "clique": lambda: _of(nx.complete_graph(7)),
    "bipartite": lambda: _of(nx.complete_bipartite_graph(3, 5)),
    "disconnected": lambda: _of(nx.disjoint_union(nx.cycle_graph(5), nx.path_graph(4))),
    "loops and parallel edges": lambda: nx.MultiDiGraph(
        [(0, 0), (0, 1), (0, 1), (1, 0), (1, 2), (2, 2), (2, 2), (3, 1)]
    ),
    "hub": lambda: _of(nx.star_graph(40)),
    "weighted": lambda: _weigh(_random(60, 300, 1)),
    "random": lambda: _random(200, 500, 2),
    "dense": lambda: _random(40, 900, 4),
    "clubs": lambda: _of(nx.karate_club_graph()),
}


@pytest.fixture(params=SHAPES)
def graph(request: pytest.FixtureRequest) -> nx.MultiDiGraph:
    return SHAPES[request.param]()


def arcs_of(graph: nx.MultiDiGraph) -> Arcs:
    edges = list(graph.edges(data="weight"))
    ends = np.array([(a, b) for a, b, _ in edges], np.int64).reshape(-1, 2)
    weights = None
    if any(w is not None for _, _, w in edges):
        weights = np.array([w for _, _, w in edges], float)
    return Arcs(len(graph), ends[:, 0], ends[:, 1], weights)


def bounds(rounds: int = 500, seconds: float | None = None) -> Bounds:
    return Bounds("test", SystemRuntime(), rounds, seconds)


def listed(found: dict[int, Any], graph: nx.MultiDiGraph) -> list[Any]:
    return [found[node] for node in range(len(graph))]


def test_pagerank(graph: nx.MultiDiGraph) -> None:
    arcs = arcs_of(graph)
    ranks = compute_pagerank(arcs, damping=0.85, tolerance=1e-10, bounds=bounds())
    expected = nx.pagerank(graph, tol=1e-12, max_iter=500, weight="weight") if len(graph) else {}
    np.testing.assert_allclose(ranks, listed(expected, graph), atol=1e-8)
    if len(arcs):
        drawn = igraph.Graph(
            len(graph), list(zip(arcs.sources, arcs.targets, strict=True)), directed=True
        )
        np.testing.assert_allclose(ranks, drawn.pagerank(weights=arcs.values.tolist()), atol=1e-6)
    again = (
        compute_pagerank(arcs, damping=0.85, tolerance=1e-10, bounds=bounds(3), start=ranks)
        if len(graph)
        else ranks
    )
    np.testing.assert_allclose(again, ranks, atol=1e-9)


def test_degrees(graph: nx.MultiDiGraph) -> None:
    entering, leaving = count_degrees(arcs_of(graph))
    assert entering.tolist() == listed(dict(graph.in_degree()), graph)
    assert leaving.tolist() == listed(dict(graph.out_degree()), graph)


@pytest.mark.parametrize("strong", [False, True])
def test_components(graph: nx.MultiDiGraph, strong: bool) -> None:
    labels = find_components(arcs_of(graph), strong=strong)
    found = nx.strongly_connected_components if strong else nx.weakly_connected_components
    expected = {frozenset(one) for one in found(graph)}
    groups: dict[int, set[int]] = {}
    for node, label in enumerate(labels.tolist()):
        groups.setdefault(label, set()).add(node)
    assert {frozenset(one) for one in groups.values()} == expected
    assert list(groups) == list(range(len(groups)))


def _plain(graph: nx.MultiDiGraph) -> nx.Graph:
    plain = nx.Graph(graph)
    plain.remove_edges_from(list(nx.selfloop_edges(plain)))
    return plain


def test_triangles_and_cores(graph: nx.MultiDiGraph) -> None:
    arcs, plain = arcs_of(graph), _plain(graph)
    assert count_triangles(arcs).tolist() == listed(nx.triangles(plain), graph)
    expected = nx.core_number(plain) if len(graph) else {}
    assert find_cores(arcs).tolist() == listed(expected, graph)


def test_distances(graph: nx.MultiDiGraph) -> None:
    arcs = arcs_of(graph)
    for source in range(min(3, len(graph))):
        hops = nx.single_source_shortest_path_length(graph, source)
        assert count_hops(arcs, source).tolist() == [hops.get(n, -1) for n in range(len(graph))]
        lengths = nx.single_source_dijkstra_path_length(
            graph, source, weight=lambda u, v, d: min(e.get("weight", 1.0) for e in d.values())
        )
        np.testing.assert_allclose(
            measure_distances(arcs, source),
            [lengths.get(node, np.inf) for node in range(len(graph))],
        )


def test_betweenness(graph: nx.MultiDiGraph) -> None:
    found = compute_betweenness(arcs_of(graph), samples=None, seed=0, bounds=bounds())
    plain = nx.DiGraph(graph)
    expected = nx.betweenness_centrality(plain) if len(graph) else {}
    np.testing.assert_allclose(found, listed(expected, graph), atol=1e-9)


def test_sampled_betweenness_repeats_and_is_near() -> None:
    arcs = arcs_of(_random(300, 1500, 9))
    exact = compute_betweenness(arcs, samples=None, seed=0, bounds=bounds())
    near = compute_betweenness(arcs, samples=150, seed=7, bounds=bounds())
    assert near.tolist() == compute_betweenness(arcs, samples=150, seed=7, bounds=bounds()).tolist()
    assert np.corrcoef(exact, near)[0, 1] > 0.9


@pytest.mark.parametrize("rounds", [1, 2, 5, 14, 15])
def test_labels_follow_the_rule_one_node_at_a_time(graph: nx.MultiDiGraph, rounds: int) -> None:
    arcs = arcs_of(graph)
    labels = propagate_labels(arcs, rounds=rounds, bounds=bounds())
    expected = list(range(len(graph)))
    votes = arcs.ties.toarray() if len(graph) else []
    for _ in range(rounds):
        following = list(expected)
        for node in range(len(graph)):
            weights: dict[int, float] = {}
            for other in np.flatnonzero(votes[node]):
                weights[expected[other]] = weights.get(expected[other], 0) + votes[node][other]
            if weights:
                following[node] = min(weights, key=lambda label: (-weights[label], label))
        expected = following
    assert labels.tolist() == expected


def test_labels_that_take_turns_end(graph: nx.MultiDiGraph) -> None:
    labels = propagate_labels(arcs_of(graph), rounds=10**30, bounds=bounds(seconds=20))
    assert (
        labels.tolist() == propagate_labels(arcs_of(graph), rounds=1_000, bounds=bounds()).tolist()
    )


@pytest.mark.parametrize("seed", range(3))
def test_louvain_divides_as_well_as_igraph(graph: nx.MultiDiGraph, seed: int) -> None:
    arcs = arcs_of(graph)
    groups = find_communities(arcs, seed=seed, bounds=bounds())
    assert groups.tolist() == find_communities(arcs, seed=seed, bounds=bounds()).tolist()
    if not len(arcs) or arcs.values.sum() == 0:
        return
    drawn = igraph.Graph(len(graph), list(zip(arcs.sources, arcs.targets, strict=True)))
    best = max(
        drawn.modularity(drawn.community_multilevel(weights=arcs.values), weights=arcs.values)
        for _ in range(3)
    )
    ours = drawn.modularity(groups.tolist(), weights=arcs.values)
    loops = arcs.sources == arcs.targets
    inner = arcs.sum_by_node(arcs.sources[loops], 2 * arcs.values[loops])
    assert compute_modularity(arcs.ties, inner, groups) == pytest.approx(ours)
    assert ours >= 0.98 * best - 1e-9


def test_bounds_say_how_far_it_came() -> None:
    arcs = arcs_of(_random(50, 200, 5))
    with pytest.raises(BoundReached, match=r"after 3 rounds: the ranks still change by"):
        compute_pagerank(arcs, damping=0.85, tolerance=1e-12, bounds=bounds(3))
    with pytest.raises(BoundReached, match=r"after 0 s: 0 of 50 sources are done"):
        compute_betweenness(arcs, samples=None, seed=0, bounds=bounds(seconds=0))


@pytest.mark.parametrize("seed", range(30))
def test_components_from_a_former_answer_are_those_found_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(20, 200))
    ends = rng.integers(0, count, (int(rng.integers(0, count)), 2))
    labels = find_components(Arcs(count, ends[:, 0], ends[:, 1], None), strong=False)
    kept = rng.random(len(ends)) > rng.choice([0.02, 0.3, 0.0])
    more = rng.integers(0, count, (int(rng.integers(0, 4)), 2))
    after = rng.permutation(np.concatenate([ends[kept], more]))
    arcs = Arcs(count, after[:, 0], after[:, 1], None)
    thinned = labels[ends[~kept].ravel()]
    found = update_components(arcs, labels, thinned, (more[:, 0], more[:, 1]))
    assert np.array_equal(found, find_components(arcs, strong=False))


@pytest.mark.parametrize("share", [0.3, 3, 9])
def test_components_of_many_arcs_are_those_of_networkx(share: float) -> None:
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 500, (int(500 * share), 2))
    # Nodes of other halves are not joined, so that there are several components at every share.
    ends[:, 1] = ends[:, 1] % 250 + 250 * (ends[:, 0] >= 250)
    graph = nx.Graph([tuple(pair) for pair in ends.tolist()])
    graph.add_nodes_from(range(500))
    found = find_components(Arcs(500, ends[:, 0], ends[:, 1], None), strong=False)
    groups = {frozenset(np.flatnonzero(found == one).tolist()) for one in set(found.tolist())}
    assert groups == set(map(frozenset, nx.connected_components(graph)))
