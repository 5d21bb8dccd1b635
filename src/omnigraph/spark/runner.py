"""Steps on Spark: one task per split; only keys and answers pass through the JVM."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from enum import IntEnum
from typing import Any, Final, assert_never

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import InheritableThread, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.errors import EngineError, InternalError, OmniError, StorageError, UserInputError
from omnigraph.pipeline.runner import Each, Shuffle, Step
from omnigraph.runtime import SYSTEM
from omnigraph.spark.packets import Packing, pack_packet, unpack_packet
from omnigraph.spark.sessions import (
    is_connect,
    is_local,
    parallelism,
    require_same_versions,
    session,
)
from omnigraph.spark.workers import settle
from omnigraph.values import dataclass

BUCKETS_MAX: Final = 4096
"""More would make packets so small that they cost more than the keys in them."""

CANCEL_SECONDS_MAX: Final = 10.0
"""A cancelled job ends at once; its tasks may write on for some seconds, to files that no one will name."""

STORAGE_TRIES: Final = 3
"""Times a task that met a failing store is run before its error counts."""


class Told(IntEnum):
    """What a row that comes back from a task holds."""

    ROWS = 0
    ERROR = 1
    DONE = 2


ANSWER: Final = "part long, told int, data binary"
PACKET: Final = "bucket int, side string, told int, data binary"
_ANSWER_SCHEMA: Final = pa.schema(
    [("part", pa.int64()), ("told", pa.int32()), ("data", pa.binary())]
)
_PACKET_SCHEMA: Final = pa.schema(
    [("bucket", pa.int32()), ("side", pa.string()), ("told", pa.int32()), ("data", pa.binary())]
)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class SparkRunner:
    """Runs steps as Spark jobs; answers come back in the order of their splits or buckets."""

    spark: SparkSession

    @property
    def engine(self) -> str:
        """What the report says."""
        return "spark"

    @property
    def workers(self) -> int:
        """About how many tasks run at once."""
        return parallelism(self.spark)

    @property
    def is_remote(self) -> bool:
        """Whether its tasks run on other machines, or might."""
        return not is_local(self.spark)

    def run(self, step: Step) -> pa.Table:
        """Run a step as one job; what a task raised on purpose is raised here."""
        _require_narrow(step)
        if not step.splits:
            return step.out.empty_table()
        match step:
            case Each():
                return _answer(
                    step, collect_job(self.spark, step.name, self._each(step)), len(step.splits)
                )
            case Shuffle():
                return _answer(step, collect_job(self.spark, step.name, self._shuffle(step)))
            case _:
                assert_never(step)

    def _each(self, step: Each) -> DataFrame:
        count = len(step.splits)
        return self.spark.range(0, count, 1, count).mapInArrow(_each_task(step), ANSWER)

    def _shuffle(self, step: Shuffle) -> DataFrame:
        count = len(step.splits)
        buckets = min(BUCKETS_MAX, max(parallelism(self.spark), count))
        packets = self.spark.range(0, count, 1, count).mapInArrow(_keys_task(step, buckets), PACKET)
        # As many buckets as splits: what one decision holds is about what one split gave. An explicit number of
        # partitions is left alone by adaptive execution.
        return packets.repartitionById(buckets, packets["bucket"]).mapInArrow(
            _decide_task(step), ANSWER
        )


def spark_runner(spark: Any = None) -> SparkRunner:
    """The runner of a session; `True` or None is the one that runs, else a local one."""
    if spark is None or spark is True or spark == "auto":
        chosen = session()
    elif hasattr(spark, "range") and hasattr(spark, "conf"):
        chosen = spark
    else:
        raise UserInputError(
            f"spark= takes a SparkSession, True, False or 'auto', not a {type(spark).__name__}; "
            "no changes were made"
        )
    if not is_local(chosen) and _key(chosen) not in _CHECKED:
        require_same_versions(chosen)
        _CHECKED.add(_key(chosen))
    return SparkRunner(chosen)


_CHECKED: set[str] = set()
"""Applications whose executors were seen to have what the driver has."""


def _key(spark: SparkSession) -> str:
    return spark.conf.get("spark.app.id", "") or str(id(spark))


# ---- what may pass through the JVM


def _require_narrow(step: Step) -> None:
    schemas = [step.out, *(step.sides.values() if isinstance(step, Shuffle) else ())]
    for schema in schemas:
        for field in schema:
            if pa.types.is_fixed_size_list(field.type) or pa.types.is_large_binary(field.type):
                raise InternalError(
                    f"step '{step.name}' would send column '{field.name}' ({field.type}) through the JVM; "
                    "vectors and blobs stay inside tasks"
                )


# ---- tasks: what runs on executors


def _each_task(step: Each) -> Callable[[Batches], Batches]:
    run, splits, schedule = step.run, tuple(step.splits), tuple(step.schedule())

    def task(batches: Batches) -> Batches:
        # Spark begins with the first partitions.
        for turn in _numbers(batches):
            yield from _guard_task(schedule[turn], run, splits[schedule[turn]])
        settle()

    return task


def _guard_task(part: int, work: Callable[[Any], Iterator[pa.Table]], given: Any) -> Batches:
    """Say what a task says; an error of ours is an answer, since to try again would only repeat it."""
    try:
        for table in work(given):
            if table.num_rows:
                yield _encode_message(part, Told.ROWS, pack_packet(table))
    except OmniError as error:
        if _may_pass(error):
            raise
        yield _encode_message(part, Told.ERROR, pickle.dumps(error))
    yield _encode_message(part, Told.DONE, b"")


def _may_pass(error: OmniError) -> bool:
    """Whether another try may succeed: stores fail now and then."""
    context = TaskContext.get()
    tried = context.attemptNumber() + 1 if context is not None else STORAGE_TRIES
    return isinstance(error, StorageError) and tried < STORAGE_TRIES


def _encode_message(part: int, told: Told, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"part": [part], "told": [int(told)], "data": [data]}, schema=_ANSWER_SCHEMA
    )


def _numbers(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _keys_task(step: Shuffle, buckets: int) -> Callable[[Batches], Batches]:
    keys, splits, sides = step.keys, tuple(step.splits), dict(step.sides)

    def task(batches: Batches) -> Batches:
        for part in _numbers(batches):
            try:
                yield from _packets(keys(splits[part]), Packing(sides, buckets))
            except OmniError as error:
                if _may_pass(error):
                    raise
                yield _packet(part % buckets, "", Told.ERROR, pickle.dumps((part, error)))
        settle()

    return task


def _packets(pairs: Iterator[tuple[str, pa.Table]], packing: Packing) -> Batches:
    for side, rows in pairs:
        for bucket, name, data in packing.add(side, rows):
            yield _packet(bucket, name, Told.ROWS, data)
    for bucket, name, data in packing.rest():
        yield _packet(bucket, name, Told.ROWS, data)


def _packet(bucket: int, side: str, told: Told, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"bucket": [bucket], "side": [side], "told": [int(told)], "data": [data]},
        schema=_PACKET_SCHEMA,
    )


def _decide_task(step: Shuffle) -> Callable[[Batches], Batches]:
    decide, sides = step.decide, dict(step.sides)

    def task(batches: Batches) -> Batches:
        rows: dict[str, list[pa.Table]] = {name: [] for name in sides}
        bucket = None
        for batch in batches:
            for number, side, told, data in zip(*batch.columns, strict=True):
                bucket = number.as_py()
                if told.as_py() == Told.ERROR:
                    part, error = pickle.loads(data.as_py())
                    yield _encode_message(part, Told.ERROR, pickle.dumps(error))
                else:
                    rows[side.as_py()].append(unpack_packet(data))
        if bucket is not None:
            sought = {name: _join_tables(rows.pop(name), schema) for name, schema in sides.items()}
            yield from _guard_task(bucket, decide, sought)
        settle()

    return task


def _join_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables) if tables else schema.empty_table()


# ---- answers: what comes back to the driver


def collect_job(spark: SparkSession, name: str, frame: DataFrame) -> pa.Table:
    """Run a job in a thread of its own, so that giving up does not have to wait for it."""
    group = f"omnigraph-{name}-{SYSTEM.new_id()}"
    answer: Future[pa.Table] = Future()

    def act() -> None:
        try:
            if not is_connect(spark):
                spark.sparkContext.setJobGroup(group, name, interruptOnCancel=True)
            else:
                spark.addTag(group)
            answer.set_result(frame.toArrow())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
            answer.set_exception(error)

    thread = InheritableThread(target=act, session=spark, daemon=True)
    thread.start()
    try:
        thread.join()
    except BaseException:
        _cancel(spark, group)
        thread.join(CANCEL_SECONDS_MAX)
        raise
    if not answer.done():
        # A thread dies before it runs the job when the gateway to Java is gone: then no answer ever comes.
        raise EngineError(
            f"step '{name}' died on Spark without an answer; nothing was committed",
            hint="look at the log of the Spark driver, and start a new session",
        )
    try:
        return answer.result()
    except (PySparkException, Py4JError) as error:
        raise _job_error(name, error) from error


def _cancel(spark: SparkSession, group: str) -> None:
    if is_connect(spark):
        spark.interruptTag(group)
    else:
        spark.sparkContext.cancelJobGroup(group)


def _job_error(name: str, error: Exception) -> OmniError:
    text = last_words(str(error))
    return EngineError(
        f"step '{name}' failed on Spark: {text}; nothing was committed",
        details={"spark": {"step": name, "error": text}},
        hint="the executors' logs hold the whole story; unreferenced files are left to cleanup",
    )


def last_words(text: str) -> str:
    """The line of a foreign error that tells what happened: the last of the Python traceback, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    python = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
    for line in lines[python[-1] + 1 :] if python else []:
        if (
            not line.startswith(("File ", "^", "~"))
            and ": " in line
            and " " not in line.split(":")[0]
        ):
            return line
    return lines[0] if lines else "no reason was given"


def _answer(step: Step, answers: pa.Table, parts: int | None = None) -> pa.Table:
    told = answers["told"].to_pylist()
    part = answers["part"].to_pylist()
    errors = [i for i, what in enumerate(told) if what == Told.ERROR]
    if errors:
        raise pickle.loads(answers["data"][min(errors, key=lambda i: part[i])].as_py())
    done = sorted(part[i] for i, what in enumerate(told) if what == Told.DONE)
    if parts is not None and done != list(range(parts)):
        raise InternalError(
            f"step '{step.name}' has {parts} splits and {len(done)} of them answered; nothing was committed"
        )
    rows = [i for i, what in enumerate(told) if what == Told.ROWS]
    rows.sort(key=lambda i: part[i])
    tables = [unpack_packet(answers["data"][i]) for i in rows]
    return pa.concat_tables([step.out.empty_table(), *(t.cast(step.out) for t in tables)])
