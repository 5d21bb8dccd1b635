"""Options of a server: from its flags, else from the environment, else the default."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from omnigraph.errors import ConfigError
from omnigraph.surfaces.http.served import SizeLimits, check_graph_id
from omnigraph.surfaces.mcp.tools import QueryTools
from omnigraph.values import dataclass

BIND: Final = "127.0.0.1:8080"
DEFAULT_GRAPH: Final = "default"
PER_ACTOR_WRITES: Final = 16
PER_ACTOR_BYTES: Final = 4 * 1024 * 1024 * 1024
RECONCILE_SECONDS: Final = 5.0
"""How often a server looks for writes that died, when no setting says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a server is started with."""

    graphs: Mapping[str, str]
    """Places by graph id."""
    single: bool
    """One graph without an id of its own: it has flat routes too."""
    host: str = "127.0.0.1"
    port: int = 8080
    unauthenticated: bool = False
    read_only: bool = False
    require_all_graphs: bool = False
    queries: str | None = None
    policy: str | None = None
    """The file that guards every graph of the server."""
    server_policy: str | None = None
    """The file that guards the server itself."""
    origins: frozenset[str] = frozenset()
    limits: SizeLimits = field(default_factory=SizeLimits)
    actor_writes: int = PER_ACTOR_WRITES
    actor_bytes: int = PER_ACTOR_BYTES
    request_seconds: float = 0.0
    query_tools: QueryTools = QueryTools.EACH
    shutdown_seconds: float = 30.0
    log_format: str = "text"
    log_level: str = "info"


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable is set to something true."""
    return environment.get(name, "").strip().lower() not in ("", "0", "false")


def read_graphs(places: Sequence[str], graph_id: str | None) -> tuple[dict[str, str], bool]:
    """Read `URI`, or `ID=URI …`; tell whether it is one graph without an id."""
    named = [place.partition("=") for place in places]
    with_id = [bool(equals) and "/" not in name and "\\" not in name for name, equals, _ in named]
    if len(places) == 1 and not with_id[0]:
        return {check_graph_id(graph_id or DEFAULT_GRAPH): places[0]}, True
    if not places or not all(with_id):
        raise ConfigError("name one graph by its URI, or several as ID=URI; nothing was started")
    if graph_id is not None:
        raise ConfigError("--graph-id names the only graph; these have ids; nothing was started")
    found: dict[str, str] = {}
    for name, _, place in named:
        if check_graph_id(name) in found or not place:
            raise ConfigError(f"graph '{name}' is named twice or has no URI; nothing was started")
        found[name] = place
    return found, False


def read_bind(text: str) -> tuple[str, int]:
    """Read `HOST:PORT`; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not bare or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f"'{text}' is no HOST:PORT; nothing was started",
            hint=f"write it as in {BIND}, with a port up to 65535; an IPv6 address stands in brackets",
        )
    return bare, int(port)


def read_number(environment: Mapping[str, str], name: str, default: int) -> int:
    """Read a variable that counts."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name} is '{text}', not a whole number from 1 on; nothing was started")
    return int(text)
