"""A snapshot: every table version of one moment, for as long as it is held."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import ref

import pyarrow as pa

from omnigraphdb.api.arguments import (
    count_of,
    flag_of,
    id_of,
    name_and_params,
    names_of,
    text_of,
    word_of,
)
from omnigraphdb.api.query_results import Explanation, QueryResult, QueryStream
from omnigraphdb.api.results import SnapshotState, TableState
from omnigraphdb.api.texts import source_of
from omnigraphdb.catalog.border import public_reader, public_rows
from omnigraphdb.catalog.model import Catalog, NodeType, order_columns
from omnigraphdb.catalog.names import SYSTEM_COLUMNS
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.check import is_mutation
from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.engine.read.past_schema import EarlierSchema, find_shown_schema
from omnigraphdb.engine.read.verbs import entity, explain, find_prepared, query, stream
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import (
    EngineError,
    HistoryReclaimed,
    NotFound,
    NotFoundError,
    TableNotFound,
    UserInputError,
    shorten,
)
from omnigraphdb.ids import TableKey, is_node, type_name
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.manifest.view import View
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Table

if TYPE_CHECKING:
    import duckdb
    import networkx

    from omnigraphdb.api.blobs import Blob
    from omnigraphdb.api.description import Description
    from omnigraphdb.api.frames import GraphFrames
    from omnigraphdb.api.neighbours import Neighbourhood
    from omnigraphdb.api.paths import EntityPath
    from omnigraphdb.api.types import AnyFrame, EdgeDirection, EntityId, FrameLibrary, Spark
    from omnigraphdb.engine.history.entity import EntityHistory
    from omnigraphdb.engine.history.export_files import Part
    from omnigraphdb.pipeline.early_writes import WriteTarget
    from omnigraphdb.pipeline.location import PinnedTable
    from omnigraphdb.pipeline.runner import Runner

T = TypeVar("T")
_REASON = re.compile(r"^.*?(?:Invalid user input: |Schema error: )+")
"""What stands before the reason in the message of a scan."""


class Snapshot:
    """Reads of one view; later commits never change what it returns.

    Example:
        >>> with graph.snapshot() as before:
        ...     _ = graph.mutate('query q() { insert Person { name: "Di" } }')
        ...     before.tables()["node:Person"], graph.snapshot().tables()["node:Person"]
        (6, 7)
    """

    def __init__(self, engine: Engine, view: View, at: str | None = None) -> None:
        self._opened = engine
        self._view = view
        self._at = at
        self._close: list[Callable[[], None]] = []

    @property
    def _engine(self) -> Engine:
        return self._opened.require_open()

    @cached_property
    def _shown(self) -> EarlierSchema:
        """Its types and tables under present names, those that were dropped since included."""
        return find_shown_schema(self._opened.plans, self._view)

    @property
    def _catalog(self) -> Catalog:
        return self._shown.contract.catalog

    @property
    def branch(self) -> str:
        """The branch it was taken of."""
        return self._view.branch

    @property
    def commit(self) -> str | None:
        """The graph commit it shows."""
        return self._view.commit

    @property
    def manifest_version(self) -> int:
        """The manifest version it shows."""
        return self._view.version

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        spark: "Spark" = None,
    ) -> QueryResult:
        """Run a read, on Spark when a session (or True) is given.

        Example:
            >>> graph.snapshot().query("query q() { match { $p: Person } return { count($p) as people } }").rows
            [{'people': 7}]
        """
        chosen, values = name_and_params(name, params)
        if spark is None or spark is False:
            if type(source) is str:
                prepared = find_prepared(self._engine, self._view, source, chosen)
                rows = None if prepared is None else prepared.answer_plain(values)
                if prepared is not None and rows is not None:
                    return self._result(prepared.query_name, rows, prepared.types)
            # Not by `_reading`, which takes as long as a tenth of a lookup.
            try:
                answer = query(self._engine, self._view, source_of(source), chosen, values)
            except TableNotFound as error:
                self._refuse_reclaimed(error)
                raise
        else:
            # Spark is an extra and slow to load: only who asks for it pays for it.
            on_spark = import_module("omnigraphdb.spark_jobs.query").spark_query
            engine, text = self._engine, source_of(source)
            with engine.jobs.keep(JobKind.QUERY, self.branch, None):
                answer = on_spark(engine, self._view, text, chosen, values, spark=spark)
        return self._result(answer.query_name, answer.rows, answer.types)

    def _result(
        self, name: str, rows: pa.Table | pa.RecordBatch, types: tuple[PropertyType, ...]
    ) -> QueryResult:
        return QueryResult(
            query_name=name,
            branch=self._view.branch,
            snapshot=self._at,
            commit=self._view.commit,
            found=rows,
            types=types,
        )

    def query_frame(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        spark: "Spark" = None,
        engine: "FrameLibrary | None" = None,
    ) -> "AnyFrame":
        """Run a read and give its rows as a frame: of Spark for a session, else of Arrow, polars or pandas.

        Example:
            >>> graph.snapshot().query_frame("query q() { match { $p: Person } return { $p.name } }").num_rows
            7
        """
        from omnigraphdb.api.frames import FrameEngine, make_frame, require_engine

        chosen = require_engine(engine, spark)
        if chosen is not FrameEngine.SPARK:
            return make_frame(self.query(source, name, params).table, chosen, "query_frame()")
        query_name, values = name_and_params(name, params)
        jobs = import_module("omnigraphdb.spark_jobs.query")
        session = True if spark is None else spark
        frame: AnyFrame = jobs.query_frame(
            self._engine, self._view, source_of(source), query_name, values, spark=session
        )
        return frame

    def frames(
        self, spark: "Spark" = None, *, engine: "FrameLibrary | None" = None
    ) -> "GraphFrames":
        """Every table of this snapshot as a frame, and all vertices and all edges in one frame each.

        Example:
            >>> frames = graph.snapshot().frames()
            >>> frames.vertices.num_rows, frames.edges.column_names[:2], frames["Person"].num_rows
            (7, ['src', 'dst'], 7)
        """
        from omnigraphdb.api.frames import make_graph_frames, require_engine

        chosen = require_engine(engine, spark)
        pins = [self.pin(type_name(TableKey(key))) for key in self.tables()]
        return make_graph_frames(pins, self.table, self.commit, chosen, spark)

    def stream(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> QueryStream:
        """Run a read whose rows are made as they are asked for.

        Example:
            >>> rows = graph.snapshot().stream("query q() { match { $p: Person } return { $p.name } }")
            >>> sum(batch.num_rows for batch in rows)
            7
        """
        chosen, values = name_and_params(name, params)
        with self._reading():
            answer = stream(self._engine, self._view, source_of(source), chosen, values)
        return QueryStream(
            query_name=answer.query_name,
            branch=self._view.branch,
            snapshot=self._at,
            commit=self._view.commit,
            reader=public_reader(self._translate_reader(answer.batches)),
            types=answer.types,
        )

    def explain(
        self,
        source: str | Path,
        name: str | Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        profile: bool = False,
    ) -> Explanation:
        """Show how a query would run; with `profile` run it, which only a read can, and show what it did.

        Example:
            >>> print(graph.snapshot().explain("query q() { match { $p: Person } return { $p.name } }"))
            Project...
        """
        chosen, values = name_and_params(name, params)
        text, profile = source_of(source), flag_of("profile", profile)
        with self._reading():
            if not profile and is_mutation(text, chosen):
                return self._explain_mutation(text, chosen, values)
            found = explain(self._engine, self._view, text, chosen, values, profile=profile)
        return Explanation(
            query_name=found.plan.name, steps=found.steps, profiled=profile, plan=found.plan
        )

    def _explain_mutation(
        self, text: Source, name: str | None, params: Mapping[str, Any] | None
    ) -> Explanation:
        from omnigraphdb.engine.write.explain import explain_mutation

        named, steps = explain_mutation(self._engine, self._view, text, name, params or {})
        return Explanation(query_name=named, steps=steps)

    def table(self, type_name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a node or edge table as Arrow; a Blob column holds its bytes.

        Example:
            >>> graph.snapshot().table("Knows").column_names
            ['id', 'src', 'dst', 'since']
        """
        with self._reading():
            found = self._open(type_name)
            names = names_of("columns", columns) or self._order(type_name, found.schema.names)
            self._require_columns(type_name, names, found.schema.names)
            rows = found.read(names, blobs=BlobForm.BYTES)
            return public_rows(rows)

    def scan(
        self, type_name: str, columns: Sequence[str] | None = None, filter: str | None = None
    ) -> pa.RecordBatchReader:
        """Stream a node or edge table.

        Example:
            >>> graph.snapshot().scan("Person", ["name"], "age < 40 and age > 30").read_all().to_pylist()
            [{'name': 'Ada'}]
        """
        with self._reading():
            found = self._open(type_name)
            names = names_of("columns", columns) or self._order(type_name, found.schema.names)
            self._require_columns(type_name, names, found.schema.names)
            wanted = None if filter is None else text_of("filter", filter)
            rows = self._scan_filtered(type_name, found, names, wanted)
        return public_reader(self._translate_reader(rows))

    def _require_columns(self, type_name: str, names: Sequence[str], stored: Sequence[str]) -> None:
        known = {*stored, *SYSTEM_COLUMNS}
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UserInputError(
                f"column '{shorten(twice)}' of {type_name} is named twice; nothing was read"
            )
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            hint = f"the columns are {', '.join(self._order(type_name, stored))}"
            raise NotFound(f"column of {type_name}", unknown, known=stored, hint=hint)

    def _scan_filtered(
        self, type_name: str, table: Table, names: Sequence[str], filter: str | None
    ) -> pa.RecordBatchReader:
        try:
            return table.scan(names, filter)
        except EngineError as error:
            if filter is None:
                raise
            reason = _REASON.sub("", str(error)).partition("; nothing was")[0].rstrip(".")
            raise UserInputError(
                f"the filter '{shorten(filter)}' of {type_name} cannot be evaluated: {reason}; nothing was read",
                hint="a filter is an SQL condition on the columns, such as age > 30",
            ) from error

    def pin(self, type_name: str) -> "PinnedTable":
        """Name the table version of a type as a value that other processes can open and read.

        Example:
            >>> graph.snapshot().pin("Person").table_key
            'node:Person'
        """
        from omnigraphdb.pipeline.location import PinnedTable

        key = self._key(type_name)
        entry, type_ = self._find_entry(key), self._catalog.tables[key]
        with self._reading():
            stored = self._engine.store.tables.open(entry.at).schema
        names = order_columns(type_, stored.names)
        return PinnedTable(
            location=self._engine.location,
            table_key=type_.table_key,
            at=entry.at,
            type=type_,
            schema=pa.schema([stored.field(name) for name in names]),
        )

    def pin_write(self, type_name: str) -> "WriteTarget":
        """Name a type with its schema and table version as a value, so that other processes can write rows ahead of a load.

        Example:
            >>> graph.snapshot().pin_write("Person").owned
            True
        """
        from omnigraphdb.pipeline.early_writes import WriteTarget

        view = self._view
        entry = self._find_entry(view.catalog.table(text_of("type_name", type_name)).table_key)
        return WriteTarget(
            location=self._engine.location,
            catalog=view.catalog,
            schema_hash=view.contract.ir_hash,
            table_key=entry.table_key,
            at=entry.at,
            rows=entry.row_count,
            owned=entry.at.branch == lance_branch(view.branch),
            incarnation=view.state.branch_incarnation,
        )

    def entity(self, type_name: str, id: "EntityId") -> dict[str, Any] | None:
        """One entity by id, or None, with the properties it had then; a type may be named as it was then.

        Example:
            >>> graph.snapshot().entity("Person", "Ada")["name"]
            'Ada'
        """
        with self._reading():
            key = self._key(type_name)
            wanted = id_of(self._catalog.tables.get(key), id)
            return entity(self._engine, self._view, key, wanted)

    def history(self, type_name: str, id: "EntityId", *, limit: int = 100) -> "EntityHistory":
        """The commits that changed one entity, the newest first, up to this state.

        Example:
            >>> [str(one.change.op) for one in graph.snapshot().history("Person", "Ada")]
            ['insert']
        """
        from omnigraphdb.engine.history.entity import read_history

        bound = count_of("limit", limit, least=1) or 1
        with self._reading():
            key = self._key(type_name)
            wanted = id_of(self._catalog.tables.get(key), id)
            table = self._find_entry(key)
            return read_history(self._engine, self._view.state, table, wanted, bound)

    def neighbours(
        self,
        type_name: str,
        id: "EntityId",
        *,
        edge: str | None = None,
        direction: "EdgeDirection" = "both",
        limit: int = 50,
    ) -> "Neighbourhood":
        """The edges of a node and the nodes they lead to, at most `limit` of each edge type and direction.

        Example:
            >>> near = graph.snapshot().neighbours("Person", "Ada", direction="out")
            >>> [(group.edge.name, group.total) for group in near.groups]
            [('Knows', 1)]
        """
        from omnigraphdb.api.neighbours import read_neighbourhood

        key = self._key(type_name)
        node = self._catalog.tables.get(key)
        if not isinstance(node, NodeType):
            raise NotFound("node type", type_name, known=self._catalog.nodes)
        chosen = None if edge is None else self._catalog.edge(text_of("edge", edge))
        if edge is not None and chosen is None:
            raise NotFound("edge type", edge, known=self._catalog.edges)
        with self._reading():
            return read_neighbourhood(
                self._engine,
                self._view,
                node.name,
                id_of(node, id),
                limit=count_of("limit", limit, least=1) or 1,
                edge=None if chosen is None else chosen.name,
                direction=word_of("direction", Direction, direction),
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
    ) -> "EntityPath | None":
        """The shortest path between two nodes, or the cheapest by a property of the edges; None if there is none.

        Example:
            >>> graph.snapshot().path("Person", "Ada", "Person", "Bo", edges=["Knows"]).nodes
            ('Ada', 'Bo')
        """
        found = self.list_paths(
            *(from_type, from_id, to_type, to_id),
            edges=edges,
            by=by,
            undirected=undirected,
            hops_max=hops_max,
        )
        return found[0] if found else None

    def list_paths(
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
        best: int = 1,
    ) -> "tuple[EntityPath, ...]":
        """The best paths between two nodes, as `path` finds the best one.

        Example:
            >>> [one.hops for one in graph.snapshot().list_paths("Person", "Ada", "Person", "Bo", best=2)]
            [1]
        """
        from omnigraphdb.api.paths import find_paths

        start, end = self._require_node(from_type, from_id), self._require_node(to_type, to_id)
        if start[0] != end[0]:
            raise UserInputError(
                f"a path leads between nodes of one type, not from {start[0]} to {end[0]}; nothing was read"
            )
        return find_paths(
            lambda text, params: self.query(text, params=params).rows,
            self._catalog,
            start[0],
            (start[1], end[1]),
            edges=names_of("edges", edges),
            by=None if by is None else text_of("by", by),
            undirected=flag_of("undirected", undirected),
            hops_max=count_of("hops_max", hops_max, least=0) or 0,
            best=count_of("best", best, least=1) or 1,
        )

    def _require_node(self, type_name: str, id: object) -> tuple[str, str]:
        """The type and the id of a node that exists."""
        node = self._catalog.tables.get(self._key(type_name))
        if not isinstance(node, NodeType):
            raise NotFound("node type", type_name, known=self._catalog.nodes)
        found = id_of(node, id)
        if self.entity(node.name, found) is None:
            raise NotFound("entity", f"{node.name} {found}")
        return node.name, found

    def blob(self, type_name: str, id: str, property: str) -> "Blob":
        """One Blob value of one entity: its size, and its bytes when they are read.

        Example:
            >>> files.snapshot().blob("File", "a.txt", "body").size
            5
        """
        from omnigraphdb.api.blobs import find_blob

        key, name = self._key(type_name), text_of("property", property)
        with self._reading():
            return find_blob(self._engine, self._view, key, text_of("id", id), name, at=self._at)

    def export(self, types: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Every entity in the load format.

        Example:
            >>> next(graph.snapshot().export(["Person"]))["type"]
            'Person'
        """
        from omnigraphdb.engine.history.export import export

        return self._translate_reclaimed(export(self._engine, self._view, names_of("types", types)))

    def export_lines(self, types: Sequence[str] | None = None) -> Iterator[pa.Buffer]:
        """What `export` gives as UTF-8 JSON, one record a line, many at a time.

        Example:
            >>> sum(part.size for part in graph.snapshot().export_lines()) > 100
            True
        """
        from omnigraphdb.engine.history.export import export_lines

        return self._translate_reclaimed(
            export_lines(self._engine, self._view, names_of("types", types))
        )

    def export_files(
        self,
        directory: str | os.PathLike[str],
        format: str,
        types: Sequence[str] | None,
        runner: "Runner",
    ) -> "tuple[Part, ...]":
        """Write every entity as part files into a new directory."""
        from omnigraphdb.engine.history.export_files import export_parts

        with self._reading():
            named = names_of("types", types)
            return export_parts(self._engine, self._view, directory, format, named, runner)

    def tables(self) -> dict[str, int]:
        """Row counts by table key.

        Example:
            >>> graph.snapshot().tables()
            {'edge:Knows': 1, 'node:Person': 7}
        """
        return {key: entry.row_count for key, entry in self._shown.snapshot.entries.items()}

    def duckdb(self) -> "duckdb.DuckDBPyConnection":
        """Open a DuckDB connection with one view for each type: `node.Person`, `edge.Knows`, or `Person` and `Knows`.

        Lance reads the columns that a statement names and evaluates the filters that DuckDB passes on. The views show
        this snapshot, whatever is written later; the connection is closed with the snapshot.

        Example:
            >>> with graph.snapshot() as snapshot:
            ...     snapshot.duckdb().sql("select count(*) from Person").fetchall()
            [(7,)]
        """
        from omnigraphdb.api.sql_views import close_connection, connect_views

        with self._reading():
            tables = {key: self._open(key) for key in self._list_keys(None)}
        views = {key: (one, self._order(key, one.schema.names)) for key, one in tables.items()}
        connection = connect_views(views, self._translate_open)
        # The views hold this snapshot: held in turn, the connection would never be freed.
        self._close.append(partial(close_connection, ref(connection)))
        return connection

    def to_networkx(
        self, types: Sequence[str] | None = None
    ) -> "networkx.MultiDiGraph[tuple[str, str]]":
        """A networkx graph of all types, or of some: nodes are `(type, id)`, edges have their id as key.

        Attributes are `type`, `id` and the properties that are not NULL; blobs are left out. The ends of an edge are
        nodes even if their type is not among `types`.

        Example:
            >>> network = graph.snapshot().to_networkx()
            >>> network.nodes["Person", "Ada"]["type"]
            'Person'
        """
        from omnigraphdb.api.networks import make_network

        with self._reading():
            keys = self._list_keys(names_of("types", types))
            return make_network([(self._catalog.tables[key], self._open(key)) for key in keys])

    def _list_keys(self, types: Sequence[str] | None) -> list[TableKey]:
        """The tables of some types, or of all that exist in this snapshot; nodes come first."""
        there = [key for key in self._catalog.tables if key in self._shown.snapshot.entries]
        wanted = there if types is None else [self._key(name) for name in types]
        return sorted(wanted, key=is_node, reverse=True)

    def describe(self) -> "Description":
        """What the graph holds at this moment; branches and pending operations are those of now.

        Example:
            >>> [(one.name, one.rows) for one in graph.snapshot().describe().types]
            [('Knows', 1), ('Person', 7)]
        """
        from omnigraphdb.api.description import describe

        with self._reading():
            return describe(self._engine, self._view, lambda _: True)

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return self._describe_state().to_dict()

    def _describe_state(self) -> SnapshotState:
        """The table versions, as a value."""
        return SnapshotState(
            branch=self.branch,
            manifest_version=self.manifest_version,
            internal_schema_version=self._view.state.stamp,
            commit=self.commit,
            tables=tuple(
                TableState(
                    table_key=entry.table_key,
                    table_path=entry.at.path,
                    table_version=entry.at.version,
                    table_branch=entry.at.branch,
                    row_count=entry.row_count,
                )
                for entry in self._shown.snapshot.entries.values()
            ),
        )

    def _open(self, type_name: str) -> Table:
        return self._engine.store.tables.open(self._find_entry(self._key(type_name)).at)

    def _order(self, type_name: str, stored: Sequence[str]) -> list[str]:
        """The columns of a type in the order of the schema."""
        return order_columns(self._catalog.tables.get(self._key(type_name)), stored)

    def _find_entry(self, key: TableKey) -> Entry:
        entry = self._shown.snapshot.entries.get(key)
        if entry is None:
            raise NotFound("table", key, hint="the type did not exist yet")
        return entry

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except TableNotFound as error:
            self._refuse_reclaimed(error)
            raise

    def _refuse_reclaimed(self, error: TableNotFound) -> None:
        """Raise `HistoryReclaimed` for a table that was removed and that the branch does not show any more."""
        then = self._view.state.snapshot.entries.values()
        gone = next((entry for entry in then if entry.at.path in error.table), None)
        if gone is not None and not self._is_shown(gone):
            raise HistoryReclaimed(gone.table_key, gone.at.version) from error

    def _translate_reclaimed(self, parts: Iterable[T]) -> Iterator[T]:
        with self._reading():
            yield from parts

    def _translate_reader(self, source: pa.RecordBatchReader) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(source.schema, self._translate_reclaimed(source))

    def _translate_open(self, source: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Refuse to read on when the graph is closed."""
        self._opened.require_open()
        return self._translate_reader(source)

    def _is_shown(self, entry: Entry) -> bool:
        """Whether the branch still shows this table version; a deleted branch counts as showing it."""
        try:
            now = self._opened.manifest.current(self._view.branch).snapshot
        except NotFoundError:
            return True
        return any(one.at == entry.at for one in now.entries.values())

    def _key(self, type_name: str) -> TableKey:
        """The key of a table by the name that its type has now, else by the name it had then."""
        type_name = text_of("type_name", type_name)
        try:
            now = self._view.catalog.table(type_name)
        except NotFound:
            return self._find_past_key(type_name)
        same = (key for key, one in self._catalog.tables.items() if one.type_id == now.type_id)
        return next(same, now.table_key)

    def _find_past_key(self, type_name: str) -> TableKey:
        if self._view.past is None:
            return self._view.catalog.table(type_name).table_key
        try:
            then = self._view.past.catalog.table(type_name)
        except NotFound:
            # What is there now is known better than what was there once.
            return self._view.catalog.table(type_name).table_key
        same = (key for key, one in self._catalog.tables.items() if one.type_id == then.type_id)
        return next(same)

    def close(self) -> None:
        """Let go of the table versions, and close the connections that `duckdb` opened.

        Example:
            >>> snapshot = graph.snapshot(branch="review")
            >>> snapshot.close()
        """
        while self._close:
            self._close.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Snapshot of {self.branch} at {self.commit}>"
