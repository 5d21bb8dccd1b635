"""An S3 server for tests: started on a free loopback port, one bucket per test, stopped at the end."""

import itertools
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_START_SECONDS_MAX = 240.0
_HERMETIC = {
    "SERVICES": "s3",
    "IOT_MTLS_ENABLED": "0",
    "SFTP_ENABLED": "0",
    "LOG_LEVEL": "ERROR",
    "S3_PERSIST": "0",
    # No daemon is asked for anything, whatever runs on this machine.
    "DOCKER_HOST": "unix:///nonexistent",
}


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server."""

    endpoint: str
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send one plain HTTP request."""
        request = urllib.request.Request(self.endpoint + path, data=body, method=method)
        with urllib.request.urlopen(request, timeout=_START_SECONDS_MAX) as response:
            return bytes(response.read())

    def control(self, verb: str, **settings: Any) -> Any:
        """Script the server, or ask it for the requests it saw."""
        return json.loads(self.call("POST", f"/_control/{verb}", json.dumps(settings).encode()))

    def new_bucket(self) -> "Bucket":
        """Create a bucket no other test uses."""
        name = f"bucket-{next(self._numbers)}"
        self.call("PUT", f"/{name}")
        return Bucket(self, name)

    @property
    def storage_options(self) -> dict[str, str]:
        """What a graph needs to reach it."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "aws_region": "us-east-1",
            "allow_http": "true",
        }


@dataclass(frozen=True, slots=True)
class LatePut:
    """A PUT that is on its way for longer than its client lives."""

    server: S3Server

    def wait(self) -> None:
        """Wait until it has left its client."""
        self.server.control("delayed")

    def arrive(self) -> int:
        """Let the store see it; the status it answers."""
        return int(self.server.control("let_go"))


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of a running server."""

    server: S3Server
    name: str

    @property
    def uri(self) -> str:
        """The bucket as a root."""
        return f"s3://{self.name}"

    @property
    def storage_options(self) -> dict[str, str]:
        """What a graph needs to reach it."""
        return self.server.storage_options

    def delay_put(self, key: str, *, skip: int = 0, is_repeated: bool = False) -> LatePut:
        """Keep the next PUT whose key matches, or a later one, on its way until the test lets it arrive.

        `is_repeated`: its client hears of a failure at once, and sends it again.
        """
        self.server.control("delay", method="PUT", key=key, skip=skip, is_repeated=is_repeated)
        return LatePut(self.server)

    def pass_time(self, seconds: float) -> None:
        """Move the store's clock on: what it holds by now is older by so much, for whoever asks when it was written."""
        self.server.control("pass_time", bucket=self.name, seconds=seconds)


def start_s3() -> tuple[subprocess.Popen[bytes], S3Server]:
    """Start a server as a child process; it ends when its standard input is closed, or its parent dies."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # Listening from here on: the first request waits in the kernel until the child accepts it.
        listening.listen(256)
        port = listening.getsockname()[1]
        process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("s3_server.py")),
                str(listening.fileno()),
            ],
            stdin=subprocess.PIPE,
            pass_fds=[listening.fileno()],
            env=os.environ | _HERMETIC | {"GATEWAY_PORT": str(port)},
        )
    server = S3Server(f"http://127.0.0.1:{port}")
    server.control("reset")
    return process, server


def stop_s3(process: subprocess.Popen[bytes]) -> None:
    """Stop a server that was started here."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for the whole run."""
    process, server = start_s3()
    try:
        yield server
    finally:
        stop_s3(process)


@pytest.fixture
def bucket(s3_server: S3Server) -> Bucket:
    """A bucket of this test alone."""
    return s3_server.new_bucket()
