"""A writer: a function from a view to a plan, and what became of it."""

from collections.abc import Callable
from typing import Generic, TypeVar

from omnigraphdb.commit.plan import WritePlan
from omnigraphdb.commit.protocol import CommittedPlan
from omnigraphdb.engine.cached.ids import GroupIds
from omnigraphdb.manifest.publish import Published
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.view import View
from omnigraphdb.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateView(View):
    """What a member of a group sees: the state that the members before it leave, which nobody else sees yet."""

    ids: GroupIds
    """The ids of its tables, as far as they are known."""


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """What a writer makes of a view: a plan, None when there is nothing to write, and what it will report."""

    plan: WritePlan | None
    outcome: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[T]):
    """A write that ended: what it reports, the view it was prepared on, and what was published, if anything."""

    view: View
    plan: WritePlan | None
    outcome: T
    committed: CommittedPlan | None = None

    @property
    def published(self) -> Published | None:
        """What became visible; None when there was nothing to write."""
        return None if self.committed is None else self.committed.published

    @property
    def commit(self) -> GraphCommit | None:
        """The commit it made; None when there was nothing to write."""
        return None if self.published is None else self.published.commit


Prepare = Callable[[View], Prepared[T]]
"""A writer: a function from a view to a plan and an outcome."""
