"""Which nodes belong together by connection: components, cores, triangles."""

import numpy as np
from scipy.sparse import csgraph

from omnigraph.engine.analytics.arcs import Arcs, Nodes, expand_rows, list_rows


def find_components(arcs: Arcs, *, strong: bool) -> Nodes:
    """The component of each node; components are numbered by their first node."""
    if arcs.count == 0:
        return np.zeros(0, np.int64)
    kind = "strong" if strong else "weak"
    _, labels = csgraph.connected_components(arcs.followers, directed=True, connection=kind)
    return number_by_first(labels)


def number_by_first(labels: Nodes) -> Nodes:
    """Number groups in the order of their first members, whatever they were called."""
    _, first, members = np.unique(labels, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first)] = np.arange(len(first))
    return order[members]


def count_triangles(arcs: Arcs) -> Nodes:
    """In how many triangles of the undirected graph each node is.

    Each edge points to its end of higher degree, so that no node has many edges that leave it.
    """
    both = arcs.neighbours
    degrees = np.diff(both.indptr)
    ends = list_rows(both)
    rank = np.empty(arcs.count, np.int64)
    rank[np.lexsort((np.arange(arcs.count), degrees))] = np.arange(arcs.count)
    up = both.copy()
    up.data = (rank[ends] < rank[both.indices]).astype(np.float64)
    up.eliminate_zeros()
    closed = (up @ up).multiply(up)
    shared = (up.T.tocsr() @ up).multiply(up)
    counts = closed.sum(axis=1) + closed.sum(axis=0) + shared.sum(axis=1)
    return np.asarray(counts).round().astype(np.int64)


def find_cores(arcs: Arcs) -> Nodes:
    """The core number of each node: the largest k such that it is in a subgraph of degrees of at least k."""
    both = arcs.neighbours
    degrees = np.diff(both.indptr).astype(np.int64)
    cores = np.zeros(arcs.count, np.int64)
    alive = np.ones(arcs.count, bool)
    left, k = np.arange(arcs.count), 0
    while len(left):
        k = max(k, int(degrees[left].min()))
        peeled = left[degrees[left] <= k]
        while len(peeled):
            cores[peeled] = k
            alive[peeled] = False
            _, slots = expand_rows(both, peeled)
            touched = both.indices[slots]
            np.subtract.at(degrees, touched, 1)
            near = np.unique(touched)
            peeled = near[alive[near] & (degrees[near] <= k)]
        left = left[alive[left]]
    return cores
