"""The command that gives a graph to an agent, over stdin and stdout."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraphdb.packages import install_command
from omnigraphdb.surfaces.cli.address import Actor, Store, Uri, choose_graph, open_store

if TYPE_CHECKING:
    from omnigraphdb.surfaces.mcp.backend import Backend
    from omnigraphdb.surfaces.mcp.tools import QueryTools

AGENT = "agent"
"""The actor of a session that names none."""


def mcp(
    uri: Uri = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no tool that writes.")
    ] = False,
    branch_per_session: Annotated[
        bool,
        typer.Option(
            "--branch-per-session",
            help="Write to agent/ACTOR/SESSION alone; a person merges what the agent proposes.",
        ),
    ] = False,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Folder of stored queries; each is a tool.")
    ] = None,
    query_tools: Annotated[
        str | None,
        typer.Option(
            "--query-tools",
            help="Stored queries as tools: each one a tool, or a pair to list and run any.",
        ),
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="The name of the session; a new one by default.")
    ] = None,
    store: Store = None,
    actor: Actor = None,
) -> None:
    """Give a graph to an agent (Model Context Protocol, over stdio).

    Example: omnigraphdb mcp people.omni --branch-per-session --as ada-assistant
    """
    from omnigraphdb.errors import ConfigError
    from omnigraphdb.runtime import SYSTEM

    place = choose_graph(uri, store)
    try:
        from omnigraphdb.surfaces.mcp.server import run_stdio
        from omnigraphdb.surfaces.mcp.session import Session

        backend = open_backend(place, actor, queries, read_only=read_only)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the protocol needs the package '{error.name}'; nothing was started",
            hint=f"install it with `{install_command('mcp')}`",
        ) from error
    id = session or SYSTEM.new_id()[-10:].lower()
    run_stdio(
        Session(
            backend,
            id,
            read_only=read_only,
            own_branch=branch_per_session,
            query_tools=read_query_tools(query_tools, os.environ),
        )
    )


def read_query_tools(given: str | None, environment: Mapping[str, str]) -> "QueryTools":
    """How stored queries become tools: by the flag, else by the environment."""
    from omnigraphdb.surfaces.mcp.tools import QueryTools

    chosen = given or environment.get("OMNIGRAPH_QUERY_TOOLS") or QueryTools.EACH
    if chosen not in list(QueryTools):
        raise typer.BadParameter(
            f"'{chosen}' is neither each nor pair; nothing was started", param_hint="--query-tools"
        )
    return QueryTools(chosen)


def open_backend(
    place: str, actor: str | None, queries: str | None, *, read_only: bool
) -> "Backend":
    """What answers the tools: a graph at hand, through the gates of a server, or a server."""
    if place.startswith(("http://", "https://")):
        if queries is not None:
            raise typer.BadParameter(
                "a server has stored queries of its own", param_hint="--queries"
            )
        return _open_served(place, actor)
    from omnigraphdb.surfaces.http.admission import Admission
    from omnigraphdb.surfaces.http.agents import LocalBackend
    from omnigraphdb.surfaces.http.gate import Gate
    from omnigraphdb.surfaces.http.options import DEFAULT_GRAPH, PER_ACTOR_BYTES, PER_ACTOR_WRITES
    from omnigraphdb.surfaces.http.served import Served, ServedGraph

    graph = open_store(place, read_only=read_only, actor=actor or AGENT)
    stored = None if queries is None else graph.stored_queries(Path(queries))
    found = ServedGraph(id=DEFAULT_GRAPH, graph=graph, queries=stored)
    served = Served(
        graphs={DEFAULT_GRAPH: found},
        default=DEFAULT_GRAPH,
        gate=Gate(has_tokens=False, read_only=read_only),
        tokens=None,
        admission=Admission(PER_ACTOR_WRITES, PER_ACTOR_BYTES),
        request_seconds=0.0,
    )
    return LocalBackend(served, found, actor or AGENT)


def _open_served(url: str, actor: str | None) -> "Backend":
    from omnigraphdb.remote.transport import Transport
    from omnigraphdb.surfaces.cli.address import name_graph
    from omnigraphdb.surfaces.cli.credentials import find_token
    from omnigraphdb.surfaces.mcp.remote import RemoteBackend

    if actor is not None:
        raise typer.BadParameter("--as names nobody on a server: its token decides who writes")
    return RemoteBackend(Transport(url, find_token(url, os.environ), name_graph()))
