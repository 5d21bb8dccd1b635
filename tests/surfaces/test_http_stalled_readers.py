"""Readers who stop reading: within the time of one piece the server ends their connections and frees what they held."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.raw_http import RawRequest, send
from tests.support.served import ServerProcess, serving
from tests.surfaces.test_http_exports import EXPORTS_MAX, make_documents

SIZE = 90_000_000
"""More than the sockets of every reader hold."""
SECONDS_MAX = 30
REQUEST_SECONDS = 3
LISTENING = "0A"
"""The state of a socket in `/proc/net/tcp` that takes connections."""
BODIES = "query q() { match { $d: Doc } return { $d.body } }"
STREAMS = {
    "export": RawRequest(method="POST", target=b"/export"),
    "table": RawRequest(
        method="GET",
        target=b"/table?type=Doc",
        headers=((b"accept", b"application/vnd.apache.arrow.stream"),),
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that waits some seconds for the reader of a piece."""
    folder = tmp_path_factory.mktemp("stalled")
    make_documents(folder / "g", SIZE)
    words = (str(folder / "g"), "--unauthenticated", "--request-timeout", str(REQUEST_SECONDS))
    with serving(*words, log=folder / "log") as running:
        yield running


def stall(server: ServerProcess, request: bytes, buffer_bytes: int = 65_536) -> socket.socket:
    """Ask for a stream, read its first bytes, and no more."""
    url = httpx.URL(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    connection.settimeout(30)
    connection.connect((url.host, url.port or 0))
    connection.sendall(request)
    assert connection.recv(1_000).startswith(b"HTTP/1.1 200 ")
    return connection


def read_rest(connection: socket.socket) -> bytes:
    """Read what the server had sent before it ended the connection."""
    rest = bytearray()
    try:
        while piece := connection.recv(1_000_000):
            rest += piece
    except ConnectionResetError:
        pass
    return bytes(rest)


def wait_until(holds: Callable[[], bool], subject: str) -> None:
    ends = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < ends, f"{subject} after {SECONDS_MAX} s"
        time.sleep(0.1)


def count_connections(server: ServerProcess) -> int:
    """Count the connections that the process has open; its other sockets are made when they are first needed."""
    process = Path(f"/proc/{server.process.pid}")
    inodes = set()
    for link in (process / "fd").iterdir():
        try:
            inodes.add(str(link.readlink()))
        except FileNotFoundError:
            continue
    rows = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
    return sum(f"socket:[{row[9]}]" in inodes and row[3] != LISTENING for row in rows)


def read_gauges(server: ServerProcess) -> dict[str, str]:
    """The numbers of reads under way and of their memory; a request of its own, which leaves no connection."""
    body = send(server.url, RawRequest(method="GET", target=b"/metrics")).body.decode()
    lines = [line.rsplit(" ", 1) for line in body.splitlines()]
    names = ("omnigraph_reads_inflight", "omnigraph_query_memory_bytes")
    return {line[0]: line[1] for line in lines if line[0].startswith(names)}


@pytest.mark.parametrize("kind", STREAMS)
def test_streams_whose_readers_stall_end_and_free_their_places(
    server: ServerProcess, kind: str
) -> None:
    gauges, connections_before = read_gauges(server), count_connections(server)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(stall(server, STREAMS[kind].spell())) for _ in range(EXPORTS_MAX)
        ]
        if kind == "export":
            refused = send(server.url, STREAMS["export"])
            assert refused.status == 413
            assert refused.json()["resource_limit"]["resource"] == "concurrent_exports"
        # Nobody reads meanwhile: the server closes what it cannot send.
        wait_until(lambda: count_connections(server) <= connections_before, "connections are open")
        wait_until(lambda: read_gauges(server) == gauges, "reads are under way")
        answer = send(server.url, STREAMS[kind])
        assert (answer.status, len(answer.body) > SIZE) == (200, True)
        for connection in connections:
            assert not read_rest(connection).endswith(b"0\r\n\r\n")
    assert server.log.read_text().count("http.reader_stalled") >= EXPORTS_MAX
    jobs = send(server.url, RawRequest(method="GET", target=b"/jobs"))
    assert jobs.json() == {"jobs": []}


def test_a_whole_answer_whose_reader_stalls_ends(server: ServerProcess) -> None:
    """An answer that was handed over at once waits in memory for its reader, and so does what follows it."""
    connections_before = count_connections(server)
    body = json.dumps({"query": BODIES}).encode()
    head = b"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request = head + b"content-length: %d\r\n\r\n%s" % (len(body), body)
    with stall(server, request) as connection:
        connection.sendall(b"GET /schema HTTP/1.1\r\nhost: localhost\r\n\r\n")
        wait_until(
            lambda: count_connections(server) <= connections_before, "the connection is open"
        )
        assert len(read_rest(connection)) < SIZE


def test_a_reader_who_is_slow_gets_the_whole_answer(server: ServerProcess) -> None:
    """Each piece is taken within the time, and all of them together are not."""
    began, size, pause_at = time.monotonic(), 0, 0
    with stall(server, STREAMS["export"].spell(), buffer_bytes=1_000_000) as connection:
        while piece := connection.recv(1_000_000):
            size += len(piece)
            if size > pause_at:
                pause_at += 10_000_000
                time.sleep(REQUEST_SECONDS / 5)
    assert size > SIZE
    assert time.monotonic() - began > REQUEST_SECONDS
