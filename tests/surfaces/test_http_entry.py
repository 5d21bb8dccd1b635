"""Who is let in at all: every route, by a browser's page, by another name of this machine, and without a word about the body."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from omnigraphdb.policy import PolicyAction
from omnigraphdb.surfaces.http.cors import ANY
from omnigraphdb.surfaces.http.entry import READING, EntryRules, check_entry
from omnigraphdb.surfaces.http.failures import status_of
from omnigraphdb.surfaces.http.requests import Headers
from tests.support.every_route import Aimed, list_requests, make_busy_graph
from tests.support.raw_http import RawAnswer, RawRequest, send
from tests.support.refused_bodies import MAINTAINING
from tests.support.served import ServerProcess, serving
from tests.support.settled import digest

PREFIXES = ("", "/graphs/default")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A server, the folder of its graph, and a right request to each of its routes."""

    server: ServerProcess
    folder: Path
    requests: tuple[Aimed, ...]
    is_open: bool
    """Whether everyone may do everything."""

    def send(self, request: RawRequest) -> RawAnswer:
        return send(self.server.url, request)


TOKENS = {"reader": "r-token", "stranger": "s-token"}
POLICY = """
version: 1
groups: { some: [reader] }
rules: [{ id: reads, allow: { actors: { group: some }, actions: [read], branch_scope: any } }]
"""


