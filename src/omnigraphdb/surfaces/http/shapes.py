"""Shapes at run time: checks a JSON value against one, and describes it as JSON Schema."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin

from omnigraphdb.api.wire.hints import (
    UNIONS,
    describe_hint,
    fields_of,
    is_shape,
    name_value,
    required_names,
    spell_hint,
)
from omnigraphdb.errors import UserInputError, did_you_mean, shorten, suggestion
from omnigraphdb.wire import is_value

Schema = dict[str, Any]


def check_shape(shape: Any, value: object) -> dict[str, Any]:
    """Give a request body that fits a shape; refuse unknown names, missing ones and wrong types."""
    if not isinstance(value, dict):
        raise UserInputError(
            f"the body is {name_value(value)}, not a JSON object; nothing was done"
        )
    checks = _make_checks(shape)
    for name, found in value.items():
        fits = checks.get(name)
        if fits is None:
            raise _refuse_unknown(name, fields_of(shape))
        if not fits(found):
            wanted = spell_hint(fields_of(shape)[name])
            raise UserInputError(
                f"field '{name}' is {name_value(found)}, not {wanted}; nothing was done"
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
def _make_checks(shape: Any) -> Mapping[str, Callable[[object], bool]]:
    """Make the check of each field, once for all requests."""
    return {name: _make_check(hint) for name, hint in fields_of(shape).items()}


def _make_check(hint: Any) -> Callable[[object], bool]:
    origin = get_origin(hint)
    if hint is Any:
        return lambda _: True
    if origin in UNIONS:
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


# ---- JSON Schema


def describe_shapes(shapes: list[Any]) -> dict[str, Schema]:
    """Describe shapes, and the shapes inside them, by name."""
    found: dict[str, Schema] = {}
    waiting = list(shapes)
    while waiting:
        shape = waiting.pop()
        name = name_component(shape)
        if name not in found:
            found[name] = _describe(shape)
            waiting += [inner for hint in fields_of(shape).values() for inner in _list_shapes(hint)]
    return dict(sorted(found.items()))


def _describe(shape: Any) -> Schema:
    fields = fields_of(shape)
    body: Schema = {"type": "object"}
    if shape.__doc__ and not shape.__doc__.startswith("dict("):
        body["description"] = shape.__doc__
    body["properties"] = {name: schema_of(hint) for name, hint in fields.items()}
    required = sorted(required_names(shape), key=list(fields).index)
    if required:
        body["required"] = required
    if shape.__name__.endswith("Input"):
        body["additionalProperties"] = False
    return body


def _list_shapes(hint: Any) -> list[Any]:
    if is_shape(hint):
        return [hint]
    return [inner for one in get_args(hint) for inner in _list_shapes(one)]


def reference(shape: Any) -> Schema:
    """Refer to a shape by its name."""
    return {"$ref": f"#/components/schemas/{name_component(shape)}"}


_COMPONENTS: Final = {
    "BranchCreated": "BranchCreateOutput",
    "BranchDeleted": "BranchDeleteOutput",
    "CompletionItem": "CompletionOutput",
    "CompletionItems": "CompletionListOutput",
    "DrawnCommit": "DrawnCommit",
    "EntityPath": "PathOutput",
    "LintFinding": "LintFinding",
    "LintedQuery": "LintedQuery",
    "LintedText": "LintOutput",
    "LogDrawing": "LogGraphOutput",
    "PropertyShape": "PropertyShape",
    "RecoveryAudit": "RecoveryOutput",
    "SchemaText": "SchemaOutput",
    "SnapshotState": "SnapshotOutput",
    "TableState": "TableState",
    "TypeShape": "TypeShape",
    "ValueDescriptor": "ParamOutput",
    "Step": "SchemaStep",
    "TableOutcome": "TableOutcome",
    "MergeResult": "BranchMergeOutput",
    "MutationResult": "ChangeOutput",
    "LoadResult": "LoadOutput",
    "SchemaApplyResult": "SchemaApplyOutput",
}
"""Values whose component is called otherwise than their class."""


def name_component(shape: Any) -> str:
    """Give the name of a shape among the components of a description."""
    name: str = shape.__name__
    return _COMPONENTS.get(name, f"{name}Output") if is_value(shape) else name


def schema_of(hint: Any) -> Schema:
    """Describe one type."""
    return describe_hint(hint, reference)
