"""The type hints of shapes at run time: their fields, and words for them.

A shape is a typed dictionary, or the class of a public value, whose JSON form is derived from its fields.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from omnigraphdb.wire import UNIONS as UNIONS
from omnigraphdb.wire import fields_of_value, is_value

_NAMES: Final = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


@cache
def fields_of(shape: Any) -> Mapping[str, Any]:
    """Read the fields of a shape, once: that takes as long as a query by key."""
    if is_value(shape):
        return {field.name: field.hint for field in fields_of_value(shape)}
    return {name: _bare(hint) for name, hint in get_type_hints(shape, include_extras=True).items()}


@cache
def required_names(shape: Any) -> frozenset[str]:
    """Give the names of the fields that are always there."""
    if is_value(shape):
        return frozenset(field.name for field in fields_of_value(shape) if field.is_required)
    names: frozenset[str] = shape.__required_keys__
    return names


def is_shape(hint: Any) -> bool:
    """Whether a type is a shape."""
    return is_value(hint) or is_typeddict(hint)


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is NotRequired else hint


def name_value(value: object) -> str:
    """Name the kind of a JSON value."""
    return _NAMES[type(value)]


_SCHEMA_TYPES: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}


def describe_hint(
    hint: Any, refer: Callable[[Any], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Describe a type as JSON Schema; `refer` describes shapes, which are any objects without it."""
    origin = get_origin(hint)
    if is_shape(hint):
        return {"type": "object"} if refer is None else refer(hint)
    if hint is Any:
        return {}
    if origin in UNIONS:
        return _describe_union([describe_hint(one, refer) for one in get_args(hint)])
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if origin is list:
        return {"type": "array", "items": describe_hint(get_args(hint)[0], refer)}
    if origin is dict:
        return {"type": "object", "additionalProperties": True}
    return {"type": _SCHEMA_TYPES[hint]}


def _describe_union(members: list[dict[str, Any]]) -> dict[str, Any]:
    if all(set(one) == {"type"} for one in members):
        return {"type": [one["type"] for one in members]}
    return {"anyOf": members}


def spell_hint(hint: Any) -> str:
    """Spell what a field takes."""
    origin = get_origin(hint)
    if origin in UNIONS:
        return " or ".join(spell_hint(one) for one in get_args(hint) if one is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if origin is list:
        return f"a list of {spell_hint(get_args(hint)[0])}"
    return "an object" if is_shape(hint) else _NAMES[origin or hint]
