"""Starting a server: tokens, runtime state, graphs and their stored queries."""

import os
from collections.abc import Mapping
from pathlib import Path

from omnigraphdb.api.opening import open as open_graph
from omnigraphdb.errors import ConfigError, OmniError
from omnigraphdb.logs import get_logger
from omnigraphdb.policy import PolicyEngine
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.cors import check_origins
from omnigraphdb.surfaces.http.entry import EntryRules, is_loopback
from omnigraphdb.surfaces.http.gate import Gate, RuntimeState
from omnigraphdb.surfaces.http.options import RECONCILE_SECONDS, Options
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.tokens import Tokens, read_tokens
from omnigraphdb.surfaces.http.turns import Turns

_log = get_logger(__name__)


def boot(options: Options, environment: Mapping[str, str]) -> Served:
    """Open what is to be served; a server that nobody may ask, or that everyone may ask by mistake, is not started."""
    tokens = read_tokens(environment)
    _require_callers(tokens, options)
    origins = check_origins(options.origins, has_tokens=tokens is not None)
    gate = _make_gate(tokens, options)
    graphs, quarantined = _open_graphs(options)
    states = {name: gate.state_of(one.graph.guard) for name, one in graphs.items()}
    _log.info(
        "server.tokens",
        source="none" if tokens is None else tokens.source,
        state=", ".join(sorted({str(one) for one in states.values()})),
    )
    if tokens is None and RuntimeState.POLICY_ENABLED in states.values():
        _close(graphs)
        raise _make_useless()
    return Served(
        graphs=graphs,
        default=next(iter(graphs)) if options.single else None,
        gate=gate,
        tokens=tokens,
        admission=Admission(options.actor_writes, options.actor_bytes),
        limits=options.limits,
        times=options.times,
        quarantined=quarantined,
        entry=EntryRules(loopback=is_loopback(options.host), hosts=options.hosts, origins=origins),
        turns=Turns(options.actor_readers, options.actor_waiting_reads),
        request_seconds=options.request_seconds,
        query_tools=options.query_tools,
    )


def _require_callers(tokens: Tokens | None, options: Options) -> None:
    if tokens is not None:
        return
    if options.policy is not None or options.server_policy is not None:
        raise _make_useless()
    if not options.unauthenticated:
        raise ConfigError(
            "no tokens are set, so that everyone who reaches the server could write; it was not started",
            hint="set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass --unauthenticated",
        )
    if not is_loopback(options.host):
        _log.warning("server.open_to_all", host=options.host, read_only=options.read_only)


def _make_useless() -> ConfigError:
    return ConfigError(
        "there is a policy and there are no tokens, so that no request could say who sends it; the server was not "
        "started",
        hint="set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
    )


def _make_gate(tokens: Tokens | None, options: Options) -> Gate:
    policy = options.server_policy
    server = None if policy is None else PolicyEngine.load_server(Path(policy))
    if server is not None:
        _log_policy(server)
    return Gate(tokens is not None, options.read_only, server)


def _read_policy(name: str, options: Options) -> PolicyEngine | None:
    """The policy of a graph; the same object guards requests and the engine, so that the two cannot differ."""
    if options.policy is None:
        return None
    policy = PolicyEngine.load_graph(Path(options.policy), name)
    _log_policy(policy)
    return policy


def _log_policy(policy: PolicyEngine) -> None:
    rules = policy.rules
    _log.info("server.policy", name=rules.name, actors=len(rules.actors), rules=len(rules.rules))
    for warning in rules.warnings:
        _log.warning("server.policy_warning", name=rules.name, warning=warning)


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
    policy = _read_policy(name, options)
    graph = open_graph(place, read_only=options.read_only, config=config, policy=policy)
    try:
        stored = None if options.queries is None else graph.stored_queries(options.queries)
    except OmniError:
        graph.close()
        raise
    return ServedGraph(id=name, graph=graph, queries=stored)


def _close(graphs: dict[str, ServedGraph]) -> None:
    for one in graphs.values():
        one.graph.close()
