"""Diffs and the change feed as frames: tasks compare the tables, large ones bucket by bucket; the driver reads manifests only."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from omnigraphdb.engine.diff.digest import make_seed
from omnigraphdb.engine.diff.sides import (
    AFTER,
    BEFORE,
    ReadSides,
    SideSplit,
    VersionPair,
    cut_sides,
)
from omnigraphdb.engine.history.change_rows import (
    CHANGE_SCHEMA,
    FEED_SCHEMA,
    batch_changes,
    batch_feed,
)
from omnigraphdb.engine.history.changes import Change
from omnigraphdb.engine.history.compare import ChangeFilter, TablePair, compare_pair
from omnigraphdb.engine.history.diff_steps import list_bucket_changes, pair_sides
from omnigraphdb.engine.history.feed import FeedStep
from omnigraphdb.errors import TableNotFound
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.pipeline.runner import KEY
from omnigraphdb.pipeline.shuffle import buckets_of
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.spark_jobs.packets import Packing, unpack_packet
from omnigraphdb.spark_jobs.runner import (
    PACKET,
    MessageKind,
    encode_packet,
    encode_packets,
    join_tables,
    spark_runner,
)
from omnigraphdb.spark_jobs.tables import PARTITION_ROWS
from omnigraphdb.spark_jobs.versions import seal_task
from omnigraphdb.spark_jobs.workers import freeze_loaded_objects
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

PARTITIONS_MAX: Final = 200
"""Commits of a long feed share tasks: starting a task takes longer than comparing the rows of a small commit."""

FEED_BUCKETS_MAX: Final = 16
"""Tasks that read a large table of a stream: each looks at every row that may differ, and lays out those of its ids."""

Batches = Iterator[pa.RecordBatch]


def diff_frame(
    location: StoreLocation,
    pairs: Sequence[TablePair],
    change_filter: ChangeFilter,
    spark: Any,
    *,
    rows_max: int = PARTITION_ROWS,
) -> DataFrame:
    """Make a frame of the differences of two states; a task compares a table, or a part of about `rows_max` rows."""
    reads = [PairRead(pair=pair, wanted=change_filter) for pair in pairs]
    return _make_frame(spark_runner(spark).spark, location, reads, CHANGE_SCHEMA, rows_max)


def feed_frame(
    location: StoreLocation,
    steps: Sequence[FeedStep],
    change_filter: ChangeFilter,
    spark: Any,
    *,
    rows_max: int = PARTITION_ROWS,
) -> DataFrame:
    """Make a frame of the changes of commits, oldest first; a task compares tables, or a part of about `rows_max` rows."""
    reads = [
        PairRead(pair=pair, wanted=change_filter, step=step)
        for step in steps
        for pair in step.pairs
    ]
    return _make_frame(spark_runner(spark).spark, location, reads, FEED_SCHEMA, rows_max)


def make_feed_schema() -> StructType:
    """Make the schema of a frame or a stream of the feed."""
    return _make_schema(FEED_SCHEMA)


def _make_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def cut_feed(
    location: StoreLocation,
    steps: Sequence[FeedStep],
    change_filter: ChangeFilter,
    changes: int,
    *,
    rows_max: int = PARTITION_ROWS,
) -> list["FeedPart"]:
    """Cut the commits of a batch of a stream into parts, in their order; the batch holds about `changes` changes.

    A source cannot shuffle, so every task of a large table reads its sides.
    """
    reads = [
        PairRead(pair=pair, wanted=change_filter, step=step)
        for step in steps
        for pair in step.pairs
    ]
    partitions_max = -(-changes // rows_max)
    parts = _plan_parts(location.store().tables, reads, rows_max, partitions_max, FEED_BUCKETS_MAX)
    return [
        FeedPart(location=location, part=part, bucket=bucket)
        for part in parts
        for bucket in range(part.partitions)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedPart:
    """The part of a batch that one task reads: whole tables, or the ids of one bucket of a large table."""

    location: StoreLocation
    part: "Part"
    bucket: int

    def read(self) -> Batches:
        """Compare the tables and lay out the changes, some at a time."""
        rows: dict[str, list[pa.Table]] = {}
        for side, table in self._read_sides():
            rows.setdefault(side, []).append(table)
        yield from _read_part(self.location.store().tables, self.part, rows)
        freeze_loaded_objects()

    def _read_sides(self) -> Iterator[tuple[str, pa.Table]]:
        large = self.part.large
        if large is None:
            return
        for split in large.splits:
            for side, rows in ReadSides(self.location)(split):
                is_in_bucket = buckets_of(rows[KEY].combine_chunks(), large.buckets) == self.bucket
                yield side, rows.filter(pa.array(is_in_bucket))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRead:
    """A table to compare, between two states or before and after a commit of the feed."""

    pair: TablePair
    wanted: ChangeFilter
    step: FeedStep | None = None

    def read(self, tables: Tables) -> Batches:
        """Compare the whole table."""
        return self.lay_out(compare_pair(tables, self.pair, self.wanted))

    def lay_out(self, changes: Iterator[Change]) -> Batches:
        """Lay changes out as rows of the frame."""
        if self.step is None:
            yield from batch_changes(changes)
            return
        with self.step.report_gap():
            yield from batch_feed(changes, self.step.commit)


# ---- partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The content of the partitions from `first` on: whole tables in one partition, or each bucket of a large table in one."""

    first: int
    reads: tuple[PairRead, ...]
    large: "LargePair | None" = None

    @property
    def partitions(self) -> int:
        """The number of partitions that the part takes."""
        return 1 if self.large is None else self.large.buckets


