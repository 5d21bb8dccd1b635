"""The handle users hold: every verb of a graph, on any branch, now or in the past.

A verb imports its own modules when it is called, so that a process that runs one query starts sooner.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import pyarrow as pa

from omnigraph.api.arguments import (
    Reference,
    age_of,
    count_of,
    flag_of,
    listener_of,
    names_of,
    number_column,
    one_or_names,
    path_of,
    point_of,
    reference_of,
    rules_of,
    text_column,
    text_of,
    wanted_of,
)
from omnigraph.api.guard import Guard, Permission
from omnigraph.api.query_results import Explanation, QueryResult, QueryStream
from omnigraph.api.results import (
    Commit,
    Commits,
    DiscardedRecovery,
    KeptPolicy,
    LoadResult,
    MutationResult,
    OperationStatus,
    RecoveryAudit,
    RecoverySidecar,
    SchemaApplyResult,
    Tag,
)
from omnigraph.api.snapshot import Snapshot, name_and_params
from omnigraph.api.texts import schema_of, source_of
from omnigraph.catalog.diff.steps import SchemaPlan
from omnigraph.catalog.model import Catalog
from omnigraph.engine.jobs import Job, JobKind
from omnigraph.engine.session.engine import Engine
from omnigraph.engine.session.open import reopen_graph
from omnigraph.errors import HistoryReclaimed, NotFound, UserInputError, warn_caller
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId
from omnigraph.limits import HEAD_READS_MAX
from omnigraph.manifest.names import actor_name, branch_name, commit_message, new_branch_name
from omnigraph.manifest.operations import idempotency_key as idempotency_key_of
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import find_commit
from omnigraph.manifest.view import View

if TYPE_CHECKING:
    import duckdb
    import networkx

    from omnigraph.api.analytics import Projection
    from omnigraph.api.blobs import Blob
    from omnigraph.api.branches import Branch
    from omnigraph.api.comparisons import (
        Baseline,
        BaselineStream,
        Change,
        ChangeBlock,
        ChangePage,
        ChangeStream,
        Diff,
        DiffPage,
        EntityHistory,
        FeedPage,
        MergeResult,
    )
    from omnigraph.api.description import Description
    from omnigraph.api.drawings import DiffDrawing
    from omnigraph.api.frames import GraphFrames
    from omnigraph.api.log_drawings import LogDrawing
    from omnigraph.api.neighbours import Neighbourhood
    from omnigraph.api.paths import EntityPath
    from omnigraph.api.reports import (
        CleanupReport,
        Examination,
        ExportReport,
        IndexReport,
        OptimizeReport,
        RelocateReport,
        RepairReport,
    )
    from omnigraph.api.showing import ShownGraph
    from omnigraph.api.spark_analytics import SparkProjection
    from omnigraph.api.stored_queries import StoredQueries
    from omnigraph.api.types import (
        AnyFrame,
        EdgeDirection,
        EntityId,
        FileFormat,
        Frame,
        FrameLibrary,
        Kinds,
        MergeGranularity,
        Mode,
        NoSparkAsked,
        Ops,
        Source,
        Spark,
        SparkAsked,
        SparkChoice,
    )
    from omnigraph.engine.history.feed import FeedWorker
    from omnigraph.engine.schema.infer import SchemaProposal
    from omnigraph.pipeline.location import StoreLocation
    from omnigraph.pipeline.progress import Tell
    from omnigraph.policy import PolicyChecker

_Found = TypeVar("_Found")


class Graph:
    """An opened graph; safe to share between threads.

    Example:
        >>> graph = omnigraph.open("friends.omni", actor="ada")
        >>> graph
        <Graph ...friends.omni on main>
        >>> print(graph.schema_source)
        <BLANKLINE>
            node Person { name: String @key  age: I32? }
            edge Knows: Person -> Person { since: Date? }
        <BLANKLINE>
    """

    def __init__(
        self,
        engine: Engine,
        *,
        actor: str | None = None,
        branch: str = MAIN,
        guard: "Guard | PolicyChecker | None" = None,
    ) -> None:
        self._opened = engine
        self._actor = actor
        self._guard = guard if isinstance(guard, Guard) else Guard(engine, guard)
        self._branch = branch

    @property
    def _engine(self) -> Engine:
        return self._opened.require_open()

    @property
    def uri(self) -> str:
        """The location of the graph."""
        return self._opened.uri

    @property
    def location(self) -> "StoreLocation":
        """The uri and storage options, as a value with which another process opens the graph."""
        return self._opened.location

    @property
    def catalog(self) -> Catalog:
        """The types of the schema."""
        return self._engine.contracts.current().catalog

    @property
    def schema_source(self) -> str:
        """The schema text."""
        return self._engine.contracts.current().source

    @property
    def read_only(self) -> bool:
        """Whether writers are refused."""
        return self._opened.read_only

    def on(self, branch: str) -> "Graph":
        """The same graph with another default branch; closing either closes both.

        Example:
            >>> review = graph.on("review")
            >>> review.query("query q() { match { $p: Person } return { count($p) as people } }").rows
            [{'people': 3}]
        """
        named = branch_name(branch, "a handle on a branch")
        return Graph(self._engine, actor=self._actor, branch=named, guard=self._guard)

    # ---- reading

    def snapshot(self, *, branch: str | None = None, at: Reference | None = None) -> Snapshot:
        """Pin the visible state, now or at a point in history.

        Example:
            >>> snapshot = graph.snapshot(branch="review")
            >>> snapshot.tables()
            {'edge:Knows': 1, 'node:Person': 3}
        """
        engine, target = self._engine, self._target(branch, "read")
        if at is None:
            return Snapshot(engine, engine.view(target))
        view = engine.view(target, point_of(at))
        return Snapshot(engine, view, view.commit)

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        spark: "Spark" = None,
    ) -> QueryResult:
        """Run a read: `name` picks one of several queries; a mapping in its place is `params`.

        With `spark`, a session or True, Spark joins the tables: for graphs larger than the memory of this machine.

        Example:
            >>> older = "query q($age: I32) { match { $p: Person  $p.age > $age } return { $p.name as name, $p.age as age } }"
            >>> graph.query(older, {"age": 30}).rows
            [{'name': 'Ada', 'age': 36}]
        """
        try:
            return self.snapshot(branch=branch, at=at).query(source, name, params, spark=spark)
        except HistoryReclaimed:
            if at is not None:
                raise
        return self._read(branch, at, lambda seen: seen.query(source, name, params, spark=spark))

    def query_frame(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        spark: "Spark" = None,
        engine: "FrameLibrary | None" = None,
    ) -> "AnyFrame":
        """Run a read and give its rows as a frame.

        A session as `spark` gives a Spark DataFrame whose rows never come to this process; `engine` names another
        library: `arrow` (as without both), `polars` or `pandas`.

        Example:
            >>> text = "query q() { match { $p: Person  $p.age > 30 } return { $p.name as name } }"
            >>> graph.query_frame(text, engine="polars")["name"].to_list()
            ['Ada']
        """
        seen = self.snapshot(branch=branch, at=at)
        return seen.query_frame(source, name, params, spark=spark, engine=engine)

    def frames(
        self,
        spark: "Spark" = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        engine: "FrameLibrary | None" = None,
    ) -> "GraphFrames":
        """The tables of one pinned snapshot as frames: `vertices`, `edges`, and one for each type by its name.

        Example:
            >>> frames = graph.frames(engine="polars")
            >>> frames.vertices["type"].unique().to_list(), frames["Knows"].height
            (['Person'], 1)
        """
        return self.snapshot(branch=branch, at=at).frames(spark, engine=engine)

    def _read(
        self, branch: str | None, at: Reference | None, read: Callable[[Snapshot], _Found]
    ) -> _Found:
        """Read the head; read the new head if a writer replaced it and cleanup removed it meanwhile."""
        for _ in range(HEAD_READS_MAX - 1):
            try:
                return read(self.snapshot(branch=branch, at=at))
            except HistoryReclaimed:
                if at is not None:
                    raise
        return read(self.snapshot(branch=branch, at=at))

    def stream(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> QueryStream:
        """Run a read that computes its rows while they are consumed: Arrow batches, once.

        Example:
            >>> for batch in graph.stream("query q() { match { $p: Person } return { $p.name } }"):
            ...     batch.num_rows
            3
        """
        return self.snapshot(branch=branch, at=at).stream(source, name, params)

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        profile: bool = False,
    ) -> Explanation:
        """Show how a query runs: filters, indexes, memory; with `profile` run a read and show rows and time.

        Example:
            >>> print(graph.explain('query q() { match { $p: Person { name: "Ada" } } return { $p.age } }'))
            Project...
        """
        return self._read(
            branch, at, lambda seen: seen.explain(source, name, params, profile=profile)
        )

    def entity(
        self,
        type_name: str,
        id: "EntityId",
        *,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> dict[str, Any] | None:
        """One entity by its id or the value of its key, or None; a key of several properties is a mapping.

        Example:
            >>> graph.entity("Person", "Ada")["age"]
            36
            >>> graph.entity("Person", "Nobody") is None
            True
        """
        return self._read(branch, at, lambda seen: seen.entity(type_name, id))

    def history(
        self,
        type_name: str,
        id: "EntityId",
        *,
        branch: str | None = None,
        at: Reference | None = None,
        limit: int = 100,
    ) -> "EntityHistory":
        """The commits that changed one entity, the newest first: who, when, how, and through which merges.

        About one row is read for each change. What cleanup removed, and branches that are gone after a merge, are told as `gaps`.

        Example:
            >>> [(one.commit.kind.value, str(one.change.op)) for one in graph.history("Person", "Ada")]
            [('load', 'insert')]
        """
        return self._read(branch, at, lambda seen: seen.history(type_name, id, limit=limit))

    def neighbours(
        self,
        type_name: str,
        id: "EntityId",
        *,
        edge: str | None = None,
        direction: "EdgeDirection" = "both",
        limit: int = 50,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> "Neighbourhood":
        """The edges of a node and the nodes they lead to, at most `limit` of each edge type and direction.

        Example:
            >>> sorted(other for _, other in graph.neighbours("Person", "Ada", direction="out").nodes)
            ['Ada', 'Bo']
        """
        return self._read(
            branch,
            at,
            lambda seen: seen.neighbours(
                type_name, id, edge=edge, direction=direction, limit=limit
            ),
        )

    def path(
        self,
        from_type: str,
        from_id: "EntityId",
        to_type: str,
        to_id: "EntityId",
        *,
        edges: Sequence[str] | None = None,
        by: str | None = None,
        undirected: bool = False,
        hops_max: int = 8,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> "EntityPath | None":
        """The shortest path between two nodes, or the cheapest by a property of the edges; None if there is none.

        Without `edges` every edge type that connects the type with itself is walked.

        Example:
            >>> path = graph.path("Person", "Ada", "Person", "Bo", edges=["Knows"])
            >>> path.nodes, path.cost
            (('Ada', 'Bo'), 1)
        """
        return self._read(
            branch,
            at,
            lambda seen: seen.path(
                *(from_type, from_id, to_type, to_id),
                edges=edges,
                by=by,
                undirected=undirected,
                hops_max=hops_max,
            ),
        )

    def blob(
        self,
        type_name: str,
        id: str,
        property: str,
        *,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> "Blob":
        """One Blob value of one entity: its size, and its bytes when they are read.

        Example:
            >>> files = omnigraph.init("files.omni", "node File { name: String @key  body: Blob? }")
            >>> hello = {"type": "File", "data": {"name": "a.txt", "body": "base64:aGVsbG8="}}
            >>> done = files.load([hello], mode="append")
            >>> files.blob("File", "a.txt", "body").read(offset=1, length=3)
            b'ell'
        """
        return self._read(branch, at, lambda seen: seen.blob(type_name, id, property))

    def stored_queries(self, directory: str | os.PathLike[str]) -> "StoredQueries":
        """Read the queries of a folder of `.gq` files, and check them against the schema.

        Example:
            >>> import pathlib
            >>> pathlib.Path("queries").mkdir()
            >>> written = pathlib.Path("queries/friends.gq").write_text(friends)
            >>> stored = graph.stored_queries("queries")
            >>> [query.name for query in stored]
            ['q']
            >>> stored.query("q", {"who": "Ada"}).rows
            [{'friend': 'Bo'}]
        """
        from omnigraph.api.stored_queries import read_stored_queries

        folder = Path(path_of("directory", directory))
        return read_stored_queries(folder, self)

    def table(
        self, type_name: str, *, branch: str | None = None, at: Reference | None = None
    ) -> pa.Table:
        """A node or edge table as Arrow.

        Example:
            >>> graph.table("Person").num_rows
            3
        """
        return self._read(branch, at, lambda seen: seen.table(type_name))

    def export(
        self,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Every entity in the load format: nodes before edges, by id.

        Example:
            >>> for record in graph.export(types=["Knows"]):
            ...     record["edge"], record["from"], record["to"]
            ('Knows', 'Ada', 'Bo')
        """
        return self.snapshot(branch=branch, at=at).export(types)

    def export_lines(
        self,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        types: Sequence[str] | None = None,
    ) -> Iterator[pa.Buffer]:
        """The records of `export` as UTF-8 JSON lines, many at a time: the fast way to a file or a socket.

        Example:
            >>> with open("friends.jsonl", "wb") as file:
            ...     file.writelines(graph.export_lines())
        """
        return self.snapshot(branch=branch, at=at).export_lines(types)

    def export_files(
        self,
        directory: str | os.PathLike[str],
        *,
        format: "FileFormat" = "jsonl",
        branch: str | None = None,
        at: Reference | None = None,
        types: Sequence[str] | None = None,
        spark: "Spark" = None,
        progress: "Tell | None" = None,
    ) -> "ExportReport":
        """Write part files, `jsonl` or `parquet`, into a new directory; several at a time, or by Spark's executors.

        `load` reads a directory of JSON lines back as it is, and Parquet files type by type.

        Example:
            >>> report = graph.export_files("friends-parquet", format="parquet")
            >>> sum(part.rows for part in report.parts)
            4
        """
        from omnigraph.api.runners import runner_of
        from omnigraph.engine.history.export_files import ExportReport

        snapshot = self.snapshot(branch=branch, at=at)
        place = path_of("directory", directory)
        with self._job(JobKind.EXPORT, snapshot.branch, self._actor, progress) as tell:
            runner = runner_of(self._engine, spark, tell)
            parts = snapshot.export_files(place, format, types, runner)
        return ExportReport(uri=self.uri, commit=snapshot.commit, engine=runner.engine, parts=parts)

    @overload
    def project(
        self,
        nodes: Iterable[str] | None = None,
        edges: "Iterable[str] | Mapping[str, Mapping[str, Any]] | None" = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        seconds_max: float | None = None,
        spark: "SparkAsked",
    ) -> "SparkProjection": ...

    @overload
    def project(
        self,
        nodes: Iterable[str] | None = None,
        edges: "Iterable[str] | Mapping[str, Mapping[str, Any]] | None" = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        seconds_max: float | None = None,
        spark: "NoSparkAsked" = "auto",
    ) -> "Projection": ...

    def project(
        self,
        nodes: Iterable[str] | None = None,
        edges: "Iterable[str] | Mapping[str, Mapping[str, Any]] | None" = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
        seconds_max: float | None = None,
        spark: "SparkChoice" = "auto",
    ) -> "Projection | SparkProjection":
        """Project nodes and edges of chosen types at one commit, for algorithms: PageRank, components, distances.

        `edges` lists edge types, or maps each to `{"weight": property, "undirected": True}`; without `nodes` the types at
        which the edges end are taken. No algorithm runs longer than `seconds_max`. With a Spark session, or past the setting
        `projection_bytes` where Spark is installed, nodes and edges stay on executors, and degrees, PageRank, components,
        label propagation, triangles and hops run there with the same methods.

        Example:
            >>> people = graph.project(nodes=["Person"], edges={"Knows": {"undirected": True}})
            >>> round(sum(one["value"] for one in people.pagerank().top(100)), 6)
            1.0
        """
        from omnigraph.api.analytics import Projection
        from omnigraph.api.projecting import choose_spark, plan_projection

        engine, target = self._engine, self._target(branch, "read")
        plan = plan_projection(engine, engine.view(target, point_of(at)), nodes, edges)
        chosen, reason = choose_spark(engine, plan, spark)
        if chosen is False:
            return Projection(self, engine, plan, reason=reason, seconds_max=seconds_max)
        from omnigraph.api.spark_analytics import SparkProjection

        return SparkProjection(
            self, engine, plan, spark=chosen, reason=reason, seconds_max=seconds_max
        )

    def duckdb(
        self, *, branch: str | None = None, at: Reference | None = None
    ) -> "duckdb.DuckDBPyConnection":
        """Open a DuckDB connection with one view for each type: `node.Person`, `edge.Knows`, or `Person` and `Knows`.

        The views show the graph as it is now, or was at `at`, for as long as the connection is open; Lance reads the
        columns that a statement names and evaluates the filters that DuckDB passes on.

        Example:
            >>> with graph.duckdb() as connection:
            ...     connection.sql("select count(*) from Person where name = 'Ada'").fetchall()
            [(1,)]
        """
        return self._read(branch, at, Snapshot.duckdb)

    def to_networkx(
        self,
        types: Sequence[str] | None = None,
        *,
        branch: str | None = None,
        at: Reference | None = None,
    ) -> "networkx.MultiDiGraph[tuple[str, str]]":
        """A networkx graph of all types, or of some: nodes are `(type, id)`, edges have their id as key.

        Attributes are `type`, `id` and the properties that are not NULL; blobs are left out. The ends of an edge are
        nodes even if their type is not among `types`.

        Example:
            >>> network = graph.to_networkx()
            >>> network.has_edge(("Person", "Ada"), ("Person", "Bo"))
            True
        """
        return self._read(branch, at, lambda seen: seen.to_networkx(types))

    def describe(self, *, branch: str | None = None, at: Reference | None = None) -> "Description":
        """What the graph holds: types with rows, sizes and indexes, branches, newest commits, pending operations.

        Opens every table once and reads no rows; print the result, or look at it in a notebook.

        Example:
            >>> found = graph.describe()
            >>> found.branch, [(one.kind, one.name) for one in found.types]
            ('main', [('edge', 'Knows'), ('node', 'Person')])
        """
        return self._read(branch, at, Snapshot.describe)

    # ---- writing

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
        if_commit: str | Commit | None = None,
        dry_run: bool = False,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation: one commit for all of its statements, or nothing.

        `dry_run` counts what would change, checks every rule and writes nothing. The commit stores `message`. The same
        request with the same `idempotency_key` is carried out once: repeated, it returns its first result, `replayed`.

        Example:
            >>> grow = "query grow($who: String, $age: I32) { update Person set { age: $age } where name = $who }"
            >>> graph.mutate(grow, {"who": "Bo", "age": 41}, actor="ada").affected_nodes
            1
        """
        from omnigraph.engine.write.mutate import mutate

        chosen, values = name_and_params(name, params)
        target = self._target(branch, "mutate")
        by = self._authorize("change", actor, branch=target)
        return mutate(
            self._engine,
            source_of(source),
            chosen,
            values,
            branch=target,
            actor=by.actor,
            allowed_by=by.policy,
            if_commit=None if if_commit is None else CommitId(str(if_commit)),
            dry_run=flag_of("dry_run", dry_run),
            message=commit_message(message),
            key=_key(idempotency_key),
        )

    def load(
        self,
        source: "Source",
        *,
        mode: "Mode",
        type: str | None = None,
        branch: str | None = None,
        from_branch: str | None = None,
        actor: str | None = None,
        allow_empty: bool = False,
        dry_run: bool = False,
        spark: "SparkChoice" = "auto",
        progress: "Tell | None" = None,
        batch_id: str | None = None,
        append_only: Sequence[str] = (),
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: str | os.PathLike[str] | None = None,
        if_commit: str | Commit | None = None,
        create_missing: str | Sequence[str] = (),
    ) -> LoadResult:
        """Load records or frames in one commit; `type` names the type of a single frame.

        `dry_run` reads and checks everything and writes nothing. `spark` is a session, True, or False; `auto` asks
        Spark for large inputs and Spark DataFrames, where it is installed. A `batch_id` is loaded once per branch:
        bringing it again writes nothing. `progress` is called with a `Progress` when a phase begins, as it goes on and
        when it is done; what it raises before the commit stops the load. Types in `append_only` must bring new ids while the
        others of a merge replace rows. `rejects` names a `.jsonl`, `.csv` or `.parquet` file that receives every problem of a
        load that is refused, or is `"frame"`: the error then has them as the Arrow table `rejects`. With `if_commit` the load is
        refused unless that commit is the head of the branch. `create_missing` names node types whose nodes an id alone can
        make: an edge may then end at an id that is nowhere, and the load creates that node; `created` of the result counts
        them.

        Example:
            >>> graph.load([{"type": "Person", "data": {"name": "Ed", "age": 7}}], mode="append").tables
            {'node:Person': 1}
            >>> import pyarrow as pa
            >>> graph.load(pa.table({"name": ["Ed", "Flo"], "age": [8, 9]}), type="Person", mode="merge").total_rows
            2
        """
        from omnigraph.api.loading import chooser
        from omnigraph.engine.write.load import load
        from omnigraph.pipeline.rejects import parse_rejects

        engine = self._engine
        if isinstance(source, str):
            source = path_of("source", source)
        target, base = self._load_target(branch, from_branch)
        by = self._authorize_load(actor, target, base)
        if append_only:
            # Only a load in steps knows modes per type, and steps need scratch files.
            engine.require_writable("load with append_only")
        with self._job(JobKind.LOAD, target, by.actor, progress) as tell:
            return load(
                engine,
                source if type is None else {text_of("type", type): source},
                mode=text_of("mode", mode),
                branch=target,
                from_branch=base,
                actor=by.actor,
                allowed_by=by.policy,
                allow_empty=allow_empty,
                dry_run=flag_of("dry_run", dry_run),
                choose=chooser(engine, spark, tell, in_steps=bool(append_only)),
                batch_id=None if batch_id is None else text_of("batch_id", batch_id),
                strict=names_of("append_only", append_only) or (),
                tell=tell,
                message=commit_message(message),
                key=_key(idempotency_key),
                rejects=parse_rejects(None if rejects is None else path_of("rejects", rejects)),
                if_commit=None if if_commit is None else CommitId(str(if_commit)),
                create=one_or_names("create_missing", create_missing),
            )

    def assign(
        self,
        target: str,
        ids: Iterable[str],
        values: Iterable[int | float | None],
        *,
        branch: str | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Set one number property, `Person.age`, of the nodes with these ids: one commit, or nothing.

        Ids that do not exist are left out; values that are there already are left alone.

        Example:
            >>> graph.assign("Person.age", ["Ada", "nobody"], [36, 1]).affected_nodes
            0
        """
        from omnigraph.engine.write.assign import assign_values

        type_name, _, property_name = text_of("target", target).partition(".")
        into = self._target(branch, "assign")
        by = self._authorize("change", actor, branch=into)
        return assign_values(
            self._engine,
            type_name,
            property_name,
            text_column("ids", ids),
            number_column("values", values),
            branch=into,
            actor=by.actor,
            allowed_by=by.policy,
            message=commit_message(message),
        )

    # ---- schema

    def schema_plan(self, schema: str | Path, *, allow_data_loss: bool = False) -> SchemaPlan:
        """Plan a schema change; changes nothing.

        Example:
            >>> wanted = graph.schema_source.replace("age: I32?", "age: I32?  email: String?")
            >>> [str(step.kind) for step in graph.schema_plan(wanted).steps]
            ['add_property']
        """
        from omnigraph.engine.schema.apply import plan_schema

        text = schema_of(schema)
        return plan_schema(
            self._engine, text, allow_data_loss=flag_of("allow_data_loss", allow_data_loss)
        )

    def schema_from(
        self,
        source: "str | Path | Iterable[str | Path] | Mapping[str, Frame]",
        *,
        rows_max: int = 10_000,
    ) -> "SchemaProposal":
        """Propose the schema of this graph with types for new data, for review; changes nothing.

        `source` is what `omnigraph.infer_schema` takes; types that the graph has are left as they are, and edges may end at
        their nodes. The proposal goes to `schema_apply`.

        Example:
            >>> import pyarrow as pa
            >>> cities = {"City": pa.table({"name": ["Oslo", "Turin"], "people": [7, 8]})}
            >>> print(graph.schema_from(cities).source.removeprefix(graph.schema_source).strip())
            node City {
              name: String @key
              people: I64
            }
        """
        from omnigraph.api.texts import propose_schema

        with self.snapshot() as snapshot:
            return propose_schema(
                source,
                rows_max,
                schema=self.schema_source,
                read_ids=lambda name: snapshot.table(name, ["id"])["id"],
                known=self.catalog,
            )

    def schema_apply(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        spark: "SparkChoice" = "auto",
        progress: "Tell | None" = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | Commit | None = None,
    ) -> SchemaApplyResult:
        """Change the schema in one commit; `allow_data_loss` removes dropped types and properties from history too.

        Only then rows are written anew. With `if_commit` the change is refused unless that commit is the head of main. `spark` is a session, True, or False; `auto` asks for Spark past the small-work bound.

        Example:
            >>> pets = omnigraph.open("pets.omni")
            >>> pets.schema_apply("node Pet { name: String @key  legs: U32  born: Date? }").step_count
            1
        """
        from omnigraph.api.loading import chooser
        from omnigraph.engine.schema.apply import apply_schema

        text, by = schema_of(schema), self._authorize("schema_apply", actor, target=MAIN)
        with self._job(JobKind.SCHEMA_APPLY, MAIN, by.actor, progress) as tell:
            return apply_schema(
                self._engine,
                text,
                allow_data_loss=flag_of("allow_data_loss", allow_data_loss),
                actor=by.actor,
                allowed_by=by.policy,
                tell=tell,
                message=commit_message(message),
                key=_key(idempotency_key),
                choose=chooser(self._engine, spark, tell),
                if_commit=None if if_commit is None else CommitId(str(if_commit)),
            )

    # ---- branches and history

    def branches(self, *, compare: bool = False) -> "list[Branch]":
        """Main, then the others by name; with `compare`, counts of commits `ahead` and `behind` the parent.

        Without `compare` only heads are read, not histories.

        Example:
            >>> [(branch.name, branch.parent) for branch in graph.branches()]
            [('main', None), ('review', 'main')]
        """
        from omnigraph.api.branches import list_shown

        return list_shown(self._engine.manifest, compare=flag_of("compare", compare))

    def branch(self, name: str) -> "Branch":
        """One branch, with counts of commits `ahead` and `behind` its parent.

        Example:
            >>> graph.branch("review").parent
            'main'
        """
        from omnigraph.api.branches import find_shown

        return find_shown(self._engine.manifest, branch_name(name, "branch"))

    def branch_create(
        self,
        name: str,
        *,
        from_branch: str = MAIN,
        at: Reference | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> "Branch":
        """Create a branch at the head of another one; nothing is copied.

        Example:
            >>> graph.branch_create("trial").name
            'trial'
        """
        from omnigraph.api.branches import show_made, show_new
        from omnigraph.engine import branching

        target = new_branch_name(name, "branch create")
        source = branch_name(from_branch, "branch create")
        by = self._authorize("branch_create", actor, branch=source, target=target).actor
        key = _key(idempotency_key)
        if key is not None:
            done = branching.create_once(self._engine, name, from_branch, point_of(at), by, key)
            return show_made(done.receipt, replayed=done.replayed)
        # The branch is made from exactly this state, so its head is known without reading it.
        made = branching.create(self._engine, name, from_branch, point_of(at), actor=by)
        return show_new(*made)

    def branch_delete(
        self,
        name: str,
        *,
        merged_into: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """Delete a branch that no other branch depends on.

        With `merged_into`, a branch that has commits which that branch has not is refused, and nothing is deleted.

        Example:
            >>> graph.branch_delete("trial")
        """
        from omnigraph.engine import branching

        target = branch_name(name, "branch delete")
        by = self._authorize("branch_delete", actor, target=target).actor
        key, bound_to = _key(idempotency_key), BranchName(self._branch)
        kept = None if merged_into is None else branch_name(merged_into, "branch delete")
        if key is None:
            branching.delete(self._engine, name, bound_to, actor=by, merged_into=kept)
        else:
            branching.delete_once(self._engine, name, bound_to, by, key, kept)

    def commits(
        self,
        *,
        branch: str | None = None,
        limit: int | None = None,
        actor: str | None = None,
        since: str | datetime | Commit | None = None,
        all: bool = False,
    ) -> list[Commit]:
        """Commits visible on a branch, newest first; `all` adds commits of other branches that were merged.

        Example:
            >>> [(str(commit.kind), commit.actor) for commit in graph.commits(limit=2)]
            [('load', 'ada'), ('load', 'ada')]
        """
        target = self._target(branch, "commits")
        state = self._engine.manifest.current(target)
        wanted = count_of("limit", limit)
        with_merged = flag_of("all", all)
        if wanted and actor is None and since is None and not with_merged:
            return Commits(map(Commit.of, state.newest(wanted).listed(limit=wanted)))
        lineage = state.lineage.with_merged(state.merged.commits) if with_merged else state.lineage
        start = since if isinstance(since, datetime) or since is None else self._commit_id(since)
        by = None if actor is None else text_of("actor", actor)
        listed = lineage.listed(actor=by, since=start, limit=wanted)
        return Commits(map(Commit.of, listed))

    def log_drawing(
        self,
        branches: Sequence[str] | None = None,
        *,
        limit: int = 100,
        before: str | Commit | None = None,
        counts: bool = False,
        shows: Callable[[str], bool] | None = None,
    ) -> "LogDrawing":
        """The commits of branches and of what was merged into them, newest first, each with the lane of a drawing.

        `before` is the last commit of the page before. With `counts` the first 25 commits of the page say how much they
        changed. `shows` says which branches are shown, all by default.

        Example:
            >>> page = graph.log_drawing(["main"], limit=2)
            >>> [commit["lane"] for commit in page.commits], page.next == page.commits[-1]["graph_commit_id"]
            ([0, 0], True)
        """
        from omnigraph.api.log_drawings import draw_log

        named = names_of("branches", branches)
        size = count_of("limit", limit, least=1) or 1
        start = None if before is None else str(before)
        return draw_log(
            self._engine,
            named,
            size,
            start,
            listener_of("shows", shows) or _show_all,
            counts=flag_of("counts", counts),
        )

    def _commit_id(self, name: str | Commit) -> CommitId:
        """The commit that a tag names; any other text as it is."""
        from omnigraph.manifest.tags import find_tag

        tag = find_tag(self._engine.manifest.current(MAIN), str(name))
        return CommitId(str(name) if tag is None else str(tag.commit))

    def commit(self, id: str | Commit) -> Commit:
        """One commit of any branch, by id, unique prefix or tag.

        Example:
            >>> newest = graph.commits()[0]
            >>> graph.commit(newest.id).tables
            ('node:Person',)
        """
        return Commit.of(find_commit(self._engine.manifest, text_of("id", _name_of(id))))

    def operation(
        self, key: str, *, branch: str | None = None, actor: str | None = None
    ) -> OperationStatus:
        """Say what became of the request of an idempotency key: `landed`, `not_landed` or `undecided`.

        Keys are per branch and actor; those of `branch_create` and `branch_delete` are on main.

        Example:
            >>> nobody = 'query q() { update Person set { age: 1 } where name = "nobody" }'
            >>> done = graph.mutate(nobody, idempotency_key="request-17")
            >>> graph.mutate(nobody, idempotency_key="request-17").replayed
            True
            >>> str(graph.operation("request-17").state)
            'landed'
        """
        from omnigraph.engine.keyed import find_status

        target = self._target(branch, "operation")
        by = actor_name(actor) or self._actor
        return find_status(self._engine, target, by, idempotency_key_of(key))

    # ---- tags

    def tag(
        self,
        name: str,
        at: Reference | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Name a commit, the head of a branch by default; the name stands wherever a commit does, and cleanup keeps its state.

        Example:
            >>> tagged = graph.tag("before-review", graph.commits()[0])
            >>> [tag.name for tag in graph.tags()]
            ['before-review']
        """
        from omnigraph.engine.tagging import create_tag

        target = self._target(branch, "tag create")
        by = self._authorize("change", actor, branch=target).actor
        return Tag.of(create_tag(self._engine, name, point_of(at), target, by))

    def tags(self) -> list[Tag]:
        """Every tag, by name.

        Example:
            >>> graph.tags()[0].commit == graph.commit("before-review").id
            True
        """
        from omnigraph.manifest.tags import list_tags

        return [Tag.of(tag) for tag in list_tags(self._engine.manifest.current(MAIN))]

    def tag_delete(self, name: str, *, actor: str | None = None) -> None:
        """Free the name of a tag; its commit stays, until cleanup.

        Example:
            >>> graph.tag_delete("before-review")
        """
        from omnigraph.engine.tagging import delete_tag

        by = self._authorize("change", actor, branch=MAIN).actor
        delete_tag(self._engine, text_of("name", name), by)

    # ---- merge, diff, changes

    def merge(
        self,
        source: "str | Branch",
        *,
        into: str = MAIN,
        granularity: "MergeGranularity" = "row",
        actor: str | None = None,
        dry_run: bool = False,
        allow_older_base: bool = False,
        spark: "SparkChoice" = "auto",
        progress: "Tell | None" = None,
        message: str | None = None,
        idempotency_key: str | None = None,
        rejects: str | os.PathLike[str] | None = None,
        if_commit: str | Commit | None = None,
    ) -> "MergeResult":
        """Apply the changes of one branch to another, in one commit; on conflicts nothing is written and all of them are raised together.

        With `if_commit` the merge is refused unless that commit is the head of the target. When the common history cannot be read any more, the merge is refused unless `allow_older_base`.
        A large merge is done in steps: workers compare, check and write rows. `spark` is a session, True, or False; `auto`
        asks for Spark past the small-work bound. Such a merge raises the first 1000 conflicts and the total; `rejects`
        names a file (`.jsonl`) that gets all conflicts, or is `"frame"`: the error then has them as the Arrow table `rejects`.

        Example:
            >>> done = graph.mutate('query q() { insert Person { name: "Gus" } }', branch="review")
            >>> merged = graph.merge("review")
            >>> str(merged.outcome), merged.tables["node:Person"]
            ('merged', (1, 0, 0))
        """
        from omnigraph.api.loading import chooser
        from omnigraph.engine.merge.conflicts import parse_conflict_file, raise_with_table
        from omnigraph.engine.merge.merge import merge

        name = text_of("source", _name_of(source))
        by = self._authorize_merge(actor, name, into, dry_run=dry_run)
        keeper = parse_conflict_file(None if rejects is None else path_of("rejects", rejects))
        job = self._job(JobKind.MERGE, into, by.actor, progress)
        with raise_with_table(keeper), job as tell:
            return merge(
                self._engine,
                name,
                into,
                granularity=granularity,
                actor=by.actor,
                allowed_by=by.policy,
                dry_run=flag_of("dry_run", dry_run),
                allow_older_base=flag_of("allow_older_base", allow_older_base),
                choose=chooser(self._engine, spark, tell),
                rejects=keeper,
                tell=tell,
                message=commit_message(message),
                key=_key(idempotency_key),
                if_commit=None if if_commit is None else CommitId(str(if_commit)),
            )

    def diff(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        spark: "SparkChoice" = "auto",
        out: str | os.PathLike[str] | None = None,
    ) -> "Diff":
        """Entities that differ between two branches, commits or manifest versions, by table key, then id.

        Large tables are compared in steps; `spark` is a session, True, or False; `auto` asks for Spark past the small-work
        bound. With `out` the changes go to a file, one JSON object a line, however many there are.

        Example:
            >>> newest = graph.commits()[0]
            >>> [(str(change.op), change.id) for change in graph.diff(newest.parent, newest).changes]
            [('insert', 'Gus')]
        """
        from omnigraph.engine.history.change_files import collect_diff, parse_change_file
        from omnigraph.engine.history.compare import (
            compare_pair,
            explain_local,
            list_differing_pairs,
        )

        file = parse_change_file(None if out is None else path_of("out", out))
        before, after = self._states(base, head)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        pairs = list_differing_pairs(before, after, wanted)
        named = [None if one.head is None else one.head.id for one in (before, after)]
        engine, rows = self._engine, sum(pair.row_count for pair in pairs)
        if spark in (None, False, "auto") and rows <= engine.settings.small_work_rows:
            # Comparing in steps needs modules that most diffs never load.
            here = (c for pair in pairs for c in compare_pair(engine.store.tables, pair, wanted))
            reason = explain_local(rows, engine.settings.small_work_rows)
            return collect_diff(here, named[0], named[1], file, reason=reason)

        from omnigraph.api.loading import chooser
        from omnigraph.engine.history.diff_steps import open_diff

        with open_diff(engine, pairs, wanted, chooser(engine, spark)) as (found, choice):
            return collect_diff(
                found, named[0], named[1], file, engine=choice.engine, reason=choice.reason
            )

    def diff_stream(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
    ) -> "Iterator[Change]":
        """The changes of a `diff` one after the other, however many there are; both states are captured now.

        Example:
            >>> sorted(change.id for change in graph.diff_stream("review", "main"))
            ['Bo', 'Ed', 'Flo']
        """
        from omnigraph.engine.history.compare import list_changes

        before, after = self._states(base, head)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        return list_changes(self._engine.store.tables, before, after, wanted)

    def diff_drawing(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
        nodes_max: int = 2_000,
        edges_max: int = 10_000,
        shows: Callable[[str], bool] | None = None,
    ) -> "DiffDrawing":
        """A `diff` to be drawn: its counts, and the first changed nodes and edges with the nodes these hang on.

        `properties` keeps updates of one of them, `actors` what commits of theirs changed; `shows` says of which branches
        commits are looked at, all by default.

        Example:
            >>> newest = graph.commits()[0]
            >>> graph.diff_drawing(newest.parent, newest).counts["Person"]
            {'inserted': 1, 'updated': 0, 'deleted': 0}
        """
        from omnigraph.api.drawings import draw_diff

        before, after = self._states(base, head)
        accepted = self._engine.view(MAIN).accepted
        return draw_diff(
            self._engine,
            View(branch=before.branch, accepted=accepted, state=before),
            View(branch=after.branch, accepted=accepted, state=after),
            wanted_of(
                self.catalog, types, None, ops, images=True, properties=properties, actors=actors
            ),
            shows or _show_all,
            nodes_max=count_of("nodes_max", nodes_max) or 0,
            edges_max=count_of("edges_max", edges_max) or 0,
        )

    def diff_frame(
        self,
        base: Reference,
        head: Reference,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        spark: "Spark" = None,
        engine: "FrameLibrary | None" = None,
    ) -> "AnyFrame":
        """The changes of a `diff` as a frame, with the rows before and after as JSON; on Spark its tasks compare the tables.

        Example:
            >>> graph.diff_frame("review", "main")["op"].to_pylist()
            ['update', 'insert', 'insert']
        """
        from omnigraph.api.frames import make_diff_frame, require_engine

        chosen = require_engine(engine, spark)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=True)
        return make_diff_frame(self._engine, self._states(base, head), wanted, chosen, spark)

    def changes_frame(
        self,
        since: str | Commit | None = None,
        until: str | Commit | None = None,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        spark: "Spark" = None,
        engine: "FrameLibrary | None" = None,
    ) -> "AnyFrame":
        """The change feed after one commit, up to another, as a frame: a change and its commit in each row, oldest first.

        Example:
            >>> graph.changes_frame(graph.commits()[0].parent, engine="polars").select("op", "id").rows()
            [('insert', 'Gus')]
        """
        from omnigraph.api.frames import make_feed_frame, require_engine

        chosen = require_engine(engine, spark)
        start, end = (None if one is None else self._commit_id(one) for one in (since, until))
        wanted = wanted_of(self.catalog, types, kinds, ops, images=True)
        target = self._target(branch, "changes")
        return make_feed_frame(self._engine, target, start, end, wanted, chosen, spark)

    def _states(self, base: Reference, head: Reference) -> tuple[BranchState, BranchState]:
        from omnigraph.engine.history.compare import resolve_state

        branch = branch_name(self._branch, "diff")
        before = resolve_state(self._engine, reference_of(base), branch)
        return before, resolve_state(self._engine, reference_of(head), branch)

    def changes(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        spark: "SparkChoice" = "auto",
    ) -> "ChangePage":
        """Read the change feed: whole commits, oldest first, after a cursor or commit; `limit` counts changes.

        Commits that changed much are compared in steps; `spark` is a session, True, or False; `auto` asks for Spark past the
        small-work bound.

        Example:
            >>> page = graph.changes(limit=1)
            >>> page.caught_up
            False
            >>> graph.changes(since=page.cursor).caught_up
            True
        """
        from omnigraph.engine.history.feed import page

        target = self._target(branch, "changes")
        start = None if since is None else self._commit_id(since)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        bound = count_of("limit", limit, least=1)
        return page(self._engine, target, start, bound, wanted, self._feed_worker(target, spark))

    def _feed_worker(self, branch: BranchName, spark: "SparkChoice") -> "FeedWorker | str":
        """Who compares the commits of a feed, or why this process does: tables of one that is small are not measured."""
        from omnigraph.engine.history.compare import explain_local

        engine, bound = self._engine, self._engine.settings.small_work_rows
        rows = engine.manifest.current(branch).snapshot.row_count
        if spark in (None, False, "auto") and rows <= bound:
            return explain_local(rows, bound)

        from omnigraph.api.loading import chooser
        from omnigraph.engine.history.feed_steps import compare_commits

        return partial(compare_commits, chooser(engine, spark))

    def changes_stream(
        self,
        *,
        branch: str | None = None,
        since: str | Commit | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        spark: "SparkChoice" = "auto",
    ) -> "Iterator[ChangeStream]":
        """The change feed up to now, commit by commit; the changes of each commit come one after the other, however many there are.

        With `spark`, as for `changes`, the changes of a commit are read before the next commit is asked for.

        Example:
            >>> for block in graph.changes_stream(since=graph.commits()[0].parent):
            ...     [change.id for change in block.changes]
            ['Gus']
        """
        from omnigraph.engine.history.feed import stream

        target = self._target(branch, "changes")
        start = None if since is None else self._commit_id(since)
        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        return stream(self._engine, target, start, wanted, self._feed_worker(target, spark))

    def commit_changes(
        self,
        id: str | Commit,
        *,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        images: bool = False,
        limit: int | None = None,
        page_token: str | None = None,
        nodes_first: bool = False,
    ) -> "ChangeBlock":
        """What one commit changed against its first parent; with `limit` one page, and `next_page_token` names the next.

        `nodes_first` puts nodes before edges, as one who applies the changes needs them.

        Example:
            >>> [change.id for change in graph.commit_changes(graph.commits()[0]).changes]
            ['Gus']
        """
        from omnigraph.engine.history.feed import commit_changes

        wanted = wanted_of(self.catalog, types, kinds, ops, images=images)
        bound = count_of("limit", limit)
        return commit_changes(
            self._engine,
            str(id),
            wanted,
            limit=bound,
            token=page_token,
            nodes_first=nodes_first,
        )

    def change_page(
        self,
        *,
        branch: str | None = None,
        cursor: str | None = None,
        start: str = "now",
        page_token: str | None = None,
        limit: int | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
    ) -> "FeedPage":
        """Read the feed in pages that may end inside a commit, with the rows before and after, nodes before edges.

        `start` is `now`, `beginning` or `after:COMMIT`; a `cursor` replaces it. A page that ends before the head of its first
        page has a token for the next one, the last page a cursor.

        Example:
            >>> first = graph.change_page(start="beginning", limit=1)
            >>> [change.id for block in first.blocks for change in block.changes]
            ['Ada']
            >>> first.cursor is None, graph.change_page(page_token=first.next_page_token).caught_up
            (True, True)
        """
        from omnigraph.engine.history.pages import continue_feed, start_feed

        target = self._target(branch, "changes")
        wanted = wanted_of(self.catalog, types, kinds, ops, images=True)
        bound = count_of("limit", limit, least=1)
        if page_token is not None:
            token = text_of("page_token", page_token)
            return continue_feed(self._engine, target, token, bound, wanted)
        since = self._start_of(target, start) if cursor is None else text_of("cursor", cursor)
        return start_feed(self._engine, target, since, bound, wanted)

    def _start_of(self, branch: BranchName, start: str) -> str | None:
        match text_of("start", start).partition(":"):
            case ("beginning", "", _):
                return None
            case ("now", "", _):
                head = self._engine.manifest.current(branch).head
                return None if head is None else head.id
            case ("after", ":", commit) if commit:
                return commit
            case _:
                raise UserInputError(f"start '{start}' is not one of now, beginning, after:COMMIT")

    def diff_page(
        self,
        base: str,
        head: str,
        *,
        limit: int | None = None,
        page_token: str | None = None,
        types: Sequence[str] | None = None,
        kinds: "Kinds | None" = None,
        ops: "Ops | None" = None,
        properties: Sequence[str] | None = None,
        actors: Sequence[str] | None = None,
        shows: Callable[[str], bool] | None = None,
    ) -> "DiffPage":
        """One page of a `diff`, with the rows before and after, nodes before edges.

        `properties`, `actors` and `shows` are those of `diff_drawing`.

        Example:
            >>> graph.diff_page("main", "main").stats.inserts
            0
        """
        from omnigraph.engine.history.pages import page_diff

        wanted = wanted_of(
            self.catalog, types, kinds, ops, images=True, properties=properties, actors=actors
        )
        return page_diff(
            self._engine,
            branch_name(self._branch, "diff"),
            (text_of("base", base), text_of("head", head)),
            count_of("limit", limit, least=1),
            wanted,
            None if page_token is None else text_of("page_token", page_token),
            shows or _show_all,
        )

    def baseline_stream(
        self, *, branch: str | None = None, types: Sequence[str] | None = None
    ) -> "BaselineStream":
        """Every entity in the load format as lines, and the cursor of the first change after it.

        Example:
            >>> start = graph.baseline_stream(types=["Knows"])
            >>> sum(text.to_pybytes().count(b"edge") for text in start.lines) > 0
            True
        """
        from omnigraph.engine.history.feed import stream_baseline

        target = self._target(branch, "baseline")
        return stream_baseline(self._engine, target, names_of("types", types))

    def baseline(
        self,
        out: str | Path,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
    ) -> "Baseline":
        """Write every entity to a file in the load format, and give the cursor of the first change after it.

        Example:
            >>> start = graph.baseline("everything.jsonl")
            >>> graph.changes(since=start.cursor).blocks
            ()
        """
        from omnigraph.engine.history.feed import baseline

        target = self._target(branch, "baseline")
        named = names_of("types", types)
        file = Path(path_of("out", out))
        return baseline(self._engine, target, file, named)

    # ---- maintenance

    def ensure_indices(
        self,
        *,
        branch: str | None = None,
        actor: str | None = None,
        spark: "Spark" = None,
        progress: "Tell | None" = None,
    ) -> "IndexReport":
        """Build every index the schema asks for and that is missing; no row and no history changes.

        With `spark` (a session, or True) executors build the segments; only this process commits.

        Example:
            >>> {str(index.state) for index in graph.ensure_indices().indexes}
            {'ready'}
        """
        from omnigraph.api.runners import workers_of
        from omnigraph.engine.maintenance.indexes import ensure_indices

        target = self._target(branch, "ensure indices")
        by = self._authorize("maintain", actor).actor
        workers = workers_of(self._engine, spark)
        with self._job(JobKind.INDEX, target, by, progress) as tell:
            return ensure_indices(self._engine, target, actor=by, workers=workers, tell=tell)

    def index_status(self, *, branch: str | None = None) -> "IndexReport":
        """Show the state of every index: `ready`, `partial`, `pending` or `damaged`.

        Example:
            >>> [(index.table_key, index.column, str(index.state)) for index in graph.index_status().indexes][:1]
            [('edge:Knows', 'id', 'ready')]
        """
        from omnigraph.engine.maintenance.indexes import index_status

        return index_status(self._engine, self._target(branch, "index status"))

    def optimize(
        self,
        *,
        actor: str | None = None,
        spark: "Spark" = None,
        progress: "Tell | None" = None,
    ) -> "OptimizeReport":
        """Compact the tables of main and bring their indexes up to date; no row and no history changes.

        With `spark` (a session, or True) executors rewrite and index; only this process commits.

        Example:
            >>> [table.table_key for table in graph.optimize().tables]
            ['edge:Knows', 'node:Person']
        """
        from omnigraph.api.runners import workers_of
        from omnigraph.engine.maintenance.optimize import optimize

        by, workers = self._authorize("maintain", actor).actor, workers_of(self._engine, spark)
        with self._job(JobKind.OPTIMIZE, MAIN, by, progress) as tell:
            report = optimize(self._engine, actor=by, workers=workers, tell=tell)
        if workers is None:
            return report
        return replace(report, engine="spark", reason="Spark was asked for")

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        confirm: bool = False,
        actor: str | None = None,
        progress: "Tell | None" = None,
    ) -> "CleanupReport":
        """Remove table versions that are neither among the newest `keep` nor were visible within `older_than`.

        Cleanup also removes forks of deleted branches, dropped tables, scratch files of loads that never ended, and
        records of dead jobs.
        States that a branch shows stay readable; without `confirm` nothing is removed and the report is a preview.

        Example:
            >>> from datetime import timedelta
            >>> graph.cleanup(older_than=timedelta(days=7)).confirmed
            False
        """
        from omnigraph.engine.maintenance.cleanup import cleanup

        by = self._authorize("maintain", actor).actor
        with self._job(JobKind.CLEANUP, MAIN, by, progress) as tell:
            return cleanup(
                self._engine,
                keep=count_of("keep", keep),
                older_than=age_of("older_than", older_than),
                confirm=flag_of("confirm", confirm),
                actor=by,
                tell=tell,
            )

    def cleanup_preview(
        self, *, keep: int | None = None, older_than: timedelta | None = None
    ) -> "CleanupReport":
        """What `cleanup` would remove of tables now, by the same rules; also of a graph that is open for reading alone.

        Example:
            >>> {table.versions_removed for table in graph.cleanup_preview(keep=1000).tables}
            {0}
        """
        from omnigraph.engine.maintenance.cleanup import preview_cleanup

        rules = count_of("keep", keep), age_of("older_than", older_than)
        return preview_cleanup(self._engine, *rules)

    def relocate(self) -> "RelocateReport":
        """Write the present address of this graph, which was moved or copied, into its branches.

        This handle continues with the relocated graph; handles made from it with `on` are closed.

        Example:
            >>> graph.relocate().branches
            {}
        """
        from omnigraph.engine.maintenance.relocate import relocate_graph

        self._authorize("maintain", None)
        engine = self._engine
        engine.require_writable("relocate")
        location = engine.location
        done = relocate_graph(
            location.uri, storage_options=dict(location.options), runtime=engine.runtime
        )
        self._opened = reopen_graph(engine)
        self._guard = self._guard.on(self._opened)
        return done

    def repair(
        self, *, confirm: bool = False, force: bool = False, actor: str | None = None
    ) -> "RepairReport":
        """List table commits that no write of the graph explains; with `confirm` adopt those that changed no row.

        `force` adopts the others too: their rows become visible as they are.

        Example:
            >>> graph.repair().commit is None
            True
        """
        from omnigraph.engine.maintenance.repair import repair

        by = self._authorize("maintain", actor).actor
        return repair(
            self._engine,
            confirm=flag_of("confirm", confirm),
            force=flag_of("force", force),
            actor=by,
        )

    def refresh(self, *, roll_back: bool = False, settle: bool | None = None) -> None:
        """Reload the graph and complete interrupted writes; with `roll_back`, roll back those that cannot be completed.

        `settle` is the deprecated name of `roll_back`.

        Example:
            >>> graph.refresh()
        """
        if settle is not None:
            warn_caller("refresh: settle= is deprecated; use roll_back=")
            roll_back = roll_back or settle
        self._engine.contracts.forget()
        self._engine.manifest.heads.clear()
        if self._engine.read_only:
            return
        if roll_back:
            self._engine.recovery.sweep()
        else:
            self._engine.recovery.refresh()

    def doctor(self, *, deep: bool = False) -> "Examination":
        """Check every invariant that must hold between writes; an `Examination` is a list of issues, empty when all hold.

        With `deep` every file is read and compared with the digest that was recorded when it was written; the result
        then counts `files_compared` and `files_without_digest`.

        Example:
            >>> for issue in graph.doctor(deep=True):
            ...     print(issue)
        """
        from omnigraph.engine.maintenance.doctor import examine

        return examine(self._engine, deep=flag_of("deep", deep))

    def recoveries(self) -> list[RecoveryAudit]:
        """Operations that recovery completed, rolled back or discarded, oldest first.

        Example:
            >>> graph.recoveries()
            []
        """
        return [RecoveryAudit.of(row) for row in self._engine.recovery.audit.rows()]

    def pending_recoveries(self) -> list[RecoverySidecar]:
        """Pending operations, oldest first, including those of live writers.

        Example:
            >>> graph.pending_recoveries()
            []
        """
        return [RecoverySidecar.of(one) for one in self._engine.recovery.forecast()]

    def discard_recovery(self, operation_id: str) -> DiscardedRecovery:
        """Discard a pending operation: the rows it wrote stay in its tables, and the result lists them.

        Example:
            >>> for operation in graph.pending_recoveries():
            ...     if operation.problem:
            ...         graph.discard_recovery(operation.operation_id)
        """
        from omnigraph.recovery.discard import discard_operation

        self._engine.require_writable("recovery discard")
        engine, chosen = self._engine, OperationId(text_of("operation_id", operation_id))
        return discard_operation(engine.committer, engine.recovery.audit, chosen)

    def jobs(self) -> list[Job]:
        """Long work on this graph, of every process, oldest first; a dead job fell silent before it ended.

        Loads, merges, exports, index builds, optimize, cleanup and schema changes show themselves after two seconds. A
        handle that only reads shows nothing of its own.

        Example:
            >>> graph.jobs()
            []
        """
        return self._engine.jobs.list()

    def show(self, *, write: bool = False, height: int = 640) -> "ShownGraph":
        """Show the graph, its history and its changes in a notebook; elsewhere open the `url` of what is given.

        A thread of this process serves the page to this machine, read-only unless `write`. It ends with the process, or by `close()`.

        Example:
            >>> page = graph.show()
            >>> page.url
            'http://127.0.0.1:.../ui/g/default/@main/start'
            >>> page.close()
        """
        from omnigraph.api.showing import show

        self._opened.require_open()
        return show(self, write=write, height=height)

    def _job(
        self, kind: JobKind, branch: str, actor: str | None, progress: "Tell | None"
    ) -> AbstractContextManager["Tell"]:
        return self._engine.jobs.keep(kind, branch, actor, listener_of("progress", progress))

    def _target(self, branch: str | None, operation: str) -> BranchName:
        """The branch that a call is about: the one it names, else that of the handle."""
        return branch_name(self._branch if branch is None else branch, operation)

    # ---- who may

    def with_policy(self, policy: "PolicyChecker | None") -> "Graph":
        """The same graph, guarded by a policy: every writer asks it first, before anything is written.

        Example:
            >>> from omnigraph.policy import PolicyEngine
            >>> guarded = graph.with_policy(PolicyEngine.load_graph("version: 1"))
            >>> guarded.branch_create("mine", actor="eve")
            Traceback (most recent call last):
            omnigraph.errors.input.PolicyDenied: denied: ...
        """
        guard = self._guard.with_policy(policy)
        return Graph(self._engine, actor=self._actor, branch=self._branch, guard=guard)

    @property
    def guard(self) -> Guard:
        """Decides what actors may do: by the policy that the handle was opened with, and by that of the graph."""
        self._opened.require_open()
        return self._guard

    def policy(self, version: int | None = None) -> KeptPolicy | None:
        """The policy that the graph keeps, or an earlier version of it; None when it keeps none.

        Example:
            >>> graph.policy() is None
            True
        """
        from omnigraph.engine.policing import list_versions

        versions = [KeptPolicy.of(one) for one in list_versions(self._engine)]
        if version is None:
            return versions[-1] if versions and versions[-1].text is not None else None
        wanted = count_of("version", version, least=1)
        found = next((one for one in versions if one.version == wanted), None)
        if found is None:
            raise NotFound("policy version", str(version), known=[str(v.version) for v in versions])
        return found

    def set_policy(self, policy: str | Path | None, *, actor: str | None = None) -> KeptPolicy:
        """Keep a policy in the graph, or with None no longer; every handle asks it, whoever opened the graph.

        Where the graph keeps a policy already, only actors with `policy_change` replace it. A policy that gives this
        right to nobody is refused.

        Example:
            >>> rules = '''
            ... version: 1
            ... groups: { owners: [ada] }
            ... rules:
            ...   - id: owners
            ...     allow: { actors: { group: owners }, actions: [change, policy_change] }
            ... '''
            >>> graph.set_policy(rules).version
            1
            >>> graph.on("review").mutate("query q() { delete Person where age > 200 }", actor="eve")
            Traceback (most recent call last):
            omnigraph.errors.input.PolicyDenied: denied: ...
            >>> graph.set_policy(None, actor="ada").text is None
            True
        """
        from omnigraph.engine.policing import list_versions, replace_policy
        from omnigraph.policy.kept import read_kept

        given = rules_of(policy)
        text = None if given is None else read_kept(given)
        versions = list_versions(self._engine)
        by = self._authorize("policy_change", actor).actor
        expected = versions[-1].number if versions else 0
        return KeptPolicy.of(replace_policy(self._engine, text, expected, by))

    def _authorize(
        self,
        action: str,
        actor: str | None,
        *,
        branch: str | None = None,
        target: str | None = None,
    ) -> Permission:
        """Ask the policies, if there are any, whether the actor may."""
        author = actor_name(actor) or self._actor
        return self._guard.require(action, author, branch=branch, target=target)

    def _load_target(
        self, branch: str | None, from_branch: str | None
    ) -> tuple[BranchName, BranchName | None]:
        base = None if from_branch is None else branch_name(from_branch, "load")
        return self._target(branch, "load"), base

    def _authorize_load(
        self, actor: str | None, target: BranchName, base: BranchName | None
    ) -> Permission:
        """A load that makes its branch needs the right to make it, too."""
        if self._guard.makes_branch(target, base):
            self._authorize("branch_create", actor, branch=base, target=target)
        return self._authorize("change", actor, branch=target)

    def _authorize_merge(
        self, actor: str | None, source: str, into: str, *, dry_run: bool
    ) -> Permission:
        """A merge needs its right; one that only looks writes nothing and needs none."""
        if dry_run:
            return Permission(actor_name(actor) or self._actor)
        target = branch_name(into, "merge")
        return self._authorize(
            "branch_merge", actor, branch=branch_name(source, "merge"), target=target
        )

    def close(self) -> None:
        """Release all resources; later calls are refused, calls that have begun finish.

        Example:
            >>> handle = omnigraph.open("friends.omni", read_only=True)
            >>> handle.close()
        """
        self._opened.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = ", read-only" if self.read_only else ""
        return f"<Graph {self.uri} on {self._branch}{mode}>"


def _show_all(_branch: str) -> bool:
    return True


def _name_of(given: object) -> object:
    """The name of a branch, or the id of a commit, that is given itself; anything else as it is."""
    return getattr(given, "name", getattr(given, "id", given))


def _key(given: str | None) -> str | None:
    return None if given is None else idempotency_key_of(given)
