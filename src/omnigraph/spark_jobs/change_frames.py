"""Diffs and the change feed as frames: tasks compare the tables, the driver only reads the manifest."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from omnigraph.engine.history.change_rows import (
    CHANGE_SCHEMA,
    FEED_SCHEMA,
    batch_changes,
    batch_feed,
)
from omnigraph.engine.history.compare import TablePair, Wanted, compare_pair
from omnigraph.engine.history.feed import FeedStep
from omnigraph.pipeline.location import StoreLocation
from omnigraph.spark_jobs.runner import spark_runner
from omnigraph.spark_jobs.workers import freeze_loaded_objects
from omnigraph.storage.tables import Tables

PARTITIONS_MAX: Final = 200
"""Commits of a long feed share tasks: starting a task takes longer than comparing what a small commit changed."""

Batches = Iterator[pa.RecordBatch]
Read = Callable[[Tables], Batches]


def diff_frame(
    location: StoreLocation, pairs: Sequence[TablePair], wanted: Wanted, spark: Any
) -> DataFrame:
    """Make a frame of what differs between two states; a task compares one table."""
    reads = [_read_pair(pair, wanted) for pair in pairs]
    return _read_by_tasks(spark_runner(spark).spark, location, reads, CHANGE_SCHEMA)


def feed_frame(
    location: StoreLocation, steps: Sequence[FeedStep], wanted: Wanted, spark: Any
) -> DataFrame:
    """Make a frame of what commits changed, oldest first; a task compares the tables of some commits."""
    reads = [_read_step(step, wanted) for step in steps]
    return _read_by_tasks(spark_runner(spark).spark, location, reads, FEED_SCHEMA)


def _read_pair(pair: TablePair, wanted: Wanted) -> Read:
    return lambda tables: batch_changes(compare_pair(tables, pair, wanted))


def _read_step(step: FeedStep, wanted: Wanted) -> Read:
    return lambda tables: batch_feed(step.list_changes(tables, wanted), step.commit)


def _read_by_tasks(
    spark: SparkSession, location: StoreLocation, reads: Sequence[Read], schema: pa.Schema
) -> DataFrame:
    wanted = from_arrow_schema(schema, prefer_timestamp_ntz=False)
    if not reads:
        return spark.createDataFrame([], wanted)

    def task(numbers: Batches) -> Batches:
        tables = location.store().tables
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reads[number](tables)
        freeze_loaded_objects()

    partitions = min(len(reads), PARTITIONS_MAX)
    return spark.range(0, len(reads), 1, partitions).mapInArrow(task, wanted)
