"""The change feed as a stream of Spark: whole commits in order, the same batch when it is read again, large ones by many tasks."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.pinned_feed import pin_feed
from omnigraphdb.engine.history.change_rows import FEED_SCHEMA
from omnigraphdb.spark import register
from omnigraphdb.spark.changes import ChangeSource, FeedReader
from omnigraphdb.spark_jobs.change_frames import cut_feed

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "graph", SCHEMA) as made:
        yield made


def feed_of(graph: Graph, **options: str) -> FeedReader:
    reader = ChangeSource({"path": graph.uri, **options}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, FeedReader)
    return reader


def batch(reader: FeedReader, start: dict[str, str], end: dict[str, str]) -> list[Any]:
    parts = reader.partitions(start, end)
    return [id_ for part in parts for rows in reader.read(part) for id_ in rows["id"].to_pylist()]


def commits_of(graph: Graph, *names: str) -> None:
    for name in names:
        graph.load({"Person": pa.table({"name": list(name)})}, mode="append", spark=False)


def test_a_batch_of_the_feed_that_is_read_again_is_the_same(graph: Graph) -> None:
    commits_of(graph, "a", "b", "c")
    reader = feed_of(graph)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert batch(reader, start, end) == ["a", "b", "c"]
    commits_of(graph, "d")
    assert batch(reader, start, end) == ["a", "b", "c"]
    last = reader.latestOffset(end, reader.getDefaultReadLimit())
    assert batch(reader, end, last) == ["d"]
    assert batch(reader, start, last) == ["a", "b", "c", "d"]
    assert reader.latestOffset(last, reader.getDefaultReadLimit()) == last


def test_a_batch_of_the_feed_ends_with_the_commit_that_fills_it(graph: Graph) -> None:
    commits_of(graph, "a", "bcd", "e", "f")
    reader = feed_of(graph, max_changes="3")
    at, told = reader.initialOffset(), []
    for _ in range(3):
        end = reader.latestOffset(at, reader.getDefaultReadLimit())
        told.append(batch(reader, at, end))
        at = end
    assert told == [["a", "b", "c", "d"], ["e", "f"], []]
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == at


def test_a_large_batch_of_the_feed_is_read_by_many_tasks(graph: Graph) -> None:
    commits_of(graph, "a", "bcdefgh", "i")
    graph.load({"Person": pa.table({"name": ["b", "c"], "age": [1, 2]})}, mode="merge", spark=False)
    graph.mutate('query m() { delete Person where name = "d" }')
    location, steps, wanted = pin_feed(
        graph, branch="main", since=None, until=graph.commits()[0].id, types=None, images=True
    )

    def read(**bounds: int) -> list[pa.Table]:
        parts = cut_feed(location, steps, wanted, **bounds)
        parts = pickle.loads(pickle.dumps(parts))
        return [pa.Table.from_batches(part.read(), FEED_SCHEMA) for part in parts]

    (whole,) = read(changes=1_000)
    assert pa.concat_tables(read(changes=3, rows_max=100)) == whole
    assert len(read(changes=300, rows_max=100)) == 3, "small commits share tasks"
    spread = read(changes=10, rows_max=2)
    assert max(part.num_rows for part in spread) < 7, "no task has all of a large commit"
    found = pa.concat_tables(spread)
    # Commits come in their order, the rows of a table in that of their buckets.
    assert found["commit_id"] == whole["commit_id"]
    order = [("manifest_version", "ascending"), ("id", "ascending")]
    assert found.sort_by(order) == whole.sort_by(order)


def test_tasks_give_batches_in_the_form_that_spark_asks_for(graph: Graph) -> None:
    commits_of(graph, "a")
    reader, source = feed_of(graph), ChangeSource({"path": graph.uri})
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (part,) = reader.partitions(reader.initialOffset(), end)
    given = records_to_arrow_batches(reader.read(part), 1_000, source.schema(), source)
    assert [rows["id"].to_pylist() for rows in given] == [["a"]]


def test_a_feed_of_what_is_there_now_ends_where_it_was_begun(graph: Graph) -> None:
    commits_of(graph, "a", "b")
    reader = feed_of(graph)
    reader.prepareForTriggerAvailableNow()
    commits_of(graph, "c")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert batch(reader, reader.initialOffset(), end) == ["a", "b"]
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


@pytest.mark.soak
def test_the_change_feed_is_a_stream(spark: Any, graph: Graph, tmp_path: Path) -> None:
    register(spark)

    def seen() -> list[tuple[Any, ...]]:
        changes = spark.readStream.format("omnigraph-changes").option("max_changes", 1)
        changes = changes.option("images", "true").option("types", "Person").load(graph.uri)
        writer = changes.writeStream.format("json").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "at"))
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        rows = spark.read.schema("op string, id string, after string").json(str(tmp_path / "out"))
        return sorted((row.op, row.id, '"age": 2' in (row.after or "")) for row in rows.collect())

    commits_of(graph, "ab")
    graph.load({"Knows": pa.table({"src": ["a"], "dst": ["b"]})}, mode="append", spark=False)
    assert seen() == [("insert", "a", False), ("insert", "b", False)]
    graph.load({"Person": pa.table({"name": ["b"], "age": [2]})}, mode="merge", spark=False)
    graph.mutate('query m() { delete Person where name = "a" }')
    assert seen() == [
        ("delete", "a", False),
        ("insert", "a", False),
        ("insert", "b", False),
        ("update", "b", True),
    ]
