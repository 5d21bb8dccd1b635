"""What writes return: a commit as users see it, and what each kind of write did."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from omnigraph.catalog.diff.steps import Step
from omnigraph.catalog.values import spell_wire
from omnigraph.display import ROWS_SHOWN_MAX, Grid, Sheet, Shown, count_of, spell_moment
from omnigraph.ids import MAIN
from omnigraph.manifest.records import CommitKind, GraphCommit
from omnigraph.runtime import datetime_of, us_of
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One graph commit."""

    id: str
    parent: str | None
    merged_parent: str | None
    branch: str
    actor: str | None
    created_at: datetime
    manifest_version: int
    kind: CommitKind
    tables: tuple[str, ...] = ()
    batch_id: str | None = None
    """The batch that the load of this commit named."""
    message: str | None = None
    group: str | None = None
    """The swap that this commit shares with others of the same moment; None for a commit that was alone."""

    @classmethod
    def of(cls, commit: GraphCommit) -> Self:
        """The public view of a recorded commit."""
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

    def to_dict(self) -> dict[str, Any]:
        """The wire form; main is spelled null there."""
        return {
            "graph_commit_id": self.id,
            "manifest_branch": None if self.branch == MAIN else self.branch,
            "manifest_version": self.manifest_version,
            "parent_commit_id": self.parent,
            "merged_parent_commit_id": self.merged_parent,
            "actor_id": self.actor,
            "created_at": us_of(self.created_at),
            "kind": str(self.kind),
            "tables": list(self.tables),
            "message": self.message,
            "group": self.group,
        }

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        by = "" if self.actor is None else f" by {self.actor}"
        what = f": {', '.join(self.tables)}" if self.tables else ""
        return f"<Commit {self.id} {self.kind} on {self.branch}{by}, {spell_moment(self.created_at)}{what}>"


def first_line(message: str | None) -> str:
    """The first line of a message, as lists show it."""
    return "" if message is None else message.strip().splitlines()[0]


