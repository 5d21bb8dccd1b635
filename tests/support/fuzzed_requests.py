"""Requests to every route, with names, parameters, headers and bodies that are right, nearly right, or wrong."""

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_from_bytes

from omnigraphdb.surfaces.http.routing import BodyKind, Route
from tests.support.raw_http import RawRequest
from tests.support.refused_bodies import NOWHERE, REFUSED, change_body
from tests.support.served import ADD, NAMES, SCHEMA

METHODS = ("GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS", "get", "QUERY")
ODD = (
    "", " ", ".", "..", "{branch}", "{name}", "{commit}", "{graph_id}", "{}", "{", "\0", "a\0b", "é", "ﬀ", "\u202e",
    "\ud800", "x" * 300, "x" * 5000, "MAIN", "main ", "main/", "/main", "a/b", "a//b", "../../etc/passwd", "%2F", "%",
    "__manifest", "__schema_apply_lock__", "-x", "0", "1", "9" * 30, "-1", "1.5", "null", "true", "graphs", "merge",
    "if-graph-commit", "policies", "HEAD", "*", "'", '"', "\\", "\n", "\r\nset-cookie: a=b", "$(id)", "<b>", "𝒳",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV", "2026-01-01", "node:Person", "og1c.x", "\ufeff", "Person", NOWHERE,
)  # fmt: skip
"""Texts that are no name, or the name of something else."""
PARTS = (
    "",
    ".",
    "..",
    "%2e%2e",
    "%00",
    "{branch}",
    "%ff",
    "%zz",
    "%",
    "main",
    "graphs",
    "é".encode(),
)
"""Segments of paths, as they are sent."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What a server serves, so that requests can be right about some of it."""

    graphs: Sequence[str]
    flat: bool
    commits: Sequence[str]
    token: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fuzzer:
    """Draws requests."""

    drawn: random.Random
    world: World
    routes: Sequence[Route]

    def draw_all(self, count: int) -> Iterator[RawRequest]:
        """Draw so many requests; every route comes in its turn."""
        for number in range(count):
            yield self.draw(self.routes[number % len(self.routes)])

    def draw(self, route: Route) -> RawRequest:
        """Draw a request to a route; about a third of them lead elsewhere, or nowhere."""
        path = self._spell_path(route)
        query = self._spell_query(route)
        return RawRequest(
            method=self._pick(METHODS) if self._rarely(10) else route.method,
            target=path + (b"?" + query if query else b""),
            headers=tuple(self._draw_headers(route)),
            body=self._draw_body(route),
        )

    def _rarely(self, most: int) -> bool:
        return self.drawn.randrange(most) == 0

    def _pick(self, found: Sequence[Any]) -> Any:
        return self.drawn.choice(found)

    def _pick_text(self, right: Sequence[str], odd_of: int = 3) -> str:
        """One of the right texts, or now and then an odd one."""
        return str(self._pick(ODD if not right or self._rarely(odd_of) else right))

    # ---- paths

    def _spell_path(self, route: Route) -> bytes:
        parts = [self._spell_segment(one) for one in route.segments]
        if not route.of_server and not (self.world.flat and self._rarely(2)):
            graph = self._pick_text(self.world.graphs, 8)
            parts = [b"graphs", self._encode(graph), *parts]
        if self._rarely(6):
            self._damage_path(parts)
        return b"/" + b"/".join(parts)

    def _spell_segment(self, wanted: str) -> bytes:
        match wanted:
            case "{branch}":
                return self._encode(self._pick_text(["none", "main", "merge", "scratch"]))
            case "{commit}":
                commit = self._pick_text(self.world.commits)
                return self._encode(commit if self._rarely(3) else commit[:12])
            case "{name}":
                return self._encode(self._pick_text(["names", "add", "none"]))
            case _:
                return self._encode(wanted) if self._rarely(12) else wanted.encode()

    def _encode(self, text: str) -> bytes:
        """A text as one segment: nothing but what must be encoded, or everything."""
        raw = text.encode("utf-8", "surrogatepass")
        if self._rarely(3):
            return "".join(f"%{one:02x}" for one in raw).encode()
        return quote_from_bytes(raw, safe="{}.-_~!$&'()*+,;=:@").encode()

    def _damage_path(self, parts: list[bytes]) -> None:
        place = self.drawn.randrange(len(parts))
        match self.drawn.randrange(5):
            case 0:
                part = self._pick(PARTS)
                parts.insert(place, part if isinstance(part, bytes) else part.encode())
            case 1:
                del parts[place]
            case 2:
                parts[place] = parts[place].swapcase()
            case 3:
                parts.append(b"")
            case _:
                part = self._pick(PARTS)
                parts[place] = part if isinstance(part, bytes) else part.encode()

    # ---- query strings

    def _spell_query(self, route: Route) -> bytes:
        given = {one.name: self._right_value(one.name) for one in route.params if one.required}
        for one in route.params:
            if not one.required and self._rarely(4):
                given[one.name] = self._right_value(one.name)
        pairs = list(given.items())
        if self._rarely(3):
            self._damage_pairs(pairs, route)
        text = b"&".join(self._encode(name) + b"=" + self._encode(value) for name, value in pairs)
        return (
            self._pick((text + b"&%zz", text + b"&" * 300, b"?" + text, b"\xff=\xfe", b"="))
            if self._rarely(40)
            else text
        )

    def _damage_pairs(self, pairs: list[tuple[str, str]], route: Route) -> None:
        names = [one.name for one in route.params] or ["branch"]
        match self.drawn.randrange(5):
            case 0:
                pairs.append((str(self._pick(ODD)), str(self._pick(ODD))))
            case 1 if pairs:
                pairs.append(self._pick(pairs))
            case 2 if pairs:
                del pairs[self.drawn.randrange(len(pairs))]
            case 3:
                pairs.extend([(self._pick(names), "main")] * 300)
            case _:
                pairs.append((self._pick(names), str(self._pick(ODD))))

    def _right_value(self, name: str) -> str:
        commits = list(self.world.commits)
        right: Mapping[str, Sequence[str]] = {
            "branch": ["main", "side"],
            "merged_into": ["main", "side"],
            "type": ["Person", "Knows"],
            "to_type": ["Person"],
            "id": ["Ada", "Bo", "Nobody"],
            "from": ["main", "side", "Ada", *commits],
            "to": ["main", "side", "Bo", *commits],
            "base": ["main", *commits],
            "head": ["side", *commits],
            "at": [*commits, "1", "2", "3"],
            "snapshot": [*commits, "1", "2"],
            "entity": ["node", "edge"],
            "property": ["photo", "name", "since"],
            "column": ["name", "id"],
            "kind": ["node", "edge"],
            "op": ["insert", "update", "delete"],
            "operation": ["insert", "update", "delete"],
            "direction": ["in", "out", "both"],
            "edge": ["Knows"],
            "by": ["since"],
            "mode": ["append", "merge", "overwrite"],
            "start": ["now", "beginning", *(f"after:{one}" for one in commits)],
            "since": ["2026-01-01", *commits],
            "until": ["2030-01-01T00:00:00Z"],
            **dict.fromkeys(("limit", "hops", "best", "keep", "limit_nodes", "limit_edges"), ("1", "10", "8192", "999999999")),
            **dict.fromkeys(("counts", "undirected", "dry_run"), ("true", "false")),
        }  # fmt: skip
        return self._pick_text(right.get(name, ()), 6)

    # ---- headers

    def _draw_headers(self, route: Route) -> Iterator[tuple[bytes, bytes]]:
        if self.world.token is not None:
            yield from self._draw_token(self.world.token)
        if route.body_kind is not BodyKind.NONE and not self._rarely(10):
            media = (
                "application/x-ndjson" if route.body_kind is BodyKind.LINES else "application/json"
            )
            yield b"content-type", media.encode()
        if route.conditional and not self._rarely(6):
            yield (
                b"omnigraph-if-graph-commit",
                self._pick([*self.world.commits, "01ARZ3NDEKTSV4RRFFQ69G5FAV"]).encode(),
            )
        if route.writes and self._rarely(4):
            yield b"idempotency-key", b"key %d" % self.drawn.randrange(50)
        while self._rarely(3):
            yield self._pick(HEADERS)

    def _draw_token(self, token: str) -> Iterator[tuple[bytes, bytes]]:
        right = f"Bearer {token}".encode()
        if not self._rarely(12):
            yield b"authorization", right
            return
        wrong = (
            b"",
            b"Bearer",
            b"Basic " + token.encode(),
            right + b"x",
            right[:-1],
            right.upper(),
            b"Bearer \xff",
        )
        yield b"authorization", self._pick(wrong)

    # ---- bodies

    def _draw_body(self, route: Route) -> bytes:
        if route.body_kind is BodyKind.NONE:
            return self._pick((b"{}", b"x" * 5000, b"\0")) if self._rarely(20) else b""
        if route.body_kind is BodyKind.LINES:
            return self._draw_lines()
        body = self._find_body(route.operation)
        sent = (
            change_body(self.drawn, body) if self._rarely(2) and body else json.dumps(body).encode()
        )
        return self._pick(BODIES) if self._rarely(10) else sent

    def _find_body(self, operation: str) -> dict[str, Any]:
        """A body that does nothing: a read, or a write of what is not there."""
        if operation in REFUSED and not (operation in WRITING and self._rarely(2)):
            return dict(REFUSED[operation])
        make = READING.get(operation) or WRITING.get(operation)
        body = {} if make is None else make(self.world)
        if "branch" in body and self._rarely(3):
            body["branch"] = self._pick_text(["main", "side"])
        return body

    def _draw_lines(self) -> bytes:
        text = bytearray(
            b'{"type": "Person", "data": {"name": "Nobody", "age": "not a number"}}\n' * 3
        )
        if self._rarely(2):
            text[self.drawn.randrange(len(text))] = self.drawn.randrange(256)
        return gzip.compress(text) if self._rarely(8) else bytes(text)


