"""Ranks of nodes: PageRank, degrees, betweenness."""

import numpy as np

from omnigraphdb.engine.analytics.arcs import Arcs, Nodes, Values, expand_rows
from omnigraphdb.engine.analytics.bounds import Bounds


def compute_pagerank(
    arcs: Arcs,
    *,
    damping: float,
    tolerance: float,
    bounds: Bounds,
    start: Values | None = None,
) -> Values:
    """Compute the share of time that a walker spends at each node; at a node without a way out the walker jumps anywhere.

    The iteration ends when the ranks change by less than `tolerance` in all.
    """
    count = arcs.count
    if count == 0:
        return np.zeros(0)
    outgoing = np.bincount(arcs.sources, arcs.values, count)
    is_dead_end = outgoing == 0
    shares = np.divide(1.0, outgoing, out=np.zeros(count), where=~is_dead_end)
    incoming = arcs.summed.T.tocsr()
    ranks = np.full(count, 1 / count) if start is None else start / start.sum()
    for _ in bounds.count_rounds():
        jumps = (1 - damping + damping * ranks[is_dead_end].sum()) / count
        following = damping * (incoming @ (ranks * shares)) + jumps
        change = float(np.abs(following - ranks).sum())
        ranks = following
        bounds.state = f"the ranks still change by {change:.1e}"
        if change < tolerance:
            break
    return ranks


def count_degrees(arcs: Arcs) -> tuple[Nodes, Nodes]:
    """Count the arcs that enter and leave each node."""
    return (
        np.bincount(arcs.targets, minlength=arcs.count),
        np.bincount(arcs.sources, minlength=arcs.count),
    )


def compute_betweenness(arcs: Arcs, *, samples: int | None, seed: int, bounds: Bounds) -> Values:
    """Count the shortest paths that pass each node, as a share of all pairs; from some sources, or from all."""
    count = arcs.count
    total = np.zeros(count)
    if count < 3:
        return total
    sources = np.arange(count)
    if samples is not None and samples < count:
        sources = np.random.default_rng(seed).choice(count, samples, replace=False)
    for done, source in enumerate(sources):
        bounds.state = f"{done} of {len(sources)} sources are done"
        bounds.check_time()
        total += _sum_dependencies(arcs, int(source))
    return total * (count / len(sources)) / ((count - 1) * (count - 2))


def _sum_dependencies(arcs: Arcs, source: int) -> Values:
    """Sum the dependencies of one source, level by level out and back (Brandes)."""
    matrix = arcs.followers
    paths = np.zeros(arcs.count)
    level = np.full(arcs.count, -1)
    paths[source], level[source] = 1, 0
    steps: list[tuple[Nodes, Nodes]] = []
    frontier = np.array([source])
    while len(frontier):
        owners, slots = expand_rows(matrix, frontier)
        tails, heads = frontier[owners], matrix.indices[slots]
        fresh = np.unique(heads[level[heads] < 0])
        level[fresh] = len(steps) + 1
        forward = level[heads] == len(steps) + 1
        tails, heads = tails[forward], heads[forward]
        np.add.at(paths, heads, paths[tails])
        steps.append((tails, heads))
        frontier = fresh
    dependencies = np.zeros(arcs.count)
    for tails, heads in reversed(steps):
        np.add.at(dependencies, tails, paths[tails] / paths[heads] * (1 + dependencies[heads]))
    dependencies[source] = 0
    return dependencies