@dataclass(frozen=True, slots=True, kw_only=True)
class LargePair:
    """A table that several tasks compare: each has the rows of a set of ids."""

    versions: VersionPair
    splits: tuple[SideSplit, ...]
    buckets: int

    @property
    def sides(self) -> Mapping[str, pa.Schema]:
        """The sides of its shuffle."""
        return {self.versions.name_side(side): self.versions.schema for side in (BEFORE, AFTER)}


def _plan_parts(
    tables: Tables,
    reads: Sequence[PairRead],
    rows_max: int,
    partitions_max: int = PARTITIONS_MAX,
    buckets_max: int = PARTITIONS_MAX,
) -> list[Part]:
    """Cut the tables to compare into partitions, in their order."""
    seed = make_seed(SYSTEM.new_id())
    large = {
        number: large_pair
        for number, read in enumerate(reads)
        if (large_pair := _cut_large(tables, read.pair, str(number), seed, rows_max, buckets_max))
        is not None
    }
    share = -(-len(reads) // partitions_max)
    parts: list[Part] = []
    first = 0
    runs = groupby(range(len(reads)), key=lambda n: (n in large, n if n in large else n // share))
    for _, run in runs:
        numbers = list(run)
        part_reads = tuple(reads[n] for n in numbers)
        parts.append(Part(first=first, reads=part_reads, large=large.get(numbers[0])))
        first += parts[-1].partitions
    return parts


def _cut_large(
    tables: Tables, pair: TablePair, name: str, seed: int, rows_max: int, buckets_max: int
) -> LargePair | None:
    """Cut a table of which more rows may differ than one task compares."""
    if pair.row_count <= rows_max:
        return None
    try:
        versions = pair_sides(tables, pair, name, seed)
        splits = cut_sides(tables, versions)
    except TableNotFound:
        # The task that reads the table reports that it is missing, as for a small table.
        return None
    buckets = -(-sum(split.rows for split in splits) // rows_max)
    if buckets < 2:
        return None
    return LargePair(versions=versions, splits=tuple(splits), buckets=min(buckets, buckets_max))


# ---- tasks


def _make_frame(
    spark: SparkSession,
    location: StoreLocation,
    reads: Sequence[PairRead],
    schema: pa.Schema,
    rows_max: int,
) -> DataFrame:
    frame_schema = _make_schema(schema)
    if not reads:
        return spark.createDataFrame([], frame_schema)
    parts = _plan_parts(location.store().tables, reads, rows_max)
    if not any(part.large for part in parts):
        return spark.range(0, len(parts), 1, len(parts)).mapInArrow(
            seal_task(_read_task(location, parts)), frame_schema
        )
    count = 1 + sum(len(part.large.splits) for part in parts if part.large is not None)
    split = seal_task(_split_task(location, parts))
    packets = spark.range(0, count, 1, count).mapInArrow(split, PACKET)
    total = parts[-1].first + parts[-1].partitions
    return packets.repartitionById(total, packets["bucket"]).mapInArrow(
        seal_task(_bucket_task(location, parts)), frame_schema
    )


def _read_task(location: StoreLocation, parts: Sequence[Part]) -> Callable[[Batches], Batches]:
    def task(numbers: Batches) -> Batches:
        tables = location.store().tables
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for read in parts[number].reads:
                    yield from read.read(tables)
        freeze_loaded_objects()

    return task


def _split_task(location: StoreLocation, parts: Sequence[Part]) -> Callable[[Batches], Batches]:
    """Send the rows of a split to their buckets; the first task sends each partition of whole tables its start."""
    splits = [
        (part.first, part.large, split)
        for part in parts
        if part.large is not None
        for split in part.large.splits
    ]
    small_partitions = [part.first for part in parts if part.large is None]

    def task(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                if number == 0:
                    for partition in small_partitions:
                        yield encode_packet(partition, "", MessageKind.DONE, b"")
                    continue
                first, large, split = splits[number - 1]
                rows = ReadSides(location)(split)
                yield from encode_packets(rows, Packing(large.sides, large.buckets), first)
        freeze_loaded_objects()

    return task


def _bucket_task(location: StoreLocation, parts: Sequence[Part]) -> Callable[[Batches], Batches]:
    firsts = [part.first for part in parts]

    def task(batches: Batches) -> Batches:
        rows: dict[str, list[pa.Table]] = {}
        partition = None
        for batch in batches:
            for number, side, kind, data in zip(*batch.columns, strict=True):
                partition = number.as_py()
                if kind.as_py() == MessageKind.ROWS:
                    rows.setdefault(side.as_py(), []).append(unpack_packet(data))
        if partition is not None:
            part = parts[bisect_right(firsts, partition) - 1]
            yield from _read_part(location.store().tables, part, rows)
        freeze_loaded_objects()

    return task


def _read_part(tables: Tables, part: Part, rows: Mapping[str, Sequence[pa.Table]]) -> Batches:
    if part.large is None:
        for read in part.reads:
            yield from read.read(tables)
        return
    (read,) = part.reads
    sides = {name: join_tables(rows.get(name, ()), s) for name, s in part.large.sides.items()}
    change_groups = list_bucket_changes(tables, read.pair, part.large.versions, sides, read.wanted)
    yield from read.lay_out(change for changes in change_groups for change in changes)
