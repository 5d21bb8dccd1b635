"""Frames, transactions and streams become one commit each, or nothing; a batch that comes again is known."""

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from pyspark.errors import PySparkException

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    BatchConflict,
    DataError,
    EngineError,
    KeyConflict,
    NotFound,
    OmniError,
    OmniWarning,
    PreconditionFailed,
    ReferentialError,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, Injected, armed
from omnigraphdb.ids import MAIN
from omnigraphdb.spark import GraphSource, Transaction, each_batch, register
from omnigraphdb.spark.streams import MicroBatch
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

REPEATED = pytest.mark.filterwarnings("ignore:.*was loaded before:omnigraphdb.OmniWarning")
"""The test repeats batches, which each call warns of."""

SCHEMA = """
node Person { name: String @key  age: I32?  huge: U64?  born: Date?  tags: [String]?  vector: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path, spark: Any) -> Iterator[Graph]:
    register(spark)
    with omnigraphdb.init(tmp_path / "graph", SCHEMA) as made:
        yield made
        assert_settled(made)
        assert not any((tmp_path / "graph").glob("__staging/*/*"))


def people(spark: Any, *names: str, age: int = 1) -> Any:
    return spark.createDataFrame([(name, age) for name in names], "name string, age int")


def knows(spark: Any, *pairs: str) -> Any:
    return spark.createDataFrame([(pair[0], pair[1]) for pair in pairs], "src string, dst string")


def names(graph: Graph, branch: str = "main") -> dict[str, int | None]:
    rows = graph.table("Person", branch=branch).select(["name", "age"]).to_pylist()
    return {row["name"]: row["age"] for row in rows}


def loads(graph: Graph) -> int:
    return sum(commit.kind == "load" for commit in graph.commits())


# ---- frames as the input of a load


def test_spark_frames_are_loaded_in_one_commit(spark: Any, graph: Graph) -> None:
    frame = spark.sql(
        """select concat('p', id) as name, cast(id as int) as age,
                  cast(18446744073709551615 - id as decimal(20, 0)) as huge,
                  date_add(date'2000-01-01', cast(id as int)) as born, array('a', 'é') as tags,
                  array(cast(id as float), cast(0.5 as float)) as vector
           from range(0, 100, 1, 3)"""
    )
    edges = spark.sql(
        "select concat('p', id % 100) as src, concat('p', id * 7 % 100) as dst from range(500)"
    )
    done = graph.load({"Person": frame, "Knows": edges}, mode="append")
    assert (done.engine, done.tables) == ("spark", {"edge:Knows": 500, "node:Person": 100})
    assert loads(graph) == 1
    row = graph.entity("Person", "p7")
    assert row is not None
    assert (row["huge"], row["born"], row["tags"], row["vector"]) == (
        str(2**64 - 8) if isinstance(row["huge"], str) else 2**64 - 8,
        "2000-01-08",
        ["a", "é"],
        [7.0, 0.5],
    )


@pytest.mark.soak
def test_a_frame_with_bad_rows_writes_nothing_and_names_them(spark: Any, graph: Graph) -> None:
    graph.load({"Person": people(spark, "a", "b")}, mode="append")
    with pytest.raises(KeyConflict) as twice:
        graph.load({"Person": people(spark, "c", "b")}, mode="append")
    with pytest.raises(ReferentialError) as lost:
        graph.load({"Knows": knows(spark, "ab", "ax")}, mode="append")
    assert ("'b'" in str(twice.value), "'x'" in str(lost.value)) == (True, True)
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1}, 1)


# ---- format("omnigraph")


@pytest.mark.soak
def test_a_frame_is_appended_then_merged_then_replaced(spark: Any, graph: Graph) -> None:
    def write(frame: Any, how: str, **options: str) -> None:
        writer = frame.write.format("omnigraph").mode(how).option("type", "Person")
        writer.options(**options).save(graph.uri)

    write(people(spark, "a", "b"), "append", actor="etl")
    write(people(spark, "b", "c", age=2), "append", load_mode="merge")
    assert names(graph) == {"a": 1, "b": 2, "c": 2}
    write(people(spark, "z"), "overwrite")
    assert names(graph) == {"z": 1}
    assert [commit.actor for commit in graph.commits() if commit.kind == "load"] == [
        None,
        None,
        "etl",
    ]


@pytest.mark.soak
@pytest.mark.parametrize("way", ["load", "write"])
def test_a_frame_without_rows_empties_what_it_replaces(spark: Any, graph: Graph, way: str) -> None:
    graph.load({"Person": people(spark, "a", "b")}, mode="append")
    none = people(spark, "z").where("age > 9")

    def write(mode: "Mode") -> None:
        if way == "load":
            graph.load({"Person": none}, mode=mode)
        else:
            none.write.format("omnigraph").option("type", "Person").mode(mode).save(graph.uri)

    write("append")
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1}, 1)
    write("overwrite")
    assert (names(graph), loads(graph)) == ({}, 2)


def test_a_frame_without_rows_is_held_to_its_columns(spark: Any, graph: Graph) -> None:
    none = spark.createDataFrame([], "name string, shoe int")
    with pytest.raises(DataError, match="shoe"):
        graph.load({"Person": none}, mode="overwrite")


@pytest.mark.soak
def test_a_frame_goes_to_a_branch_that_it_makes(spark: Any, graph: Graph) -> None:
    writer = people(spark, "a").write.format("omnigraph").mode("append").option("type", "Person")
    writer.options(branch="review", from_branch="main").save(graph.uri)
    assert (names(graph), names(graph, "review")) == ({}, {"a": 1})


@pytest.mark.soak
def test_a_write_that_breaks_a_rule_leaves_the_graph_as_it_was(spark: Any, graph: Graph) -> None:
    writer = knows(spark, "ab").write.format("omnigraph").mode("append").option("type", "Knows")
    with pytest.raises(PySparkException, match=r"\[W15\] edge Knows: from \(src\) 'a' not found"):
        writer.save(graph.uri)
    assert loads(graph) == 0


@pytest.mark.soak
def test_a_write_whose_tasks_fail_leaves_the_graph_as_it_was(spark: Any, graph: Graph) -> None:
    bad = spark.range(0, 10, 1, 2).selectExpr("raise_error('broken') as name")
    with pytest.raises(PySparkException, match="broken"):
        bad.write.format("omnigraph").mode("append").option("type", "Person").save(graph.uri)
    with pytest.raises(EngineError, match="'spill' failed on Spark"):
        graph.load({"Person": bad}, mode="append")
    assert loads(graph) == 0


@pytest.mark.soak
def test_the_past_is_not_written(spark: Any, graph: Graph) -> None:
    [first] = graph.commits()
    writer = people(spark, "a").write.format("omnigraph").mode("append").option("type", "Person")
    with pytest.raises(PySparkException, match="the past cannot be written"):
        writer.option("at", first.id).save(graph.uri)


# ---- transactions


def test_several_types_and_modes_become_one_commit(spark: Any, graph: Graph) -> None:
    graph.load({"Person": people(spark, "a")}, mode="append")
    with Transaction(graph, spark, actor="etl") as transaction:
        transaction.append("Person", people(spark, "b", "c"))
        transaction.append("Person", people(spark, "d"))
        transaction.merge("Knows", knows(spark, "ab", "bd"))
    assert transaction.commit is not None
    assert (transaction.commit.actor, transaction.commit.tables) == (
        "etl",
        ("edge:Knows", "node:Person"),
    )
    assert (loads(graph), names(graph)) == (2, {"a": 1, "b": 1, "c": 1, "d": 1})
    assert graph.table("Knows").num_rows == 2


@pytest.mark.soak
def test_an_appended_type_stays_strict_beside_a_merged_one(spark: Any, graph: Graph) -> None:
    graph.load({"Person": people(spark, "a")}, mode="append")

    def strict() -> None:
        with Transaction(graph, spark) as transaction:
            transaction.append("Person", people(spark, "a", age=9))
            transaction.merge("Knows", knows(spark, "aa"))

    with pytest.raises(KeyConflict):
        strict()
    assert (names(graph), loads(graph)) == ({"a": 1}, 1)


@pytest.mark.soak
def test_a_block_that_fails_writes_nothing(spark: Any, graph: Graph) -> None:
    def broken() -> None:
        with Transaction(graph, spark) as transaction:
            transaction.append("Person", people(spark, "a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert loads(graph) == 0


def test_a_transaction_refuses_what_cannot_be_meant(spark: Any, graph: Graph) -> None:
    transaction = Transaction(graph, spark)
    transaction.append("Person", people(spark, "a"))
    with pytest.raises(UserInputError, match="both appended and merged"):
        transaction.merge("Person", people(spark, "a"))
    with pytest.raises(NotFound, match="did you mean 'Person'"):
        transaction.append("Persn", people(spark, "a"))


def test_an_update_changes_only_the_columns_of_its_frame(spark: Any, graph: Graph) -> None:
    rows = pa.table(
        {"name": ["a", "b", "c"], "age": pa.array([1, 2, 3], pa.int32()), "huge": [7, 8, 9]}
    )
    graph.load(
        {"Person": rows.append_column("tags", pa.array([["x"], ["y"], None]))}, mode="append"
    )
    with Transaction(graph, spark, message="birthdays") as transaction:
        transaction.update("Person", people(spark, "a", "b", age=40))
        transaction.append("Knows", knows(spark, "ab"))
    assert transaction.commit is not None
    assert (transaction.commit.message, loads(graph)) == ("birthdays", 2)
    found = graph.table("Person").select(["name", "age", "huge", "tags"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("a", 40, 7, ["x"]),
        ("b", 40, 8, ["y"]),
        ("c", 3, 9, None),
    ]
    with pytest.raises(NotFound, match="Person 'z' not found"):
        transaction.update("Person", people(spark, "a", "z"))
    with pytest.raises(UserInputError, match="names its rows by name"):
        transaction.update("Person", spark.createDataFrame([(1,)], "age int"))

    def meanwhile() -> None:
        with Transaction(graph, spark) as late:
            late.update("Person", people(spark, "c", age=50))
            graph.mutate('query q() { update Person set { huge: 10 } where name = "c" }')

    with pytest.raises(PreconditionFailed):
        meanwhile()
    assert names(graph)["c"] == 3


def test_overwrites_and_deletes_have_transactions_of_their_own(spark: Any, graph: Graph) -> None:
    def write(*, dry_run: bool = False, if_commit: str | None = None) -> Transaction:
        with Transaction(graph, spark, dry_run=dry_run, if_commit=if_commit) as transaction:
            transaction.overwrite("Person", people(spark, "x", "y", age=9))
        return transaction

    graph.load({"Person": people(spark, "a", "b"), "Knows": knows(spark, "ab")}, mode="append")
    first = graph.commits(limit=1)[0].id
    with Transaction(graph, spark, actor="etl") as transaction:
        transaction.delete("Person", spark.createDataFrame([("a",)], "name string"))
    assert (names(graph), graph.table("Knows").num_rows) == ({"b": 1}, 0)
    assert transaction.commit is not None
    assert transaction.commit.actor == "etl"
    checked = write(dry_run=True)
    assert checked.loaded is not None
    assert (checked.loaded.tables, checked.commit) == ({"node:Person": 2}, None)
    with pytest.raises(PreconditionFailed):
        write(if_commit=first)
    assert names(graph) == {"b": 1}
    write(if_commit=graph.commits(limit=1)[0].id)
    assert names(graph) == {"x": 9, "y": 9}
    with Transaction(graph, spark, branch="less", from_branch="main") as transaction:
        transaction.delete("Person", where="name = 'x'")
    assert (names(graph, "less"), len(names(graph))) == ({"y": 9}, 2)
    with pytest.raises(UserInputError, match="does something else too"):
        transaction.append("Knows", knows(spark, "xy"))
    with pytest.raises(UserInputError, match="takes keys or where="):
        transaction.delete("Person")


# ---- streams


def rate(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema("name string, age int").json(str(folder))


def drop(folder: Path, number: int, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    lines = "".join(f'{{"name": "{name}", "age": {number}}}\n' for name in names)
    (folder / f"part-{number}.json").write_text(lines)


def run_sink(frame: Any, graph: Graph, at: Path, output: str = "append", **options: str) -> None:
    """Run a stream into `format("omnigraph")` over everything that is there."""
    writer = frame.writeStream.format("omnigraph").outputMode(output).options(**options)
    writer = writer.option("type", "Person").option("checkpointLocation", str(at))
    writer.trigger(availableNow=True).start(graph.uri).awaitTermination()


def run_batches(frame: Any, write: Any, at: Path) -> None:
    """Run a stream into a function over everything that is there."""
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(at))
    writer.trigger(availableNow=True).start().awaitTermination()


def forget_end(at: Path, number: int) -> None:
    """Let Spark run a batch again, as when the driver dies after the commit of the graph."""
    for name in (str(number), f".{number}.crc"):
        (at / "commits" / name).unlink()


@pytest.mark.soak
def test_every_micro_batch_becomes_one_commit(spark: Any, graph: Graph, tmp_path: Path) -> None:
    drop(tmp_path / "in", 1, "a", "b")
    run_sink(rate(spark, tmp_path / "in"), graph, tmp_path / "at")
    drop(tmp_path / "in", 2, "c")
    run_sink(rate(spark, tmp_path / "in"), graph, tmp_path / "at")
    forget_end(tmp_path / "at", 1)
    run_sink(rate(spark, tmp_path / "in"), graph, tmp_path / "at")
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1, "c": 2}, 2)


def test_deletes_that_are_not_written_leave_no_branch(spark: Any, graph: Graph) -> None:
    graph.load({"Person": pa.table({"name": ["a", "b"]})}, mode="append")
    with Transaction(graph, spark, branch="new", from_branch="main", dry_run=True) as transaction:
        transaction.delete("Person", ["a"])
    assert transaction.deleted is not None
    assert transaction.deleted.affected_nodes == 1
    with (
        pytest.raises(OmniError),
        Transaction(graph, spark, branch="new", from_branch="main", if_commit="0" * 26) as refused,
    ):
        refused.delete("Person", ["a"])
    assert [branch.name for branch in graph.branches()] == ["main"]
    assert graph.table("Person").num_rows == 2


@pytest.mark.parametrize("way", ["sink", pytest.param("batches", marks=pytest.mark.soak)])
def test_a_stream_whose_checkpoint_was_deleted_writes_what_it_reads(
    spark: Any, graph: Graph, tmp_path: Path, way: str
) -> None:
    at = tmp_path / "at"
    write = each_batch(graph, lambda tx, batch: tx.merge("Person", batch), stream="files")

    def run() -> None:
        if way == "sink":
            run_sink(rate(spark, tmp_path / "in"), graph, at, load_mode="merge")
        else:
            run_batches(rate(spark, tmp_path / "in"), write, at)

    drop(tmp_path / "in", 1, "a", "b")
    run()
    shutil.rmtree(at)
    drop(tmp_path / "in", 2, "c")
    run()
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1, "c": 2}, 2)


def written_by_name(graph: Graph, stream: str) -> Any:
    """Writes batches as earlier versions did: the commit names the stream and no query."""

    def write(batch: Any, number: int) -> None:
        rows = batch.toArrow()
        graph.load({"Person": rows}, mode="append", batch_id=f"{stream}#{number}", spark=False)

    return write


@pytest.mark.parametrize("way", ["sink", pytest.param("batches", marks=pytest.mark.soak)])
def test_a_stream_of_an_earlier_version_goes_on_and_writes_no_batch_twice(
    spark: Any, graph: Graph, tmp_path: Path, way: str
) -> None:
    at, stream = tmp_path / "at", "clicks" if way == "batches" else str(tmp_path / "at")
    for number, name in enumerate("ab"):
        drop(tmp_path / "in", number, name)
        run_batches(rate(spark, tmp_path / "in"), written_by_name(graph, stream), at)
    forget_end(at, 1)
    drop(tmp_path / "in", 2, "c")
    if way == "sink":
        run_sink(rate(spark, tmp_path / "in"), graph, at)
    else:
        write = each_batch(graph, lambda tx, batch: tx.append("Person", batch), stream=stream)
        run_batches(rate(spark, tmp_path / "in"), write, at)
    assert (names(graph), loads(graph)) == ({"a": 0, "b": 1, "c": 2}, 3)


@pytest.mark.parametrize(
    ("batch", "was_written"),
    [
        (MicroBatch(stream="q", number=1, former="s"), True),
        (MicroBatch(stream="q", number=1, former="t"), False),
        (MicroBatch(stream="q", number=0, former="s"), False),
        (MicroBatch(stream="q", number=2, former="s"), False),
        (MicroBatch(stream="own", number=1, former="s"), False),
        (MicroBatch(stream="q", number=0, former="s", planned_at=0), True),
        (MicroBatch(stream="q", number=1, former="s", planned_at=1 << 62), False),
    ],
    ids=["last", "another name", "not the last", "new", "begun anew", "planned before", "after"],
)
@REPEATED
def test_a_batch_is_that_of_an_earlier_version_when_nothing_speaks_against_it(
    graph: Graph, batch: MicroBatch, was_written: bool
) -> None:
    for number, batch_id in enumerate(["s#0", "s#1", "own#0", "other"]):
        rows = {"Person": pa.table({"name": [str(number)]})}
        graph.load(rows, mode="append", batch_id=batch_id)
    assert batch.was_written_by_name(graph, MAIN) is was_written


def test_a_first_batch_that_may_be_there_is_refused(graph: Graph) -> None:
    graph.load({"Person": pa.table({"name": ["a"]})}, mode="append", batch_id="s#0")
    with pytest.raises(UserInputError, match="whether this is the same one; nothing was written"):
        MicroBatch(stream="q", number=0, former="s").was_written_by_name(graph, MAIN)


def test_a_replayed_batch_is_not_written_again_and_told_with_its_commit(
    spark: Any, graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    write = each_batch(graph, lambda tx, batch: tx.append("Person", batch), stream="clicks")
    write(people(spark, "a"), 0)
    first = graph.commits(limit=1)[0].id
    with pytest.warns(OmniWarning, match=f"'clicks#0' was loaded before, in commit {first}"):
        write(people(spark, "a"), 0)
    write(people(spark, "b"), 1)
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1}, 2)
    told = [text for text in caplog.messages if "batch.skipped" in text]
    assert len(told) == 1
    assert "clicks#0" in told[0]
    assert first in told[0]


def test_a_complete_stream_replaces_the_type_in_one_commit(
    spark: Any, graph: Graph, tmp_path: Path
) -> None:
    graph.load({"Person": pa.table({"name": ["old"]})}, mode="append")
    for number, arriving in enumerate(["aab", "bc"]):
        drop(tmp_path / "in", number, *arriving)
        counts = rate(spark, tmp_path / "in").groupBy("name").agg({"*": "count"})
        frame = counts.selectExpr("name", "cast(`count(1)` as int) as age")
        run_sink(frame, graph, tmp_path / "at", "complete")
    assert (names(graph), loads(graph)) == ({"a": 2, "b": 2, "c": 1}, 3)


def test_an_append_stream_follows_its_checkpoint_and_is_refused_without_one(
    spark: Any, graph: Graph, tmp_path: Path
) -> None:
    at, moved = tmp_path / "at", tmp_path / "moved"
    drop(tmp_path / "in", 1, "a", "b")
    run_sink(rate(spark, tmp_path / "in"), graph, at)
    at.rename(moved)
    forget_end(moved, 0)
    drop(tmp_path / "in", 2, "c")
    run_sink(rate(spark, tmp_path / "in"), graph, moved)
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1, "c": 2}, 2)
    shutil.rmtree(moved)
    with pytest.raises(PySparkException, match=r"Person '[abc]' already exists"):
        run_sink(rate(spark, tmp_path / "in"), graph, moved)
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1, "c": 2}, 2)


@REPEATED
def test_a_stream_of_updates_merges_the_rows_that_changed(
    spark: Any, graph: Graph, tmp_path: Path
) -> None:
    at, moved = tmp_path / "at", tmp_path / "moved"
    batches: list[dict[str, int]] = []

    def fill(transaction: Transaction, batch: Any) -> None:
        batches.append({row.name: row.age for row in batch.collect()})
        transaction.merge("Person", batch)

    def run(checkpoint: Path) -> None:
        counts = rate(spark, tmp_path / "in").groupBy("name").agg({"*": "count"})
        frame = counts.selectExpr("name", "cast(`count(1)` as int) as age")
        write = each_batch(graph, fill, stream="counts")
        writer = frame.writeStream.outputMode("update").foreachBatch(write)
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    drop(tmp_path / "in", 1, *"aab")
    run(at)
    at.rename(moved)
    forget_end(moved, 0)
    drop(tmp_path / "in", 2, *"bc")
    run(moved)
    assert batches[-1] == {"b": 2, "c": 1}
    assert (names(graph), loads(graph)) == ({"a": 2, "b": 2, "c": 1}, 2)


@pytest.mark.soak
def test_a_stream_of_updates_is_refused(spark: Any, graph: Graph, tmp_path: Path) -> None:
    drop(tmp_path / "in", 1, "a")
    with pytest.raises(PySparkException, match="does not support Update mode"):
        run_sink(rate(spark, tmp_path / "in"), graph, tmp_path / "at", "update")
    assert loads(graph) == 0


@pytest.mark.parametrize(
    ("overwrite", "mode", "said"),
    [
        (True, "merge", "told to replace the type, and option 'load_mode' says merge"),
        (True, "append", "told to replace the type, and option 'load_mode' says append"),
        (False, "overwrite", "told to keep its rows, and option 'load_mode' says overwrite"),
        (False, "upsert", "option 'load_mode' is one of append, merge, overwrite, not 'upsert'"),
    ],
)
@pytest.mark.parametrize("streams", [False, True], ids=["batch", "stream"])
def test_a_load_mode_that_contradicts_the_write_is_refused(
    graph: Graph, overwrite: bool, mode: str, said: str, streams: bool
) -> None:
    source = GraphSource({"path": graph.uri, "type": "Person", "load_mode": mode})
    make = source.streamWriter if streams else source.writer
    with pytest.raises(UserInputError, match=said):
        make(source.schema(), overwrite)


@pytest.mark.soak
def test_a_frame_that_overwrites_does_not_merge(spark: Any, graph: Graph) -> None:
    writer = people(spark, "a").write.format("omnigraph").mode("overwrite")
    with pytest.raises(PySparkException, match="told to replace the type"):
        writer.option("type", "Person").option("load_mode", "merge").save(graph.uri)
    assert loads(graph) == 0


@pytest.mark.soak
def test_a_stream_that_died_after_its_commit_goes_on_where_it_was(
    spark: Any, graph: Graph, tmp_path: Path
) -> None:
    write = each_batch(graph, lambda tx, batch: tx.append("Person", batch), stream="files")
    drop(tmp_path / "in", 1, "a", "b")
    run_batches(rate(spark, tmp_path / "in"), write, tmp_path / "at")
    forget_end(tmp_path / "at", 0)
    run_batches(rate(spark, tmp_path / "in"), write, tmp_path / "at")
    assert (names(graph), loads(graph)) == ({"a": 1, "b": 1}, 1)


@REPEATED
def test_a_batch_that_recovery_completed_is_known(spark: Any, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        rows = {"Person": pa.table({"name": ["a"]})}
        with armed(Failpoint.TABLES_COMMITTED), pytest.raises(Injected):
            graph.load(rows, mode="append", batch_id="b#1")
    with omnigraphdb.open(tmp_path / "g") as graph:
        assert next(commit.kind for commit in graph.commits()) == "recovery"
        again = graph.load(rows, mode="append", batch_id="b#1")
        assert again.replayed
        assert again.commit == graph.commits(limit=1)[0]
        assert graph.table("Person").num_rows == 1
        assert_settled(graph)


@REPEATED
def test_writers_of_one_batch_under_one_name_are_told_apart(spark: Any, graph: Graph) -> None:
    """A second type under the id of the first one was taken for a replay, and its rows were lost in silence."""
    write_people = each_batch(graph, lambda tx, batch: tx.append("Person", batch), stream="both")
    write_knows = each_batch(
        graph,
        lambda tx, batch: tx.append("Knows", batch.selectExpr("name as src", "name as dst")),
        stream="both",
    )
    write_people(people(spark, "a"), 0)
    with pytest.raises(BatchConflict, match="into node:Person") as refused:
        write_knows(people(spark, "a"), 0)
    assert "a stream= of its own" in str(refused.value.hint)
    write_people(people(spark, "a"), 0)
    apart = each_batch(graph, write_knows.target.fill, stream="both-knows")
    apart(people(spark, "a"), 0)
    assert (loads(graph), graph.table("Knows").num_rows) == (2, 1)


def test_a_stream_without_a_name_is_refused(graph: Graph) -> None:
    with pytest.raises(UserInputError, match="needs a name that it keeps"):
        each_batch(graph, lambda tx, batch: None, stream="")


@pytest.mark.soak
def test_dates_written_from_spark_are_those_of_the_frame(spark: Any, graph: Graph) -> None:
    frame = spark.createDataFrame([("a", date(1815, 12, 10))], "name string, born date")
    with Transaction(graph, spark) as transaction:
        transaction.append("Person", frame)
    assert graph.table("Person")["born"].to_pylist() == [date(1815, 12, 10)]
