"""Who is let in, in which order, and how a request is refused: one body for every failure, nothing of the framework."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

import omnigraphdb
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.app import Application
from omnigraphdb.surfaces.http.gate import Gate
from omnigraphdb.surfaces.http.served import Served, ServedGraph
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving, start_server

TOKENS = {"reader": "r-token", "writer": "w-token"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("gates")
    make_graph(made / "g")
    make_graph(made / "h")
    (made / "queries").mkdir()
    (made / "queries" / "names.gq").write_text(NAMES)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """A graph behind tokens; no policy, so that their actors may only read."""
    environment = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}
    words = (str(folder / "g"), "--queries", str(folder / "queries"), "--max-body-bytes", "2000")
    with serving(*words, log=folder / "log", environment=environment) as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client("r-token") as client:
        yield client


@pytest.fixture
def stranger(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


# ---- tokens


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (None, "missing bearer token"),
        ("Basic r-token", "missing bearer token"),
        ("Bearer", "missing bearer token"),
        ("Bearer wrong", "invalid bearer token"),
        ("Bearer r-token-and-more", "invalid bearer token"),
        ("Bearer R-TOKEN", "invalid bearer token"),
    ],
)
def test_a_request_without_a_known_token_is_401(
    stranger: httpx.Client, header: str | None, words: str
) -> None:
    headers = {} if header is None else {"authorization": header}
    for path in ("/snapshot", "/graphs/none/snapshot", "/nope", "/graphs/%00/snapshot"):
        found = stranger.get(path, headers=headers)
        assert found.status_code == 401
        assert found.headers["www-authenticate"] == "Bearer"
        assert found.json()["error"] == words
        assert found.json()["code"] == "unauthorized"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_open_routes_need_no_token(stranger: httpx.Client, path: str) -> None:
    assert stranger.get(path).status_code == 200


def test_a_server_that_drains_is_not_ready(tmp_path: Path) -> None:
    graph = omnigraphdb.open(make_graph(tmp_path / "g"))
    served = Served(
        graphs={"default": ServedGraph(id="default", graph=graph)},
        default="default",
        gate=Gate(has_tokens=False),
        tokens=None,
        admission=Admission(16, 1 << 30),
    )
    app = Application(served)

    async def ask() -> list[httpx.Response]:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as http:
            found = [await http.get("/readyz")]
            served.draining = True
            return [*found, await http.get("/readyz", headers={"x-request-id": "mine"})]

    ready, draining = anyio.run(ask)
    app.close()
    graph.close()
    counts = {"graphs_ready": 1, "graphs_quarantined": 0}
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"} | counts)
    assert draining.status_code == 503
    assert draining.json().items() >= ({"status": "draining", "kind": "not_ready"} | counts).items()
    assert draining.headers["x-request-id"] == "mine"
    assert ready.headers["x-request-id"]


def test_a_server_whose_folder_is_gone_is_not_ready_until_it_is_back(tmp_path: Path) -> None:
    place = make_graph(tmp_path / "g")
    with (
        serving(str(place), "--unauthenticated", log=tmp_path / "log") as server,
        server.client() as http,
    ):
        assert http.get("/readyz").status_code == 200
        place.rename(tmp_path / "away")
        gone = http.get("/readyz")
        assert gone.status_code == 503
        assert gone.json()["kind"] == "not_ready"
        assert gone.json()["graphs_ready"] == 0
        assert str(tmp_path) not in gone.text
        assert http.get("/healthz").status_code == 200
        (tmp_path / "away").rename(place)
        assert http.get("/readyz").status_code == 200
        assert http.post("/query", json={"query": NAMES}).status_code == 200


def test_tokens_without_a_policy_may_only_read(http: httpx.Client) -> None:
    assert http.get("/snapshot").status_code == 200
    assert http.post("/query", json={"query": NAMES}).status_code == 200
    assert http.get("/queries").json()["queries"] == []
    denied = http.post("/mutate", json={"query": ADD, "params": {"n": "X"}})
    assert denied.status_code == 403
    assert denied.json()["denied"] == {"action": "change"}
    assert denied.json()["outcome"]["action"] == "fix"
    assert http.post("/export").status_code == 403
    assert http.get("/graphs").status_code == 403
    known, unknown = http.post("/queries/names"), http.post("/queries/x")
    assert known.status_code == unknown.status_code == 404
    assert known.json()["error"] == unknown.json()["error"] == "stored query not found"


def test_no_header_and_no_field_changes_the_actor(
    server: ServerProcess, http: httpx.Client
) -> None:
    headers = {"x-actor-id": "writer", "x-forwarded-user": "writer", "x-request-id": "claim-1"}
    body = {"query": ADD, "params": {"n": "X"}}
    assert http.post("/mutate", json=body, headers=headers).status_code == 403
    assert http.post("/mutate", json=body | {"actor": "writer"}).status_code == 403
    logged = [line for line in server.log.read_text().splitlines() if "claim-1" in line]
    assert "actor='reader'" in logged[0]


def test_no_token_is_in_the_log(server: ServerProcess, http: httpx.Client) -> None:
    http.get("/snapshot", headers={"authorization": "Bearer wrong-secret"})
    log = server.log.read_text()
    assert "source='json'" in log
    assert "state='DefaultDeny'" in log
    for secret in ("r-token", "w-token", "wrong-secret"):
        assert secret not in log


def test_authentication_comes_before_the_size_of_the_body(
    stranger: httpx.Client, http: httpx.Client
) -> None:
    body = {"query": "x" * 3000}
    assert stranger.post("/query", json=body).status_code == 401
    assert http.post("/mutate", json=body).status_code == 403
    assert http.post("/query", json=body).status_code == 413


# ---- one form of refusal


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/", 404),
        ("GET", "/snapshot/", 404),
        ("GET", "/graphs/", 404),
        ("GET", "/graphs/other/snapshot", 404),
        ("GET", "/graphs/metrics/snapshot", 400),
        ("GET", "/graphs/a%20b/snapshot", 400),
        ("GET", "/graphs/%2E%2E%2Fg/snapshot", 400),
        ("GET", "/%ff", 400),
        ("PUT", "/snapshot", 405),
        ("GET", "/query", 405),
        ("OPTIONS", "/snapshot", 405),
        ("GET", "/snapshot?branch=none", 404),
        ("GET", "/snapshot?brnch=main", 400),
        ("GET", "/snapshot?branch=a&branch=b", 400),
        ("GET", "/snapshot?branch=%ff", 400),
        ("GET", "/snapshot?at=99999", 404),
        ("GET", "/commits?limit=0", 400),
        ("GET", "/commits?limit=x", 400),
        ("GET", "/commits?until=yesterday", 400),
        ("GET", "/commits?page_token=x", 400),
        ("GET", "/diff?from=main", 400),
        ("GET", "/blob", 400),
        ("DELETE", "/healthz", 405),
    ],
)
def test_every_refusal_is_the_same_document(
    http: httpx.Client, method: str, path: str, status: int
) -> None:
    found = http.send(httpx.Request(method, f"{http.base_url}{path}", headers=http.headers))
    assert found.status_code == status, found.text
    assert found.headers["content-type"] == "application/json"
    body = found.json()
    assert body["error"]
    assert body["kind"]
    assert body["request_id"] == found.headers["x-request-id"]
    assert "detail" not in body
    assert ("allow" in found.headers) == (status == 405)


def test_head_is_not_answered_by_get(http: httpx.Client) -> None:
    found = http.head("/snapshot")
    assert found.status_code == 405
    assert found.headers["allow"] == "GET"


JSON = {"content-type": "application/json"}
BAD_BODIES: list[tuple[bytes, dict[str, str], int]] = [
    (b"", JSON, 400),
    (b"{", JSON, 400),
    (b"[]", JSON, 400),
    (b"null", JSON, 400),
    (b"{}", JSON, 400),
    (b'{"query": 1}', JSON, 400),
    (b'{"query": null}', JSON, 400),
    (b'{"query": "q", "params": []}', JSON, 400),
    (b'{"query": "q", "name": {}}', JSON, 400),
    (b'{"qury": "q"}', JSON, 400),
    (b'{"query": "a", "query": "b"}', JSON, 400),
    (b'{"query": "q", "params": {"x": NaN}}', JSON, 400),
    (b'{"query": "\xff"}', JSON, 400),
    ('{"query": "q"}'.encode("utf-16"), JSON, 400),
    (b'{"query": "\\ud800"}', JSON, 400),
    (b'{"query": "q", "branch": "\\u0000"}', JSON, 404),
    (b"[" * 1900, JSON, 400),
    (b'{"query": ' + b"9" * 1900 + b"}", JSON, 400),
    (b"query=1", {"content-type": "application/x-www-form-urlencoded"}, 415),
    (b'{"query": "q"}', {"content-type": "application/json; charset=latin-1"}, 415),
    (b'{"query": "q"}', JSON | {"content-encoding": "gzip"}, 415),
    (b'{"query": "' + b"x" * 2000 + b'"}', JSON, 413),
]


@pytest.mark.parametrize(("body", "headers", "status"), BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_bad_body_is_refused(
    http: httpx.Client, body: bytes, headers: dict[str, str], status: int
) -> None:
    found = http.post("/query", content=body, headers=headers)
    assert found.status_code == status, found.text
    assert found.json()["error"]


def test_an_unknown_field_names_the_one_that_was_meant(http: httpx.Client) -> None:
    assert "'query'" in http.post("/query", json={"qury": "q"}).json()["error"]


def test_a_body_without_a_length_is_bounded_too(http: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    found = http.post("/query", content=chunks(), headers=JSON)
    assert found.status_code == 413
    limit = found.json()["resource_limit"]
    assert (limit["resource"], limit["limit"]) == ("request_bytes", 2000)


def test_the_request_id_is_echoed_or_made(http: httpx.Client) -> None:
    assert (
        http.get("/snapshot", headers={"x-request-id": "mine-7"}).headers["x-request-id"]
        == "mine-7"
    )
    odd = http.get("/snapshot", headers={"x-request-id": "x" * 500}).headers["x-request-id"]
    assert len(odd) == 26


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /snapshot HTTP/9.9\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nZZ\r\n",
        b"POST /query HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST /query HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    ],
)
def test_what_is_no_http_is_refused_in_our_words(server: ServerProcess, sent: bytes) -> None:
    answer = talk(server, sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0] or b" 401 " in head.splitlines()[0]
    assert json.loads(body)["error"]


def test_a_half_sent_request_does_nothing(server: ServerProcess, http: httpx.Client) -> None:
    sent = b"POST /mutate HTTP/1.1\r\nhost: x\r\nauthorization: Bearer w-token\r\ncontent-length: 500\r\n\r\n{"
    talk(server, sent, wait=False)
    assert http.get("/healthz").status_code == 200


def talk(server: ServerProcess, sent: bytes, *, wait: bool = True) -> bytes:
    """Send bytes as they are, and read until the server closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        if not wait:
            return b""
        found = b""
        while b"}" not in found:
            chunk = connection.recv(65536)
            if not chunk:
                break
            found += chunk
        return found


