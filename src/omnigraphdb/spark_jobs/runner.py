"""Steps as Spark jobs: one task per split; only keys and messages pass through the JVM."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from enum import IntEnum
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from omnigraphdb.errors import (
    ConfigError,
    EngineError,
    InternalError,
    OmniError,
    StorageError,
    UserInputError,
)
from omnigraphdb.pipeline.runner import Each, Shuffle, Step, count_buckets
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.spark_jobs.faults import find_error_line, find_failed_hosts, find_host, name_host
from omnigraphdb.spark_jobs.packets import Packing, pack_packet, unpack_packet
from omnigraphdb.spark_jobs.preflight import require_same_versions
from omnigraphdb.spark_jobs.session import (
    is_connect,
    is_local,
    parallelism,
    session,
)
from omnigraphdb.spark_jobs.versions import ADVICE, DIFFER, seal_task
from omnigraphdb.spark_jobs.workers import freeze_loaded_objects
from omnigraphdb.values import dataclass

BUCKETS_MAX: Final = 4096
"""With more buckets, packets become so small that they cost more than the keys in them; each then holds more keys."""

CANCEL_SECONDS_MAX: Final = 10.0
"""Time that a cancelled job may take to end; its tasks may still write files, which no message names."""

STORAGE_TRIES: Final = 3
"""Tries of a task whose store fails, before its error is final."""


class MessageKind(IntEnum):
    """The content of a message of a task."""

    ROWS = 0
    ERROR = 1
    DONE = 2


MESSAGE: Final = "part long, kind int, data binary"
PACKET: Final = "bucket int, side string, kind int, data binary"
_MESSAGE_SCHEMA: Final = pa.schema(
    [("part", pa.int64()), ("kind", pa.int32()), ("data", pa.binary())]
)
_PACKET_SCHEMA: Final = pa.schema(
    [("bucket", pa.int32()), ("side", pa.string()), ("kind", pa.int32()), ("data", pa.binary())]
)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Runs steps as Spark jobs; rows come back in the order of their splits or buckets."""

    spark: SparkSession

    @property
    def engine(self) -> str:
        """The name in the load report."""
        return "spark"

    @property
    def workers(self) -> int:
        """About how many tasks run at once."""
        return parallelism(self.spark)

    @property
    def is_remote(self) -> bool:
        """Whether its tasks may run on other machines."""
        return not is_local(self.spark)

    def run(self, step: Step) -> pa.Table:
        """Run a step as one job; an error of ours that a task raised is raised here."""
        _require_narrow(step)
        if not step.splits:
            return step.out.empty_table()
        match step:
            case Each():
                messages = collect_job(self.spark, step.name, self._each(step))
                return self._decode(step, messages, len(step.splits))
            case Shuffle():
                messages = collect_job(self.spark, step.name, self._shuffle(step))
                return self._decode(step, messages)
            case _:
                assert_never(step)

    def _decode(self, step: Step, messages: pa.Table, parts: int | None = None) -> pa.Table:
        failed = _find_error(messages)
        if failed is not None:
            error, host = failed
            raise name_host(error, host if self.is_remote else None)
        return _decode_messages(step, messages, parts)

    def _each(self, step: Each) -> DataFrame:
        count = len(step.splits)
        return self.spark.range(0, count, 1, count).mapInArrow(seal_task(_each_task(step)), MESSAGE)

    def _shuffle(self, step: Shuffle) -> DataFrame:
        count = len(step.splits)
        workers = parallelism(self.spark)
        # Where the rows are not known, a decision holds about as many rows as a split gave.
        bucket_count = (
            max(workers, count) if step.rows is None else count_buckets(step.rows, workers)
        )
        buckets = min(BUCKETS_MAX, bucket_count)
        keys = seal_task(_keys_task(step, buckets))
        packets = self.spark.range(0, count, 1, count).mapInArrow(keys, PACKET)
        # Adaptive execution does not change an explicit number of partitions.
        return packets.repartitionById(buckets, packets["bucket"]).mapInArrow(
            seal_task(_decide_task(step)), MESSAGE
        )


