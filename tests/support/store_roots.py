"""Roots on every kind of store, as values that a child process can open too."""

import multiprocessing
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from omnigraphdb.storage.layout import Root, root_of
from omnigraphdb.storage.objects.cloud import open_objects
from omnigraphdb.storage.objects.protocol import Objects
from tests.simulation.objects import SimulatedObjects, make_lone_asker
from tests.support.fault_objects import FaultObjects

CHILD_SECONDS_MAX = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRoot:
    """A root of one test, and how to open it."""

    kind: str
    uri: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Root:
        """The root in its canonical spelling."""
        return root_of(self.uri)

    @property
    def is_shared(self) -> bool:
        """Whether other processes can open it."""
        return self.kind != "memory"

    def open(self) -> Objects:
        """Open the texts of the root."""
        if self.kind == "simulated":
            return SimulatedObjects(make_lone_asker(self.uri), self.root)
        objects = open_objects(self.root, self.options, fsync=self.kind == "fsync")
        return FaultObjects(objects, self.root) if self.kind == "fault" else objects


def in_threads(work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Run one thread per set of arguments, all at the same time, and collect what they return."""
    calls = list(arguments)
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(work, *call) for call in calls]]


def race_threads(work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As `in_threads`, with a barrier as first argument that all of them share."""
    calls = list(arguments)
    barrier = threading.Barrier(len(calls), timeout=CHILD_SECONDS_MAX)
    return in_threads(work, [(barrier, *call) for call in calls])


def in_processes(work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Run one fresh process per set of arguments, and collect what they return."""
    context = multiprocessing.get_context("spawn")
    lines, processes = [], []
    for call in arguments:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_answer, args=(theirs, work, call))
        process.start()
        theirs.close()
        lines.append(ours)
        processes.append(process)
    try:
        return [_result(line) for line in lines]
    finally:
        for line, process in zip(lines, processes, strict=True):
            process.join(CHILD_SECONDS_MAX)
            process.kill()
            line.close()


def race_processes(work: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
    """As `in_processes`, with a barrier as first argument that all of them share."""
    calls = list(arguments)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(calls), timeout=CHILD_SECONDS_MAX)
    return in_processes(work, [(barrier, *call) for call in calls])


def _answer(line: Connection, work: Callable[..., Any], call: tuple[Any, ...]) -> None:
    try:
        line.send((True, work(*call)))
    except BaseException as error:
        line.send((False, repr(error)))
        raise


def _result(line: Connection) -> Any:
    assert line.poll(CHILD_SECONDS_MAX), "a child process did not answer"
    succeeded, result = line.recv()
    assert succeeded, f"a child process failed: {result}"
    return result
