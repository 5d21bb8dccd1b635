"""Running a server: its socket, its log, and how it ends."""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

import uvicorn

from omnigraphdb.errors import ConfigError
from omnigraphdb.logs import get_logger
from omnigraphdb.pipeline.memory import keep_little
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.boot import boot
from omnigraphdb.surfaces.http.options import Options
from omnigraphdb.surfaces.http.protocol import Protocol

EXIT_ABANDONED: Final = 1
SWITCH_SECONDS: Final = 0.001
"""How long a thread that computes keeps the interpreter while the loop of the server waits for it; Python's own is five times that."""

_log = get_logger(__name__)


def print_address(address: str) -> None:
    """Tell the program that started the server where it listens."""
    sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={address}\n")
    sys.stdout.flush()


def serve(
    options: Options,
    environment: Mapping[str, str],
    announce: Callable[[str], None] = print_address,
) -> int:
    """Serve until a signal comes; give the exit code. `announce` is told the address once the server listens."""
    keep_little()
    sys.setswitchinterval(SWITCH_SECONDS)
    _set_up_logs(options)
    listener = listen(options.host, options.port)
    try:
        served = boot(options, environment)
    except BaseException:
        listener.close()
        raise
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    app = Application(served)
    server = _Server(configure(app, options), app)
    _log.info("server.listening", address=shown, graphs=sorted(served.graphs))
    announce(shown)
    server.run(sockets=[listener])
    return _end(app)


def listen(host: str, port: int) -> socket.socket:
    """Take an address; port 0 picks a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        # Python adds the address as a tuple to the reason of the system.
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise ConfigError(
            f"'{host}:{port}' cannot be listened on: {reason}; the server was not started",
            hint="choose another address with --bind; port 0 picks a free port",
        ) from error


def configure(app: Application, options: Options) -> uvicorn.Config:
    """How uvicorn runs our application."""
    return uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=options.times.idle_seconds,  # type: ignore[arg-type] # it may be a fraction
        timeout_graceful_shutdown=max(1, round(options.shutdown_seconds)),
    )


def _end(app: Application) -> int:
    """Close the graphs; writes that still run are left to recovery, since nobody may wait for them."""
    abandoned = dict(app.writing)
    app.close()
    if abandoned:
        _log.warning("server.abandoned", writes=abandoned)
        logging.shutdown()
        # Threads that still write would keep the process; recovery ends what they began.
        os._exit(EXIT_ABANDONED)
    for one in app.served.graphs.values():
        one.graph.close()
    _log.info("server.ended")
    return 0


class _Server(uvicorn.Server):
    """A server whose first signal drains it and whose second one ends it."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Drain, or end at once."""
        if self.should_exit:
            _log.warning("server.killed", writes=dict(self._app.writing))
            os._exit(EXIT_ABANDONED)
        self._app.served.draining = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what was begun while the open port answers 503, then what runs beside requests."""
        began = self._app.runtime.monotonic()
        seconds = self.config.timeout_graceful_shutdown or 0
        begun = set(self.server_state.tasks)
        if begun:
            await asyncio.wait(begun, timeout=seconds)
        left = seconds - (self._app.runtime.monotonic() - began)
        self.config.timeout_graceful_shutdown = max(1, round(left))
        await super().shutdown(sockets)
        await self._app.end()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Catch signals; unlike uvicorn's own way they do not end the process again afterwards."""
        caught = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in caught}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


# ---- logs


def _set_up_logs(options: Options) -> None:
    handler = logging.StreamHandler(sys.stderr)
    if options.log_format == "json":
        handler.setFormatter(_JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level = {"warn": "WARNING"}.get(options.log_level, options.log_level.upper())
    for name, least in (("omnigraphdb", level), ("uvicorn", "ERROR")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least)
        logger.propagate = False


class _JsonLines(logging.Formatter):
    """One JSON object per event."""

    def format(self, record: logging.LogRecord) -> str:
        """Spell an event and its fields."""
        fields: dict[str, Any] = getattr(record, "fields", {"event": record.getMessage()})
        shown = {"time": record.created, "logger": record.name, **fields}
        if record.exc_info:
            shown["traceback"] = self.formatException(record.exc_info)
        return json.dumps(shown, default=str, ensure_ascii=False)
