"""`spark.read.format("omnigraph")` shows a table as the graph does, of one moment, and reads no more than it must."""

import shutil
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from platform import node
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.errors import AnalysisException
from pyspark.sql.datasource import DataSourceReader

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import NotFound, QueryError, TableNotFound, UserInputError
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.spark import GraphSource, register
from omnigraphdb.spark.changes import ChangeSource
from omnigraphdb.spark.source import TableReader
from omnigraphdb.spark_jobs.bridge import arrow_schema
from omnigraphdb.spark_jobs.tables import TablePart

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = """
node Thing {
  name: String @key
  small: I32?  long: I64?  half: U32?  huge: U64?  short: F32?  double: F64?  yes: Bool?
  day: Date?  moment: DateTime?  kind: enum(red, green)?  vector: Vector(3)?  blob: Blob?
  words: [String]?  sizes: [U64]?  moments: [DateTime]?  days: [Date]?
}
edge Near: Thing -> Thing { since: Date? }
"""
FULL = {
    "name": "full", "small": -(2**31), "long": -(2**63), "half": 2**32 - 1, "huge": 2**64 - 1, "short": 1.5,
    "double": -2.25, "yes": True, "day": "1815-12-10", "moment": "2024-02-29T12:00:00.123Z", "kind": "red",
    "vector": [1.0, -2.5, 3.0], "blob": "base64:aGk=", "words": ["a", "é"], "sizes": [0, 2**64 - 1],
    "moments": ["1969-12-31T23:59:59.999Z"], "days": ["2024-02-29"],
}  # fmt: skip


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    uri = tmp_path_factory.mktemp("things") / "graph"
    with omnigraphdb.init(uri, SCHEMA) as graph:
        graph.load(
            [
                {"type": "Thing", "data": FULL},
                {"type": "Thing", "data": {"name": "bare"}},
                {"edge": "Near", "from": "full", "to": "bare", "data": {"since": "2024-01-01"}},
            ],
            mode="append",
        )
        for start in range(0, 200, 50):
            rows = [{"name": f"n{i:03}", "small": i} for i in range(start, start + 50)]
            graph.load({"Thing": pa.Table.from_pylist(rows)}, mode="append")
        yield graph


@pytest.fixture(autouse=True)
def _registered(spark: Any) -> None:
    register(spark)


def read(spark: Any, graph: Graph, type: str = "Thing", **options: Any) -> Any:
    reader = spark.read.format("omnigraph").option("type", type)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(graph.uri)


# ---- values


def test_every_property_type_arrives_as_it_is(spark: Any, things: Graph) -> None:
    rows = {row.name: row.asDict(recursive=True) for row in read(spark, things).collect()}
    assert len(rows) == 202
    full = rows["full"]
    moment = full.pop("moment").replace(tzinfo=UTC)
    [before] = full.pop("moments")
    assert moment == datetime(2024, 2, 29, 12, 0, 0, 123000, UTC)
    assert before.replace(tzinfo=UTC) == datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)
    assert full == {
        "id": "full", "name": "full", "small": -(2**31), "long": -(2**63), "half": 2**32 - 1,
        "huge": Decimal(2**64 - 1), "short": 1.5, "double": -2.25, "yes": True, "day": date(1815, 12, 10),
        "kind": "red", "vector": [1.0, -2.5, 3.0], "blob": {"kind": "managed", "size": 2, "uri": None},
        "words": ["a", "é"], "sizes": [Decimal(0), Decimal(2**64 - 1)], "days": [date(2024, 2, 29)],
    }  # fmt: skip
    assert {k: v for k, v in rows["bare"].items() if v is not None} == {
        "id": "bare",
        "name": "bare",
    }


