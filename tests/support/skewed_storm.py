"""A storm of processes whose wall clocks are minutes apart: they write by turns, are killed or stand still, and go on.

`python -m tests.support.skewed_storm --seed 7 --rounds 200` runs one on an object store. A seed draws the same victims
and the same sequence of new requests every time; when they meet is up to the machine.
"""

import argparse
import base64
import json
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Commit, OperationState
from omnigraphdb.errors import (
    BranchExists,
    BranchInUse,
    LockLost,
    LockTimeout,
    ManifestConflict,
    NotFound,
    OmniError,
    PublishContention,
    ReadSetConflict,
    RecoveryRequired,
    ReferentialError,
    StorageError,
)
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR
from omnigraphdb.limits import LEASE_MARGIN_PART
from omnigraphdb.storage.locks.lease import LeaseLocks
from tests.support.leases import shorten_leases
from tests.support.plain_model import Befriend, Plain, Settle, Write, read_branch
from tests.support.s3 import start_s3, stop_s3
from tests.support.settled import assert_settled
from tests.support.shifted_clocks import build_clock, require_shift, shifted_environment
from tests.support.storm import StormPlace, draw_request, make_place
from tests.support.writers import in_threads

MINUTES: Final = 600
TWO: Final = (MINUTES, -MINUTES)
THREE: Final = (MINUTES, -MINUTES, MINUTES // 2)
CLOCKS: Final = (*THREE, 0)
"""The clocks of all processes, that of the storm itself included."""
LEASE_SECONDS: Final = 2.0
WATCH_SECONDS: Final = 0.05
LATE_SECONDS: Final = 0.15
"""A lease that is not renewed by so long before its end counts as late: the holder may stop before the next look at it."""
TAKEN_OVER_SECONDS: Final = LEASE_SECONDS * (1 + 1 / LEASE_MARGIN_PART) + 0.3
"""A process that stands still for so long has lost its leases, if anybody waits for them."""
THREADS: Final = 2
REQUESTS: Final = 2
"""Requests of each thread in one round."""
BRANCHES: Final = ("red", "blue")
TRIES_MAX: Final = 3
WAIT_SECONDS: Final = 120.0
KEEP: Final = 1_000_000
"""Versions that cleanup keeps: all of them."""
SETTLED_EACH: Final = 10
"""Rounds after which the doctor looks and every table of every branch is written."""

REFUSALS: Final = frozenset(
    error.kind for error in (ReferentialError, NotFound, BranchExists, BranchInUse)
)
"""The request does not fit what the branch shows: an end or a branch is missing, or a branch is there."""
RACES: Final = frozenset(
    error.kind for error in (ReadSetConflict, ManifestConflict, PublishContention)
)
"""A rival changed the same rows first, or its branch came or went; the caller reads again."""
AFTER_A_STOP: Final = frozenset(
    error.kind for error in (LockLost, RecoveryRequired, LockTimeout, StorageError)
)
"""A process that stood still for longer than its lease, by a signal or by the load of its machine: it stops before its next change (`lock_lost`), or others settle
what it began (`recovery_required`), or its time to wait or that of a request was over meanwhile.

Everybody may be told that what the victim of a round began has to be taken back first (`recovery_required`)."""


_ULID_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def seconds_of(ulid: str) -> float:
    """Read the time of a ULID, by the clock of the process that made it."""
    milliseconds = 0
    for digit in ulid[:10]:
        milliseconds = milliseconds * 32 + _ULID_DIGITS.index(digit)
    return milliseconds / 1_000


# ---- requests


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, the branch that it is about, and its idempotency key."""

    key: str
    branch: str
    write: Write | None = None
    verb: str = "write"

    @property
    def home(self) -> str:
        """The branch whose keys hold it."""
        return self.branch if self.verb == "write" else MAIN

    def to(self, graph: Graph) -> str | None:
        """Carry it out; gives its commit, if it makes one."""
        if self.verb == "create":
            graph.branch_create(self.branch, idempotency_key=self.key)
            return None
        if self.verb == "delete":
            graph.branch_delete(self.branch, idempotency_key=self.key)
            return None
        assert self.write is not None
        return self.write.to(graph, self.branch, self.key)


def draw_asked(choose: random.Random, number: int) -> Asked:
    """Draw a request: most are about main, some make, write or delete a branch."""
    request, branch = draw_request(choose, number), choose.choice(BRANCHES)
    verb = choose.choices(("main", "write", "create", "delete"), (14, 4, 2, 1))[0]
    if verb == "main":
        return Asked(request.key, MAIN, request.write)
    return Asked(request.key, branch, request.write if verb == "write" else None, verb)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of one request; the times are monotonic ones of this machine, which all processes share."""

    key: str
    began: float
    ended: float
    is_answered: bool
    commit: str | None = None
    kind: str = ""
    error: str = ""


# ---- a process


def serve_rounds() -> None:
    """Carry out rounds of requests that arrive on standard input: what a process with another clock does."""
    require_shift()
    shorten_leases(LEASE_SECONDS)
    place, log = _unpack(sys.argv[1])
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    graph = place.open()
    threading.Thread(target=_watch_leases, args=(graph, descriptor), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        shares: Sequence[Sequence[Asked]] = _unpack(line)
        raised = in_threads([partial(_carry_out, graph, share, descriptor) for share in shares])
        assert not any(raised), raised
        print("done", flush=True)


def _carry_out(graph: Graph, share: Sequence[Asked], descriptor: int) -> None:
    for asked in share:
        for _ in range(TRIES_MAX):
            attempt = try_once(graph, asked)
            fields = {name: getattr(attempt, name) for name in Attempt.__slots__}
            os.write(descriptor, f"{json.dumps(fields)}\n".encode())
            if attempt.is_answered or attempt.kind in REFUSALS:
                break


def _watch_leases(graph: Graph, descriptor: int) -> None:
    """Note leases that this process renewed too late, by its monotonic clock, and those that a rival took before."""
    locks, last = graph._engine.store.locks, time.monotonic()
    assert isinstance(locks, LeaseLocks)
    while True:
        time.sleep(WATCH_SECONDS)
        now, taken, late_since = time.monotonic(), False, []
        with locks._changed:
            for lock in locks._held:
                left = lock._safe_until - now
                taken |= lock.over and left > 0
                if left < LATE_SECONDS:
                    late_since.append(lock._safe_until - LEASE_SECONDS)
        if now - last > LEASE_SECONDS / 2:
            late_since.append(last)
        if taken or late_since:
            body = {"taken": taken, "began": min(late_since, default=now), "ended": now}
            os.write(descriptor, f"{json.dumps(body)}\n".encode())
        last = now


def try_once(graph: Graph, asked: Asked) -> Attempt:
    """Try a request once."""
    began = time.monotonic()
    try:
        commit = asked.to(graph)
    except OmniError as error:
        told = f"{type(error).__name__}: {error}"
        return Attempt(asked.key, began, time.monotonic(), False, None, error.kind, told)
    return Attempt(asked.key, began, time.monotonic(), True, commit)


def _pack(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _unpack(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


class Skewed:
    """A process whose clock is wrong; after its death another one with the same clock takes its place."""

    def __init__(self, place: StormPlace, library: Path, seconds: int, home: Path) -> None:
        self._place, self._library, self.seconds = place, library, seconds
        self.log = home / f"attempts{seconds:+d}"
        self.log.touch()
        self._errors = home / f"errors{seconds:+d}"
        self._position = 0
        self.stops: list[tuple[float, float]] = []
        self.delays: list[tuple[float, float]] = []
        self._start()

    def _start(self) -> None:
        program = f"from {__name__} import serve_rounds; serve_rounds()"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, _pack((self._place, str(self.log)))],
                env=shifted_environment(self._library, self.seconds),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self._is_ready = False

    def begin(self, shares: Sequence[Sequence[Asked]]) -> None:
        """Hand it the requests of a round; a new process opens the graph first."""
        if not self._is_ready:
            self._expect("ready")
            self._is_ready = True
        assert self._process.stdin is not None
        self._process.stdin.write(f"{_pack(shares)}\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        """Wait until it has carried out its requests."""
        if self._is_ready:
            self._expect("done")

    def kill(self) -> None:
        """Kill it wherever it is, and start another one."""
        self._process.kill()
        self.end()
        self._start()

    def stand_still(self, seconds: float) -> None:
        """Let it stand still for a while."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)
        self.stops.append((began, time.monotonic()))

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(WAIT_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            # What was not sent yet is for a dead reader.
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def read_attempts(self) -> list[Attempt]:
        """Read what it tried since the last look."""
        with self.log.open() as opened:
            opened.seek(self._position)
            lines = opened.readlines()
            self._position = opened.tell()
        bodies = [json.loads(line) for line in lines]
        for body in bodies:
            if "taken" in body:
                assert not body["taken"], f"a live holder lost its lease to a rival's clock: {body}"
                self.delays.append((body["began"], body["ended"]))
        return [Attempt(**body) for body in bodies if "key" in body]

    def stood_still_during(self, attempt: Attempt) -> bool:
        """Whether it stood still at some moment of an attempt."""
        return _overlaps(self.stops, attempt)

    def was_late_during(self, attempt: Attempt) -> bool:
        """Whether it renewed a lease too late during an attempt, stopped or on a machine with too much to do."""
        return _overlaps(self.delays, attempt)

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == f"{word}\n", (line, self._errors.read_text()[-4_000:])


def _overlaps(spans: Sequence[tuple[float, float]], attempt: Attempt) -> bool:
    return any(began < attempt.ended and ended > attempt.began for began, ended in spans)


# ---- the storm


@dataclass(slots=True, kw_only=True)
class SkewedStorm:
    """A storm while it rages, and the plain graph that it is held to after every round."""

    graph: Graph
    processes: Sequence[Skewed]
    choose: random.Random
    fates: random.Random
    """Draws who is killed or stopped in each round, and when, however many requests were drawn by then."""
    asked: dict[str, Asked] = field(default_factory=dict)
    pending: list[Asked] = field(default_factory=list)
    answers: dict[str, str | None] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)
    """The request of each commit."""
    plains: dict[str, Plain] = field(default_factory=dict)
    """What each commit shows."""
    head: str | None = None
    deletions: dict[str, float] = field(default_factory=dict)
    """When each branch may have been deleted last."""
    counts: Counter[str] = field(default_factory=Counter)

    def rage(self, rounds: int) -> None:
        """Let rounds follow one another, and hold the graph to the plain one after each."""
        for number in range(1, rounds + 1):
            attempts = self._run_round()
            self._settle()
            self._compare(attempts)
            if number % SETTLED_EACH == 0 or number == rounds:
                self._write_everything(number)
                self._examine()
                print(f"round {number}: {dict(self.counts)}", flush=True)

    def _run_round(self) -> list[Attempt]:
        for process, shares in zip(self.processes, self._deal(), strict=True):
            process.begin(shares)
        victim, is_killed = self.fates.choice(self.processes), self.fates.random() < 0.5
        time.sleep(self.fates.uniform(0.02, 0.8))
        if is_killed:
            victim.kill()
            self.counts["kills"] += 1
        else:
            victim.stand_still(TAKEN_OVER_SECONDS)
            self.counts["stops"] += 1
        for process in self.processes:
            process.finish()
        return [one for process in self.processes for one in self._read(process, victim)]

    def _deal(self) -> list[list[list[Asked]]]:
        """Deal what got no answer, and new requests, out to the threads of the processes."""
        threads = len(self.processes) * THREADS
        requests, self.pending = self.pending[: threads * REQUESTS], []
        while len(requests) < threads * REQUESTS:
            drawn = draw_asked(self.choose, len(self.asked))
            self.asked[drawn.key] = drawn
            requests.append(drawn)
        self.choose.shuffle(requests)
        shares = [requests[n::threads] for n in range(threads)]
        self.counts["requests"] = len(self.asked)
        self.pending = requests
        return [shares[n * THREADS : (n + 1) * THREADS] for n in range(len(self.processes))]

    def _read(self, process: Skewed, victim: Skewed) -> Iterator[Attempt]:
        """Read what a process tried; every error has a reason, and none is a clock."""
        for attempt in process.read_attempts():
            is_after_a_stop = process.stood_still_during(attempt)
            self.counts["stopped amid"] += is_after_a_stop
            if attempt.is_answered:
                self.counts["answered"] += 1
            else:
                is_late = is_after_a_stop or process.was_late_during(attempt)
                explained = REFUSALS | RACES | (AFTER_A_STOP if is_late else frozenset())
                is_victims = self._is_of(victim, attempt)
                assert attempt.kind in explained or is_victims, (self.asked[attempt.key], attempt)
                late = " on a busy machine" * (is_late and not is_after_a_stop)
                told = "" if attempt.kind in REFUSALS | RACES else late or " of the victim"
                self.counts[f"{attempt.kind}{told}"] += 1
            yield attempt

    def _is_of(self, victim: Skewed, attempt: Attempt) -> bool:
        """Whether an error asks to take back what the victim of this round began: its id has the time of its clock."""
        operation = re.search(r"interrupted \w+ (\w{26})", attempt.error)
        if attempt.kind != RecoveryRequired.kind or operation is None:
            return False
        ahead = seconds_of(operation[1]) - time.time()
        return min(CLOCKS, key=lambda clock: abs(clock - ahead)) == victim.seconds

    def _settle(self) -> None:
        """Wait until the leases of the dead have run out, and complete or take back what they left."""
        deadline = time.monotonic() + WAIT_SECONDS
        self.graph.refresh(roll_back=True)
        while self.graph.pending_recoveries():
            assert time.monotonic() < deadline, self.graph.pending_recoveries()
            time.sleep(0.1)
            self.graph.refresh(roll_back=True)

    # ---- the plain graph

    def _compare(self, attempts: Sequence[Attempt]) -> None:
        """Hold answers, keys, histories and rows of the round to one another."""
        refused = {one.key for one in attempts if one.kind in REFUSALS}
        for attempt in attempts:
            if attempt.is_answered:
                # A key that is answered twice names the same commit both times.
                known = self.answers.setdefault(attempt.key, attempt.commit)
                assert known == attempt.commit, attempt
        dealt, self.pending = self.pending, []
        tried = {attempt.key for attempt in attempts}
        self.counts["left without an answer"] += sum(one.key not in tried for one in dealt)
        for asked in dealt:
            if asked.verb == "delete":
                self.deletions[asked.branch] = time.monotonic()
            if asked.key not in self.answers and asked.verb != "write":
                self._complete(asked)
        branches = [branch.name for branch in self.graph.branches()]
        for asked in dealt:
            if asked.home in branches:
                self._note_landed(asked)
            if asked.home == MAIN and asked.key not in {*self.answers, *refused}:
                self.pending.append(asked)
        for branch in branches:
            history = self._extend(branch)
            for attempt in attempts:
                asked = self.asked[attempt.key]
                may_be_gone = self.deletions.get(branch, 0.0) > attempt.began
                if asked.branch == branch and attempt.commit is not None and not may_be_gone:
                    assert attempt.commit in history, (asked, attempt)

    def _complete(self, asked: Asked) -> None:
        """Ask again for a branch operation whose caller got no answer: what it decided is completed, or it is refused."""
        self.counts["branch operations asked again"] += 1
        attempt = try_once(self.graph, asked)
        if attempt.is_answered:
            self.answers[asked.key] = None
        else:
            assert attempt.kind in REFUSALS, (asked, attempt)

    def _note_landed(self, asked: Asked) -> None:
        """Find the commit of a request by its key, whether or not its caller got an answer."""
        status = self.graph.operation(asked.key, branch=asked.home)
        if status.state is OperationState.UNDECIDED:
            # Its caller died between decision and effect, and another one made or deleted the branch since.
            assert asked.verb != "write", (asked, status)
            assert asked.key not in self.answers, (asked, status)
            self.counts["branch operations undecided"] += 1
            return
        is_landed = status.state is OperationState.LANDED
        if asked.home == MAIN:
            assert is_landed or asked.key not in self.answers, (asked, status)
        if is_landed and asked.key in self.answers and status.commit is not None:
            assert self.answers[asked.key] == status.commit.id, (asked, status)
        if is_landed and status.commit is not None:
            assert self.made.setdefault(status.commit.id, asked.key) == asked.key, asked

    def _extend(self, branch: str) -> set[str]:
        """Apply the new commits of a branch to the plain graph, in their order, and compare; gives its history."""
        commits = self.graph.commits(branch=branch)
        assert all(newer.parent == older.id for newer, older in pairwise(commits)), branch
        assert all(n.created_at >= o.created_at for n, o in pairwise(commits)), branch
        known = next((n for n, one in enumerate(commits) if one.id in self.plains), len(commits))
        plain = self.plains[commits[known].id] if known < len(commits) else Plain()
        if branch == MAIN:
            assert self.head is None or commits[known].id == self.head, "main lost commits"
            self.head = commits[0].id
        for commit in reversed(commits[:known]):
            plain = self.plains[commit.id] = self._apply(commit, plain)
        assert read_branch(self.graph, branch) == plain, branch
        return {commit.id for commit in commits}

    def _apply(self, commit: Commit, plain: Plain) -> Plain:
        """Apply a commit of history; one that nobody asked for shows what was there before."""
        if commit.id not in self.made:
            assert commit.parent is None or commit.actor == RECOVERY_ACTOR, commit
            self.counts["recoveries"] += commit.parent is not None
            return plain
        write = self.asked[self.made[commit.id]].write
        assert write is not None
        self.counts["landed"] += 1
        return write.on(plain)

    def _examine(self) -> None:
        """Let the doctor look: all that a death may leave are forks of a branch that was being deleted, for cleanup."""
        issues = self.graph.doctor()
        assert {one.check for one in issues} <= {"orphan fork"}, [str(one) for one in issues]
        if issues:
            self.counts["orphan forks"] += len(issues)
            self.graph.cleanup(keep=KEEP, confirm=True)
        assert_settled(self.graph)

    def _write_everything(self, number: int) -> None:
        """Write every table of every branch: none is blocked."""
        for branch in [one.name for one in self.graph.branches()]:
            writes: list[Write] = [Settle("last", "z", number), Befriend("last", "last")]
            for n, write in enumerate(writes):
                asked = Asked(f"settled-{number}-{branch}-{n}", branch, write)
                self.asked[asked.key] = asked
                commit = asked.to(self.graph)
                assert commit is not None
                self.made[commit] = asked.key
            self._extend(branch)


def run_skewed_storm(
    place: StormPlace, home: Path, library: Path, seed: int, rounds: int, clocks: Sequence[int]
) -> Counter[str]:
    """Let a storm of processes with these clocks rage over a graph that was just made; gives what came of it."""
    processes = [Skewed(place, library, seconds, home) for seconds in clocks]
    try:
        with place.open() as graph:
            choose, fates = random.Random(seed), random.Random(seed)
            storm = SkewedStorm(graph=graph, processes=processes, choose=choose, fates=fates)
            storm.rage(rounds)
            storm.counts["recovered"] = len(graph.recoveries())
        with place.open() as reopened:
            assert_settled(reopened)
        return storm.counts
    finally:
        for process in processes:
            process.end()


def main() -> None:
    """Run one storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--three", action="store_true")
    options = parser.parse_args()
    process, server = start_s3()
    try:
        with tempfile.TemporaryDirectory() as folder:
            began, home = time.monotonic(), Path(folder)
            bucket = server.new_bucket()
            place = make_place(f"{bucket.uri}/g", bucket.storage_options)
            clocks = THREE if options.three else TWO
            library = build_clock(home)
            counts = run_skewed_storm(place, home, library, options.seed, options.rounds, clocks)
            print(f"{dict(counts)}, {time.monotonic() - began:.0f} s")
    finally:
        stop_s3(process)


if __name__ == "__main__":
    # The processes read what this module wrote, under its own name.
    from tests.support import skewed_storm

    skewed_storm.main()
