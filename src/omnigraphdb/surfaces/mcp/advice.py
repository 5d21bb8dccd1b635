"""What a model is told when a call fails: what is wrong, what to change, and where we can the call as it should be."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from omnigraphdb.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraphdb.catalog.resolve.schema import compile_schema
from omnigraphdb.catalog.types import Scalar
from omnigraphdb.errors import OmniError
from omnigraphdb.language.query.parse import parse_queries
from omnigraphdb.language.source import Source

_SAMPLES: Final[Mapping[Scalar, Any]] = {
    Scalar.STRING: "text",
    Scalar.BLOB: "base64:aGk=",
    Scalar.BOOL: True,
    Scalar.F32: 0.5,
    Scalar.F64: 0.5,
    Scalar.DATE: "2026-01-31",
    Scalar.DATETIME: "2026-01-31T10:00:00Z",
}


def describe_failure(
    error: OmniError, tool: str, given: Mapping[str, Any], schema: str | None
) -> dict[str, Any]:
    """The failure as an object: the error in our words, and a call that would be right."""
    body = error.to_dict()
    corrected = _correct(body, tool, given, schema)
    return body | ({} if corrected is None else {"try": corrected})


def word_failure(body: Mapping[str, Any]) -> str:
    """The failure as text."""
    lines = [f"error: {body['error']}"]
    if body.get("hint"):
        lines.append(f"hint: {body['hint']}")
    if "try" in body:
        lines.append(f"try: {json.dumps(body['try'], ensure_ascii=False)}")
    return "\n".join(lines)


def _correct(
    body: Mapping[str, Any], tool: str, given: Mapping[str, Any], schema: str | None
) -> dict[str, Any] | None:
    text = given.get("query")
    if body["kind"] == "param_error":
        return _correct_params(body["param"], tool, given)
    if body["kind"] != "query_error" or not isinstance(text, str):
        return _show_load(tool, schema)
    other = {"query": "mutate", "mutate": "query"}.get(tool)
    if other is not None and f"run it with {other}" in str(body.get("hint")):
        kept = {name: value for name, value in given.items() if name not in ("limit", "cursor")}
        return {"tool": other, "arguments": kept}
    fixed = _fix_text(text, body.get("diagnostic", {}), schema)
    if fixed is None:
        return _show_query(tool, schema)
    return {"tool": tool, "arguments": {**given, "query": fixed}}


def _correct_params(
    param: Mapping[str, Any], tool: str, given: Mapping[str, Any]
) -> dict[str, Any] | None:
    if param.get("got") == "nothing" and "query" in given:
        params = {**(given.get("params") or {}), param["name"]: f"<{param['expected']}>"}
        return {"tool": tool, "arguments": {**given, "params": params}}
    return None


def _fix_text(text: str, found: Mapping[str, Any], schema: str | None) -> str | None:
    """The query with what the diagnostic says put in its place."""
    fix, span = found.get("fix"), found.get("span")
    if fix and re.match(r"\s*query\b", fix):
        return str(fix)
    raw = text.encode()
    if fix and span:
        # Some fixes stand where the mistake is, some before the whole text.
        spliced = _splice(raw, span["start"], span["end"], str(fix))
        return next((one for one in (spliced, f"{fix}\n{text}") if _parses(one)), None)
    missing, type_name = found.get("property"), found.get("type_name")
    if found.get("code") == "T12" and span and missing and schema:
        at = raw.find(b"{", span["end"]) + 1
        value = _sample_of(schema, type_name, missing)
        if at and value is not None:
            return _splice(raw, at, at, f" {missing}: {json.dumps(value)},")
    if found.get("code") == "T3" and span and missing and schema:
        value = _sample_of(schema, type_name, missing)
        if value is not None:
            return _splice(raw, span["start"], span["end"], json.dumps(value))
    return None


def _parses(text: str) -> bool:
    try:
        parse_queries(Source(text, "query"))
    except OmniError:
        return False
    return True


def _splice(raw: bytes, start: int, end: int, text: str) -> str:
    return (raw[:start] + text.encode() + raw[end:]).decode()


# ---- examples


def list_examples(schema: str) -> Iterator[dict[str, Any]]:
    """Calls that fit a schema: a read, a path along an edge, an insert, a load."""
    catalog = _compile(schema)
    if catalog is None or not catalog.nodes:
        return
    node = _choose_node(catalog)
    yield {"tool": "query", "arguments": {"query": _spell_read(node)}}
    edge = next(iter(catalog.edges.values()), None)
    if edge is not None:
        yield {"tool": "query", "arguments": {"query": _spell_path(catalog, edge)}}
    yield {"tool": "mutate", "arguments": {"query": _spell_insert(node)}}
    yield {"tool": "load", "arguments": {"data": _spell_line(node), "mode": "merge"}}


def _show_query(tool: str, schema: str | None) -> dict[str, Any] | None:
    examples = () if schema is None else list_examples(schema)
    return next((one for one in examples if one["tool"] == tool), None)


def _show_load(tool: str, schema: str | None) -> dict[str, Any] | None:
    return _show_query(tool, schema) if tool == "load" else None


def _compile(schema: str) -> Catalog | None:
    try:
        return compile_schema(Source(schema, "schema"))
    except OmniError:
        return None


def _choose_node(catalog: Catalog) -> NodeType:
    return next(
        (one for one in catalog.nodes.values() if one.key), next(iter(catalog.nodes.values()))
    )


def _list_needed(node: NodeType) -> list[Property]:
    """The properties that an insert must give: the key, and what may not be null."""
    keys = () if node.key is None else node.key.columns
    return [one for one in node.properties.values() if one.name in keys or not one.type.nullable]


def _spell_read(node: NodeType) -> str:
    shown = [one.name for one in node.properties.values() if one.type.scalar is not Scalar.BLOB][:3]
    returned = ", ".join(f"$n.{name}" for name in shown) or "count($n) as nodes"
    return f"query read() {{ match {{ $n: {node.name} }} return {{ {returned} }} limit 10 }}"


def _spell_path(catalog: Catalog, edge: EdgeType) -> str:
    ends = []
    for variable, name in (("a", edge.source), ("b", edge.target)):
        node = catalog.nodes.get(name)
        key = "id" if node is None or node.key is None else node.key.columns[0]
        ends.append(f"${variable}.{key} as {variable}")
    verb = edge.name[:1].lower() + edge.name[1:]
    return f"query path() {{ match {{ $a: {edge.source}  $a {verb} $b }} return {{ {', '.join(ends)} }} limit 10 }}"


def _spell_insert(node: NodeType) -> str:
    given = ", ".join(f"{one.name}: {json.dumps(_sample(one))}" for one in _list_needed(node))
    return f"query add() {{ insert {node.name} {{ {given} }} }}"


def _spell_line(node: NodeType) -> str:
    data = {one.name: _sample(one) for one in _list_needed(node)}
    return json.dumps({"type": node.name, "data": data})


def _sample_of(schema: str, type_name: Any, name: str) -> Any:
    catalog = _compile(schema)
    tables: Mapping[str, Any] = {} if catalog is None else {**catalog.nodes, **catalog.edges}
    found = tables.get(str(type_name))
    if found is None or name not in found.properties:
        return None
    return _sample(found.properties[name])


def _sample(found: Property) -> Any:
    """A value of the right type."""
    value_type = found.type
    if value_type.is_vector:
        return [0.0] * (value_type.dimension or 1)
    values = getattr(value_type, "enum_values", None)
    value = values[0] if values else _SAMPLES.get(value_type.scalar, 1)
    return [value] if value_type.is_list else value
