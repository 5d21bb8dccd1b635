"""Bad input: the documented status and one JSON body, nothing written, no traceback, no path and no token in a message."""

import gzip
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from omnigraphdb.surfaces.http.routes import ROUTES
from omnigraphdb.surfaces.http.routing import BodyKind, Route
from tests.support.refused_bodies import MAINTAINING, REFUSED, change_body
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving
from tests.support.settled import digest

TOKEN = "a-secret-of-thirty-two-characters"
WRITES = [one for one in ROUTES if one.writes]
ROUNDS = 25


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bad")
    make_graph(made / "g")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """A graph that everyone may write to."""
    words = (str(folder / "g"), "--unauthenticated", "--max-load-bytes", "100000")
    with serving(*words, log=folder / "log") as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture(autouse=True)
def unchanged(folder: Path) -> Iterator[None]:
    """Every test of this file leaves the graph as it was, byte by byte."""
    before = digest(folder / "g")
    yield
    assert digest(folder / "g") == before


def require_refusal(found: httpx.Response, folder: Path, *statuses: int) -> None:
    """A refusal is one JSON document of the caller's fault, and tells nothing of the inside."""
    assert 400 <= found.status_code < 500, (found.status_code, found.text)
    assert not statuses or found.status_code in statuses, (found.status_code, found.text)
    assert found.headers["content-type"] == "application/json"
    body = found.json()
    assert body["error"]
    assert body["kind"]
    assert body["request_id"] == found.headers["x-request-id"]
    for inside in ("Traceback", str(folder), TOKEN, 'File "'):
        assert inside not in found.text


def path_of(route: Route) -> str:
    return route.path.replace("{branch}", "none").replace("{name}", "none")


@pytest.mark.parametrize(
    "route",
    [
        route
        for route in WRITES
        if route.body_kind in (BodyKind.JSON, BodyKind.OPTIONAL_JSON)
        and route.operation not in MAINTAINING
    ],
    ids=lambda one: one.operation,
)
def test_fuzzed_bodies_are_refused(http: httpx.Client, folder: Path, route: Route) -> None:
    drawn, body = random.Random(route.operation), REFUSED[route.operation]
    headers = {"content-type": "application/json"}
    if route.conditional:
        headers["omnigraph-if-graph-commit"] = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    for _ in range(ROUNDS):
        sent = change_body(drawn, body)
        require_refusal(http.post(path_of(route), content=sent, headers=headers), folder)


def test_fuzzed_lines_are_refused(http: httpx.Client, folder: Path) -> None:
    drawn = random.Random(5)
    line = b'{"type": "Person", "data": {"name": "Nobody", "age": "not a number"}}\n'
    for number in range(ROUNDS * 2):
        text = bytearray(line * 3)
        for _ in range(number % 5):
            text[drawn.randrange(len(text))] = drawn.randrange(256)
        found = http.post(
            "/load/ndjson", content=bytes(text), headers={"content-type": "application/x-ndjson"}
        )
        require_refusal(found, folder)


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"{}\n", {"content-type": "text/csv"}, 415),
        (b"{}\n", {"content-type": "application/x-ndjson; charset=utf-16"}, 415),
        (b"{}\n", {"content-encoding": "br"}, 415),
        (b"{}\n", {"content-encoding": "gzip"}, 400),
        (gzip.compress(b"x" * 10)[:-4], {"content-encoding": "gzip"}, 400),
        (gzip.compress(b"x") + b"more", {"content-encoding": "gzip"}, 400),
        (gzip.compress(b"\n" * 50_000_000), {"content-encoding": "gzip"}, 413),
        (gzip.compress(gzip.compress(b"{}\n" * 100)), {"content-encoding": "gzip"}, 400),
        (b"x" * 100_001, {}, 413),
        (b"\xff\xfe{\x00}\x00", {}, 400),
        (b"\0" * 1000, {}, 400),
    ],
    ids=range(11),
)
def test_encodings_and_bombs_are_refused(
    http: httpx.Client, folder: Path, content: bytes, headers: dict[str, str], status: int
) -> None:
    sent = {"content-type": "application/x-ndjson"} | headers
    require_refusal(http.post("/load/ndjson", content=content, headers=sent), folder, status)


TRAVERSALS = [
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "..%2Fg", "%2e%2e", "%00", "a%00b", "%2Fetc%2Fpasswd", "..%5c..%5cg",
    "%c0%ae%c0%ae", "%ff%fe", "g%2F..%2F..", "~root", "$(id)", "%0d%0aset-cookie:%20a=b", "__manifest", "a" * 3000,
]  # fmt: skip


@pytest.mark.parametrize("name", TRAVERSALS, ids=range(len(TRAVERSALS)))
def test_names_lead_nowhere_else(http: httpx.Client, folder: Path, name: str) -> None:
    for method, path in (
        ("GET", f"/graphs/{name}/snapshot"),
        ("DELETE", f"/branches/{name}"),
        ("POST", f"/queries/{name}"),
        ("GET", f"/commits/{name}"),
        ("GET", f"/commits/{name}/changes"),
        ("GET", f"/snapshot?branch={name}"),
        ("GET", f"/diff?from={name}&to=main"),
        ("POST", f"/load/ndjson?branch={name}"),
    ):
        found = http.send(httpx.Request(method, f"{http.base_url}{path}"))
        require_refusal(found, folder, 400, 404, 405)
        assert "set-cookie" not in found.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"omnigraph-if-graph-commit": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
        {"idempotency-key": ""},
        {"idempotency-key": "x" * 256},
        {"idempotency-key": "a\ttab"},
        {"content-type": "application/json; charset=utf-7"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-encoding": "deflate"},
    ],
    ids=lambda one: str(next(iter(one.items())))[:40],
)
def test_bad_headers_are_refused(http: httpx.Client, folder: Path, headers: dict[str, str]) -> None:
    body = {"query": 'query q() { insert Person { name: "Nobody" } }'}
    found = http.post(
        "/mutate",
        content=json.dumps(body),
        headers={"content-type": "application/json"} | headers,
    )
    require_refusal(found, folder, 400, 415)


