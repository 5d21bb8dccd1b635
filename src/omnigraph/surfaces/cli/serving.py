"""The command that serves graphs over HTTP."""

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from omnigraph.surfaces.http.options import Options


def serve(
    graphs: Annotated[
        list[str] | None, typer.Argument(help="One graph by its URI, or several as ID=URI.")
    ] = None,
    bind: Annotated[
        str | None,
        typer.Option("--bind", help="HOST:PORT, 127.0.0.1:8080 by default; port 0 is a free one."),
    ] = None,
    graph_id: Annotated[
        str | None, typer.Option("--graph-id", help="The id of the only graph; `default`.")
    ] = None,
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Serve everyone, without tokens.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse every write.")] = False,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Folder of stored queries.")
    ] = None,
    query_tools: Annotated[
        str | None,
        typer.Option(
            "--query-tools",
            help="Stored queries as tools of agents: each one a tool, or a pair to list and run any.",
        ),
    ] = None,
    server_policy: Annotated[
        str | None,
        typer.Option("--server-policy", help="Policy of the server itself: who may list graphs."),
    ] = None,
    require_all_graphs: Annotated[
        bool, typer.Option("--require-all-graphs", help="Start only if every graph opens.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option("--cors-origin", help="Let pages of this origin in; may be repeated."),
    ] = None,
    max_body_bytes: Annotated[
        int, typer.Option("--max-body-bytes", min=1, help="Bytes of a request.")
    ] = 1024 * 1024,
    max_load_bytes: Annotated[
        int, typer.Option("--max-load-bytes", min=1, help="Bytes of a load.")
    ] = 32 * 1024 * 1024,
    max_result_rows: Annotated[
        int, typer.Option("--max-result-rows", min=1, help="Rows of a JSON answer.")
    ] = 1_000_000,
    request_timeout: Annotated[
        float,
        typer.Option("--request-timeout", min=0, help="Seconds that a read may take; 0: any time."),
    ] = 0.0,
    shutdown_timeout: Annotated[
        float,
        typer.Option("--shutdown-timeout", min=0, help="Seconds to finish what was begun."),
    ] = 30.0,
    log_format: Annotated[str, typer.Option("--log-format", help="text or json.")] = "text",
) -> None:
    """Serve graphs over HTTP until a signal comes.

    Example: omnigraph serve people.omni --unauthenticated
    """
    from omnigraph.errors import ConfigError

    try:
        from omnigraph.surfaces.http.serving import serve as run
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"serving needs the package '{error.name}'; nothing was started",
            hint="install it with `pip install 'omnigraph[server]'`",
        ) from error
    given = dict(locals())
    raise typer.Exit(run(_read_options(given, os.environ), os.environ))


def _read_options(given: Mapping[str, Any], environment: Mapping[str, str]) -> "Options":
    from omnigraph.surfaces.cli.agents import read_query_tools
    from omnigraph.surfaces.http import options
    from omnigraph.surfaces.http.served import SizeLimits

    places, single = options.read_graphs(given["graphs"] or (), given["graph_id"])
    named = given["bind"] or environment.get("OMNIGRAPH_BIND") or options.BIND
    host, port = options.read_bind(named)
    origins = given["cors_origin"] or environment.get("OMNIGRAPH_CORS_ORIGINS", "").split(",")
    level = _find_log_level() or environment.get("OMNIGRAPH_LOG") or "info"
    if given["log_format"] not in ("text", "json"):
        raise typer.BadParameter("it is text or json", param_hint="--log-format")
    if level not in ("error", "warn", "info", "debug"):
        raise typer.BadParameter("it is error, warn, info or debug", param_hint="OMNIGRAPH_LOG")

    def is_on(flag: str, variable: str) -> bool:
        return bool(given[flag]) or options.is_set(environment, variable)

    return options.Options(
        graphs=places,
        single=single,
        host=host,
        port=port,
        unauthenticated=is_on("unauthenticated", "OMNIGRAPH_UNAUTHENTICATED"),
        read_only=is_on("read_only", "OMNIGRAPH_READ_ONLY"),
        require_all_graphs=is_on("require_all_graphs", "OMNIGRAPH_REQUIRE_ALL_GRAPHS"),
        queries=given["queries"],
        policy=environment.get("OMNIGRAPH_POLICY_FILE") or None,
        server_policy=given["server_policy"],
        origins=frozenset(one.strip() for one in origins if one.strip()),
        limits=SizeLimits(
            body_bytes=given["max_body_bytes"],
            load_bytes=given["max_load_bytes"],
            result_rows=given["max_result_rows"],
        ),
        actor_writes=options.read_number(
            environment, "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", options.PER_ACTOR_WRITES
        ),
        actor_bytes=options.read_number(
            environment, "OMNIGRAPH_PER_ACTOR_BYTES_MAX", options.PER_ACTOR_BYTES
        ),
        request_seconds=given["request_timeout"],
        query_tools=read_query_tools(given["query_tools"], environment),
        shutdown_seconds=given["shutdown_timeout"],
        log_format=given["log_format"],
        log_level=level,
    )


def _find_log_level() -> str | None:
    """The level that `--log-level`, which every command knows, has set."""
    chosen = logging.getLogger("omnigraph").level
    return None if not chosen else logging.getLevelName(chosen).lower().replace("warning", "warn")
