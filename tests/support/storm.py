"""A storm: processes of many threads write at random under keys, die at random, and their callers ask again.

`python -m tests.support.storm --seed 7 --rounds 10000` runs one on a disk, `--s3` on an object store that fails at random.
A seed draws the same requests, processes and deaths every time; when they meet is up to the machine.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit, OperationState
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, arm_from
from omnigraphdb.ids import RECOVERY_ACTOR
from tests.support.child import KILLED, spawn
from tests.support.leases import shorten_leases
from tests.support.plain_model import (
    SCHEMA,
    Age,
    Befriend,
    Leave,
    Load,
    Plain,
    Settle,
    Write,
    read_branch,
)
from tests.support.s3 import S3Server, start_s3, stop_s3
from tests.support.settled import assert_settled
from tests.support.writers import in_threads

WAIT_SECONDS: Final = 240.0
WRITERS: Final = 8
STORM_LEASE_SECONDS: Final = 6.0
SHAPES: Final = ((8,), (4, 4), (2, 2, 2, 2), (1, 1, 2, 4), (1,) * 8)
"""How many threads each process of a generation has."""
TRIES_MAX: Final = 3
REQUESTS_MAX: Final = 4
"""Requests of each writer in one generation."""
PAST_STATES_MAX: Final = 6
CHAOS: Final = {"rate": 0.01, "hang": 5.0}
CLIENT: Final = {"timeout": "3s", "client_max_retries": "3", "client_retry_timeout": "8"}
"""A client that does not wait for answers that never come."""
DEATHS: Final = (
    Failpoint.STAGED,
    Failpoint.SIDECAR_WRITE,
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.GROUP_TAKEN,
    Failpoint.GROUP_ARMED,
    Failpoint.GROUP_TABLE_COMMITTED,
    Failpoint.GROUP_MEMBER_LANDED,
    Failpoint.GROUP_VERSION_PUT,
    Failpoint.GROUP_LANDED,
    Failpoint.SIDECAR_CONFIRM,
    Failpoint.GROUP_CONFIRMED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
    Failpoint.KEY_ALONE,
    Failpoint.SIDECAR_DELETE,
    Failpoint.ROLL_FORWARD,
    Failpoint.ROLLBACK_RESTORED,
    Failpoint.AUDIT,
)


# ---- where and what


@dataclass(frozen=True, slots=True, kw_only=True)
class StormPlace:
    """A graph that every process of a storm opens; on an object store the leases of the dead run out soon."""

    uri: str
    options: Mapping[str, str] | None = None

    def open(self, *, read_only: bool = False) -> Graph:
        """Open the graph; a writer completes or takes back what the dead left, if their leases have run out by then."""
        return omnigraphdb.open(
            self.uri,
            storage_options=self.options,
            config={"maintenance": "off"},
            read_only=read_only,
        )


def make_place(uri: str, options: Mapping[str, str] | None = None) -> StormPlace:
    """Make the graph of a storm."""
    omnigraphdb.init(uri, SCHEMA, storage_options=options).close()
    if options is None:
        return StormPlace(uri=uri)
    return StormPlace(uri=uri, options={**options, **CLIENT})


@dataclass(frozen=True, slots=True)
class Request:
    """A write and its idempotency key."""

    key: str
    write: Write


def draw_request(choose: random.Random, number: int) -> Request:
    """Draw a write: half of the names are everybody's, the others its own."""
    fresh, shared = f"p{number}", [choose.choice("abcdefgh") for _ in range(2)]
    n, place = number % 1000, choose.choice("xyz")
    write: Write
    match choose.choices(range(7), (4, 3, 3, 1, 2, 2, 0.3))[0]:
        case 0:
            write = Settle(choose.choice([fresh, shared[0]]), place, n)
        case 1:
            write = Befriend(shared[0], shared[1])
        case 2:
            write = Age(shared[0], n)
        case 3:
            write = Leave(shared[0])
        case 4:
            write = Load("append", ((fresh, n),), (), ((fresh, fresh),))
        case 5:
            people = tuple((name, n) for name in dict.fromkeys((*shared, fresh)))
            write = Load("merge", people, ((place, n),), (), ((shared[0], place),))
        case _:
            people = tuple((name, n) for name in dict.fromkeys((*shared, fresh)))
            write = Load("overwrite", people, ((place, n),))
    return Request(f"request-{number}", write)


