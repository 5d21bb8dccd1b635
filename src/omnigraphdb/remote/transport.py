"""Requests to a server: their addresses, their answers, and failures as the errors of the package."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from omnigraphdb.api.arguments import count_of, text_of
from omnigraphdb.api.wire import GraphListResponse
from omnigraphdb.errors import (
    ConfigError,
    GraphClosed,
    OmniError,
    RemoteError,
    ServerUnreachable,
    TooManyRequests,
    UserInputError,
    shorten,
)
from omnigraphdb.remote.answers import ANSWER_BYTES, Answer, Call, Form, Value
from omnigraphdb.remote.failures import error_of
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.layout import redact

KEY = "idempotency-key"
WAITS = (0.1, 0.3, 1.0, 3.0)
"""Seconds before each repetition of a request, shortened at random; after the last one the failure stands."""
BOUND = "OMNIGRAPH_ANSWER_BYTES"
_GRAPHS = Form[GraphListResponse](GraphListResponse, lambda body: body)
_IS_SILENT = "without sending a response"
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


def _read_bound(answer_bytes: object) -> int:
    """What an answer may take: as the caller says, else the environment, else the default."""
    bound = count_of("answer_bytes", answer_bytes, least=1)
    text = os.environ.get(BOUND, str(ANSWER_BYTES))
    if bound is None and not (text.isascii() and text.isdigit() and int(text[:20]) > 0):
        raise ConfigError(
            f"{BOUND} is a number of bytes above 0, not '{shorten(text)}'; nothing was sent"
        )
    return int(text[:20]) if bound is None else bound


def _quote_segment(name: str) -> str:
    """A name as one segment of a path; dots alone would lead to another path."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


class Transport:
    """One server, and one graph of it; None is the graph of its flat routes."""

    def __init__(
        self,
        url: str,
        token: str | None,
        graph: str | None,
        runtime: Runtime = SYSTEM,
        *,
        answer_bytes: int | None = None,
    ) -> None:
        self._runtime = runtime
        self.url = _read_address(url)
        headers = _spell_token(token)
        self.prefix = "" if graph is None else f"/graphs/{_quote_segment(_name_graph(graph))}"
        self._answer_bytes = _read_bound(answer_bytes)
        self._client = httpx.Client(
            base_url=self.url,
            # What unpacks is bounded, so nothing else is asked for.
            headers={**headers, "accept-encoding": "gzip"},
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
        writes: bool | None = None,
        bound: int | None = None,
    ) -> Answer:
        """Send a request and give its answer; a refusal is raised.

        A request that got no answer is sent again where that is safe: a read, or a write with a key.
        `writes` says what a call may have done that is not answered; else its method says it.
        """
        request = self._client.build_request(
            method,
            path,
            params=_drop_missing(params),
            **({"content": content, "headers": headers} if body is None else _spell(body, headers)),
        )
        reads = method in ("GET", "HEAD")
        call = self._describe(method, path, writes=not reads if writes is None else writes)
        for wait in WAITS if reads or KEY in request.headers else ():
            try:
                return self._send(request, call, bound)
            except RemoteError as error:
                if error.storage_kind != "transient":
                    raise
            except (ServerUnreachable, TooManyRequests):
                pass
            self._runtime.wait(wait / 2 + self._runtime.jitter(wait / 2))
        return self._send(request, call, bound)

    def _describe(self, method: str, path: str, *, writes: bool) -> Call:
        return Call(
            server=self.shown, method=method, path=path, writes=writes, bound=self._answer_bytes
        )

    def _send(self, request: httpx.Request, call: Call, bound: int | None) -> Answer:
        with self._receiving(request, call) as answer:
            is_refused = answer.status >= 400
            if is_refused and request.method == "HEAD":
                self._ask_again_by_get(request, answer)
            if is_refused:
                raise self._error_of(answer)
            answer.whole(bound)
        return answer

    def _ask_again_by_get(self, request: httpx.Request, refused: Answer) -> None:
        """Ask for the reason of a refusal, and raise it: the answer to HEAD has no body."""
        headers = {**request.headers, "range": "bytes=0-0"}
        asked = self._client.build_request("GET", request.url, headers=headers)
        with self._receiving(asked, refused.call) as answer:
            if answer.status >= 400:
                raise self._error_of(answer)
        # Its status is all that is known when nothing is refused any more.
        raise error_of({}, refused.status, refused.headers, self._runtime.now_us())

    def _error_of(self, answer: Answer) -> OmniError:
        """The error that a refusal describes."""
        now = self._runtime.now_us()
        return answer.failure(lambda body: error_of(body, answer.status, answer.headers, now))

    def get(self, path: str, form: Form[Value], **params: Any) -> Value:
        """Read a JSON document."""
        return self.ask("GET", path, params=params).document(form)

    def post(
        self,
        path: str,
        form: Form[Value],
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Value:
        """Send a JSON document and read one."""
        return self.ask("POST", path, body=body, headers=headers, **more).document(form)

    def list_graphs(self) -> GraphListResponse:
        """List the graphs of the server, where its policy allows it."""
        return self.get("/graphs", _GRAPHS)

    def delete(
        self,
        path: str,
        form: Form[Value],
        *,
        headers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Value:
        """Delete what a path names."""
        return self.ask("DELETE", path, params=params, headers=headers).document(form)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[Answer]:
        """Read an answer while it arrives; one that breaks off is an error, never a short answer."""
        sent = {"headers": headers} if body is None else _spell(body, headers)
        request = self._client.build_request(method, path, params=_drop_missing(params), **sent)
        with self._receiving(request, self._describe(method, path, writes=False)) as answer:
            if answer.status >= 400:
                raise self._error_of(answer)
            yield answer

    @contextmanager
    def _receiving(self, request: httpx.Request, call: Call) -> Iterator[Answer]:
        """Send a request, and close its answer in the end."""
        response = self._receive(request, call)
        try:
            yield Answer(response, call)
        finally:
            response.close()

    def _receive(self, request: httpx.Request, call: Call) -> httpx.Response:
        if self._client.is_closed:
            raise GraphClosed(self.shown + self.prefix)
        try:
            return self._client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ServerUnreachable(
                f"the server '{self.shown}' cannot be reached: {error}; nothing was sent",
                storage_kind="transient",
                hint="check its address, and that it runs",
            ) from error
        except httpx.RemoteProtocolError as error:
            # A server that ends without a word has not answered; one that says something else has.
            if _IS_SILENT not in str(error):
                raise call.refuse(shorten(str(error)), is_passing=True) from error
            raise self._tell_end(error, call) from error
        except httpx.TransportError as error:
            raise self._tell_end(error, call) from error

    def _tell_end(self, error: Exception, call: Call) -> ServerUnreachable:
        """The error of a connection that ended before an answer began."""
        outcome = "whether the write was done is unknown" if call.writes else "nothing was changed"
        repeat = "look at the newest commit before you repeat it"
        return ServerUnreachable(
            f"the server '{self.shown}' broke off: {error or type(error).__name__}; {outcome}",
            hint=repeat if call.writes else "ask again",
        )


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