def spark_runner(spark: Any = None) -> SparkRunner:
    """Make the runner of a session; `True` and None stand for the running session, else a new local one."""
    if spark is None or spark is True or spark == "auto":
        selected_session = session()
    elif hasattr(spark, "range") and hasattr(spark, "conf"):
        selected_session = spark
    else:
        raise UserInputError(
            f"spark= takes a SparkSession, True, False or 'auto', not a {type(spark).__name__}; "
            "no changes were made"
        )
    require_same_versions(selected_session)
    return SparkRunner(selected_session)


# ---- columns that may pass through the JVM


def _require_narrow(step: Step) -> None:
    schemas = [step.out, *(step.sides.values() if isinstance(step, Shuffle) else ())]
    for schema in schemas:
        for field in schema:
            if pa.types.is_fixed_size_list(field.type) or pa.types.is_large_binary(field.type):
                raise InternalError(
                    f"step '{step.name}' would send column '{field.name}' ({field.type}) through the JVM; "
                    "vectors and blobs stay inside tasks"
                )


# ---- tasks: the code that runs on executors


def _each_task(step: Each) -> Callable[[Batches], Batches]:
    run, splits, schedule = step.run, tuple(step.splits), tuple(step.schedule())

    def task(batches: Batches) -> Batches:
        # Spark runs the first partitions first, so they get the heaviest splits.
        for index in _list_indexes(batches):
            yield from _guard_task(schedule[index], run, splits[schedule[index]])
        freeze_loaded_objects()

    return task


def _guard_task(part: int, work: Callable[[Any], Iterator[pa.Table]], argument: Any) -> Batches:
    """Encode the tables that a task yields; an OmniError is a message too, since another try would only repeat it."""
    try:
        for table in work(argument):
            if table.num_rows:
                yield _encode_message(part, MessageKind.ROWS, pack_packet(table))
    except OmniError as error:
        if _is_retried(error):
            raise
        yield _encode_message(part, MessageKind.ERROR, pickle.dumps((error, find_host(error))))
    yield _encode_message(part, MessageKind.DONE, b"")


def _is_retried(error: OmniError) -> bool:
    """Whether Spark runs the task again: a store that fails may answer the next time."""
    context = TaskContext.get()
    tried = context.attemptNumber() + 1 if context is not None else STORAGE_TRIES
    return isinstance(error, StorageError) and tried < STORAGE_TRIES


def _encode_message(part: int, kind: MessageKind, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"part": [part], "kind": [int(kind)], "data": [data]}, schema=_MESSAGE_SCHEMA
    )


