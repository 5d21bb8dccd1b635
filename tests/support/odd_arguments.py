"""Calls with one argument of another kind, made from the signatures: what came of each."""

import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from omnigraphdb.errors import InternalError, OmniError

ODD: Mapping[str, Any] = {
    "None": None,
    "a whole number": 5,
    "a number below zero": -1,
    "a fraction": 3.5,
    "no number": math.nan,
    "a truth value": True,
    "bytes": b"x",
    "an empty list": [],
    "a list of numbers": [5],
    "a list of nothing": [None],
    "an empty mapping": {},
    "a set": {1},
    "an object": object(),
    "empty text": "",
    "blank text": " ",
    "long text": "x" * 5000,
}

ROWS_MAX = 3
WAITS = frozenset({"wait"})
"""Arguments that say how long a call takes."""


def call_oddly(
    name: str, call: Callable[..., Any], required: Mapping[str, Any]
) -> Iterator[tuple[str, str, str, object]]:
    """Replace each argument by each odd value; give the call, the argument, the value, and the result or the error."""
    parameters = [
        one
        for one in inspect.signature(call).parameters.values()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) and one.name not in WAITS
    ]
    usual = {
        one.name: required.get(one.name, "main") for one in parameters if one.default is one.empty
    }
    for parameter in parameters:
        for kind, value in ODD.items():
            if parameter.name == "spark" and value is True:
                # This is no odd value: it starts a Spark.
                continue
            yield name, parameter.name, kind, try_call(call, usual | {parameter.name: value})


def list_methods(cls: type, *, leave: frozenset[str] = frozenset()) -> list[str]:
    """The public methods of a class, without some."""
    members = inspect.getmembers(cls, callable)
    return [name for name, _ in members if not name.startswith("_") and name not in leave]


def is_foreign(outcome: object) -> bool:
    """Whether a call raised what no caller expects."""
    is_ours = isinstance(outcome, OmniError) and not isinstance(outcome, InternalError)
    return isinstance(outcome, Exception) and not is_ours


def try_call(call: Callable[..., Any], arguments: Mapping[str, Any]) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = call(**arguments)
            if isinstance(found, Iterator):
                list(islice(found, ROWS_MAX))
    except Exception as error:
        return error
    return found
