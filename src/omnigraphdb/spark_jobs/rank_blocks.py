"""PageRank on Spark: nodes in blocks, each with its arcs and ranks as arrays in one task; blocks send one another sums."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraphdb.engine.analytics.bounds import Bounds
from omnigraphdb.spark_jobs.packets import pack_packet, unpack_packet
from omnigraphdb.spark_jobs.versions import seal_task
from omnigraphdb.values import dataclass

Batches = Iterator[pa.RecordBatch]
Values = npt.NDArray[np.float64]
Sizes = tuple[int, ...]

BLOCK_BITS: Final = 18
"""A block has so many nodes at most: their arcs and ranks are in the memory of one task."""
PART_BITS: Final = 33
"""Spark numbers rows by partition; the rows of one have so many bits."""
CHUNK_ARCS: Final = 1 << 20
"""Arcs that are packed into one row."""

STATE: Final = "block int, kind int, packed binary, change double, lost double"
ARCS, STUCK, RANKS, SENT = range(4)
_SCHEMA: Final = pa.schema(
    [
        ("block", pa.int32()),
        ("kind", pa.int32()),
        ("packed", pa.binary()),
        ("change", pa.float64()),
        ("lost", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Blocks:
    """The division of nodes: for each partition of their numbers its first block, and the size of every block."""

    firsts: Mapping[int, int]
    sizes: tuple[int, ...]

    def number(self, name: str) -> tuple[Column, Column]:
        """Return the block of a node, and its position in the block."""
        number = F.col(name)
        offset = number.bitwiseAND((1 << PART_BITS) - 1)
        first_by_part = F.create_map(
            *[F.lit(entry) for pair in self.firsts.items() for entry in pair]
        )
        first = first_by_part[F.shiftright(number, PART_BITS).cast("int")]
        block = first + F.shiftright(offset, BLOCK_BITS).cast("int")
        return block.cast("int"), offset.bitwiseAND((1 << BLOCK_BITS) - 1).cast("int")


def divide_nodes(nodes: DataFrame) -> Blocks:
    """Divide numbered nodes into blocks; this process learns how many each partition has."""
    part = F.shiftright("number", PART_BITS).cast("int").alias("part")
    counted = sorted(nodes.groupBy(part).agg(F.count(F.lit(1))).collect())
    firsts: dict[int, int] = {}
    sizes: list[int] = []
    for part_number, count in counted:
        firsts[part_number] = len(sizes)
        sizes += [min(1 << BLOCK_BITS, count - at) for at in range(0, count, 1 << BLOCK_BITS)]
    return Blocks(firsts, tuple(sizes))


def rank_blocks(
    blocks: Blocks,
    arcs: DataFrame,
    ranks: DataFrame,
    *,
    damping: float,
    tolerance: float,
    bounds: Bounds,
) -> DataFrame:
    """Iterate ranks (`number`, `rank`) along arcs until they change by less than the tolerance; gives `number`, `value`."""
    block, offset = blocks.number("source")
    to, target = blocks.number("target")
    ends = arcs.select(
        block.alias("block"),
        offset.alias("source"),
        to.alias("to"),
        target.alias("target"),
        "weight",
    )
    count, total = sum(blocks.sizes), len(blocks.sizes)
    packed = _keep(_run(_move_rows(ends, total), partial(pack_arcs, blocks.sizes)))
    block, offset = blocks.number("number")
    numbered_ranks = ranks.select(block.alias("block"), offset.alias("place"), "rank")
    state = _run(_move_rows(numbered_ranks, total), partial(pack_ranks, blocks.sizes))
    state, _, lost = _step(packed, state, blocks, None, damping)
    for _ in bounds.count_rounds():
        jumps = (1 - damping + damping * lost) / count
        state, change, lost = _step(packed, state, blocks, jumps, damping)
        bounds.state = f"the ranks still change by {change:.1e}"
        if change < tolerance:
            break
    final_ranks = state.filter(F.col("kind") == RANKS)
    unpack = partial(unpack_ranks, list_starts(blocks))
    return final_ranks.mapInArrow(seal_task(unpack), "number long, value double")


def _move_rows(frame: DataFrame, total: int) -> DataFrame:
    """Bring the rows of every block into the task of its number."""
    return frame.repartitionById(total, frame["block"])


def _run(frame: DataFrame, task: Callable[[pa.Table], Batches]) -> DataFrame:
    """Give a task all rows of its block; blocks without rows have nothing to do."""

    def run(batches: Batches) -> Batches:
        filled_batches = [batch for batch in batches if batch.num_rows]
        if filled_batches:
            yield from task(pa.Table.from_batches(filled_batches))

    return frame.mapInArrow(seal_task(run), STATE)


def _keep(frame: DataFrame) -> DataFrame:
    return frame.localCheckpoint()


def _step(
    packed: DataFrame, state: DataFrame, blocks: Blocks, jumps: float | None, damping: float
) -> tuple[DataFrame, float, float]:
    """Let every block take the ranks sent to it and send again; return also their change and the rank on dead ends."""
    task = partial(take_step, blocks.sizes, jumps, damping)
    following = _keep(_run(_move_rows(packed.union(state), len(blocks.sizes)), task))
    rows = following.filter(F.col("kind") == RANKS).select("change", "lost").collect()
    return following, sum(row[0] for row in rows), sum(row[1] for row in rows)


def list_starts(blocks: Blocks) -> list[int]:
    """List the number of the first node of every block."""
    starts: list[int] = []
    parts = sorted(blocks.firsts.items(), key=lambda pair: pair[1])
    ends = [first for _, first in parts[1:]] + [len(blocks.sizes)]
    for (part, first), end in zip(parts, ends, strict=True):
        starts += [(part << PART_BITS) + (at << BLOCK_BITS) for at in range(end - first)]
    return starts


# ---- tasks: each has the rows of one block, which name it


def _row(block: int, kind: int, table: pa.Table, change: float = 0.0, lost: float = 0.0) -> Any:
    columns = [[block], [kind], [pack_packet(table)], [change], [lost]]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)],
        schema=_SCHEMA,
    )


def pack_arcs(sizes: Sizes, rows: pa.Table) -> Batches:
    """Pack arcs with the share of its source that each brings, sorted by the block that they lead to; pack also the dead ends."""
    block = _block_of(rows)
    sources, weights = rows["source"].to_numpy(), rows["weight"].to_numpy()
    outgoing = np.bincount(sources, weights, sizes[block])
    weighted = np.flatnonzero(outgoing[sources] > 0)
    shares = weights[weighted] / outgoing[sources[weighted]]
    rows = rows.take(pa.array(weighted)).drop_columns(["weight", "block"])
    rows = rows.append_column("share", pa.array(shares)).sort_by("to")
    for start in range(0, rows.num_rows, CHUNK_ARCS):
        yield _row(block, ARCS, rows.slice(start, CHUNK_ARCS).combine_chunks())
    yield _row(block, STUCK, pa.table({"stuck": outgoing == 0}))


def pack_ranks(sizes: Sizes, rows: pa.Table) -> Batches:
    """Pack the ranks of a block in the order of its nodes."""
    block = _block_of(rows)
    ranks = np.zeros(sizes[block])
    ranks[rows["place"].to_numpy()] = rows["rank"].to_numpy()
    yield _row(block, RANKS, pa.table({"rank": ranks}))


def take_step(sizes: Sizes, jumps: float | None, damping: float, rows: pa.Table) -> Batches:
    """Give a block the ranks that follow from the shares sent to it, and send them along its arcs; without `jumps` only send."""
    block, tables_by_kind = _block_of(rows), _sort_rows(rows)
    former = tables_by_kind[RANKS][0]["rank"].to_numpy()
    ranks = former if jumps is None else damping * _sum_sent(tables_by_kind, sizes[block]) + jumps
    change = float(np.abs(ranks - former).sum())
    lost = float(ranks[_find_stuck(tables_by_kind)].sum())
    yield _row(block, RANKS, pa.table({"rank": ranks}), change, lost)
    for arcs in tables_by_kind[ARCS]:
        yield from _send(arcs, ranks, sizes)


def unpack_ranks(starts: Sequence[int], batches: Batches) -> Batches:
    """Give the ranks of blocks the numbers of their nodes."""
    for batch in batches:
        for block, packed in zip(batch["block"].to_pylist(), batch["packed"], strict=True):
            ranks = unpack_packet(packed)["rank"]
            numbers = pa.array(np.arange(len(ranks)) + starts[block])
            yield from pa.table({"number": numbers, "value": ranks}).to_batches()


def _block_of(rows: pa.Table) -> int:
    """Return the block of the rows of a task; the task's own number differs where frames are united afterwards."""
    return int(rows["block"][0].as_py())


