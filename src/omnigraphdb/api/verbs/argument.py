"""Arguments of verbs: each is declared once, with its type, its default, its name in JSON and a sentence of help.

The type of an argument names its check, as in `name: BranchName = arg("The new branch.")`. Surfaces derive from the
declaration: bodies and query strings of requests, their description, and the request that a client sends.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields
from datetime import timedelta
from enum import StrEnum
from functools import cache
from types import MappingProxyType, NoneType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from omnigraphdb.api.arguments import (
    Reference,
    age_of,
    count_of,
    flag_of,
    name_of,
    point_of,
    text_of,
)
from omnigraphdb.api.texts import schema_of
from omnigraphdb.errors import UserInputError, shorten
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.operations import idempotency_key
from omnigraphdb.values import dataclass
from omnigraphdb.wire import UNIONS

__all__ = [
    "Age",
    "Argument",
    "BranchName",
    "Count",
    "Flag",
    "Key",
    "OwnBranch",
    "Point",
    "SchemaText",
    "Text",
    "arg",
    "arguments",
    "check_arguments",
    "list_arguments",
    "read_body",
    "write_body",
]

A = TypeVar("A")
_FACTS: Final = "argument"
Check = Callable[[str, Any], Any]
"""Gives a value as the verb takes it, or refuses it by the name of its argument."""


# ---- types, each with its check


def _branch_of(name: str, value: object) -> str:
    return text_of(name, name_of(value))


def _own_branch_of(name: str, value: object) -> str:
    return _branch_of(name, value)


def _point_of(_name: str, value: Any) -> Any:
    return point_of(value)


def _schema_of(_name: str, value: Any) -> Source:
    return schema_of(value)


def _key_of(_name: str, value: Any) -> str:
    return idempotency_key(value)


Text = Annotated[str, text_of]
BranchName = Annotated[str, _branch_of]
"""A branch, or its name."""
OwnBranch = Annotated[str | None, _own_branch_of]
"""The branch that a call is about; None is that of the handle."""
Flag = Annotated[bool, flag_of]
Count = Annotated[int, count_of]
Age = Annotated[timedelta | None, age_of]
"""A length of time; a number of seconds in JSON."""
Key = Annotated[str, _key_of]
"""An idempotency key."""
Point = Annotated[Reference | None, _point_of]
"""A point in the history of a branch; None is its head."""
SchemaText = Annotated[Source, _schema_of]
"""The text of a schema, or its file as a path."""


# ---- declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    help: str
    wire: str | None
    is_local: bool


def arg(help: str, *, default: Any = MISSING, wire: str | None = None, local: bool = False) -> Any:
    """Declare an argument.

    `wire` is its name in JSON, its own name by default. A `local` argument is never sent: it needs the memory or the
    files of the process that has the graph.
    """
    facts = _Facts(help=help, wire=wire, is_local=local)
    return field(default=default, metadata=MappingProxyType({_FACTS: facts}))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(arg,))
def arguments(cls: type[A]) -> type[A]:
    """Declare the arguments of a verb: a frozen dataclass, which holds those of one call."""
    return dataclass(cls, frozen=True, slots=True, kw_only=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a verb."""

    name: str
    wire: str
    """Its name in JSON."""
    help: str
    type: Any
    """Its type in JSON."""
    check: Check | None
    default: Any
    is_required: bool
    is_local: bool
    is_branch: bool
    """Whether it names a branch that exists."""
    is_own_branch: bool
    """Whether it names the branch that the call is about, which the handle may have."""
    is_point: bool
    """Whether it is a point in history."""
    is_age: bool
    """Whether it is a length of time."""


def list_arguments(cls: Any) -> tuple[Argument, ...]:
    """List the arguments that a class declares, in order."""
    return _list_once(cls)


@cache
def _list_once(cls: Any) -> tuple[Argument, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_describe(declared, hints[declared.name]) for declared in fields(cls))


def _describe(declared: Any, hint: Any) -> Argument:
    facts: _Facts = declared.metadata[_FACTS]
    plain, *checks = _split_hint(hint)
    return Argument(
        name=declared.name,
        wire=facts.wire or declared.name,
        help=facts.help,
        type=_json_type(plain),
        check=checks[0] if checks else None,
        default=None if declared.default is MISSING else declared.default,
        is_required=declared.default is MISSING,
        is_local=facts.is_local,
        is_branch=_branch_of in checks or _own_branch_of in checks,
        is_own_branch=_own_branch_of in checks,
        is_point=_point_of in checks,
        is_age=age_of in checks,
    )


def _split_hint(hint: Any) -> tuple[Any, ...]:
    """Split a declared type into the plain type and its checks, also where it may be None."""
    if get_origin(hint) in UNIONS:
        members = [_split_hint(member) for member in get_args(hint)]
        plain: Any = Union[tuple(member[0] for member in members)]  # noqa: UP007 - made at run time
        return plain, *(check for member in members for check in member[1:])
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


def _json_type(hint: Any) -> Any:
    """Give the type in JSON of a declared type; a point in history and a source are text, a length of time a number of seconds."""
    if hint in (Reference | None, Source):
        return str
    if hint is timedelta:
        return int | float
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Literal[tuple(map(str, hint))]
    if get_origin(hint) in UNIONS:
        members = [_json_type(member) for member in get_args(hint) if member is not NoneType]
        return Union[tuple(members)]  # noqa: UP007 - made at run time
    return hint


# ---- the values of one call


def check_arguments(asked: A) -> A:
    """Give the arguments of a call as the verb takes them; refuse the first one that is of another kind."""
    values = {
        argument.name: _check(argument, getattr(asked, argument.name))
        for argument in list_arguments(type(asked))
    }
    return type(asked)(**values)


def _check(argument: Argument, value: Any) -> Any:
    is_left_out = value is None and not argument.is_required and argument.default is None
    return value if argument.check is None or is_left_out else argument.check(argument.name, value)


def read_body(cls: type[A], body: Mapping[str, Any], fixed: Mapping[str, Any]) -> A:
    """Read the arguments of a call from JSON; null counts as left out. `fixed` are those that the route decides."""
    values = {
        argument.name: _read_value(argument, body[argument.wire])
        for argument in list_arguments(cls)
        if body.get(argument.wire) is not None
    }
    return cls(**values, **fixed)


def _read_value(argument: Argument, value: Any) -> Any:
    """Read a value; digits are a manifest version where a point in history stands."""
    if argument.is_age:
        return _read_age(argument.wire, value)
    is_version = argument.is_point and value.isascii() and value.isdigit() and len(value) < 20
    return int(value) if is_version else value


def _read_age(name: str, seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise UserInputError(
            f"'{name}' is {shorten(seconds)}, not a number of seconds; nothing was done"
        ) from error


def write_body(asked: Any, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Write the arguments of a call as JSON, without those that have their default or that the route decides."""
    return {
        argument.wire: _write_value(argument, value)
        for argument in list_arguments(type(asked))
        if not argument.is_local and argument.name not in fixed
        for value in [getattr(asked, argument.name)]
        if argument.is_required or value != argument.default
    }


def _write_value(argument: Argument, value: Any) -> Any:
    """Write a value as JSON."""
    match value:
        case timedelta():
            return value.total_seconds()
        case Source():
            return value.text
        case int() if not argument.is_point:
            # JSON has truth values and counts; anything else is text.
            return value
        case _:
            return str(value)
