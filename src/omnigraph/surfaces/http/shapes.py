"""Typed dictionaries at run time: checks a JSON value against one, and describes it as JSON Schema."""

from collections.abc import Callable, Mapping
from functools import cache
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
    checks = _make_checks(shape)
    for name, found in value.items():
        fits = checks.get(name)
        if fits is None:
            raise _refuse_unknown(name, _fields(shape))
        if not fits(found):
            wanted = _spell(_fields(shape)[name])
            raise UserInputError(
                f"field '{name}' is {_name_of(found)}, not {wanted}; nothing was done"
            )
    missing = [name for name in shape.__required_keys__ if name not in value]
    if missing:
        raise UserInputError(f"field '{min(missing)}' is missing; nothing was done")
    return value


def _refuse_unknown(name: str, fields: Mapping[str, Any]) -> UserInputError:
    near = suggestion(did_you_mean(name, fields))
    return UserInputError(
        f"field '{shorten(name)}' is unknown{near}; nothing was done",
        hint=f"fields: {', '.join(fields)}",
    )


@cache
def _fields(shape: Any) -> Mapping[str, Any]:
    """Read the fields of a shape, once: that takes as long as a query by key."""
    return {name: _bare(hint) for name, hint in get_type_hints(shape, include_extras=True).items()}


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is NotRequired else hint


@cache
def _make_checks(shape: Any) -> Mapping[str, Callable[[object], bool]]:
    """Make the check of each field, once for all requests."""
    return {name: _make_check(hint) for name, hint in _fields(shape).items()}


def _make_check(hint: Any) -> Callable[[object], bool]:
    origin = get_origin(hint)
    if hint is Any:
        return lambda _: True
    if origin in _UNIONS:
        checks = tuple(_make_check(one) for one in get_args(hint))
        return lambda value: any(fits(value) for fits in checks)
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in get_args(hint)
    if origin is list:
        each = _make_check(get_args(hint)[0])
        return lambda value: isinstance(value, list) and all(each(one) for one in value)
    # What JSON gives has exactly these types, so that a truth value is no whole number.
    wanted = dict if origin is dict else hint
    return lambda value: type(value) is wanted


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
