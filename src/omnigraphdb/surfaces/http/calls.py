"""Requests: read from the wire, checked, and given to a handler as one value."""

import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from omnigraphdb.errors import (
    OmniError,
    UnsupportedMedia,
    UserInputError,
    did_you_mean,
    shorten,
    suggestion,
)
from omnigraphdb.ids import MAIN
from omnigraphdb.policy import PolicyAction, ResourceScope
from omnigraphdb.surfaces.http.gate import Ask
from omnigraphdb.surfaces.http.hiding import hide_addresses, replace_addresses
from omnigraphdb.surfaces.http.requests import Headers, Request
from omnigraphdb.surfaces.http.served import BodyBound, Served, ServedGraph
from omnigraphdb.values import dataclass

CONDITION: Final = "omnigraph-if-graph-commit"
TIMEOUT: Final = "x-timeout-ms"
_COMMIT_ID: Final = re.compile(r"[0-9A-Za-z]{1,64}")
_PARAMS_MAX: Final = 256
T = TypeVar("T", str, int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A parameter of the query string."""

    name: str
    kind: type[str] | type[int] = str
    repeatable: bool = False
    required: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, as a handler sees it: nothing in it claims who asks but `actor`, which the token gave."""

    served: Served
    target: ServedGraph | None
    actor: str | None
    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    headers: Headers
    body: Any = None
    body_bytes: int = 0
    """The length of the body as it came."""
    if_commit: str | None = None
    key: str | None = None
    """The idempotency key of a write."""
    message: str | None = None
    """What the commit of a write says."""

    @property
    def place(self) -> ServedGraph:
        """The graph that the path names."""
        assert self.target is not None, "routes of the server itself have no graph"
        return self.target

    def given(self, name: str) -> str | None:
        """A text of the body, or of the query string."""
        found = self.body.get(name) if isinstance(self.body, dict) else None
        return self.text(name) if found is None else str(found)

    @property
    def written_branch(self) -> str:
        """The branch that a write names."""
        return (self.given("target") or self.given("branch") or MAIN).strip()

    def require(self, ask: Ask) -> None:
        """Refuse what the actor may not do."""
        guard, graph = (
            (None, None) if self.target is None else (self.place.graph.guard, self.place.id)
        )
        self.served.gate.require(ask, self.actor, guard, graph)

    def may_read(self, branch: str) -> bool:
        """Whether the actor may read a branch; for what is left out of an answer, so that nothing is refused or logged."""
        return self.may(PolicyAction.READ, branch)

    def may(self, action: PolicyAction, branch: str) -> bool:
        """Whether the actor may do something with a branch; nothing is refused or logged."""
        ask = Ask(action, ResourceScope.branch(branch))
        return self.target is None or self.served.gate.allows(
            ask, self.actor, self.place.graph.guard
        )

    def note_read(self, branch: str) -> None:
        """Log that the actor reads a branch of a graph without a policy."""
        ask = Ask(PolicyAction.READ, ResourceScope.branch(branch))
        self.served.gate.note_unguarded(ask, self.actor, self.place.id)

    def name_graph(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Name the graph in an answer without rows: by its id, unless the actor may list graphs with their addresses."""
        shown: dict[str, Any] = dict(answer)
        if not self._lists_graphs:
            shown = replace_addresses(answer, self.place.addresses, self.place.id)
        return shown

    def hide_address(self, error: OmniError) -> OmniError:
        """Name the graph in a refusal as answers do."""
        if self.target is None or self._lists_graphs:
            return error
        return hide_addresses(error, self.place.addresses, self.place.id)

    @property
    def _lists_graphs(self) -> bool:
        gate = self.served.gate
        return gate.may_somewhere(PolicyAction.GRAPH_LIST, self.actor, None, writes=False)

    def text(self, name: str) -> str | None:
        """A parameter of the query string."""
        found = self.query.get(name)
        return found[0] if found else None

    def text_or(self, name: str, default: str) -> str:
        """A parameter of the query string, or what stands for it when it is not given; an empty one is given."""
        found = self.text(name)
        return default if found is None else found

    def needed(self, name: str) -> str:
        """A parameter of the query string that the route requires."""
        return self.text(name) or ""

    def texts(self, name: str) -> list[str] | None:
        """A repeatable parameter of the query string."""
        return self.query.get(name) or None

    def count(self, name: str) -> int | None:
        """A parameter that counts."""
        found = self.text(name)
        if found is None:
            return None
        if not (found.isascii() and found.isdigit() and len(found) < 16) or int(found) < 1:
            raise UserInputError(f"'{name}' is '{shorten(found)}', not a whole number from 1 on")
        return int(found)

    def flag(self, name: str) -> bool:
        """A parameter that is `true` or `false`; false when it is not given."""
        found = self.text_or(name, "false")
        if found not in ("true", "false"):
            raise UserInputError(f"'{name}' is '{shorten(found)}', not true or false")
        return found == "true"


# ---- parts of a request


def split_path(raw: bytes) -> tuple[str, ...]:
    """Split the path as it was sent, then decode each segment: an encoded slash belongs to a name."""
    # The target of a request may be no path: `OPTIONS *` asks about the server.
    segments = raw.removeprefix(b"/").split(b"/")
    try:
        return tuple(unquote_to_bytes(one).decode("utf-8") for one in segments)
    except UnicodeDecodeError as error:
        raise UserInputError("the path is no UTF-8 text; nothing was done") from error


def read_query(raw: bytes, known: tuple[Param, ...]) -> dict[str, list[str]]:
    """Read the query string; refuse unknown names, and a second value where one is expected."""
    if not raw and not any(param.required for param in known):
        return {}
    found: dict[str, list[str]] = {}
    by_name = {param.name: param for param in known}
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=_PARAMS_MAX,
        )
    except ValueError as error:
        raise UserInputError("the query string cannot be read; nothing was done") from error
    for name, value in pairs:
        param = by_name.get(name)
        if param is None:
            near = suggestion(did_you_mean(name, by_name))
            raise UserInputError(f"parameter '{shorten(name)}' is unknown{near}; nothing was done")
        if name in found and not param.repeatable:
            raise UserInputError(f"parameter '{name}' is given twice; nothing was done")
        found.setdefault(name, []).append(value)
    missing = next((p.name for p in known if p.required and p.name not in found), None)
    if missing is not None:
        raise UserInputError(f"parameter '{missing}' is missing; nothing was done")
    return found


def read_condition(headers: Headers, *, conditional: bool, raw_path: bytes) -> str | None:
    """The commit that a conditional write expects; on other routes the header is refused, since ignoring it would write."""
    given = headers.list_all(CONDITION)
    name = "Omnigraph-If-Graph-Commit"
    if not conditional:
        if given:
            path = "/" + "/".join(split_path(raw_path)[-1:])
            raise UserInputError(
                f"{name} is not read by {path}; nothing was done",
                hint=f"send it to {path}/if-graph-commit" if path.count("/") else None,
            )
        return None
    if len(given) != 1 or not _COMMIT_ID.fullmatch(given[0]):
        raise UserInputError(
            f"{name} holds exactly one commit id, without quotes; nothing was done",
        )
    return given[0]


def read_key(headers: Headers) -> str | None:
    """The idempotency key of a write."""
    given = headers.list_all("idempotency-key")
    if len(given) > 1:
        raise UserInputError("Idempotency-Key is given twice; nothing was done")
    return given[0] if given else None


def read_timeout(headers: Headers) -> float | None:
    """Seconds that the caller gives to a read, from its arrival; None where the caller sets no time."""
    given = headers.get(TIMEOUT)
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 10) or int(given) < 1:
        raise UserInputError(
            f"X-Timeout-Ms is '{shorten(given)}', not a whole number of milliseconds from 1 on"
        )
    return int(given) / 1000


def read_message(headers: Headers) -> str | None:
    """The message of a commit; what no header can spell is percent-encoded."""
    given = headers.get("omnigraph-message")
    if given is None:
        return None
    try:
        return unquote_to_bytes(given).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserInputError("Omnigraph-Message is no UTF-8 text; nothing was done") from error


# ---- bodies


async def read_body(request: Request, bound: BodyBound, count: Callable[[int], None]) -> bytes:
    """Read a body up to its bound; `count` is called with the bytes of each piece when it arrives."""
    announced = announced_bytes(request.headers)
    bound.require(announced or 0)
    chunks, size = [], 0
    async for chunk in request.chunks():
        size += len(chunk)
        bound.require(size)
        count(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def announced_bytes(headers: Headers) -> int | None:
    """How long a body says it is."""
    text = headers.get("content-length")
    return int(text) if text is not None and text.isdigit() and len(text) < 19 else None


def require_media(headers: Headers, wanted: str) -> None:
    """Refuse a body of another kind; only an empty one need not say what it is, the others were refused at the entry."""
    given = headers.get("content-type")
    if given is None:
        return
    if given == wanted:
        return
    kind, _, parameters = given.partition(";")
    charset = re.search(r"charset\s*=\s*\"?([\w-]+)", parameters, re.IGNORECASE)
    is_utf8 = charset is None or charset[1].lower().replace("-", "") in ("utf8", "usascii")
    if kind.strip().lower() != wanted or not is_utf8:
        raise UnsupportedMedia(shorten(given), f"{wanted} in UTF-8")


def require_plain(headers: Headers) -> None:
    """Refuse a packed body."""
    packed = headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise UnsupportedMedia(shorten(packed), "bodies that are not packed")


def unpack(body: bytes, headers: Headers, bound: BodyBound) -> bytes:
    """Unpack a gzip body; one that grows over its bound is refused before it is in memory."""
    packed = headers.get("content-encoding", "identity").strip().lower()
    if packed in ("", "identity"):
        return body
    if packed != "gzip":
        raise UnsupportedMedia(shorten(packed), "bodies that are plain or packed by gzip")
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(body, bound.bytes_max + 1)
    except zlib.error as error:
        raise UserInputError("the body is no gzip data; nothing was done") from error
    bound.require(len(plain))
    if not unpacker.eof or unpacker.unused_data:
        raise UserInputError("the body is no single gzip stream; nothing was done")
    return plain


def parse_json(body: bytes) -> Any:
    """Parse a JSON document; NaN, a name that comes twice and endless nesting are refused."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserInputError(
            f"the body is no UTF-8 text (byte {error.start}); nothing was done"
        ) from error
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise UserInputError("the body is nested too deeply; nothing was done") from error
    except ValueError as error:
        raise UserInputError(f"the body is no JSON: {error}; nothing was done") from error


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same name twice")
    return found


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_make_object)
