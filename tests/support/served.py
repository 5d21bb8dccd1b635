"""A real server in a process of its own, on a free port, and a client that speaks plain HTTP to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import omnigraphdb

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "photo": "base64:aGVsbG8gd29ybGQ="}},
    {"type": "Person", "data": {"name": "Bo", "age": 20, "born": "2001-02-03"}},
    {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": 2020}},
]
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }"
ADD = "query add($n: String) { insert Person { name: $n } }"


@dataclass(frozen=True)
class ServerProcess:
    """A running server: its address, its process, and where its log goes."""

    url: str
    process: subprocess.Popen[str]
    log: Path

    def client(self, token: str | None = None, **options: Any) -> httpx.Client:
        """A client of it, with a token or without."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        options.setdefault("timeout", 60)
        return httpx.Client(base_url=self.url, headers=headers, **options)

    def stop(self) -> int:
        """End it as an operator does, and give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def make_graph(place: Path) -> Path:
    """A graph with two people who know each other."""
    with omnigraphdb.init(place, SCHEMA) as graph:
        graph.load(PEOPLE, mode="append")
    return place


def start_server(
    *words: str, log: Path, environment: Mapping[str, str] | None = None
) -> ServerProcess:
    """Start `omnigraphdb serve` with these words, and wait until it listens."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("OMNIGRAPH_")}
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraphdb", "serve", "--bind", "127.0.0.1:0", *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=kept | dict(environment or {}),
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("OMNIGRAPH_LISTEN_ADDR="):
        process.wait(10)
        process.stdout.close()
        raise AssertionError(log.read_text())
    return ServerProcess(f"http://{line.partition('=')[2].strip()}", process, log)


@contextmanager
def serving(
    *words: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """A server for the time of a test."""
    server = start_server(*words, log=log, environment=environment)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(10)
        if server.process.stdout is not None:
            server.process.stdout.close()
