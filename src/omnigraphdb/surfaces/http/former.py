"""Routes in the words of earlier servers: former names of fields, and routes that others replace."""

from collections.abc import Mapping
from typing import Any, Final, NotRequired, TypedDict

from omnigraphdb.errors import UserInputError
from omnigraphdb.ids import MAIN
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.routing import Route
from omnigraphdb.values import replace

_FORMER: Final[Mapping[str, str]] = {"query": "query_source", "name": "query_name"}


def take_former_names(route: Route) -> Route:
    """Have a route of mutations take the former names of its fields too."""
    return replace(
        route,
        body=_add_former_names(route.body),
        handler=lambda call: route.handler(_read_former_names(call)),
    )


def start_from_main(route: Route) -> Route:
    """Have a route of loads make a missing branch from main."""
    assert route.asks is not None, "a load asks for rights"
    asks = route.asks
    return replace(
        route,
        handler=lambda call: route.handler(_name_base(call)),
        asks=lambda call: asks(_name_base(call)),
    )


def rename(route: Route, name: str) -> Route:
    """Give a route the name that it had in earlier servers."""
    verb, _, _ = route.summary.partition(" in one commit")
    return replace(
        route,
        path=f"/{name}",
        operation=name,
        summary=f"{verb}; `{route.path}` replaces it",
        successor=route.operation,
    )


def _add_former_names(body: Any) -> Any:
    """Add the former names to the shape of a body; either name may be left out."""
    fields = {**body.__annotations__, "query": NotRequired[str]}
    make: Any = TypedDict
    shape = make(body.__name__, fields | {_FORMER[name]: fields[name] for name in _FORMER})
    shape.__doc__ = body.__doc__
    return shape


def _read_former_names(call: Call) -> Call:
    body = {name: value for name, value in call.body.items() if name not in _FORMER.values()}
    for name, former in _FORMER.items():
        body[name] = _pick(call.body, name, former)
    if body["query"] is None:
        raise UserInputError("field 'query' is missing; nothing was done")
    return replace(call, body=body)


def _pick(body: Mapping[str, Any], name: str, former: str) -> Any:
    """Read a field under its name or its former name."""
    values = [body[key] for key in (name, former) if body.get(key) is not None]
    if len(values) > 1:
        raise UserInputError(f"'{name}' and '{former}' are the same field; nothing was done")
    return values[0] if values else None


def _name_base(call: Call) -> Call:
    """Name main as the base; an empty name is refused where it is used."""
    base = call.body.get("from")
    return replace(call, body={**call.body, "from": MAIN if base is None else base})
