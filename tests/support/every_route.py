"""A request to each route of a server that is right in everything, so that a test may make one thing wrong."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import omnigraphdb
from omnigraphdb.surfaces.http.app import MCP, ROUTES_DESCRIBED
from omnigraphdb.surfaces.http.pages import START
from omnigraphdb.surfaces.http.routing import BodyKind, Route
from tests.support.raw_http import RawRequest
from tests.support.served import ADD, NAMES, SCHEMA, make_graph

ROUTES = (*ROUTES_DESCRIBED, MCP)
PAGES = ("/ui", "/ui/", "/" + "/".join(START))
TAGS = ("tagged", "tagged-too")
MERGED = ("side", "later", "third", "last")
SCHEMA_WRITES = ("applySchema", "applySchemaIfGraphCommit")
LINE = '{"type": "Person", "data": {"name": "Loaded %d"}}\n'
GROWN = SCHEMA + "node Port%d { code: String @key }\n"


@dataclass(frozen=True, kw_only=True)
class Aimed:
    """A request and the route that it is for; None for the files of the explorer."""

    route: Route | None
    request: RawRequest

    @property
    def operation(self) -> str:
        return "page" if self.route is None else self.route.operation

    @property
    def has_body(self) -> bool:
        return self.request.body != b""

    @property
    def writes(self) -> bool:
        """Whether the request changes the graph; a schema changes only where main is the only branch."""
        if self.route is None or self.operation in ("invokeQuery", *SCHEMA_WRITES):
            return False
        return self.route.writes or self.operation == MCP.operation

    def with_headers(self, headers: Mapping[str, str]) -> RawRequest:
        """The request with more headers, each in the place of those with its name."""
        pairs = {name.encode(): text.encode() for name, text in headers.items()}
        kept = tuple(pair for pair in self.request.headers if pair[0] not in pairs)
        return replace(self.request, headers=(*kept, *pairs.items()))

    def with_host(self, host: str) -> RawRequest:
        """The request to another host."""
        return replace(self.request, host=host.encode())

    def without_header(self, name: str) -> RawRequest:
        """The request without a header."""
        kept = tuple(pair for pair in self.request.headers if pair[0] != name.encode())
        return replace(self.request, headers=kept)


def make_busy_graph(place: Path, queries: Path) -> None:
    """A graph with branches to merge and to delete, and a stored mutation."""
    with omnigraphdb.open(make_graph(place)) as graph:
        for name in ("gone", "gone-too", *MERGED):
            graph.branch_create(name)
            graph.mutate(ADD, {"n": name}, branch=name)
        for name in TAGS:
            graph.tag(name)
    queries.mkdir()
    (queries / "people.gq").write_text(f"{NAMES}\n{ADD}")


def list_requests(head: str, *, prefixes: tuple[str, ...]) -> Iterator[Aimed]:
    """A request to each route, at each prefix, that its route answers; those that write do write."""
    for number, prefix in enumerate(prefixes):
        for route in ROUTES:
            if route.of_server and number > 0:
                continue
            yield _aim(route, "" if route.of_server else prefix, head, number)
    for path in PAGES:
        yield Aimed(route=None, request=RawRequest(method="GET", target=path.encode()))


def _aim(route: Route, prefix: str, head: str, number: int) -> Aimed:
    names = {
        "{branch}": ("gone", "gone-too")[number],
        "{tag}": TAGS[number],
        "{key}": "nothing",
        "{commit}": head,
        "{name}": "names" if route.operation == "invokeQuery" else "add",
    }
    path = route.path
    for name, text in names.items():
        path = path.replace(name, text)
    query = "&".join(f"{one.name}={_VALUES[one.name]}" for one in route.params if one.required)
    headers = []
    body = _spell_body(route, head, number)
    if body:
        media = "x-ndjson" if route.body_kind is BodyKind.LINES else "json"
        headers.append((b"content-type", f"application/{media}".encode()))
    if route.operation == MCP.operation:
        headers.append((b"accept", b"application/json, text/event-stream"))
    if route.conditional:
        headers.append((b"omnigraph-if-graph-commit", head.encode()))
    return Aimed(
        route=route,
        request=RawRequest(
            method=route.method,
            target=f"{prefix}{path}{'?' if query else ''}{query}".encode(),
            headers=tuple(headers),
            body=body,
        ),
    )


_VALUES: Mapping[str, str] = {
    "type": "Person",
    "id": "Ada",
    "entity": "node",
    "property": "photo",
    "from": "main",
    "to": "side",
    "base": "main",
    "head": "side",
}


def _spell_body(route: Route, head: str, number: int) -> bytes:
    if route.body_kind is BodyKind.NONE and route.operation != MCP.operation:
        return b""
    if route.body_kind is BodyKind.LINES:
        return (LINE % number).encode()
    return json.dumps(_find_body(route.operation, head, number)).encode()


def _find_body(operation: str, head: str, number: int) -> dict[str, Any]:
    add = {"query": ADD, "params": {"n": f"{operation} {number}"}}
    bodies: dict[str, dict[str, Any]] = {
        "query": {"query": NAMES},
        "explainQuery": {"query": NAMES},
        "read": {"query_source": NAMES},
        "lintText": {"text": NAMES},
        "completeText": {"text": "query q() { match { $p: ", "offset": 20},
        "exportGraph": {"branch": "main"},
        "streamBaseline": {"branch": "main"},
        "previewMerge": {"source": "side"},
        "planSchema": {"schema_source": GROWN % 7},
        "mcp": {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "mutate", "arguments": add},
        },
        "mutate": add,
        "mutateIfGraphCommit": add,
        "change": add,
        "load": {"data": LINE % number, "mode": "merge"},
        "ingest": {"data": LINE % number},
        "createBranch": {"name": f"made-{number}"},
        "createTag": {"name": f"tag-{number}"},
        "ensureIndices": {},
        "optimize": {},
        "cleanup": {"keep": 9},
        "repair": {},
        "mergeBranches": {"source": MERGED[number]},
        "mergeBranchesIfGraphCommit": {"source": MERGED[2 + number]},
        "applySchema": {"schema_source": GROWN % number},
        "applySchemaIfGraphCommit": {"schema_source": GROWN % (8 + number)},
        "invokeQuery": {},
        "invokeQueryIfGraphCommit": {"params": {"n": f"{operation} {number}"}},
    }
    return bodies[operation]