def test_instants_are_the_same_whatever_the_session_takes_for_its_zone(
    spark: Any, things: Graph
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        frame = read(spark, things, columns="name, moment, moments", filter='$row.name = "full"')
        assert dict(frame.dtypes)["moment"] == "timestamp"
        assert dict(frame.dtypes)["moments"] == "array<timestamp>"
        [row] = frame.selectExpr("unix_millis(moment) m", "unix_millis(moments[0]) n").collect()
        assert (row.m, row.n) == (1_709_208_000_123, -1)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.soak
def test_edges_have_their_ends(spark: Any, things: Graph) -> None:
    [row] = read(spark, things, "Near").collect()
    assert (row.src, row.dst, row.since) == ("full", "bare", date(2024, 1, 1))


@pytest.mark.soak
def test_vectors_and_blobs_come_as_bytes_when_asked(spark: Any, things: Graph) -> None:
    frame = read(
        spark, things, vectors="binary", blobs="bytes", columns="name, vector, blob",
        filter='$row.name = "full"',
    )  # fmt: skip
    [row] = frame.collect()
    assert pa.py_buffer(bytes(row.vector)).size == 12
    assert (list(memoryview(bytes(row.vector)).cast("f")), bytes(row.blob)) == (
        [1.0, -2.5, 3.0],
        b"hi",
    )


# ---- which moment


@pytest.mark.soak
def test_a_frame_keeps_showing_the_moment_it_was_made(spark: Any, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }") as graph:
        graph.load({"A": pa.table({"k": ["1"]})}, mode="append")
        frame = read(spark, graph, "A")
        # With a schema from the user Spark asks nothing before the first action.
        asked = spark.read.format("omnigraph").schema("k string").option("type", "A")
        narrow = asked.load(graph.uri)
        assert narrow.count() == 1
        graph.load({"A": pa.table({"k": ["2"]})}, mode="append")
        assert (frame.count(), narrow.count(), frame.count()) == (1, 1, 1)
        assert read(spark, graph, "A").count() == 2


@pytest.mark.soak
def test_branches_and_the_past_can_be_read(spark: Any, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }") as graph:
        first = graph.load({"A": pa.table({"k": ["1"]})}, mode="append").commit
        assert first is not None
        graph.branch_create("review")
        graph.load({"A": pa.table({"k": ["2"]})}, mode="append", branch="review")
        graph.load({"A": pa.table({"k": ["3"]})}, mode="append")
        seen = {
            "main": read(spark, graph, "A"),
            "review": read(spark, graph, "A", branch="review"),
            "past": read(spark, graph, "A", at=first.id),
        }
        found = {name: sorted(row.k for row in frame.collect()) for name, frame in seen.items()}
    assert found == {"main": ["1", "3"], "review": ["1", "2"], "past": ["1"]}


@pytest.mark.soak
def test_a_graph_that_is_made_again_at_its_place_is_read_and_written_anew(
    spark: Any, tmp_path: Path
) -> None:
    place = tmp_path / "g"
    for names, more in (("ab", ""), ("xyz", "n: I32")):
        shutil.rmtree(place, ignore_errors=True)
        with omnigraphdb.init(place, f"node A {{ k: String @key  {more} }}") as graph:
            found = [(name, len(names)) if more else (name,) for name in names]
            rows = spark.createDataFrame(found, "k string, n int" if more else "k string")
            done = graph.load({"A": rows}, mode="append")
            assert (done.engine, done.tables) == ("spark", {"node:A": len(names)})
            columns = "k,n" if more else "k"
            frame = read(spark, graph, "A", columns=columns)
            assert sorted(tuple(row) for row in frame.collect()) == found
            asked = ", ".join(f"$a.{name}" for name in columns.split(","))
            text = f"query q() {{ match {{ $a: A }} return {{ {asked} }} order {{ $a.k }} }}"
            answer = graph.query(text, spark=spark).rows
            assert [tuple(row.values()) for row in answer] == found
            files = graph.export_files(tmp_path / f"out-{names}", spark=spark)
            assert sum(part.rows for part in files.parts) == len(names)
            graph.load({"A": rows}, mode="merge", spark=spark)
            assert graph.table("A").num_rows == len(names)


# ---- which rows and columns


def reader_of(graph: Graph, **options: str) -> tuple[TableReader, Any]:
    source = GraphSource({"path": graph.uri, "type": "Thing", **options})
    schema = source.schema()
    reader = source.reader(schema)
    assert isinstance(reader, TableReader)
    return reader, schema


def rows_read(reader: TableReader) -> int:
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def test_only_rows_that_pass_the_filter_are_read(spark: Any, things: Graph) -> None:
    reader, _ = reader_of(things, filter="$row.small >= 100  $row.small < 110")
    assert rows_read(reader) == 10
    assert read(spark, things, filter="$row.small >= 100  $row.small < 110").count() == 10


@pytest.mark.soak
def test_an_edge_is_filtered_by_its_ends(spark: Any, things: Graph) -> None:
    assert read(spark, things, "Near", filter='$row.src = "full"').count() == 1
    assert read(spark, things, "Near", filter='$row.dst = "full"').count() == 0


def test_one_frame_filtered_in_two_ways_gives_both(spark: Any, things: Graph) -> None:
    assert TableReader.pushFilters is DataSourceReader.pushFilters
    frame = read(spark, things)
    both = frame.filter("name = 'n001'").union(frame.filter("name = 'n002'"))
    assert sorted(row.name for row in both.collect()) == ["n001", "n002"]
    assert frame.count() == 202


@pytest.mark.soak
def test_columns_are_narrowed_by_option_and_by_schema(spark: Any, things: Graph) -> None:
    narrow = read(spark, things, columns="small,name")
    assert narrow.columns == ["small", "name"]
    reader, schema = reader_of(things, columns="small,name")
    [part, *_] = reader.partitions()
    assert next(reader.read(part)).schema == arrow_schema(schema)
    asked = spark.read.format("omnigraph").schema("small int").option("type", "Thing")
    assert asked.load(things.uri).where("small = 7").count() == 1


def test_fragments_are_read_in_groups(things: Graph) -> None:
    reader, _ = reader_of(things, partition_rows="60")
    parts: Any = reader.partitions()
    assert [len(part.fragments) for part in parts] == [3, 1, 1]
    assert rows_read(reader) == 202


def test_a_large_fragment_is_read_in_ranges(things: Graph) -> None:
    reader, _ = reader_of(things, partition_rows="20", columns="name", filter="small != 7")
    parts: Any = reader.partitions()
    assert [part.offsets for part in parts][-3:] == [(0, 20), (20, 40), (40, 60)]
    names = [
        name for part in parts for one in reader.read(part) for name in one.column(0).to_pylist()
    ]
    assert (len(names), len(set(names)), "n007" in names) == (200, 200, False)


# ---- what cannot be read


@pytest.mark.soak
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"type": "Thnig"}, "type 'Thnig' not found; did you mean 'Thing'?"),
        ({"branch": "nope"}, "branch 'nope' not found"),
        ({"at": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "commit '01ARZ3NDEKTSV4RRFFQ69G5FAV' not found"),
        ({"pushdown": "true"}, "no option 'pushdown'"),
        ({"colums": "x"}, "no option 'colums'; did you mean 'columns'?"),
        ({"columns": "nme"}, "column 'nme' not found; did you mean 'name'?"),
        ({"vectors": "list"}, "option 'vectors' is one of array, binary"),
    ],
)
def test_what_is_not_there_is_named(
    spark: Any, things: Graph, options: dict[str, str], told: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        read(spark, things, **({"type": "Thing"} | options))
    assert told in str(caught.value)


@pytest.mark.soak
def test_a_graph_that_is_not_there_is_named(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"graph .* not found"):
        spark.read.format("omnigraph").option("type", "A").load(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("$row.nme = 1", QueryError),
        ('$row.words contains "a"', UserInputError),
        ("not { $row: Row { small: 1 } }", UserInputError),
    ],
)
def test_a_filter_that_storage_cannot_evaluate_is_refused(
    things: Graph, text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        GraphSource({"path": things.uri, "type": "Thing", "filter": text})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("small >= 100 AND small < 103", ["n100", "n101", "n102"]),
        ("`name` = 'n007' OR name = 'n008'", ["n007", "n008"]),
        ("name IN ('n001', 'it''s', 'n002')", ["n001", "n002"]),
        ("(small = 1 or small == 2) and name <> 'n001'", ["n002"]),
        ("small = -2147483648 and yes = TRUE", ["full"]),
        ("$row.name = 'n003'", ["n003"]),
        ("small >= 198 AND name NOT IN ('n199', 'n001')", ["n198"]),
        ("day < '1900-01-01'", ["full"]),
        ("day = DATE '1815-12-10' and moment >= '2024-02-29T12:00:00Z'", ["full"]),
        ("moment < TIMESTAMP '2025-01-01T00:00:00Z'", ["full"]),
        ("$row.small > 196 and not $row.small in [198]", ["n197", "n199"]),
    ],
)
def test_a_filter_may_be_written_as_sql_writes_it(
    things: Graph, text: str, names: list[str]
) -> None:
    reader, _ = reader_of(things, columns="name", filter=text)
    found = [
        name
        for part in reader.partitions()
        for batch in reader.read(part)
        for name in batch.column(0).to_pylist()
    ]
    assert found == names


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("small BETWEEN 1 AND 9", "BETWEEN"),
        ("name LIKE 'n%'", "LIKE"),
        ("lower(name) = 'full'", "lower"),
        ("CASE WHEN small = 1 THEN TRUE END", "CASE"),
    ],
)
def test_a_filter_in_sql_names_what_storage_does_not_evaluate(
    things: Graph, text: str, token: str
) -> None:
    with pytest.raises(UserInputError, match=f"holds '{token}', which storage does not") as refused:
        GraphSource({"path": things.uri, "type": "Thing", "filter": text})
    assert "a range is x >= 1 AND x <= 9" in str(refused.value.hint)


