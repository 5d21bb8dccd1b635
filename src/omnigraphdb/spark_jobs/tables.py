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

from omnigraphdb.catalog.model import Catalog, TableType
from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.compile.checked import Compare, Const, EntityRef, InList
from omnigraphdb.compile.plan.algebra import Test
from omnigraphdb.compile.plan.visit import list_references
from omnigraphdb.engine.read.operators.pushdown import render_filter
from omnigraphdb.engine.read.snapshot_tables import Names
from omnigraphdb.ids import TableKey
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.pipeline.input.splits import cut_table
from omnigraphdb.pipeline.location import PinnedTable, StoreLocation
from omnigraphdb.spark_jobs.bridge import Forms, arrow_schema, spark_schema, to_spark
from omnigraphdb.spark_jobs.expressions import literal
from omnigraphdb.spark_jobs.versions import Sealed, seal_task
from omnigraphdb.spark_jobs.workers import freeze_loaded_objects
from omnigraphdb.storage.values import FragmentInfo
from omnigraphdb.values import dataclass

ID: Final = "id"

PARTITION_ROWS: Final = 1 << 18
"""Rows that one task reads: small fragments together, a large one in ranges."""

BYTES_NOTED: Final = 1 << 20
"""Spark need not know the size of a smaller table: it is always small enough to be sent to every task."""

_TEXT_BYTES: Final = 20
"""The width of a text in the estimates of Spark's planner."""

_TEXT: Final = PropertyType(scalar=Scalar.STRING)


# ---- parts of a table


@dataclass(kw_only=True)
class TablePart(Sealed, InputPartition):
    """The part of a table that one task reads: some fragments of one version, the columns, and the rows that pass a filter."""

    table: PinnedTable
    columns: pa.Schema
    filter: str | None = None
    fragments: tuple[int, ...] = ()
    offsets: tuple[int, int] | None = None
    """The first row offset of its only fragment, and the one behind the last; None stands for whole fragments."""
    forms: Forms = field(default_factory=Forms)
    labels: tuple[tuple[str, str], ...] = ()
    """The columns to give, each with the column that it is read from; empty for the columns as they are."""


def cut_parts(table_part: TablePart, rows_max: int = PARTITION_ROWS) -> list[TablePart]:
    """Cut a table into groups of small fragments and ranges of large ones; an empty table has no part."""
    table = table_part.table
    parts: list[TablePart] = []
    fragments = table.open().fragments()
    for large, run in groupby(fragments, lambda fragment: fragment.physical_rows >= 2 * rows_max):
        if large:
            parts += (
                part for fragment in run for part in _cut_fragment(table_part, fragment, rows_max)
            )
        else:
            splits = cut_table(table.table_key, table.at, tuple(run), rows_max)
            parts += (replace(table_part, fragments=split.fragments) for split in splits)
    return parts


def _cut_fragment(
    table_part: TablePart, fragment: FragmentInfo, rows_max: int
) -> Iterator[TablePart]:
    """Cut a large fragment into ranges of row offsets; deleted rows make some of them smaller."""
    for start in range(0, fragment.physical_rows, rows_max):
        yield replace(table_part, fragments=(fragment.id,), offsets=(start, start + rows_max))


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
        yield _label_columns(to_spark(batch, part.columns), part.labels)
    freeze_loaded_objects()


