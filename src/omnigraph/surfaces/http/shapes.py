"""Typed dictionaries at run time: checks a JSON value against one, and describes it as JSON Schema."""

from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from omnigraph.errors import UserInputError, did_you_mean, shorten, suggestion

Schema = dict[str, Any]
_UNIONS = (UnionType, Union)


def check_shape(shape: Any, value: object) -> dict[str, Any]:
    """Give a request body that fits a shape; refuse unknown names, missing ones and wrong types."""
    if not isinstance(value, dict):
        raise UserInputError(f"the body is {_name_of(value)}, not a JSON object; nothing was done")
    fields = _fields(shape)
    for name, found in value.items():
        if name not in fields:
            near = suggestion(did_you_mean(name, fields))
            known = ", ".join(fields)
            raise UserInputError(
                f"field '{shorten(name)}' is unknown{near}; nothing was done",
                hint=f"fields: {known}",
            )
        if not _fits(fields[name], found):
            wanted = _spell(fields[name])
            raise UserInputError(
                f"field '{name}' is {_name_of(found)}, not {wanted}; nothing was done"
            )
    missing = [name for name in shape.__required_keys__ if name not in value]
    if missing:
        raise UserInputError(f"field '{min(missing)}' is missing; nothing was done")
    return value


def _fields(shape: Any) -> dict[str, Any]:
    return {name: _bare(hint) for name, hint in get_type_hints(shape, include_extras=True).items()}


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is NotRequired else hint


def _fits(hint: Any, value: object) -> bool:
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in _UNIONS:
        return any(_fits(one, value) for one in get_args(hint))
    if origin is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if origin is list:
        return isinstance(value, list) and all(_fits(get_args(hint)[0], one) for one in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    NoneType: "null",
}


def _name_of(value: object) -> str:
    return _NAMES[type(value)]


def _spell(hint: Any) -> str:
    origin = get_origin(hint)
    if origin in _UNIONS:
        return " or ".join(_spell(one) for one in get_args(hint) if one is not NoneType)
    if origin is Literal:
        return f"one of {', '.join(get_args(hint))}"
    if origin is list:
        return f"a list of {_spell(get_args(hint)[0])}"
    return _NAMES[origin or hint]


# ---- JSON Schema


def describe_shapes(shapes: list[Any]) -> dict[str, Schema]:
    """Describe shapes, and the shapes inside them, by name."""
    found: dict[str, Schema] = {}
    waiting = list(shapes)
    while waiting:
        shape = waiting.pop()
        if shape.__name__ not in found:
            found[shape.__name__] = _describe(shape)
            waiting += [inner for hint in _fields(shape).values() for inner in _list_shapes(hint)]
    return dict(sorted(found.items()))


def _describe(shape: Any) -> Schema:
    fields = _fields(shape)
    body: Schema = {"type": "object"}
    if shape.__doc__ and not shape.__doc__.startswith("dict("):
        body["description"] = shape.__doc__
    body["properties"] = {name: schema_of(hint) for name, hint in fields.items()}
    required = sorted(shape.__required_keys__, key=list(fields).index)
    if required:
        body["required"] = required
    if shape.__name__.endswith("Input"):
        body["additionalProperties"] = False
    return body


def _list_shapes(hint: Any) -> list[Any]:
    if is_typeddict(hint):
        return [hint]
    return [inner for one in get_args(hint) for inner in _list_shapes(one)]


def reference(shape: Any) -> Schema:
    """Refer to a shape by its name."""
    return {"$ref": f"#/components/schemas/{shape.__name__}"}


def schema_of(hint: Any) -> Schema:
    """Describe one type."""
    origin = get_origin(hint)
    if is_typeddict(hint):
        return reference(hint)
    if hint is Any:
        return {}
    if origin in _UNIONS:
        return _describe_union(get_args(hint))
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if origin is list:
        return {"type": "array", "items": schema_of(get_args(hint)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": True}
    return {"type": _TYPES[hint]}


_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def _describe_union(members: tuple[Any, ...]) -> Schema:
    described = [schema_of(one) for one in members]
    plain = all(set(one) == {"type"} for one in described)
    if plain:
        return {"type": [one["type"] for one in described]}
    return {"anyOf": described}