def test_a_filter_in_sql_names_the_column_that_is_not_there(things: Graph) -> None:
    with pytest.raises(NotFound, match="column 'smal' not found; did you mean 'small'"):
        GraphSource({"path": things.uri, "type": "Thing", "filter": "smal > 3"})


# ---- options that people know


def test_moments_are_named_as_other_formats_name_them(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }") as graph:
        first = graph.load({"A": pa.table({"k": ["1"]})}, mode="append").commit
        assert first is not None
        graph.load({"A": pa.table({"k": ["2"]})}, mode="append")
        moments = {
            "versionAsOf": str(first.manifest_version),
            "timestampAsOf": first.created_at.isoformat(),
            "snapshot-id": first.id,
        }
        for name, value in moments.items():
            source = GraphSource({"path": graph.uri, "type": "A", name: value})
            assert source._pin().table.open().count() == 1, name
        with pytest.raises(UserInputError, match="versionAsOf and at both name a moment"):
            GraphSource({"path": graph.uri, "type": "A", "versionAsOf": "1", "at": "1"})
        with pytest.raises(UserInputError, match="'timestampAsOf' is a moment in RFC 3339"):
            GraphSource({"path": graph.uri, "type": "A", "timestampAsOf": "yesterday"})


@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("startingVersion", "omnigraph-changes"),
        ("endingVersion", "changes_frame"),
        ("end-snapshot-id", "diff_frame"),
        ("tag", "option 'at'"),
        ("readChangeFeed", "omnigraph-changes"),
        ("as-of-timestamp", "timestampAsOf"),
        ("mergeSchema", "schema_apply"),
        ("replaceWhere", "Transaction"),
        ("dbtable", "option 'type'"),
        ("mode", "load_mode"),
        ("pushdown", "option 'filter'"),
    ],
)
def test_an_option_with_another_meaning_is_refused_with_the_right_one(
    things: Graph, option: str, instead: str
) -> None:
    with pytest.raises(UserInputError, match=f"no option '{option}'") as refused:
        GraphSource({"path": things.uri, "type": "Thing", option: "1"})
    assert instead in str(refused.value.hint)


