"""Jobs: long work shows itself while it runs, a dead one is told from a living one, short work asks nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.results import Job
from omnigraphdb.engine.jobs import JobKind, Jobs, JobState
from omnigraphdb.limits import JOB_BEGIN_SECONDS, JOB_EXPIRE_SECONDS, JOB_RENEW_SECONDS
from omnigraphdb.pipeline.progress import Progress
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.layout import JOBS, job_path
from omnigraphdb.storage.store import open_store
from tests.support.fault_objects import Failure, FaultObjects
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I32? @index }"
PEOPLE = [{"type": "Person", "data": {"name": name}} for name in ("Ada", "Bo")]


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, actor="ada") as opened:
        yield opened
        assert_settled(opened)


def await_jobs(graph: Graph, fits: Callable[[list[Job]], bool]) -> list[Job]:
    """Look until the list of jobs fits."""
    tick = threading.Event()
    for _ in range(400):
        found = graph.jobs()
        if fits(found):
            return found
        tick.wait(0.05)
    raise AssertionError(f"jobs stayed {found}")


def test_long_work_shows_itself_while_it_runs(graph: Graph, tmp_path: Path) -> None:
    graph.branch_create("review")
    graph.load(PEOPLE, mode="append", branch="review")
    go_on = threading.Event()

    def park(_: Progress) -> None:
        assert go_on.wait(60)

    lines = graph.export_lines(branch="review")
    next(lines)
    more = [{"type": "Person", "data": {"name": "Cy"}}]
    with ThreadPoolExecutor() as pool, omnigraphdb.open(graph.uri, read_only=True) as other:
        load = pool.submit(lambda: graph.load(more, mode="append", branch="review", progress=park))
        await_jobs(other, lambda jobs: len(jobs) == 2)
        index = pool.submit(lambda: graph.ensure_indices(progress=park))
        found = await_jobs(other, lambda jobs: len(jobs) == 3)
        go_on.set()
        assert load.result().total_rows == 1
        assert index.result().built >= 0
        list(lines)
        assert other.jobs() == []
    assert [(job.kind, job.branch, job.actor) for job in found] == [
        (JobKind.EXPORT, "review", None),
        (JobKind.LOAD, "review", "ada"),
        (JobKind.INDEX, "main", "ada"),
    ]
    assert {(job.state, job.process, job.host) for job in found} == {
        (JobState.RUNNING, os.getpid(), socket.gethostname())
    }
    assert found[1].progress is not None
    assert found[1].progress.phase == "read"
    assert list((tmp_path / "g" / JOBS).iterdir()) == []


def test_work_that_ends_soon_asks_nothing_of_the_store(graph: Graph, tmp_path: Path) -> None:
    graph.load(PEOPLE, mode="append")
    graph.mutate('query q() { insert Person { name: "Cy" } }')
    list(graph.export())
    assert not (tmp_path / "g" / JOBS).exists()


def test_work_that_fails_takes_its_record_with_it(graph: Graph) -> None:
    def fail_late(_: Progress) -> None:
        await_jobs(graph, lambda jobs: len(jobs) == 1)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        graph.load(PEOPLE, mode="append", progress=fail_late)
    assert graph.jobs() == []


CHILD = """
import sys, threading, omnigraphdb
with omnigraphdb.open(sys.argv[1]) as graph:
    graph.load([{"type": "Person", "data": {"name": "Di"}}], mode="append", progress=lambda _: threading.Event().wait())
