"""A server as the backend of tools: its routes are asked, and its own tools tell what the actor may."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from omnigraph.errors import OmniError
from omnigraph.remote.transport import Transport
from omnigraph.surfaces.mcp.backend import Request, Right
from omnigraph.surfaces.mcp.tools import STORED_RUN

_ROUTES: Final[Mapping[str, tuple[str, str]]] = {
    "health": ("GET", "/healthz"),
    "listGraphs": ("GET", "/graphs"),
    "snapshot": ("GET", "/snapshot"),
    "query": ("POST", "/query"),
    "getSchema": ("GET", "/schema"),
    "listBranches": ("GET", "/branches"),
    "listCommits": ("GET", "/commits"),
    "getCommit": ("GET", "/commits/{commit}"),
    "listCommitChanges": ("GET", "/commits/{commit}/changes"),
    "pollChanges": ("GET", "/changes"),
    "diff": ("GET", "/diff"),
    "mutate": ("POST", "/mutate"),
    "load": ("POST", "/load"),
    "createBranch": ("POST", "/branches"),
    "deleteBranch": ("DELETE", "/branches/{branch}"),
    "mergeBranches": ("POST", "/branches/merge"),
    "previewMerge": ("POST", "/branches/merge/preview"),
    "invokeQuery": ("POST", "/queries/{name}"),
}
_OF_SERVER: Final = frozenset({"health", "listGraphs"})
MESSAGE: Final = "omnigraph-message"
"""The header that carries the message of a commit."""


class RemoteBackend:
    """Answers operations by asking a server; the token decides who asks."""

    def __init__(self, transport: Transport, actor: str | None = None) -> None:
        self._server = transport
        self.actor = actor
        """Whom the branch of a session is named after; the server goes by the token."""

    def run(self, request: Request) -> dict[str, Any]:
        """Send an operation to its route."""
        method, template = _ROUTES[request.operation]
        path = template.format(**{name: quote(one, safe="") for name, one in request.path.items()})
        prefix = "" if request.operation in _OF_SERVER else self._server.prefix
        headers = {} if request.message is None else {MESSAGE: quote(request.message)}
        body = request.body
        if body is None and method == "POST":
            body = {}
        answer = self._server.ask(
            method, prefix + path, params=dict(request.query), body=body, headers=headers
        )
        found: dict[str, Any] = answer.json()
        return found

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
            answer = self._server.ask(
                "POST", f"{self._server.prefix}/mcp", body=body, headers=headers
            )
            return frozenset(one["name"] for one in answer.json()["result"]["tools"])
        except (OmniError, LookupError, json.JSONDecodeError):
            return None

    def list_queries(self) -> Sequence[Mapping[str, Any]]:
        """The stored queries of the server."""
        try:
            found: list[Mapping[str, Any]] = self._server.get(self._server.path("queries"))[
                "queries"
            ]
        except OmniError:
            return []
        return found
