"""Errors of Spark and of its executors in our words: the line that names the cause, and the host where it happened."""

from collections.abc import Iterator, Sequence
from platform import node
from typing import Any, Final

from py4j.protocol import Py4JError

from omnigraphdb.errors import OmniError, StorageError, TableNotFound

_CAUSED: Final = "Caused by: "

TASKS_MAX: Final = 10_000
"""Tasks of a stage that are searched for failures."""

EVENTS_MS_MAX: Final = 5_000
"""Time that Spark may take to note the end of a task."""


def find_error_line(text: str) -> str:
    """Find the cause of a Spark error: the last line of a Python traceback, else the causes in Java, else its first line."""
    lines = [line for line in text.splitlines() if line.strip()]
    cause = _find_python_error(lines) or _find_java_causes([line.strip() for line in lines])
    return cause or "no reason was given"


def _find_python_error(lines: Sequence[str]) -> str | None:
    """Find the end of the last traceback: the first line behind its frames, which are indented."""
    begins = [i for i, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if not begins:
        return None
    margin = _measure_indent(lines[begins[-1]])
    behind = lines[begins[-1] + 1 :]
    return next((line.strip() for line in behind if _measure_indent(line) <= margin), None)


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _find_java_causes(lines: Sequence[str]) -> str:
    """Join the last two causes: they name the file and its problem; the number of tries of a task is not a cause."""
    caused = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    causes = [cause for cause in dict.fromkeys(caused) if "Job aborted" not in cause]
    return "; ".join(causes[-2:]) or next(iter(lines), "")


def find_failed_hosts(spark: Any, group: str) -> list[str]:
    """Find the hosts where tasks of a job group failed; errors that Python raised there do not name them."""
    context = spark.sparkContext
    java = context._jsc.sc()
    try:
        java.listenerBus().waitUntilEmpty(EVENTS_MS_MAX)
        jobs = map(
            context.statusTracker().getJobInfo, context.statusTracker().getJobIdsForGroup(group)
        )
        stages = [stage for job in jobs if job is not None for stage in job.stageIds]
        return sorted(
            {host for stage in stages for host in _list_failed(java.statusStore(), stage)}
        )
    except Py4JError:
        # Where tasks failed is a help and no more: the error is told without it.
        return []


def _list_failed(store: Any, stage: int) -> Iterator[str]:
    attempt = store.lastStageAttempt(stage).attemptId()
    tasks = store.taskList(stage, attempt, TASKS_MAX)
    for index in range(tasks.size()):
        if tasks.apply(index).status() == "FAILED":
            yield tasks.apply(index).host()


def find_host(error: OmniError) -> str | None:
    """Name this host when an error may be due to it: a file or a store that it cannot reach, or another one in its place."""
    cause = error.__cause__
    # A file with damaged content raises an OSError too, without a number.
    is_unreachable = isinstance(cause, OSError) and cause.errno is not None
    return node() if is_unreachable or isinstance(error, StorageError | TableNotFound) else None


def name_host(error: OmniError, host: str | None) -> OmniError:
    """Let an error say on which host of a cluster it happened."""
    if host is not None:
        advice = f"{error.hint}; this" if error.hint else "this"
        error.hint = (
            f"{advice} happened on executor host '{host}': every executor must reach the files and "
            "the store under the same names"
        )
    return error
