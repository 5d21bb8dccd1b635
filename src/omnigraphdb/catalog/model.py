"""The compiled schema that every other component works from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.display import Displayable, Report
from omnigraphdb.errors import NotFound
from omnigraphdb.ids import TableKey, edge_key, node_key
from omnigraphdb.later import Later
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraphdb.catalog import drawing
else:
    pa = Later("pyarrow")
    drawing = Later("omnigraphdb.catalog.drawing")

T = TypeVar("T", "NodeType", "EdgeType")

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Level(StrEnum):
    """The level at which a constraint was written; moving between the two is a schema change."""

    PROPERTY = "property"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class Columns:
    """A key, unique or index group: columns sorted by name, and how it was spelled."""

    columns: tuple[str, ...]
    level: Level = Level.BODY

    @property
    def display(self) -> str:
        """`a`, or `(a, b)`."""
        return self.columns[0] if len(self.columns) == 1 else f"({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Inclusive bounds of a number; an open side is None."""

    property: str
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A pattern that must be found somewhere in a text (RE2)."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Embed:
    """This vector holds embeddings of `source`, perhaps of one model only."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cardinality:
    """Bounds on the number of edges of one type that leave one source."""

    low: int = 0
    high: int | None = None

    @property
    def is_free(self) -> bool:
        """Whether there is nothing to check."""
        return self.low == 0 and self.high is None

    @property
    def display(self) -> str:
        """`@card(1..2)`, or nothing when there is nothing to check."""
        return (
            "" if self.is_free else f"@card({self.low}..{'' if self.high is None else self.high})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An opaque annotation, kept verbatim: value as written, keywords sorted."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One declared or inherited property."""

    name: str
    type: PropertyType
    description: str | None = None
    embed: Embed | None = None
    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None
    inherited_from: tuple[str, ...] = ()
    property_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """Properties a node type may promise; never a table. Constraints are those its properties carry."""

    name: str
    properties: Mapping[str, Property] = field(default_factory=lambda: EMPTY)
    key: Columns | None = None
    unique: tuple[Columns, ...] = ()
    indices: tuple[Columns, ...] = ()
    type_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class NodeType:
    """One node table. `properties` are in name order: own and inherited."""

    name: str
    properties: Mapping[str, Property] = field(default_factory=lambda: EMPTY)
    implements: tuple[str, ...] = ()
    key: Columns | None = None
    unique: tuple[Columns, ...] = ()
    indices: tuple[Columns, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None
    type_id: int | None = None
    incarnation_id: int | None = None
    declared: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The properties in the order of the schema text, for display; the order is not part of the type."""

    @cached_property
    def table_key(self) -> TableKey:
        """The key of its table."""
        return node_key(self.name)

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        """Key properties in the order their texts form the id: by property id, else by name."""
        if self.key is None:
            return ()
        return tuple(sorted(self.key.columns, key=self._key_order))

    @property
    def key_type(self) -> PropertyType | None:
        """The type of its key, when one property is the key: a value of that type stands for an id."""
        names = self.key_columns
        return self.properties[names[0]].type.required() if len(names) == 1 else None

    def _key_order(self, name: str) -> tuple[int, str]:
        identity = self.properties[name].property_id
        return (identity if identity is not None else 0, name)

    @cached_property
    def schema(self) -> pa.Schema:
        """The logical Arrow schema: `id`, then properties in name order; a Blob is large_binary."""
        return pa.schema([pa.field("id", pa.string(), nullable=False), *_fields(self.properties)])


@dataclass(frozen=True, kw_only=True)
class EdgeType:
    """One edge table from node type `source` to node type `target`."""

    name: str
    source: str
    target: str
    properties: Mapping[str, Property] = field(default_factory=lambda: EMPTY)
    cardinality: Cardinality = field(default_factory=Cardinality)
    unique: tuple[Columns, ...] = ()
    indices: tuple[Columns, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()
    rename_from: str | None = None
    type_id: int | None = None
    incarnation_id: int | None = None
    declared: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The properties in the order of the schema text, for display; the order is not part of the type."""

    @cached_property
    def table_key(self) -> TableKey:
        """The key of its table."""
        return edge_key(self.name)

    @cached_property
    def schema(self) -> pa.Schema:
        """The logical Arrow schema: `id`, `src`, `dst`, then properties in name order."""
        ends = [pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")]
        return pa.schema([*ends, *_fields(self.properties)])


TableType = NodeType | EdgeType


def order_columns(type_: TableType | None, names: Iterable[str]) -> list[str]:
    """Order the columns of a type as people see them: id and ends, properties as declared, others by name.

    The columns of a type that the schema does not know stay as they are stored.
    """
    if type_ is None:
        return list(names)
    ends = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
    positions = {name: position for position, name in enumerate((*ends, *type_.declared))}
    return sorted(names, key=lambda name: (positions.get(name, len(positions)), name))


def _fields(properties: Mapping[str, Property]) -> list[pa.Field]:
    return [
        pa.field(name, properties[name].type.arrow, nullable=properties[name].type.nullable)
        for name in sorted(properties)
    ]


@dataclass(frozen=True, kw_only=True)
class Catalog(Displayable):
    """All types of a graph, by name. Unbound (no identities) when built from text alone."""

    interfaces: Mapping[str, Interface] = field(default_factory=lambda: EMPTY)
    nodes: Mapping[str, NodeType] = field(default_factory=lambda: EMPTY)
    edges: Mapping[str, EdgeType] = field(default_factory=lambda: EMPTY)

    def in_order_of(self, written: Catalog) -> Catalog:
        """Return the same catalog, its properties declared in the order that a schema text has them in."""
        nodes = {n: _declare_as(node, written.nodes.get(n)) for n, node in self.nodes.items()}
        edges = {n: _declare_as(edge, written.edges.get(n)) for n, edge in self.edges.items()}
        return replace(self, nodes=nodes, edges=edges)

    def end_key_type(self, edge: EdgeType, end: str) -> PropertyType | None:
        """Return the type of the key of the nodes at an end, `src` or `dst`, of an edge."""
        return self.nodes[edge.source if end == "src" else edge.target].key_type

    @cached_property
    def tables(self) -> Mapping[TableKey, TableType]:
        """Every node and edge type by table key, in key order."""
        types: dict[TableKey, TableType] = {n.table_key: n for n in self.nodes.values()}
        types |= {e.table_key: e for e in self.edges.values()}
        return {key: types[key] for key in sorted(types)}

    @cached_property
    def _folded_edges(self) -> Mapping[str, str]:
        return {name.lower(): name for name in self.edges}

    def edge(self, word: str) -> EdgeType | None:
        """Find an edge type by exact name, else ignoring case."""
        edge = self.edges.get(word)
        return edge or self.edges.get(self._folded_edges.get(word.lower(), ""))

    def incident(self, node_type: str) -> tuple[EdgeType, ...]:
        """Edge types with that node type at either end, by name."""
        return tuple(
            self.edges[name]
            for name in sorted(self.edges)
            if node_type in (self.edges[name].source, self.edges[name].target)
        )

    def table(self, name: str) -> TableType:
        """Find a type by table key, node name or edge name; unknown is NotFound with a suggestion."""
        key = TableKey(name)
        if key in self.tables:
            return self.tables[key]
        type_ = self.nodes.get(name) or self.edge(name)
        if type_ is None:
            raise NotFound("type", name, known=[*self.nodes, *self.edges])
        return type_

    def _report(self) -> Report:
        """Draw the properties of every type, with their rules."""
        return drawing.make_sheet(self._shapes())

    def to_mermaid(self) -> str:
        """Draw the schema as a Mermaid class diagram: a box for each node type, an arrow for each edge type."""
        return drawing.draw_mermaid(self._shapes())

    def _shapes(self) -> list[drawing.Shape]:
        nodes = [
            drawing.Shape(
                name=name, properties=_shape_properties(node), note=_name_interfaces(node)
            )
            for name, node in self.nodes.items()
        ]
        edges = [
            drawing.Shape(
                name=name,
                properties=_shape_properties(edge),
                ends=(edge.source, edge.target),
                note=edge.cardinality.display,
            )
            for name, edge in self.edges.items()
        ]
        return nodes + edges


def _declare_as(type_: T, written: T | None) -> T:
    return type_ if written is None else replace(type_, declared=written.declared)


def _name_interfaces(type_: NodeType) -> str:
    return f"implements {', '.join(type_.implements)}" if type_.implements else ""


def _shape_properties(type_: TableType) -> list[tuple[str, str, str]]:
    properties = type_.properties
    return [
        (name, properties[name].type.display, ", ".join(_list_rules(type_, properties[name])))
        for name in order_columns(type_, properties)
    ]


def _list_rules(type_: TableType, property_: Property) -> Iterator[str]:
    """Yield the constraints that a property is part of, in words of the schema language."""
    if isinstance(type_, NodeType):
        if type_.key is not None and property_.name in type_.key.columns:
            yield _spell_group("@key", type_.key)
        for range_ in type_.ranges:
            if range_.property == property_.name:
                yield f"@range({_spell_bound(range_.low)}..{_spell_bound(range_.high)})"
        for check in type_.checks:
            if check.property == property_.name:
                yield f"@check({check.pattern})"
    yield from (
        _spell_group("@unique", group) for group in type_.unique if property_.name in group.columns
    )
    yield from (
        _spell_group("@index", group) for group in type_.indices if property_.name in group.columns
    )
    if property_.embed is not None:
        yield f"@embed({property_.embed.source})"


def _spell_group(word: str, group: Columns) -> str:
    return word if len(group.columns) == 1 else f"{word}{group.display}"


def _spell_bound(bound: float | None) -> str:
    return "" if bound is None else str(bound)


__all__ = [
    "Annotation", "Cardinality", "Catalog", "Check", "Columns", "EdgeType", "Embed", "Interface",
    "Level", "NodeType", "Property", "Range", "Scalar", "TableType", "order_columns",
]  # fmt: skip