def test_a_table_of_the_catalog_is_refused_with_the_view_that_works(things: Graph) -> None:
    with pytest.raises(UserInputError, match=r"CREATE TABLE .* is not possible") as refused:
        GraphSource({"option.type": "Thing", "location": f"file:{things.uri}", "type": "Thing"})
    assert "CREATE TEMPORARY VIEW" in str(refused.value.hint)


def test_a_table_of_the_catalog_that_names_its_columns_is_refused_where_it_is_read(
    things: Graph,
) -> None:
    # Spark asks the source nothing when such a table is created, and gives a read none of its options.
    with pytest.raises(UserInputError, match="needs the graph") as refused:
        GraphSource({})
    assert "CREATE TEMPORARY VIEW" in str(refused.value.hint)


@pytest.mark.parametrize("option", ["columns", "filter", "vectors", "blobs", "partition_rows"])
def test_a_write_refuses_the_options_of_reads(things: Graph, option: str) -> None:
    source = GraphSource({"path": things.uri, "type": "Thing"})
    schema, source.options = source.schema(), {"path": things.uri, "type": "Thing", option: "1"}
    with pytest.raises(UserInputError, match=f"a write .* has no use for option '{option}'"):
        source.writer(schema, overwrite=False)


@pytest.mark.parametrize("option", ["load_mode", "actor", "batch"])
def test_a_read_refuses_the_options_of_writes(things: Graph, option: str) -> None:
    source = GraphSource({"path": things.uri, "type": "Thing", option: "x"})
    with pytest.raises(UserInputError, match=f"a read .* has no use for option '{option}'"):
        source.reader(source.schema())


