"""Requests of verbs: each follows from the declaration of its verb."""

from typing import Any, TypeVar

from omnigraphdb.api.verbs.argument import list_arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Endpoint, Verb
from omnigraphdb.remote.answers import Answer
from omnigraphdb.remote.arguments import CONDITION, refuse_local, spell_headers
from omnigraphdb.remote.checks import check_facts, check_names
from omnigraphdb.remote.transport import Transport

A = TypeVar("A")


def send_verb(server: Transport, verb: Verb[A, Any], asked: A, call: Call) -> Answer:
    """Send the request of a verb whose arguments are of their kinds; refuse first what no request can carry."""
    endpoint = verb.endpoint
    refuse_local(_list_local(asked, call, endpoint))
    check_names(asked)
    check_facts(call)
    names, sent = verb.spell(asked)
    path = [
        names[part[1:-1]] if part.startswith("{") else part for part in endpoint.path.split("/")[1:]
    ]
    headers = spell_headers(call.key, call.message)
    if call.if_commit is not None:
        path, headers = [*path, "if-graph-commit"], {CONDITION: str(call.if_commit), **headers}
    return server.ask(
        endpoint.method,
        server.path(*path),
        params=None if endpoint.has_body else sent,
        body=sent if endpoint.has_body else None,
        headers=headers,
        writes=verb.writes,
    )


def _list_local(asked: Any, call: Call, endpoint: Endpoint) -> dict[str, object]:
    """List what a call says beside what its request can carry."""
    facts = {"actor": call.actor, "shows": call.shows}
    return facts | {
        argument.name: getattr(asked, argument.name)
        for argument in list_arguments(type(asked))
        if argument.is_local and argument.name not in endpoint.fixed
    }
