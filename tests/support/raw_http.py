"""Requests as bytes, so that no client corrects what a test spells wrongly, and their answers."""

import json
import socket
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any

SHOWN_MAX = 400


@dataclass(frozen=True, kw_only=True)
class RawRequest:
    """One request: its target and its headers are sent as they are."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    host: bytes = b"localhost"

    def has(self, name: bytes) -> bool:
        """Whether a header has this name, in whatever case."""
        return any(found.lower() == name for found, _ in self.headers)

    def spell(self) -> bytes:
        """The request as it is sent; a body says how long it is."""
        lines = [b"%s %s HTTP/1.1" % (self.method.encode(), self.target), b"host: %s" % self.host]
        lines += [b"%s: %s" % pair for pair in self.headers]
        lines += [b"connection: close", b"content-length: %d" % len(self.body)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body

    def __str__(self) -> str:
        sent = self.spell()
        return repr(sent if len(sent) <= SHOWN_MAX * 3 else sent[: SHOWN_MAX * 3] + b"...")


@dataclass(frozen=True, kw_only=True)
class RawAnswer:
    """What came back: a whole answer, since a broken one is an error of `send`."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type") == "application/json"

    def json(self) -> Any:
        return json.loads(self.body)

    def __str__(self) -> str:
        return f"{self.status} {self.body[:SHOWN_MAX]!r}"


def send(url: str, request: RawRequest, *, seconds: float = 60) -> RawAnswer:
    """Send a request on a connection of its own, and read the answer to its end."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        # Who refuses a request by its head need not read the rest of it.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request.spell())
        with closing(HTTPResponse(connection, method=request.method)) as answer:
            answer.begin()
            headers = {name.lower(): text for name, text in answer.getheaders()}
            return RawAnswer(status=answer.status, headers=headers, body=answer.read())
