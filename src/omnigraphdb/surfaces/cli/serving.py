"""The command that serves graphs over HTTP."""

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.packages import install_command

if TYPE_CHECKING:
    from omnigraphdb.surfaces.http.options import Options


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
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            help="A name that Host may have beside those of this machine, where the server listens to it alone: that "
            "of a proxy; may be repeated.",
        ),
    ] = None,
    max_header_bytes: Annotated[
        int,
        typer.Option(
            "--max-header-bytes", min=1024, help="Bytes of the request line and the headers."
        ),
    ] = 64 * 1024,
    max_body_bytes: Annotated[
        int, typer.Option("--max-body-bytes", min=1, help="Bytes of a request.")
    ] = 1024 * 1024,
    max_load_bytes: Annotated[
        int, typer.Option("--max-load-bytes", min=1, help="Bytes of a load.")
    ] = 32 * 1024 * 1024,
    max_result_rows: Annotated[
        int, typer.Option("--max-result-rows", min=1, help="Rows of a JSON answer.")
    ] = 1_000_000,
    max_query_memory: Annotated[
        int,
        typer.Option(
            "--max-query-memory", min=1, help="Bytes of the intermediate results of a query."
        ),
    ] = 1024 * 1024 * 1024,
    max_memory: Annotated[
        int,
        typer.Option(
            "--max-memory", min=1, help="Bytes of the intermediate results of all queries."
        ),
    ] = 4 * 1024 * 1024 * 1024,
    request_timeout: Annotated[
        float,
        typer.Option(
            "--request-timeout",
            min=0,
            help="Seconds of work that a read, or a piece of a stream, may take; 0: any time.",
        ),
    ] = 60.0,
    header_timeout: Annotated[
        float,
        typer.Option(
            "--header-timeout",
            min=0,
            help="Seconds for the headers of a request to arrive; 0: any time.",
        ),
    ] = 10.0,
    body_timeout: Annotated[
        float,
        typer.Option(
            "--body-timeout", min=0, help="Seconds for a whole body to arrive; 0: any time."
        ),
    ] = 300.0,
    stall_timeout: Annotated[
        float,
        typer.Option(
            "--stall-timeout", min=0, help="Seconds for the next piece of a body; 0: any time."
        ),
    ] = 20.0,
    idle_timeout: Annotated[
        float,
        typer.Option(
            "--idle-timeout",
            min=0,
            help="Seconds that a connection may wait for its next request; 0: any time.",
        ),
    ] = 5.0,
    shutdown_timeout: Annotated[
        float,
        typer.Option("--shutdown-timeout", min=0, help="Seconds to finish what was begun."),
    ] = 30.0,
    log_format: Annotated[str, typer.Option("--log-format", help="text or json.")] = "text",
) -> None:
    """Serve graphs over HTTP until a signal comes.

    Example: omnigraphdb serve people.omni --unauthenticated
    """
    from omnigraphdb.errors import ConfigError

    try:
        from omnigraphdb.surfaces.http.serving import serve as run
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"serving needs the package '{error.name}'; nothing was started",
            hint=f"install it with `{install_command('server')}`",
        ) from error
    given = dict(locals())
    raise typer.Exit(run(_read_options(given, os.environ), os.environ))


def _read_options(given: Mapping[str, Any], environment: Mapping[str, str]) -> "Options":
    from omnigraphdb.surfaces.cli.agents import read_query_tools
    from omnigraphdb.surfaces.http import options
    from omnigraphdb.surfaces.http.admission import BYTES_SETTING, WRITES_SETTING
    from omnigraphdb.surfaces.http.served import NO_TIME_LIMIT, SizeLimits, TimeLimits
    from omnigraphdb.surfaces.http.turns import (
        READERS_MAX,
        READERS_SETTING,
        WAITING_MAX,
        WAITING_SETTING,
    )

    places, single = options.read_graphs(given["graphs"] or (), given["graph_id"])
    named = given["bind"] or environment.get("OMNIGRAPH_BIND") or options.BIND
    host, port = options.read_bind(named)
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
        origins=options.read_names(given["cors_origin"], environment, "OMNIGRAPH_CORS_ORIGINS"),
        hosts=options.read_hosts(given["allow_host"], environment),
        limits=SizeLimits(
            header_bytes=given["max_header_bytes"],
            body_bytes=given["max_body_bytes"],
            load_bytes=given["max_load_bytes"],
            result_rows=given["max_result_rows"],
            query_memory_bytes=given["max_query_memory"],
            memory_bytes=given["max_memory"],
        ),
        times=TimeLimits(
            header_seconds=given["header_timeout"] or NO_TIME_LIMIT,
            body_seconds=given["body_timeout"] or NO_TIME_LIMIT,
            stall_seconds=given["stall_timeout"] or NO_TIME_LIMIT,
            idle_seconds=given["idle_timeout"] or NO_TIME_LIMIT,
        ),
        actor_writes=options.read_number(environment, WRITES_SETTING, options.PER_ACTOR_WRITES),
        actor_bytes=options.read_number(environment, BYTES_SETTING, options.PER_ACTOR_BYTES),
        actor_readers=options.read_number(environment, READERS_SETTING, READERS_MAX),
        actor_waiting_reads=options.read_number(environment, WAITING_SETTING, WAITING_MAX),
        request_seconds=given["request_timeout"],
        query_tools=read_query_tools(given["query_tools"], environment),
        shutdown_seconds=given["shutdown_timeout"],
        log_format=given["log_format"],
        log_level=level,
    )


def _find_log_level() -> str | None:
    """The level that `--log-level`, which every command knows, has set."""
    chosen = logging.getLogger("omnigraphdb").level
    return None if not chosen else logging.getLevelName(chosen).lower().replace("warning", "warn")
