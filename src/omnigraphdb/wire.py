"""The JSON form of public values: declared at their fields, derived everywhere else.

A public value is a frozen dataclass. The metadata of a field, made by `wire`, holds its name in JSON and whether it is left
out at its default; a field without metadata keeps its own name. Derived from that: `to_dict()`, the reading of an answer
(`from_dict`), and the list of fields (`fields_of_value`) from which JSON Schema, OpenAPI and the reference are made.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from datetime import datetime
from enum import Enum
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from omnigraphdb.runtime import datetime_of, us_of
from omnigraphdb.values import dataclass

__all__ = [
    "UNIONS",
    "Codec",
    "Value",
    "WireField",
    "derived",
    "fields_of_value",
    "from_dict",
    "is_value",
    "wire",
]

V = TypeVar("V")

UNIONS: Final = (UnionType, Union)


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """A form of its own for the value of one field; `hint` is its type in JSON."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    hint: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    name: str | None = None
    omit: bool | Callable[[Any], bool] = False
    local: bool = False
    codec: Codec | None = None
    hint: Any = None


_KEY: Final = "wire"
_PLAIN: Final = _Form()


def wire(
    name: str | None = None,
    *,
    omit: bool | Callable[[Any], bool] = False,
    local: bool = False,
    codec: Codec | None = None,
    hint: Any = None,
) -> Mapping[str, Any]:
    """Make the metadata of a field: its name in JSON, and its form there.

    `omit` leaves the field out while it has its default, or where the function that it is says so of a value. A `local` field is never sent. `hint` is its type in JSON where that
    says more than the declared type.
    """
    form = _Form(name=name, omit=omit, local=local, codec=codec, hint=hint)
    return MappingProxyType({_KEY: form})


if TYPE_CHECKING:
    # To a type checker it is the property itself.
    from builtins import property as derived
else:

    class derived(property):  # noqa: N801 - a decorator, as `property` is
        """A property that is sent as a field is, and not read back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireField:
    """A field of the JSON form of a value."""

    name: str
    attribute: str
    hint: Any
    """Its type in JSON: a plain type, a list or mapping of such, a typed dictionary, or the class of a value."""
    is_required: bool
    is_derived: bool
    form: _Form
    declared: Any
    """Its type as declared."""
    default: Callable[[], Any] | None


class Value:
    """A public value; its JSON form is that of its fields."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON form."""
        cls: Any = type(self)
        encoded: dict[str, Any] = _encoder_of(cls)(self)
        return encoded


def from_dict(cls: type[V], body: Mapping[str, Any]) -> V:
    """Read a value from its JSON form.

    Names that the class does not know are passed over: a newer server says more.
    """
    declared: Any = cls
    return cls(
        **{
            attribute: decode(body[name])
            for name, attribute, decode in _decoders_of(declared)
            if name in body
        }
    )


# ---- fields


@cache
def fields_of_value(cls: Any) -> tuple[WireField, ...]:
    """List the fields of the JSON form of a class, in order."""
    hints = get_type_hints(cls)
    stored = [
        _describe_field(field, hints[field.name])
        for field in dataclasses.fields(cls)
        if not _form_of(field).local
    ]
    return (*stored, *_list_derived(cls))


def is_value(hint: Any) -> bool:
    """Whether a type is a public value."""
    return isinstance(hint, type) and issubclass(hint, Value)


def _form_of(field: "dataclasses.Field[Any]") -> _Form:
    form: _Form = field.metadata.get(_KEY, _PLAIN)
    return form


def _describe_field(field: "dataclasses.Field[Any]", declared: Any) -> WireField:
    form = _form_of(field)
    return WireField(
        name=form.name or field.name,
        attribute=field.name,
        hint=_hint_of(field, form, declared),
        is_required=not form.omit,
        is_derived=False,
        form=form,
        declared=declared,
        default=_default_of(field),
    )


def _hint_of(field: "dataclasses.Field[Any]", form: _Form, declared: Any) -> Any:
    if form.hint is not None:
        return form.hint
    if form.codec is not None:
        return form.codec.hint
    if form.omit and field.default is None:
        # A field that is left out while it is None is never null.
        declared = Union[tuple(t for t in get_args(declared) if t is not NoneType)]  # noqa: UP007
    return _json_type(declared)


def _default_of(field: "dataclasses.Field[Any]") -> Callable[[], Any] | None:
    if field.default_factory is not MISSING:
        return field.default_factory
    default = field.default
    return None if default is MISSING else lambda: default


def _list_derived(cls: type) -> list[WireField]:
    members = {
        name: member for base in reversed(cls.__mro__) for name, member in vars(base).items()
    }
    return [
        _describe_derived(name, member)
        for name, member in members.items()
        if isinstance(member, derived)
    ]


