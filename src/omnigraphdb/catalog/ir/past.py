"""An earlier schema as the current one names and orders it: declarations that both have are found by their identity."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.model import (
    Catalog,
    Columns,
    EdgeType,
    Interface,
    NodeType,
    Property,
    TableType,
)
from omnigraphdb.errors import SchemaContractError
from omnigraphdb.ids import TableKey, edge_key, node_key
from omnigraphdb.values import dataclass

T = TypeVar("T", Interface, NodeType, EdgeType)
Stored = TypeVar("Stored", NodeType, EdgeType)
Declared = Interface | NodeType | EdgeType


def order_as_now(earlier: Contract, current: Contract) -> Contract:
    """Return the earlier schema with its properties in the order of the current schema text."""
    current_types = {type_.type_id: type_ for type_ in current.catalog.tables.values()}

    def order(type_: Stored) -> Stored:
        current_type = current_types.get(type_.type_id)
        return (
            type_
            if current_type is None
            else replace(type_, declared=_order_names(type_, current_type))
        )

    nodes = {name: order(node) for name, node in earlier.catalog.nodes.items()}
    edges = {name: order(edge) for name, edge in earlier.catalog.edges.items()}
    return replace(earlier, catalog=replace(earlier.catalog, nodes=nodes, edges=edges))


def _order_names(earlier: Declared, current: TableType) -> tuple[str, ...]:
    earlier_names = {property_.property_id: name for name, property_ in earlier.properties.items()}
    names = (earlier_names.get(current.properties[name].property_id) for name in current.declared)
    return tuple(name for name in names if name is not None)


def rename_as_now(earlier: Contract, current: Contract) -> Contract | None:
    """Return the earlier schema under the current names of its declarations; a dropped declaration keeps its name.

    Return None if a dropped name belongs to another declaration by now: two would have one name.
    """
    names = _find_names(earlier.catalog, current.catalog)
    if names.collide:
        return None
    keys: dict[TableKey, TableKey] = {node_key(a): node_key(b) for a, b in names.nodes.items()}
    keys |= {edge_key(a): edge_key(b) for a, b in names.edges.items()}
    stored = {keys[key]: table for key, table in earlier.stored_tables.items()}
    catalog = _rename_catalog(earlier.catalog, names)
    try:
        return replace(earlier, catalog=catalog, stored_tables=stored, retired={})
    except SchemaContractError:
        # A type no longer implements an interface, and one of them renamed a property that they had in common.
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Current names by earlier ones; the names of properties by the identity of their type."""

    nodes: Mapping[str, str]
    edges: Mapping[str, str]
    properties: Mapping[int | None, Mapping[str, str]]

    @property
    def collide(self) -> bool:
        """Whether two declarations have one name."""
        groups = (self.nodes, self.edges, *self.properties.values())
        return any(len(set(names.values())) < len(names) for names in groups)


def _find_names(earlier: Catalog, current: Catalog) -> _Names:
    promised = {
        name: _pair_names(interface.properties, _list_properties(interface, current.interfaces))
        for name, interface in earlier.interfaces.items()
    }
    properties: dict[int | None, Mapping[str, str]] = {
        interface.type_id: promised[name] for name, interface in earlier.interfaces.items()
    }
    for node in earlier.nodes.values():
        # A type that was dropped keeps its promise to an interface that renamed a property.
        promised_names = {
            old: new
            for interface_name in node.implements
            for old, new in promised[interface_name].items()
        }
        pairs = _pair_names(node.properties, _list_properties(node, current.nodes))
        properties[node.type_id] = {
            old: promised_names.get(old, new) if new == old else new for old, new in pairs.items()
        }
    for edge in earlier.edges.values():
        properties[edge.type_id] = _pair_names(
            edge.properties, _list_properties(edge, current.edges)
        )
    return _Names(
        nodes=_pair_names(earlier.nodes, current.nodes),
        edges=_pair_names(earlier.edges, current.edges),
        properties=properties,
    )


def _list_properties(type_: Declared, current: Mapping[str, T]) -> Mapping[str, Property]:
    """Return the properties that an earlier type has now; none if it was dropped."""
    current_type = next(
        (candidate for candidate in current.values() if candidate.type_id == type_.type_id), None
    )
    return {} if current_type is None else current_type.properties


def _pair_names(
    earlier: "Mapping[str, T] | Mapping[str, Property]",
    current: "Mapping[str, T] | Mapping[str, Property]",
) -> dict[str, str]:
    """Map earlier names to current ones; a declaration that was dropped keeps its name."""
    current_names = {_identity(declaration): name for name, declaration in current.items()}
    return {
        name: current_names.get(_identity(declaration), name)
        for name, declaration in earlier.items()
    }


def _identity(declaration: "Declared | Property") -> int | None:
    return declaration.property_id if isinstance(declaration, Property) else declaration.type_id


def _rename_catalog(earlier: Catalog, names: _Names) -> Catalog:
    return Catalog(
        interfaces={
            name: _rename_type(interface, name, names)
            for name, interface in earlier.interfaces.items()
        },
        nodes={
            names.nodes[name]: replace(
                _rename_type(node, names.nodes[name], names), ranges=(), checks=()
            )
            for name, node in earlier.nodes.items()
        },
        edges={
            names.edges[name]: replace(
                _rename_type(edge, names.edges[name], names),
                source=names.nodes[edge.source],
                target=names.nodes[edge.target],
            )
            for name, edge in earlier.edges.items()
        },
    )


def _rename_type(type_: T, name: str, names: _Names) -> T:
    """Return the same type under other names."""
    own = names.properties[type_.type_id]
    changes: dict[str, object] = {
        "name": name,
        "properties": {
            own[old]: _rename_property(property_, own[old], own)
            for old, property_ in type_.properties.items()
        },
        "unique": tuple(_rename_columns(group, own) for group in type_.unique),
        "indices": tuple(_rename_columns(group, own) for group in type_.indices),
    }
    if not isinstance(type_, EdgeType) and type_.key is not None:
        changes["key"] = _rename_columns(type_.key, own)
    if not isinstance(type_, Interface):
        changes["declared"] = tuple(own[property_name] for property_name in type_.declared)
    return replace(type_, **changes)  # type: ignore[arg-type]


def _rename_property(property_: Property, name: str, names: Mapping[str, str]) -> Property:
    embed = property_.embed and replace(property_.embed, source=names[property_.embed.source])
    return replace(property_, name=name, embed=embed)


def _rename_columns(group: Columns, names: Mapping[str, str]) -> Columns:
    # The ends of an edge are columns without being properties.
    return replace(
        group, columns=tuple(sorted(names.get(column, column) for column in group.columns))
    )


def is_unchanged_since(earlier: Contract, current: Contract) -> bool:
    """Whether every declaration of an earlier schema is still there, perhaps under another name."""
    current_types = {type_.type_id: type_ for type_ in current.catalog.tables.values()}
    return all(
        type_.type_id in current_types and _is_part(type_, current_types[type_.type_id])
        for type_ in earlier.catalog.tables.values()
    )


def _is_part(earlier: TableType, current: TableType) -> bool:
    current_ids = {property_.property_id for property_ in current.properties.values()}
    if any(property_.property_id not in current_ids for property_ in earlier.properties.values()):
        return False
    if isinstance(earlier, NodeType) and isinstance(current, NodeType):
        return set(earlier.implements) <= set(current.implements)
    return True
