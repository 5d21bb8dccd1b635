"""The reads of a graph: queries, entities and tables, now or at a point in history."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraphdb.api.arguments import Reference
from omnigraphdb.api.query_results import Explanation, QueryResult, QueryStream
from omnigraphdb.api.verbs.handle import Handle
from omnigraphdb.errors import HistoryReclaimed

if TYPE_CHECKING:
    from omnigraphdb.api.blobs import Blob
    from omnigraphdb.api.comparisons import EntityHistory
    from omnigraphdb.api.frames import GraphFrames
    from omnigraphdb.api.neighbours import Neighbourhood
    from omnigraphdb.api.types import AnyFrame, EdgeDirection, EntityId, FrameLibrary, Spark


class Reads(Handle):
    """The reads of a graph: queries, entities and tables, now or at a point in history."""

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
            >>> files = omnigraphdb.init("files.omni", "node File { name: String @key  body: Blob? }")
            >>> hello = {"type": "File", "data": {"name": "a.txt", "body": "base64:aGVsbG8="}}
            >>> done = files.load([hello], mode="append")
            >>> files.blob("File", "a.txt", "body").read(offset=1, length=3)
            b'ell'
        """
        return self._read(branch, at, lambda seen: seen.blob(type_name, id, property))

    def table(
        self, type_name: str, *, branch: str | None = None, at: Reference | None = None
    ) -> pa.Table:
        """A node or edge table as Arrow.

        Example:
            >>> graph.table("Person").num_rows
            3
        """
        return self._read(branch, at, lambda seen: seen.table(type_name))