def _label_columns(batch: pa.RecordBatch, labels: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    if not labels:
        return batch
    # A projection in Spark would do the same, and planning one takes longer than this.
    columns = [batch.column(stored) for _, stored in labels]
    return pa.RecordBatch.from_arrays(columns, [label for label, _ in labels])


def read_parts(
    spark: SparkSession, table_part: TablePart, schema: StructType, *, few: bool = False
) -> DataFrame:
    """Make a frame of a table; its tasks read the rows. With `few` a handful of rows passes the filter."""
    parts = cut_parts(table_part)
    if not parts:
        return spark.createDataFrame([], schema)
    spread = 1 if few else _choose_spread(table_part, len(parts))
    numbers = spark.range(0, len(parts) * spread, 1, len(parts))
    if spread > 1:
        numbers = numbers.where(f"(id & {spread - 1}L) = 0")
    return numbers.mapInArrow(seal_task(_make_read_task(parts, spread)), schema)


# ---- the size of a table in the estimates of Spark's planner


def _choose_spread(table_part: TablePart, parts: int) -> int:
    """Choose how many numbers stand for one part, of which one is left: a power of two.

    Spark takes the size of the input of `mapInArrow` for the size of its output. Without this a table of any
    size looks tiny, and a join would send all of it to every task.
    """
    table_bytes = _estimate_bytes(table_part)
    if table_bytes < BYTES_NOTED:
        return 1
    # Spark counts a number of 8 bytes as a row of 16 that becomes a row of the table.
    numbers = 2 * table_bytes // (8 + sum(map(_find_width, table_part.columns.types)))
    return 1 << max(0, (numbers // parts).bit_length() - 1)


def _estimate_bytes(table_part: TablePart) -> int:
    """Estimate the stored size of the columns of a part, as Spark does for files."""
    fragments = table_part.table.open().fragments()
    read = sum(map(_find_width, table_part.columns.types))
    stored = sum(fragment.bytes for fragment in fragments)
    if not stored:
        return read * sum(fragment.rows for fragment in fragments)
    return stored * read // sum(map(_find_width, table_part.table.schema.types))


def _find_width(type_: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(type_):
        return int(type_.list_size * _find_width(type_.value_type))
    return max(1, type_.bit_width // 8) if pa.types.is_primitive(type_) else _TEXT_BYTES


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
    fitted_column = F.col(f"`{name}`") if name in frame.columns else F.lit(None).cast(type_)
    return fitted_column.alias(name)


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
    return read_parts(spark, TablePart(table=table, columns=arrow_schema(schema)), schema)


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
        """Make a frame of some properties of a table, by label; rows that fail the tests need not be read."""
        type_ = self.catalog.tables[key]
        entry = self.snapshot.entries.get(key)
        if entry is None:
            return self._empty(type_, columns)
        table = self.location.store().tables.open(entry.at)
        pin = PinnedTable(
            location=self.location, table_key=key, at=entry.at, type=type_, schema=table.schema
        )
        stored_names = {label: self._find_stored_name(key, name) for label, name in columns.items()}
        labels = tuple(
            (label, stored_name)
            for label, stored_name in stored_names.items()
            if stored_name in table.schema.names
        )
        filter = None if key in self.names else _render_pushdown(tests, table.schema.names)
        frame = self._read_labels(pin, labels, filter, few=_names_rows(tests))
        for label in columns.keys() - dict(labels).keys():
            missing = literal(None, property_type(type_, columns[label]))
            frame = frame.withColumn(label, missing)
        return frame

    def _read_labels(
        self,
        pin: PinnedTable,
        labels: tuple[tuple[str, str], ...],
        filter: str | None,
        *,
        few: bool,
    ) -> DataFrame:
        read = tuple(dict.fromkeys(stored for _, stored in labels))
        schema = spark_schema(pin.schema, read, Forms())
        table_part = TablePart(
            table=pin, columns=arrow_schema(schema), filter=filter, labels=labels
        )
        fields = [
            StructField(label, schema[stored].dataType, schema[stored].nullable)
            for label, stored in labels
        ]
        return read_parts(self.spark, table_part, StructType(fields), few=few)

    def _find_stored_name(self, key: TableKey, name: str) -> str:
        """Find the column of a property at the version that is read; a name without column when the property did not exist."""
        stored_names = self.names.get(key)
        if stored_names is None or name in (ID, "src", "dst"):
            return name
        return stored_names.get(name, f"\0{name}")

    def _empty(self, type_: TableType, columns: Mapping[str, str]) -> DataFrame:
        seed = self.spark.range(0)
        return seed.select(
            *(
                literal(None, property_type(type_, name)).alias(label)
                for label, name in columns.items()
            )
        )


def _names_rows(tests: Sequence[Test]) -> bool:
    """Whether tests name the rows that pass by their ids."""
    return any(_names_ids(test) for test in tests)


def _names_ids(test: Test) -> bool:
    match test:
        case Compare(left=EntityRef(), op="=", right=Const()) | InList(operand=EntityRef()):
            return True
        case _:
            return False


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
    parts: Sequence[TablePart], spread: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_part(parts[number // spread])

    return task


def property_type(type_: TableType, name: str) -> PropertyType:
    """Return the type of a property, an id or an endpoint."""
    property_ = type_.properties.get(name)
    return property_.type if property_ is not None else _TEXT
