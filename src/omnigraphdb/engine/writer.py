"""A writer: a function from a view to a plan, and its result."""

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
class GroupView(View):
    """The view of a member of a group: the state that the earlier members leave, which no other writer sees yet."""

    ids: GroupIds
    """The ids of its tables, as far as they are known."""


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """A write prepared on a view: its plan, None when there is nothing to write, and the outcome to report."""

    plan: WritePlan | None
    outcome: T


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedWrite(Generic[T]):
    """A write that ended: its outcome, the view it was prepared on, and its published state, if any."""

    view: View
    plan: WritePlan | None
    outcome: T
    committed: CommittedPlan | None = None

    @property
    def published(self) -> Published | None:
        """The state that became visible; None when there was nothing to write."""
        return None if self.committed is None else self.committed.published

    @property
    def commit(self) -> GraphCommit | None:
        """The commit that the write made; None when there was nothing to write."""
        return None if self.published is None else self.published.commit


Prepare = Callable[[View], Prepared[T]]
"""A writer: a function from a view to a plan and an outcome."""