# ---- connections


def talk(server: ServerProcess, sent: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes as they are, and read what comes until the server closes or waits for more."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=0.3) as connection:
        connection.sendall(sent)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        found = b""
        try:
            while chunk := connection.recv(65536):
                found += chunk
        except TimeoutError:
            pass
        return found


INSERT = b'{"query": "query q() { insert Person { name: \\"Nobody\\" } }"}'
HEAD = b"POST /mutate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIES = {
    "fewer bytes than announced": HEAD + b"content-length: %d\r\n\r\n" % (len(INSERT) + 5) + INSERT,
    "a chunk shorter than it says": HEAD + b"transfer-encoding: chunked\r\n\r\nff\r\n" + INSERT,
    "no last chunk": HEAD + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(INSERT), INSERT),
    "a length that is no number": HEAD + b"content-length: ten\r\n\r\n" + INSERT,
    "a length and chunks": HEAD
    + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(INSERT), INSERT),
    "a header without an end": HEAD + b"x-endless: " + b"a" * 100_000,
    "headers without an end": HEAD + b"".join(b"x-%d: 1\r\n" % n for n in range(5000)),
    "a NUL in a header": HEAD + b"x-nul: a\0b\r\ncontent-length: %d\r\n\r\n%s" % (len(INSERT), INSERT),
    "a method of nobody": HEAD.replace(b"POST", b"INSERT") + b"content-length: 0\r\n\r\n",
    "an absolute path of elsewhere": HEAD.replace(b"/mutate", b"http://evil/mutate/x")
    + b"content-length: 0\r\n\r\n",
    "nothing": b"",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}  # fmt: skip


@pytest.mark.parametrize("half_close", [False, True], ids=["open", "half-closed"])
@pytest.mark.parametrize("lie", LIES)
def test_requests_that_lie_about_themselves_do_nothing(
    server: ServerProcess, http: httpx.Client, lie: str, half_close: bool
) -> None:
    answer = talk(server, LIES[lie], half_close=half_close)
    if answer:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split(b" ")[1][:1] == b"4", head
        assert json.loads(body)["error"]
    assert http.get("/healthz").status_code == 200
    assert "omnigraph_writes_inflight{" not in http.get("/metrics").text


# ---- who asks


@pytest.mark.parametrize(
    "authorization",
    [
        None, "", "Bearer", "bearer", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}", "Bearer " + "x" * 5000, "Bearer ümlaut".encode("latin-1").decode("latin-1"),
        f"Bearer {TOKEN} {TOKEN}",
    ],
    ids=range(12),
)  # fmt: skip
def test_tokens_that_are_wrong_or_gone_open_nothing(
    locked: ServerProcess, folder: Path, authorization: str | None
) -> None:
    headers: dict[str, Any] = {
        "x-actor-id": "ada",
        "x-forwarded-user": "ada",
        "x-remote-user": "ada",
    }
    if authorization is not None:
        headers["authorization"] = authorization.encode("latin-1")
    with locked.client() as http:
        for method, path in (("GET", "/snapshot"), ("POST", "/mutate"), ("GET", "/none")):
            found = http.request(method, path, headers=headers)
            require_refusal(found, folder, 401)
            assert found.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in locked.log.read_text()


@pytest.fixture(scope="module")
def locked(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The same graph behind a token."""
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"ada": TOKEN})}
    log = tmp_path_factory.mktemp("locked") / "log"
    with serving(str(folder / "g"), "--read-only", log=log, environment=environment) as found:
        yield found


def test_every_write_route_is_fuzzed() -> None:
    plain = {
        one.operation for one in WRITES if one.body_kind not in (BodyKind.NONE, BodyKind.LINES)
    }
    assert plain - MAINTAINING == REFUSED.keys()


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST", "DELETE"])
def test_a_target_that_is_no_path_is_no_route(server: ServerProcess, method: str) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    lines = f"{method} * HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(lines.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "not_found"


@pytest.mark.parametrize("length", [201, 260, 1000, 5000])
def test_a_branch_name_that_no_file_can_have_is_no_branch(
    server: ServerProcess, length: int
) -> None:
    name = "x" * length
    with server.client(TOKEN) as client:
        answers = [
            client.get("/snapshot", params={"branch": name}),
            client.post("/query", json={"query": NAMES, "branch": name}),
            client.post("/mutate", json={"query": ADD, "params": {"n": "Zoe"}, "branch": name}),
            client.delete(f"/branches/{name}"),
            client.post("/branches", json={"name": "new", "from": name}),
            client.post("/branches/merge", json={"source": name}),
        ]
    assert [one.json()["code"] for one in answers] == ["not_found"] * len(answers)
