"""Arguments of verbs: each is declared once, with its type, its default, its name in JSON and a sentence of help.

The type of an argument names its check, as in `name: BranchName = arg("The new branch.")`. Surfaces derive from the
declaration: bodies and query strings of requests, their description, and the request that a client sends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from datetime import UTC, date, datetime, timedelta
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
    names_of,
    one_or_names,
    path_of,
    point_of,
    text_of,
)
from omnigraphdb.api.texts import schema_of, source_of
from omnigraphdb.engine.results import Commit
from omnigraphdb.errors import UserInputError, shorten
from omnigraphdb.ids import LoadMode
from omnigraphdb.language.source import Source
from omnigraphdb.manifest.operations import idempotency_key
from omnigraphdb.values import dataclass
from omnigraphdb.wire import UNIONS

__all__ = [
    "Age",
    "Argument",
    "BranchName",
    "CommitName",
    "Count",
    "CountFromOne",
    "EntityId",
    "Flag",
    "Key",
    "Mode",
    "Moment",
    "Names",
    "OneOrNames",
    "OwnBranch",
    "Point",
    "QueryText",
    "Rows",
    "SchemaText",
    "Start",
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


def _names_of(name: str, value: object) -> tuple[str, ...]:
    return names_of(name, value) or ()


def _rows_of(name: str, value: Any) -> Any:
    return path_of(name, value) if isinstance(value, str) else value


def _query_of(_name: str, value: Any) -> Source:
    return source_of(value)


def _schema_of(_name: str, value: Any) -> Source:
    return schema_of(value)


def _key_of(_name: str, value: Any) -> str:
    return idempotency_key(value)


def _commit_of(name: str, value: object) -> str:
    return text_of(name, name_of(value))


def _start_of(name: str, value: object) -> object:
    return value if isinstance(value, datetime) else _commit_of(name, value)


def _count_from_one(name: str, value: object) -> int | None:
    return count_of(name, value, least=1)


def _moment_of(name: str, value: object) -> datetime:
    moment = value if isinstance(value, datetime) else _read_moment(name, text_of(name, value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Text = Annotated[str, text_of]
Names = Annotated[Sequence[str], _names_of]
Count = Annotated[int, count_of]
"""A whole number from 0 on."""
EntityId = str | int | float | date | Mapping[str, Any]
"""The id of an entity, or the value of its key; the type says which of them it may be."""
BranchName = Annotated[str, _branch_of]
"""A branch, or its name."""
OwnBranch = Annotated[str | None, _own_branch_of]
"""The branch that a call is about; None is that of the handle."""
Flag = Annotated[bool, flag_of]
Age = Annotated[timedelta | None, age_of]
"""A length of time; a number of seconds in JSON."""
Key = Annotated[str, _key_of]
"""An idempotency key."""
Point = Annotated[Reference | None, _point_of]
"""A point in the history of a branch; None is its head."""
OneOrNames = Annotated[tuple[str, ...], one_or_names]
"""A name, or a list of names."""
Mode = Annotated[LoadMode, text_of]
Rows = Annotated[str, _rows_of]
"""Anything that a load reads; in JSON it is text, elsewhere text names a file."""
QueryText = Annotated[Source, _query_of]
"""The text of a query, or its file as a path."""
SchemaText = Annotated[Source, _schema_of]
"""The text of a schema, or its file as a path."""
CommitName = Annotated[str, _commit_of]
"""A commit, or its name."""
Start = Annotated[str | datetime | Commit, _start_of]
"""A commit or a moment with which a list begins."""
Moment = Annotated[str | datetime, _moment_of]
"""A moment, or its text."""
CountFromOne = Annotated[int, _count_from_one]
"""A whole number from 1 on."""


# ---- types, each as requests spell it


def _read_point(_name: str, text: str) -> Any:
    """Read a point in history; digits are a manifest version."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _read_start(name: str, text: str) -> Any:
    """Read a commit, a tag, or a moment, which begins with a year."""
    return _read_moment(name, text) if text[:1].isdigit() and "-" in text else text


def _read_moment(name: str, text: str) -> datetime:
    """Read a moment; without an offset it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UserInputError(
            f"'{name}' is '{shorten(text)}', no moment as in 2026-01-31T10:00:00Z"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _read_age(name: str, seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise UserInputError(
            f"'{name}' is {shorten(seconds)}, not a number of seconds; nothing was done"
        ) from error


_READERS: Final[Mapping[Check, Check]] = {
    _point_of: _read_point,
    _start_of: _read_start,
    _moment_of: _read_moment,
    age_of: _read_age,
}


# ---- declarations


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    help: str
    wire: str | None
    is_local: bool
    served: Check | None
    of: str | None


def arg(
    help: str,
    *,
    default: Any = MISSING,
    wire: str | None = None,
    local: bool = False,
    served: Check | None = None,
    of: str | None = None,
) -> Any:
    """Declare an argument.

    `wire` is its name in JSON, its own name by default. A `local` argument is never sent: it needs the memory or the
    files of the process that has the graph. `served` gives the value as requests may have it, or refuses it: they share
    a server. `of` names the argument that is the type of an id.
    """
    facts = _Facts(help=help, wire=wire, is_local=local, served=served, of=of)
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
    is_commit: bool
    """Whether it names a commit."""
    read: Check | None
    """Reads its text in JSON, where that stands for a value of another type."""
    served: Check | None
    """Gives a value as requests may have it."""
    of: str | None
    """The argument that is the type of this id."""


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
        is_commit=_commit_of in checks,
        read=next((_READERS[check] for check in checks if check in _READERS), None),
        served=facts.served,
        of=facts.of,
    )


def _split_hint(hint: Any) -> tuple[Any, ...]:
    """Split a declared type into the plain type and its checks, also where it may be None."""
    if get_origin(hint) in UNIONS:
        members = [_split_hint(member) for member in get_args(hint)]
        plain: Any = Union[tuple(member[0] for member in members)]  # noqa: UP007 - made at run time
        return plain, *(check for member in members for check in member[1:])
    return get_args(hint) if get_origin(hint) is Annotated else (hint,)


_PLAIN: Final[Mapping[Any, Any]] = {tuple: list, Mapping: dict}
"""Types in JSON of containers."""


def _json_type(hint: Any) -> Any:
    """Give the type in JSON of a declared type; a moment, a commit, a point in history, an id and a source are text, a length of time a number of seconds."""
    if hint is Source or hint == EntityId or datetime in get_args(hint):
        return str
    if hint is timedelta:
        return int | float
    if hint == Sequence[str] or get_origin(hint) is tuple:
        return list[str]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Literal[tuple(map(str, hint))]
    plain = _PLAIN.get(get_origin(hint))
    if plain is not None:
        return plain[tuple(member for member in get_args(hint) if member is not ...)]
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
    """Read a value, and give it as requests may have it."""
    read = value if argument.read is None else argument.read(argument.wire, value)
    return read if argument.served is None else argument.served(argument.wire, read)


def write_body(asked: Any, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Write the arguments of a call as JSON, without those that have their default or that the route decides."""
    return {
        argument.wire: _write_value(argument, value)
        for argument in list_arguments(type(asked))
        if not argument.is_local and argument.name not in fixed
        for value in [getattr(asked, argument.name)]
        if argument.is_required or value != argument.default
        # What a check gives as None is left out as well.
        if argument.check is None or value is not None
    }


def _write_value(argument: Argument, value: Any) -> Any:
    """Write a value as JSON."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Source):
        return value.text
    if isinstance(value, Mapping) or argument.type in (bool, int):
        return value
    return list(value) if get_origin(argument.type) is list else str(value)
