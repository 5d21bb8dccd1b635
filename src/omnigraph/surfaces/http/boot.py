"""Starting a server: tokens, runtime state, graphs and their stored queries."""

import os
from collections.abc import Mapping

from omnigraph.api.opening import open as open_graph
from omnigraph.errors import ConfigError, OmniError
from omnigraph.logs import get_logger
from omnigraph.surfaces.http.admission import Admission
from omnigraph.surfaces.http.cors import check_origins
from omnigraph.surfaces.http.gate import Gate, RuntimeState
from omnigraph.surfaces.http.options import RECONCILE_SECONDS, Options
from omnigraph.surfaces.http.served import Served, ServedGraph
from omnigraph.surfaces.http.tokens import Tokens, read_tokens

_log = get_logger(__name__)


def boot(options: Options, environment: Mapping[str, str]) -> Served:
    """Open what is to be served; a server that nobody may ask, or that everyone may ask by mistake, is not started."""
    if environment.get("OMNIGRAPH_POLICY_FILE"):
        raise ConfigError(
            "a policy was given, and this server evaluates none; it was not started",
            hint="start it without --policy: actors with tokens may then only read",
        )
    tokens = read_tokens(environment)
    state = _choose_state(tokens, options)
    origins = check_origins(options.origins, has_tokens=tokens is not None)
    _log.info("server.tokens", source="none" if tokens is None else tokens.source, state=str(state))
    graphs, quarantined = _open_graphs(options)
    return Served(
        graphs=graphs,
        default=next(iter(graphs)) if options.single else None,
        gate=Gate(state, options.read_only),
        tokens=tokens,
        admission=Admission(options.actor_writes, options.actor_bytes),
        limits=options.limits,
        quarantined=quarantined,
        origins=origins,
        request_seconds=options.request_seconds,
    )


def _choose_state(tokens: Tokens | None, options: Options) -> RuntimeState:
    if tokens is not None:
        return RuntimeState.DEFAULT_DENY
    if not options.unauthenticated:
        raise ConfigError(
            "no tokens are set, so that everyone who reaches the server could write; it was not started",
            hint="set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass --unauthenticated",
        )
    return RuntimeState.OPEN


def _open_graphs(options: Options) -> tuple[dict[str, ServedGraph], dict[str, str]]:
    graphs: dict[str, ServedGraph] = {}
    quarantined: dict[str, str] = {}
    for name, place in options.graphs.items():
        try:
            graphs[name] = _open(name, place, options)
        except OmniError as error:
            if options.single or options.require_all_graphs:
                _close(graphs)
                raise
            quarantined[name] = str(error)
            _log.warning("server.graph_quarantined", graph=name, reason=str(error))
        else:
            _log.info("server.graph_opened", graph=name)
    if not graphs:
        raise ConfigError(f"none of the graphs could be opened: {'; '.join(quarantined.values())}")
    return graphs, quarantined


def _open(name: str, place: str, options: Options) -> ServedGraph:
    """Open a graph; unless a setting says otherwise, a thread of it recovers writes that died."""
    chosen = "OMNIGRAPH_RECONCILE_SECONDS" in os.environ
    config = {} if options.read_only or chosen else {"reconcile_seconds": RECONCILE_SECONDS}
    graph = open_graph(place, read_only=options.read_only, config=config)
    try:
        stored = None if options.queries is None else graph.stored_queries(options.queries)
    except OmniError:
        graph.close()
        raise
    return ServedGraph(id=name, graph=graph, queries=stored)


def _close(graphs: dict[str, ServedGraph]) -> None:
    for one in graphs.values():
        one.graph.close()
