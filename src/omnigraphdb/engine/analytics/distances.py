"""The distance of every node from one node: in hops, or by weight."""

import numpy as np
from scipy.sparse import csgraph

from omnigraphdb.engine.analytics.arcs import Arcs, Nodes, Values, expand_rows


def count_hops(arcs: Arcs, source: int) -> Nodes:
    """Count the least arcs from a node to each other node; -1 where no way leads."""
    matrix = arcs.followers
    hops = np.full(arcs.count, -1)
    hops[source] = 0
    frontier = np.array([source])
    while len(frontier):
        _, slots = expand_rows(matrix, frontier)
        heads = matrix.indices[slots]
        reached = hops[frontier[0]] + 1
        frontier = np.unique(heads[hops[heads] < 0])
        hops[frontier] = reached
    return hops


def measure_distances(arcs: Arcs, source: int) -> Values:
    """Measure the least sum of weights from a node to each other node; infinite where no way leads."""
    return np.asarray(csgraph.dijkstra(arcs.shortest, directed=True, indices=source))
