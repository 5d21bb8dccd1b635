"""Every route over plain HTTP: right requests and wrong ones, with statuses, headers and bodies."""

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraphdb.surfaces.http.app import MCP, ROUTES_DESCRIBED
from omnigraphdb.surfaces.http.calls import CONDITION
from omnigraphdb.surfaces.http.replies import ARROW, NDJSON, PARQUET
from omnigraphdb.surfaces.http.routing import Route
from tests.golden.forms import Entries, render_rows, split_lines
from tests.golden.http_calls import Asked, list_requests
from tests.golden.server import serve_graph

ROUTES: Final[Mapping[str, Route]] = {one.operation: one for one in (*ROUTES_DESCRIBED, MCP)}
_CHANGING: Final = frozenset({"content-length", "date", "x-request-id"})
"""Headers whose values say how long the answer is, when it was given, and which one it is."""
_BODY_MAX: Final = 2_000
"""Characters of a request that are recorded."""
_LONG: Final = frozenset({"openapi", "metrics"})
"""Operations whose bodies other parts record, or that count what the server did."""


def record(folder: Path) -> Entries:
    """Record the answers; every route has an entry."""
    entries: Entries = {}
    words = ("--max-load-bytes", "100000", "--max-body-bytes", "20000")
    with serve_graph(folder, *words) as server, server.client() as http:
        calls = Exchange(http)
        for asked in list_requests(calls):
            assert asked.name not in entries, asked.name
            entries[asked.name] = calls.send(asked)
    missing = set(ROUTES) - {name.partition(",")[0] for name in entries}
    assert not missing, f"routes without an entry: {missing}"
    return entries


@dataclass
class Exchange:
    """Sends requests, and keeps the last answer of each name for those that follow."""

    http: httpx.Client
    answers: dict[str, Any] = field(default_factory=dict)
    """Bodies by operation."""

    def send(self, asked: Asked) -> dict[str, Any]:
        """Send a request; give it and its answer."""
        path = asked.path
        method = asked.method
        if asked.operation in ROUTES:
            route = ROUTES[asked.operation]
            method = asked.method or route.method
            path = route.path
            for name, text in asked.names.items():
                path = path.replace(f"{{{name}}}", quote(text, safe=""))
            if route.conditional and asked.head is not None:
                asked.headers.setdefault(CONDITION, asked.head)
        headers = dict(asked.headers)
        if asked.token is not None:
            headers["authorization"] = f"Bearer {asked.token}"
        is_json = isinstance(asked.body, dict)
        answer = self.http.request(
            method or "GET",
            path,
            params=asked.query,
            json=asked.body if is_json else None,
            content=None if is_json else asked.body,
            headers=headers,
        )
        body = _decode_body(answer, asked.operation)
        self.answers[asked.operation] = body
        sent = "a long body" if len(str(asked.body)) > _BODY_MAX else asked.body
        request = {"path": path, "query": asked.query, "body": sent, "headers": asked.headers}
        return {
            "request": {"method": method} | {name: one for name, one in request.items() if one},
            "status": answer.status_code,
            "headers": dict(sorted(_list_headers(answer))),
            "body": body,
        }


def _list_headers(answer: httpx.Response) -> Iterator[tuple[str, str]]:
    for name, text in answer.headers.items():
        yield name.lower(), "<value>" if name.lower() in _CHANGING else text


def _decode_body(answer: httpx.Response, operation: str) -> Any:
    media = answer.headers.get("content-type", "").partition(";")[0]
    if operation in _LONG and answer.status_code == httpx.codes.OK:
        return "recorded elsewhere"
    match media:
        case _ if not answer.content:
            return None
        case "application/json":
            return answer.json()
        case _ if media == NDJSON:
            return {"lines": [json.loads(line) for line in answer.text.splitlines()]}
        case _ if media == ARROW:
            return render_rows(pa.ipc.open_stream(answer.content).read_all())
        case _ if media == PARQUET:
            return render_rows(pq.read_table(io.BytesIO(answer.content)))
        case "text/html" | "text/javascript" | "text/css":
            return "a file of the explorer"
    return split_lines(answer.text)
