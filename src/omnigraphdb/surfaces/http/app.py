"""The application: takes a request through the gates, in order, to its handler, and sends the answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from omnigraphdb.errors import NotReady, OmniError, ReadCancelled, UserInputError
from omnigraphdb.logs import get_logger
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.surfaces.http import calls, pages
from omnigraphdb.surfaces.http.access import AccessLog
from omnigraphdb.surfaces.http.admission import METADATA_BYTES
from omnigraphdb.surfaces.http.agents import Agents
from omnigraphdb.surfaces.http.at_once import AtOnce
from omnigraphdb.surfaces.http.calls import Call
from omnigraphdb.surfaces.http.cors import Cors
from omnigraphdb.surfaces.http.entry import check_entry
from omnigraphdb.surfaces.http.failures import body_of, headers_of, status_of
from omnigraphdb.surfaces.http.metrics import MEDIA, Metrics
from omnigraphdb.surfaces.http.openapi import describe_api
from omnigraphdb.surfaces.http.readers import Readers, Reading
from omnigraphdb.surfaces.http.replies import JSON, NDJSON, Reply, Stream, encode_json, reply_json
from omnigraphdb.surfaces.http.requests import CallerGone, Headers, Request, RequestIds
from omnigraphdb.surfaces.http.routes import ROUTES
from omnigraphdb.surfaces.http.routing import BodyKind, Match, Route, Router
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from omnigraphdb.surfaces.http.shapes import check_shape
from omnigraphdb.surfaces.http.status import make_not_ready
from omnigraphdb.values import dataclass

WRITERS_MAX: Final = 64
"""Writes that run at a time; most of them wait for a lock, and never keep a read waiting."""

_log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One request and what is known of it so far, for the log."""

    request: Request
    request_id: str
    began: float
    match: Match | None = None
    actor: str | None = None
    writes: bool = False
    status: int = 0
    reading: Reading | None = None
    """The read, and the stream of its answer."""

    @property
    def template(self) -> str:
        """The path of the route, as the description spells it."""
        return "unknown" if self.match is None else self.match.template


