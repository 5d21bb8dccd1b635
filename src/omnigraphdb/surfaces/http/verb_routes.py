"""Routes of verbs: each follows from the declaration of its verb."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NotRequired, TypedDict, TypeVar, get_origin

from omnigraphdb.api.verbs.argument import Argument, list_arguments, read_body
from omnigraphdb.api.verbs.call import Call as VerbCall
from omnigraphdb.api.verbs.verb import Endpoint, Verb, run_verb
from omnigraphdb.errors import OmniError
from omnigraphdb.policy import PolicyAction, ResourceScope
from omnigraphdb.surfaces.http.calls import Call, Param
from omnigraphdb.surfaces.http.gate import Ask
from omnigraphdb.surfaces.http.hiding import hide_unreadable
from omnigraphdb.surfaces.http.replies import Reply, reply_write
from omnigraphdb.surfaces.http.routing import BodyKind, Route
from omnigraphdb.values import replace
from omnigraphdb.wire import fields_of_value

A = TypeVar("A")
Asks = Callable[[Call], Iterable[Ask]]

_READ_STATUSES: Final = (400, 401, 403, 404)
_BODY_STATUSES: Final = (413, 415)
_WRITE_STATUSES: Final = (409, 429, 503)
_CONDITION_STATUS: Final = 412


def make_routes(verb: Verb[Any, Any], *, asks: Asks | None = None) -> Iterator[Route]:
    """Make the route of a verb, and the one that depends on the head of its branch.

    `asks` lists its rights where they need more than its arguments.
    """
    endpoint = verb.endpoint
    route = Route(
        method=endpoint.method,
        path=endpoint.path,
        operation=endpoint.operation,
        summary=verb.summary,
        handler=lambda call: _answer(verb, call),
        verb=verb.kind,
        asks=asks or (lambda call: list_asks(verb, call, _read_arguments(verb, call))),
        writes=verb.writes,
        keyed=verb.keyed,
        body_kind=_find_body_kind(verb),
        body=_make_body(verb) if endpoint.has_body else None,
        params=() if endpoint.has_body else list_params(verb),
        names=_list_names(verb),
        answer=verb.load_result(),
        statuses=_list_statuses(verb),
    )
    yield route
    if verb.conditional:
        yield replace(
            route,
            path=f"{endpoint.path}/if-graph-commit",
            operation=f"{endpoint.operation}IfGraphCommit",
            summary=f"{verb.summary}, if the head is the commit of the header",
            conditional=True,
            statuses=(*route.statuses, _CONDITION_STATUS),
        )


def _find_body_kind(verb: Verb[Any, Any]) -> BodyKind:
    if not verb.endpoint.has_body:
        return BodyKind.NONE
    needs_body = any(argument.is_required for argument in _list_beside_path(verb))
    return BodyKind.JSON if needs_body else BodyKind.OPTIONAL_JSON


def _list_beside_path(verb: Verb[Any, Any]) -> Iterator[Argument]:
    """List the arguments that a request sends beside those in its path."""
    in_path = verb.endpoint.names.values()
    return (argument for argument in verb.list_sent() if argument.name not in in_path)


def _list_names(verb: Verb[Any, Any]) -> dict[str, str]:
    """List the names in the path, with the text of their arguments."""
    texts = {argument.name: argument.help for argument in list_arguments(verb.arguments)}
    return {name: texts[argument] for name, argument in verb.endpoint.names.items()}


def list_params(verb: Verb[Any, Any], *, without: str | None = None) -> tuple[Param, ...]:
    """List the arguments that a query string has; `without` is the one that the body is."""
    return tuple(_make_param(sent) for sent in _list_beside_path(verb) if sent.name != without)


def _make_param(argument: Argument) -> Param:
    return Param(
        name=argument.wire,
        kind=int if argument.type is int else str,
        required=argument.is_required,
        repeatable=_is_list(argument),
        text=argument.help,
    )


def _is_list(argument: Argument) -> bool:
    return get_origin(argument.type) is list


def _make_body(verb: Verb[Any, Any]) -> Any:
    fields = {
        argument.wire: argument.type if argument.is_required else NotRequired[argument.type | None]
        for argument in _list_beside_path(verb)
    }
    assert verb.endpoint.input is not None, f"{verb.endpoint.operation} names no body"
    make: Any = TypedDict
    shape = make(verb.endpoint.input, fields)
    shape.__doc__ = verb.arguments.__doc__
    return shape


def _list_statuses(verb: Verb[Any, Any]) -> tuple[int, ...]:
    statuses = {*_READ_STATUSES, *verb.endpoint.statuses}
    statuses |= set(_BODY_STATUSES) if verb.endpoint.has_body else set()
    statuses |= set(_WRITE_STATUSES) if verb.writes else set()
    return tuple(sorted(statuses))


# ---- requests


def _read_arguments(verb: Verb[A, Any], call: Call) -> A:
    endpoint: Endpoint = verb.endpoint
    names = {argument.name: argument.wire for argument in list_arguments(verb.arguments)}
    path = {names[argument]: call.path[name] for name, argument in endpoint.names.items()}
    sent = call.body if endpoint.has_body else read_query(verb, call)
    return read_body(verb.arguments, {**sent, **path}, endpoint.fixed)


def read_query(verb: Verb[Any, Any], call: Call) -> dict[str, Any]:
    """Read the query string; what it does not name is left out."""
    return {
        argument.wire: _read_param(call, argument)
        for argument in _list_beside_path(verb)
        if argument.wire in call.query
    }


def _read_param(call: Call, argument: Argument) -> Any:
    if argument.type is bool:
        return call.flag(argument.wire)
    if argument.type is int:
        return call.count(argument.wire)
    return call.texts(argument.wire) if _is_list(argument) else call.text(argument.wire)


def list_asks(verb: Verb[A, Any], call: Call, asked: A) -> Iterator[Ask]:
    """List the rights of a call, as the gate asks for them."""
    for right in verb.required_rights(call.place.graph, asked, served=True):
        scope = ResourceScope(
            branch_name=right.branch, target_name=right.target, query_name=right.query
        )
        yield Ask(PolicyAction(right.action), scope)


def _answer(verb: Verb[Any, Any], call: Call) -> Reply:
    return reply_write(run_asked(verb, call))


def run_asked(verb: Verb[Any, Any], call: Call) -> dict[str, Any]:
    """Run a verb as a request asks for it, once the gate has allowed that; give the answer in its JSON form."""
    return _run(verb, call, _read_arguments(verb, call))


def answer_verb(verb: Verb[A, Any], call: Call, asked: A) -> Reply:
    """Run a verb for a request whose arguments were read, and answer with its JSON form."""
    return reply_write(_run(verb, call, asked))


def _run(verb: Verb[A, Any], call: Call, asked: A) -> dict[str, Any]:
    facts = VerbCall(
        actor=call.actor,
        message=call.message,
        key=call.key,
        if_commit=call.if_commit,
        spark=False,
        shows=call.may_read,
        attempt=lambda *further: _attempt(call, *further),
    )
    body = run_verb(call.place.graph, verb, asked, facts).to_dict()
    result: Any = verb.load_result()
    names_graph = any(field.name == "uri" for field in fields_of_value(result))
    return call.name_graph(body) if names_graph else body


def _attempt(call: Call, verb: Verb[A, Any], asked: A, branch: str) -> str | None:
    """Run a further verb about a branch for the same caller; give the text of its refusal."""
    try:
        for ask in list_asks(verb, call, asked):
            call.require(ask)
        run_verb(call.place.graph, verb, asked, VerbCall(actor=call.actor))
    except OmniError as error:
        return str(call.hide_address(hide_unreadable(error, call.may_read, branch)))
    return None
