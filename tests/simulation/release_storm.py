"""A storm of two releases: processes of both write one graph on a store that fails at random, and die at random.

`python -m tests.simulation.release_storm --seconds 300 --seed 7` runs one. The graph is made by the other release and has an
earlier stamp, so that the processes of both migrate it at once, while a reader of the other release has it open. A release may
refuse by number what another one wrote; it may not change it.
"""

import argparse
import logging
import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import FormatVersion, OmniError
from omnigraphdb.failpoints import Failpoint, arm_from
from omnigraphdb.manifest.stamp import STAMP
from tests.simulation.releases import ROOT, SOURCES, name_release, unpack_release
from tests.support.leases import LONG_AFTER
from tests.support.plain_model import SCHEMA, read_branch
from tests.support.s3 import Bucket, S3Server, start_s3, stop_s3
from tests.support.storm import (
    CLIENT,
    REQUESTS_MAX,
    STORM_LEASE_SECONDS,
    Request,
    Storm,
    StormPlace,
    Writer,
    failing_store,
    write_each,
)
from tests.support.writers import in_threads

EARLIER_STAMP: Final = "4"
"""The manifest of a graph without operations, tags and policies is the same at this stamp."""
END_SECONDS: Final = 240.0
VISITORS: Final = 3
VISIT_SECONDS: Final = 6.0
"""Visitors come within so many seconds after the residents, which write so long: their handles are open meanwhile."""
READ_SECONDS: Final = 0.5
REFUSED: Final = "refused"


# ---- in the process of a release


def write_shares(
    place: StormPlace,
    shares: Sequence[Sequence[Request]],
    log: str,
    failpoints: str,
    delay: float,
    pause: float,
) -> None:
    """Open the graph once, some time later, and write from several threads, noting every acknowledged key."""
    time.sleep(delay)
    name, _, _ = failpoints.partition("=")
    if name in set(Failpoint):  # another release may not have it
        arm_from(failpoints)
    try:
        graph = place.open()
    except OmniError:
        return
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(requests: Sequence[Request]) -> None:
        for request in requests:
            write_each(graph, [request], descriptor)
            time.sleep(pause)

    raised = in_threads([partial(write, requests) for requests in shares])
    assert not any(raised), raised


def read_on(place: StormPlace) -> None:
    """Open the graph once to read, and read until standard input ends; history only grows."""
    graph = place.open(read_only=True)
    print("open", flush=True)
    os.set_blocking(sys.stdin.fileno(), False)
    seen: list[str] = []
    while sys.stdin.read(1) != "":
        try:
            commits = [commit.id for commit in reversed(graph.commits())]
            read_branch(graph, "main", commits[-1])
        except FormatVersion:
            print(REFUSED, flush=True)
            return
        except OmniError:
            continue  # the store fails at random
        assert commits[: len(seen)] == seen, "a commit is gone"
        seen = commits
        time.sleep(READ_SECONDS)


def show(place: StormPlace) -> None:
    """Print the rows of main, or that this release refuses the graph by its number."""
    try:
        with place.open(read_only=True) as graph:
            print(spell_rows(graph))
    except FormatVersion:
        print(REFUSED)


def spell_rows(graph: Graph) -> str:
    """Spell what main shows, in one order."""
    plain = read_branch(graph, "main")
    return repr([sorted(plain.people), sorted(plain.cities), plain.knows, plain.lives])


def make_graph(place: StormPlace) -> None:
    """Make the graph of a storm."""
    omnigraphdb.init(place.uri, SCHEMA, storage_options=place.options).close()


WORKS: Final[Mapping[str, Callable[..., None]]] = {
    work.__name__: work for work in (write_shares, read_on, show, make_graph)
}
_ENTRY: Final = f"""
import sys
from omnigraphdb import limits
limits.LEASE_SECONDS, limits.LEASE_RENEW_SECONDS = {STORM_LEASE_SECONDS}, {STORM_LEASE_SECONDS / 3}
from tests.simulation.release_storm import run_task
run_task(*sys.argv[1:])
"""
"""Short leases in any release: its limits change before another module reads them."""


# ---- processes


