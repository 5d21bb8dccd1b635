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
    """The source-independent meaning: without order, comments, rename hints and identities."""
    return encode(catalog)


def shape_hash(catalog: Catalog) -> str:
    """The hash of the meaning."""
    return digest(shape_of(catalog))


def digest(document: Any) -> str:
    """Hash a JSON document in its canonical form."""
    return HASH_PREFIX + hashlib.sha256(canonical(document).encode("utf-8")).hexdigest()


def canonical(document: Any) -> str:
    """The compact form with sorted keys."""
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
        "interfaces": [_interface(found, bound) for found in interfaces],
        "nodes": [_node(found, catalog, stored_tables) for found in nodes],
        "edges": [_edge(found, stored_tables) for found in edges],
    }


def links(catalog: Catalog, node: NodeType, property_name: str) -> list[str]:
    """The interfaces of a node type that ask for one of its properties."""
    return [
        name
        for name in sorted(node.implements)
        if property_name in catalog.interfaces[name].properties
    ]


def _present(facts: Json) -> Json:
    """Leave out absent facts, so that absence has one spelling."""
    return {name: value for name, value in facts.items() if value not in (None, [], {}, False)}


def _interface(found: Interface, bound: bool) -> Json:
    head = {"type_id": found.type_id} if bound else {}
    return {
        "name": found.name,
        **head,
        **_present(
            {
                "properties": [_property(p, bound) for p in _in_order(found.properties)],
                "constraints": _constraints(found),
            }
        ),
    }


def _node(
    found: NodeType, catalog: Catalog, stored_tables: Mapping[TableKey, StoredTable] | None
) -> Json:
    return {
        "name": found.name,
        **_identity(found, stored_tables),
        **_present(
            {
                **_metadata(found),
                "implements": sorted(found.implements),
                "properties": [
                    _property(p, stored_tables is not None, links(catalog, found, p.name))
                    for p in _in_order(found.properties)
                ],
                "constraints": _constraints(found),
            }
        ),
    }


def _edge(found: EdgeType, stored_tables: Mapping[TableKey, StoredTable] | None) -> Json:
    low, high = found.cardinality.low, found.cardinality.high
    return {
        "name": found.name,
        **_identity(found, stored_tables),
        "from": found.source,
        "to": found.target,
        "card": {"low": low} | ({} if high is None else {"high": high}),
        **_present(
            {
                **_metadata(found),
                "properties": [
                    _property(p, stored_tables is not None) for p in _in_order(found.properties)
                ],
                "constraints": _constraints(found),
            }
        ),
    }


def _identity(
    found: NodeType | EdgeType, stored_tables: Mapping[TableKey, StoredTable] | None
) -> Json:
    if stored_tables is None:
        return {}
    stored = stored_tables[found.table_key]
    return {
        "type_id": found.type_id,
        "incarnation_id": found.incarnation_id,
        "path": stored.path,
        "incarnation": stored.incarnation,
    }


def _metadata(found: NodeType | EdgeType) -> Json:
    return {
        "description": found.description,
        "instruction": found.instruction,
        "annotations": _annotations(found.annotations),
    }


def _in_order(properties: Mapping[str, Property]) -> list[Property]:
    return [properties[name] for name in sorted(properties)]


def _property(found: Property, bound: bool, satisfies: Iterable[str] = ()) -> Json:
    identity = {"property_id": found.property_id} if bound else {}
    return {
        "name": found.name,
        **identity,
        "type": _type(found.type),
        **_present(
            {
                "description": found.description,
                "embed": _embed(found.embed),
                "annotations": _annotations(found.annotations),
                "satisfies": list(satisfies),
                "inherited": bool(found.inherited_from),
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
        {"name": found.name}
        | ({} if found.value is None else {"value": found.value})
        | ({"keywords": dict(found.keywords)} if found.keywords else {})
        for found in annotations
    )


def _constraints(found: Interface | NodeType | EdgeType) -> list[Json]:
    """Every constraint once; the index that a key implies is not one of its own."""
    key = None if isinstance(found, EdgeType) else found.key
    implied = key.columns if key else None
    written = [_group("key", key)] if key else []
    written += [_group("unique", group) for group in found.unique]
    written += [_group("index", group) for group in found.indices if group.columns != implied]
    if isinstance(found, NodeType):
        written += [
            {"kind": "range", "property": r.property}
            | ({} if r.low is None else {"low": r.low})
            | ({} if r.high is None else {"high": r.high})
            for r in found.ranges
        ]
        written += [
            {"kind": "check", "property": c.property, "pattern": c.pattern} for c in found.checks
        ]
    return _sort_distinct(written)


def _group(kind: str, group: Columns) -> Json:
    return {"kind": kind, "columns": sorted(group.columns), "level": str(group.level)}


def _sort_distinct(documents: Iterable[Json]) -> list[Json]:
    by_text = {canonical(document): document for document in documents}
    return [by_text[text] for text in sorted(by_text)]
