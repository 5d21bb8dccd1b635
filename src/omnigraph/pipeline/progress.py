"""Progress: what bulk work says while it runs."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from omnigraph.pipeline.runner import Runner, Step
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is, in parts of it; `total` is None while nobody knows."""

    phase: str
    done: int
    total: int | None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {"phase": self.phase, "done": self.done, "total": self.total}


Tell = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class ReportingRunner:
    """Says of every step when it begins and when it is done; what it is told to raise stops the work."""

    runner: Runner
    tell: Tell

    @property
    def engine(self) -> str:
        """What the report says."""
        return self.runner.engine

    @property
    def workers(self) -> int:
        """About how many splits are worked on at once."""
        return self.runner.workers

    def run(self, step: Step) -> pa.Table:
        """Run a step."""
        parts = len(step.splits)
        self.tell(Progress(step.name, 0, parts))
        found = self.runner.run(step)
        self.tell(Progress(step.name, parts, parts))
        return found
