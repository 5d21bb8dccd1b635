"""What the calls of a graph return: frozen values with a wire form."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from omnigraph.engine.jobs import Job as Job
from omnigraph.engine.jobs import JobKind as JobKind
from omnigraph.engine.jobs import JobState as JobState
from omnigraph.engine.results import Commit as Commit
from omnigraph.engine.results import Commits as Commits
from omnigraph.engine.results import LoadResult as LoadResult
from omnigraph.engine.results import MutationResult as MutationResult
from omnigraph.engine.results import OperationState as OperationState
from omnigraph.engine.results import OperationStatus as OperationStatus
from omnigraph.engine.results import SchemaApplyResult as SchemaApplyResult
from omnigraph.ids import MAIN
from omnigraph.manifest.records import PolicyVersion
from omnigraph.manifest.records import Tag as TagRecord
from omnigraph.recovery.audit import AuditRow, RecoveryKind, TableOutcome
from omnigraph.recovery.discard import UNKNOWN
from omnigraph.recovery.discard import DiscardedRecovery as DiscardedRecovery
from omnigraph.recovery.sweep import Pending
from omnigraph.runtime import datetime_of, us_of
from omnigraph.values import dataclass

if TYPE_CHECKING:
    from omnigraph.policy import PolicyEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a commit; it stands wherever a commit does, and cleanup keeps what that commit shows."""

    name: str
    commit: str
    branch: str
    created_at: datetime
    actor: str | None = None

    @classmethod
    def of(cls, tag: TagRecord) -> Self:
        """The public view of a recorded tag."""
        return cls(
            name=tag.name,
            commit=str(tag.commit),
            branch=tag.branch,
            created_at=datetime_of(tag.created_at),
            actor=tag.actor,
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "name": self.name,
            "graph_commit_id": self.commit,
            "manifest_branch": None if self.branch == MAIN else self.branch,
            "created_at": us_of(self.created_at),
            "actor_id": self.actor,
        }

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPolicy:
    """One version of the policy that a graph keeps; without a text the graph keeps none from then on."""

    version: int
    text: str | None
    created_at: datetime
    actor: str | None = None

    @classmethod
    def of(cls, record: PolicyVersion) -> Self:
        """The public view of a recorded version."""
        return cls(
            version=record.number,
            text=record.text,
            created_at=datetime_of(record.created_at),
            actor=record.actor,
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "version": self.version,
            "text": self.text,
            "created_at": us_of(self.created_at),
            "actor_id": self.actor,
        }

    def __str__(self) -> str:
        return self.text or ""

    def load(self) -> "PolicyEngine":
        """Compile it: the engine decides (`authorize`) and explains (`explain_denial`) without writing anything.

        Example:
            >>> kept = graph.policy()
            >>> kept is None or kept.load().authorize("eve", "change", branch="main").allowed
            True
        """
        from omnigraph.policy import PolicyEngine

        return PolicyEngine.load_graph(self.text or "version: 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySidecar:
    """A pending operation, and what recovery would do with it; one that cannot be read has only a `problem`.

    A `live` operation is not interrupted: its writer, `holder`, still works on it.
    """

    operation_id: str
    writer_kind: str
    branch: str
    actor: str | None
    started_at: str | None
    tables: tuple[str, ...]
    schema_version: int | None
    forecast: str | None = None
    problem: str | None = None
    holder: Mapping[str, Any] | None = None

    @property
    def live(self) -> bool:
        """Whether its writer is alive."""
        return self.holder is not None

    @classmethod
    def of(cls, pending: Pending) -> Self:
        """The public view of a sidecar."""
        sidecar = pending.sidecar
        if sidecar is None:
            return cls(
                operation_id=pending.operation_id,
                writer_kind=UNKNOWN,
                branch=MAIN,
                actor=None,
                started_at=None,
                tables=(),
                schema_version=None,
                problem=pending.problem,
            )
        return cls(
            operation_id=sidecar.operation_id,
            writer_kind=str(sidecar.writer_kind),
            branch=sidecar.branch or MAIN,
            actor=sidecar.actor,
            started_at=sidecar.started_at,
            tables=sidecar.table_keys,
            schema_version=sidecar.schema_version,
            forecast=None if pending.decision is None else str(pending.decision),
            problem=pending.problem,
            holder=None if pending.holder is None else pending.holder.to_dict(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form, without unknown facts."""
        body = {
            "operation_id": self.operation_id,
            "writer_kind": self.writer_kind,
            "branch": self.branch,
            "actor_id": self.actor,
            "started_at": self.started_at,
            "tables": list(self.tables),
            "schema_version": self.schema_version,
        }
        more = {"forecast": self.forecast, "problem": self.problem, "holder": self.holder}
        return body | {name: value for name, value in more.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAudit:
    """A recovered operation: what recovery did with it, and the commit that records it."""

    recovery_kind: RecoveryKind
    operation_id: str
    writer_kind: str
    for_actor: str | None
    commit: str
    tables: tuple[TableOutcome, ...]
    created_at: datetime

    @classmethod
    def of(cls, row: AuditRow) -> Self:
        """The public view of a recorded recovery."""
        return cls(
            recovery_kind=row.kind,
            operation_id=row.operation_id,
            writer_kind=row.writer_kind,
            for_actor=row.for_actor,
            commit=row.commit,
            tables=row.tables,
            created_at=datetime_of(row.created_at),
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "recovery_kind": str(self.recovery_kind),
            "operation_id": self.operation_id,
            "sidecar_writer_kind": self.writer_kind,
            "recovery_for_actor": self.for_actor,
            "graph_commit_id": self.commit,
            "tables": [outcome.to_dict() for outcome in self.tables],
            "created_at": us_of(self.created_at),
        }
