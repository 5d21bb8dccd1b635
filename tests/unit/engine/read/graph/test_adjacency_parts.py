"""An adjacency that is built in parts is the one that is built at once, and takes the memory that is stated."""

import numpy as np
import pytest

from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.read.graph import adjacency_parts
from omnigraphdb.engine.read.graph.adjacency import Ends, NeighbourUnit, Slots, compress
from omnigraphdb.engine.read.graph.adjacency_parts import build_in_parts

NODES, EDGES = 300, 5_000


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let memory alone decide how many edges are sorted together."""
    monkeypatch.setattr(adjacency_parts, "_PART_EDGES_MIN", 1)


def edges(nodes: int, count: int, seed: int) -> Ends:
    chance = np.random.default_rng(seed)
    near, far = chance.integers(0, nodes, count), chance.integers(0, nodes, count) ** 2 // nodes
    return Ends(near=near, far=far, edges=chance.permutation(count).astype(np.int64))


def cut(ends: Ends, rows: int) -> list[Ends]:
    return [ends.keep(slice(start, start + rows)) for start in range(0, len(ends.near), rows)]


@pytest.mark.parametrize("unit", NeighbourUnit)
@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize(
    ("nodes", "count", "bytes_max"),
    [(NODES, EDGES, 20_000), (NODES, EDGES, 10_000_000), (1, 40, 500), (NODES, 0, 100)],
)
def test_parts_give_what_one_sort_gives(
    unit: NeighbourUnit, direction: Direction, nodes: int, count: int, bytes_max: int
) -> None:
    ends, slots = edges(nodes, count, 3), Slots(0, nodes)
    batches = [one.oriented(direction) for one in cut(ends, 700)]
    built = build_in_parts(slots, batches, unit, bytes_max)
    # One batch after the other, because the order of edges in both directions follows the batches.
    whole = Ends(
        near=np.concatenate([np.empty(0, np.int64), *(one.near for one in batches)]),
        far=np.concatenate([np.empty(0, np.int64), *(one.far for one in batches)]),
        edges=np.concatenate([np.empty(0, np.int64), *(one.edges for one in batches)]),
    )
    expected = compress(slots, whole, unit)
    assert built.offsets.tolist() == expected.offsets.tolist()
    assert built.targets.tolist() == expected.targets.tolist()
    assert (built.edges is None) == (expected.edges is None)
    if built.edges is not None and expected.edges is not None:
        assert built.edges.tolist() == expected.edges.tolist()
    size = built.targets.nbytes + (0 if built.edges is None else built.edges.nbytes)
    assert built.mapped == (size > bytes_max // 4)


def test_memory_is_four_bytes_for_a_pair_eight_for_an_edge_and_four_for_a_node() -> None:
    ends, slots = edges(NODES, EDGES, 5), Slots(0, NODES)
    pairs, walked = (compress(slots, ends, unit) for unit in NeighbourUnit)
    assert pairs.nbytes == 4 * len(pairs.targets) + 4 * (NODES + 2)
    assert walked.nbytes == 8 * EDGES + 4 * (NODES + 2)
    for unit in NeighbourUnit:
        mapped = build_in_parts(slots, cut(ends, 900), unit, 20_000)
        assert mapped.nbytes == 4 * (NODES + 2)
