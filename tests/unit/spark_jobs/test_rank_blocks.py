"""Blocks of nodes that send one another sums come to the ranks that one process computes; no Spark runs."""

from collections.abc import Iterable, Iterator
from functools import partial

import networkx as nx
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from omnigraphdb.engine.analytics.arcs import Arcs
from omnigraphdb.spark_jobs import rank_blocks
from omnigraphdb.spark_jobs.rank_blocks import (
    BLOCK_BITS,
    PART_BITS,
    RANKS,
    Blocks,
    list_starts,
    pack_arcs,
    pack_ranks,
    take_step,
    unpack_ranks,
)
from tests.unit.engine.test_analytics import SHAPES, arcs_of

Ranks = npt.NDArray[np.float64]
DAMPING, ROUNDS = 0.85, 12


class Playing:
    """The nodes of a graph in blocks of some sizes, and the rows that each block has."""

    def __init__(self, arcs: Arcs, sizes: tuple[int, ...]) -> None:
        self.arcs, self.sizes = arcs, sizes
        self.firsts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        self.packed = list(self._run(partial(pack_arcs, sizes), [self._list_arcs()]))
        ranks = np.full(arcs.count, 1 / arcs.count)
        block, place = self._place(np.arange(arcs.count))
        rows = pa.table({"block": block, "place": place, "rank": ranks})
        self.state = list(self._run(partial(pack_ranks, sizes), [rows]))

    def _place(self, nodes: npt.NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
        block = np.searchsorted(self.firsts, nodes, side="right") - 1
        return pa.array(block, pa.int32()), pa.array(nodes - self.firsts[block], pa.int32())

    def _list_arcs(self) -> pa.Table:
        (block, source), (to, target) = map(self._place, (self.arcs.sources, self.arcs.targets))
        columns = {"block": block, "source": source, "to": to, "target": target}
        return pa.table({**columns, "weight": self.arcs.values})

    def _run(self, task: object, rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Give a task the rows of each block that has some, as Spark does."""
        assert callable(task)
        united = pa.concat_tables(rows)
        for block in range(len(self.sizes)):
            own = united.filter(pc.equal(united["block"], block))
            if own.num_rows:
                yield pa.Table.from_batches(task(own))

    def step(self, jumps: float | None) -> tuple[float, float]:
        task = partial(take_step, self.sizes, jumps, DAMPING)
        self.state = list(self._run(task, [*self.packed, *self.state]))
        told = [one.filter(pc.equal(one["kind"], RANKS)) for one in self.state]
        return (
            sum(pc.sum(one["change"]).as_py() for one in told),
            sum(pc.sum(one["lost"]).as_py() for one in told),
        )

    def read(self) -> Ranks:
        ranks = pa.concat_tables(self.state)
        ranks = ranks.filter(pc.equal(ranks["kind"], RANKS))
        unpacked = unpack_ranks(self.firsts.tolist(), iter(ranks.to_batches()))
        found = pa.Table.from_batches(unpacked).sort_by("number")
        assert found["number"].to_pylist() == list(range(self.arcs.count))
        return np.asarray(found["value"])


def divide(count: int, blocks: int) -> tuple[int, ...]:
    """Uneven sizes of some blocks, one node each at least."""
    cuts = sorted({max(1, count * one * one // (blocks * blocks)) for one in range(1, blocks)})
    edges = [0, *(cut for cut in cuts if cut < count), count]
    return tuple(int(one) for one in np.diff(edges))


def iterate(arcs: Arcs, rounds: int) -> Ranks:
    """Ranks after so many rounds by the matrix of the graph."""
    matrix = np.zeros((arcs.count, arcs.count))
    np.add.at(matrix, (arcs.targets, arcs.sources), arcs.values)
    outgoing = matrix.sum(axis=0)
    matrix = np.where(outgoing > 0, matrix / np.maximum(outgoing, 1e-300), 1 / arcs.count)
    ranks = np.full(arcs.count, 1 / arcs.count)
    for _ in range(rounds):
        ranks = DAMPING * (matrix @ ranks) + (1 - DAMPING) / arcs.count
    return ranks


@pytest.mark.parametrize("blocks", [1, 2, 5])
@pytest.mark.parametrize("chunk", [3, rank_blocks.CHUNK_ARCS])
@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "empty"])
def test_blocks_come_to_the_ranks_of_one_process(
    shape: str, chunk: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_blocks, "CHUNK_ARCS", chunk)
    graph: nx.MultiDiGraph = SHAPES[shape]()
    arcs = arcs_of(graph)
    playing = Playing(arcs, divide(arcs.count, blocks))
    _, lost = playing.step(None)
    for _ in range(ROUNDS):
        change, lost = playing.step((1 - DAMPING + DAMPING * lost) / arcs.count)
    former, expected = (iterate(arcs, rounds) for rounds in (ROUNDS - 1, ROUNDS))
    np.testing.assert_allclose(playing.read(), expected, atol=1e-14, rtol=0)
    assert change == pytest.approx(np.abs(expected - former).sum(), abs=1e-14)
    assert playing.read().sum() == pytest.approx(1)


def test_an_arc_of_no_weight_is_no_way_out() -> None:
    arcs = Arcs(3, np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0.0, 1.0, 0.0]))
    _, lost = Playing(arcs, (1, 2)).step(None)
    assert lost == pytest.approx(2 / 3)


def test_the_first_node_of_every_block_has_the_number_that_spark_gave_it() -> None:
    full = 1 << BLOCK_BITS
    blocks = Blocks({0: 0, 3: 2, 4: 3}, (full, 7, 5, full, full, 1))
    first, second = 3 << PART_BITS, 4 << PART_BITS
    assert list_starts(blocks) == [0, full, first, second, second + full, second + 2 * full]