class Application:
    """Answers requests from what is served; knows no graph itself."""

    def __init__(self, served: Served, runtime: Runtime = SYSTEM) -> None:
        self.served = served
        self.runtime = runtime
        self._metrics = Metrics(served)
        self._cors = Cors(served.entry.origins)
        flat = served.default is not None
        routes = (*self._describe_itself(flat), MCP, *ROUTES)
        self._router = Router(routes, flat=flat, graphs=served.graphs)
        self._ids, self._log = RequestIds(runtime), AccessLog(self._metrics, runtime)
        self.at_once = AtOnce(
            served=served, router=self._router, ids=self._ids, log=self._log, runtime=runtime
        )
        self._readers = Readers(served, runtime)
        self._writers = ThreadPoolExecutor(WRITERS_MAX, "omnigraph-write")
        self.writing: dict[str, str] = {}
        """Request ids of writes under way, and their routes."""
        self._agents = Agents(served, self._readers, self.writing)

    def _describe_itself(self, flat: bool) -> tuple[Route, ...]:
        document = encode_json(
            describe_api(ROUTES_DESCRIBED, flat=flat, secured=self.served.tokens is not None)
        )
        return (
            OPENAPI.with_handler(lambda _: Reply(body=document)),
            METRICS.with_handler(
                lambda call: Reply(body=self._metrics.spell(call.actor), media=MEDIA)
            ),
        )

    async def end(self) -> None:
        """End what runs in the loop of the server."""
        await self._agents.end()

    def close(self) -> None:
        """Give up the threads; writes that still run are not waited for."""
        self._readers.close()
        self._writers.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        exchange = _Exchange(
            request=request,
            request_id=self._ids.choose(request.headers),
            began=self.runtime.monotonic(),
        )
        try:
            answer = await self._answer(exchange)
        except CallerGone:
            return
        except Exception as error:  # noqa: BLE001 - every failure becomes an answer
            answer = self._refuse(exchange, error)
        try:
            await self._send(exchange, answer, send)
        finally:
            self._log.note(
                began=exchange.began,
                route=exchange.template,
                method=request.method,
                status=exchange.status,
                actor=exchange.actor,
                graph=None if exchange.match is None else exchange.match.graph_id,
                request_id=exchange.request_id,
            )

    # ---- gates

    async def _answer(self, exchange: _Exchange) -> Reply | Stream:
        request = exchange.request
        check_entry(self.served.entry, request.method, request.headers)
        if self.served.draining:
            raise make_not_ready(self.served, "draining", len(self.served.graphs))
        match = self._router.find_plain(request.method, request.raw_path)
        if match is None:
            return self._answer_page(request) or await self._answer_named(exchange)
        if not _is_open(match.route):
            exchange.match = match
            exchange.actor = self._authenticate(request.headers)
        return await self._answer_match(exchange, match)

    def _answer_page(self, request: Request) -> Reply | None:
        """Answer what a browser asks before it asks for a graph."""
        preflight = self._cors.answer_preflight(request)
        if preflight is not None:
            return preflight
        path = calls.split_path(request.raw_path)
        if path == pages.START:
            return pages.describe_start(self.served, self._authenticate(request.headers))
        return pages.find_page(self.served, request, path)

    async def _answer_named(self, exchange: _Exchange) -> Reply | Stream:
        """Answer a path with names in it, or refuse an unknown one."""
        request, is_open = exchange.request, False
        try:
            match = self._router.find(request.method, calls.split_path(request.raw_path))
            exchange.match, is_open = match, _is_open(match.route)
        finally:
            # Who has no token learns nothing, not even which routes there are.
            if not is_open:
                exchange.actor = self._authenticate(request.headers)
        return await self._answer_match(exchange, match)

    async def _answer_match(self, exchange: _Exchange, match: Match) -> Reply | Stream:
        """Take the request of a known actor to the graph, through the gate, and to its handler."""
        exchange.match, route = match, match.route
        target = None if route.of_server else self.served.find_graph(match.graph_id)
        exchange.writes = route.writes and not _is_stored_read(match, target)
        if target is not None and route.operation == MCP.operation:
            return await self._agents.answer(
                exchange.request, target, exchange.actor, exchange.request_id
            )
        self._authorize(exchange, target)
        if exchange.writes:
            return await self._write(exchange, target)
        return await self._run_read(exchange, await self._read_call(exchange, target))

    def _authorize(self, exchange: _Exchange, target: ServedGraph | None) -> None:
        assert exchange.match is not None
        action = exchange.match.route.action
        if action is not None:
            guard = None if target is None else target.graph.guard
            self.served.gate.require_possible(action, exchange.actor, guard, writes=exchange.writes)

    def _authenticate(self, headers: Headers) -> str | None:
        if self.served.tokens is None:
            return None
        return self.served.tokens.find_actor(headers.get("authorization"))

    async def _write(self, exchange: _Exchange, target: ServedGraph | None) -> Reply | Stream:
        """Run a write that was admitted to its end, whether or not its caller still waits."""
        assert exchange.match is not None
        route = exchange.match.route
        call = await self._read_call(exchange, target)
        # Only a whole request takes a place: others wait for their callers, not for this server.
        slot = self.served.admission.admit(exchange.actor, max(METADATA_BYTES, call.body_bytes))
        self.writing[exchange.request_id] = route.operation

        def run() -> Reply | Stream:
            with slot:
                try:
                    return route.answer_call(call)
                finally:
                    self.writing.pop(exchange.request_id, None)

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._writers, run))

    async def _run_read(self, exchange: _Exchange, call: Call) -> Reply | Stream:
        """Run a read, in the turn of its actor; what is asked of the server itself waits for no read."""
        assert exchange.match is not None
        route = exchange.match.route

        def answer() -> Reply | Stream:
            return route.answer_call(call)

        if route.of_server:
            return await self._readers.run_status(answer)
        seconds = calls.read_timeout(call.headers)
        exchange.reading = self._readers.start(exchange.request, exchange.actor, seconds)
        return await self._readers.run(exchange.reading, answer)

    # ---- requests

    async def _read_call(self, exchange: _Exchange, target: ServedGraph | None) -> Call:
        assert exchange.match is not None
        request, match = exchange.request, exchange.match
        condition = calls.read_condition(
            request.headers,
            conditional=match.route.conditional,
            raw_path=request.raw_path,
        )
        query = calls.read_query(request.query_string, match.route.params)
        key = calls.read_key(request.headers) if exchange.writes else None
        if key is not None and not match.route.keyed:
            raise UserInputError("Idempotency-Key is not read by this request; nothing was done")
        body, size = await self._read_body(exchange, match.route)
        return Call(
            served=self.served,
            target=target,
            actor=exchange.actor,
            path=match.names,
            query=query,
            headers=request.headers,
            body=body,
            body_bytes=size,
            if_commit=condition,
            key=key,
            message=calls.read_message(request.headers) if exchange.writes else None,
        )

    async def _read_body(self, exchange: _Exchange, route: Route) -> tuple[Any, int]:
        """Read the body of a request; give it, and its length as it came."""
        request = exchange.request
        if route.body_kind is BodyKind.NONE:
            return None, 0
        match route.body_kind:
            case BodyKind.LINES:
                calls.require_media(request.headers, NDJSON)
            case BodyKind.JSON:
                calls.require_media(request.headers, JSON)
                calls.require_plain(request.headers)
            case BodyKind.OPTIONAL_JSON:
                # An empty body has no type, whatever its header says.
                calls.require_plain(request.headers)
        bound = self.served.limits.bound_body(loads=route.loads)
        with self.served.admission.receive(exchange.actor) as arriving:
            raw = await calls.read_body(request, bound, arriving.grow)
        return self._parse_body(route, raw, request.headers), len(raw)

    def _parse_body(self, route: Route, raw: bytes, headers: Headers) -> Any:
        match route.body_kind:
            case BodyKind.NONE:
                return None
            case BodyKind.LINES:
                return calls.unpack(raw, headers, self.served.limits.bound_body(loads=route.loads))
            case BodyKind.JSON:
                return check_shape(route.body, calls.parse_json(raw))
            case BodyKind.OPTIONAL_JSON:
                if not raw.strip():
                    return {}
                calls.require_media(headers, JSON)
                value = calls.parse_json(raw)
                return {} if value is None else check_shape(route.body, value)

    # ---- answers

    def refuse_unread(self, error: OmniError) -> Reply:
        """Refuse a request whose head cannot be read; the connection is to be closed."""
        request_id, status = self._ids.choose(Headers()), status_of(error)
        self._log.note(
            began=self.runtime.monotonic(),
            route="unknown",
            method="unknown",
            status=status,
            actor=None,
            graph=None,
            request_id=request_id,
        )
        headers = {"x-request-id": request_id, "connection": "close"}
        return reply_json(body_of(error, request_id, writes=False), status=status, headers=headers)

    def _refuse(self, exchange: _Exchange, error: Exception) -> Reply:
        status = status_of(error)
        # Who sets a read a deadline is told that it was not enough, and who asks too late that it is: nothing failed.
        if status >= 500 and not isinstance(error, ReadCancelled | NotReady):
            _log.failure(
                "http.failed", error, request_id=exchange.request_id, route=exchange.template
            )
        self._metrics.count_failure(error)
        # By the route, not by what the request turned out to be: a hidden query must look like one that is not there.
        may_write = exchange.match is not None and exchange.match.route.writes
        body = body_of(error, exchange.request_id, writes=may_write)
        return reply_json(body, status=status, headers=headers_of(error))

    async def _send(self, exchange: _Exchange, answer: Reply | Stream, send: Send) -> None:
        exchange.status = answer.status
        headers = self._headers(exchange, answer)
        if isinstance(answer, Reply):
            if "content-length" not in answer.headers and answer.status not in (204, 304):
                headers.append((b"content-length", str(len(answer.body)).encode()))
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
            return
        try:
            await self._stream(exchange, answer, headers, send)
        finally:
            answer.release()

    def _headers(self, exchange: _Exchange, answer: Reply | Stream) -> list[tuple[bytes, bytes]]:
        found: dict[str, str] = {"x-request-id": exchange.request_id}
        if answer.media is not None:
            found["content-type"] = answer.media
        match = exchange.match
        if match is not None and match.route.successor is not None:
            found["deprecation"] = "true"
            found["link"] = f'<{match.route.successor}>; rel="successor-version"'
        found |= self._cors.headers_of(exchange.request)
        found |= answer.headers
        return [(name.encode("latin-1"), text.encode("latin-1")) for name, text in found.items()]

    async def _stream(
        self, exchange: _Exchange, answer: Stream, headers: list[tuple[bytes, bytes]], send: Send
    ) -> None:
        """Send chunks as fast as their reader takes them; a failure leaves the answer visibly unfinished."""
        reading = exchange.reading or self._readers.start(exchange.request, exchange.actor, None)
        gone = asyncio.ensure_future(exchange.request.wait_until_gone())
        gone.add_done_callback(lambda _: reading.deadline.cancel())
        seconds = self.served.request_seconds or None

        def take() -> Any:
            return next(answer.chunks, None)

        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            while not gone.done() and not self.served.draining:
                chunk = await self._readers.take_piece(reading, take)
                if chunk is None:
                    await send({"type": "http.response.body", "body": b""})
                    return
                piece = send({"type": "http.response.body", "body": chunk, "more_body": True})
                await asyncio.wait_for(piece, seconds)
        except Exception as error:  # noqa: BLE001 - the answer has begun, only the log can tell
            if not gone.done():
                _log.failure(
                    "http.stream_failed",
                    error,
                    request_id=exchange.request_id,
                    route=exchange.template,
                )
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone


