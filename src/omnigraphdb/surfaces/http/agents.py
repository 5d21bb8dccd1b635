"""Agents: the Model Context Protocol behind the server's gates, and its verbs and operations on a graph at hand."""

import asyncio
import json
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final, TypeVar

from starlette.types import Message, Receive

from omnigraphdb.api.verbs.verb import Verb
from omnigraphdb.cancellation import Cancellation
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.packages import install_command
from omnigraphdb.policy import PolicyAction, ResourceScope
from omnigraphdb.surfaces.http.calls import Call, read_body, read_timeout, require_media
from omnigraphdb.surfaces.http.gate import Ask
from omnigraphdb.surfaces.http.readers import Readers
from omnigraphdb.surfaces.http.replies import JSON, Reply
from omnigraphdb.surfaces.http.requests import Headers
from omnigraphdb.surfaces.http.requests import Request as HttpRequest
from omnigraphdb.surfaces.http.routes import ROUTES
from omnigraphdb.surfaces.http.routing import Route
from omnigraphdb.surfaces.http.served import REQUEST_TIME_SETTING, Served, ServedGraph
from omnigraphdb.surfaces.http.shapes import check_shape
from omnigraphdb.surfaces.http.verb_routes import run_asked
from omnigraphdb.surfaces.mcp.backend import Request, Right, spell_query
from omnigraphdb.surfaces.mcp.session import Session

A = TypeVar("A")
R = TypeVar("R")
_SESSION: Final = "omnigraphdb.session"
_ROUTES: Final = {route.operation: route for route in ROUTES}
_NO_HEADERS: Final = Headers()


class LocalBackend:
    """Runs verbs and operations on a graph at hand, through the gates of the server."""

    def __init__(
        self,
        served: Served,
        place: ServedGraph,
        actor: str | None,
        request_id: str = "",
        writing: MutableMapping[str, str] | None = None,
    ) -> None:
        self._served, self._place = served, place
        self.actor = actor
        self._request_id = request_id
        self._writing = {} if writing is None else writing

    def run(self, request: Request) -> dict[str, Any]:
        """Do an operation as its route does it."""
        route = _ROUTES[request.operation]
        writes = route.writes and not self._is_stored_read(request)
        answer = self._run_allowed(route, request, route.handler, writes=writes)
        assert isinstance(answer, Reply)
        body: dict[str, Any] = json.loads(answer.body)
        return body

    def run_verb(self, verb: Verb[A, Any], asked: A, message: str | None = None) -> dict[str, Any]:
        """Run a verb behind the gates of its route."""
        endpoint = verb.endpoint
        path, sent = verb.spell(asked)
        request = Request(
            operation=endpoint.operation,
            path=path,
            query={} if endpoint.has_body else spell_query(sent),
            body=sent if endpoint.has_body else None,
            message=message,
        )
        route = _ROUTES[endpoint.operation]
        return self._run_allowed(
            route, request, lambda call: run_asked(verb, call), writes=verb.writes
        )

    def _run_allowed(
        self, route: Route, request: Request, run: Callable[[Call], R], *, writes: bool
    ) -> R:
        """Run a function for a request that the gates and the bounds of its route let in."""
        target = None if route.of_server else self._place
        if route.action is not None:
            guard = None if target is None else target.graph.guard
            self._served.gate.require_possible(route.action, self.actor, guard, writes=writes)
        size = _measure(request.body)
        self._served.limits.bound_body(loads=route.loads).require(size)
        call = Call(
            served=self._served,
            target=target,
            actor=self.actor,
            path=request.path,
            query={name: list(values) for name, values in request.query.items()},
            headers=_NO_HEADERS,
            body=None if route.body is None else check_shape(route.body, dict(request.body or {})),
            message=request.message,
        )
        with ExitStack() as stack:
            if not writes:
                seconds = self._served.request_seconds or None
                stack.enter_context(Cancellation(seconds, setting=REQUEST_TIME_SETTING))
                memory = stack.enter_context(self._served.bound_memory())
                stack.callback(memory.end)
            else:
                stack.enter_context(self._served.admission.admit(self.actor, size))
                self._writing[self._request_id] = route.operation
                stack.callback(self._writing.pop, self._request_id, None)
            return route.run_allowed(call, run)

    def _is_stored_read(self, request: Request) -> bool:
        stored = self._place.queries
        found = None if stored is None else stored.by_name.get(request.path.get("name", ""))
        return found is not None and not found.mutation

    def may(self, tool: str, needs: Sequence[Right]) -> bool:  # noqa: ARG002 - rights decide, not names
        """Whether the actor has every right, on some branch."""
        return all(self._has(one) for one in needs)

    def _has(self, right: Right) -> bool:
        gate, guard = self._served.gate, self._place.graph.guard
        is_of_server = right.action is PolicyAction.GRAPH_LIST
        possible = gate.may_somewhere(
            right.action, self.actor, None if is_of_server else guard, writes=right.writes
        )
        if not possible or right.query is None:
            return possible
        return gate.allows(Ask(right.action, ResourceScope.query(right.query)), self.actor, guard)

    def list_queries(self) -> Sequence[Mapping[str, Any]]:
        """The stored queries that may be tools."""
        return [one.to_dict() for one in self._place.queries or ()]


