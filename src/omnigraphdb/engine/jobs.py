"""Jobs: work that lasts longer than a moment shows itself in `__jobs`, with a heartbeat, while it runs.

A record is information, never a lock: no process waits for it, and a writer that cannot write it goes on without it.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from omnigraphdb.errors import OmniError
from omnigraphdb.limits import JOB_BEGIN_SECONDS, JOB_EXPIRE_SECONDS, JOB_RENEW_SECONDS
from omnigraphdb.logs import get_logger
from omnigraphdb.pipeline.progress import OnProgress, Progress, ignore_progress
from omnigraphdb.runtime import Runtime, datetime_of
from omnigraphdb.storage.layout import JOBS, job_path
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, from_dict, wire

_log = get_logger(__name__)


class JobKind(StrEnum):
    """The work of a job."""

    LOAD = "load"
    MERGE = "merge"
    EXPORT = "export"
    INDEX = "index"
    OPTIMIZE = "optimize"
    CLEANUP = "cleanup"
    SCHEMA_APPLY = "schema_apply"
    QUERY = "query"
    """A read on Spark; other reads are not jobs."""


class JobState(StrEnum):
    """The state of a job; a running job renews its heartbeat."""

    RUNNING = "running"
    DEAD = "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Value):
    """Long work and its progress; a dead job fell silent, because its process died or lost its store."""

    id: str = field(metadata=wire("job_id"))
    kind: JobKind
    branch: str
    actor: str | None = field(metadata=wire("actor_id"))
    state: JobState = field(metadata=wire(hint=Literal["running", "dead"]))
    started_at: datetime
    renewed_at: datetime
    host: str
    process: int
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList(Value):
    """Jobs of every process, oldest first."""

    jobs: tuple[Job, ...]


@dataclass(slots=True, kw_only=True)
class _Running:
    """A job of this process; its record exists once it has lasted long enough."""

    id: str
    kind: JobKind
    branch: str
    actor: str | None
    started_us: int
    began: float
    renewed: float | None = None
    progress: Progress | None = None
    ended: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self, now: float) -> bool:
        """Whether the record is to be written, or renewed."""
        if self.renewed is None:
            return now - self.began >= JOB_BEGIN_SECONDS
        return now - self.renewed >= JOB_RENEW_SECONDS


class Jobs:
    """The jobs of one graph: keeps the records of the jobs that run here, and lists the jobs of all processes."""

    def __init__(self, objects: Objects, runtime: Runtime, *, writes: bool) -> None:
        self._objects, self._runtime, self._writes = objects, runtime, writes
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._keeper: threading.Thread | None = None

    @contextmanager
    def keep(
        self, kind: JobKind, branch: str, actor: str | None, on_progress: OnProgress | None = None
    ) -> Iterator[OnProgress]:
        """Show work while it runs, if it lasts; its progress goes into its record, and on to `on_progress`."""
        listener = on_progress or ignore_progress
        if not self._writes:
            yield listener
            return
        job = self._begin(kind, branch, actor)

        def note(progress: Progress) -> None:
            job.progress = progress
            listener(progress)

        try:
            yield note
        finally:
            self._end(job)

    def _begin(self, kind: JobKind, branch: str, actor: str | None) -> _Running:
        job = _Running(
            id=self._runtime.new_id(),
            kind=kind,
            branch=branch,
            actor=actor,
            started_us=self._runtime.now_us(),
            began=self._runtime.monotonic(),
        )
        with self._lock:
            self._running[job.id] = job
            # The thread of a parent process does not live on in a fork.
            if self._keeper is None or not self._keeper.is_alive():
                self._keeper = threading.Thread(
                    target=self._keep, name="omnigraph-jobs", daemon=True
                )
                self._keeper.start()
        return job

    def _end(self, job: _Running) -> None:
        with self._lock:
            self._running.pop(job.id, None)
        with job.lock:
            job.ended = True
            if job.renewed is not None:
                self._remove(job.id)

    def _remove(self, job_id: str) -> None:
        try:
            self._objects.delete(job_path(job_id))
        except OmniError as error:
            # The record expires; the outcome of the work is decided.
            _log.warning("job.record_not_removed", job_id=job_id, error=str(error))

    # ---- the thread that writes records

    def _keep(self) -> None:
        """Write and renew records until no job runs; a short job ends before its record would be due."""
        tick = threading.Event()
        while True:
            with self._lock:
                if not self._running:
                    self._keeper = None
                    return
                running = list(self._running.values())
            for job in running:
                if job.is_due(self._runtime.monotonic()):
                    self._write(job)
            tick.wait(JOB_BEGIN_SECONDS / 4)

    def _write(self, job: _Running) -> None:
        with job.lock:
            if job.ended:
                return
            job.renewed = self._runtime.monotonic()
            try:
                self._objects.put(job_path(job.id), _encode(job, self._runtime.now_us()))
            except OmniError as error:
                _log.warning("job.record_not_written", job_id=job.id, error=str(error))

    # ---- records of all processes

    def list(self) -> list[Job]:
        """List the jobs of every process, oldest first."""
        now = self._runtime.now_us()
        jobs = (self._read(path, now) for path in self._objects.list(JOBS))
        return sorted((job for job in jobs if job is not None), key=lambda job: job.id)

    def _read(self, path: str, now_us: int) -> Job | None:
        text = self._objects.read(path)
        return None if text is None else _decode(text, now_us)

    def sweep(self, *, dry_run: bool) -> tuple[str, ...]:
        """Remove the records of dead jobs; return their ids."""
        dead = [job.id for job in self.list() if job.state is JobState.DEAD]
        for job_id in () if dry_run else dead:
            self._remove(job_id)
        return tuple(dead)


def _encode(job: _Running, now_us: int) -> str:
    return json.dumps(
        {
            "job_id": job.id,
            "kind": str(job.kind),
            "branch": job.branch,
            "actor_id": job.actor,
            "started_us": job.started_us,
            "renewed_us": now_us,
            "host": socket.gethostname(),
            "process": os.getpid(),
            "progress": None if job.progress is None else job.progress.to_dict(),
        }
    )


def _decode(text: str, now_us: int) -> Job | None:
    """Read a record; None when it is torn, or of a kind that this release does not know."""
    try:
        body = json.loads(text)
        renewed, progress = int(body["renewed_us"]), body["progress"]
        host, process = str(body["host"]), int(body["process"])
        silent = now_us - renewed > JOB_EXPIRE_SECONDS * 1_000_000
        dead = silent or not _may_live(host, process)
        return Job(
            id=str(body["job_id"]),
            kind=JobKind(body["kind"]),
            branch=str(body["branch"]),
            actor=body["actor_id"],
            state=JobState.DEAD if dead else JobState.RUNNING,
            started_at=datetime_of(int(body["started_us"])),
            renewed_at=datetime_of(renewed),
            host=host,
            process=process,
            progress=None if progress is None else from_dict(Progress, progress),
        )
    except (ValueError, LookupError, TypeError):
        return None


def _may_live(host: str, process: int) -> bool:
    """Whether a process may be alive; for a process of this machine, that is clear before its heartbeat expires."""
    if host != socket.gethostname():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
