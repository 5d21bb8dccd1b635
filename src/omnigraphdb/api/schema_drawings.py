"""The types of a graph to be drawn: nodes and edges of a picture, with their properties, rows and indexes."""

from collections.abc import Iterator
from dataclasses import field

from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.engine.description import TypeDescription
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyShape(Value):
    """One property of a type."""

    name: str
    type: str
    optional: bool
    key: bool
    unique: bool
    indexed: bool
    coverage: float | None
    """The part of the rows that the index covers; None without an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeShape(Value):
    """One type; an edge type tells which types it joins."""

    kind: str
    name: str
    rows: int
    bytes: int
    fragments: int
    description: str | None
    properties: tuple[PropertyShape, ...]
    source: str | None = field(default=None, metadata=wire("from", omit=True))
    target: str | None = field(default=None, metadata=wire("to", omit=True))
    cardinality: str | None = field(default=None, metadata=wire(omit=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaGraph(Value):
    """The types of a graph at one commit."""

    commit: str | None = field(metadata=wire("graph_commit_id"))
    types: tuple[TypeShape, ...]


def draw_schema(snapshot: Snapshot, catalog: Catalog) -> SchemaGraph:
    """Describe the types of a catalog as they are in a snapshot."""
    described = {type_.table_key: type_ for type_ in snapshot.describe().types}
    return SchemaGraph(
        commit=snapshot.commit,
        types=tuple(
            _describe_type(catalog.tables[key], described[key])
            for key in sorted(catalog.tables)
            if key in described
        ),
    )


def _describe_type(type_: TableType, description: TypeDescription) -> TypeShape:
    edge = type_ if isinstance(type_, EdgeType) else None
    return TypeShape(
        kind="node" if edge is None else "edge",
        name=type_.name,
        rows=description.rows,
        bytes=description.bytes,
        fragments=description.fragments,
        description=type_.description,
        properties=tuple(_list_properties(type_, description)),
        source=None if edge is None else edge.source,
        target=None if edge is None else edge.target,
        cardinality=None if edge is None else edge.cardinality.display,
    )


def _list_properties(type_: TableType, description: TypeDescription) -> Iterator[PropertyShape]:
    indexes = {index.column: index for index in description.indexes}
    unique = {rule.columns[0] for rule in type_.unique if len(rule.columns) == 1}
    key = () if isinstance(type_, EdgeType) else type_.key_columns
    for name in type_.declared or tuple(type_.properties):
        type_of_values = type_.properties[name].type
        index = indexes.get(name)
        coverage = None
        if index is not None:
            coverage = index.rows_indexed / index.rows if index.rows else 1.0
        yield PropertyShape(
            name=name,
            type=str(type_of_values.required()),
            optional=type_of_values.nullable,
            key=name in key,
            unique=name in unique,
            indexed=index is not None,
            coverage=coverage,
        )