# ---- a process


def write_requests(
    place: StormPlace, shares: Sequence[Sequence[Request]], log: str, failpoints: str
) -> None:
    """Open the graph and write from several threads, noting every acknowledged key: what a child process does."""
    arm_from(failpoints)
    shorten_leases(STORM_LEASE_SECONDS)
    try:
        graph = place.open()
    except OmniError:
        return
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    raised = in_threads([partial(write_each, graph, own, descriptor) for own in shares])
    assert not any(raised), raised


def write_each(graph: Graph, requests: Sequence[Request], descriptor: int) -> None:
    """Write each request, and note those that are acknowledged."""
    for request in requests:
        for _ in range(TRIES_MAX):
            try:
                commit = request.write.to(graph, "main", request.key)
            except OmniError:
                continue
            os.write(descriptor, f"{request.key} {commit or '-'}\n".encode())
            break


# ---- the storm


class Writer(Protocol):
    """A process that writes, and may be killed."""

    @property
    def exitcode(self) -> int | None:
        """The code that it ended with; None while it runs."""
        ...

    def kill(self) -> None:
        """Kill it, wherever it is."""
        ...

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        ...


@dataclass(slots=True, kw_only=True)
class Storm:
    """A storm while it rages: what was asked, and what was acknowledged."""

    place: StormPlace
    home: Path
    choose: random.Random
    asked: dict[str, Request] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    deaths: int = 0

    def rage(self, rounds: int) -> None:
        """Let generations of writers follow one another until so many requests were made; each asks first what is open."""
        while len(self.asked) < rounds:
            self._run_generation(rounds)

    def _run_generation(self, rounds: int) -> None:
        shares = self._deal_requests(rounds)
        shape = self.choose.choice(SHAPES)
        log = str(self.home / f"acknowledged-{len(self.asked)}")
        children: list[tuple[Writer, float | None]] = []
        for threads in shape:
            own, shares = shares[:threads], shares[threads:]
            child = spawn(write_requests, self.place, own, log, self._draw_death())
            is_doomed = not children or self.choose.random() < 0.1
            children.append((child, self.choose.uniform(0.3, 2.5) if is_doomed else None))
        self._wait(children)
        self._read(log)

    def _deal_requests(self, rounds: int) -> list[list[Request]]:
        """Deal what is not acknowledged and new requests out to the writers."""
        pending = [one for key, one in self.asked.items() if key not in self.acknowledged]
        self.choose.shuffle(pending)
        requests = pending[: WRITERS * REQUESTS_MAX // 2]
        while len(requests) < WRITERS * REQUESTS_MAX and len(self.asked) < rounds:
            made = draw_request(self.choose, len(self.asked))
            self.asked[made.key] = made
            requests.append(made)
        return [requests[n::WRITERS] for n in range(WRITERS)]

    def _draw_death(self) -> str:
        if self.choose.random() < 0.4:
            return ""
        at = self.choose.choice(DEATHS)
        return f"{at.value}=skip({self.choose.randrange(4)})+exit"

    def _wait(self, children: Sequence[tuple[Writer, float | None]]) -> None:
        """Wait for the end of every process; some are killed from outside, wherever they are."""
        timers = [threading.Timer(late, child.kill) for child, late in children if late is not None]
        for timer in timers:
            timer.start()
        for child, _ in children:
            child.join(WAIT_SECONDS)
            assert child.exitcode in (0, KILLED), f"{child} ended with {child.exitcode}"
            self.deaths += child.exitcode == KILLED
        for timer in timers:
            timer.cancel()

    def _read(self, log: str) -> None:
        if not Path(log).exists():
            return
        for line in Path(log).read_text().splitlines():
            key, commit = line.split()
            # A key that is acknowledged twice has the same commit both times.
            assert self.acknowledged.setdefault(key, commit) == commit, key

    # ---- afterwards

    def settle(self) -> Graph:
        """Open the graph in quiet weather; whoever got no answer asks once more, and gets one."""
        graph = self.place.open()
        while graph.pending_recoveries():
            # Until the leases of the dead have run out nobody can know that they are dead.
            graph.refresh(roll_back=True)
        for key, request in self.asked.items():
            if key not in self.acknowledged:
                try:
                    self.acknowledged[key] = request.write.to(graph, "main", key) or "-"
                except omnigraphdb.UserInputError:
                    assert graph.operation(key).state is OperationState.NOT_LANDED
        return graph

    def check(self, graph: Graph) -> None:
        """Hold history, keys and rows to the requests: each acknowledged one once, each other one not at all."""
        commits = list(reversed(graph.commits()))
        assert all(newer.parent == older.id for older, newer in pairwise(commits))
        made = {commit: key for key, commit in self.acknowledged.items() if commit != "-"}
        landed = sum(commit != "-" for commit in self.acknowledged.values())
        assert len(made) == landed, "two keys have one commit"
        for key in self.asked:
            status = graph.operation(key)
            is_landed = status.state is OperationState.LANDED
            assert is_landed == (key in self.acknowledged), (key, status)
            if is_landed:
                found = "-" if status.commit is None else status.commit.id
                assert found == self.acknowledged[key]
        self._check_states(graph, commits, made)
        assert_settled(graph)

    def _check_states(
        self, graph: Graph, commits: Sequence[Commit], made: Mapping[str, str]
    ) -> None:
        """Apply the requests to a plain graph in the order of history; the real one shows the same, now and then."""
        looked = set(self.choose.sample(range(len(commits)), min(PAST_STATES_MAX, len(commits))))
        plain = Plain()
        for number, commit in enumerate(commits):
            if commit.id in made:
                plain = self.asked[made[commit.id]].write.on(plain)
            else:
                assert number == 0 or commit.actor == RECOVERY_ACTOR, commit
            if number in looked:
                assert read_branch(graph, "main", commit.id) == plain, commit
        assert read_branch(graph, "main") == plain
        assert set(made) <= {commit.id for commit in commits}


def run_storm(place: StormPlace, home: Path, seed: int, rounds: int) -> Storm:
    """Let a storm rage over a graph that was just made."""
    storm = Storm(place=place, home=home, choose=random.Random(seed))
    storm.rage(rounds)
    return storm


# ---- bad weather


@contextmanager
def failing_store(server: S3Server, seed: int) -> Iterator[None]:
    """Let requests fail at random, before and after their effect, with an error or without an answer."""
    server.control("behave", chaos={"seed": seed, **CHAOS})
    try:
        yield
    finally:
        server.control("behave")


def main() -> None:
    """Run one storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        if given.s3:
            process, server = start_s3()
            try:
                bucket = server.new_bucket()
                place = make_place(f"{bucket.uri}/g", bucket.storage_options)
                with failing_store(server, given.seed):
                    storm = run_storm(place, Path(folder), given.seed, given.rounds)
                storm.check(storm.settle())
            finally:
                stop_s3(process)
        else:
            place = make_place(f"{folder}/g")
            storm = run_storm(place, Path(folder), given.seed, given.rounds)
            storm.check(storm.settle())
        print(
            f"{len(storm.asked)} requests, {len(storm.acknowledged)} landed, {storm.deaths} deaths, "
            f"{time.monotonic() - began:.0f} s"
        )


if __name__ == "__main__":
    main()
