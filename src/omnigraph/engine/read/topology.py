"""Who is connected to whom: the edges of one table version over dense node numbers, both ways."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.changes import column
from omnigraph.compile.checked import Direction
from omnigraph.engine.read.entities import ABSENT, Entities, Numbers

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Compressed rows: the neighbours of node n are `targets[offsets[n]:offsets[n + 1]]`."""

    offsets: Offsets
    targets: Numbers
    edges: Numbers

    @property
    def nbytes(self) -> int:
        """How much memory this takes."""
        return self.offsets.nbytes + self.targets.nbytes + self.edges.nbytes

    def degrees(self, nodes: Numbers) -> Numbers:
        """How many neighbours each node has; none for no node."""
        safe = np.where(nodes == ABSENT, 0, nodes)
        counts = self.offsets[safe + 1] - self.offsets[safe]
        return np.where(nodes == ABSENT, 0, counts)

    def expand(self, nodes: Numbers) -> tuple[Numbers, Numbers]:
        """For every node its neighbours: the place of the node in the input, and where in `targets`."""
        counts = self.degrees(nodes)
        rows = np.repeat(np.arange(len(nodes), dtype=np.int64), counts)
        starts = self.offsets[np.where(nodes == ABSENT, 0, nodes)]
        ends = np.cumsum(counts)
        places = np.arange(len(rows), dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
        return rows, places


@dataclass(frozen=True, slots=True)
class Topology:
    """One edge table: each edge as it is (`edges…`) and pairs of nodes once (`pairs…`)."""

    source_nodes: int
    target_nodes: int
    edges_out: Adjacency
    edges_in: Adjacency
    pairs_out: Adjacency
    pairs_in: Adjacency

    @property
    def nbytes(self) -> int:
        """How much memory this takes."""
        kept = (self.edges_out, self.edges_in, self.pairs_out, self.pairs_in)
        return sum(one.nbytes for one in kept)

    def pairs(self, direction: Direction) -> Adjacency:
        """Neighbours, each once."""
        match direction:
            case Direction.OUT:
                return self.pairs_out
            case Direction.IN:
                return self.pairs_in
            case Direction.BOTH:
                return self._both(self.pairs_out, self.pairs_in, distinct=True)

    def by_edge(self, direction: Direction) -> Adjacency:
        """Neighbours once per edge, with the edge; a loop once even when both ways are walked."""
        match direction:
            case Direction.OUT:
                return self.edges_out
            case Direction.IN:
                return self.edges_in
            case Direction.BOTH:
                return self._both(self.edges_out, self.edges_in, distinct=False)

    def _both(self, out: Adjacency, back: Adjacency, *, distinct: bool) -> Adjacency:
        n = self.source_nodes
        sources = np.concatenate([_rows(out, n), _rows(back, n)])
        targets = np.concatenate([out.targets, back.targets])
        edges = np.concatenate([out.edges, back.edges])
        # A loop is in both directions; it is met once.
        repeated = (sources == targets) & (np.arange(len(sources)) >= len(out.targets))
        kept = ~repeated
        return compress(sources[kept], targets[kept], edges[kept], n, distinct=distinct)


def _rows(adjacency: Adjacency, n: int) -> Numbers:
    return np.repeat(np.arange(n, dtype=np.int64), np.diff(adjacency.offsets))


def compress(
    sources: Numbers, targets: Numbers, edges: Numbers, nodes: int, *, distinct: bool
) -> Adjacency:
    """Sort edges by source, then target; keep pairs once when asked."""
    order = np.lexsort((targets, sources))
    sources, targets, edges = sources[order], targets[order], edges[order]
    if distinct and len(sources):
        fresh = np.ones(len(sources), dtype=bool)
        fresh[1:] = (sources[1:] != sources[:-1]) | (targets[1:] != targets[:-1])
        sources, targets, edges = sources[fresh], targets[fresh], edges[fresh]
    offsets = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources, minlength=nodes), out=offsets[1:])
    return Adjacency(offsets, targets, edges)


def topology_of(edges: Entities, sources: Entities, targets: Entities) -> Topology:
    """The topology of an edge table version, built once while it is held."""
    key = edges.key("topology", sources.key(), targets.key())
    return edges.cache.get(
        key, lambda: _build(edges, sources, targets), lambda topology: topology.nbytes
    )


def _build(edges: Entities, sources: Entities, targets: Entities) -> Topology:
    rows = edges.table.read(["src", "dst"])
    src = _encode(column(rows, "src"), sources)
    dst = _encode(column(rows, "dst"), targets)
    numbers = np.arange(len(src), dtype=np.int64)
    n, m = len(sources.ids.texts), len(targets.ids.texts)
    whole = (src != ABSENT) & (dst != ABSENT)
    src, dst, numbers = src[whole], dst[whole], numbers[whole]
    return Topology(
        source_nodes=n,
        target_nodes=m,
        edges_out=compress(src, dst, numbers, n, distinct=False),
        edges_in=compress(dst, src, numbers, m, distinct=False),
        pairs_out=compress(src, dst, numbers, n, distinct=True),
        pairs_in=compress(dst, src, numbers, m, distinct=True),
    )


def _encode(texts: pa.Array, nodes: Entities) -> Numbers:
    """Ids as dense numbers; each distinct id is looked up once."""
    encoded = texts.dictionary_encode()
    numbers = nodes.numbers_of(encoded.dictionary)
    codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return numbers[codes] if len(numbers) else np.full(len(texts), ABSENT, dtype=np.int64)