@pytest.fixture(scope="module", params=["open", "tokens"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A server that everyone may write to, and one whose actors may only read."""
    with serving_all(tmp_path_factory.mktemp("entry"), request.param) as place:
        yield place


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server whose policy names one of the two actors."""
    with serving_all(tmp_path_factory.mktemp("ruled"), "policy") as place:
        yield place


@contextmanager
def serving_all(made: Path, way: str) -> Iterator[Place]:
    """A server for a graph that has something for each route."""
    make_busy_graph(made / "g", made / "queries")
    words = [str(made / "g"), "--queries", str(made / "queries")]
    environment: dict[str, str] = {}
    if way == "open":
        words.append("--unauthenticated")
    else:
        environment["OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"] = json.dumps(TOKENS)
    if way == "policy":
        (made / "policy.yaml").write_text(POLICY)
        environment["OMNIGRAPH_POLICY_FILE"] = str(made / "policy.yaml")
    with serving(*words, log=made / "log", environment=environment) as server:
        with server.client("r-token") as http:
            head = http.get("/commits?limit=1").json()["commits"][0]["graph_commit_id"]
        requests = tuple(list_requests(head, prefixes=PREFIXES))
        yield Place(server=server, folder=made / "g", requests=requests, is_open=way == "open")


PAGES_ELSEWHERE: list[dict[str, str]] = [
    {"origin": "http://evil.example"},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
]


@pytest.mark.parametrize("host", ["evil.example:8080", "10.0.0.1", "localhost.evil.example"])
def test_no_route_answers_for_another_host(place: Place, host: str) -> None:
    before = digest(place.folder)
    for aimed in place.requests:
        answer = place.send(aimed.with_host(host))
        assert answer.status == 403, (aimed, answer)
        if aimed.request.method != "HEAD":
            assert answer.json()["kind"] == "host_refused"
    assert digest(place.folder) == before


@pytest.mark.parametrize("headers", PAGES_ELSEWHERE, ids=str)
def test_no_route_takes_a_write_of_another_page(place: Place, headers: dict[str, str]) -> None:
    before = digest(place.folder)
    for aimed in place.requests:
        if aimed.request.method in READING:
            continue
        answer = place.send(aimed.with_headers(headers))
        assert (answer.status, answer.json()["kind"]) == (403, "origin_refused"), (aimed, answer)
    assert digest(place.folder) == before


def test_a_page_elsewhere_may_ask_but_not_see(place: Place) -> None:
    """A GET of another page is answered, and no header lets the page read the answer."""
    for aimed in place.requests:
        if aimed.request.method in READING:
            answer = place.send(aimed.with_headers(PAGES_ELSEWHERE[-1]))
            assert answer.status < 500
            assert "access-control-allow-origin" not in answer.headers


def test_no_route_reads_a_body_of_no_type(place: Place) -> None:
    before = digest(place.folder)
    for aimed in place.requests:
        if not aimed.has_body:
            continue
        for request in (
            aimed.without_header("content-type"),
            aimed.with_headers({"content-type": ""}),
        ):
            answer = place.send(request)
            assert (answer.status, answer.json()["kind"]) == (415, "unsupported_media"), answer
    assert digest(place.folder) == before


def test_without_a_token_no_route_of_a_graph_answers(place: Place) -> None:
    if place.is_open:
        return
    before = digest(place.folder)
    for aimed in place.requests:
        answer = place.send(aimed.request)
        expected = {401} if asks_token(aimed) else {200, 308, 404}
        assert answer.status in expected, (aimed, answer)
    assert digest(place.folder) == before


def asks_token(aimed: Aimed) -> bool:
    if aimed.route is None:
        return aimed.request.target.endswith(b"start.json")
    return aimed.route.action is not None or aimed.operation in ("mcp", "metrics")


def test_a_token_without_the_right_does_nothing(place: Place) -> None:
    if place.is_open:
        return
    before = digest(place.folder)
    for aimed in place.requests:
        answer = place.send(aimed.with_headers({"authorization": "Bearer r-token"}))
        action = None if aimed.route is None else aimed.route.action
        if aimed.operation == "mcp":
            assert "error" in answer.json(), answer
        elif action is PolicyAction.INVOKE_QUERY:
            assert (answer.status, answer.json()["error"]) == (404, "stored query not found")
        elif action not in (None, PolicyAction.READ):
            assert (answer.status, answer.json()["kind"]) == (403, "forbidden"), (aimed, answer)
    assert digest(place.folder) == before


def test_an_actor_that_no_rule_names_learns_nothing(ruled: Place) -> None:
    """Every route that asks for a right refuses, also those that read; the others say nothing of the graph."""
    before = digest(ruled.folder)
    for aimed in ruled.requests:
        answer = ruled.send(aimed.with_headers({"authorization": "Bearer s-token"}))
        action = None if aimed.route is None else aimed.route.action
        if action is None:
            assert not any(branch in answer.body for branch in (b"gone-too", b'"later"')), answer
        elif action is PolicyAction.INVOKE_QUERY:
            assert (answer.status, answer.json()["error"]) == (404, "stored query not found")
        else:
            assert answer.status == 403, (aimed, answer)
            if aimed.request.method != "HEAD":
                assert answer.json()["denied"]["action"] == action, (aimed, answer)
    assert digest(ruled.folder) == before


def test_the_same_requests_do_write_when_they_are_let_in(place: Place) -> None:
    """None of the refusals above is due to a request that could not have been done."""
    if not place.is_open:
        return
    with place.server.client() as http:
        for aimed in place.requests:
            before = digest(place.folder)
            headers = {"sec-fetch-site": "same-origin"}
            if aimed.route is not None and aimed.route.conditional:
                head = http.get("/commits?limit=1").json()["commits"][0]["graph_commit_id"]
                headers["omnigraph-if-graph-commit"] = head
            answer = place.send(aimed.with_headers(headers))
            assert answer.status < 500, (aimed, answer)
            if aimed.writes:
                assert answer.status == 200, (aimed, answer)
                is_maintained = aimed.route is not None and aimed.route.operation in MAINTAINING
                # Maintenance of a graph in order has nothing to do.
                assert is_maintained or digest(place.folder) != before, (aimed, answer)


# ---- the rules by themselves

OWN = {"host": "127.0.0.1:8080"}
OPEN, SHUT = EntryRules(loopback=False), EntryRules()
NAMED = EntryRules(hosts=frozenset({"graphs.example"}), origins=frozenset({"https://a.example"}))


def judge(rules: EntryRules, method: str, pairs: dict[str, str] | list[tuple[str, str]]) -> int:
    """The status of a refusal, 0 for a request that is let in."""
    listed = pairs.items() if isinstance(pairs, dict) else pairs
    headers = Headers([(name.encode(), text.encode()) for name, text in listed])
    try:
        check_entry(rules, method, headers)
    except Exception as error:
        return status_of(error)
    return 0


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 0),
        ("127.9.9.9:1", 0),
        ("[::1]:8080", 0),
        ("localhost", 0),
        ("LocalHost:65535", 0),
        ("", 403),
        ("evil.example", 403),
        ("localhost.", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil@127.0.0.1", 403),
        ("127.0.0.1, evil.example", 403),
        ("127.0.0.1:80:80", 403),
        ("[::1", 403),
        ("::1", 403),
        ("0.0.0.0", 403),
        ("2130706433", 403),
        ("10.0.0.1", 403),
        ("graphs.example", 403),
    ],
)
def test_hosts_of_this_machine(host: str, status: int) -> None:
    for method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS"):
        assert judge(SHUT, method, {"host": host}) == status
        assert judge(OPEN, method, {"host": host}) == 0


def test_a_host_that_is_allowed_by_name() -> None:
    assert judge(NAMED, "POST", {"host": "Graphs.Example:443"}) == 0
    assert judge(NAMED, "POST", {"host": "x.graphs.example"}) == 403


