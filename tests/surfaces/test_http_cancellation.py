"""Reads that nobody waits for: a deadline, a dropped connection or an agent stops them, and their place is free again."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import omnigraphdb
from omnigraphdb.surfaces.http.turns import READERS_MAX
from tests.support.served import ServerProcess, serving

SCHEMA = "node P { name: String @key  age: I32? }"
QUICK = "query q() { match { $p: P  $p.age >= 0 } return { count($p) as n } }"
"""Its answer is PEOPLE, whoever came late without an age."""
SLOW = (
    "query q() { match { $a: P $b: P $c: P  $a.age < $b.age  $b.age < $c.age"
    " $a.age * 3 < $b.age * 2 + $c.age } return { count($a) as n } }"
)
"""A read of several seconds, in steps of some hundredths."""
PEOPLE = 580


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("cancel")
    with omnigraphdb.init(folder / "g", SCHEMA) as graph:
        people = [{"type": "P", "data": {"name": f"p{n}", "age": n}} for n in range(PEOPLE)]
        graph.load(people, mode="append")
    with serving(str(folder / "g"), "--unauthenticated", log=folder / "log") as found:
        yield found


@pytest.fixture
def http(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def test_a_read_past_its_deadline_is_504(server: ServerProcess, http: httpx.Client) -> None:
    began = time.monotonic()
    found = http.post("/query", json={"query": SLOW}, headers={"x-timeout-ms": "200"})
    assert time.monotonic() - began < 2
    assert found.status_code == 504
    body = found.json()
    assert (body["kind"], body.get("code")) == ("read_cancelled", None)
    assert "0.2 s" in body["error"]
    assert body["request_id"] == found.headers["x-request-id"]
    log = server.log.read_text()
    assert "status=504" in log
    # The caller set the deadline: the log tells of no failure of the server.
    assert "http.failed" not in log


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
    words = ("--unauthenticated", "--read-only", "--request-timeout", "1")
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
    head = f"POST /query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
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
        [sys.executable, "-u", "-m", "omnigraphdb", "shell", str(server.log.parent / "g")],
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
        assert any(str(PEOPLE) in line for line in lines)
        shell.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, told = shell.communicate(timeout=60)
        assert "interrupted" in told
        assert time.monotonic() - began < 5
    finally:
        shell.kill()
        shell.wait(10)


# ---- agents


def await_line(log: Path, text: str, seconds: float = 30) -> None:
    """Wait until a log has a line."""
    end = time.monotonic() + seconds
    while text not in log.read_text():
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.05)


def test_an_agent_that_closes_its_call_stops_the_read(server: ServerProcess) -> None:
    async def main() -> None:
        async with Client(streamable_http_client(f"{server.url}/mcp")) as client:
            with anyio.move_on_after(0.5) as scope:
                await client.call_tool("query", {"query": SLOW})
            assert scope.cancelled_caught
            found = await client.call_tool("query", {"query": QUICK})
            assert not found.is_error

    assert "mcp.cancelled" not in server.log.read_text()
    anyio.run(main)
    await_line(server.log, "event='mcp.cancelled' tool='query'")


def test_the_deadline_of_a_request_bounds_tools_too(http: httpx.Client) -> None:
    call = {"name": "query", "arguments": {"query": SLOW}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accept = {"accept": "application/json, text/event-stream", "x-timeout-ms": "200"}
    found = http.post("/mcp", json=body, headers=accept).json()["result"]
    assert found["isError"]
    assert found["structuredContent"]["kind"] == "read_cancelled"


def test_a_call_over_stdio_tells_its_progress_and_can_be_cancelled(
    server: ServerProcess, tmp_path: Path
) -> None:
    place, log, told = str(server.log.parent / "g"), tmp_path / "errors", list[str | None]()
    words = ["-m", "omnigraphdb", "mcp", place, "--read-only", "--log-level", "info"]
    command = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def main() -> None:
        cancelled = anyio.CancelScope()

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)
            if len(told) == 2:
                cancelled.cancel()

        with log.open("w") as errors:
            async with Client(stdio_client(command, errlog=errors)) as client:
                with cancelled:
                    await client.call_tool("query", {"query": SLOW}, progress_callback=note)
                assert cancelled.cancelled_caught
                await anyio.to_thread.run_sync(
                    await_line, log, "event='mcp.cancelled' tool='query'"
                )
                assert not (await client.call_tool("query", {"query": QUICK})).is_error

    anyio.run(main)
    assert told[:2] == ["query began", "query runs for 1 s"]
