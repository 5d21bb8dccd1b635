"""The reads of a graph that answer with one value: its schema, a snapshot, an entity, paths between nodes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from omnigraphdb.api.arguments import Reference, names_of
from omnigraphdb.api.results import Entity, SchemaText, SnapshotState, TableState
from omnigraphdb.api.rights import CallKind
from omnigraphdb.api.verbs.argument import (
    Count,
    CountFromOne,
    EntityId,
    Flag,
    OwnBranch,
    Point,
    Text,
    arg,
    arguments,
)
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Calls, Endpoint, Method, Verb
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.values import replace

if TYPE_CHECKING:
    from omnigraphdb.api import types
    from omnigraphdb.api.paths import EntityPath, Paths
    from omnigraphdb.api.schema_drawings import SchemaGraph
    from omnigraphdb.api.snapshot import Snapshot
    from omnigraphdb.api.verbs.handle import Handle

_HELP_BRANCH = "The branch; main by default."
_HELP_AT = "A commit or a manifest version of the branch."


def _scope(graph: "Handle", asked: Any) -> Mapping[str, str | None]:
    return {"branch": graph._target(asked.branch, "read")}


# ---- schema


@arguments
class SchemaShow:
    """The schema to show: that of now."""


def _run_schema(graph: "Handle", _asked: SchemaShow, _call: Call) -> SchemaText:
    return SchemaText(schema_source=graph._engine.contracts.current().source)


SHOW_SCHEMA = Verb(
    arguments=SchemaShow,
    result="omnigraphdb.api.results:SchemaText",
    run=_run_schema,
    kind=CallKind.READ,
    scope=lambda _graph, _asked: {"branch": MAIN},
    summary="Show the schema text",
    endpoint=Endpoint(method=Method.GET, path="/schema", operation="getSchema"),
)


# ---- snapshot


@arguments
class SnapshotShow:
    """The state whose tables are shown."""

    branch: OwnBranch = arg(_HELP_BRANCH, default=None)
    at: Point = arg(_HELP_AT, default=None)


def _run_snapshot(graph: "Handle", asked: SnapshotShow, call: Call) -> SnapshotState:
    state = graph.snapshot(branch=asked.branch, at=asked.at)._describe_state()
    return replace(state, tables=tuple(_hide_branch(table, call) for table in state.tables))


def _hide_branch(table: TableState, call: Call) -> TableState:
    """Leave out the branch that has a table where the caller may not see it."""
    owner = table.table_branch
    return table if owner is None or call.may_show(owner) else replace(table, table_branch=None)


SHOW_SNAPSHOT = Verb(
    arguments=SnapshotShow,
    result="omnigraphdb.api.results:SnapshotState",
    run=_run_snapshot,
    kind=CallKind.READ,
    scope=_scope,
    summary="Show the table versions that are visible together",
    endpoint=Endpoint(method=Method.GET, path="/snapshot", operation="snapshot", statuses=(410,)),
)


# ---- entity


@arguments
class EntityShow:
    """An entity to show."""

    type_name: Text = arg("The type of the entity.", wire="type")
    id: EntityId = arg("Its id, or the value of its key.", of="type_name")
    branch: OwnBranch = arg(_HELP_BRANCH, default=None)
    at: Point = arg(_HELP_AT, default=None)


def _run_entity(graph: "Handle", asked: EntityShow, _call: Call) -> Entity:
    row = graph._read(asked.branch, asked.at, lambda seen: seen.entity(asked.type_name, asked.id))
    if row is None:
        raise NotFound("entity", f"{asked.type_name} {asked.id}")
    return Entity(type_name=asked.type_name, entity=row)


SHOW_ENTITY = Verb(
    arguments=EntityShow,
    result="omnigraphdb.api.results:Entity",
    run=_run_entity,
    kind=CallKind.READ,
    scope=_scope,
    summary="Show the properties of one entity",
    endpoint=Endpoint(method=Method.GET, path="/entity", operation="getEntity", statuses=(410,)),
)


# ---- paths


def _edge_types_of(name: str, value: object) -> tuple[str, ...] | None:
    """Names of edge types; a query string cannot tell an empty list from none."""
    names = names_of(name, value)
    if names == ():
        raise UserInputError(f"'{name}' names no edge type; nothing was read")
    return names


EdgeTypes = Annotated[tuple[str, ...], _edge_types_of]


_PATHS_MAX: Final = 10
"""Paths of an answer of a server, whatever a request asks for."""


def _cut_paths(_name: str, count: int) -> int:
    return min(count, _PATHS_MAX)


@arguments
class PathsList:
    """Two nodes, and the paths between them."""

    from_type: Text = arg("The type of the nodes.", wire="type")
    from_id: EntityId = arg(
        "The id of the first node, or the value of its key.", wire="from", of="from_type"
    )
    to_id: EntityId = arg(
        "The id of the last node, or the value of its key.", wire="to", of="to_type"
    )
    to_type: Text | None = arg(
        "The type of the last node, if it is named at all: that of the first.", default=None
    )
    edges: EdgeTypes | None = arg(
        "Edge types to walk; all between nodes of the type by default.", wire="edge", default=None
    )
    by: Text | None = arg(
        "The property of edges that a path costs; its hops by default.", default=None
    )
    undirected: Flag = arg("`true` to walk edges either way.", default=False)
    hops_max: Count = arg("Hops of a path at most; 8.", wire="hops", default=8)
    best: CountFromOne = arg(
        "Paths at most, the best first; 1, and 10 at most.", default=1, served=_cut_paths
    )
    branch: OwnBranch = arg(_HELP_BRANCH, default=None)
    at: Point = arg(_HELP_AT, default=None)


def _run_paths(graph: "Handle", asked: PathsList, _call: Call) -> "Paths":
    from omnigraphdb.api.paths import Paths

    def read(seen: "Snapshot") -> Paths:
        paths = seen.list_paths(
            asked.from_type,
            asked.from_id,
            asked.from_type if asked.to_type is None else asked.to_type,
            asked.to_id,
            edges=asked.edges,
            by=asked.by,
            undirected=asked.undirected,
            hops_max=asked.hops_max,
            best=asked.best,
        )
        return Paths(commit=seen.commit, paths=paths)

    return graph._read(asked.branch, asked.at, read)


LIST_PATHS = Verb(
    arguments=PathsList,
    result="omnigraphdb.api.paths:Paths",
    run=_run_paths,
    kind=CallKind.READ,
    scope=_scope,
    summary="Show the best paths between two nodes",
    endpoint=Endpoint(method=Method.GET, path="/paths", operation="listPaths", statuses=(410, 413)),
)

# ---- types


@arguments
class SchemaDraw:
    """The state whose types are drawn."""

    branch: OwnBranch = arg(_HELP_BRANCH, default=None)
    at: Point = arg(_HELP_AT, default=None)


def _run_drawing(graph: "Handle", asked: SchemaDraw, _call: Call) -> "SchemaGraph":
    from omnigraphdb.api.schema_drawings import draw_schema

    return graph._read(asked.branch, asked.at, lambda seen: draw_schema(seen, graph.catalog))


DRAW_SCHEMA = Verb(
    arguments=SchemaDraw,
    result="omnigraphdb.api.schema_drawings:SchemaGraph",
    run=_run_drawing,
    kind=CallKind.READ,
    scope=_scope,
    summary="Show the types with their rows, properties and indexes",
    endpoint=Endpoint(
        method=Method.GET, path="/schema/graph", operation="drawSchema", statuses=(410,)
    ),
)

READ_VERBS: tuple[Verb[Any, Any], ...] = (
    SHOW_SCHEMA,
    SHOW_SNAPSHOT,
    SHOW_ENTITY,
    LIST_PATHS,
    DRAW_SCHEMA,
)


# ---- methods


class ReadVerbs(Calls):
    """The reads of a graph that answer with one value."""

    @property
    def schema_source(self) -> str:
        """The schema text."""
        return self._call(SHOW_SCHEMA, SchemaShow()).schema_source

    def entity(
        self,
        type_name: str,
        id: "types.EntityId",
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
        asked = EntityShow(type_name=type_name, id=id, branch=branch, at=at)
        try:
            return self._call(SHOW_ENTITY, asked).entity
        except NotFound as error:
            if error.details.get("missing", {}).get("what") != "entity":
                raise
            return None

    def path(
        self,
        from_type: str,
        from_id: "types.EntityId",
        to_type: str,
        to_id: "types.EntityId",
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
        asked = PathsList(
            from_type=from_type,
            from_id=from_id,
            to_type=to_type,
            to_id=to_id,
            edges=edges,  # type: ignore[arg-type]
            by=by,
            undirected=undirected,
            hops_max=hops_max,
            branch=branch,
            at=at,
        )
        return next(iter(self._call(LIST_PATHS, asked).paths), None)
