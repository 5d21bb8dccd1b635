"""The results of writes: a commit as users see it, and the effect of each kind of write."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self, TypedDict

from omnigraphdb.catalog.diff.steps import Step
from omnigraphdb.catalog.values import spell_wire
from omnigraphdb.display import ROWS_SHOWN_MAX, Displayable, Grid, Report, count_of, format_time
from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.recovery.audit import AuditRow, RecoveryKind, TableOutcome
from omnigraphdb.runtime import datetime_of
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Codec, Value, derived, wire

NULL_FOR_MAIN: Final = Codec(
    encode=lambda branch: None if branch == MAIN else branch,
    decode=lambda branch: MAIN if branch is None else branch,
    hint=str | None,
)
"""A branch that may be main, which is null in JSON."""

JSON_ROWS: Final = Codec(
    encode=lambda rows: [{name: spell_wire(value) for name, value in row.items()} for row in rows],
    decode=lambda rows: rows,
    hint=list[dict[str, Any]],
)
"""Rows of values of properties."""


class TableLoaded(TypedDict):
    """Records of one table."""

    table_key: str
    rows_loaded: int


class TableCreated(TypedDict):
    """Nodes that a load made because its edges name them."""

    table_key: str
    rows_created: int


def by_table(count: str, hint: Any) -> Codec:
    """Make the form of counts by table key: a list of objects, each with the key and the count under its name."""
    return Codec(
        encode=lambda counts: [{"table_key": key, count: n} for key, n in counts.items()],
        decode=lambda entries: {entry["table_key"]: entry[count] for entry in entries},
        hint=list[hint],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAudit(Value):
    """A recovered operation: the action of recovery, and the commit that records it."""

    recovery_kind: RecoveryKind
    operation_id: str
    writer_kind: str = field(metadata=wire("sidecar_writer_kind"))
    for_actor: str | None = field(metadata=wire("recovery_for_actor"))
    commit: str = field(metadata=wire("graph_commit_id"))
    tables: tuple[TableOutcome, ...]
    created_at: datetime

    @classmethod
    def of(cls, row: AuditRow) -> Self:
        """Return the public view of a recorded recovery."""
        return cls(
            recovery_kind=row.kind,
            operation_id=row.operation_id,
            writer_kind=row.writer_kind,
            for_actor=row.for_actor,
            commit=row.commit,
            tables=row.tables,
            created_at=datetime_of(row.created_at),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit(Value):
    """One graph commit; `manifest_branch` is null for main."""

    id: str = field(metadata=wire("graph_commit_id"))
    parent: str | None = field(metadata=wire("parent_commit_id"))
    merged_parent: str | None = field(metadata=wire("merged_parent_commit_id"))
    branch: str = field(metadata=wire("manifest_branch", codec=NULL_FOR_MAIN))
    actor: str | None = field(metadata=wire("actor_id"))
    created_at: datetime
    manifest_version: int
    kind: CommitKind
    tables: tuple[str, ...] = ()
    batch_id: str | None = field(default=None, metadata=wire(omit=True))
    """The batch that the load of this commit named."""
    message: str | None = None
    group: str | None = None
    """The swap that this commit shares with others of the same moment; None for a commit that was alone."""
    recovery: RecoveryAudit | None = field(default=None, metadata=wire(omit=True))
    """The recovery that made it, where one commit is asked for."""

    @classmethod
    def of(cls, commit: GraphCommit) -> Self:
        """Return the public view of a recorded commit."""
        return cls(
            id=commit.id,
            parent=commit.parent,
            merged_parent=commit.merged_parent,
            branch=commit.branch,
            actor=commit.actor,
            created_at=datetime_of(commit.created_at),
            manifest_version=commit.manifest_version,
            kind=commit.kind,
            tables=tuple(commit.tables),
            batch_id=commit.batch_id,
            message=commit.message,
            group=commit.group,
        )

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        by = "" if self.actor is None else f" by {self.actor}"
        tables = f": {', '.join(self.tables)}" if self.tables else ""
        return f"<Commit {self.id} {self.kind} on {self.branch}{by}, {format_time(self.created_at)}{tables}>"


def first_line(message: str | None) -> str:
    """Return the first line of a message, as lists show it."""
    return "" if message is None else message.strip().splitlines()[0]


class OperationState(StrEnum):
    """The state of a request with an idempotency key."""

    LANDED = "landed"
    NOT_LANDED = "not_landed"
    UNDECIDED = "undecided"
    """The request is under way, or its writer died: recovery, or the same request again, completes it or takes it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatus(Value):
    """The status of a request with an idempotency key; `commit` is None when the request changed nothing."""

    key: str
    branch: str
    actor: str | None = field(metadata=wire("actor_id"))
    state: OperationState
    commit: Commit | None = None
    operation_id: str | None = None
    created_at: datetime | None = None