def _is_open(route: Route) -> bool:
    """Whether everyone may ask, with a token or without."""
    return route.action is None and not route.needs_token


def _is_stored_read(match: Match, target: ServedGraph | None) -> bool:
    """Whether a route that may write runs a stored read: then it takes no slot of a writer."""
    if "name" not in match.names or target is None or target.queries is None:
        return False
    found = target.queries.by_name.get(match.names["name"])
    return found is not None and not found.mutation


OPENAPI: Final = Route(
    method="GET",
    path="/openapi.json",
    operation="openapi",
    summary="Describe the served routes",
    handler=lambda _: Reply(),
    of_server=True,
    answer=dict[str, Any],
)
METRICS: Final = Route(
    method="GET",
    path="/metrics",
    operation="metrics",
    summary="Show numbers about the server in the text format of Prometheus",
    handler=lambda _: Reply(),
    of_server=True,
    needs_token=True,
    media=("text/plain",),
    statuses=(401, 403),
)
MCP: Final = Route(
    method="POST",
    path="/mcp",
    operation="mcp",
    summary="Speak the Model Context Protocol",
    needs_token=True,
    handler=lambda _: Reply(),
)
"""Every actor with a token may speak; each tool asks for its own right."""
ROUTES_DESCRIBED: Final = (OPENAPI, METRICS, *ROUTES)
