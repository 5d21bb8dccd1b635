"""Which nodes belong together by connection: components, cores, triangles."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csgraph

from omnigraph.engine.analytics.arcs import (
    Arcs,
    Nodes,
    build_matrix,
    expand_rows,
    list_rows,
)

TOUCHED_SHARE_MAX = 0.2
"""The share of nodes in components that lost an arc from which on all arcs are looked at again, which then costs less."""
ROWS_PER_ARC_MAX = 4
"""Arcs are matched by a table of row numbers, which may have so many times the places of the arcs."""


def find_components(arcs: Arcs, *, strong: bool) -> Nodes:
    """The component of each node; components are numbered by their first node."""
    if arcs.count == 0:
        return np.zeros(0, np.int64)
    kind = "strong" if strong else "weak"
    _, labels = csgraph.connected_components(arcs.followers, directed=True, connection=kind)
    return number_by_first(labels)


def update_components(arcs: Arcs, former: Nodes, before: Arcs) -> Nodes:
    """The weak components of arcs, from a former answer: labels of these nodes (-1 for new ones), and its arcs between them.

    An arc that is gone may have split its component, so that the arcs of those components are looked at again; an arc
    that is new joins two components. All other nodes keep their labels.
    """
    matched = _match_arcs(before, arcs)
    if arcs.count == 0 or matched is None:
        return find_components(arcs, strong=False)
    known = int(former.max(initial=-1)) + 1
    labels = np.where(former < 0, known + np.arange(arcs.count), former)
    touched = np.zeros(known + arcs.count, bool)
    stayed = np.zeros(len(arcs), bool)
    stayed[matched[matched >= 0]] = True
    for ends in (before.sources, before.targets):
        left = ends[matched < 0]
        touched[labels[left[left >= 0]]] = True
    if touched[labels].mean() > TOUCHED_SHARE_MAX:
        return find_components(arcs, strong=False)
    labels = _divide_again(arcs, labels, touched)
    return number_by_first(_join_labels(labels, arcs.sources[~stayed], arcs.targets[~stayed]))


def _match_arcs(before: Arcs, after: Arcs) -> Nodes | None:
    """For each former arc an arc between the same nodes, -1 where none was found; None when rows do not tell.

    Rows only say where to look: an arc that is overlooked is taken for gone and for new, which costs time and changes nothing.
    """
    if before.rows is None or after.rows is None or not len(after):
        return None
    size = 1 + int(max(before.rows.max(initial=0), after.rows.max(initial=0)))
    if size > ROWS_PER_ARC_MAX * (len(before) + len(after) + 1_000):
        return None
    places = np.full(size, -1)
    places[after.rows] = np.arange(len(after))
    found: Nodes = places[before.rows]
    there = np.maximum(found, 0)
    ends, others = after.sources[there], after.targets[there]
    same = (ends == before.sources) & (others == before.targets)
    same |= (ends == before.targets) & (others == before.sources)
    return np.where(same, found, -1)


def _divide_again(arcs: Arcs, labels: Nodes, touched: npt.NDArray[np.bool_]) -> Nodes:
    """Find the components inside of those that lost a pair."""
    again = touched[labels]
    nodes = np.flatnonzero(again)
    if not len(nodes):
        return labels
    numbers = np.cumsum(again) - 1
    kept = again[arcs.sources] & again[arcs.targets]
    rows, columns = numbers[arcs.sources[kept]], numbers[arcs.targets[kept]]
    inside = build_matrix(len(nodes), rows, columns, np.ones(len(rows)))
    _, found = csgraph.connected_components(inside, directed=False)
    divided = labels.copy()
    divided[nodes] = int(labels.max()) + 1 + found
    return divided


def _join_labels(labels: Nodes, ends: Nodes, others: Nodes) -> Nodes:
    """Give components one label when a new pair joins them."""
    if not len(ends):
        return labels
    named, places = np.unique(np.concatenate([labels[ends], labels[others]]), return_inverse=True)
    rows, columns = places[: len(ends)], places[len(ends) :]
    _, found = csgraph.connected_components(
        build_matrix(len(named), rows, columns, np.ones(len(rows))), directed=False
    )
    renamed = np.arange(int(labels.max()) + 1)
    renamed[named] = named[np.unique(found, return_index=True)[1]][found]
    return renamed[labels]


def number_by_first(labels: Nodes) -> Nodes:
    """Number groups in the order of their first members; their names are numbers from 0."""
    if not len(labels):
        return np.zeros(0, np.int64)
    first = np.full(int(labels.max()) + 1, len(labels))
    # Of several writes to one place the last counts: that of the first member.
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    order = np.empty(len(first), np.int64)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    numbers: Nodes = order[labels]
    return numbers


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
