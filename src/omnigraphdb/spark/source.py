"""`format("omnigraph")`: reads and writes one node or edge type of a graph."""

from collections.abc import Iterator, MutableMapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from omnigraphdb.errors import UserInputError
from omnigraphdb.pipeline.location import PinnedTable
from omnigraphdb.spark.options import (
    WRITE_ONLY,
    SourceOptions,
    open_at,
    parse_count,
    parse_options,
    refuse_others,
    shorten_traceback,
    yield_from_task,
)
from omnigraphdb.spark.sink import BatchWriter, StreamWriter, make_write
from omnigraphdb.spark_jobs.bridge import arrow_schema, require_readable, spark_schema
from omnigraphdb.spark_jobs.filters import compile_filter
from omnigraphdb.spark_jobs.tables import (
    PARTITION_ROWS,
    TablePart,
    cut_parts,
    read_part,
)
from omnigraphdb.spark_jobs.versions import Sealed
from omnigraphdb.spark_jobs.workers import freeze_loaded_objects
from omnigraphdb.values import dataclass

NAME: Final = "omnigraph"


class GraphSource(Sealed, DataSource):
    """Reads one node or edge type of a graph.

    The table version is pinned when `load()` is called: Spark keeps this object and uses it again for every action.
    """

    @shorten_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.options = options
        self.parsed: SourceOptions = parse_options(self.options)
        # With `from_branch` the first write creates the branch, so there may be nothing to pin yet.
        self.pin: Pin | None = (
            pin_source(self.parsed) if "from_branch" not in self.options else None
        )

    @classmethod
    def name(cls) -> str:
        """Return the name that `format()` takes."""
        return NAME

    def _pin(self) -> "Pin":
        if self.pin is None:
            self.pin = pin_source(self.parsed)
        return self.pin

    @shorten_traceback
    def schema(self) -> StructType:
        """Return the columns of the type, or the columns that option `columns` names."""
        return spark_schema(self._pin().table.schema, self.parsed.columns, self.parsed.forms)

    @shorten_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader of exactly the columns of a schema."""
        refuse_others(self.options, WRITE_ONLY, "read")
        pin = self._pin()
        require_readable(schema, pin.table.schema, self.parsed.forms)
        rows_max = parse_count(self.options, "partition_rows", PARTITION_ROWS)
        columns, forms = arrow_schema(schema), self.parsed.forms
        table_part = TablePart(table=pin.table, filter=pin.filter, columns=columns, forms=forms)
        return TableReader(table_part, rows_max)

    @shorten_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Name the format that streams: rows of a type have no order in which they arrive."""
        raise UserInputError(
            "format('omnigraph') reads a snapshot and cannot be streamed; nothing was read",
            hint="stream what changes with readStream.format('omnigraph-changes'), option 'types'",
        )

    @shorten_traceback
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Make a writer of one commit."""
        write = make_write(self.parsed, schema, self.options, overwrite=overwrite)
        return BatchWriter(write, self.options.get("batch"))

    @shorten_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Make a writer of one commit for every micro-batch."""
        write = make_write(self.parsed, schema, self.options, overwrite=overwrite)
        return StreamWriter(write, self.options)


@dataclass(frozen=True, slots=True)
class Pin:
    """The table version that a source shows, and the filter that its rows pass."""

    table: PinnedTable
    filter: str | None


def pin_source(options: SourceOptions) -> Pin:
    """Open the graph once and pin the table version that every later read uses."""
    with open_at(options.location, read_only=True) as graph:
        snapshot = graph.snapshot(branch=options.branch, at=options.at)
        table = snapshot.pin(options.type_name)
    filter = None if options.filter is None else compile_filter(options.filter, table.type)
    return Pin(table, filter)


class TableReader(Sealed, DataSourceReader):
    """Reads a table version, one group of fragments a task.

    `pushFilters` is not defined: Spark keeps a pushed filter with the frame, so that other uses of it lose rows.
    """

    def __init__(self, table_part: TablePart, rows_max: int) -> None:
        self.whole, self.rows_max = table_part, rows_max

    @shorten_traceback
    def partitions(self) -> list[InputPartition]:
        """Cut the table into groups of fragments; an empty table has one partition that reads nothing."""
        parts = cut_parts(self.whole, self.rows_max) or [self.whole]
        freeze_loaded_objects()
        return [*parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one partition."""
        assert isinstance(partition, TablePart), "Spark gives back what `partitions` made"
        return yield_from_task(read_part(partition))
