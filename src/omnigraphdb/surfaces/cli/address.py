"""Which graph a command touches: exactly one of the ways to name it."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.errors import UserInputError
from omnigraphdb.packages import install_command
from omnigraphdb.surfaces.cli.completing import silent
from omnigraphdb.surfaces.cli.output import note, remark
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph
    from omnigraphdb.storage.layout import Root
    from omnigraphdb.surfaces.cli.config import Scope


@silent
def complete_branch(ctx: Any) -> Iterable[str]:
    """Branches of the graph that the call names; a graph on this machine is not opened, since loading Lance takes too long."""
    from omnigraphdb.storage.layout import root_of

    named = ctx.params.get("uri") or ctx.params.get("store") or _find_typed_graph()
    uri = choose_graph(named)
    root = root_of(uri)
    if root.is_local and os.environ.get("OMNIGRAPH_UNOFFICIAL_LANCE", "on") == "on":
        return _list_local_branches(root)
    with open_store(uri) as graph:
        return [branch.name for branch in graph.branches()]


def _find_typed_graph() -> str | None:
    """The first word of an unfinished call that is a graph: before an option without its value no argument is read."""
    from omnigraphdb.storage.layout import MANIFEST

    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = [word for word in typed.split() if not word.startswith("-")]
    return next((word for word in words if os.path.isdir(os.path.join(word, MANIFEST))), None)


def _list_local_branches(root: "Root") -> list[str]:
    from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
    from omnigraphdb.storage.lance.unofficial.ref_names import list_local_branches
    from omnigraphdb.storage.layout import MANIFEST

    if not os.path.isdir(root.at(MANIFEST)):
        return []
    return ["main", *sorted(list_local_branches(root) - {SCHEMA_APPLY_LOCK})]


Uri = Annotated[
    str | None, typer.Argument(help="Where the graph is: a path or s3://…", show_default=False)
]
Store = Annotated[
    str | None, typer.Option("--store", "--uri", metavar="URI", help="Where the graph is.")
]
Branch = Annotated[
    str,
    typer.Option(
        "--branch", "-b", metavar="NAME", help="The branch.", autocompletion=complete_branch
    ),
]
Actor = Annotated[
    str | None,
    typer.Option("--as", envvar="OMNIGRAPH_ACTOR", help="Who writes: the actor of the commit."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask before destroying data on another machine.")
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="KEY", help="Idempotency key: repeated with it, the call is done once."
    ),
]
Message = Annotated[
    str | None, typer.Option("--message", "-m", metavar="TEXT", help="What the commit says.")
]
SYSTEM_ACTORS = "omnigraph:"


SERVED = frozenset(
    {
        "query",
        "mutate",
        "load",
        "export",
        "snapshot",
        "diff",
        "history",
        "branch",
        "commit",
        "schema",
        "serve",
        "mcp",
        "jobs",
        "blob",
        "changes",
        "graphs",
        "alias",
    }
)
"""Commands that work on a served graph as on one at hand."""


@dataclass(slots=True)
class _Scope:
    """The server that a call names."""

    server: str | None = None
    graph: str | None = None
    words: Sequence[str] = ()
    """The command."""


_scope = _Scope()


def choose_server(server: str | None, graph: str | None, words: Sequence[str]) -> None:
    """Remember the server of this call; refuse one for a command that needs the storage of a graph."""
    if graph is not None and server is None:
        raise typer.BadParameter("--graph chooses a graph of a server: name it with --server")
    _scope.words = words
    if server is not None and words[:1] == ("alias",):
        raise typer.BadParameter(
            "an alias names its graph in the configuration; leave --server out"
        )
    if server is not None and words:
        _require_served("--server names")
    _scope.server, _scope.graph = server, graph


def is_server_chosen() -> bool:
    """Whether the call names a server."""
    return _scope.server is not None


def _require_served(who: str) -> None:
    """Refuse a server for a command that needs the storage of a graph."""
    words = _scope.words
    command = " ".join(words[:2] if words[:1] == ("schema",) else words[:1])
    if not words or words[0] not in SERVED or command in ("schema plan", "serve"):
        raise typer.BadParameter(
            f"{who} a served graph, and `omnigraphdb {command}` needs its storage: give its path or URI instead"
        )


def choose_graph(*given: str | None) -> str:
    """The location of the one graph that the command names."""
    named = [one for one in given if one is not None]
    if _scope.server is not None:
        if named:
            raise typer.BadParameter(
                f"a graph was named twice: '{named[0]}' and --server '{_scope.server}'; keep one"
            )
        from omnigraphdb.surfaces.cli.credentials import find_url

        return find_url(_scope.server, os.environ)
    if not named:
        scope = _choose_default()
        if scope.server is not None:
            return _use_scope(scope.server, scope)
        named = [str(scope.store)]
    if len(named) > 1:
        raise typer.BadParameter(
            f"a graph was named twice: '{named[0]}' and '{named[1]}'; keep one"
        )
    if named[0].startswith(("http://", "https://")):
        raise typer.BadParameter(
            f"'{named[0]}' is a server; this command needs the graph's storage"
        )
    return str(Path(named[0]).expanduser()) if "://" not in named[0] else named[0]


def _choose_default() -> "Scope":
    """What the profile, `$OMNIGRAPH_STORE`, or the defaults in the configuration files name."""
    from omnigraphdb.surfaces.cli.config import choose_scope

    found, warnings = choose_scope(os.environ)
    for line in warnings:
        note(f"warning: {line}")
    if found.server is None and found.store is None:
        raise typer.BadParameter(
            "name a graph: give its path or URI, or --store, or --profile, or set OMNIGRAPH_STORE, or name a store "
            "under defaults in omnigraph.yaml or ~/.omnigraphdb/config.yaml"
        )
    return found


def _use_scope(server: str, scope: "Scope") -> str:
    """Go on with the server that a profile or the defaults name; give its address."""
    _require_served(f"{scope.named_by} names")
    return use_server(server, _scope.graph or scope.graph)


def use_server(server: str, graph: str | None) -> str:
    """Go on with a server, and a graph of it; give its address."""
    from omnigraphdb.surfaces.cli.credentials import find_url

    _scope.server, _scope.graph = server, graph
    return find_url(server, os.environ)


def open_store(uri: str, *, read_only: bool = True, actor: str | None = None) -> "Graph":
    """Open the graph a command works on."""
    from omnigraphdb.api.opening import open as open_graph

    if uri.startswith(("http://", "https://")):
        served: Graph = _open_served(uri, actor)
        return served
    if actor is not None and actor.startswith(SYSTEM_ACTORS):
        raise typer.BadParameter(f"actors beginning with '{SYSTEM_ACTORS}' are the system's own")
    writer = actor if read_only or actor is not None else _default_actor()
    policy = None if read_only else os.environ.get("OMNIGRAPH_POLICY_FILE")
    return open_graph(
        uri, read_only=read_only, actor=writer, policy=None if policy is None else Path(policy)
    )


def name_graph() -> str | None:
    """The graph of the server that a call names."""
    return _scope.graph


def _open_served(url: str, actor: str | None) -> Any:
    """Reach a served graph; the token, not `--as`, decides who writes."""
    from omnigraphdb.errors import ConfigError
    from omnigraphdb.surfaces.cli.credentials import find_token

    if actor is not None:
        raise typer.BadParameter("--as names nobody on a server: its token decides who writes")
    try:
        from omnigraphdb.remote.graph import connect
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a served graph needs the package '{error.name}'; nothing was done",
            hint=f"install it with `{install_command('client')}`",
        ) from error
    return connect(url, token=find_token(url, os.environ), graph=_scope.graph)


def _default_actor() -> str | None:
    """The actor that the configuration files name."""
    from omnigraphdb.surfaces.cli.config import load_config

    found = load_config(os.environ).section("operator").get("actor")
    return None if found is None else str(found)


def read_point(at: str | None) -> str | int | None:
    """A point in history as the graph takes it: a number is a manifest version, any other text a commit."""
    return int(at) if at is not None and at.isdigit() and len(at) < 20 else at


def announce(verb: str, graph: "Graph") -> None:
    """Print which graph the command is about to write to."""
    kind = "direct, remote" if is_remote(graph.uri) else "direct, local"
    if graph.uri.startswith(("http://", "https://")):
        kind = "served"
    remark(f"omnigraphdb {verb} → {graph.uri} ({kind})")


def is_remote(uri: str) -> bool:
    """Whether a graph is on another machine."""
    return "://" in uri and not uri.startswith("file://")


def ask_consent(what: str, uri: str, *, yes: bool, json: bool) -> None:
    """Ask before destroying data on another machine; without a terminal, refuse."""
    if yes or not is_remote(uri):
        return
    if json or not sys.stdin.isatty():
        raise UserInputError(
            f"{what} at '{uri}' destroys data on another machine; no changes were made",
            hint="pass --yes to do it",
        )
    note(f"{what} at '{uri}' destroys data on another machine.")
    if typer.prompt("Type 'yes' to continue", err=True).strip().lower() not in ("yes", "y"):
        raise refuse_unconfirmed(what)


def refuse_unconfirmed(what: str) -> UserInputError:
    """The refusal of what a person was asked about and did not want."""
    return UserInputError(f"{what} was not confirmed; no changes were made")
