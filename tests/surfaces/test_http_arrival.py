"""Requests that do not arrive: headers without an end, bodies that stall, connections that say nothing."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

import omnigraphdb
from omnigraphdb.surfaces.http.admission import Admission
from omnigraphdb.surfaces.http.served import HEADER_BYTES
from tests.support.served import ADD, NAMES, ServerProcess, make_graph, serving
from tests.support.settled import digest

TIMES = ("--header-timeout", "0.6", "--body-timeout", "1.5", "--stall-timeout", "0.6")
IDLE = ("--idle-timeout", "0.7")
BYTES_MAX = 100_000
HEAD = b"%s %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = HEAD % (b"POST", b"/mutate") + b"transfer-encoding: chunked\r\n\r\n"
SLOW = (
    "query q() { match { $a: Person $b: Person $c: Person  $a.age < $b.age  $b.age < $c.age"
    + "".join(f" $a.age * {factor} < $b.age * {factor} + $c.age " for factor in range(2, 12))
    + "} return { count($a) as n } }"
)
"""A read of many seconds: 10⁸ combinations, each compared ten times."""
ENDLESS = {
    "a header": HEAD % (b"GET", b"/schema") + b"x-endless: ",
    "a target": b"GET /schema?",
    "a trailer": CHUNKED + b"1\r\n{\r\n0\r\nx-endless: ",
    "the size of a chunk": CHUNKED + b"1;",
}
"""The beginnings of what has no end."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("arrival")
    people = [{"type": "Person", "data": {"name": f"p{n}", "age": n}} for n in range(700)]
    with omnigraphdb.open(make_graph(made / "g")) as graph:
        graph.load(people, mode="append")
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    """A server that waits for nothing long, and where one actor may send little at a time."""
    bounds = {"OMNIGRAPH_PER_ACTOR_BYTES_MAX": str(BYTES_MAX)}
    words = (str(folder / "g"), "--unauthenticated", *TIMES, *IDLE)
    with serving(*words, log=folder / "log", environment=bounds) as found:
        yield found


def connect(server: ServerProcess) -> socket.socket:
    url = httpx.URL(server.url)
    return socket.create_connection((url.host, url.port or 0), timeout=30)


def read_all(connection: socket.socket) -> bytes:
    """What comes until the server closes the connection; a reset is an end too."""
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def split(answer: bytes) -> tuple[int, dict[str, object]]:
    """The status and the body of a refusal that ends its connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower(), answer
    assert b"x-request-id: " in head.lower(), answer
    return int(head.split(b" ", 2)[1]), json.loads(body)


def unfinished(path: bytes, length: int, sent: bytes = b"{") -> bytes:
    return HEAD % (b"POST", path) + b"content-length: %d\r\n\r\n" % length + sent


def peak_memory(server: ServerProcess) -> int:
    """The most memory that a server has had, in MiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


# ---- headers


@pytest.mark.parametrize("more", [0, 1])
def test_headers_up_to_the_bound_are_read(server: ServerProcess, more: int) -> None:
    target, pairs = b"/schema", [(b"host", b"localhost"), (b"connection", b"close")]
    size = len(target) + sum(len(name) + len(text) + 4 for name, text in pairs)
    rest = HEADER_BYTES - size - len(b"x-long: \r\n") + more
    pairs.append((b"x-long", b"a" * rest))
    lines = b"".join(b"%s: %s\r\n" % pair for pair in pairs)
    with connect(server) as connection:
        connection.sendall(b"GET %s HTTP/1.1\r\n%s\r\n" % (target, lines))
        status, body = split(read_all(connection))
    assert status == (431 if more else 200)
    if more:
        assert body["kind"] == "headers_too_large"
        limit = {"resource": "header_bytes", "limit": HEADER_BYTES}
        assert body["resource_limit"] == limit


def test_many_short_headers_are_bounded_too(server: ServerProcess) -> None:
    with connect(server) as connection:
        connection.sendall(HEAD % (b"GET", b"/schema") + b"a:b\r\n" * 20_000 + b"\r\n")
        assert b" 431 " in read_all(connection).partition(b"\r\n")[0]


@pytest.mark.parametrize("kind", ENDLESS)
def test_64_mb_of_headers_never_arrive(server: ServerProcess, kind: str) -> None:
    """Without a bound they are kept, and copied again with every piece."""
    before, sent, piece = peak_memory(server), 0, b"a" * 262_144
    with connect(server) as connection:
        try:
            connection.sendall(ENDLESS[kind])
            while sent < 64_000_000:
                connection.sendall(piece)
                sent += len(piece)
        except OSError:
            pass
        with server.client() as http:
            assert http.get("/healthz").status_code == 200
    # What the kernel has taken was never read.
    assert sent < 32_000_000
    assert peak_memory(server) - before < 8


