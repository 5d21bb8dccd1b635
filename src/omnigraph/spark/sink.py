"""`df.write` and `df.writeStream`: tasks keep rows in scratch files, the commit is one load of all of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from omnigraph.engine.write.heartbeat import remove_heartbeat, scratch_area, write_heartbeat
from omnigraph.engine.write.load import KINDS
from omnigraph.errors import UserInputError
from omnigraph.ids import LoadMode, OperationId
from omnigraph.pipeline.input.sources import SpilledFrame
from omnigraph.pipeline.input.splits import Portion, Spilled
from omnigraph.runtime import SYSTEM
from omnigraph.spark.batches import QUERY_ID, Batch, planned_at
from omnigraph.spark.frames import FILE_BYTES, gather_batches, no_rows
from omnigraph.spark.places import ReadOptions
from omnigraph.spark.workers import settle
from omnigraph.spark.writes import write_frames
from omnigraph.storage.store import Store
from omnigraph.values import dataclass


@dataclass
class Spilt(WriterCommitMessage):
    """What one task wrote to scratch files, in the order of its rows."""

    partition: int
    operation: OperationId
    portions: tuple[Portion, ...]
    query: str | None = None
    """The streaming query that the task ran for."""


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a write is for: the table, how, under whose name, and where its rows wait."""

    asked: ReadOptions
    columns: StructType
    mode: str
    actor: str | None
    from_branch: str | None
    operation: OperationId
    """Names the place where rows wait."""

    def spilt(self, batches: Iterator[pa.RecordBatch]) -> Spilt:
        """Keep the rows of one task beside the graph; nothing becomes visible."""
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        attempt = 0 if context is None else context.taskAttemptId()
        store = self.asked.home.store()
        area = scratch_area(self.operation)
        portions = []
        for turn, rows in enumerate(gather_batches(batches, FILE_BYTES)):
            # Should this write never end, cleanup finds its files through the beacon.
            write_heartbeat(store.objects, self.operation, SYSTEM)
            path = f"{area}/rows-{partition}-{attempt}-{turn}.lance"
            store.scratch.write(path, rows)
            portions.append(Portion(Spilled(path), rows.nbytes, rows.num_rows))
        settle()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        return Spilt(partition, self.operation, tuple(portions), query)

    def publish(
        self, messages: Sequence[Any], batch_id: str | None, batch: Batch | None = None
    ) -> None:
        """Load what all tasks kept, in one commit; a batch that is there already is not loaded again."""
        engine = self.asked.engine(read_only=False)
        try:
            if batch is not None and batch.was_written_by_name(engine, self.asked.branch):
                return
            portions = _in_order(messages) or self._nothing(engine.store)
            write_frames(
                engine,
                {self.asked.type_name: SpilledFrame(portions)},
                None,
                mode=self.mode,
                branch=self.asked.branch,
                from_branch=self.from_branch,
                actor=self.actor,
                batch_id=batch_id,
            )
        finally:
            self._remove(engine.store, messages)
            engine.stop()

    def _nothing(self, store: Store) -> tuple[Portion, ...]:
        """What tasks kept when there was no row: the columns."""
        write_heartbeat(store.objects, self.operation, SYSTEM)
        return (no_rows(self.columns, f"{scratch_area(self.operation)}/none.lance", store),)

    def give_up(self, messages: Sequence[Any]) -> None:
        """Remove what was kept; a task that is still running may leave a file for cleanup."""
        self._remove(self.asked.home.store(), messages)

    def _remove(self, store: Store, messages: Sequence[Any]) -> None:
        """Remove scratch files that were read, under the names that tasks, or this process, wrote them."""
        for operation in {self.operation, *(one.operation for one in messages if one is not None)}:
            remove_heartbeat(store.objects, operation)


def purpose_of(
    asked: ReadOptions, columns: StructType, options: Mapping[str, str], *, overwrite: bool
) -> Purpose:
    """Read the options of a write."""
    if asked.at is not None:
        raise UserInputError("the past cannot be written: leave out 'at'; nothing was written")
    return Purpose(
        asked=asked,
        columns=columns,
        mode=_load_mode(options.get("load_mode"), overwrite=overwrite),
        actor=options.get("actor"),
        from_branch=options.get("from_branch"),
        operation=OperationId(SYSTEM.new_id()),
    )


def _load_mode(given: str | None, *, overwrite: bool) -> str:
    """How rows are written; an option that contradicts what Spark was told is refused."""
    mode = given or (LoadMode.OVERWRITE if overwrite else LoadMode.APPEND)
    if mode not in KINDS:
        raise UserInputError(
            f"option 'load_mode' is one of {', '.join(KINDS)}, not '{mode}'; nothing was written"
        )
    if (mode == LoadMode.OVERWRITE) != overwrite:
        said = "replace the type" if overwrite else "keep its rows"
        raise UserInputError(
            f"the write was told to {said}, and option 'load_mode' says {mode}; nothing was written",
            hint="mode('overwrite') and outputMode('complete') replace the type; mode('append') goes with "
            "load_mode append or merge",
        )
    return mode


def _in_order(messages: Sequence[Any]) -> tuple[Portion, ...]:
    parts = sorted((m for m in messages if m is not None), key=lambda m: m.partition)
    return tuple(portion for part in parts for portion in part.portions)


class BatchWriter(DataSourceArrowWriter):
    """Writes one frame as one commit."""

    def __init__(self, purpose: Purpose, batch_id: str | None = None) -> None:
        self.purpose, self.batch_id = purpose, batch_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Keep the rows of a task."""
        return self.purpose.spilt(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all of them one commit."""
        self.purpose.publish(messages, self.batch_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write nothing."""
        self.purpose.give_up(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes every micro-batch as one commit that names it, so that a replayed one is not written again."""

    def __init__(self, purpose: Purpose, options: Mapping[str, str]) -> None:
        self.purpose = purpose
        self.stream, self.checkpoint = options.get("stream"), options.get("checkpointLocation")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Keep the rows of a task."""
        return self.purpose.spilt(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Make them one commit, unless an earlier try did."""
        query = next((one.query for one in messages if isinstance(one, Spilt)), None)
        if query is None:
            # No task ran: there is no row, and to write none twice is to write none.
            self.purpose.publish(messages, None)
            return
        batch = Batch(
            stream=query,
            number=batchId,
            former=self.stream or self.checkpoint,
            planned_at=planned_at(self.checkpoint, batchId),
        )
        self.purpose.publish(messages, batch.id, batch)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Write nothing."""
        self.purpose.give_up(messages)