def _measure(body: Mapping[str, Any] | None) -> int:
    """About how many bytes a request has; the texts in it are nearly all of it."""
    if not body:
        return 256
    rest = {name: value for name, value in body.items() if not isinstance(value, str)}
    texts = sum(len(value) for value in body.values() if isinstance(value, str))
    return 256 + texts + len(json.dumps(rest))


class Agents:
    """Answers requests of the protocol, each by itself: nothing is kept between two of them."""

    def __init__(self, served: Served, readers: Readers, writing: MutableMapping[str, str]) -> None:
        self._served, self._readers, self._writing = served, readers, writing
        self._starting = asyncio.Lock()
        self._manager: Any = None
        self._task: asyncio.Task[None] | None = None
        self._over: asyncio.Event | None = None

    async def answer(
        self, request: HttpRequest, place: ServedGraph, actor: str | None, request_id: str
    ) -> Reply:
        """Answer one request of an actor."""
        with self._served.admission.receive(actor) as arriving:
            bound = self._served.limits.bound_body(loads=True)
            body = await read_body(request, bound, arriving.grow)
        require_media(request.headers, JSON)
        if not body:
            raise UserInputError(
                "the body is empty, and a call of an agent is a JSON-RPC message; nothing was done"
            )
        manager = await self._start()
        backend = LocalBackend(self._served, place, actor, request_id, self._writing)
        named = request.headers.get("mcp-session-id", "")
        id = (
            named if named.isascii() and named.isprintable() and 0 < len(named) < 65 else request_id
        )
        reading = self._readers.start(request, actor, read_timeout(request.headers))
        session = Session(
            backend,
            id,
            read_only=self._served.gate.read_only,
            query_tools=self._served.query_tools,
            limit=reading.deadline,
        )
        gathered, caller = _Gathered(), _Caller(request.receive, body, reading.deadline)
        scope = {**request.scope, _SESSION: session}
        await self._readers.wait_turn(reading)
        try:
            await manager.handle_request(scope, caller.receive, gathered.take)
        finally:
            self._served.turns.leave(actor)
            caller.end()
        return gathered.make_reply()

    async def _start(self) -> Any:
        """Load the SDK and run its manager, once; in a thread, since it is large."""
        async with self._starting:
            if self._manager is None:
                loop = asyncio.get_running_loop()
                protocol = await loop.run_in_executor(None, _load_protocol)
                manager = protocol.make_manager(
                    lambda ctx: ctx.request.scope[_SESSION],
                    self._served.limits.load_bytes,
                    self._readers.threads,
                )
                ready, self._over = asyncio.Event(), asyncio.Event()
                self._task = loop.create_task(_keep(manager, ready, self._over))
                await ready.wait()
                self._manager = manager
        return self._manager

    async def end(self) -> None:
        """End the manager, with the loop that it runs in."""
        if self._over is not None and self._task is not None:
            self._over.set()
            await self._task


async def _keep(manager: Any, ready: asyncio.Event, over: asyncio.Event) -> None:
    async with manager.run():
        ready.set()
        await over.wait()


def _load_protocol() -> Any:
    try:
        return import_module("omnigraphdb.surfaces.mcp.server")
    except ModuleNotFoundError as error:
        raise NotFound(
            "route",
            "/mcp",
            hint=f"the server lacks the package '{error.name}': {install_command('mcp')}",
        ) from error


class _Caller:
    """Gives a request to the SDK, and stops its reads when the caller leaves, which the SDK does not look for."""

    def __init__(self, receive: Receive, body: bytes, limit: Cancellation) -> None:
        self._receive, self._body, self._limit = receive, body, limit
        self._watch: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """The body of the request; after it, the word that the caller left."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._wait_until_gone())
            return {"type": "http.request", "body": self._body, "more_body": False}
        await asyncio.shield(self._watch)
        return {"type": "http.disconnect"}

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._limit.cancel()

    def end(self) -> None:
        """Watch no longer."""
        if self._watch is not None:
            self._watch.cancel()


class _Gathered:
    """An answer of the SDK, gathered into one of ours."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: dict[str, str] = {}
        self._body = b""

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {
                name.decode("latin-1").lower(): value.decode("latin-1")
                for name, value in message.get("headers", ())
            }
        else:
            self._body += message.get("body", b"")

    def make_reply(self) -> Reply:
        media = self._headers.pop("content-type", None)
        self._headers.pop("content-length", None)
        return Reply(body=self._body, media=media, status=self._status, headers=self._headers)