class OperationState(StrEnum):
    """What became of a request with an idempotency key."""

    LANDED = "landed"
    NOT_LANDED = "not_landed"
    UNDECIDED = "undecided"
    """It is under way, or its writer died: recovery, or the same request again, completes it or takes it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationStatus:
    """What became of a request with an idempotency key; `commit` is None when it changed nothing."""

    key: str
    branch: str
    actor: str | None
    state: OperationState
    commit: Commit | None = None
    operation_id: str | None = None
    created_at: datetime | None = None

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "key": self.key,
            "branch": self.branch,
            "actor_id": self.actor,
            "state": str(self.state),
            "commit": None if self.commit is None else self.commit.to_dict(),
            "operation_id": self.operation_id,
            "created_at": None if self.created_at is None else us_of(self.created_at),
        }


class Commits(Shown, list[Commit]):
    """Commits of a history, in their order."""

    def _sheet(self) -> Sheet:
        return Sheet(title=count_of(len(self), "commit"), grids=(self.grid(),))

    def grid(self, caption: str = "") -> Grid:
        """The commits, one a row."""
        columns = {
            "commit": [c.id for c in self],
            "created (UTC)": [f"{c.created_at:%Y-%m-%d %H:%M}" for c in self],
            "kind": [str(c.kind) for c in self],
            "branch": [c.branch for c in self],
            "actor": [c.actor or "" for c in self],
            "message": [first_line(c.message) for c in self],
            "tables": [", ".join(c.tables) for c in self],
        }
        # A column that says nothing takes room from the others.
        told = {name: texts for name, texts in columns.items() if any(texts)}
        rows = list(zip(*told.values(), strict=True))
        return Grid(columns=list(told), rows=rows, firm=2, caption=caption)


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationResult(Shown):
    """What a mutation did; `commit` is None when nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor: str | None
    commit: Commit | None
    replayed: bool = False
    """Whether this is the result of an earlier call with the same idempotency key; nothing was written."""
    columns: Sequence[str] = ()
    """Names of the columns that `returning` asks for."""
    rows: Sequence[Mapping[str, Any]] = ()
    """What `returning` asks for of every row that was written, as JSON-shaped values."""

    def _sheet(self) -> Sheet:
        """What changed, what is returned of it, and the commit."""
        changed = (
            f"{count_of(self.affected_nodes, 'node')}, {count_of(self.affected_edges, 'edge')}"
        )
        return Sheet(
            title=f"{self.query_name} on {self.branch}: {changed} changed",
            facts=_commit_facts(self.commit, self.actor, replayed=self.replayed),
            grids=(self.grid(),) if self.columns else (),
        )

    def grid(self) -> Grid:
        """What is returned, one row each."""
        shown = [[row[name] for name in self.columns] for row in self.rows[:ROWS_SHOWN_MAX]]
        return Grid(columns=list(self.columns), rows=shown, total=len(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        returned = {
            "columns": list(self.columns),
            "rows": [{name: spell_wire(row[name]) for name in self.columns} for row in self.rows],
        }
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            **(returned if self.columns else {}),
            **show_replayed(self.replayed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult(Shown):
    """What a load did; `tables` counts input records per table key, `created` nodes that it made for its edges."""

    uri: str
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    tables: Mapping[str, int]
    actor: str | None
    commit: Commit | None
    engine: str = "local"
    reason: str = ""
    """Why that engine ran."""
    pending_indexes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    replayed: bool = False
    """Whether this is the result of an earlier call with the same idempotency key; nothing was written."""
    created: Mapping[str, int] = field(default_factory=dict)

    @property
    def total_rows(self) -> int:
        """Input records of all tables."""
        return sum(self.tables.values())

    def _sheet(self) -> Sheet:
        """The records of each table, and the commit."""
        made = {"branch": f"created from {self.base_branch}"} if self.branch_created else {}
        pending = {"pending indexes": list(self.pending_indexes)} if self.pending_indexes else {}
        if self.created:
            made |= {"created": ", ".join(f"{k}: {n}" for k, n in self.created.items())}
        grid = Grid(columns=("table", "records"), rows=list(self.tables.items()))
        return Sheet(
            title=f"{self.mode} on {self.branch}: {count_of(self.total_rows, 'record')}",
            facts=_commit_facts(self.commit, self.actor, replayed=self.replayed)
            | made
            | spell_engine(self.engine, self.reason)
            | pending,
            grids=(grid,) if self.tables else (),
            notes=self.notes,
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "tables": [{"table_key": k, "rows_loaded": n} for k, n in self.tables.items()],
            "total_rows": self.total_rows,
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "engine": self.engine,
            "reason": self.reason,
            "pending_indexes": list(self.pending_indexes),
            "notes": list(self.notes),
            "created": [{"table_key": k, "rows_created": n} for k, n in self.created.items()],
            **show_replayed(self.replayed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaApplyResult(Shown):
    """What applying a schema did; `commit` is None when there was nothing to change."""

    uri: str
    steps: tuple[Step, ...]
    manifest_version: int
    actor: str | None
    commit: Commit | None
    supported: bool = True
    warnings: tuple[str, ...] = ()
    pending_indexes: tuple[str, ...] = ()
    replayed: bool = False
    """Whether this is the result of an earlier call with the same idempotency key; nothing was written."""
    engine: str = "local"
    """Who wrote the rows of tables anew that lost a column for good: this process, or Spark."""
    reason: str = field(default="", compare=False)
    """Why it did: no part of what was changed."""

    @property
    def applied(self) -> bool:
        """Whether the schema changed."""
        return self.commit is not None

    @property
    def step_count(self) -> int:
        """How many steps were taken."""
        return len(self.steps)

    def _sheet(self) -> Sheet:
        """The steps that were taken, and the commit."""
        grid = Grid(columns=("step",), rows=[[str(step)] for step in self.steps])
        return Sheet(
            title=f"schema apply: {count_of(self.step_count, 'step')}",
            facts=_commit_facts(self.commit, self.actor, replayed=self.replayed)
            | spell_engine(self.engine, self.reason),
            grids=(grid,) if self.steps else (),
            notes=self.warnings,
        )

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "uri": self.uri,
            "supported": self.supported,
            "applied": self.applied,
            "step_count": self.step_count,
            "manifest_version": self.manifest_version,
            "steps": [step.to_dict() for step in self.steps],
            "actor_id": self.actor,
            "commit": None if self.commit is None else self.commit.to_dict(),
            "warnings": list(self.warnings),
            "pending_indexes": list(self.pending_indexes),
            "engine": self.engine,
            "reason": self.reason,
            **show_replayed(self.replayed),
        }


def _commit_facts(
    commit: Commit | None, actor: str | None, *, replayed: bool = False
) -> dict[str, Any]:
    facts = {"commit": "none, nothing was written" if commit is None else commit.id}
    if replayed:
        facts["replayed"] = "yes, this key was used before for the same request"
    return facts if actor is None else facts | {"actor": actor}


def spell_engine(engine: str, reason: str) -> dict[str, str]:
    """The line that says who did it, and why."""
    return {"engine": f"{engine}: {reason}" if reason else engine}


def show_replayed(replayed: bool) -> dict[str, bool]:
    """The part of a wire form that says that a result is repeated."""
    return {"replayed": True} if replayed else {}


def view_commit(commit: GraphCommit | None) -> Commit | None:
    """The public view of the commit of a write; None where the write changed nothing."""
    return None if commit is None else Commit.of(commit)
