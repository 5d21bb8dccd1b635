"""Rows of Spark DataFrames in scratch files: the tasks that hold the rows write them, a load reads them as splits."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from omnigraphdb.engine.write.heartbeat import remove_heartbeat, scratch_area, write_heartbeat
from omnigraphdb.engine.write.load import change_kind
from omnigraphdb.ids import LoadMode, OperationId
from omnigraphdb.limits import SPLIT_ROWS
from omnigraphdb.pipeline.early_writes import EarlyWriter, WriteTarget
from omnigraphdb.pipeline.input.read import pack_frame
from omnigraphdb.pipeline.input.sources import SpilledFrame
from omnigraphdb.pipeline.input.splits import Spilled, SplitDraft
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.spark_jobs.bridge import arrow_schema, decimals_to_integers
from omnigraphdb.spark_jobs.runner import collect_job
from omnigraphdb.spark_jobs.versions import seal_task
from omnigraphdb.spark_jobs.workers import freeze_loaded_objects
from omnigraphdb.storage.store import Store
from omnigraphdb.values import dataclass

FILE_BYTES: Final = 64 * 1024 * 1024
"""Rows of one scratch file: a task holds that many in memory, and a later step reads that many at a time."""

RECEIPTS: Final = "partition int, file int, path string, rows long, bytes long"
_RECEIPTS_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("file", pa.int32()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)

Batches = Iterator[pa.RecordBatch]


# ---- a frame that a load is given


def spill_frame(frame: Any, location: StoreLocation, area: str) -> Sequence[SplitDraft]:
    """Write the rows of a frame to scratch files; one portion for each file, in the order of the frame.

    A frame without rows gives one portion that has its columns: it empties a table that it replaces.
    """
    if isinstance(frame, SpilledFrame):
        return frame.portions
    assert isinstance(frame, DataFrame), "a load tells Spark frames from others"
    job = frame.mapInArrow(seal_task(_make_spill_task(location, area)), RECEIPTS)
    receipts = collect_job(frame.sparkSession, "spill", job)
    files = receipts.sort_by([("partition", "ascending"), ("file", "ascending")]).to_pylist()
    if not files:
        path = f"{area}/none-{SYSTEM.new_id()}.lance"
        return [_spill_no_rows(frame.schema, path, location.store())]
    return [SplitDraft(Spilled(file["path"]), file["bytes"], file["rows"]) for file in files]


def _make_spill_task(location: StoreLocation, area: str) -> Callable[[Batches], Batches]:
    def task(batches: Batches) -> Batches:
        partition, attempt = _identify_task()
        for index, rows in enumerate(_gather_batches(batches)):
            path = f"{area}/rows-{partition}-{attempt}-{index}.lance"
            location.store().scratch.write(path, rows)
            receipt = {
                "partition": [partition],
                "file": [index],
                "path": [path],
                "rows": [rows.num_rows],
                "bytes": [rows.nbytes],
            }
            yield pa.RecordBatch.from_pydict(receipt, schema=_RECEIPTS_SCHEMA)
        freeze_loaded_objects()

    return task


def _identify_task() -> tuple[int, int]:
    """Return the partition and the attempt of the running task: two attempts at a partition may run at the same time."""
    context = TaskContext.get()
    return (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())


def _gather_batches(batches: Batches) -> Iterator[pa.Table]:
    """Put batches together until they are large enough for a file."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    rows = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= FILE_BYTES or rows >= SPLIT_ROWS:
            yield decimals_to_integers(pa.Table.from_batches(gathered))
            gathered, size, rows = [], 0, 0
    if gathered:
        yield decimals_to_integers(pa.Table.from_batches(gathered))


def _spill_no_rows(schema: StructType, path: str, store: Store) -> SplitDraft:
    store.scratch.write(path, pack_frame(decimals_to_integers(arrow_schema(schema).empty_table())))
    return SplitDraft(Spilled(path), 0, 0)


# ---- a frame that the data source writes


@dataclass(frozen=True, slots=True, kw_only=True)
class SpilledTask:
    """The scratch files that one task of the data source wrote, in the order of its rows."""

    partition: int
    operation: OperationId
    portions: tuple[SplitDraft, ...]


@dataclass(frozen=True, slots=True)
class SpillArea:
    """The area for the rows of the tasks of one write of the data source; a heartbeat lets cleanup find them."""

    location: StoreLocation
    operation: OperationId
    ahead: EarlyWriter | None = None
    """The writer that checks and writes rows; None when the load does that, because the branch does not exist yet."""

    @classmethod
    def new(
        cls, location: StoreLocation, target: WriteTarget | None, mode: LoadMode
    ) -> "SpillArea":
        """Name a new area for rows of a target."""
        operation = OperationId(SYSTEM.new_id())
        if target is None:
            return cls(location, operation)
        area = scratch_area(operation)
        kind = change_kind(mode)
        return cls(
            location, operation, EarlyWriter(target=target, kind=kind, seed=operation, area=area)
        )

    def spill(self, batches: Batches) -> SpilledTask:
        """Check and write the rows of the running task; nothing becomes visible."""
        partition, attempt = _identify_task()
        objects = self.location.store().objects
        portions: list[SplitDraft] = []
        for index, rows in enumerate(_gather_batches(batches)):
            # If this write never ends, cleanup finds its files through the heartbeat.
            write_heartbeat(objects, self.operation, SYSTEM)
            written = None if self.ahead is None else self.ahead.write(rows)
            if written is None:
                written = (self._spill_unchecked(rows, f"rows-{partition}-{attempt}-{index}"),)
            portions += written
        freeze_loaded_objects()
        return SpilledTask(partition=partition, operation=self.operation, portions=tuple(portions))

    def _spill_unchecked(self, rows: pa.Table, name: str) -> SplitDraft:
        path = f"{scratch_area(self.operation)}/{name}.lance"
        self.location.store().scratch.write(path, rows)
        return SplitDraft(Spilled(path), rows.nbytes, rows.num_rows)

    def collect(self, tasks: Sequence[SpilledTask], columns: StructType) -> SpilledFrame:
        """Put the files of all tasks in the order of their partitions; without any row, write the columns."""
        ordered = sorted(tasks, key=lambda task: task.partition)
        portions = tuple(portion for task in ordered for portion in task.portions)
        if self.ahead is None or not portions:
            return SpilledFrame(portions or (self._spill_columns(columns),))
        target = self.ahead.target
        return SpilledFrame(portions, target.schema_hash, target.incarnation)

    def _spill_columns(self, columns: StructType) -> SplitDraft:
        store = self.location.store()
        write_heartbeat(store.objects, self.operation, SYSTEM)
        return _spill_no_rows(columns, f"{scratch_area(self.operation)}/none.lance", store)

    def remove(self, tasks: Sequence[SpilledTask]) -> None:
        """Remove the files of these tasks and of this process; a task that still runs may leave a file for cleanup."""
        objects = self.location.store().objects
        for operation in {self.operation, *(task.operation for task in tasks)}:
            remove_heartbeat(objects, operation)