@dataclass(slots=True)
class ReleaseProcess:
    """A process with the sources of a release."""

    process: subprocess.Popen[str]
    sources: Path
    work: str

    def __str__(self) -> str:
        return f"{self.work} with {self.sources}"

    @property
    def exitcode(self) -> int | None:
        """The code that it ended with; None while it runs."""
        return self.process.poll()

    def kill(self) -> None:
        """Kill it, wherever it is."""
        self.process.kill()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, and close its pipes."""
        self.process.communicate(timeout=timeout)


def start(sources: Path, work: str, **arguments: Any) -> ReleaseProcess:
    """Start a function of this module with the sources of a release."""
    with tempfile.NamedTemporaryFile(suffix=".task", delete=False) as file:
        file.write(pickle.dumps(arguments))
    process = subprocess.Popen(
        [sys.executable, "-c", _ENTRY, work, file.name],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "PYTHONFAULTHANDLER": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return ReleaseProcess(process, sources, work)


def run(sources: Path, work: str, **arguments: Any) -> str:
    """Run a function of this module with the sources of a release; the text that it prints."""
    child = start(sources, work, **arguments)
    printed, _ = child.process.communicate(timeout=END_SECONDS)
    assert child.exitcode == 0, f"{child} ended with {child.exitcode}"
    return printed


def run_task(work: str, file: str) -> None:
    """Do the work of a child process."""
    logging.disable(logging.CRITICAL)
    arguments = pickle.loads(Path(file).read_bytes())
    Path(file).unlink()
    WORKS[work](**arguments)


# ---- the storm


@dataclass(slots=True, kw_only=True)
class ReleaseStorm(Storm):
    """A storm whose processes have the sources of several releases."""

    sources: Mapping[str, Path]
    """The releases by name."""
    written: dict[str, int]
    """The number of keys that each release acknowledged."""
    visit_seconds: float = VISIT_SECONDS

    def rage_for(self, seconds: float) -> None:
        """Let generations of writers follow one another for so long; one at least."""
        end = time.monotonic() + seconds
        self._run_generation(sys.maxsize)
        while time.monotonic() < end:
            self._run_generation(sys.maxsize)

    def _run_generation(self, rounds: int) -> None:
        """Let a resident of each release write slowly, while visitors of both come, write and go."""
        shares = self._deal_requests(rounds)
        names = list(self.sources)
        logs = {name: str(self.home / f"{name}-{len(self.asked)}") for name in names}
        children: list[tuple[Writer, float | None]] = []
        for name in names:
            own, shares = shares[:1], shares[1:]
            child = self._start(
                name, own, logs[name], delay=0.0, pause=self.visit_seconds / REQUESTS_MAX
            )
            children.append((child, self._draw_kill(0.25)))
        for _ in range(VISITORS):
            own, shares = shares[:2], shares[2:]
            name, delay = self.choose.choice(names), self.choose.uniform(0.0, self.visit_seconds)
            child = self._start(name, own, logs[name], delay=delay, pause=0.0)
            children.append((child, self._draw_kill(0.3)))
        self._wait(children)
        for name, log in logs.items():
            before = len(self.acknowledged)
            self._read(log)
            self.written[name] += len(self.acknowledged) - before

    def _start(
        self,
        name: str,
        shares: Sequence[Sequence[Request]],
        log: str,
        *,
        delay: float,
        pause: float,
    ) -> Writer:
        return start(
            self.sources[name],
            "write_shares",
            place=self.place,
            shares=shares,
            log=log,
            failpoints=self._draw_death(),
            delay=delay,
            pause=pause,
        )

    def _draw_kill(self, chance: float) -> float | None:
        """Draw whether a process is killed from outside, and when."""
        seconds = self.choose.uniform(1.0, 2 * self.visit_seconds)
        return seconds if self.choose.random() < chance else None


def make_place(bucket: Bucket, other: Path) -> StormPlace:
    """Let the other release make a graph, and give it the earlier stamp."""
    place = StormPlace(uri=f"{bucket.uri}/g", options={**bucket.storage_options, **CLIENT})
    run(other, "make_graph", place=place)
    with place.open() as graph:
        rows = graph._engine.manifest.rows
        rows.set_metadata(rows.load(None), STAMP, EARLIER_STAMP)
    return place


@contextmanager
def reading(other: Path, place: StormPlace) -> Iterator[None]:
    """Let a process of the other release hold the graph open, and read it, while the block runs."""
    reader = start(other, "read_on", place=place)
    assert reader.process.stdout is not None
    assert reader.process.stdout.readline() == "open\n"
    try:
        yield
    finally:
        reader.join(END_SECONDS)
    assert reader.exitcode == 0, "the reader of the other release failed"


def run_release_storm(
    bucket: Bucket, home: Path, seed: int, seconds: float, other: Path
) -> ReleaseStorm:
    """Let both releases write one graph while the store fails; judge what is left, with both of them."""
    place = make_place(bucket, other)
    sources = {"this": SOURCES, "other": other}
    storm = ReleaseStorm(
        place=place,
        home=home,
        choose=random.Random(seed),
        sources=sources,
        written=dict.fromkeys(sources, 0),
        visit_seconds=min(VISIT_SECONDS, seconds),
    )
    with reading(other, place), failing_store(bucket.server, seed):
        storm.rage_for(seconds)
    bucket.pass_time(LONG_AFTER)
    with storm.settle() as graph:
        storm.check(graph)
        rows = spell_rows(graph)
    assert run(other, "show", place=place).strip() in (rows, REFUSED)
    return storm


def main() -> None:
    """Run one storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the storm, its end excluded"
    )
    parser.add_argument("--release", default=name_release(), help="a revision of this repository")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home, began = Path(folder), time.monotonic()
        other = unpack_release(arguments.release, home / "release")
        process, server = start_s3()
        try:
            storm = _run_on(server, home, arguments, other)
        finally:
            stop_s3(process)
        print(
            f"{len(storm.asked)} requests, {len(storm.acknowledged)} landed, {storm.written} by release, "
            f"{storm.deaths} deaths, {time.monotonic() - began:.0f} s"
        )


def _run_on(
    server: S3Server, home: Path, arguments: argparse.Namespace, other: Path
) -> ReleaseStorm:
    return run_release_storm(server.new_bucket(), home, arguments.seed, arguments.seconds, other)


if __name__ == "__main__":
    main()
