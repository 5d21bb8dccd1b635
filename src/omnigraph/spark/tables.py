"""The tables of one snapshot as frames, each made for one use of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from omnigraph.catalog.model import Catalog, TableType
from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.compile.plan.algebra import Test
from omnigraph.compile.plan.leaves import references
from omnigraph.engine.read.opened import Names
from omnigraph.engine.read.operators.pushdown import sql
from omnigraph.ids import TableKey
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.pipeline.location import StoreLocation
from omnigraph.spark.bridge import Forms, arrow_schema, spark_schema
from omnigraph.spark.expressions import literal
from omnigraph.spark.places import Pin
from omnigraph.spark.source import Part, parts_of, read_part
from omnigraph.values import dataclass

ID: Final = "id"


@dataclass(frozen=True, kw_only=True)
class SparkGraph:
    """The tables of one snapshot as frames."""

    spark: SparkSession
    home: StoreLocation
    catalog: Catalog
    snapshot: Snapshot
    names: Names

    def frame(
        self, key: TableKey, columns: Mapping[str, str], tests: Sequence[Test] = ()
    ) -> DataFrame:
        """Some columns of a table under the names given; rows that fail the tests are not read."""
        type_ = self.catalog.tables[key]
        entry = self.snapshot.entries.get(key)
        if entry is None:
            return self._empty(type_, columns)
        table = self.home.store().tables.open(entry.at)
        pin = Pin(
            home=self.home, table_key=key, at=entry.at, commit=None, type=type_, schema=table.schema
        )
        stored = {name: self._find_stored_name(key, name) for name in columns}
        there = [one for one in dict.fromkeys(stored.values()) if one in table.schema.names]
        read = there or [ID]
        schema = spark_schema(table.schema, read, Forms())
        wanted = arrow_schema(schema)
        filter = None if key in self.names else _render_pushdown(tests, table.schema.names)
        parts = parts_of(Part(pin, (), filter, wanted, Forms()))
        if not parts:
            return self._empty(type_, columns)
        frame = self.spark.range(0, len(parts), 1, len(parts)).mapInArrow(_reading(parts), schema)
        return frame.select(
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
        """What a property was called at the time that is read; a name no column has when it was not there."""
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
    """The tests that storage evaluates; Spark tests all of them again, which costs little."""
    texts = [
        text
        for test in tests
        if all(ref.property in names for ref in references(test))
        and (text := sql(test, lambda fixed: fixed.value)) is not None  # type: ignore[union-attr]
    ]
    return " and ".join(f"({text})" for text in texts) or None


def _reading(
    parts: Sequence[Part],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_part(parts[number])

    return task


def property_type(type_: TableType, name: str) -> PropertyType:
    """The type of a property, an id or an end."""
    found = type_.properties.get(name)
    return found.type if found is not None else _TEXT


_TEXT: Final = PropertyType(scalar=Scalar.STRING)
