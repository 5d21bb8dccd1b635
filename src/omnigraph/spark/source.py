"""`format("omnigraph")`: node and edge tables as Spark frames, read from one snapshot."""

from collections.abc import Iterator, MutableMapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.errors import ConfigError
from omnigraph.pipeline.input.splits import cut_table
from omnigraph.spark.bridge import Forms, arrow_schema, require_readable, spark_schema, to_spark
from omnigraph.spark.feed import ChangeSource
from omnigraph.spark.places import Pin, ReadOptions, pin_graph, read_options
from omnigraph.spark.runner import last_words
from omnigraph.spark.sink import BatchWriter, StreamWriter, purpose_of
from omnigraph.spark.workers import settle
from omnigraph.values import dataclass

NAME: Final = "omnigraph"

PARTITION_ROWS: Final = 1 << 18
"""Rows that one task reads, in whole fragments; a larger fragment is one task."""


class GraphSource(DataSource):
    """Reads one node or edge type of a graph.

    Everything is pinned when `load()` is called: Spark keeps this object and asks it again for every action.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options
        self.asked: ReadOptions = read_options(options)
        # A branch that the first write makes is not there yet, and nothing can be read of it.
        self.pin: Pin | None = pin_graph(self.asked) if "from_branch" not in options else None

    @classmethod
    def name(cls) -> str:
        """What `format()` is given."""
        return NAME

    def _read(self) -> Pin:
        if self.pin is None:
            self.pin = pin_graph(self.asked)
        return self.pin

    def schema(self) -> StructType:
        """The columns of the type, or those that were asked for."""
        return spark_schema(self._read().schema, self.asked.columns, self.asked.forms)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of exactly the columns of a schema."""
        pin = self._read()
        require_readable(schema, pin.schema, self.asked.forms)
        rows = int(self.options.get("partition_rows", PARTITION_ROWS))
        return TableReader(pin, arrow_schema(schema), self.asked.forms, rows)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A writer of one commit."""
        purpose = purpose_of(self.asked, schema, self.options, overwrite=overwrite)
        return BatchWriter(purpose, self.options.get("batch"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """A writer of one commit for every micro-batch."""
        purpose = purpose_of(self.asked, schema, self.options, overwrite=overwrite)
        return StreamWriter(purpose, self.options)


@dataclass
class Part(InputPartition):
    """What one task reads: some fragments of one table version, the rows that pass, these columns."""

    pin: Pin
    fragments: tuple[int, ...]
    filter: str | None
    wanted: pa.Schema
    forms: Forms


class TableReader(DataSourceReader):
    """Reads a table version, group of fragments by group of fragments.

    `pushFilters` is not defined: Spark keeps a pushed filter with the frame, so that other uses of it lose rows.
    """

    def __init__(self, pin: Pin, wanted: pa.Schema, forms: Forms, partition_rows: int) -> None:
        self.pin, self.wanted, self.forms = pin, wanted, forms
        self.partition_rows = partition_rows

    def partitions(self) -> list[InputPartition]:
        """One partition for every group of fragments; an empty table has one that reads nothing."""
        whole = Part(self.pin, (), self.pin.filter, self.wanted, self.forms)
        found = parts_of(whole, self.partition_rows)
        settle()
        return [*found] or [whole]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        assert isinstance(partition, Part), "Spark gives back what `partitions` made"
        return read_part(partition)


def parts_of(whole: Part, rows_max: int = PARTITION_ROWS) -> list[Part]:
    """Cut what is to be read between fragments; an empty table has no part."""
    pin = whole.pin
    cut = cut_table(pin.table_key, pin.at, pin.open().fragments(), rows_max)
    return [replace(whole, fragments=held.fragments) for held in cut]


def read_part(part: Part) -> Iterator[pa.RecordBatch]:
    """Scan the fragments of a part in the form Spark expects."""
    if not part.fragments:
        return
    table = part.pin.open()
    scan: Any = table.scan(
        part.wanted.names, part.filter, fragments=part.fragments, blobs=part.forms.blobs
    )
    for batch in scan:
        yield to_spark(batch, part.wanted)
    settle()


def register(spark: SparkSession) -> None:
    """Make `format("omnigraph")` and `format("omnigraph-changes")` known to a session."""
    try:
        spark.dataSource.register(GraphSource)
        spark.dataSource.register(ChangeSource)
    except PySparkException as error:
        raise ConfigError(
            f"this Spark cannot load omnigraph: {last_words(str(error))}; nothing was read or written",
            hint="install the same version of omnigraph where the driver of Spark runs",
        ) from error
