"""The meaning of a schema as JSON, the same for every way to write it, and its hash."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraphdb.catalog.model import (
    Annotation,
    Catalog,
    Columns,
    EdgeType,
    Embed,
    Interface,
    NodeType,
    Property,
)
from omnigraphdb.catalog.names import StoredTable
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.ids import TableKey

Json = dict[str, Any]

HASH_PREFIX = "sha256:"


def shape_of(catalog: Catalog) -> Json:
    """Reduce a catalog to its meaning: without order, comments, rename hints and identities."""
    return encode(catalog)


def shape_hash(catalog: Catalog) -> str:
    """Hash the meaning of a catalog."""
    return digest(shape_of(catalog))


def digest(document: Any) -> str:
    """Hash a JSON document in its canonical form."""
    return HASH_PREFIX + hashlib.sha256(canonical(document).encode("utf-8")).hexdigest()


def canonical(document: Any) -> str:
    """Write a document in its compact form with sorted keys."""
    return json.dumps(
        document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )


def encode(catalog: Catalog, stored_tables: Mapping[TableKey, StoredTable] | None = None) -> Json:
    """Write declarations sorted by name; with stored tables also the identities and paths they have."""
    bound = stored_tables is not None
    interfaces = [catalog.interfaces[name] for name in sorted(catalog.interfaces)]
    nodes = [catalog.nodes[name] for name in sorted(catalog.nodes)]
    edges = [catalog.edges[name] for name in sorted(catalog.edges)]
    return {
        "interfaces": [_interface(interface, bound) for interface in interfaces],
        "nodes": [_node(node, catalog, stored_tables) for node in nodes],
        "edges": [_edge(edge, stored_tables) for edge in edges],
    }


def links(catalog: Catalog, node: NodeType, property_name: str) -> list[str]:
    """List the interfaces of a node type that ask for one of its properties."""
    return [
        name
        for name in sorted(node.implements)
        if property_name in catalog.interfaces[name].properties
    ]


def _present(facts: Json) -> Json:
    """Leave out absent facts, so that absence has one spelling."""
    return {name: value for name, value in facts.items() if value not in (None, [], {}, False)}


def _interface(interface: Interface, bound: bool) -> Json:
    head = {"type_id": interface.type_id} if bound else {}
    return {
        "name": interface.name,
        **head,
        **_present(
            {
                "properties": [_property(p, bound) for p in _in_order(interface.properties)],
                "constraints": _constraints(interface),
            }
        ),
    }


def _node(
    node: NodeType, catalog: Catalog, stored_tables: Mapping[TableKey, StoredTable] | None
) -> Json:
    return {
        "name": node.name,
        **_identity(node, stored_tables),
        **_present(
            {
                **_metadata(node),
                "implements": sorted(node.implements),
                "properties": [
                    _property(p, stored_tables is not None, links(catalog, node, p.name))
                    for p in _in_order(node.properties)
                ],
                "constraints": _constraints(node),
            }
        ),
    }


def _edge(edge: EdgeType, stored_tables: Mapping[TableKey, StoredTable] | None) -> Json:
    low, high = edge.cardinality.low, edge.cardinality.high
    return {
        "name": edge.name,
        **_identity(edge, stored_tables),
        "from": edge.source,
        "to": edge.target,
        "card": {"low": low} | ({} if high is None else {"high": high}),
        **_present(
            {
                **_metadata(edge),
                "properties": [
                    _property(p, stored_tables is not None) for p in _in_order(edge.properties)
                ],
                "constraints": _constraints(edge),
            }
        ),
    }


def _identity(
    type_: NodeType | EdgeType, stored_tables: Mapping[TableKey, StoredTable] | None
) -> Json:
    if stored_tables is None:
        return {}
    stored = stored_tables[type_.table_key]
    return {
        "type_id": type_.type_id,
        "incarnation_id": type_.incarnation_id,
        "path": stored.path,
        "incarnation": stored.incarnation,
    }


def _metadata(type_: NodeType | EdgeType) -> Json:
    return {
        "description": type_.description,
        "instruction": type_.instruction,
        "annotations": _annotations(type_.annotations),
    }


def _in_order(properties: Mapping[str, Property]) -> list[Property]:
    return [properties[name] for name in sorted(properties)]


def _property(property_: Property, bound: bool, satisfies: Iterable[str] = ()) -> Json:
    identity = {"property_id": property_.property_id} if bound else {}
    return {
        "name": property_.name,
        **identity,
        "type": _type(property_.type),
        **_present(
            {
                "description": property_.description,
                "embed": _embed(property_.embed),
                "annotations": _annotations(property_.annotations),
                "satisfies": list(satisfies),
                "inherited": bool(property_.inherited_from),
            }
        ),
    }


def _type(type_: PropertyType) -> Json:
    return {
        "scalar": str(type_.scalar),
        **_present(
            {
                "nullable": type_.nullable,
                "list": type_.is_list,
                "values": sorted(type_.enum_values),
                "dimension": type_.dimension,
            }
        ),
    }


def _embed(embed: Embed | None) -> Json | None:
    if embed is None:
        return None
    return {"source": embed.source} | ({} if embed.model is None else {"model": embed.model})


def _annotations(annotations: Iterable[Annotation]) -> list[Json]:
    return _sort_distinct(
        {"name": annotation.name}
        | ({} if annotation.value is None else {"value": annotation.value})
        | ({"keywords": dict(annotation.keywords)} if annotation.keywords else {})
        for annotation in annotations
    )


def _constraints(type_: Interface | NodeType | EdgeType) -> list[Json]:
    """List every constraint once; the index that a key implies is part of the key."""
    key = None if isinstance(type_, EdgeType) else type_.key
    implied = key.columns if key else None
    written = [_group("key", key)] if key else []
    written += [_group("unique", group) for group in type_.unique]
    written += [_group("index", group) for group in type_.indices if group.columns != implied]
    if isinstance(type_, NodeType):
        written += [
            {"kind": "range", "property": r.property}
            | ({} if r.low is None else {"low": r.low})
            | ({} if r.high is None else {"high": r.high})
            for r in type_.ranges
        ]
        written += [
            {"kind": "check", "property": c.property, "pattern": c.pattern} for c in type_.checks
        ]
    return _sort_distinct(written)


def _group(kind: str, group: Columns) -> Json:
    return {"kind": kind, "columns": sorted(group.columns), "level": str(group.level)}


def _sort_distinct(documents: Iterable[Json]) -> list[Json]:
    by_text = {canonical(document): document for document in documents}
    return [by_text[text] for text in sorted(by_text)]
