"""Requests to a server: their addresses, their answers, and failures as the errors of the package."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from omnigraph.api.arguments import text_of
from omnigraph.errors import (
    GraphClosed,
    ServerUnreachable,
    TooManyRequests,
    UserInputError,
    shorten,
)
from omnigraph.remote.failures import error_of
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.storage.layout import redact

KEY = "idempotency-key"
WAITS = (0.1, 0.3, 1.0, 3.0)
"""Seconds before each repetition of a request, shortened at random; after the last one the failure stands."""
SECONDS = 600.0
"""How long an answer may take: a load or a merge runs to its end."""


def _name_graph(graph: object) -> str:
    name = text_of("graph", graph)
    if not name.strip():
        raise UserInputError("'graph' is empty, it names no graph of the server; nothing was sent")
    return name


def _read_address(url: object) -> str:
    text = text_of("url", url).rstrip("/")
    try:
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        is_address = False
    else:
        is_address = is_address and not (
            parts.query or parts.fragment or any(map(str.isspace, text))
        )
    if not is_address:
        raise UserInputError(
            # What stands before the sign may be a password.
            f"'{shorten(text.rpartition('@')[2])}' is no address of a server; nothing was sent",
            hint="an address is http:// or https://, a host, and perhaps a port and a path",
        )
    return text


def _spell_token(token: object) -> dict[str, str]:
    """The header of a token; the refusal of one that no header spells does not repeat it."""
    # `text_of` repeats a text that is no UTF-8.
    text = token if isinstance(token, str) else "" if token is None else text_of("token", token)
    text = text.strip()
    if not (text.isascii() and text.isprintable()):
        raise UserInputError(
            "'token' has other characters than printable ASCII, no header spells it; nothing was sent"
        )
    return {"authorization": f"Bearer {text}"} if text else {}


def _quote_segment(name: str) -> str:
    """A name as one segment of a path; dots alone would lead to another path."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


class Transport:
    """One server, and one graph of it; None is the graph of its flat routes."""

    def __init__(
        self, url: str, token: str | None, graph: str | None, runtime: Runtime = SYSTEM
    ) -> None:
        self._runtime = runtime
        self.url = _read_address(url)
        headers = _spell_token(token)
        self.prefix = "" if graph is None else f"/graphs/{_quote_segment(_name_graph(graph))}"
        self._client = httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(SECONDS, connect=10.0),
            # Reading the certificates of the world takes longer than a query; plain HTTP shows none.
            verify=self.url.startswith("https://"),
        )

    @property
    def shown(self) -> str:
        """The address without a password."""
        return redact(self.url)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def path(self, *segments: str) -> str:
        """The path of a route; every name is one segment, whatever is in it."""
        return self.prefix + "".join(f"/{_quote_segment(one)}" for one in segments)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request and give its answer; a refusal is raised.

        A request that got no answer is sent again where that is safe: a read, or a write with a key.
        """
        request = self._client.build_request(
            method,
            path,
            params=_drop_missing(params),
            **({"content": content, "headers": headers} if body is None else _spell(body, headers)),
        )
        safe = method in ("GET", "HEAD") or KEY in request.headers
        for wait in WAITS if safe else ():
            try:
                return self._send(request)
            except (ServerUnreachable, TooManyRequests):
                self._runtime.wait(wait / 2 + self._runtime.jitter(wait / 2))
        return self._send(request)

    def _send(self, request: httpx.Request) -> httpx.Response:
        with self._translating(writes=request.method not in ("GET", "HEAD")):
            found = self._client.send(request)
            if found.status_code >= 400 and request.method == "HEAD":
                found = self._ask_again_by_get(request, found)
        _raise_refusal(found, self.shown)
        return found

    def _ask_again_by_get(self, request: httpx.Request, refused: httpx.Response) -> httpx.Response:
        """Ask for the reason of a refusal: the answer to HEAD has no body."""
        headers = {**request.headers, "range": "bytes=0-0"}
        found = self._client.get(request.url, headers=headers)
        return found if found.status_code >= 400 else refused

    def get(self, path: str, **params: Any) -> Any:
        """Read a JSON document."""
        return _parse(self.ask("GET", path, params=params), self.shown)

    def post(
        self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Any:
        """Send a JSON document and read one."""
        return _parse(self.ask("POST", path, body=body, headers=headers, **more), self.shown)

    def list_graphs(self) -> Any:
        """List the graphs of the server, where its policy allows it."""
        return self.get("/graphs")

    def delete(self, path: str, *, headers: Mapping[str, str] | None = None, **params: Any) -> Any:
        """Delete what a path names."""
        return _parse(self.ask("DELETE", path, params=params, headers=headers), self.shown)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Read an answer while it arrives; one that breaks off is an error, never a short answer."""
        sent = {"headers": headers} if body is None else _spell(body, headers)
        asking = self._client.stream(method, path, params=_drop_missing(params), **sent)
        with self._translating(writes=False), asking as found:
            if found.status_code >= 400:
                found.read()
            _raise_refusal(found, self.shown)
            yield found

    @contextmanager
    def _translating(self, *, writes: bool) -> Iterator[None]:
        if self._client.is_closed:
            raise GraphClosed(self.shown + self.prefix)
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ServerUnreachable(
                f"the server '{self.shown}' cannot be reached: {error}; nothing was sent",
                storage_kind="transient",
                hint="check its address, and that it runs",
            ) from error
        except httpx.TransportError as error:
            outcome = "whether the write was done is unknown" if writes else "nothing was changed"
            raise ServerUnreachable(
                f"the server '{self.shown}' broke off: {error or type(error).__name__}; {outcome}",
                hint="look at the newest commit before you repeat it" if writes else "ask again",
            ) from error


def _spell(body: Any, headers: Mapping[str, str] | None) -> dict[str, Any]:
    """Spell a body as JSON; a value that JSON has no words for is refused."""
    try:
        content = _encode_json(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserInputError(
            f"the request cannot be spelt as JSON: {error}; nothing was sent"
        ) from error
    return {"content": content, "headers": {"content-type": "application/json", **(headers or {})}}


def _encode_json(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair is no UTF-8; escaped it reaches the server, which says where it stands.
        return json.dumps(body, allow_nan=False).encode()


def _drop_missing(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _raise_refusal(found: httpx.Response, url: str) -> None:
    if found.status_code >= 400:
        # The answer to HEAD has no body: its status is all that is known when nothing is refused any more.
        body = {} if found.request.method == "HEAD" else _parse(found, url)
        raise error_of(body, found.status_code, found.headers)


def _parse(found: httpx.Response, url: str) -> Any:
    try:
        return json.loads(found.content)
    except ValueError as error:
        kind = found.headers.get("content-type", "nothing")
        raise ServerUnreachable(
            f"'{url}' answered {found.status_code} with {kind}, not with JSON; is this an omnigraph server?"
        ) from error
