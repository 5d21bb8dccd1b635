"""Leases of dead, stopped and cut off processes, which run out while a test waits.

No clock of a rival frees the lease of a live process. A test that needs a lease to run out takes one of two ways:

- The holder is dead, and somebody comes *long after*: `bucket.pass_time(LONG_AFTER)` moves the clock of the store on,
  and an open settles at once.
- The holder is cut off and wakes up *later*: holder and rival have short leases (`shorten_leases` is the first call of
  a child; the fixture `short_leases` is for the test's own process), the holder stands still between `stop` and
  `resume`, and the rival waits by its own clock. `assert_taken_over` shows that the rival did take over.
"""

import json
import os
import signal
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from typing import Final

import pytest

from omnigraphdb.api.graph import Graph
from omnigraphdb.limits import LEASE_SECONDS
from omnigraphdb.storage.layout import LOCKS
from omnigraphdb.storage.locks import table

SHORT_LEASE_SECONDS: Final = 3.0
"""A term that a test can wait for, and that a live process on a busy machine still renews in time."""

LONG_AFTER: Final = 2 * LEASE_SECONDS
"""By then every lease of a dead process has run out."""


def shorten_leases(seconds: float = SHORT_LEASE_SECONDS) -> None:
    """Give short leases to the graphs that this process opens from now on."""
    vars(table).update(LEASE_SECONDS=seconds, LEASE_RENEW_SECONDS=seconds / 3)


def run_with_short_leases(work: Callable[..., object], *arguments: object) -> None:
    """Run a function whose graphs have short leases: what a child process does instead of the function."""
    shorten_leases()
    work(*arguments)


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> float:
    """Give short leases to the graphs that this test opens in its own process; the term."""
    monkeypatch.setattr(table, "LEASE_SECONDS", SHORT_LEASE_SECONDS)
    monkeypatch.setattr(table, "LEASE_RENEW_SECONDS", SHORT_LEASE_SECONDS / 3)
    return SHORT_LEASE_SECONDS


def stop(process: BaseProcess) -> None:
    """Let a process stand still, its renewals and its requests included; its leases run out meanwhile."""
    os.kill(_pid(process), signal.SIGSTOP)


def resume(process: BaseProcess) -> None:
    """Let a process that stood still go on."""
    os.kill(_pid(process), signal.SIGCONT)


def _pid(process: BaseProcess) -> int:
    assert process.pid is not None
    return process.pid


def lease_tokens(graph: Graph) -> Mapping[str, int]:
    """The token of each lease of a graph, by its path: it grows with every holder."""
    objects = graph._engine.store.objects
    texts = ((path, objects.read(path)) for path in objects.list(LOCKS))
    leases = ((path, json.loads(text)) for path, text in texts if text is not None)
    return {path: lease["token"] for path, lease in leases if "token" in lease}


def assert_taken_over(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Assert that somebody took a lease which another one had."""
    assert any(after[path] > token for path, token in before.items() if path in after), before