def _sort_rows(rows: pa.Table) -> dict[int, list[pa.Table]]:
    tables_by_kind: dict[int, list[pa.Table]] = {kind: [] for kind in (ARCS, STUCK, RANKS, SENT)}
    for kind, packed in zip(rows["kind"].to_pylist(), rows["packed"], strict=True):
        tables_by_kind[kind].append(unpack_packet(packed))
    assert tables_by_kind[RANKS], "every block has ranks"
    return tables_by_kind


def _find_stuck(tables_by_kind: Mapping[int, list[pa.Table]]) -> npt.NDArray[np.bool_]:
    """Mark the nodes of a block that no arc leaves: all nodes, when the block has no arcs."""
    flags = [table["stuck"].to_numpy() for table in tables_by_kind[STUCK]]
    return flags[0] if flags else np.ones(tables_by_kind[RANKS][0].num_rows, np.bool_)


def _sum_sent(tables_by_kind: Mapping[int, list[pa.Table]], size: int) -> Values:
    total = np.zeros(size)
    for sent in tables_by_kind[SENT]:
        total[sent["target"].to_numpy()] += sent["sum"].to_numpy()
    return total


def _send(arcs: pa.Table, ranks: Values, sizes: Sizes) -> Batches:
    """Add up the rank that the arcs of a chunk bring to each block; arcs are sorted by the block that they lead to."""
    to, targets = arcs["to"].to_numpy(), arcs["target"].to_numpy()
    values = ranks[arcs["source"].to_numpy()] * arcs["share"].to_numpy()
    starts = np.flatnonzero(np.diff(to, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(to)], strict=True):
        block = int(to[start])
        sums = np.bincount(targets[start:end], values[start:end], sizes[block])
        reached = np.flatnonzero(sums)
        table = pa.table({"target": reached.astype(np.int32), "sum": sums[reached]})
        yield _row(block, SENT, table)
