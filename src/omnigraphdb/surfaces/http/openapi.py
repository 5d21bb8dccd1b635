"""The description of the served routes as OpenAPI 3.1."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, get_args

from omnigraphdb.api import wire
from omnigraphdb.api.wire.hints import is_shape
from omnigraphdb.surfaces.http.calls import Param
from omnigraphdb.surfaces.http.replies import JSON, NDJSON
from omnigraphdb.surfaces.http.routing import BodyKind, Route
from omnigraphdb.surfaces.http.shapes import Schema, describe_shapes, reference, schema_of
from omnigraphdb.version import VERSION

_PREFIX: Final = "/graphs/{graph_id}"
_NAMES: Final = {
    "branch": "The branch; a slash in it is sent as %2F.",
    "commit": "The id of a commit, or its beginning.",
    "name": "The name of the stored query.",
    "graph_id": "The id of the graph.",
}


def describe_api(routes: Iterable[Route], *, flat: bool, secured: bool) -> Schema:
    """Describe the routes; the flat forms too where one graph is served."""
    listed = list(routes)
    paths: dict[str, Schema] = {}
    for route in listed:
        if route.of_server:
            _add(paths, route.path, route, route.operation, secured)
            continue
        _add(paths, _PREFIX + route.path, route, route.operation, secured)
        if flat:
            named = "flat" + route.operation[0].upper() + route.operation[1:]
            _add(paths, route.path, route, named, secured)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OmniGraph",
            "version": VERSION,
            "description": "A typed, versioned property graph over HTTP.",
        },
        "paths": paths,
        "components": {"schemas": _describe_components(listed)} | _describe_security(secured),
    }


def _describe_security(secured: bool) -> Schema:
    scheme = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {"securitySchemes": scheme} if secured else {}


def _describe_components(routes: list[Route]) -> dict[str, Schema]:
    shapes = [wire.ErrorOutput]
    for route in routes:
        shapes += [] if route.body is None else [route.body]
        shapes += _list_answers(route)
    return describe_shapes(shapes)


def _list_answers(route: Route) -> list[Any]:
    return [one for one in (route.answer, *get_args(route.answer)) if is_shape(one)]


def _add(paths: dict[str, Schema], path: str, route: Route, operation: str, secured: bool) -> None:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    body: Schema = {
        "operationId": operation,
        "summary": route.summary,
        "parameters": [_describe_name(name, {**route.names, **_NAMES}) for name in names]
        + [_describe_param(param) for param in route.params]
        + ([_CONDITION] if route.conditional else [])
        + ([_KEY] if route.writes and route.keyed else [])
        + ([_TIMEOUT] if _is_read(route) else []),
        "responses": _describe_answers(route),
    }
    if route.body_kind is not BodyKind.NONE:
        body["requestBody"] = _describe_body(route)
    if route.successor is not None:
        body["deprecated"] = True
    if secured and route.action is not None:
        body["security"] = [{"bearer": []}]
    paths.setdefault(path, {})[route.method.lower()] = body


_CONDITION: Final = {
    "name": "Omnigraph-If-Graph-Commit",
    "in": "header",
    "required": True,
    "description": "The commit that must be the head of the branch.",
    "schema": {"type": "string", "pattern": "^[0-9A-Za-z]{1,64}$"},
}


_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request with the same key is carried out once; repeated, it gives its first answer.",
    "schema": {
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": "^[!-~]([ -~]*[!-~])?$",
    },
}


_TIMEOUT: Final = {
    "name": "X-Timeout-Ms",
    "in": "header",
    "required": False,
    "description": "Milliseconds that the read may take; then it stops, and the answer is 504.",
    "schema": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
}


def _is_read(route: Route) -> bool:
    return route.action is not None and not route.writes


_BYTES: Final = {"type": "string", "format": "binary"}
"""Lines of JSON too: a client that was made from the description would quote a plain text."""


def _describe_name(name: str, texts: Mapping[str, str]) -> Schema:
    schema: Schema = {"type": "string", "minLength": 1}
    if name == "graph_id":
        schema = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": texts[name],
        "schema": schema,
    }


def _describe_param(param: Param) -> Schema:
    schema: Schema = {"type": "integer", "minimum": 1} if param.kind is int else {"type": "string"}
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.text,
        "schema": {"type": "array", "items": schema} if param.repeatable else schema,
    }


def _describe_body(route: Route) -> Schema:
    if route.body_kind is BodyKind.LINES:
        return {"required": True, "content": {NDJSON: {"schema": _BYTES}}}
    required = route.body_kind is BodyKind.JSON
    return {"required": required, "content": {JSON: {"schema": reference(route.body)}}}


def _describe_answers(route: Route) -> Schema:
    answers: Schema = {"200": {"description": "Done."}}
    content = {media: {"schema": _describe_answer(route, media)} for media in route.media}
    if content:
        answers["200"]["content"] = content
    for status in sorted({*route.statuses, *((504,) if _is_read(route) else ())}):
        answers[str(status)] = _describe_status(status, route)
    answers["default"] = _describe_error("Any other failure.")
    return answers


def _describe_answer(route: Route, media: str) -> Schema:
    if media == JSON:
        return schema_of(route.answer)
    return {"type": "string"} if media.startswith("text/") else _BYTES


def _describe_status(status: int, route: Route) -> Schema:
    text = HTTPStatus(status).phrase + "."
    if status < 400:
        content = {media: {"schema": _describe_answer(route, media)} for media in route.media}
        return {"description": text} | ({"content": content} if status == 206 else {})
    return _describe_error(text)


def _describe_error(text: str) -> Schema:
    return {"description": text, "content": {JSON: {"schema": reference(wire.ErrorOutput)}}}
