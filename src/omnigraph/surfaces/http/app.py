"""The application: takes a request through the gates, in order, to its handler, and sends the answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from omnigraph.cancellation import Cancellation
from omnigraph.errors import ReadCancelled
from omnigraph.logs import get_logger
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.surfaces.http import calls, pages
from omnigraph.surfaces.http.access import AccessLog
from omnigraph.surfaces.http.admission import METADATA_BYTES
from omnigraph.surfaces.http.agents import Agents, is_loopback
from omnigraph.surfaces.http.at_once import AtOnce
from omnigraph.surfaces.http.calls import Call
from omnigraph.surfaces.http.cors import Cors
from omnigraph.surfaces.http.failures import body_of, headers_of, status_of
from omnigraph.surfaces.http.metrics import MEDIA, Metrics
from omnigraph.surfaces.http.openapi import describe_api
from omnigraph.surfaces.http.replies import JSON, NDJSON, Reply, Stream, encode_json, reply_json
from omnigraph.surfaces.http.requests import CallerGone, Headers, Request, RequestIds
from omnigraph.surfaces.http.routes import ROUTES
from omnigraph.surfaces.http.routing import BodyKind, Match, Route, Router
from omnigraph.surfaces.http.served import Served, ServedGraph
from omnigraph.surfaces.http.shapes import check_shape
from omnigraph.values import dataclass

READERS_MAX: Final = 16
"""Reads that run at a time; more wait, so that a crowd of them does not slow all."""
WRITERS_MAX: Final = 64
"""Writes that run at a time; most of them wait for a lock, and never keep a read waiting."""

SOON_SECONDS: Final = 0.05
"""How long a read runs before anyone looks whether its caller is still there: most are done sooner."""

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
    guard: Cancellation | None = None
    """Stops the read, and the stream of its answer."""

    @property
    def template(self) -> str:
        """The path of the route, as the description spells it."""
        return "unknown" if self.match is None else self.match.template


class Application:
    """Answers requests from what is served; knows no graph itself."""

    def __init__(self, served: Served, runtime: Runtime = SYSTEM) -> None:
        self.served = served
        self._runtime = runtime
        self._metrics = Metrics(served)
        self._cors = Cors(served.origins)
        flat = served.default is not None
        routes = (*self._describe_itself(flat), MCP, *ROUTES)
        self._router = Router(routes, flat=flat, graphs=served.graphs)
        self._ids, self._log = RequestIds(runtime), AccessLog(self._metrics, runtime)
        self.at_once = AtOnce(
            served=served, router=self._router, ids=self._ids, log=self._log, runtime=runtime
        )
        self._readers = ThreadPoolExecutor(READERS_MAX, "omnigraph-read")
        self._writers = ThreadPoolExecutor(WRITERS_MAX, "omnigraph-write")
        self._streamers = ThreadPoolExecutor(served.exports.count + 2, "omnigraph-stream")
        self.writing: dict[str, str] = {}
        """Request ids of writes under way, and their routes."""
        self._agents = Agents(served, self.writing)

    def _describe_itself(self, flat: bool) -> tuple[Route, ...]:
        document = encode_json(
            describe_api(ROUTES_DESCRIBED, flat=flat, secured=self.served.tokens is not None)
        )
        return (
            OPENAPI.with_handler(lambda _: Reply(body=document)),
            METRICS.with_handler(lambda _: Reply(body=self._metrics.spell(), media=MEDIA)),
        )

    async def end(self) -> None:
        """End what runs in the loop of the server."""
        await self._agents.end()

    def close(self) -> None:
        """Give up the threads; writes that still run are not waited for."""
        for pool in (self._readers, self._writers, self._streamers):
            pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        exchange = _Exchange(
            request=request,
            request_id=self._ids.choose(request.headers),
            began=self._runtime.monotonic(),
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
        match = self._router.find_plain(request.method, request.raw_path)
        if match is None:
            return self._answer_page(request) or await self._answer_named(exchange)
        if not self._is_open(match.route, request):
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
            exchange.match, is_open = match, self._is_open(match.route, request)
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

    def _is_open(self, route: Route, request: Request) -> bool:
        if route.open_on_loopback:
            # Whom a proxy of this machine speaks for is elsewhere.
            is_direct = "x-forwarded-for" not in request.headers
            return is_direct and request.host is not None and is_loopback(request.host)
        return route.action is None and route.operation != MCP.operation

    def _authenticate(self, headers: Headers) -> str | None:
        if self.served.tokens is None:
            return None
        return self.served.tokens.find_actor(headers.get("authorization"))

    async def _write(self, exchange: _Exchange, target: ServedGraph | None) -> Reply | Stream:
        """Run a write that was admitted to its end, whether or not its caller still waits."""
        assert exchange.match is not None
        route = exchange.match.route
        slot = self.served.admission.admit(
            exchange.actor, self._estimate_bytes(exchange.request, route)
        )
        try:
            call = await self._read_call(exchange, target)
            self.writing[exchange.request_id] = route.operation
        except BaseException:
            slot.release()
            raise

        def run() -> Reply | Stream:
            with slot:
                try:
                    return route.answer_call(call)
                finally:
                    self.writing.pop(exchange.request_id, None)

        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._writers, run))

    def _estimate_bytes(self, request: Request, route: Route) -> int:
        if route.body_kind is BodyKind.NONE:
            return METADATA_BYTES
        announced = calls.announced_bytes(request.headers)
        return self._limit(route) if announced is None else max(METADATA_BYTES, announced)

    async def _run_read(self, exchange: _Exchange, call: Call) -> Reply | Stream:
        """Run a read; it stops when its time is over, or when nobody waits for it any more."""
        assert exchange.match is not None
        handler = exchange.match.route.answer_call
        seconds = calls.read_timeout(call.headers, self.served.request_seconds)
        guard = exchange.guard = Cancellation(seconds)

        def run() -> Reply | Stream:
            with guard:
                return handler(call)

        work = asyncio.get_running_loop().run_in_executor(self._readers, run)
        soon = SOON_SECONDS if seconds is None else min(SOON_SECONDS, seconds)
        if (await asyncio.wait((work,), timeout=soon))[0]:
            return work.result()
        return await self._watch(exchange.request, work, guard, seconds)

    async def _watch(
        self,
        request: Request,
        work: "asyncio.Future[Reply | Stream]",
        guard: Cancellation,
        seconds: float | None,
    ) -> Reply | Stream:
        """Wait for a read that takes long, for its deadline, or for its caller to leave."""
        gone = asyncio.ensure_future(request.wait_until_gone())
        try:
            await asyncio.wait((work, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            guard.cancel()
            work.add_done_callback(_drop_answer)
            # A read that has not begun leaves its place in the queue.
            work.cancel()
            if gone.done():
                raise CallerGone
            raise ReadCancelled(seconds)
        finally:
            gone.cancel()

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
        return Call(
            served=self.served,
            target=target,
            actor=exchange.actor,
            path=match.names,
            query=query,
            headers=request.headers,
            body=await self._read_body(request, match.route),
            if_commit=condition,
            key=calls.read_key(request.headers) if exchange.writes else None,
            message=calls.read_message(request.headers) if exchange.writes else None,
        )

    def _limit(self, route: Route) -> int:
        limits = self.served.limits
        return limits.load_bytes if route.loads else limits.body_bytes

    async def _read_body(self, request: Request, route: Route) -> Any:
        limit, headers = self._limit(route), request.headers
        match route.body_kind:
            case BodyKind.NONE:
                return None
            case BodyKind.LINES:
                calls.require_media(headers, NDJSON)
                return calls.unpack(await calls.read_body(request, limit), headers, limit)
            case BodyKind.JSON:
                calls.require_media(headers, JSON)
                calls.require_plain(headers)
                raw = await calls.read_body(request, limit)
                return check_shape(route.body, calls.parse_json(raw))
            case BodyKind.OPTIONAL_JSON:
                calls.require_plain(headers)
                raw = await calls.read_body(request, limit)
                if not raw.strip():
                    return {}
                calls.require_media(headers, JSON)
                found = calls.parse_json(raw)
                return {} if found is None else check_shape(route.body, found)

    # ---- answers

    def _refuse(self, exchange: _Exchange, error: Exception) -> Reply:
        status = status_of(error)
        # Who sets a read a deadline is told that it was not enough: nothing of the server failed.
        if status >= 500 and not isinstance(error, ReadCancelled):
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
        loop, guard = asyncio.get_running_loop(), exchange.guard or Cancellation()
        gone = asyncio.ensure_future(exchange.request.wait_until_gone())
        gone.add_done_callback(lambda _: guard.cancel())

        def take() -> Any:
            with guard:
                return next(answer.chunks, None)

        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            while not gone.done() and not self.served.draining:
                chunk = await loop.run_in_executor(self._streamers, take)
                if chunk is None:
                    await send({"type": "http.response.body", "body": b""})
                    return
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
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


def _is_stored_read(match: Match, target: ServedGraph | None) -> bool:
    """Whether a route that may write runs a stored read: then it takes no slot of a writer."""
    if "name" not in match.names or target is None or target.queries is None:
        return False
    found = target.queries.by_name.get(match.names["name"])
    return found is not None and not found.mutation


def _drop_answer(work: "asyncio.Future[Reply | Stream]") -> None:
    """Let go of the answer to a read that nobody waits for."""
    if not work.cancelled() and work.exception() is None:
        answer = work.result()
        if isinstance(answer, Stream):
            answer.release()


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
    open_on_loopback=True,
    media=("text/plain",),
    statuses=(401,),
)
MCP: Final = Route(
    method="POST",
    path="/mcp",
    operation="mcp",
    summary="Speak the Model Context Protocol",
    handler=lambda _: Reply(),
)
"""Every actor with a token may speak; each tool asks for its own right."""
ROUTES_DESCRIBED: Final = (OPENAPI, METRICS, *ROUTES)
