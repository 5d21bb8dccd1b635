"""Reads that nobody waits for: a deadline or a dropped connection stops them, and their place is free again."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import omnigraph
from omnigraph.surfaces.http.app import READERS_MAX
from tests.support.served import ServerProcess, serving

SCHEMA = "node P { name: String @key  age: I32? }"
QUICK = "query q() { match { $p: P } return { count($p) as n } }"
SLOW = (
    "query q() { match { $a: P $b: P $c: P  $a.age < $b.age  $b.age < $c.age }"
    " return { count($a) as n } }"
)
"""A read of several seconds, in steps of some hundredths."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("cancel")
    with omnigraph.init(folder / "g", SCHEMA) as graph:
        people = [{"type": "P", "data": {"name": f"p{n}", "age": n}} for n in range(550)]
        graph.load(people, mode="append")
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def test_a_read_past_its_deadline_is_504(http: httpx.Client) -> None:
    began = time.monotonic()
    found = http.post("/query", json={"query": SLOW}, headers={"x-timeout-ms": "200"})
    assert time.monotonic() - began < 2
    assert found.status_code == 504
    body = found.json()
    assert (body["kind"], body.get("code")) == ("read_cancelled", None)
    assert "0.2 s" in body["error"]
    assert body["request_id"] == found.headers["x-request-id"]


@pytest.mark.parametrize("given", ["0", "-5", "soon", "1.5", "9" * 12])
def test_a_deadline_that_is_none_is_400(http: httpx.Client, given: str) -> None:
    found = http.post("/query", json={"query": QUICK}, headers={"x-timeout-ms": given})
    assert found.status_code == 400
    assert "X-Timeout-Ms" in found.json()["error"]


def test_a_deadline_does_not_cut_a_write(http: httpx.Client) -> None:
    add = 'query add() { insert P { name: "late" } }'
    found = http.post("/mutate", json={"query": add}, headers={"x-timeout-ms": "1"})
    assert found.status_code == 200


def test_a_server_may_bound_every_read(server: ServerProcess, tmp_path: Path) -> None:
    words = ("--unauthenticated", "--read-only", "--request-timeout", "0.2")
    with (
        serving(str(server.log.parent / "g"), *words, log=tmp_path / "log") as bounded,
        bounded.client() as http,
    ):
        assert http.post("/query", json={"query": SLOW}).status_code == 504
        generous = {"x-timeout-ms": "60000"}
        assert http.post("/query", json={"query": SLOW}, headers=generous).status_code == 504
        assert http.post("/query", json={"query": QUICK}).status_code == 200


def test_reads_of_callers_who_left_make_room(server: ServerProcess, http: httpx.Client) -> None:
    body = json.dumps({"query": SLOW}).encode()
    head = f"POST /query HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    place = urlsplit(server.url)
    callers = [
        socket.create_connection((str(place.hostname), place.port or 0)) for _ in range(READERS_MAX)
    ]
    for one in callers:
        one.sendall(head + body)
    with pytest.raises(httpx.ReadTimeout):
        http.post("/query", json={"query": QUICK}, timeout=0.3)
    for one in callers:
        one.close()
    # All of them together would take a minute; each stops at its next step.
    began = time.monotonic()
    assert http.post("/query", json={"query": QUICK}).status_code == 200
    assert time.monotonic() - began < 10


def test_an_arrow_answer_past_its_deadline_is_visibly_unfinished(http: httpx.Client) -> None:
    accept = {"accept": "application/vnd.apache.arrow.stream", "x-timeout-ms": "200"}
    try:
        found = http.post("/query", json={"query": SLOW}, headers=accept)
    except httpx.RemoteProtocolError:
        return
    assert found.status_code == 504


def test_an_interrupted_read_returns_to_the_shell(server: ServerProcess) -> None:
    """The shell reads statements from a pipe: the one after the interrupted one is still run."""
    shell = subprocess.Popen(
        [sys.executable, "-u", "-m", "omnigraph", "shell", str(server.log.parent / "g")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert shell.stdin is not None
    assert shell.stdout is not None
    try:
        shell.stdin.write(f"{QUICK};\n{SLOW};\n")
        shell.stdin.flush()
        lines = iter(shell.stdout.readline, "")
        assert any("550" in line or "551" in line for line in lines)
        shell.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, told = shell.communicate(timeout=60)
        assert "interrupted" in told
        assert time.monotonic() - began < 5
    finally:
        shell.kill()
        shell.wait(10)