def _list_indexes(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _keys_task(step: Shuffle, buckets: int) -> Callable[[Batches], Batches]:
    keys, splits, sides = step.keys, tuple(step.splits), dict(step.sides)

    def task(batches: Batches) -> Batches:
        for part in _list_indexes(batches):
            try:
                yield from encode_packets(keys(splits[part]), Packing(sides, buckets))
            except OmniError as error:
                if _is_retried(error):
                    raise
                yield encode_packet(
                    part % buckets,
                    "",
                    MessageKind.ERROR,
                    pickle.dumps((part, (error, find_host(error)))),
                )
        freeze_loaded_objects()

    return task


def encode_packets(
    pairs: Iterator[tuple[str, pa.Table]], packing: Packing, first: int = 0
) -> Batches:
    """Encode the rows of sides as packets of `PACKET`; `first` is the number of the first bucket."""
    for side, rows in pairs:
        for bucket, name, data in packing.add(side, rows):
            yield encode_packet(first + bucket, name, MessageKind.ROWS, data)
    for bucket, name, data in packing.flush():
        yield encode_packet(first + bucket, name, MessageKind.ROWS, data)


def encode_packet(bucket: int, side: str, kind: MessageKind, data: bytes) -> pa.RecordBatch:
    """Encode one packet of `PACKET`."""
    return pa.RecordBatch.from_pydict(
        {"bucket": [bucket], "side": [side], "kind": [int(kind)], "data": [data]},
        schema=_PACKET_SCHEMA,
    )


def _decide_task(step: Shuffle) -> Callable[[Batches], Batches]:
    decide, sides = step.decide, dict(step.sides)

    def task(batches: Batches) -> Batches:
        rows: dict[str, list[pa.Table]] = {name: [] for name in sides}
        bucket = None
        for batch in batches:
            for number, side, kind, data in zip(*batch.columns, strict=True):
                bucket = number.as_py()
                if kind.as_py() == MessageKind.ERROR:
                    part, error = pickle.loads(data.as_py())
                    yield _encode_message(part, MessageKind.ERROR, pickle.dumps(error))
                else:
                    rows[side.as_py()].append(unpack_packet(data))
        if bucket is not None:
            joined = {name: join_tables(rows.pop(name), schema) for name, schema in sides.items()}
            yield from _guard_task(bucket, decide, joined)
        freeze_loaded_objects()

    return task


def join_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Put the rows of a side together."""
    return pa.concat_tables(tables) if tables else schema.empty_table()


# ---- messages: the answers of tasks to the driver


def collect_job(spark: SparkSession, name: str, frame: DataFrame) -> pa.Table:
    """Run a job in a thread of its own, so that an interrupt can cancel it at once."""
    group = f"omnigraph-{name}-{SYSTEM.new_id()}"
    result: Future[pa.Table] = Future()

    def act() -> None:
        try:
            if not is_connect(spark):
                spark.sparkContext.setJobGroup(group, name, interruptOnCancel=True)
            else:
                spark.addTag(group)
            result.set_result(frame.toArrow())
        except BaseException as error:  # noqa: BLE001 - the caller gets every error
            result.set_exception(error)

    thread = InheritableThread(target=act, session=spark, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        _cancel(spark, group)
        thread.join(CANCEL_SECONDS_MAX)
        raise
    if not result.done():
        # Without a gateway to Java the thread dies before it runs the job, and no result ever comes.
        raise EngineError(
            f"step '{name}' died on Spark without an answer; nothing was committed",
            hint="look at the log of the Spark driver, and start a new session",
        )
    try:
        return result.result()
    except (PySparkException, Py4JError) as error:
        raise _job_error(name, error, _find_hosts(spark, group)) from error


def _cancel(spark: SparkSession, group: str) -> None:
    if is_connect(spark):
        spark.interruptTag(group)
    else:
        spark.sparkContext.cancelJobGroup(group)


def _find_hosts(spark: SparkSession, group: str) -> list[str]:
    """Find the executors where a job failed; a local session has no others."""
    return [] if is_local(spark) or is_connect(spark) else find_failed_hosts(spark, group)


def _job_error(name: str, error: Exception, hosts: Sequence[str]) -> OmniError:
    text = find_error_line(str(error))
    if DIFFER in text:
        differences = text[text.index(DIFFER) :].partition("; hint: ")[0]
        return ConfigError(differences, hint=ADVICE)
    where = f" on executor host {', '.join(map(repr, hosts))}" if hosts else ""
    return EngineError(
        f"step '{name}' failed on Spark{where}: {text}; nothing was committed",
        details={"spark": {"step": name, "error": text}},
        hint="the executors' logs hold the whole story; unreferenced files are left to cleanup",
    )


def _find_error(messages: pa.Table) -> tuple[OmniError, str | None] | None:
    """Find the error of the first part that has one, and the host that it may be due to."""
    errors = messages.filter(pc.equal(messages["kind"], int(MessageKind.ERROR))).sort_by("part")
    if not errors.num_rows:
        return None
    error_and_host: tuple[OmniError, str | None] = pickle.loads(errors["data"][0].as_py())
    return error_and_host


def _decode_messages(step: Step, messages: pa.Table, parts: int | None = None) -> pa.Table:
    """Put the rows of all tasks together, in order."""
    kinds = messages["kind"].to_pylist()
    part = messages["part"].to_pylist()
    done = sorted(part[i] for i, kind in enumerate(kinds) if kind == MessageKind.DONE)
    if parts is not None and done != list(range(parts)):
        raise InternalError(
            f"step '{step.name}' has {parts} splits and {len(done)} of them answered; nothing was committed"
        )
    rows = [i for i, kind in enumerate(kinds) if kind == MessageKind.ROWS]
    rows.sort(key=lambda i: part[i])
    tables = [unpack_packet(messages["data"][i]) for i in rows]
    return pa.concat_tables([step.out.empty_table(), *(t.cast(step.out) for t in tables)])