@pytest.mark.parametrize("rules", [OPEN, SHUT])
@pytest.mark.parametrize("name", ["host", "origin", "sec-fetch-site", "content-type"])
def test_headers_that_decide_come_once(rules: EntryRules, name: str) -> None:
    own = OWN | {"origin": "http://127.0.0.1:8080", "sec-fetch-site": "none", "content-type": "a/b"}
    assert judge(rules, "POST", own) == 0
    assert judge(rules, "POST", [*own.items(), (name, own[name])]) == 400
    assert judge(rules, "GET", {}) == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 0),
        ({"origin": "http://127.0.0.1:8080"}, 0),
        ({"origin": "http://127.0.0.1:8081"}, 403),
        ({"origin": "http://127.0.0.1"}, 403),
        ({"origin": "http://localhost:8080"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "chrome-extension://127.0.0.1:8080"}, 403),
        ({"origin": "https://a.example"}, 0),
        ({"origin": "https://a.example:443"}, 403),
        ({"origin": "https://a.example", "sec-fetch-site": "cross-site"}, 0),
        ({"sec-fetch-site": "same-origin"}, 0),
        ({"sec-fetch-site": "none"}, 0),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": ""}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8080"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8080"}, 0),
    ],
)
def test_origins(headers: dict[str, str], status: int) -> None:
    for method in ("POST", "DELETE", "PUT", "OPTIONS"):
        assert judge(NAMED, method, OWN | headers) == status
    for method in ("GET", "HEAD"):
        assert judge(NAMED, method, OWN | headers) == 0


def test_ports_that_are_not_spelled_are_those_of_the_scheme() -> None:
    for origin, host, status in (
        ("https://a.example", "a.example", 0),
        ("https://a.example", "a.example:443", 0),
        ("https://A.example:443", "a.example", 0),
        ("http://a.example", "a.example:443", 403),
        ("http://a.example", "a.example:80", 0),
    ):
        assert judge(OPEN, "POST", {"host": host, "origin": origin}) == status


def test_every_origin_may_be_let_in() -> None:
    anyone = EntryRules(origins=frozenset({ANY}))
    headers = OWN | {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
    assert judge(anyone, "POST", headers) == 0
    assert judge(anyone, "POST", OWN | {"sec-fetch-site": "cross-site"}) == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": "5"}, 415),
        ({"transfer-encoding": "chunked"}, 415),
        ({"content-length": "5", "content-type": ""}, 415),
        ({"content-length": "5", "content-type": "a/b"}, 0),
        ({"content-length": "0"}, 0),
        ({"content-length": "000"}, 0),
        ({}, 0),
    ],
)
def test_bodies_say_of_which_type_they_are(headers: dict[str, str], status: int) -> None:
    assert judge(SHUT, "POST", OWN | headers) == status
    assert judge(SHUT, "GET", OWN | headers) == status


# ---- over the wire


def test_a_proxy_on_this_machine_is_let_in_by_name(tmp_path: Path) -> None:
    make_busy_graph(tmp_path / "g", tmp_path / "queries")
    words = (str(tmp_path / "g"), "--unauthenticated", "--cors-origin", "https://a.example")
    named = {"OMNIGRAPH_ALLOW_HOSTS": "graphs.example, other.example"}
    with (
        serving(*words, log=tmp_path / "log", environment=named) as server,
        server.client() as http,
    ):
        assert http.get("/schema", headers={"host": "graphs.example"}).status_code == 200
        assert http.get("/schema", headers={"host": "evil.example"}).status_code == 403
        asked = {"origin": "https://a.example", "access-control-request-method": "POST"}
        assert http.options("/query", headers=asked).status_code == 204
        assert http.options("/query", headers=asked | {"origin": "null"}).status_code == 403
        page = {"origin": "https://a.example", "sec-fetch-site": "cross-site"}
        made = http.post("/branches", json={"name": "b"}, headers=page)
        assert made.status_code == 200
        assert made.headers["access-control-allow-origin"] == "https://a.example"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /schema HTTP/1.1\r\n\r\n", 400),
        (b"GET /schema HTTP/1.0\r\n\r\n", 400),
        (b"GET /schema HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /schema HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://localhost/schema HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://evil.example/schema HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (
            b"GET /schema HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Origin: http://evil.example\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n",
            200,
        ),
        (
            b"GET /schema HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            403,
        ),
        (
            b"POST /branches HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"12\r\n"
            + b'{"name": "trailed"}'[:18]
            + b"\r\n1\r\n}\r\n0\r\nContent-Type: application/json\r\n\r\n",
            415,
        ),
    ],
)
def test_odd_forms_of_requests(place: Place, sent: bytes, status: int) -> None:
    if not place.is_open:
        return
    answer = talk(place.server, sent)
    assert answer.split(b" ", 2)[1] == str(status).encode(), answer[:300]
    assert b"101 Switching" not in answer


def talk(server: ServerProcess, sent: bytes) -> bytes:
    """Send bytes as they are, and read the head of the answer."""
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port or 0), timeout=20) as connection:
        connection.sendall(sent)
        found = b""
        while b"\r\n\r\n" not in found and (chunk := connection.recv(65536)):
            found += chunk
        return found
