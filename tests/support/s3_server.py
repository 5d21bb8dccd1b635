"""The S3 server of the tests: ministack's S3 behind a layer that counts, delays, keeps and breaks requests.

Run as a program with the number of an inherited listening socket; it ends when its standard input does.
"""

import asyncio
import json
import random
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qs, unquote

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

CONTROL = "/_control/"
CONDITIONS = (b"if-none-match", b"if-match")

_CLASSES = (
    ("manifest", r"/_versions/|\.manifest$"),
    ("txn", r"/_transactions/"),
    ("index", r"/_indices/"),
    ("ref", r"/_refs/"),
    ("deletion", r"/_deletions/"),
    ("data", r"/data/"),
    ("sidecar", r"(^|/)__recovery(/|$)"),
    ("lock", r"(^|/)__locks(/|$)"),
    ("staging", r"(^|/)__staging(/|$)"),
    ("job", r"(^|/)__jobs(/|$)"),
    ("schema", r"(^|/)(_schema\.pg|_schema\.ir\.json|__schema_state\.json)"),
)


def classify(key: str) -> str:
    """Name the role a key plays in a graph."""
    return next((name for name, pattern in _CLASSES if re.search(pattern, key)), "other")


@dataclass
class Behaviour:
    """How the server treats requests; all of it can be changed while it runs."""

    latency: float = 0.0
    concurrency: int = 0
    ignore_conditions: bool = False
    # Each break: {"method", "key" (a pattern), "status", "after" (do it first), "times"}.
    breaks: list[dict[str, Any]] = field(default_factory=list)
    # Faults at random: {"seed", "rate" (of all requests), "lost" (of these), "hang" (seconds until a lost answer comes)}.
    chaos: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.chaos.get("seed"))

    def draw_fault(self) -> dict[str, Any] | None:
        """Draw what goes wrong with a request: an error or a lost answer, before or after its effect, or an effect that comes late."""
        if self._random.random() >= self.chaos.get("rate", 0.0):
            return None
        is_lost = self._random.random() < self.chaos.get("lost", 0.15)
        is_after = self._random.random() < 0.5
        return {
            "status": 500,
            "after": is_after,
            "hang": self.chaos["hang"] if is_lost else 0.0,
            "late": is_lost and not is_after and self._random.random() < 0.5,
        }


class Delay:
    """One request that is kept on its way: its body has arrived, its effect comes when it is let go.

    It is carried out even if its client has died meanwhile, as a request in a network would be.
    """

    def __init__(self, method: str, key: str, skip: int, is_repeated: bool = False) -> None:
        self._method = method
        self._key = key
        self._skip = skip
        self.is_repeated = is_repeated
        """Whether the client is told at once that it failed, and sends it again while the first one is on its way."""
        self._arrived = asyncio.Event()
        self._open = asyncio.Event()
        self._done = asyncio.Event()
        self._status = 0

    def fits(self, entry: dict[str, Any]) -> bool:
        """Whether this is the request to keep; it is kept once."""
        if self._method != entry["method"] or not re.search(self._key, entry["key"]):
            return False
        self._skip -= 1
        return self._skip == -1

    async def keep(self, app: App, scope: Message, receive: Receive) -> None:
        """Take the whole request, wait, and only then carry it out; nobody is there to be answered."""

        async def wait() -> None:
            self._arrived.set()
            await self._open.wait()

        self._status = await _carry_out_after(wait, app, scope, receive)
        self._done.set()

    async def arrived(self) -> None:
        """Wait until the request is there."""
        await self._arrived.wait()

    async def let_go(self) -> int:
        """Carry it out; what the store says of it."""
        self._open.set()
        await self._done.wait()
        return self._status


