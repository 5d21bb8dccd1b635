"""Counting S3 requests: what a piece of work asked of the store, by verb and by role of the key."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.s3 import Bucket, S3Server, start_s3, stop_s3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as the server saw it."""

    method: str
    bucket: str
    key: str
    role: str
    conditional: bool
    status: int
    bytes_in: int
    bytes_out: int
    inflight: int


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a piece of work, in order of arrival."""

    log: tuple[Request, ...]

    def __len__(self) -> int:
        return len(self.log)

    def __iter__(self) -> Iterator[Request]:
        return iter(self.log)

    def counts(self) -> dict[str, int]:
        """How many of each verb and role, as in `PUT manifest`."""
        return dict(sorted(Counter(f"{r.method} {r.role}" for r in self.log).items()))

    def of(self, method: str | None = None, role: str | None = None) -> int:
        """How many with this verb and role."""
        return sum(method in (None, r.method) and role in (None, r.role) for r in self.log)

    def first(self, method: str, role: str) -> int:
        """The position of the first such request."""
        return next(i for i, r in enumerate(self.log) if (r.method, r.role) == (method, role))

    @property
    def reads(self) -> int:
        """Requests that change nothing."""
        return sum(r.method in ("GET", "HEAD", "LIST") for r in self.log)

    @property
    def writes(self) -> int:
        """Requests that change something."""
        return len(self.log) - self.reads

    @property
    def inflight_max(self) -> int:
        """Most requests served at one time."""
        return max((r.inflight for r in self.log), default=0)


@dataclass(frozen=True, slots=True)
class CountingBucket:
    """A bucket whose requests can be counted, delayed and broken."""

    bucket: Bucket

    @property
    def uri(self) -> str:
        """The bucket as a root."""
        return self.bucket.uri

    @property
    def storage_options(self) -> dict[str, str]:
        """What a graph needs to reach it."""
        return self.bucket.storage_options

    def reset(self) -> None:
        """Forget the requests so far."""
        self.bucket.server.control("reset")

    def requests(self) -> Requests:
        """What this bucket was asked since the last reset."""
        log = self.bucket.server.control("log")
        return Requests(tuple(_request(e) for e in log if e["bucket"] == self.bucket.name))

    def behave(
        self, *, latency: float = 0.0, concurrency: int = 0, ignore_conditions: bool = False
    ) -> None:
        """Make the server slow, narrow, or blind to conditions; without arguments: normal again."""
        self.bucket.server.control(
            "behave",
            latency=latency,
            concurrency=concurrency,
            ignore_conditions=ignore_conditions,
        )

    def break_next(
        self, method: str, key: str, *, status: int = 503, after: bool = False, times: int = 1
    ) -> None:
        """Fail requests whose key matches; `after` lets the effect happen and loses the answer."""
        one = {"method": method, "key": key, "status": status, "after": after, "times": times}
        self.bucket.server.control("behave", breaks=[one])

    def break_all(self, *, status: int) -> None:
        """Fail every request from now on."""
        verbs = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")
        every = [
            {"method": verb, "key": "", "status": status, "after": False, "times": 1_000_000}
            for verb in verbs
        ]
        self.bucket.server.control("behave", breaks=every)


def _request(entry: dict[str, Any]) -> Request:
    return Request(**{("role" if k == "class" else k): v for k, v in entry.items()})


@pytest.fixture(scope="session")
def counting_server() -> Iterator[S3Server]:
    """A server of its own, so that no other test's requests are counted or delayed."""
    process, server = start_s3()
    try:
        yield server
    finally:
        stop_s3(process)


@pytest.fixture
def counting_bucket(counting_server: S3Server) -> Iterator[CountingBucket]:
    """A bucket of this test alone; the server behaves normally before and after."""
    bucket = CountingBucket(counting_server.new_bucket())
    bucket.reset()
    try:
        yield bucket
    finally:
        bucket.behave()
