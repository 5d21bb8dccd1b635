"""The tables of one snapshot as frames: parts of a pinned table, read by tasks, and the filter on them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import DataType, StringType, StructField, StructType

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.check import check_read
from omnigraph.compile.plan.algebra import Test
from omnigraph.compile.plan.visit import list_references
from omnigraph.engine.read.operators.pushdown import render_filter
from omnigraph.engine.read.snapshot_tables import Names
from omnigraph.errors import UserInputError, shorten
from omnigraph.ids import TableKey
from omnigraph.language.source import Source
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.pipeline.input.splits import cut_table
from omnigraph.pipeline.location import PinnedTable, StoreLocation
from omnigraph.spark_jobs.bridge import Forms, arrow_schema, spark_schema, to_spark
from omnigraph.spark_jobs.expressions import literal
from omnigraph.spark_jobs.workers import freeze_loaded_objects
from omnigraph.values import dataclass

ID: Final = "id"

PARTITION_ROWS: Final = 1 << 18
"""Rows that one task reads, in whole fragments; a larger fragment is one task."""

_TEXT: Final = PropertyType(scalar=Scalar.STRING)


# ---- parts of a table


@dataclass(kw_only=True)
class TablePart(InputPartition):
    """What one task reads: some fragments of one table version, the columns, and the rows that pass a filter."""

    table: PinnedTable
    columns: pa.Schema
    filter: str | None = None
    fragments: tuple[int, ...] = ()
    forms: Forms = field(default_factory=Forms)


def cut_parts(whole: TablePart, rows_max: int = PARTITION_ROWS) -> list[TablePart]:
    """Cut a table into groups of whole fragments; an empty table has no part."""
    table = whole.table
    splits = cut_table(table.table_key, table.at, table.open().fragments(), rows_max)
    return [replace(whole, fragments=split.fragments) for split in splits]


def read_part(part: TablePart) -> Iterator[pa.RecordBatch]:
    """Scan the fragments of a part and give the batches the form that Spark expects."""
    if not part.fragments:
        return
    scan: Any = part.table.open().scan(
        part.columns.names, part.filter, fragments=part.fragments, blobs=part.forms.blobs
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


# ---- the option filter
# Conditions of the query language on the rows of one type, compiled for storage.


def compile_filter(text: str, type_: TableType) -> str:
    """Compile conditions on `$row` into a storage filter; refuse what storage cannot evaluate exactly."""
    query = Source(
        f"query filter() {{ match {{ $row: Row\n{text}\n}} return {{ $row }} }}", "<filter>"
    )
    pattern = check_read(query, _catalog(type_)).pattern
    if pattern.hops or pattern.negations or pattern.optionals or len(pattern.binds) != 1:
        raise UserInputError(
            "a filter holds conditions on $row only; nothing was read",
            hint="use graph.query(..., spark=session) for patterns",
        )
    tests = (*pattern.binds[0].matches, *pattern.conditions)
    filters = [render_filter(test, _literal_value) for test in tests]
    if any(filter is None for filter in filters):
        raise UserInputError(
            f"the filter '{shorten(text)}' holds a condition that storage cannot evaluate; nothing was read",
            hint="storage compares plain properties with values; filter the frame for the rest",
        )
    return " and ".join(f"({filter})" for filter in filters) or "true"


def _catalog(type_: TableType) -> Catalog:
    """A schema in which the type is a node and its id and endpoints are properties."""
    endpoints = ("src", "dst") if isinstance(type_, EdgeType) else ()
    more = {name: Property(name=name, type=_TEXT) for name in ("id", *endpoints)}
    return Catalog(nodes={"Row": NodeType(name="Row", properties={**type_.properties, **more})})


def _literal_value(constant: Any) -> object:
    return constant.value
