"""What we rely on in PySpark, and what we must not rely on."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


class Five(DataSource):
    """The numbers below five."""

    @classmethod
    def name(cls) -> str:
        return "five"

    def schema(self) -> str:
        return "x int"

    def reader(self, schema: Any) -> DataSourceReader:
        return FiveReader()


class FiveReader(DataSourceReader):
    """Reads what is pushed, and still lets Spark test it again."""

    def __init__(self) -> None:
        self.wanted: list[int] = []

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        self.wanted = [one.value for one in filters if isinstance(one, EqualTo)]
        yield from filters

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(i,) for i in range(5) if not self.wanted or i in self.wanted])


@pytest.fixture
def pushing(spark: Any) -> Iterator[Any]:
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "true")
    yield spark
    spark.conf.unset(name)


def test_a_pushed_filter_leaks_into_other_uses_of_the_frame(pushing: Any) -> None:
    """Why no filter is pushed: the day this fails, `pushFilters` may be defined."""
    spark = pushing
    spark.dataSource.register(Five)
    frame = spark.read.format("five").load()
    assert frame.filter("x = 1").count() == 1
    assert frame.count() == 1
    both = frame.filter("x = 1").union(frame.filter("x = 2"))
    assert both.count() == 1


class Wide(DataSource):
    """Two columns; what a reader is told of them is the name of its row."""

    @classmethod
    def name(cls) -> str:
        return "wide"

    def schema(self) -> str:
        return "x string, y string"

    def reader(self, schema: Any) -> DataSourceReader:
        return WideReader(",".join(schema.names))


class WideReader(DataSourceReader):
    """Reads one row that names the columns it was asked for."""

    def __init__(self, names: str) -> None:
        self.names = names

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
        yield self.names, self.names


def test_a_source_is_not_told_which_columns_are_used(spark: Any) -> None:
    """Why columns are an option: the day this fails, Spark prunes them, or offers a way to."""
    spark.dataSource.register(Wide)
    frame = spark.read.format("wide").load()
    assert [row.x for row in frame.select("x").collect()] == ["x,y"]
    offered = {name for name in vars(DataSourceReader) if not name.startswith("_")}
    assert offered == {"partitions", "pushFilters", "read"}


def test_rows_of_an_id_meet_in_its_partition_also_under_adaptive_execution(spark: Any) -> None:
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    frame = spark.range(0, 100, 1, 3).selectExpr("id", "cast(id % 5 as int) as bucket")
    placed = frame.repartitionById(5, frame["bucket"]).selectExpr(
        "bucket", "spark_partition_id() as place"
    )
    assert {(row.bucket, row.place) for row in placed.collect()} == {(i, i) for i in range(5)}
