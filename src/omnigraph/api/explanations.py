"""How a read goes about its work, for people and for the wire."""

from dataclasses import field
from typing import Any

from omnigraph.compile.plan.operators import Operator
from omnigraph.compile.plan.plan import Plan
from omnigraph.engine.read.profile import Step, render
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A plan from the result down: per operator the way it takes, and after a run its rows and milliseconds."""

    plan: Plan = field(repr=False)
    steps: tuple[Step, ...]
    profiled: bool = False

    @property
    def text(self) -> str:
        """The readable tree."""
        return render(self.steps)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All operators in execution order."""
        return self.plan.operators

    def to_dict(self) -> dict[str, Any]:
        """The wire form; rows and milliseconds are there after a run."""
        return {
            "query_name": self.plan.name,
            "profiled": self.profiled,
            "operators": [_step(one) for one in self.steps],
        }

    def __str__(self) -> str:
        return self.text


def _step(step: Step) -> dict[str, Any]:
    body = {"operator": step.operator, "depth": step.depth, "notes": list(step.notes)}
    if step.rows is None:
        return body
    return body | {"rows": step.rows, "milliseconds": step.milliseconds}
