"""`df.write` and `df.writeStream`: tasks write rows to scratch files, the commit is one load of all of them."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from omnigraphdb.errors import KeyConflict, NotFound, UserInputError
from omnigraphdb.ids import LoadMode
from omnigraphdb.pipeline.early_writes import WriteTarget
from omnigraphdb.spark.options import (
    MOMENTS,
    READ_ONLY,
    SourceOptions,
    open_at,
    refuse_others,
    shorten_traceback,
    tell_from_task,
)
from omnigraphdb.spark.streams import QUERY_ID, MicroBatch, read_planned_at
from omnigraphdb.spark_jobs.frames import SpillArea, SpilledTask
from omnigraphdb.spark_jobs.versions import Sealed
from omnigraphdb.values import dataclass


@dataclass
class TaskMessage(WriterCommitMessage):
    """The rows that one task spilled, and the streaming query that it ran for."""

    task: SpilledTask
    query: str | None = None


@dataclass(frozen=True, kw_only=True)
class SourceWrite:
    """One write of the data source: the type, the load mode, the actor, and where its rows wait."""

    options: SourceOptions
    columns: StructType
    mode: LoadMode
    actor: str | None
    from_branch: str | None
    area: SpillArea

    def spill(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        """Write the rows of one task to scratch files; nothing becomes visible."""
        task = self.area.spill(batches)
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_ID)
        return TaskMessage(task, query)

    def publish(
        self, tasks: Sequence[SpilledTask], batch_id: str | None, batch: MicroBatch | None = None
    ) -> None:
        """Load the rows of all tasks in one commit, unless the batch was written before."""
        options = self.options
        try:
            with open_at(options.location, read_only=False) as graph:
                if batch is not None and batch.was_written_by_name(graph, options.branch):
                    return
                graph.load(
                    {options.type_name: self.area.collect(tasks, self.columns)},
                    mode=self.mode,
                    branch=options.branch,
                    from_branch=self.from_branch,
                    actor=self.actor,
                    batch_id=batch_id,
                )
        except KeyConflict as error:
            error.hint = "with option 'load_mode' merge, rows of the same id are replaced"
            raise
        finally:
            self.area.remove(tasks)


def make_write(
    options: SourceOptions,
    columns: StructType,
    write_options: Mapping[str, str],
    *,
    overwrite: bool,
) -> SourceWrite:
    """Read the options of a write."""
    refuse_others(write_options, READ_ONLY, "write")
    if options.at is not None:
        moment = next(name for name in write_options if name.lower() in MOMENTS)
        raise UserInputError(
            f"the past cannot be written: leave out '{moment}'; nothing was written"
        )
    mode, from_branch = (
        _choose_mode(write_options.get("load_mode"), overwrite=overwrite),
        write_options.get("from_branch"),
    )
    return SourceWrite(
        options=options,
        columns=columns,
        mode=mode,
        actor=write_options.get("actor"),
        from_branch=from_branch,
        area=SpillArea.new(options.location, _pin_target(options, from_branch), mode),
    )


def _pin_target(options: SourceOptions, from_branch: str | None) -> WriteTarget | None:
    """Pin the schema and the table version that tasks write for; None when the write creates its branch."""
    with open_at(options.location, read_only=True) as graph:
        try:
            return graph.snapshot(branch=options.branch).pin_write(options.type_name)
        except NotFound:
            if from_branch is None:
                raise
            return None


def _choose_mode(text: str | None, *, overwrite: bool) -> LoadMode:
    """Choose the load mode; refuse an option that contradicts the mode of the Spark writer."""
    default = LoadMode.OVERWRITE if overwrite else LoadMode.APPEND
    try:
        mode = LoadMode(text or default)
    except ValueError as error:
        raise UserInputError(
            f"option 'load_mode' is one of {', '.join(LoadMode)}, not '{text}'; nothing was written"
        ) from error
    if (mode is LoadMode.OVERWRITE) != overwrite:
        effect = "replace the type" if overwrite else "keep its rows"
        raise UserInputError(
            f"the write was told to {effect}, and option 'load_mode' says {mode}; nothing was written",
            hint="mode('overwrite') and outputMode('complete') replace the type; mode('append') goes with "
            "load_mode append or merge",
        )
    return mode


def _list_messages(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    """List the messages of the tasks that finished; Spark gives None for the others."""
    return [message for message in messages if isinstance(message, TaskMessage)]


def _list_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[SpilledTask]:
    return [message.task for message in _list_messages(messages)]


class BatchWriter(Sealed, DataSourceArrowWriter):
    """Writes one frame as one commit."""

    def __init__(self, target: SourceWrite, batch_id: str | None = None) -> None:
        self.target, self.batch_id = target, batch_id

    @tell_from_task
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task to scratch files."""
        return self.target.spill(iterator)

    @shorten_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Load the rows of all tasks in one commit."""
        self.target.publish(_list_tasks(messages), self.batch_id)

    @shorten_traceback
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the scratch files; nothing becomes visible."""
        self.target.area.remove(_list_tasks(messages))


class StreamWriter(Sealed, DataSourceStreamArrowWriter):
    """Writes every micro-batch as one commit that names the batch, so that a replayed batch is not written again."""

    def __init__(self, target: SourceWrite, options: Mapping[str, str]) -> None:
        self.target = target
        self.stream, self.checkpoint = options.get("stream"), options.get("checkpointLocation")

    @tell_from_task
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task to scratch files."""
        return self.target.spill(iterator)

    @shorten_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Load the rows of all tasks in one commit, unless an earlier try did."""
        tasks = _list_tasks(messages)
        query = next((message.query for message in _list_messages(messages)), None)
        if query is None:
            # Without a task there is no row, and writing no rows twice changes nothing.
            self.target.publish(tasks, None)
            return
        batch = MicroBatch(
            stream=query,
            number=batchId,
            former=self.stream or self.checkpoint,
            planned_at=read_planned_at(self.checkpoint, batchId),
        )
        self.target.publish(tasks, batch.id, batch)

    @shorten_traceback
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove the scratch files; nothing becomes visible."""
        self.target.area.remove(_list_tasks(messages))
