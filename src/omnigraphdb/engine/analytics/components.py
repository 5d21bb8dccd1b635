"""Groups of nodes by connection: components, cores, triangles."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csgraph

from omnigraphdb.engine.analytics.arcs import (
    Arcs,
    Nodes,
    build_matrix,
    expand_rows,
    list_rows,
)

TOUCHED_SHARE_MAX = 0.2
"""The share of nodes in components that lost an arc from which on all arcs are looked at again, which then costs less."""


SAMPLED_ARCS = 1
"""So many arcs per node are looked at first."""


def find_components(arcs: Arcs, *, strong: bool) -> Nodes:
    """Find the component of each node; components are numbered by their first node."""
    if arcs.count == 0:
        return np.zeros(0, np.int64)
    if not strong:
        return number_by_first(_connect_nodes(arcs.count, arcs.sources, arcs.targets))
    _, labels = csgraph.connected_components(arcs.followers, directed=True, connection="strong")
    return number_by_first(labels)


def _connect_nodes(count: int, sources: Nodes, targets: Nodes) -> Nodes:
    """Label nodes that arcs connect in either direction.

    Some of the arcs connect most nodes. Of the other arcs only those between two parts count.
    """
    step = max(len(sources) // (count * SAMPLED_ARCS), 1)
    some = slice(None, None, step)
    labels = _label_parts(count, sources[some], targets[some])
    if step == 1:
        return labels
    ends, others = labels[sources], labels[targets]
    is_joining = ends != others
    joined = _label_parts(int(labels.max()) + 1, ends[is_joining], others[is_joining])
    return joined[labels]


def _label_parts(count: int, sources: Nodes, targets: Nodes) -> Nodes:
    pairs = build_matrix(count, sources, targets, np.ones(len(sources)))
    _, labels = csgraph.connected_components(pairs, directed=False)
    part_labels: Nodes = labels.astype(np.int64)
    return part_labels


def update_components(
    arcs: Arcs, former: Nodes, thinned: Nodes, joined: tuple[Nodes, Nodes]
) -> Nodes:
    """Update the weak components of arcs from a former answer: labels of these nodes, -1 for new ones.

    `thinned` are labels of components that lost an arc, which may have split them: their arcs are looked at again.
    `joined` are the ends of new arcs, each of which joins two components. All other nodes keep their labels.
    """
    if arcs.count == 0:
        return np.zeros(0, np.int64)
    label_count = int(max(former.max(initial=-1), thinned.max(initial=-1))) + 1
    labels = np.where(former < 0, label_count + np.arange(arcs.count), former)
    touched = np.zeros(label_count + arcs.count, bool)
    touched[thinned] = True
    if touched[labels].mean() > TOUCHED_SHARE_MAX:
        return find_components(arcs, strong=False)
    return number_by_first(_join_labels(_divide_again(arcs, labels, touched), *joined))


def _divide_again(arcs: Arcs, labels: Nodes, touched: npt.NDArray[np.bool_]) -> Nodes:
    """Find the components inside of the components that lost a pair."""
    is_touched = touched[labels]
    nodes = np.flatnonzero(is_touched)
    if not len(nodes):
        return labels
    numbers = np.cumsum(is_touched) - 1
    inner_arcs = is_touched[arcs.sources] & is_touched[arcs.targets]
    components = _connect_nodes(
        len(nodes), numbers[arcs.sources[inner_arcs]], numbers[arcs.targets[inner_arcs]]
    )
    divided = labels.copy()
    divided[nodes] = int(labels.max()) + 1 + components
    return divided


def _join_labels(labels: Nodes, ends: Nodes, others: Nodes) -> Nodes:
    """Give components one label when a new pair joins them."""
    if not len(ends):
        return labels
    used_labels, positions = np.unique(
        np.concatenate([labels[ends], labels[others]]), return_inverse=True
    )
    parts = _label_parts(len(used_labels), positions[: len(ends)], positions[len(ends) :])
    renamed = np.arange(int(labels.max()) + 1)
    renamed[used_labels] = used_labels[np.unique(parts, return_index=True)[1]][parts]
    return renamed[labels]


def number_by_first(labels: Nodes) -> Nodes:
    """Number groups in the order of their first members; their names are numbers from 0."""
    if not len(labels):
        return np.zeros(0, np.int64)
    first = np.full(int(labels.max()) + 1, len(labels))
    # Of several writes to one position the last write counts: the write of the first member.
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    order = np.empty(len(first), np.int64)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    numbers: Nodes = order[labels]
    return numbers


def count_triangles(arcs: Arcs) -> Nodes:
    """Count the triangles of the undirected graph that contain each node.

    Each edge points to its end of higher degree, so that no node has many edges that leave it.
    """
    neighbours = arcs.neighbours
    degrees = np.diff(neighbours.indptr)
    ends = list_rows(neighbours)
    rank = np.empty(arcs.count, np.int64)
    rank[np.lexsort((np.arange(arcs.count), degrees))] = np.arange(arcs.count)
    up = neighbours.copy()
    up.data = (rank[ends] < rank[neighbours.indices]).astype(np.float64)
    up.eliminate_zeros()
    closed = (up @ up).multiply(up)
    shared = (up.T.tocsr() @ up).multiply(up)
    counts = closed.sum(axis=1) + closed.sum(axis=0) + shared.sum(axis=1)
    return np.asarray(counts).round().astype(np.int64)


def find_cores(arcs: Arcs) -> Nodes:
    """Find the core number of each node: the largest k such that it is in a subgraph of degrees of at least k."""
    neighbours = arcs.neighbours
    degrees = np.diff(neighbours.indptr).astype(np.int64)
    cores = np.zeros(arcs.count, np.int64)
    alive = np.ones(arcs.count, bool)
    left, k = np.arange(arcs.count), 0
    while len(left):
        k = max(k, int(degrees[left].min()))
        peeled = left[degrees[left] <= k]
        while len(peeled):
            cores[peeled] = k
            alive[peeled] = False
            _, slots = expand_rows(neighbours, peeled)
            touched = neighbours.indices[slots]
            np.subtract.at(degrees, touched, 1)
            near = np.unique(touched)
            peeled = near[alive[near] & (degrees[near] <= k)]
        left = left[alive[left]]
    return cores
