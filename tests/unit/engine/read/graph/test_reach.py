"""Reaching nodes: each once, at its shortest distance, whichever way what was seen is kept."""

from collections import deque

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.engine.read.columns.row_ids import ABSENT, RowIds
from omnigraphdb.engine.read.graph.adjacency import Adjacency, Ends, NeighbourUnit, Slots, compress
from omnigraphdb.engine.read.graph.reach import reach

NODES = 9
edges = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=25)


def walked(pairs: list[tuple[int, int]], source: int, low: int, high: int) -> set[int]:
    """Breadth first, as the language says: the source only through a loop of its own."""
    near = {a: {b for x, b in pairs if x == a} for a in range(NODES)}
    seen, found, frontier = {source}, set(), deque([(source, 0)])
    if low <= 1 and source in near[source]:
        found.add(source)
    while frontier:
        node, distance = frontier.popleft()
        for after in near[node] - seen if distance < high else ():
            seen.add(after)
            frontier.append((after, distance + 1))
            if distance + 1 >= low:
                found.add(after)
    return found


@given(
    pairs=edges,
    sources=st.lists(st.integers(ABSENT, NODES - 1), max_size=5, unique=True),
    low=st.integers(1, 3),
    more=st.integers(0, 2),
    sparse=st.booleans(),
    ordered=st.booleans(),
)
def test_every_node_is_reached_once_at_its_shortest_distance(
    pairs: list[tuple[int, int]],
    sources: list[int],
    low: int,
    more: int,
    sparse: bool,
    ordered: bool,
) -> None:
    known = np.arange(NODES) if sparse else None
    ends = Ends(
        near=np.array([a for a, _ in pairs], dtype=np.int64),
        far=np.array([b for _, b in pairs], dtype=np.int64),
        edges=np.arange(len(pairs)),
    )
    adjacency = compress(Slots(0, NODES, known), ends, NeighbourUnit.PAIR)

    def step(nodes: RowIds) -> Adjacency:
        return adjacency

    asked = np.array(sorted(sources), dtype=np.int64)
    found = reach(step, asked, low, low + more, ordered=ordered)
    for source in sources:
        if source == ABSENT:
            continue
        there = found.walk(np.array([source], dtype=np.int64)).targets.tolist()
        assert len(there) == len(set(there))
        assert set(there) == walked(pairs, source, low, low + more)
        if ordered:
            assert there == sorted(there)
            everyone = np.arange(NODES)
            marked = found.connected(np.full(NODES, source), everyone)
            assert everyone[marked].tolist() == there
