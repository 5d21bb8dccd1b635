"""A server as the backend of tools: its routes are asked, and its own tools tell what the actor may."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypedDict, TypeVar
from urllib.parse import quote

from omnigraphdb.api import wire
from omnigraphdb.api.verbs.argument import check_arguments
from omnigraphdb.api.verbs.call import Call
from omnigraphdb.api.verbs.history import HISTORY_VERBS
from omnigraphdb.api.verbs.read import SHOW_SCHEMA, SHOW_SNAPSHOT
from omnigraphdb.api.verbs.verb import Verb
from omnigraphdb.api.verbs.write import WRITE_VERBS
from omnigraphdb.errors import OmniError
from omnigraphdb.remote import forms
from omnigraphdb.remote.answers import Form
from omnigraphdb.remote.arguments import spell_headers
from omnigraphdb.remote.transport import Transport
from omnigraphdb.remote.verb_requests import send_verb
from omnigraphdb.surfaces.mcp.backend import Request, Right
from omnigraphdb.surfaces.mcp.tools import STORED_RUN

A = TypeVar("A")
_ROUTES: Final[Mapping[str, tuple[str, str, Any]]] = {
    **{
        verb.endpoint.operation: (verb.endpoint.method, verb.endpoint.path, verb.load_result())
        for verb in (*HISTORY_VERBS, *WRITE_VERBS, SHOW_SCHEMA, SHOW_SNAPSHOT)
    },
    "health": ("GET", "/healthz", wire.HealthOutput),
    "listGraphs": ("GET", "/graphs", wire.GraphListResponse),
    "query": ("POST", "/query", wire.ReadOutput),
    "listCommitChanges": ("GET", "/commits/{commit}/changes", wire.CommitChangesOutput),
    "pollChanges": ("GET", "/changes", wire.ChangePageOutput),
    "diff": ("GET", "/diff", wire.DiffOutput),
    "invokeQuery": ("POST", "/queries/{name}", wire.InvokeOutput),
}
_READS_BY_POST: Final = frozenset({"query"})
_OF_SERVER: Final = frozenset({"health", "listGraphs"})


class RemoteBackend:
    """Runs verbs and operations by asking a server; the token decides who asks."""

    def __init__(self, transport: Transport, actor: str | None = None) -> None:
        self._server = transport
        self.actor = actor
        """Whom the branch of a session is named after; the server goes by the token."""

    def run(self, request: Request) -> dict[str, Any]:
        """Send an operation to its route."""
        method, template, shape = _ROUTES[request.operation]
        path = template.format(**{name: quote(one, safe="") for name, one in request.path.items()})
        prefix = "" if request.operation in _OF_SERVER else self._server.prefix
        headers = spell_headers(None, request.message)
        body = request.body
        if body is None and method == "POST":
            body = {}
        answer = self._server.ask(
            method,
            prefix + path,
            params=dict(request.query),
            body=body,
            headers=headers,
            writes=False if request.operation in _READS_BY_POST else None,
        )
        return answer.document(_form(shape))

    def run_verb(self, verb: Verb[A, Any], asked: A, message: str | None = None) -> dict[str, Any]:
        """Send the request of a verb, as the client of a server does."""
        answer = send_verb(self._server, verb, check_arguments(asked), Call(message=message))
        return answer.document(_form(verb.load_result()))

    def may(self, tool: str, needs: Sequence[Right]) -> bool:
        """Whether the server lists the tool for this actor; one that lists none is asked by each call."""
        if not needs or self._listed is None or tool in self._listed:
            return True
        is_stored = any(one.query is not None for one in needs)
        # The server offers one tool for all stored queries, and decides about each when it is run.
        return is_stored and STORED_RUN in self._listed

    @cached_property
    def _listed(self) -> frozenset[str] | None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {"accept": "application/json, text/event-stream"}
        try:
            return self._server.post(
                f"{self._server.prefix}/mcp", _TOOLS, body, headers=headers, writes=False
            )
        except OmniError:
            return None

    def list_queries(self) -> Sequence[Mapping[str, Any]]:
        """The stored queries of the server."""
        try:
            return self._server.get(self._server.path("queries"), forms.QUERIES)
        except OmniError:
            return []


def _form(shape: Any) -> Form[dict[str, Any]]:
    """The form of an answer that is passed on as it came."""
    return Form(shape, lambda body: body)


class _Named(TypedDict):
    """A tool, of which its name is read."""

    name: str


class _Tools(TypedDict):
    """The tools of a server."""

    tools: list[_Named]


class _ToolsAnswer(TypedDict):
    """The answer that lists them."""

    result: _Tools


_TOOLS: Final = Form(
    _ToolsAnswer, lambda body: frozenset(str(one["name"]) for one in body["result"]["tools"])
)
