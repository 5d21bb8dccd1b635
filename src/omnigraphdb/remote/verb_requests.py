"""Requests of verbs: each follows from the declaration of its verb."""

from collections.abc import Mapping
from typing import Any, TypeVar

from omnigraphdb.api.verbs.argument import list_arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.verb import Verb
from omnigraphdb.remote.answers import Answer
from omnigraphdb.remote.arguments import CONDITION, refuse_local, spell_headers, spell_params
from omnigraphdb.remote.checks import check_facts, check_names
from omnigraphdb.remote.transport import Transport

A = TypeVar("A")


def send_verb(server: Transport, verb: Verb[A, Any], asked: A, call: Call) -> Answer:
    """Send the request of a verb whose arguments are of their kinds; refuse first what no request can carry."""
    endpoint = verb.endpoint
    check_call(verb, asked, call)
    names, fields = verb.spell(asked)
    sent = _spell_values(fields)
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
        writes=verb.writes and not getattr(asked, "dry_run", False),
    )


def check_call(verb: Verb[A, Any], asked: A, call: Call) -> None:
    """Refuse what no request can carry, before anything is sent."""
    refuse_local(_list_local(verb, asked, call))
    check_names(asked)
    check_facts(call)


def _spell_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Spell parameters, which are values by name, as JSON."""
    return {
        name: spell_params(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
    }


def _list_local(verb: Verb[Any, Any], asked: Any, call: Call) -> dict[str, object]:
    """List what a call says beside what its request can carry."""
    facts: dict[str, object] = {"actor": call.actor, "shows": call.shows}
    if not verb.conditional:
        facts |= {"if_commit": call.if_commit}
    return facts | {
        argument.name: getattr(asked, argument.name)
        for argument in list_arguments(type(asked))
        if argument.is_local and argument.name not in verb.endpoint.fixed
    }