def _describe_derived(name: str, member: derived) -> WireField:
    declared = get_type_hints(member.fget)["return"]
    return WireField(
        name=name,
        attribute=name,
        hint=_json_type(declared),
        is_required=True,
        is_derived=True,
        form=_PLAIN,
        declared=declared,
        default=None,
    )


def _json_type(declared: Any) -> Any:
    """Give the type in JSON of a declared type."""
    if isinstance(declared, NewType):
        return _json_type(declared.__supertype__)
    if declared is datetime:
        return int
    if isinstance(declared, type) and issubclass(declared, Enum):
        return str
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in UNIONS:
        return Union[tuple(map(_json_type, arguments))]  # noqa: UP007 - made at run time
    if origin in (tuple, list, Sequence):
        return list[_json_type(arguments[0])]  # type: ignore[misc]
    if origin in (dict, Mapping):
        return dict[str, _json_type(arguments[1])]  # type: ignore[misc]
    return declared


# ---- to JSON


@cache
def _encoder_of(cls: Any) -> Callable[[Any], dict[str, Any]]:
    """Write the function that encodes a class, when the first value of it is encoded."""
    names: dict[str, Any] = {"us_of": us_of}
    lines = ["def encode(value):", " body = {}"]
    for field in fields_of_value(cls):
        expression = f"value.{field.attribute}"
        if field.form.codec is not None:
            names[f"encode_{field.attribute}"] = field.form.codec.encode
            encoded = f"encode_{field.attribute}({expression})"
        else:
            encoded = _encoding(field.declared, expression)
        assignment = f"body[{field.name!r}] = {encoded}"
        if callable(field.form.omit):
            names[f"omit_{field.attribute}"] = field.form.omit
            lines.append(f" if not omit_{field.attribute}(value): {assignment}")
        elif field.form.omit:
            assert field.default is not None, f"{cls.__name__}.{field.attribute} has no default"
            names[f"default_{field.attribute}"] = field.default()
            lines.append(f" if {expression} != default_{field.attribute}: {assignment}")
        else:
            lines.append(f" {assignment}")
    exec("\n".join([*lines, " return body"]), names)
    encode: Callable[[Any], dict[str, Any]] = names["encode"]
    return encode


def _encoding(declared: Any, expression: str, depth: int = 0) -> str:
    """Write the expression that encodes a value of a type."""
    if isinstance(declared, NewType):
        return _encoding(declared.__supertype__, expression, depth)
    if declared is datetime:
        return f"us_of({expression})"
    if is_value(declared):
        return f"{expression}.to_dict()"
    if isinstance(declared, type) and issubclass(declared, Enum):
        return f"{expression}.value"
    origin, arguments = get_origin(declared), get_args(declared)
    item = f"item{depth}"
    if origin in UNIONS:
        (inner,) = [member for member in arguments if member is not NoneType] or [NoneType]
        encoded = _encoding(inner, expression, depth)
        return encoded if encoded == expression else f"None if {expression} is None else {encoded}"
    if origin in (tuple, list, Sequence):
        encoded = _encoding(arguments[0], item, depth + 1)
        return (
            f"list({expression})" if encoded == item else f"[{encoded} for {item} in {expression}]"
        )
    if origin in (dict, Mapping):
        encoded = _encoding(arguments[1], item, depth + 1)
        key = f"key{depth}"
        if encoded == item:
            return f"dict({expression})"
        return f"{{{key}: {encoded} for {key}, {item} in {expression}.items()}}"
    return expression


# ---- from JSON


@cache
def _decoders_of(cls: Any) -> tuple[tuple[str, str, Callable[[Any], Any]], ...]:
    """List the name in JSON, the attribute and the decoder of each field of a class."""
    return tuple(
        (
            field.name,
            field.attribute,
            _decoder(field.declared) if field.form.codec is None else field.form.codec.decode,
        )
        for field in fields_of_value(cls)
        if not field.is_derived
    )


def _decoder(declared: Any) -> Callable[[Any], Any]:
    """Make the function that reads a value of a type from JSON."""
    if isinstance(declared, NewType):
        return _decoder(declared.__supertype__)
    if declared is datetime:
        return datetime_of
    if is_value(declared):
        return lambda body: from_dict(declared, body)
    if isinstance(declared, type) and issubclass(declared, Enum):
        return declared
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in UNIONS:
        decode = _decoder(next(member for member in arguments if member is not NoneType))
        return lambda value: None if value is None else decode(value)
    if origin in (tuple, list, Sequence):
        decode_item = _decoder(arguments[0])
        container = list if origin is list else tuple
        return lambda items: container(map(decode_item, items))
    if origin in (dict, Mapping):
        decode_item = _decoder(arguments[1])
        return lambda items: {key: decode_item(item) for key, item in items.items()}
    return lambda value: value
