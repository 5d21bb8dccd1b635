"""A past schema as the present one names and orders it: what both have in common is found by its identity."""

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


def order_as_now(then: Contract, now: Contract) -> Contract:
    """The past schema, its properties declared in the order that the present schema text has them in."""
    present = {one.type_id: one for one in now.catalog.tables.values()}

    def order(type_: Stored) -> Stored:
        still = present.get(type_.type_id)
        return type_ if still is None else replace(type_, declared=_order_names(type_, still))

    nodes = {name: order(one) for name, one in then.catalog.nodes.items()}
    edges = {name: order(one) for name, one in then.catalog.edges.items()}
    return replace(then, catalog=replace(then.catalog, nodes=nodes, edges=edges))


def _order_names(then: Declared, now: TableType) -> tuple[str, ...]:
    past = {one.property_id: name for name, one in then.properties.items()}
    found = (past.get(now.properties[name].property_id) for name in now.declared)
    return tuple(name for name in found if name is not None)


def rename_as_now(then: Contract, now: Contract) -> Contract | None:
    """The past schema under the present names of what is still there; what was dropped since keeps its name.

    None if a name that was dropped belongs to something else of that time by now: two would have one name.
    """
    names = _find_names(then.catalog, now.catalog)
    if names.collide:
        return None
    keys: dict[TableKey, TableKey] = {node_key(a): node_key(b) for a, b in names.nodes.items()}
    keys |= {edge_key(a): edge_key(b) for a, b in names.edges.items()}
    stored = {keys[key]: one for key, one in then.stored_tables.items()}
    catalog = _rename_catalog(then.catalog, names)
    try:
        return replace(then, catalog=catalog, stored_tables=stored, retired={})
    except SchemaContractError:
        # A type implements an interface no longer, and one of them renamed a property that they had in common.
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Present names by past ones; those of properties by the identity of their type."""

    nodes: Mapping[str, str]
    edges: Mapping[str, str]
    properties: Mapping[int | None, Mapping[str, str]]

    @property
    def collide(self) -> bool:
        """Whether two things have one name."""
        groups = (self.nodes, self.edges, *self.properties.values())
        return any(len(set(names.values())) < len(names) for names in groups)


def _find_names(then: Catalog, now: Catalog) -> _Names:
    promised = {
        name: _pair_names(one.properties, _list_properties(one, now.interfaces))
        for name, one in then.interfaces.items()
    }
    properties: dict[int | None, Mapping[str, str]] = {
        one.type_id: promised[name] for name, one in then.interfaces.items()
    }
    for node in then.nodes.values():
        # A type that was dropped keeps its promise to an interface that renamed a property.
        asked = {old: new for one in node.implements for old, new in promised[one].items()}
        pairs = _pair_names(node.properties, _list_properties(node, now.nodes))
        properties[node.type_id] = {
            old: asked.get(old, new) if new == old else new for old, new in pairs.items()
        }
    for edge in then.edges.values():
        properties[edge.type_id] = _pair_names(edge.properties, _list_properties(edge, now.edges))
    return _Names(
        nodes=_pair_names(then.nodes, now.nodes),
        edges=_pair_names(then.edges, now.edges),
        properties=properties,
    )


def _list_properties(type_: Declared, now: Mapping[str, T]) -> Mapping[str, Property]:
    """The properties that a past type has now; none if it was dropped."""
    still = next((one for one in now.values() if one.type_id == type_.type_id), None)
    return {} if still is None else still.properties


def _pair_names(
    then: "Mapping[str, T] | Mapping[str, Property]",
    now: "Mapping[str, T] | Mapping[str, Property]",
) -> dict[str, str]:
    """Map past names to present ones; what is no longer there keeps its name."""
    present = {_identity(one): name for name, one in now.items()}
    return {name: present.get(_identity(one), name) for name, one in then.items()}


def _identity(one: "Declared | Property") -> int | None:
    return one.property_id if isinstance(one, Property) else one.type_id


def _rename_catalog(then: Catalog, names: _Names) -> Catalog:
    return Catalog(
        interfaces={name: _rename_type(one, name, names) for name, one in then.interfaces.items()},
        nodes={
            names.nodes[name]: replace(
                _rename_type(one, names.nodes[name], names), ranges=(), checks=()
            )
            for name, one in then.nodes.items()
        },
        edges={
            names.edges[name]: replace(
                _rename_type(one, names.edges[name], names),
                source=names.nodes[one.source],
                target=names.nodes[one.target],
            )
            for name, one in then.edges.items()
        },
    )


def _rename_type(type_: T, name: str, names: _Names) -> T:
    """The same type under other names."""
    own = names.properties[type_.type_id]
    changes: dict[str, object] = {
        "name": name,
        "properties": {
            own[old]: _rename_property(one, own[old], own) for old, one in type_.properties.items()
        },
        "unique": tuple(_rename_columns(one, own) for one in type_.unique),
        "indices": tuple(_rename_columns(one, own) for one in type_.indices),
    }
    if not isinstance(type_, EdgeType) and type_.key is not None:
        changes["key"] = _rename_columns(type_.key, own)
    if not isinstance(type_, Interface):
        changes["declared"] = tuple(own[one] for one in type_.declared)
    return replace(type_, **changes)  # type: ignore[arg-type]


def _rename_property(one: Property, name: str, names: Mapping[str, str]) -> Property:
    embed = one.embed and replace(one.embed, source=names[one.embed.source])
    return replace(one, name=name, embed=embed)


def _rename_columns(group: Columns, names: Mapping[str, str]) -> Columns:
    # The ends of an edge are columns without being properties.
    return replace(group, columns=tuple(sorted(names.get(one, one) for one in group.columns)))


def lasts_whole(then: Contract, now: Contract) -> bool:
    """Whether everything that was declared then is declared still, perhaps under another name."""
    present = {one.type_id: one for one in now.catalog.tables.values()}
    return all(
        one.type_id in present and _is_part(one, present[one.type_id])
        for one in then.catalog.tables.values()
    )


def _is_part(then: TableType, now: TableType) -> bool:
    kept = {one.property_id for one in now.properties.values()}
    if any(one.property_id not in kept for one in then.properties.values()):
        return False
    if isinstance(then, NodeType) and isinstance(now, NodeType):
        return set(then.implements) <= set(now.implements)
    return True
