"""The facts of a call beside the arguments of its verb: who asks, why, under which condition, and who listens."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omnigraphdb.api.arguments import Reference as Reference
from omnigraphdb.api.arguments import key_of, shows_of
from omnigraphdb.api.results import Commit
from omnigraphdb.commit.plan import WriteOptions
from omnigraphdb.ids import CommitId
from omnigraphdb.manifest.names import commit_message
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.api.types import SparkChoice
    from omnigraphdb.pipeline.progress import OnProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a verb; nothing in it changes the meaning of the arguments."""

    actor: str | None = None
    message: str | None = None
    key: str | None = None
    """The idempotency key: the request takes effect once."""
    if_commit: str | Commit | None = None
    """The head that the branch must have."""
    progress: "OnProgress | None" = None
    spark: "SparkChoice" = "auto"
    shows: Callable[[str], bool] | None = None
    """Says of a branch whether the caller may see it; all by default."""
    attempt: Callable[[Any, Any, str], str | None] | None = None
    """Runs a further verb about a branch for the same caller, and gives the text of its refusal; None: as the graph runs any verb."""
    allowed_by: int | None = None
    """The version of the graph's policy that allowed the call."""

    @property
    def options(self) -> WriteOptions:
        """The part of the call that a writer stores or compares."""
        return WriteOptions(
            actor=self.actor,
            allowed_by=self.allowed_by,
            if_commit=None if self.if_commit is None else CommitId(str(self.if_commit)),
            message=commit_message(self.message),
            key=key_of(self.key),
        )

    @property
    def may_show(self) -> Callable[[str], bool]:
        """The function that says of a branch whether the caller may see it."""
        return shows_of("shows", self.shows)
