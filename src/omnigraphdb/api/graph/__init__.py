"""The handle users hold: every verb of a graph, on any branch, now or in the past; one module for each kind of verb.

A verb imports its own modules when it is called, so that a process that runs one query starts sooner.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from omnigraphdb.api.arguments import (
    Reference,
    number_column,
    path_of,
    point_of,
    text_column,
    text_of,
)
from omnigraphdb.api.graph.changes import Changes
from omnigraphdb.api.graph.diffs import Diffs
from omnigraphdb.api.graph.exports import Exports
from omnigraphdb.api.graph.policies import Policies
from omnigraphdb.api.graph.reads import Reads
from omnigraphdb.api.graph.recovery import Maintenance
from omnigraphdb.api.results import MutationResult
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.branch import BranchVerbs
from omnigraphdb.api.verbs.history import HistoryVerbs
from omnigraphdb.api.verbs.maintenance import MaintenanceVerbs
from omnigraphdb.api.verbs.read import ReadVerbs
from omnigraphdb.api.verbs.schema import SchemaVerbs
from omnigraphdb.api.verbs.tag import TagVerbs
from omnigraphdb.api.verbs.write import WriteVerbs
from omnigraphdb.manifest.names import branch_name

if TYPE_CHECKING:
    from omnigraphdb.api.analytics import Projection
    from omnigraphdb.api.showing import ShownGraph
    from omnigraphdb.api.spark_analytics import SparkProjection
    from omnigraphdb.api.stored_queries import StoredQueries
    from omnigraphdb.api.types import Frame, NoSparkAsked, SparkAsked, SparkChoice
    from omnigraphdb.engine.schema.infer import SchemaProposal
    from omnigraphdb.policy import PolicyChecker


class Graph(
    Reads,
    ReadVerbs,
    Exports,
    WriteVerbs,
    SchemaVerbs,
    HistoryVerbs,
    TagVerbs,
    BranchVerbs,
    Diffs,
    Changes,
    MaintenanceVerbs,
    Maintenance,
    Policies,
):
    """An opened graph; safe to share between threads.

    Example:
        >>> graph = omnigraphdb.open("friends.omni", actor="ada")
        >>> graph
        <Graph ...friends.omni on main>
        >>> print(graph.schema_source)
        <BLANKLINE>
            node Person { name: String @key  age: I32? }
            edge Knows: Person -> Person { since: Date? }
        <BLANKLINE>
    """

    def on(self, branch: str) -> "Graph":
        """The same graph with another default branch; closing either closes both.

        Example:
            >>> review = graph.on("review")
            >>> review.query("query q() { match { $p: Person } return { count($p) as people } }").rows
            [{'people': 3}]
        """
        named = branch_name(branch, "a handle on a branch")
        return Graph(self._engine, actor=self._actor, branch=named, guard=self._guard)

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
        from omnigraphdb.api.stored_queries import read_stored_queries

        folder = Path(path_of("directory", directory))
        return read_stored_queries(folder, self)

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
        from omnigraphdb.engine.write.assign import assign_values

        type_name, _, property_name = text_of("target", target).partition(".")
        into = self._target(branch, "assign")
        by = self._authorize(CallKind.ASSIGN, actor, branch=into)
        return assign_values(
            self._engine,
            type_name,
            property_name,
            text_column("ids", ids),
            number_column("values", values),
            branch=into,
            options=self._options(by, message=message),
        )

    def schema_from(
        self,
        source: "str | Path | Iterable[str | Path] | Mapping[str, Frame]",
        *,
        rows_max: int = 10_000,
    ) -> "SchemaProposal":
        """Propose the schema of this graph with types for new data, for review; changes nothing.

        `source` is what `omnigraphdb.infer_schema` takes; types that the graph has are left as they are, and edges may end at
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
        from omnigraphdb.api.texts import propose_schema

        with self.snapshot() as snapshot:
            return propose_schema(
                source,
                rows_max,
                schema=self.schema_source,
                read_ids=lambda name: snapshot.table(name, ["id"])["id"],
                known=self.catalog,
            )

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
        from omnigraphdb.api.analytics import Projection
        from omnigraphdb.api.projecting import choose_spark, plan_projection

        engine, target = self._engine, self._target(branch, "read")
        plan = plan_projection(engine, engine.view(target, point_of(at)), nodes, edges)
        chosen, reason = choose_spark(engine, plan, spark)
        if chosen is False:
            return Projection(self, engine, plan, reason=reason, seconds_max=seconds_max)
        from omnigraphdb.api.spark_analytics import SparkProjection

        return SparkProjection(
            self, engine, plan, spark=chosen, reason=reason, seconds_max=seconds_max
        )

    def show(self, *, write: bool = False, height: int = 640) -> "ShownGraph":
        """Show the graph, its history and its changes in a notebook; elsewhere open the `url` of what is given.

        A thread of this process serves the page to this machine, read-only unless `write`. It ends with the process, or by `close()`.

        Example:
            >>> page = graph.show()
            >>> page.url
            'http://127.0.0.1:.../ui/g/default/@main/start'
            >>> page.close()
        """
        from omnigraphdb.api.showing import show

        self._opened.require_open()
        return show(self, write=write, height=height)

    def with_policy(self, policy: "PolicyChecker | None") -> "Graph":
        """The same graph, guarded by a policy: every writer asks it first, before anything is written.

        Example:
            >>> from omnigraphdb.policy import PolicyEngine
            >>> guarded = graph.with_policy(PolicyEngine.load_graph("version: 1"))
            >>> guarded.branch_create("mine", actor="eve")
            Traceback (most recent call last):
            omnigraphdb.errors.input.PolicyDenied: denied: ...
        """
        guard = self._guard.with_policy(policy)
        return Graph(self._engine, actor=self._actor, branch=self._branch, guard=guard)
