"""Options of a server: from its flags, else from the environment, else the default."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from omnigraphdb.errors import ConfigError, shorten
from omnigraphdb.surfaces.http.served import (
    REQUEST_SECONDS,
    SizeLimits,
    TimeLimits,
    check_graph_id,
)
from omnigraphdb.surfaces.http.turns import READERS_MAX, WAITING_MAX
from omnigraphdb.surfaces.mcp.tools import QueryTools
from omnigraphdb.values import dataclass

BIND: Final = "127.0.0.1:8080"
DEFAULT_GRAPH: Final = "default"
PER_ACTOR_WRITES: Final = 16
PER_ACTOR_BYTES: Final = 4 * 1024 * 1024 * 1024
_HOST_NAME: Final = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")
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
    hosts: frozenset[str] = frozenset()
    """Names that `Host` may have beside those of this machine, where the server listens to it alone."""
    limits: SizeLimits = field(default_factory=SizeLimits)
    times: TimeLimits = field(default_factory=TimeLimits)
    actor_writes: int = PER_ACTOR_WRITES
    actor_bytes: int = PER_ACTOR_BYTES
    actor_readers: int = READERS_MAX
    actor_waiting_reads: int = WAITING_MAX
    request_seconds: float = REQUEST_SECONDS
    query_tools: QueryTools = QueryTools.EACH
    shutdown_seconds: float = 30.0
    log_format: str = "text"
    log_level: str = "info"


def is_set(environment: Mapping[str, str], name: str) -> bool:
    """Whether a variable is set to something true."""
    return environment.get(name, "").strip().lower() not in ("", "0", "false")


def read_names(
    given: Sequence[str] | None, environment: Mapping[str, str], variable: str
) -> frozenset[str]:
    """Read a repeatable option, else the variable that stands for it, where commas separate the names."""
    names = given or environment.get(variable, "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def read_hosts(given: Sequence[str] | None, environment: Mapping[str, str]) -> frozenset[str]:
    """Read the names that `Host` may have beside those of this machine."""
    names = read_names(given, environment, "OMNIGRAPH_ALLOW_HOSTS")
    wrong = next((name for name in sorted(names) if not _HOST_NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ConfigError(
            f"'{shorten(wrong)}' is not the name of a host; nothing was started",
            hint="write it without scheme and port, as in --allow-host graphs.example",
        )
    return frozenset(name.lower() for name in names)


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
