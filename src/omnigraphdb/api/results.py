"""What the calls of a graph return: frozen values with a wire form."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from omnigraphdb.catalog.diff.steps import SchemaPlan as SchemaPlan
from omnigraphdb.catalog.diff.steps import Step as Step
from omnigraphdb.engine.jobs import Job as Job
from omnigraphdb.engine.jobs import JobKind as JobKind
from omnigraphdb.engine.jobs import JobState as JobState
from omnigraphdb.engine.results import NULL_FOR_MAIN
from omnigraphdb.engine.results import Commit as Commit
from omnigraphdb.engine.results import Commits as Commits
from omnigraphdb.engine.results import LoadResult as LoadResult
from omnigraphdb.engine.results import MutationResult as MutationResult
from omnigraphdb.engine.results import OperationState as OperationState
from omnigraphdb.engine.results import OperationStatus as OperationStatus
from omnigraphdb.engine.results import RecoveryAudit as RecoveryAudit
from omnigraphdb.engine.results import SchemaApplyResult as SchemaApplyResult
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.records import PolicyVersion
from omnigraphdb.manifest.records import Tag as TagRecord
from omnigraphdb.recovery.audit import TableOutcome as TableOutcome
from omnigraphdb.recovery.discard import UNKNOWN
from omnigraphdb.recovery.discard import DiscardedRecovery as DiscardedRecovery
from omnigraphdb.recovery.sweep import Pending
from omnigraphdb.runtime import datetime_of
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

if TYPE_CHECKING:
    from omnigraphdb.policy import PolicyEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag(Value):
    """A name for a commit; it stands wherever a commit does, and cleanup keeps what that commit shows."""

    name: str
    commit: str = field(metadata=wire("graph_commit_id"))
    branch: str = field(metadata=wire("manifest_branch", codec=NULL_FOR_MAIN))
    created_at: datetime
    actor: str | None = field(default=None, metadata=wire("actor_id"))

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

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TagList(Value):
    """Tags, by name."""

    tags: tuple[Tag, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagDeleted(Value):
    """A tag that was deleted."""

    uri: str
    name: str
    actor: str | None = field(metadata=wire("actor_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitList(Value):
    """Commits, newest first."""

    commits: tuple[Commit, ...]
    next_page_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaText(Value):
    """The schema text."""

    schema_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState(Value):
    """One table of a snapshot."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState(Value):
    """The table versions that are visible together."""

    branch: str
    manifest_version: int
    internal_schema_version: int
    commit: str | None = field(metadata=wire("graph_commit_id"))
    tables: tuple[TableState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Value):
    """One entity: its id, for an edge its ends, and its properties."""

    type_name: str
    entity: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPolicy(Value):
    """One version of the policy that a graph keeps; without a text the graph keeps none from then on."""

    version: int
    text: str | None
    created_at: datetime
    actor: str | None = field(default=None, metadata=wire("actor_id"))

    @classmethod
    def of(cls, record: PolicyVersion) -> Self:
        """The public view of a recorded version."""
        return cls(
            version=record.number,
            text=record.text,
            created_at=datetime_of(record.created_at),
            actor=record.actor,
        )

    def __str__(self) -> str:
        return self.text or ""

    def load(self) -> "PolicyEngine":
        """Compile it: the engine decides (`authorize`) and explains (`explain_denial`) without writing anything.

        Example:
            >>> kept = graph.policy()
            >>> kept is None or kept.load().authorize("eve", "change", branch="main").allowed
            True
        """
        from omnigraphdb.policy import PolicyEngine

        return PolicyEngine.load_graph(self.text or "version: 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverySidecar(Value):
    """A pending operation, and what recovery would do with it; one that cannot be read has only a `problem`.

    A `live` operation is not interrupted: its writer, `holder`, still works on it.
    """

    operation_id: str
    writer_kind: str
    branch: str
    actor: str | None = field(metadata=wire("actor_id"))
    started_at: str | None
    tables: tuple[str, ...]
    schema_version: int | None
    forecast: str | None = field(default=None, metadata=wire(omit=True))
    problem: str | None = field(default=None, metadata=wire(omit=True))
    holder: Mapping[str, Any] | None = field(default=None, metadata=wire(omit=True))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryList(Value):
    """Writes that recovery has yet to finish, and those it finished."""

    pending: tuple[RecoverySidecar, ...]
    settled: tuple[RecoveryAudit, ...]
