"""What editors show for the calls of the public API: type checkers read this file, nobody runs it.

The comment of a line is the type that both checkers must reveal, without the names of modules.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import duckdb
import pandas
import polars
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import omnigraphdb
from omnigraphdb.policy import PolicyEngine


def opening(graph: omnigraphdb.Graph) -> None:
    reveal_type(omnigraphdb.init("g", "node A {}"))  # Graph
    reveal_type(omnigraphdb.init(Path("g"), Path("a.pg"), exist_ok=True, actor="ada"))  # Graph
    reveal_type(omnigraphdb.open("g", read_only=True))  # Graph
    reveal_type(omnigraphdb.parse_schema("node A {}"))  # Catalog
    reveal_type(omnigraphdb.lint(Path("a.pg"), Path("a.gq")))  # list[Diagnostic]
    reveal_type(omnigraphdb.relocate("g"))  # RelocateReport
    reveal_type(omnigraphdb.discard_recovery("g", "01"))  # DiscardedRecovery
    reveal_type(graph.on("review"))  # Graph
    reveal_type(graph.with_policy(PolicyEngine.load_graph("version: 1")))  # Graph
    reveal_type(graph.with_policy(None))  # Graph
    reveal_type(graph.uri)  # str
    reveal_type(graph.catalog)  # Catalog
    reveal_type(graph.schema_source)  # str
    reveal_type(graph.read_only)  # bool
    with graph as opened:
        reveal_type(opened)  # Graph


def reading(graph: omnigraphdb.Graph, commit: omnigraphdb.Commit, moment: datetime) -> None:
    result = graph.query(Path("a.gq"), "friends", {"who": "Ada"}, branch="review", at=commit)
    reveal_type(result)  # QueryResult
    reveal_type(graph.query("…", {"who": "Ada"}, at=7))  # QueryResult
    reveal_type(result.columns)  # list[str]
    reveal_type(result.rows)  # list[dict[str, Any]]
    reveal_type(result.to_list())  # list[dict[str, Any]]
    reveal_type(result.table)  # Table
    reveal_type(result.to_arrow())  # Table
    reveal_type(result.to_pandas())  # DataFrame
    reveal_type(result.to_polars())  # DataFrame
    reveal_type(result.batches())  # Iterator[RecordBatch]
    reveal_type(len(result))  # int
    reveal_type(result[0])  # dict[str, Any]
    reveal_type(result[1:3])  # QueryResult
    reveal_type([row["friend"] for row in result])  # list[Any]
    reveal_type(result.commit)  # str | None
    stream = graph.stream("…")
    reveal_type(stream)  # QueryStream
    reveal_type(list(stream))  # list[RecordBatch]
    reveal_type(stream.rows())  # Iterator[dict[str, Any]]
    reveal_type(stream.schema)  # Schema
    reveal_type(graph.explain("…", profile=True))  # Explanation
    reveal_type(graph.explain("…").text)  # str
    reveal_type(graph.entity("Person", "Ada", at=moment))  # dict[str, Any] | None
    reveal_type(graph.neighbours("Person", "Ada", direction="out"))  # Neighbourhood
    reveal_type(graph.path("Person", "Ada", "Person", "Bo", by="since"))  # EntityPath | None
    reveal_type(graph.show(height=400))  # ShownGraph
    reveal_type(graph.diff_drawing("main", "review", ops=["insert"]))  # DiffDrawing
    reveal_type(graph.entity("Reading", {"sensor": 7, "at": moment}))  # dict[str, Any] | None
    reveal_type(graph.blob("Letter", "a", "scan").read(offset=3))  # bytes
    reveal_type(graph.project(["Person"], ["Knows"]))  # Projection
    reveal_type(graph.project(["Person"], ["Knows"]).pagerank())  # Scores
    reveal_type(graph.table("Person"))  # Table
    reveal_type(graph.export(types=["Person"]))  # Iterator[dict[str, Any]]
    reveal_type(graph.export_lines())  # Iterator[Buffer]
    reveal_type(graph.export_files("out", format="parquet"))  # ExportReport
    with graph.snapshot(branch="review") as snapshot:
        reveal_type(snapshot)  # Snapshot
        reveal_type(snapshot.query("…"))  # QueryResult
        reveal_type(snapshot.table("Person"))  # Table
        reveal_type(snapshot.scan("Person", ["name"], "age > 3"))  # RecordBatchReader
        reveal_type(snapshot.manifest_version)  # int
        reveal_type(snapshot.list_paths("P", "a", "P", "b"))  # tuple[EntityPath, ...]


def writing(
    graph: omnigraphdb.Graph,
    lines: IO[bytes],
    stream: Iterator[dict[str, Any]],
    arrow: pa.Table,
    reader: pa.RecordBatchReader,
    frame: pandas.DataFrame,
    columns: polars.DataFrame,
    lazy: polars.LazyFrame,
    relation: duckdb.DuckDBPyRelation,
    spark: SparkSession,
    far: DataFrame,
) -> None:
    reveal_type(graph.mutate("…", {"n": "Bo"}, branch="review", actor="ada"))  # MutationResult
    reveal_type(graph.assign("Person.age", ["Ada", "Bo"], arrow["age"]))  # MutationResult
    reveal_type(graph.assign("Person.age", ["Ada", "Bo"], [36, None]))  # MutationResult
    reveal_type(graph.load("people.jsonl", mode="append"))  # LoadResult
    reveal_type(graph.load(Path("people.jsonl"), mode="merge"))  # LoadResult
    reveal_type(graph.load([Path("a.jsonl"), Path("b.jsonl")], mode="merge"))  # LoadResult
    reveal_type(graph.load([{"type": "Person", "data": {}}], mode="append"))  # LoadResult
    reveal_type(graph.load(stream, mode="append"))  # LoadResult
    reveal_type(graph.load(lines, mode="append"))  # LoadResult
    reveal_type(graph.load(columns, type="Person", mode="append"))  # LoadResult
    reveal_type(graph.load({"Person": arrow, "Knows": frame}, mode="append"))  # LoadResult
    reveal_type(graph.load({"Person": reader, "Knows": "knows.csv"}, mode="append"))  # LoadResult
    reveal_type(graph.load({"Person": lazy, "Knows": relation}, mode="append"))  # LoadResult
    reveal_type(graph.load({"Person": far}, mode="append", spark=spark))  # LoadResult
    reveal_type(graph.load(graph.query("…"), type="Person", mode="merge"))  # LoadResult
    loaded = graph.load({"Person": [{"name": "Ada"}]}, mode="append", progress=print)
    reveal_type(loaded.tables)  # Mapping[str, int]
    reveal_type(loaded.total_rows)  # int
    reveal_type(loaded.commit)  # Commit | None


def history(graph: omnigraphdb.Graph) -> None:
    reveal_type(graph.branches(compare=True))  # Branches
    reveal_type(graph.branch("review").ahead)  # int | None
    reveal_type(graph.log_drawing(["main"], limit=3))  # LogDrawing
    reveal_type(graph.describe(at=7))  # Description
    reveal_type(graph.duckdb(at="01"))  # DuckDBPyConnection
    reveal_type(graph.to_networkx(["Person"]))  # MultiDiGraph[tuple[str, str]]
    reveal_type(graph.branch_create("review"))  # Branch
    reveal_type(graph.branch_delete("review"))  # None
    reveal_type(graph.commit("01").created_at)  # datetime
    reveal_type([commit.actor for commit in graph.commits(limit=3)])  # list[str | None]
    diff = graph.diff("main", "review", types=["Person"])
    reveal_type(diff)  # Diff
    reveal_type(diff.stats.inserts)  # int
    reveal_type(next(graph.diff_stream("main", "review")))  # Change
    reveal_type(graph.frames())  # GraphFrames
    reveal_type(graph.snapshot().frames().commit)  # str | None
    print(graph.query_frame(""), graph.snapshot().query_frame(""))
    print(graph.diff_frame("main", "review"), graph.changes_frame())
    reveal_type(graph.changes(limit=10))  # ChangePage
    reveal_type(next(graph.changes_stream()))  # ChangeStream
    reveal_type(graph.commit_changes("01"))  # ChangeBlock
    reveal_type(graph.history("Person", "Ada"))  # EntityHistory
    reveal_type(graph.snapshot().history("Person", "Ada").more)  # bool
    reveal_type(graph.baseline("all.jsonl"))  # Baseline
    reveal_type(graph.change_page(start="beginning"))  # FeedPage
    reveal_type(graph.diff_page("main", "review"))  # DiffPage
    reveal_type(graph.baseline_stream())  # BaselineStream
    reveal_type(graph.tag("v1", "01"))  # Tag
    reveal_type(graph.tags())  # list[Tag]
    reveal_type(graph.tag_delete("v1"))  # None
    reveal_type(graph.guard)  # Guard
    reveal_type(graph.policy())  # KeptPolicy | None
    reveal_type(graph.policy(1))  # KeptPolicy | None
    reveal_type(graph.set_policy("version: 1", actor="ada"))  # KeptPolicy
    reveal_type(graph.operation("order-17"))  # OperationStatus
    reveal_type(graph.stored_queries("queries"))  # StoredQueries
    merged = graph.merge("review", dry_run=True)
    reveal_type(merged)  # MergeResult
    reveal_type(merged.tables)  # Mapping[str, tuple[int, int, int]]
    reveal_type(merged.conflicts)  # tuple[Conflict, ...]


def failing(graph: omnigraphdb.Graph) -> None:
    try:
        graph.merge("review")
    except omnigraphdb.MergeConflicts as error:
        reveal_type(error.conflicts[0].row_id)  # str | None
        reveal_type(error.kind)  # str
        reveal_type(error.hint)  # str | None
        reveal_type(error.details)  # dict[str, Any]


def keeping(graph: omnigraphdb.Graph) -> None:
    reveal_type(graph.schema_plan("node A {}"))  # SchemaPlan
    reveal_type(graph.schema_from({"City": arrow}))  # SchemaProposal
    reveal_type(graph.schema_apply(Path("a.pg")))  # SchemaApplyResult
    reveal_type(graph.ensure_indices())  # IndexReport
    reveal_type(graph.index_status().indexes[0].rows)  # int
    reveal_type(graph.optimize())  # OptimizeReport
    reveal_type(graph.cleanup(older_than=timedelta(days=7)))  # CleanupReport
    reveal_type(graph.cleanup_preview())  # CleanupReport
    reveal_type(graph.repair())  # RepairReport
    reveal_type(graph.relocate())  # RelocateReport
    reveal_type(graph.refresh())  # None
    reveal_type(graph.doctor(deep=True))  # Examination
    reveal_type(graph.doctor()[0].message)  # str
    reveal_type(graph.recoveries())  # list[RecoveryAudit]
    reveal_type(graph.jobs())  # list[Job]
    with omnigraphdb.Cancellation(seconds=1.5) as guard:
        reveal_type(guard)  # Cancellation
        reveal_type(guard.cancel())  # None
        reveal_type(guard.is_over)  # bool
    reveal_type(graph.pending_recoveries())  # list[RecoverySidecar]
    reveal_type(graph.discard_recovery("01"))  # DiscardedRecovery
    reveal_type(graph.close())  # None
