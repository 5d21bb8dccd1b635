"""Spark DataFrames as the input of a load: their rows go to scratch files, written where they are."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from omnigraph.pipeline.input.read import pack_frame
from omnigraph.pipeline.input.splits import Portion, Spilled
from omnigraph.pipeline.location import StoreLocation
from omnigraph.runtime import SYSTEM
from omnigraph.spark.bridge import arrow_schema, plain
from omnigraph.spark.runner import collect_job
from omnigraph.spark.workers import settle
from omnigraph.storage.store import Store

FILE_BYTES: Final = 64 * 1024 * 1024
"""Rows of one scratch file: what a task holds, and what a later step reads at a time."""

RECEIPTS: Final = "partition int, turn int, path string, rows long, bytes long"
_RECEIPTS_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("turn", pa.int32()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)


def frame_splits(frame: DataFrame, home: StoreLocation, area: str) -> Sequence[Portion]:
    """Write the rows of a frame to scratch files of a run; one portion for each, in the order of the frame.

    One without rows still says which columns it has: it empties a table that it replaces.
    """
    receipts = collect_job(
        frame.sparkSession, "spill", frame.mapInArrow(_spilling(home, area), RECEIPTS)
    )
    found = receipts.sort_by([("partition", "ascending"), ("turn", "ascending")]).to_pylist()
    if not found:
        return [no_rows(frame.schema, f"{area}/none-{SYSTEM.new_id()}.lance", home.store())]
    return [Portion(Spilled(one["path"]), one["bytes"], one["rows"]) for one in found]


def no_rows(schema: StructType, path: str, store: Store) -> Portion:
    """A frame that has columns and no row, in a scratch file."""
    store.scratch.write(path, pack_frame(plain(arrow_schema(schema).empty_table())))
    return Portion(Spilled(path), 0, 0)


def _spilling(
    home: StoreLocation, area: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        # Two attempts at one partition may run at the same time; only one of them is named in the end.
        attempt = 0 if context is None else context.taskAttemptId()
        store = home.store()
        for turn, rows in enumerate(gather_batches(batches, FILE_BYTES)):
            path = f"{area}/rows-{partition}-{attempt}-{turn}.lance"
            yield spill(rows, path, store, partition, turn)
        settle()

    return task


def spill(
    rows: pa.Table, path: str, store: Store, partition: int = 0, turn: int = 0
) -> pa.RecordBatch:
    """Write rows to a scratch file and say so."""
    store.scratch.write(path, rows)
    receipt: dict[str, Any] = {
        "partition": [partition],
        "turn": [turn],
        "path": [path],
        "rows": [rows.num_rows],
        "bytes": [rows.nbytes],
    }
    return pa.RecordBatch.from_pydict(receipt, schema=_RECEIPTS_SCHEMA)


def gather_batches(batches: Iterator[pa.RecordBatch], bytes_max: int) -> Iterator[pa.Table]:
    """Batches of a frame put together until they are worth a file."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= bytes_max:
            yield plain(pa.Table.from_batches(held))
            held, size = [], 0
    if held:
        yield plain(pa.Table.from_batches(held))
