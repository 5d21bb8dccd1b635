"""The tables of one snapshot as frames: parts of a pinned table, read by tasks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import DataType, StringType, StructField, StructType

from omnigraph.catalog.model import Catalog, TableType
from omnigraph.catalog.names import ROW_ADDRESS
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.plan.algebra import Test
from omnigraph.compile.plan.visit import list_references
from omnigraph.engine.read.operators.pushdown import render_filter
from omnigraph.engine.read.snapshot_tables import Names
from omnigraph.ids import TableKey
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.pipeline.input.splits import cut_table
from omnigraph.pipeline.location import PinnedTable, StoreLocation
from omnigraph.spark_jobs.bridge import Forms, arrow_schema, spark_schema, to_spark
from omnigraph.spark_jobs.expressions import literal
from omnigraph.spark_jobs.workers import freeze_loaded_objects
from omnigraph.storage.values import FragmentInfo
from omnigraph.values import dataclass

ID: Final = "id"

PARTITION_ROWS: Final = 1 << 18
"""Rows that one task reads: small fragments together, a large one in ranges."""

_TEXT: Final = PropertyType(scalar=Scalar.STRING)


# ---- parts of a table


@dataclass(kw_only=True)
class TablePart(InputPartition):
    """What one task reads: some fragments of one table version, the columns, and the rows that pass a filter."""

    table: PinnedTable
    columns: pa.Schema
    filter: str | None = None
    fragments: tuple[int, ...] = ()
    offsets: tuple[int, int] | None = None
    """The first row offset of its only fragment, and the one behind the last; None stands for whole fragments."""
    forms: Forms = field(default_factory=Forms)


def cut_parts(whole: TablePart, rows_max: int = PARTITION_ROWS) -> list[TablePart]:
    """Cut a table into groups of small fragments and ranges of large ones; an empty table has no part."""
    table = whole.table
    parts: list[TablePart] = []
    fragments = table.open().fragments()
    for large, run in groupby(fragments, lambda one: one.physical_rows >= 2 * rows_max):
        if large:
            parts += (part for one in run for part in _cut_fragment(whole, one, rows_max))
        else:
            splits = cut_table(table.table_key, table.at, tuple(run), rows_max)
            parts += (replace(whole, fragments=split.fragments) for split in splits)
    return parts


def _cut_fragment(whole: TablePart, fragment: FragmentInfo, rows_max: int) -> Iterator[TablePart]:
    """Cut a large fragment into ranges of row offsets; deleted rows make some of them smaller."""
    for start in range(0, fragment.physical_rows, rows_max):
        yield replace(whole, fragments=(fragment.id,), offsets=(start, start + rows_max))


def read_part(part: TablePart) -> Iterator[pa.RecordBatch]:
    """Scan the fragments of a part and give the batches the form that Spark expects."""
    if not part.fragments:
        return
    scan: Any = part.table.open().scan(
        part.columns.names,
        _join_filters(part),
        fragments=part.fragments,
        blobs=part.forms.blobs,
    )
    for batch in scan:
        yield to_spark(batch, part.columns)
    freeze_loaded_objects()


def read_parts(spark: SparkSession, whole: TablePart, schema: StructType) -> DataFrame:
    """Make a frame of a table; its tasks read the rows."""
    parts = cut_parts(whole)
    if not parts:
        return spark.createDataFrame([], schema)
    numbers = spark.range(0, len(parts), 1, len(parts))
    return numbers.mapInArrow(_make_read_task(parts), schema)


def read_pinned(spark: SparkSession, table: PinnedTable) -> DataFrame:
    """Make a frame of all columns of a pinned table, with the types that the data source gives them."""
    schema = spark_schema(table.schema, None, Forms())
    return read_parts(spark, TablePart(table=table, columns=arrow_schema(schema)), schema)


def unite_frames(
    spark: SparkSession,
    parts: Sequence[tuple[DataFrame, Mapping[str, str]]],
    columns: Mapping[str, DataType | None],
) -> DataFrame:
    """Put frames one after the other: a column is of the frame, or one text for all of its rows, or NULL."""
    types = {name: type_ or StringType() for name, type_ in columns.items()}
    empty = StructType([StructField(name, type_) for name, type_ in types.items()])
    united = [
        frame.select(*(_fit_column(frame, texts, name, types[name]) for name in types))
        for frame, texts in parts
    ]
    return reduce(DataFrame.union, united) if united else spark.createDataFrame([], empty)


def _fit_column(frame: DataFrame, texts: Mapping[str, str], name: str, type_: DataType) -> Column:
    if name in texts:
        return F.lit(texts[name]).alias(name)
    found = F.col(f"`{name}`") if name in frame.columns else F.lit(None).cast(type_)
    return found.alias(name)


def _join_filters(part: TablePart) -> str | None:
    if part.offsets is None:
        return part.filter
    # The address of a row is the number of its fragment, then its offset.
    first, end = ((part.fragments[0] << 32) + offset for offset in part.offsets)
    ranged = f"{ROW_ADDRESS} >= {first} and {ROW_ADDRESS} < {end}"
    return ranged if part.filter is None else f"({part.filter}) and {ranged}"


def read_table(spark: SparkSession, table: PinnedTable, columns: Sequence[str]) -> DataFrame:
    """Make a frame of some columns of a pinned table."""
    schema = spark_schema(table.schema, columns, Forms())
    parts = cut_parts(TablePart(table=table, columns=arrow_schema(schema)))
    if not parts:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(_make_read_task(parts), schema)


# ---- tables of a snapshot


@dataclass(frozen=True, kw_only=True)
class SparkGraph:
    """The tables of one snapshot as frames."""

    spark: SparkSession
    location: StoreLocation
    catalog: Catalog
    snapshot: Snapshot
    names: Names

    def frame(
        self, key: TableKey, columns: Mapping[str, str], tests: Sequence[Test] = ()
    ) -> DataFrame:
        """Make a frame of some columns of a table, by label; rows that fail the tests need not be read."""
        type_ = self.catalog.tables[key]
        entry = self.snapshot.entries.get(key)
        if entry is None:
            return self._empty(type_, columns)
        table = self.location.store().tables.open(entry.at)
        pin = PinnedTable(
            location=self.location, table_key=key, at=entry.at, type=type_, schema=table.schema
        )
        stored = {name: self._find_stored_name(key, name) for name in columns}
        there = [one for one in dict.fromkeys(stored.values()) if one in table.schema.names]
        read = there or [ID]
        schema = spark_schema(table.schema, read, Forms())
        filter = None if key in self.names else _render_pushdown(tests, table.schema.names)
        whole = TablePart(table=pin, columns=arrow_schema(schema), filter=filter)
        return read_parts(self.spark, whole, schema).select(
            *(
                (
                    F.col(f"`{stored[name]}`")
                    if stored[name] in there
                    else literal(None, property_type(type_, name))
                ).alias(label)
                for name, label in columns.items()
            )
        )

    def _find_stored_name(self, key: TableKey, name: str) -> str:
        """The column of a property at the version that is read; a name of no column when the property did not exist."""
        known = self.names.get(key)
        if known is None or name in (ID, "src", "dst"):
            return name
        return known.get(name, f"\0{name}")

    def _empty(self, type_: TableType, columns: Mapping[str, str]) -> DataFrame:
        seed = self.spark.range(0)
        return seed.select(
            *(
                literal(None, property_type(type_, name)).alias(label)
                for name, label in columns.items()
            )
        )


def _render_pushdown(tests: Sequence[Test], names: Sequence[str]) -> str | None:
    """Render the tests that storage can evaluate; Spark evaluates all tests again, which costs little."""
    texts = [
        text
        for test in tests
        if all(ref.property in names for ref in list_references(test))
        and (text := render_filter(test, lambda fixed: fixed.value)) is not None  # type: ignore[union-attr]
    ]
    return " and ".join(f"({text})" for text in texts) or None


def _make_read_task(
    parts: Sequence[TablePart],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read_part(parts[index])

    return task


def property_type(type_: TableType, name: str) -> PropertyType:
    """The type of a property, an id or an endpoint."""
    found = type_.properties.get(name)
    return found.type if found is not None else _TEXT