def test_a_write_into_the_past_names_the_option_that_asks_for_it(things: Graph) -> None:
    source = GraphSource({"path": things.uri, "type": "Thing", "versionAsOf": "2"})
    with pytest.raises(UserInputError, match="leave out 'versionAsOf'"):
        source.writer(source.schema(), overwrite=False)


def test_a_name_that_is_given_twice_is_refused(things: Graph) -> None:
    with pytest.raises(UserInputError, match="'name' is named twice"):
        GraphSource({"path": things.uri, "type": "Thing", "columns": "name, small, name"})


def test_a_switch_that_is_neither_true_nor_false_is_refused(things: Graph) -> None:
    assert ChangeSource({"path": things.uri, "images": "True"}).feed.images
    with pytest.raises(UserInputError, match="option 'images' is true or false, not 'yes'"):
        ChangeSource({"path": things.uri, "images": "yes"})


def test_an_error_of_a_task_names_its_host_and_leaves_without_our_frames(
    things: Graph, tmp_path: Path
) -> None:
    reader, _ = reader_of(things, columns="name")
    part: Any = reader.partitions()[0]
    elsewhere = replace(part.table, location=StoreLocation.of(str(tmp_path / "empty")))
    with pytest.raises(TableNotFound) as refused:
        next(reader.read(replace(part, table=elsewhere)))
    text = "".join(traceback.format_exception(refused.value))
    assert f"on executor host '{node()}': every executor must reach" in text
    assert "read_part" not in text


def test_an_error_leaves_the_source_with_its_hint_and_without_our_frames(things: Graph) -> None:
    with pytest.raises(UserInputError) as refused:
        GraphSource({"path": things.uri})
    text = "".join(traceback.format_exception(refused.value))
    assert "hint: add .option('type', 'Person')" in text
    assert "parse_options" not in text


def test_wrong_doors_name_the_right_one(things: Graph) -> None:
    source = GraphSource({"path": things.uri, "type": "Thing"})
    with pytest.raises(UserInputError) as stream:
        source.streamReader(source.schema())
    assert "readStream.format('omnigraph-changes')" in str(stream.value.hint)
    changes = ChangeSource({"path": things.uri})
    with pytest.raises(UserInputError) as batch:
        changes.reader(source.schema())
    assert "availableNow" in str(batch.value.hint)
    for write in (changes.writer, changes.streamWriter):
        with pytest.raises(UserInputError, match="is read only") as written:
            write(source.schema(), overwrite=False)
        assert "format('omnigraph')" in str(written.value.hint)
    with pytest.raises(UserInputError) as starting:
        ChangeSource({"path": things.uri, "startingVersion": "3"})
    assert "option 'since'" in str(starting.value.hint)


@pytest.mark.parametrize("text", ["0", "many", "-1"])
def test_a_count_that_is_none_is_refused(things: Graph, text: str) -> None:
    with pytest.raises(UserInputError, match="'partition_rows' is a number of at least 1"):
        reader_of(things, partition_rows=text)


def test_a_type_that_did_not_exist_yet_is_refused(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", "node A { k: String @key }") as graph:
        [first] = graph.commits()
        graph.schema_apply("node A { k: String @key } node B { k: String @key }")
        with pytest.raises(NotFound, match="node:B"):
            GraphSource({"path": graph.uri, "type": "B", "at": first.id})


def test_a_part_travels_with_everything_it_needs(things: Graph) -> None:
    from pyspark import cloudpickle

    reader, _ = reader_of(things, columns="name", filter="$row.small = 7")
    parts = [cloudpickle.loads(cloudpickle.dumps(part)) for part in reader.partitions()]
    assert all(isinstance(part, TablePart) for part in parts)
    assert sum(batch.num_rows for part in parts for batch in TableReader.read(reader, part)) == 1
