"""Groups of nodes by density: label propagation and Louvain, both in synchronous rounds."""

from typing import Any

import numpy as np

from omnigraphdb.engine.analytics.arcs import Arcs, Matrix, Nodes, Values, build_matrix, list_rows
from omnigraphdb.engine.analytics.bounds import Bounds
from omnigraphdb.engine.analytics.components import number_by_first

_STALE_ROUNDS = 8
"""A level of Louvain ends when its best division has not improved for so many rounds."""
_GAIN_MIN = 1e-7
_TRIES, _TRIES_ARCS_MAX = 4, 100_000
"""A small graph is divided so many times; the best division counts."""


def propagate_labels(arcs: Arcs, *, rounds: int, bounds: Bounds) -> Nodes:
    """Give each node the label that weighs most among its neighbours, all nodes at once; ties go to the smallest.

    Rounds end when no label changes, or when two divisions take turns, as on both sides of a bipartite graph: the number
    of rounds then says which of them is the answer.
    """
    ties = arcs.ties
    owners = list_rows(ties)
    labels = np.arange(arcs.count)
    before = labels
    for number in range(rounds):
        bounds.state = f"{number} rounds are done"
        bounds.check_time()
        nodes, neighbour_labels, weights = _sum_by_label(
            arcs.count, owners, labels[ties.indices], ties.data
        )
        best = _choose_best(nodes, weights)
        following = labels.copy()
        following[nodes[best]] = neighbour_labels[best]
        if np.array_equal(following, labels):
            break
        if np.array_equal(following, before):
            return following if (rounds - number) % 2 else labels
        before, labels = labels, following
    return labels


def find_communities(arcs: Arcs, *, seed: int, bounds: Bounds) -> Nodes:
    """Divide the nodes so that the modularity is high (Louvain, weighted, undirected).

    Groups become nodes until none moves; then single nodes move again, as long as that gains.
    """
    loops = arcs.sources == arcs.targets
    inner = arcs.sum_by_node(arcs.sources[loops], 2 * arcs.values[loops])
    if arcs.ties.data.sum() + inner.sum() == 0:
        return np.arange(arcs.count)
    rng = np.random.default_rng(seed)
    tries = _TRIES if len(arcs) <= _TRIES_ARCS_MAX else 1
    divisions = [_improve_groups(arcs.ties, inner, rng, bounds) for _ in range(tries)]
    return max(divisions, key=lambda groups: compute_modularity(arcs.ties, inner, groups))


def _improve_groups(ties: Matrix, inner: Values, rng: np.random.Generator, bounds: Bounds) -> Nodes:
    best, quality = np.arange(len(inner)), -1.0
    while True:
        groups = _divide_by_levels(ties, inner, best, rng, bounds)
        gained = compute_modularity(ties, inner, groups)
        if gained <= quality + _GAIN_MIN:
            return best
        best, quality = groups, gained


def _divide_by_levels(
    ties: Matrix, inner: Values, members: Nodes, rng: np.random.Generator, bounds: Bounds
) -> Nodes:
    """Move nodes, then groups, then groups of groups, beginning with a division."""
    groups = members = _divide(ties, inner, members, rng, bounds)
    while (count := int(groups.max()) + 1) < len(inner):
        ties, inner = _contract(ties, inner, groups, count)
        groups = _divide(ties, inner, np.arange(count), rng, bounds)
        members = groups[members]
    return number_by_first(members)


def compute_modularity(ties: Matrix, inner: Values, groups: Nodes) -> float:
    """Compute the modularity: the share of weight inside the groups, less the share that chance would put there."""
    owners = list_rows(ties)
    total = ties.data.sum() + inner.sum()
    within = ties.data[groups[owners] == groups[ties.indices]].sum() + inner.sum()
    strength = np.bincount(owners, ties.data, len(inner)) + inner
    sums = np.bincount(groups, strength)
    return float(within / total - np.square(sums / total).sum())


def _divide(
    ties: Matrix, inner: Values, groups: Nodes, rng: np.random.Generator, bounds: Bounds
) -> Nodes:
    """Divide the nodes of one level: nodes move to the neighbouring group of the highest gain; some of them at random in each round.

    If all moved at once, two neighbours would change places for ever. Fewer of them move when nothing is gained.
    """
    count = len(inner)
    owners = list_rows(ties)
    strength = np.bincount(owners, ties.data, count) + inner
    best, best_quality, stale = groups, compute_modularity(ties, inner, groups), 0
    for _ in bounds.count_rounds():
        bounds.state = f"the modularity is {best_quality:.4f}"
        moving = rng.random(count) < 0.5 ** (1 + stale / 2)
        groups = _move(ties, owners, strength, groups, moving)
        quality = compute_modularity(ties, inner, groups)
        stale = 0 if quality > best_quality + _GAIN_MIN else stale + 1
        if quality > best_quality:
            best, best_quality = groups, quality
        if stale == _STALE_ROUNDS:
            break
    return number_by_first(best)


def _move(ties: Matrix, owners: Nodes, strength: Values, groups: Nodes, moving: Any) -> Nodes:
    """Move every node of a half to the group where it gains most; staying counts as one of the choices."""
    arcs = moving[owners]
    sums = np.bincount(groups, strength, len(strength))
    movers = np.flatnonzero(moving)
    # An arc of weight 0 to the own group makes staying a choice for a node that has no neighbour there.
    nodes, group_labels, weights = _sum_by_label(
        len(groups),
        np.concatenate([owners[arcs], movers]),
        np.concatenate([groups[ties.indices[arcs]], groups[movers]]),
        np.concatenate([ties.data[arcs], np.zeros(len(movers))]),
    )
    others = sums[group_labels] - np.where(groups[nodes] == group_labels, strength[nodes], 0)
    gains = weights - strength[nodes] * others / strength.sum()
    best = _choose_best(nodes, gains)
    new_groups = groups.copy()
    new_groups[nodes[best]] = group_labels[best]
    return new_groups


def _contract(ties: Matrix, inner: Values, groups: Nodes, count: int) -> tuple[Matrix, Values]:
    """Make one node of every group; the weight inside a group stays with it."""
    owners = list_rows(ties)
    ends, others = groups[owners], groups[ties.indices]
    inside = ends == others
    inner_weights = np.bincount(groups, inner, count) + np.bincount(
        ends[inside], ties.data[inside], count
    )
    return build_matrix(
        count, ends[~inside], others[~inside], ties.data[~inside]
    ), inner_weights.astype(np.float64)


def _sum_by_label(
    count: int, nodes: Nodes, labels: Nodes, weights: Values
) -> tuple[Nodes, Nodes, Values]:
    """Add weights by (node, label), sorted by node, then label."""
    summed = build_matrix(count, nodes, labels, weights)
    summed.sum_duplicates()
    return list_rows(summed), summed.indices, summed.data


def _choose_best(nodes: Nodes, values: Values) -> Nodes:
    """Find the position of the highest value of each node, the first of equal values; nodes are sorted."""
    if not len(nodes):
        return nodes
    starts = np.flatnonzero(np.diff(nodes, prepend=-1))
    highest = np.repeat(np.maximum.reduceat(values, starts), np.diff(starts, append=len(nodes)))
    positions = np.flatnonzero(values == highest)
    return positions[np.flatnonzero(np.diff(nodes[positions], prepend=-1))]
