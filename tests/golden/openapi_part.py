"""The description of a server: operations, parameters and fields, without their sentences."""

from collections.abc import Mapping
from typing import Any

from omnigraphdb.surfaces.http.app import ROUTES_DESCRIBED
from omnigraphdb.surfaces.http.openapi import describe_api
from tests.golden.forms import IN_ORDER, Entries

_SENTENCES = ("description", "summary", "title", "example", "examples")


def record(_: "object") -> Entries:
    """Record each operation and each component."""
    document = describe_api(ROUTES_DESCRIBED, flat=True, secured=True)
    entries: Entries = {
        f"{method.upper()} {path}": _describe_operation(operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    for kind, components in document["components"].items():
        for name, component in components.items():
            entries[f"{kind} {name}"] = _tidy(component)
    rest = {name: one for name, one in document.items() if name not in ("paths", "components")}
    return entries | {"document": _tidy({**rest, "info": {"title": rest["info"]["title"]}})}


def _describe_operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    described = {name: one for name, one in operation.items() if name != "parameters"}
    parameters = {
        f"{one['in']} {one['name']}": {n: v for n, v in one.items() if n not in ("in", "name")}
        for one in operation.get("parameters", ())
        if "name" in one
    }
    shared = [one for one in operation.get("parameters", ()) if "name" not in one]
    return _tidy(described | {"parameters": parameters, "shared parameters": shared})


def _tidy(value: Any) -> Any:
    """Leave out sentences, and say of each field whether it is required, so that a new field is an addition."""
    if isinstance(value, list | tuple):
        return [_tidy(one) for one in value]
    if not isinstance(value, dict):
        return value
    tidy = {
        name: _tidy(one)
        for name, one in value.items()
        if not (name in _SENTENCES and isinstance(one, str | list))
    }
    if isinstance(value.get("properties"), dict) and isinstance(value.get("type"), str):
        required = value.get("required", [])
        tidy.pop("required", None)
        tidy["properties"] = {
            name: {"required": name in required, **_tidy(one)}
            for name, one in value["properties"].items()
        }
    if isinstance(value.get("enum"), list):
        tidy["enum"] = {IN_ORDER: value["enum"]}
    return tidy