# ---- boot


def boot(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start a server that refuses to start."""
    import os

    kept = {name: text for name, text in os.environ.items() if not name.startswith("OMNIGRAPH_")}
    return subprocess.run(
        [sys.executable, "-m", "omnigraphdb", "serve", "--bind", "127.0.0.1:0", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=kept | environment,
    )


@pytest.mark.parametrize(
    ("words", "environment", "reason"),
    [
        ((), {}, "--unauthenticated"),
        ((), {"OMNIGRAPH_UNAUTHENTICATED": "0"}, "--unauthenticated"),
        ((), {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": "[]"}, "no object of tokens"),
        (
            (),
            {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"a": "s3cret", "b": "s3cret"}'},
            "share one",
        ),
        ((), {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"a": "s3cret", "a": "t"}'}, "two tokens"),
        ((), {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"a": " "}'}, "blank"),
        ((), {"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": "/nowhere/tokens"}, "cannot be read"),
        (
            ("--cors-origin", "*"),
            {"OMNIGRAPH_SERVER_BEARER_TOKEN": "s3cret"},
            "every origin",
        ),
        (("--policy", "p.yaml"), {"OMNIGRAPH_UNAUTHENTICATED": "1"}, "no tokens"),
        (("--server-policy", "p.yaml"), {"OMNIGRAPH_UNAUTHENTICATED": "1"}, "no tokens"),
        (("--policy", "p.yaml"), {"OMNIGRAPH_SERVER_BEARER_TOKEN": "s3cret"}, "cannot be read"),
        (("--queries", "/nowhere"), {"OMNIGRAPH_UNAUTHENTICATED": "1"}, "no folder"),
        (("--graph-id", "a b"), {"OMNIGRAPH_UNAUTHENTICATED": "1"}, "no id of a graph"),
    ],
)
def test_a_server_that_should_not_run_does_not_start(
    folder: Path, words: tuple[str, ...], environment: dict[str, str], reason: str
) -> None:
    done = boot(str(folder / "g"), *words, **environment)
    assert done.returncode in (1, 2)
    assert reason in done.stderr
    assert done.stdout == ""
    assert "s3cret" not in done.stderr
    assert "Traceback" not in done.stderr


def test_several_graphs_have_nested_routes_only(folder: Path) -> None:
    words = (f"one={folder / 'g'}", f"two={folder / 'h'}", f"bad={folder / 'none'}")
    environment = {"OMNIGRAPH_UNAUTHENTICATED": "true"}
    with serving(*words, log=folder / "log2", environment=environment) as server:
        with server.client() as http:
            assert http.get("/graphs/one/snapshot").status_code == 200
            assert http.get("/graphs/two/snapshot").status_code == 200
            assert http.get("/graphs/bad/snapshot").status_code == 404
            assert http.get("/snapshot").status_code == 404
            ready = http.get("/readyz").json()
            assert (ready["graphs_ready"], ready["graphs_quarantined"]) == (2, 1)
            paths = http.get("/openapi.json").json()["paths"]
            assert "/query" not in paths
            assert "/graphs/{graph_id}/query" in paths
        assert server.stop() == 0


def test_a_read_only_server_refuses_writes(folder: Path) -> None:
    words = (
        str(folder / "g"),
        "--read-only",
        "--unauthenticated",
        "--cors-origin",
        "https://a.example",
    )
    server = start_server(*words, log=folder / "log3")
    with server.client() as http:
        assert http.post("/query", json={"query": NAMES}).status_code == 200
        body: dict[str, Any] = {"query": ADD, "params": {"n": "X"}}
        assert http.post("/mutate", json=body).status_code == 403
        assert http.post("/branches", json={"name": "b"}).status_code == 403
        page = http.get("/snapshot", headers={"origin": "https://a.example"})
        assert page.headers["access-control-allow-origin"] == "https://a.example"
        other = http.get("/snapshot", headers={"origin": "https://b.example"})
        assert "access-control-allow-origin" not in other.headers
        asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
        assert http.options("/query", headers=asked).status_code == 204
    assert server.stop() == 0
    assert server.process.stdout is not None
    server.process.stdout.close()
