"""Checks of arguments before anything is sent: the refusals that a graph at hand gives, by the names of the arguments."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any, Final, TypeVar

from omnigraphdb.api.arguments import (
    count_of,
    flag_of,
    names_of,
    path_of,
    point_of,
    reference_of,
    text_of,
)
from omnigraphdb.api.branches import Branch
from omnigraphdb.api.verbs.argument import list_arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.errors import ParamError, UserInputError, shorten
from omnigraphdb.manifest.lineage import commit_not_found
from omnigraphdb.manifest.names import branch_name

_Class = TypeVar("_Class", bound=type)
Check = Callable[[str, Any], object]


def check_arguments(cls: _Class) -> _Class:
    """Have every public method of a class check its arguments first."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _check_first(member))
    return cls


def _check_first(method: FunctionType) -> Callable[..., Any]:
    signature = inspect.signature(method)
    parameters = signature.parameters
    of_method = {**CHECKS, **CHECKS_OF_METHODS.get(method.__name__, {})}
    checks = {name: of_method[name] for name in parameters if name in of_method}
    names = list(parameters)

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            check = checks.get(name)
            if check is not None and (value is not None or parameters[name].default is not None):
                check(name, value)
        return method(*args, **kwargs)

    return call


def check_names(asked: Any) -> None:
    """Check the names of branches and commits of a call before anything is sent, and values that a graph at hand checks as it runs."""
    for argument in list_arguments(type(asked)):
        value = getattr(asked, argument.name)
        if argument.is_branch and value is not None:
            branch_name(value, "a call")
        if argument.is_commit and argument.is_required:
            _check_commit_text(argument.name, value)
        if argument.name == "params" and value is not None:
            _check_params(argument.name, value)


def check_facts(call: Call) -> None:
    """Check the facts of a call that travel in headers."""
    facts = {
        "message": call.message,
        "idempotency_key": call.key,
        "if_commit": call.if_commit,
    }
    for name, value in facts.items():
        if value is not None:
            CHECKS[name](name, value)


# ---- kinds of arguments


def _check_branch(_name: str, value: object) -> None:
    branch_name(value.name if isinstance(value, Branch) else text_of("branch", value), "a call")


def _check_point(_name: str, value: Any) -> None:
    point_of(value)


def _check_state(_name: str, value: Any) -> None:
    reference_of(value)


def _check_commit_text(_name: str, value: object) -> None:
    """A commit that stands in a path: an empty one would be another path."""
    if not str(value).strip():
        raise commit_not_found(str(value))


def _check_condition(name: str, value: object) -> None:
    """A commit that stands in a header, which spells letters and digits."""
    if not str(value).isalnum() or not str(value).isascii():
        raise UserInputError(
            f"'{name}' is the id of a commit, not '{shorten(str(value))}'; nothing was sent"
        )


def _check_edges(name: str, value: object) -> None:
    """An address cannot tell an empty list from none."""
    if names_of(name, value) == ():
        raise UserInputError(f"'{name}' names no edge type; nothing was sent")


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        text_of(name, value)


def _check_params(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        message = f"parameters are a mapping of values by name, not {kind}; nothing was run"
        raise ParamError(name, "P01", message, expected="values by name", got=kind)
    for one in value:
        text_of(name, one)


def _check_key(name: str, value: object) -> None:
    """A key travels in a header, which spells no other characters and no blanks at its ends."""
    text = text_of(name, value)
    if not (text.isascii() and text.isprintable() and text == text.strip() and text):
        raise UserInputError(
            f"'{name}' has printable ASCII characters and no blanks around them, not '{shorten(text)}'; nothing was sent"
        )


CHECKS: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("branch", "from_branch", "into", "merged_into"), _check_branch),
    **dict.fromkeys(("base", "head"), _check_state),
    "if_commit": _check_condition,
    **dict.fromkeys(
        ("type_name", "from_type", "to_type", "property", "edge", "direction", "by", "mode"),
        text_of,
    ),
    **dict.fromkeys(("start", "cursor", "page_token", "actor", "message"), text_of),
    **dict.fromkeys(("types", "kinds", "ops", "properties", "actors", "edges"), names_of),
    **dict.fromkeys(
        ("profile", "compare", "images", "dry_run", "allow_data_loss", "undirected", "counts"),
        flag_of,
    ),
    **dict.fromkeys(("limit", "nodes_max", "edges_max", "hops_max", "keep"), count_of),
    "at": _check_point,
    "name": text_of,
    "branches": names_of,
    "params": _check_params,
    "idempotency_key": _check_key,
    "out": path_of,
    "expect_mutation": flag_of,
}
CHECKS_OF_METHODS: Final[Mapping[str, Mapping[str, Check]]] = {
    **{method: {"name": _check_name} for method in ("query", "stream", "explain")},
    "commit_changes": {"id": _check_commit_text},
    "diff_page": {"base": text_of, "head": text_of},
    "path": {"edges": _check_edges},
}
"""Arguments that mean something else in one method than in the others."""