def test_what_follows_a_body_is_no_header_of_the_request(server: ServerProcess) -> None:
    """A trailer behind the first of two requests changes neither of them."""
    body = json.dumps({"query": NAMES}).encode()
    one = (
        HEAD % (b"POST", b"/query")
        + b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(body), body)
        + b"host: evil.example\r\norigin: http://evil.example\r\n\r\n"
    )
    with connect(server) as connection:
        connection.sendall(
            one + one + b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 3


# ---- times


def test_a_connection_that_says_nothing_is_closed(server: ServerProcess) -> None:
    with connect(server) as connection:
        assert read_all(connection) == b""
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 1


def test_a_connection_that_was_answered_before_its_body_is_closed(server: ServerProcess) -> None:
    with connect(server) as connection:
        connection.sendall(unfinished(b"/nothing", 100))
        with closing(HTTPResponse(connection)) as answer:
            answer.begin()
            assert answer.status == 404
            answer.read()
        connection.sendall(b"a" * 99)
        assert read_all(connection) == b""


@pytest.mark.parametrize("sent", [b"G", b"\r\n", HEAD % (b"GET", b"/schema"), b"GET /schema?a"])
def test_headers_that_stop_are_408(server: ServerProcess, sent: bytes) -> None:
    with connect(server) as connection:
        connection.sendall(sent)
        status, body = split(read_all(connection))
    assert (status, body["kind"]) == (408, "request_timeout")


def test_headers_that_trickle_are_408(server: ServerProcess) -> None:
    """Each byte comes soon after the one before, and the whole does not."""
    with connect(server) as connection:
        assert b" 408 " in trickle(connection, HEAD % (b"GET", b"/schema") + b"x: " + b"a" * 1000)


def trickle(connection: socket.socket, text: bytes) -> bytes:
    connection.settimeout(0.05)
    for start in range(len(text)):
        try:
            connection.sendall(text[start : start + 1])
            found = connection.recv(65536)
        except TimeoutError:
            continue
        return found
    return b""


@pytest.mark.parametrize("path", [b"/mutate", b"/query", b"/mcp", b"/queries/none"])
def test_a_body_that_stalls_is_408(folder: Path, server: ServerProcess, path: bytes) -> None:
    before = digest(folder / "g")
    with connect(server) as connection:
        connection.sendall(unfinished(path, 1000))
        status, body = split(read_all(connection))
    assert (status, body["kind"]) == (408, "request_timeout")
    assert "next piece of the body" in str(body["error"])
    if path == b"/mutate":
        outcome = {"execution": "not_started", "effects": "none", "action": "retry"}
        assert body["outcome"] == outcome
    assert digest(folder / "g") == before


def test_a_body_that_trickles_is_408(server: ServerProcess) -> None:
    with connect(server) as connection:
        connection.sendall(unfinished(b"/mutate", 1000))
        answer = trickle(connection, b"a" * 999) + read_all(connection)
    status, body = split(answer)
    assert status == 408
    assert "the body did not arrive within 1.5 s" in str(body["error"])


def test_unfinished_bodies_keep_no_write_waiting(server: ServerProcess) -> None:
    with ExitStack() as stack, server.client() as http:
        lines = [stack.enter_context(connect(server)) for _ in range(40)]
        for number, line in enumerate(lines):
            line.sendall(unfinished((b"/mutate", b"/load", b"/mcp")[number % 3], 1000))
        done = http.post("/mutate", json={"query": ADD, "params": {"n": "In time"}})
        assert done.status_code == 200
        assert "omnigraph_writes_inflight{" not in http.get("/metrics").text
        with ThreadPoolExecutor(len(lines)) as pool:
            answers = list(pool.map(read_all, lines))
    assert {answer.split(b" ", 2)[1] for answer in answers} == {b"408"}


def test_an_answer_that_takes_long_is_not_cut(server: ServerProcess) -> None:
    """The times are those of the caller: neither the work of the server nor a line end too many counts."""
    body = json.dumps({"query": SLOW}).encode()
    head = HEAD % (b"POST", b"/query") + b"x-timeout-ms: 1500\r\n"
    with connect(server) as connection:
        connection.sendall(head + b"content-length: %d\r\n\r\n%s\r\n" % (len(body), body))
        time.sleep(0.1)
        connection.sendall(b"\r\n")
        first = connection.recv(65536)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 504 ")
        assert read_all(connection).startswith(b"HTTP/1.1 200 ")


# ---- bytes


def test_bytes_on_their_way_count_for_their_actor(server: ServerProcess) -> None:
    most = BYTES_MAX * 8 // 10
    with connect(server) as first, connect(server) as second:
        for line in (first, second):
            line.sendall(unfinished(b"/load", BYTES_MAX, b"a" * most))
        with ThreadPoolExecutor(2) as pool:
            answers = sorted(pool.map(read_all, (first, second)))
    # One of them came first, and then did not go on.
    assert [answer.split(b" ", 2)[1] for answer in answers] == [b"408", b"429"]
    assert b"retry-after: " in answers[1]
    with server.client() as http:
        # Those that left give back what they had taken.
        data = '{"type": "Person", "data": {"name": "%s"}}' % ("x" * (most // 2))
        for _ in range(3):
            assert http.post("/load", json={"data": data}).status_code == 200


def test_the_budget_of_an_actor() -> None:
    admission = Admission(writes_max=2, bytes_max=100)
    alone = admission.receive("ann")
    alone.grow(500)
    with pytest.raises(Exception, match="bytes of requests in flight"):
        admission.admit("ann", 1)
    with pytest.raises(Exception, match="bytes of requests in flight"):
        admission.receive("ann").grow(1)
    admission.admit("bob", 500).release()
    alone.release()
    alone.release()
    slots = [admission.admit("ann", 40), admission.admit("ann", 40)]
    with pytest.raises(Exception, match="writes in flight"):
        admission.admit("ann", 1)
    late = admission.receive("ann")
    late.grow(20)
    with pytest.raises(Exception, match="bytes of requests in flight"):
        late.grow(1)
    assert admission.counts() == {"ann": 2}
    for slot in (*slots, late):
        slot.release()
    assert admission.counts() == {}
    assert admission._uses == {}
