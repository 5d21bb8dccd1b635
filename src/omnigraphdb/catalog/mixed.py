"""Mixed types: the type of a variable that may be an entity of several types, named `Port|Vessel`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType, Property, TableType

_SIGN = "|"


def join_types(names: Iterable[str]) -> str:
    """Name several types as one; one type keeps its name."""
    return _SIGN.join(sorted(set(names)))


def split_types(name: str) -> tuple[str, ...]:
    """List the types that a name stands for."""
    return tuple(name.split(_SIGN))


def is_mixed(name: str) -> bool:
    """Whether a name stands for several types."""
    return _SIGN in name


def list_implementing(catalog: Catalog, interface: str) -> tuple[str, ...]:
    """List the node types that implement an interface."""
    return tuple(n for n, node in sorted(catalog.nodes.items()) if interface in node.implements)


def find_node_type(catalog: Catalog, name: str) -> NodeType:
    """Find a node type; a mixed one has the properties that all of its types have."""
    if not is_mixed(name):
        return catalog.nodes[name]
    types = [catalog.nodes[type_name] for type_name in split_types(name)]
    shared = _share_properties(types)
    return NodeType(name=name, properties=shared, declared=types[0].declared)


def find_edge_type(catalog: Catalog, name: str) -> EdgeType:
    """Find an edge type; a mixed one has the properties that all of its types have, and no ends of its own."""
    if not is_mixed(name):
        return catalog.edges[name]
    types = [catalog.edges[type_name] for type_name in split_types(name)]
    shared, declared = _share_properties(types), types[0].declared
    return EdgeType(name=name, source="", target="", properties=shared, declared=declared)


def _share_properties(types: Sequence[TableType]) -> Mapping[str, Property]:
    """Find the properties of equal type; a property that is optional in one type is optional."""
    shared: dict[str, Property] = {}
    for name in types[0].properties:
        kinds = [other.properties[name].type for other in types if name in other.properties]
        plain = {replace(kind, nullable=True, enum_values=()) for kind in kinds}
        if len(kinds) == len(types) and len(plain) == 1:
            enums = {kind.enum_values for kind in kinds}
            enum_values = kinds[0].enum_values if len(enums) == 1 else ()
            nullable = any(kind.nullable for kind in kinds)
            type_ = replace(kinds[0], nullable=nullable, enum_values=enum_values)
            shared[name] = Property(name=name, type=type_)
    return shared


def number_types(catalog: Catalog, of_nodes: bool) -> tuple[str, ...]:
    """List the types of a kind; the place of a type is its number in entities of mixed types."""
    return tuple(sorted(catalog.nodes if of_nodes else catalog.edges))


def list_steps(catalog: Catalog, source: str, target: str) -> tuple[EdgeType, ...]:
    """List the edge types that connect an entity of one, perhaps mixed, type with one of another, in either direction."""
    near, far = frozenset(split_types(source)), frozenset(split_types(target))
    return tuple(
        edge
        for _, edge in sorted(catalog.edges.items())
        if (edge.source in near and edge.target in far)
        or (edge.source in far and edge.target in near)
    )
