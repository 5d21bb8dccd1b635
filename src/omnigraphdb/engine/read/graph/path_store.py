"""The paths that a query has found: each is a number, its nodes and its edges are rows of flat arrays."""

import numpy as np

from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    RowIds,
    lay_out_runs,
    no_row_ids,
)
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.memory import HeldBytes, counted_bytes


class PathStore:
    """Paths by number, in the order in which they were found, within a bound of memory."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._memory = HeldBytes()
        self._hops = no_row_ids()
        self._nodes = no_row_ids()
        self._edges = no_row_ids()

    def spend(self, size: int) -> None:
        """Count memory of a search and of its paths, or refuse a size beyond the bound."""
        self._bytes += size
        if self._bytes > self._bytes_max:
            raise ResourceLimit(
                "bytes of the paths of a query",
                self._bytes_max,
                self._bytes,
                hint="ask for fewer paths: smaller bounds, fewer starts, a condition on the edges, "
                "or raise OMNIGRAPH_PATH_BYTES_MAX",
            )
        self._memory.take(size)

    def release(self, size: int) -> None:
        """Release the memory of a search that has ended."""
        self._bytes -= size
        self._memory.give_back(size)

    def add(self, hops: Integers, nodes: RowIds, edges: RowIds) -> RowIds:
        """Add paths one after the other and return their numbers; a path has one node more than edges."""
        self.spend(hops.nbytes + nodes.nbytes + edges.nbytes)
        first = len(self._hops)
        longest = max(self._nodes.nbytes, self._edges.nbytes)
        with counted_bytes(longest + nodes.nbytes):
            self._hops = np.concatenate([self._hops, hops])
            self._nodes = np.concatenate([self._nodes, nodes])
            self._edges = np.concatenate([self._edges, edges])
        return np.arange(first, len(self._hops), dtype=np.int64)

    def hops(self, numbers: RowIds) -> Integers:
        """Count the edges of each path; -1 for no path."""
        counts = np.full(len(numbers), ABSENT, dtype=np.int64)
        present = numbers != ABSENT
        counts[present] = self._hops[numbers[present]]
        return counts

    def edges(self, numbers: RowIds) -> tuple[Integers, RowIds]:
        """List the edges of paths, one path after the other: the row of each, and the edge."""
        ends = np.cumsum(self._hops)
        return self._list(numbers, ends - self._hops, 0, self._edges)

    def nodes(self, numbers: RowIds) -> tuple[Integers, RowIds]:
        """List the nodes of paths, one path after the other: the row of each, and the node."""
        ends = np.cumsum(self._hops + 1)
        return self._list(numbers, ends - self._hops - 1, 1, self._nodes)

    def _list(
        self, numbers: RowIds, starts: Integers, more: int, row_ids: RowIds
    ) -> tuple[Integers, RowIds]:
        present = np.flatnonzero(numbers != ABSENT)
        present_numbers = numbers[present]
        if not len(present_numbers):
            return no_row_ids(), no_row_ids()
        rows, positions = lay_out_runs(starts[present_numbers], self._hops[present_numbers] + more)
        return present[rows], row_ids[positions]
