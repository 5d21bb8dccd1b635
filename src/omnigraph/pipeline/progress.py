"""Progress reports of bulk work while it runs."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from omnigraph.pipeline.runner import Runner, Step
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How many parts of a phase are done; `total` is None while it is not known."""

    phase: str
    done: int
    total: int | None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {"phase": self.phase, "done": self.done, "total": self.total}


Tell = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class ReportingRunner:
    """Calls `tell` when a step begins and when it is done; an error that `tell` raises stops the work."""

    runner: Runner
    tell: Tell

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
        parts = len(step.splits)
        self.tell(Progress(step.name, 0, parts))
        rows = self.runner.run(step)
        self.tell(Progress(step.name, parts, parts))
        return rows
