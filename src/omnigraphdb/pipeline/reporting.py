"""A runner that reports the progress of its steps."""

from dataclasses import replace
from functools import reduce

import pyarrow as pa

from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.progress import OnProgress, Progress
from omnigraphdb.pipeline.runner import Runner, Split, Step
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class ReportingRunner:
    """A runner that tells when a step begins, when a part is done in this process, and when all are done.

    An error of `on_progress` stops the work.
    """

    runner: Runner
    on_progress: OnProgress

    @property
    def engine(self) -> str:
        """The name in the load report."""
        return self.runner.engine

    @property
    def workers(self) -> int:
        """About how many splits run at once."""
        return self.runner.workers

    def run(self, step: Step) -> pa.Table:
        """Run a step."""
        counter = _PartCounter(_begin(step), self.on_progress)
        if isinstance(self.runner, LocalRunner):
            rows = self.runner.with_watch(counter.add).run(step)
        else:
            rows = self.runner.run(step)
        self.on_progress(reduce(_add_split, step.splits, _begin(step)))
        return rows


class _PartCounter:
    """Counts the splits that are done; the last one is left to the end of its step, which may have more to do."""

    def __init__(self, progress: Progress, report: OnProgress) -> None:
        self._progress = progress
        self._tell = report
        report(progress)

    def add(self, split: Split) -> None:
        self._progress = _add_split(self._progress, split)
        if self._progress.done != self._progress.total:
            self._tell(self._progress)


def _begin(step: Step) -> Progress:
    return Progress(step.name, 0, len(step.splits), rows=0, bytes=0)


def _add_split(progress: Progress, split: Split) -> Progress:
    return replace(
        progress,
        done=progress.done + 1,
        rows=_add_count(progress.rows, getattr(split, "rows", None)),
        bytes=_add_count(progress.bytes, getattr(split, "bytes", None)),
    )


def _add_count(total: int | None, count: int | None) -> int | None:
    return None if total is None or count is None else total + count
