"""Child processes that fail, wait or die at a failpoint, each like a new process."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from omnigraphdb.failpoints import Failpoint, arm_from, armed

WAIT_SECONDS: Final = 240.0
KILLED: Final = -9
KILL_LOG: Final = "FAILPOINT_KILL_LOG"
"""The environment variable that names a file. Each failpoint at which a child was killed becomes a line of it."""

# A process must not fork once Lance runs in it. The fork server only imports, so each of its forks is like a new process
# and starts in a tenth of the time.
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.support.warm"])

Work = Callable[..., Any]


def run_child(work: Work, *arguments: Any, failpoints: str = "") -> int:
    """Run a function of some module in a process of its own; give its exit code."""
    child = _context.Process(target=_arm_and_run, args=(failpoints, work, arguments), daemon=True)
    child.start()
    code = _wait_for_end(child)
    name, _, action = failpoints.partition("=")
    if code == KILLED and action.endswith("exit") and ";" not in failpoints:
        _log_kill(Failpoint(name))
    return code


def spawn(work: Work, *arguments: Any) -> BaseProcess:
    """Start a function of some module in a process of its own, which the caller ends."""
    child = _context.Process(target=_arm_and_run, args=("", work, arguments), daemon=True)
    child.start()
    return child


def _arm_and_run(failpoints: str, work: Work, arguments: tuple[Any, ...]) -> None:
    arm_from(failpoints)
    work(*arguments)


def _wait_for_end(child: BaseProcess) -> int:
    child.join(WAIT_SECONDS)
    if child.exitcode is None:
        child.kill()
        raise AssertionError("a child process did not finish")
    return child.exitcode


@dataclass(frozen=True, slots=True)
class ParkedChild:
    """A process that waits at a failpoint until it is released or killed."""

    process: BaseProcess
    line: Connection
    at: Failpoint

    def release(self) -> None:
        """Let the process continue, and wait for its end."""
        self.line.send("go")
        assert _wait_for_end(self.process) == 0

    def kill(self) -> None:
        """Kill the process at its failpoint."""
        self.process.kill()
        assert _wait_for_end(self.process) == KILLED
        _log_kill(self.at)


def _log_kill(at: Failpoint) -> None:
    path = os.environ.get(KILL_LOG)
    if path:
        with Path(path).open("a") as log:
            log.write(f"{at.value}\n")


@contextmanager
def run_parked_child(
    work: Work, *arguments: Any, at: Failpoint, skip: int = 0
) -> Iterator[ParkedChild]:
    """Run a function in a process that stops at a failpoint; it waits there when the block begins."""
    ours, theirs = _context.Pipe()
    child = _context.Process(target=_park_at, args=(theirs, at, skip, work, arguments), daemon=True)
    child.start()
    theirs.close()
    try:
        assert ours.poll(WAIT_SECONDS), "a child process did not reach its failpoint"
        assert ours.recv() == "reached"
        yield ParkedChild(child, ours, at)
    finally:
        child.kill()
        child.join(WAIT_SECONDS)
        ours.close()


def _park_at(
    line: Connection, at: Failpoint, skip: int, work: Work, arguments: tuple[Any, ...]
) -> None:
    passed = 0

    def stand() -> None:
        nonlocal passed
        passed += 1
        if passed == skip + 1:
            line.send("reached")
            line.recv()

    with armed(at, stand):
        work(*arguments)