class Commits(Displayable, list[Commit]):
    """Commits of a history, in their order."""

    def _report(self) -> Report:
        return Report(title=count_of(len(self), "commit"), grids=(self.grid(),))

    def grid(self, caption: str = "") -> Grid:
        """Show the commits, each in a row."""
        columns = {
            "commit": [c.id for c in self],
            "created (UTC)": [f"{c.created_at:%Y-%m-%d %H:%M}" for c in self],
            "kind": [str(c.kind) for c in self],
            "branch": [c.branch for c in self],
            "actor": [c.actor or "" for c in self],
            "message": [first_line(c.message) for c in self],
            "tables": [", ".join(c.tables) for c in self],
        }
        # An empty column takes room from the others.
        filled = {name: texts for name, texts in columns.items() if any(texts)}
        rows = list(zip(*filled.values(), strict=True))
        return Grid(columns=list(filled), rows=rows, firm=2, caption=caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult(Displayable, Value):
    """The counts and the commit of a mutation; `commit` is None when nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor: str | None = field(metadata=wire("actor_id"))
    commit: Commit | None
    replayed: bool = field(default=False, metadata=wire(omit=True))
    """True for the result of an earlier call with the same idempotency key; nothing was written."""
    columns: Sequence[str] = field(default=(), metadata=wire(omit=True))
    """Names of the columns that `returning` asks for."""
    rows: Sequence[Mapping[str, Any]] = field(
        default=(), metadata=wire(omit=lambda result: not result.columns, codec=JSON_ROWS)
    )
    """Values that `returning` asks for of every row that was written, JSON-shaped."""

    def _report(self) -> Report:
        """Show the counts, the returned rows, and the commit."""
        changed = (
            f"{count_of(self.affected_nodes, 'node')}, {count_of(self.affected_edges, 'edge')}"
        )
        return Report(
            title=f"{self.query_name} on {self.branch}: {changed} changed",
            facts=_commit_facts(self.commit, self.actor, replayed=self.replayed),
            grids=(self.grid(),) if self.columns else (),
        )

    def grid(self) -> Grid:
        """Show the returned rows."""
        rows = [[row[name] for name in self.columns] for row in self.rows[:ROWS_SHOWN_MAX]]
        return Grid(columns=list(self.columns), rows=rows, total=len(self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult(Displayable, Value):
    """The counts and the commit of a load.

    `tables` counts input records by table key, `created` the nodes that it made for its edges.
    """

    uri: str
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    tables: Mapping[str, int] = field(metadata=wire(codec=by_table("rows_loaded", TableLoaded)))
    actor: str | None = field(metadata=wire("actor_id"))
    commit: Commit | None
    engine: str = "local"
    reason: str = ""
    """The reason why that engine ran."""
    pending_indexes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    replayed: bool = field(default=False, metadata=wire(omit=True))
    """True for the result of an earlier call with the same idempotency key or batch; nothing was written."""
    created: Mapping[str, int] = field(
        default_factory=dict, metadata=wire(codec=by_table("rows_created", TableCreated))
    )

    @derived
    def total_rows(self) -> int:
        """Input records of all tables."""
        return sum(self.tables.values())

    def _report(self) -> Report:
        """Show the records of each table, and the commit."""
        facts = {"branch": f"created from {self.base_branch}"} if self.branch_created else {}
        pending = {"pending indexes": list(self.pending_indexes)} if self.pending_indexes else {}
        if self.created:
            facts |= {"created": ", ".join(f"{k}: {n}" for k, n in self.created.items())}
        grid = Grid(columns=("table", "records"), rows=list(self.tables.items()))
        return Report(
            title=f"{self.mode} on {self.branch}: {count_of(self.total_rows, 'record')}",
            facts=_commit_facts(self.commit, self.actor, replayed=self.replayed)
            | facts
            | spell_engine(self.engine, self.reason)
            | pending,
            grids=(grid,) if self.tables else (),
            notes=self.notes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaApplyResult(Displayable, Value):
    """The steps and the commit of a schema change; `commit` is None when there was nothing to change."""

    uri: str
    steps: tuple[Step, ...]
    manifest_version: int
    actor: str | None = field(metadata=wire("actor_id"))
    commit: Commit | None
    supported: bool = True
    warnings: tuple[str, ...] = ()
    pending_indexes: tuple[str, ...] = ()
    replayed: bool = field(default=False, metadata=wire(omit=True))
    """True for the result of an earlier call with the same idempotency key; nothing was written."""
    engine: str = "local"
    """The engine that rewrote tables that lost a column for good: this process, or Spark."""
    reason: str = field(default="", compare=False)
    """The reason for that engine; it is not a part of the change."""

    @derived
    def applied(self) -> bool:
        """Whether the schema changed."""
        return self.commit is not None

    @derived
    def step_count(self) -> int:
        """The number of steps that were taken."""
        return len(self.steps)

    def _report(self) -> Report:
        """Show the steps that were taken, and the commit."""
        grid = Grid(columns=("step",), rows=[[str(step)] for step in self.steps])
        return Report(
            title=f"schema apply: {count_of(self.step_count, 'step')}",
            facts=_commit_facts(self.commit, self.actor, replayed=self.replayed)
            | spell_engine(self.engine, self.reason),
            grids=(grid,) if self.steps else (),
            notes=self.warnings,
        )


def _commit_facts(
    commit: Commit | None, actor: str | None, *, replayed: bool = False
) -> dict[str, Any]:
    facts = {"commit": "none, nothing was written" if commit is None else commit.id}
    if replayed:
        facts["replayed"] = "yes, this key was used before for the same request"
    return facts if actor is None else facts | {"actor": actor}


def spell_engine(engine: str, reason: str) -> dict[str, str]:
    """Return the line that names the engine, and the reason for it."""
    return {"engine": f"{engine}: {reason}" if reason else engine}


def show_replayed(replayed: bool) -> dict[str, bool]:
    """Return the part of a wire form that marks a repeated result."""
    return {"replayed": True} if replayed else {}


def public_commit(commit: GraphCommit | None) -> Commit | None:
    """Return the public view of the commit of a write; None where the write changed nothing."""
    return None if commit is None else Commit.of(commit)