HEADERS = (
    (b"accept", b"application/vnd.apache.arrow.stream"), (b"accept", b"application/vnd.apache.parquet"),
    (b"accept", b"text/html"), (b"accept", b"\xff"), (b"accept-encoding", b"gzip"),
    (b"content-encoding", b"gzip"), (b"content-encoding", b"br"), (b"content-encoding", b""),
    (b"content-type", b"application/json; charset=utf-16"), (b"content-type", b"text/html"), (b"content-type", b"\xff"),
    (b"content-type", b"APPLICATION/JSON"), (b"idempotency-key", b"a key"), (b"idempotency-key", b""),
    (b"idempotency-key", b"x" * 300), (b"idempotency-key", b"\xc3\xa9"), (b"idempotency-key", b"../../key"),
    (b"omnigraph-if-graph-commit", b"*"), (b"omnigraph-if-graph-commit", b'"01ARZ3NDEKTSV4RRFFQ69G5FAV"'),
    (b"omnigraph-message", b"%ff"), (b"omnigraph-message", b"x" * 5000), (b"omnigraph-message", b"%00"),
    (b"x-actor-id", b"admin"), (b"x-forwarded-user", b"ada"), (b"x-forwarded-for", b"8.8.8.8"),
    (b"x-request-id", b"mine"), (b"x-request-id", b"a b"), (b"x-request-id", b"\xff"), (b"x-request-id", b"x" * 500),
    (b"x-timeout-ms", b"1"), (b"x-timeout-ms", b"0"), (b"x-timeout-ms", b"-1"), (b"x-timeout-ms", b"999999999"),
    (b"x-timeout-ms", b"\xb2"), (b"range", b"bytes=0-1"), (b"range", b"bytes=99-"), (b"range", b"bytes=-0"),
    (b"range", b"bytes=1-0,5-6"), (b"if-match", b'"x"'), (b"if-match", b"*"), (b"if-none-match", b"*"),
    (b"if-range", b'"x"'), (b"origin", b"http://evil"), (b"access-control-request-method", b"POST"),
    (b"expect", b"100-continue"), (b"x-long", b"x" * 20_000), (b"x-http-method-override", b"DELETE"),
    (b"mcp-protocol-version", b"1"), (b"cookie", b"a=b"),
)  # fmt: skip
BODIES = (
    b"", b"null", b"[]", b"5", b'""', b"true", b"{", b"}", b"\0", b"\xff\xfe{\0}\0", b"{}" * 2, b"[" * 100_000,
    b'{"a":' * 5000, b'{"query": NaN}', b'{"query": "x", "query": "y"}', b"{}" + b" " * 1_100_000,
    b'{"query": "' + b"x" * 200_000 + b'"}', b'{"query": "' + b"(" * 20_000 + b'"}', b"\xef\xbb\xbf{}", b'{"": 1}',
)  # fmt: skip
READING: Mapping[str, Callable[[World], dict[str, Any]]] = {
    "query": lambda _: {"query": NAMES, "branch": "side", "params": {}, "name": "names"},
    "explainQuery": lambda _: {"query": NAMES, "branch": "main", "profile": True},
    "read": lambda world: {"query_source": NAMES, "snapshot": world.commits[0]},
    "lintText": lambda _: {"text": NAMES},
    "completeText": lambda _: {"text": "query q() { match { $p: ", "offset": 20},
    "exportGraph": lambda _: {"branch": "main", "type_names": ["Person"]},
    "streamBaseline": lambda _: {"branch": "main", "type_names": ["Person"]},
    "previewMerge": lambda _: {"source": "side", "target": "main"},
    "planSchema": lambda _: {"schema_source": SCHEMA, "allow_data_loss": True},
    "mcp": lambda _: {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
}
"""Bodies of reads, by route."""
LINE = json.dumps({"type": "Person", "data": {"name": "Drawn", "age": 5}})
AGE = "query q($n: String, $a: I32?) { update Person set { age: $a } where name = $n }"
WRITING: Mapping[str, Callable[[World], dict[str, Any]]] = {
    "mutate": lambda _: {"query": AGE, "params": {"n": "Nobody", "a": 5}, "branch": "main"},
    "mutateIfGraphCommit": lambda _: {
        "query": AGE,
        "params": {"n": "Ada", "a": 5},
        "branch": "side",
    },
    "change": lambda _: {
        "query_source": ADD,
        "params": {"n": "Ada"},
        "branch": "main",
        "dry_run": True,
    },
    "load": lambda _: {"data": LINE, "branch": "side", "mode": "append"},
    "ingest": lambda _: {"data": LINE, "branch": "main", "mode": "merge"},
    "createBranch": lambda _: {"name": "side", "from": "main"},
    "createTag": lambda _: {"name": "side", "branch": "main"},
    "mergeBranches": lambda _: {"source": "side", "target": "main", "delete_branch": False},
    "mergeBranchesIfGraphCommit": lambda _: {"source": "main", "target": "side"},
    "applySchema": lambda _: {"schema_source": SCHEMA, "allow_data_loss": False},
    "applySchemaIfGraphCommit": lambda _: {
        "schema_source": SCHEMA + "node Port { code: String @key }"
    },
    "invokeQuery": lambda _: {"params": {"n": "Ada"}, "branch": "main", "expect_mutation": True},
    "invokeQueryIfGraphCommit": lambda _: {"params": {"n": "Sid"}, "branch": "side"},
}
"""Bodies of writes that may be done, some of which then change nothing; damaged they are mostly refused."""


def draw_known_write(drawn: random.Random, name: str) -> tuple[str, dict[str, Any]]:
    """A write that is done, as a path and a body: the files change, and must change for nothing else."""
    writes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/mutate", {"query": ADD, "params": {"n": name}}),
        (
            "/load",
            {"data": json.dumps({"type": "Person", "data": {"name": name}}), "branch": "side"},
        ),
        (
            "/branches",
            {
                "name": drawn.choice(["scratch", "merge", "{branch}"]),
                "from": drawn.choice(["main", "side"]),
            },
        ),
        ("/branches/merge", {"source": "side"}),
        ("/queries/add", {"params": {"n": name}}),
    )
    return drawn.choice(writes)
