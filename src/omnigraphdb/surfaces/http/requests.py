"""A request as the loop of the server gives it: its line, its headers, and its body in pieces."""

import re
from collections.abc import AsyncIterator, Sequence
from itertools import count
from typing import Final, overload

from starlette.types import Receive, Scope

from omnigraphdb.runtime import Runtime

LATE: Final = "omnigraphdb.late"
"""The place in a scope of the refusal of a body that did not arrive in its time."""
_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")


class CallerGone(Exception):
    """The caller left before the request was whole: nothing was begun, and nobody waits for an answer."""


class Headers:
    """Headers by their names in small letters; of several with one name the first counts."""

    __slots__ = ("_first", "_sent")

    def __init__(self, sent: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self._sent = sent
        self._first = dict(reversed(sent))

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """The text of a header."""
        found = self._first.get(name.encode("latin-1"))
        return default if found is None else found.decode("latin-1")

    def list_all(self, name: str) -> list[str]:
        """The texts of every header with a name."""
        if name not in self:
            return []
        wanted = name.encode("latin-1")
        return [text.decode("latin-1") for found, text in self._sent if found == wanted]

    @property
    def has_repeated(self) -> bool:
        """Whether any header comes more than once."""
        return len(self._first) < len(self._sent)

    def has_any(self, names: frozenset[bytes]) -> bool:
        """Whether a header has one of these names."""
        return not names.isdisjoint(self._first)

    def __contains__(self, name: str) -> bool:
        return name.encode("latin-1") in self._first


class RequestIds:
    """Ids of requests: the one that the caller chose, else that of this run of the server and a number."""

    def __init__(self, runtime: Runtime) -> None:
        # A ULID is a time, random letters and more of them; the last ten are a number here, which needs no randomness.
        self._run = runtime.new_id()[:16]
        self._numbers = count(1)

    def choose(self, headers: Headers) -> str:
        """Give the id of a request; one that the caller chose must be such that it can be repeated safely."""
        given = headers.get("x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        return f"{self._run}{next(self._numbers):010d}"


class Request:
    """One request; its body is read once."""

    __slots__ = ("headers", "method", "raw_path", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self.receive = scope, receive
        self.method: str = scope["method"]
        self.raw_path: bytes = scope["raw_path"]
        """The path as it was sent."""
        self.headers = Headers(scope["headers"])

    @property
    def query_string(self) -> bytes:
        """What stands behind the question mark."""
        found: bytes = self.scope["query_string"]
        return found

    @property
    def host(self) -> str | None:
        """The machine that asks, where it is known."""
        client = self.scope.get("client")
        return None if client is None else client[0]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces; raises `CallerGone` if the caller leaves before its end, and the refusal of a late one."""
        more = True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise CallerGone
            more = message.get("more_body", False)
            if more and LATE in self.scope:
                raise self.scope[LATE]
            yield message.get("body", b"")

    async def wait_until_gone(self) -> None:
        """Wait until the caller has left."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