async def _carry_out_after(
    wait: Callable[[], Awaitable[None]], app: App, scope: Message, receive: Receive
) -> int:
    """Take the whole request, wait, and only then carry it out; the status that nobody is there to be told."""
    body, more, status = b"", True, 0
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await wait()

    async def replay() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def note(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    await app(scope, replay, note)
    return status


class Counting:
    """An ASGI layer that logs every S3 request before it passes it on."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._behaviour = Behaviour()
        self._log: list[dict[str, Any]] = []
        self._inflight = 0
        self._turns = asyncio.Semaphore(10_000)
        self._delay: Delay | None = None
        self._kept: set[asyncio.Task[Any]] = set()
        # Seconds that the store's clock is ahead: of each bucket now, and of each object when it was last written.
        self._ahead: dict[str, float] = {}
        self._ahead_when_written: dict[tuple[str, str], float] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
        elif scope["path"].startswith(CONTROL):
            await self._control(scope["path"].removeprefix(CONTROL), receive, send)
        else:
            async with self._turns:
                await self._serve(scope, receive, send)

    async def _serve(self, scope: Message, receive: Receive, send: Send) -> None:
        self._inflight += 1
        entry = self._entry(scope)
        self._log.append(entry)
        try:
            if self._behaviour.latency:
                await asyncio.sleep(self._behaviour.latency)
            if self._behaviour.ignore_conditions:
                scope["headers"] = [h for h in scope["headers"] if h[0].lower() not in CONDITIONS]
            await self._pass(scope, entry, receive, send)
        finally:
            self._inflight -= 1

    async def _pass(
        self, scope: Message, entry: dict[str, Any], receive: Receive, send: Send
    ) -> None:
        async def counted_receive() -> Message:
            message = await receive()
            entry["bytes_in"] += len(message.get("body", b""))
            if entry["method"] == "DELETE" and not entry["key"]:
                _name_by_first_key(entry, message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            entry["bytes_out"] += len(message.get("body", b""))
            entry["status"] = message.get("status", entry["status"])
            await send(self._date(message, entry))

        async def swallow(message: Message) -> None:
            return None

        if self._delay is not None and self._delay.fits(entry):
            await self._keep(self._delay, scope, receive, send)
            return
        broken = self._break(entry)
        if broken is None:
            await self._app(scope, counted_receive, counted_send)
            return
        if broken["after"]:
            await self._app(scope, counted_receive, swallow)
        wait = partial(asyncio.sleep, broken.get("hang", 0.0))
        if broken.get("late", False):
            await self._outlive(_carry_out_after(wait, self._app, scope, counted_receive))
        else:
            await wait()
        entry["status"] = broken["status"]
        code = b"<Error><Code>InternalError</Code><Message>broken on purpose</Message></Error>"
        await _respond(send, broken["status"], code)

    def _date(self, message: Message, entry: dict[str, Any]) -> Message:
        """Date an object by the clock of its bucket, in the answers that are about this object alone."""
        bucket, key, method = entry["bucket"], entry["key"], entry["method"]
        if method == "PUT":
            self._ahead_when_written[bucket, key] = self._ahead.get(bucket, 0.0)
        ahead = self._ahead_when_written.get((bucket, key), 0.0)
        if method not in ("GET", "HEAD") or not ahead or "headers" not in message:
            return message
        return {**message, "headers": [_add_seconds(one, ahead) for one in message["headers"]]}

    async def _keep(self, delay: Delay, scope: Message, receive: Receive, send: Send) -> None:
        kept = self._outlive(delay.keep(self._app, scope, receive))
        if not delay.is_repeated:
            await kept
            return
        self._kept.add(task := asyncio.create_task(kept))
        task.add_done_callback(self._kept.discard)
        await delay.arrived()
        await _respond(
            send, 503, b"<Error><Code>SlowDown</Code><Message>sent again</Message></Error>"
        )

    async def _outlive(self, work: Coroutine[Any, Any, Any]) -> None:
        """Carry a request out to its end, in a task of its own: it outlives the connection it came by."""
        task = asyncio.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        await asyncio.shield(task)

    def _break(self, entry: dict[str, Any]) -> dict[str, Any] | None:
        for one in self._behaviour.breaks:
            fits = one["method"] == entry["method"] and re.search(one["key"], entry["key"])
            if fits and one["times"] > 0:
                one["times"] -= 1
                return one
        return self._behaviour.draw_fault()

    def _entry(self, scope: Message) -> dict[str, Any]:
        bucket, _, key = unquote(scope["path"]).lstrip("/").partition("/")
        query = parse_qs(scope["query_string"].decode(), keep_blank_values=True)
        method = scope["method"]
        if method == "GET" and (not key or "list-type" in query):
            method, key = "LIST", query.get("prefix", [""])[0]
        if method == "POST" and "delete" in query:
            method = "DELETE"
        headers = {name.lower() for name, _ in scope["headers"]}
        return {
            "method": method,
            "bucket": bucket,
            "key": key,
            "class": classify(key),
            "conditional": bool(headers.intersection(CONDITIONS)),
            "inflight": self._inflight,
            "bytes_in": 0,
            "bytes_out": 0,
            "status": 0,
        }

    async def _control(self, verb: str, receive: Receive, send: Send) -> None:
        body = json.loads((await receive()).get("body") or b"{}")
        if verb == "behave":
            self._behaviour = Behaviour(**body)
            self._turns = asyncio.Semaphore(self._behaviour.concurrency or 10_000)
        elif verb == "reset":
            self._log.clear()
        elif verb == "pass_time":
            self._ahead[body["bucket"]] = self._ahead.get(body["bucket"], 0.0) + body["seconds"]
        elif verb == "delay":
            self._delay = Delay(**body)
        answer: Any = self._log if verb == "log" else []
        if verb == "delayed" and self._delay is not None:
            await self._delay.arrived()
        if verb == "let_go" and self._delay is not None:
            answer, self._delay = await self._delay.let_go(), None
        await _respond(send, 200, json.dumps(answer).encode())


def _name_by_first_key(entry: dict[str, Any], body: bytes) -> None:
    # A bulk delete names its keys in the body only.
    found = re.search(rb"<Key>(.*?)</Key>", body)
    if found is not None:
        entry["key"] = found[1].decode()
        entry["class"] = classify(entry["key"])


def _add_seconds(header: tuple[bytes, bytes], seconds: float) -> tuple[bytes, bytes]:
    name, value = header
    if name.lower() != b"last-modified":
        return header
    moment = parsedate_to_datetime(value.decode()) + timedelta(seconds=seconds)
    return name, format_datetime(moment, usegmt=True).encode()


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    # Answered here instead of by ministack, whose start-up would bring up its other services.
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _respond(send: Send, status: int, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": length})
    await send({"type": "http.response.body", "body": body})


async def _until_input_ends() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


def main(descriptor: int) -> None:
    """Serve on an inherited socket until standard input ends."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.accesslog = config.errorlog = None
    config.keep_alive_timeout = 75
    asyncio.run(serve(cast(Any, Counting(app)), config, shutdown_trigger=_until_input_ends))


if __name__ == "__main__":
    main(int(sys.argv[1]))
