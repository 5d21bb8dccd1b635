"""Arcs between the nodes of a projection: integer arrays, and the sparse matrices that algorithms work on."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Nodes = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Matrix = Any
"""A `scipy.sparse.csr_array`; scipy has no types."""


class Arcs:
    """Directed arcs between nodes that are numbered from 0; parallel arcs and loops are kept."""

    def __init__(self, count: int, sources: Nodes, targets: Nodes, weights: Values | None) -> None:
        self.count = count
        self.sources, self.targets, self.weights = sources, targets, weights

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def values(self) -> Values:
        """The weight of each arc; 1 where the projection has none."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def sum_by_node(self, nodes: Nodes, values: Values) -> Values:
        """Add values by node."""
        return np.bincount(nodes, values, self.count).astype(np.float64)

    @cached_property
    def summed(self) -> Matrix:
        """Weights by (source, target), those of parallel arcs added."""
        return build_matrix(self.count, self.sources, self.targets, self.values)

    @cached_property
    def shortest(self) -> Matrix:
        """Weights by (source, target), the least of parallel arcs; zero weights stay arcs."""
        order = np.lexsort((self.values, self.targets, self.sources))
        sources, targets = self.sources[order], self.targets[order]
        first = np.ones(len(order), bool)
        first[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
        least_arcs = order[first]
        return build_matrix(
            self.count, self.sources[least_arcs], self.targets[least_arcs], self.values[least_arcs]
        )

    @cached_property
    def neighbours(self) -> Matrix:
        """1 for each pair of different nodes with an arc in either direction: the simple undirected graph."""
        distinct = self.sources != self.targets
        ends = np.concatenate([self.sources[distinct], self.targets[distinct]])
        others = np.concatenate([self.targets[distinct], self.sources[distinct]])
        return mark_pairs(self.count, ends, others)

    @cached_property
    def followers(self) -> Matrix:
        """1 for each pair of different nodes with an arc from the first to the second."""
        distinct = self.sources != self.targets
        return mark_pairs(self.count, self.sources[distinct], self.targets[distinct])

    @cached_property
    def ties(self) -> Matrix:
        """Weights between different nodes, added over both directions: the weighted undirected graph."""
        distinct = self.sources != self.targets
        sources, targets, values = (
            self.sources[distinct],
            self.targets[distinct],
            self.values[distinct],
        )
        return build_matrix(
            self.count,
            np.concatenate([sources, targets]),
            np.concatenate([targets, sources]),
            np.concatenate([values, values]),
        )


def build_matrix(count: int, rows: Nodes, columns: Nodes, values: Values) -> Matrix:
    """Build a sparse square matrix; values at equal positions are added."""
    return sparse.csr_array((values, (rows, columns)), shape=(count, count))


def mark_pairs(count: int, rows: Nodes, columns: Nodes) -> Matrix:
    """Build a sparse square matrix of ones; equal positions stay one."""
    marked = build_matrix(count, rows, columns, np.ones(len(rows)))
    marked.data[:] = 1
    return marked


def list_rows(matrix: Matrix) -> Nodes:
    """List the row of each stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def expand_rows(matrix: Matrix, rows: Nodes) -> tuple[Nodes, Nodes]:
    """List the arcs that leave some nodes: the node among `rows` that each arc leaves, and its position in the matrix."""
    starts = matrix.indptr[rows].astype(np.int64)
    lengths = matrix.indptr[rows + 1].astype(np.int64) - starts
    owners = np.repeat(np.arange(len(rows)), lengths)
    within = np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return owners, np.repeat(starts, lengths) + within