"""


def test_a_killed_job_is_shown_as_dead_until_cleanup(graph: Graph) -> None:
    child = subprocess.Popen([sys.executable, "-c", CHILD, graph.uri])
    try:
        [running] = await_jobs(graph, lambda jobs: len(jobs) == 1)
        assert (running.state, running.process) == (JobState.RUNNING, child.pid)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(30)
    [dead] = graph.jobs()
    assert (dead.id, dead.state) == (running.id, JobState.DEAD)
    assert graph.cleanup(keep=100).jobs_removed == (dead.id,)
    assert graph.jobs() == [dead]
    assert graph.cleanup(keep=100, confirm=True).jobs_removed == (dead.id,)
    assert graph.jobs() == []


def record(**changed: Any) -> str:
    body = {
        "job_id": "01J",
        "kind": "merge",
        "branch": "main",
        "actor_id": None,
        "started_us": 1,
        "renewed_us": SYSTEM.now_us(),
        "host": "elsewhere",
        "process": 1,
        "progress": None,
    }
    return json.dumps(body | changed)


def test_a_job_of_another_machine_lives_as_long_as_its_heartbeat(graph: Graph) -> None:
    objects = graph._engine.store.objects
    objects.put(job_path("01J"), record())
    assert [job.state for job in graph.jobs()] == [JobState.RUNNING]
    assert graph.cleanup(older_than=timedelta(0), confirm=True).jobs_removed == ()
    silent = SYSTEM.now_us() - int((JOB_EXPIRE_SECONDS + 1) * 1_000_000)
    objects.put(job_path("01J"), record(renewed_us=silent))
    assert [job.state for job in graph.jobs()] == [JobState.DEAD]
    assert graph.cleanup(keep=100, confirm=True).jobs_removed == ("01J",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"job_id": "x"}', record(kind="dream")])
def test_a_record_that_cannot_be_understood_is_left_alone(graph: Graph, text: str) -> None:
    graph._engine.store.objects.put(job_path("01K"), text)
    assert graph.jobs() == []
    assert graph.cleanup(keep=100, confirm=True).jobs_removed == ()


class SteppingClock:
    """The clock of this machine, and steps of it that a test takes."""

    ahead = 0.0

    def now_us(self) -> int:
        return SYSTEM.now_us() + int(self.ahead * 1_000_000)

    def monotonic(self) -> float:
        return SYSTEM.monotonic() + self.ahead

    def new_id(self) -> str:
        return SYSTEM.new_id()

    def wait(self, seconds: float) -> None:
        SYSTEM.wait(seconds)

    def jitter(self, seconds: float) -> float:
        return SYSTEM.jitter(seconds)


def test_a_record_is_renewed_with_what_the_work_tells(tmp_path: Path) -> None:
    clock, tick = SteppingClock(), threading.Event()
    jobs = Jobs(open_store(str(tmp_path)).objects, clock, writes=True)

    def await_renewed(after: float) -> Job:
        for _ in range(400):
            found = [job for job in jobs.list() if job.renewed_at.timestamp() > after]
            if found:
                return found[0]
            tick.wait(0.02)
        raise AssertionError("the record was not renewed")

    with jobs.keep(JobKind.OPTIMIZE, "main", None) as on_progress:
        clock.ahead += JOB_BEGIN_SECONDS
        first = await_renewed(0)
        on_progress(Progress("optimize", 1, 2))
        clock.ahead += JOB_RENEW_SECONDS
        second = await_renewed(first.renewed_at.timestamp())
    assert (first.progress, second.progress) == (None, Progress("optimize", 1, 2))
    assert second.started_at == first.started_at
    assert jobs.list() == []


def test_work_goes_on_where_its_record_cannot_be_written(tmp_path: Path) -> None:
    clock, tick = SteppingClock(), threading.Event()
    store = open_store(str(tmp_path))
    objects = FaultObjects(store.objects, store.root)
    broken = objects.fail("put", failure=Failure.DENIED, times=None)
    jobs = Jobs(objects, clock, writes=True)
    with jobs.keep(JobKind.LOAD, "main", None):
        clock.ahead += JOB_BEGIN_SECONDS
        for _ in range(400):
            if broken.seen:
                break
            tick.wait(0.02)
    assert broken.seen == 1
    assert jobs.list() == []


def test_a_handle_that_only_reads_writes_no_record(tmp_path: Path) -> None:
    clock = SteppingClock()
    jobs = Jobs(open_store(str(tmp_path)).objects, clock, writes=False)
    with jobs.keep(JobKind.EXPORT, "main", None):
        clock.ahead += JOB_BEGIN_SECONDS
        assert jobs._keeper is None
    assert not any(tmp_path.iterdir())
