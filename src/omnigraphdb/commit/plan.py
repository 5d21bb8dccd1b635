"""A prepared write: the commits of each table, their bases, and the facts that the write relied on."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

import pyarrow as pa

from omnigraphdb.catalog.ir.contract import Contract
from omnigraphdb.catalog.model import TableType
from omnigraphdb.commit.addressed import AddressedRows
from omnigraphdb.commit.delta import TableDelta, WrittenRows
from omnigraphdb.commit.locks import LockKey, lock_key
from omnigraphdb.commit.sidecar import (
    PointerUpdate,
    Registration,
    Tombstone,
    WriterKind,
    own_lock_keys,
)
from omnigraphdb.ids import BranchName, CommitId, OperationId, TableKey, Version
from omnigraphdb.manifest.accepted_schema import AcceptedSchema
from omnigraphdb.manifest.change import OperationDraft
from omnigraphdb.manifest.merged import NO_COMMITS
from omnigraphdb.manifest.names import actor_name
from omnigraphdb.manifest.records import Agreed, CommitKind
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.storage.values import (
    MAIN_INCARNATION,
    ColumnChange,
    Incarnation,
    IndexSpec,
    Staged,
    Successors,
    TableAt,
    Written,
)
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """The second commit of rows that were appended first: they take the row ids and the place of old rows.

    Between the two commits old and new rows are both there, so nobody may see that version.
    """

    written: Written
    successors: Successors
    addresses: pa.Array
    """Of the rows that go."""
    like: TableAt
    """A version that may lack the same rows: then its deletion files serve here too."""
    is_adopted: bool
    removes: bool


@dataclass(frozen=True, slots=True)
class TakeOverWritten:
    """The same second commit where workers wrote the rows with their inheritance, and marked the removed rows."""

    rows: WrittenRows


@dataclass(frozen=True, slots=True)
class ReshapeColumns:
    """Columns are added, dropped or renamed; no row is rewritten."""

    changes: tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class RewriteRows:
    """All rows are written anew: a column that left the schema still has its bytes in the old files."""


@dataclass(frozen=True, slots=True)
class ClearSettings:
    """Settings that would delete versions go."""


@dataclass(frozen=True, slots=True)
class ReleaseSegments:
    """Index segments that keep small fragments apart go."""


@dataclass(frozen=True, slots=True)
class CompactFragments:
    """Small and holey fragments are rewritten together, those below `rows_max` rows if it is given."""

    rows_max: int | None = None


class IndexChoice(StrEnum):
    """Which indexes are built, decided on the version they are staged on."""

    INCOMPLETE = "incomplete"
    WORTHWHILE = "worthwhile"


@dataclass(frozen=True, slots=True)
class BuildIndexes:
    """A build of indexes of a type: the indexes of `specs`, or the missing indexes of the version."""

    type: TableType
    specs: tuple[IndexSpec, ...] | IndexChoice
    after_compaction: bool = False


MaintenanceStep = ClearSettings | ReleaseSegments | CompactFragments | BuildIndexes
Step = TableDelta | TakeOver | TakeOverWritten | ReshapeColumns | RewriteRows | MaintenanceStep
"""The change of one commit to a table, as data for `commit.stage`. A delta that takes over makes two commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWrite:
    """The commits of one table, in order.

    `staged` was prepared outside the locks and comes first; `steps` are staged on the version before them, under the
    locks. A table that the branch does not own yet is forked to `fork` first, and then only steps can stand on it.
    """

    table_key: TableKey
    base: TableAt
    strict: bool
    staged: Staged | None = None
    steps: tuple[Step, ...] = ()
    fork: str | None = None
    delta: TableDelta | None = None
    """The changes of the commits to rows, if they are few enough to be in memory."""

    @property
    def branch(self) -> str | None:
        """The Lance branch the commits land on."""
        return self.fork if self.fork is not None else self.base.branch

    @property
    def lock_key(self) -> LockKey:
        """The lock it needs."""
        return lock_key(self.table_key, self.branch)

    @property
    def commits(self) -> int:
        """The greatest number of commits that it makes."""
        return sum(map(_count_commits, self.steps)) + (self.staged is not None)


def _count_commits(step: Step) -> int:
    match step:
        case TableDelta(source=AddressedRows(takes_over=True) | WrittenRows(takes_over=True)):
            return 2
        case _:
            return 1


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to create."""

    path: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The schema files of a schema change: the schema accepted from now on, and the contract that it replaces."""

    accepted: AcceptedSchema
    replaced: Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a caller for a write of any kind."""

    actor: str | None = None
    allowed_by: int | None = None
    """The version of the graph's policy that the actor was allowed by, 0 without a policy; None when nobody was asked."""
    if_commit: CommitId | None = None
    """The head that the branch must have."""
    message: str | None = None
    key: str | None = None
    """The idempotency key: the request takes effect once."""


ANONYMOUS: Final = WriteOptions()
"""A write of nobody in particular, on any head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The identity of one write: its first attempt has these ids, each further attempt its own (`mint_again`)."""

    kind: WriterKind
    commit_kind: CommitKind
    actor: str | None
    operation_id: OperationId
    commit_id: CommitId
    if_commit: CommitId | None = None
    batch_id: str | None = None
    batch_request: str | None = None
    message: str | None = None
    allowed_by: int | None = None
    """As in `WriteOptions`."""

    @property
    def is_maintenance(self) -> bool:
        """Whether the write changes no row and adds no graph commit."""
        return self.kind in (WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE)


def mint_header(
    runtime: Runtime,
    kind: WriterKind,
    commit_kind: CommitKind,
    options: WriteOptions,
    *,
    batch_id: str | None = None,
    batch_request: str | None = None,
) -> Header:
    """Name one write."""
    return Header(
        kind=kind,
        commit_kind=commit_kind,
        actor=options.actor,
        operation_id=OperationId(runtime.new_id()),
        commit_id=CommitId(runtime.new_id()),
        if_commit=options.if_commit,
        batch_id=batch_id,
        batch_request=batch_request,
        message=options.message,
        allowed_by=options.allowed_by,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """Everything one write will do, as data; the protocol makes it visible or leaves no trace."""

    kind: WriterKind
    commit_kind: CommitKind
    branch: BranchName
    branch_incarnation: Incarnation = MAIN_INCARNATION
    """Of the branch that it was prepared on: the next one of that name is another branch."""
    actor: str | None
    operation_id: OperationId
    commit_id: CommitId
    tables: tuple[TableWrite, ...] = ()
    read_set: Mapping[TableKey, Version] = field(default_factory=dict)
    registrations: tuple[Registration, ...] = ()
    creations: Mapping[TableKey, NewTable | TableAt] = field(default_factory=dict)
    """The tables of the registrations: a table to make, or the version of a table that is taken over."""
    tombstones: tuple[Tombstone, ...] = ()
    pointer_updates: tuple[PointerUpdate, ...] = ()
    merge_source: CommitId | None = None
    merge_source_at: int = 0
    merged_commits: pa.Table = field(default_factory=lambda: NO_COMMITS)
    """Commits of the source that the target keeps."""
    agreed: Agreed | None = None
    if_commit: CommitId | None = None
    batch_id: str | None = None
    batch_request: str | None = None
    message: str | None = None
    allowed_by: int | None = None
    """As in its header: the write is refused when the policy is another one by the time it becomes visible."""
    operation: OperationDraft | None = None
    """The row of the idempotency key of the write, if it has one."""
    maintenance: bool = False
    schema: SchemaChange | None = None

    def __post_init__(self) -> None:
        # A name that cannot be stored would be found out by the publish, after tables have landed.
        actor_name(self.actor)

    @property
    def schema_hash(self) -> str | None:
        """The hash of the schema that the write puts in place, if it does."""
        return None if self.schema is None else self.schema.accepted.contract.ir_hash

    @property
    def is_strict(self) -> bool:
        """Whether a moved base is for the caller to resolve."""
        return any(write.strict for write in self.tables)

    @property
    def activity(self) -> Activity:
        """The purpose of its locks."""
        return Activity(str(self.kind), self.operation_id)

    @property
    def renames(self) -> Mapping[TableKey, TableKey]:
        """The former and the published key of every written table that a registration takes over."""
        new_keys = {
            registration.table_path: registration.table_key
            for registration in self.registrations
            if not registration.created
        }
        return {w.table_key: new_keys[w.base.path] for w in self.tables if w.base.path in new_keys}

    @property
    def lock_keys(self) -> frozenset[LockKey]:
        """The locks it needs: of the tables it writes or points elsewhere, and of the tables its checks relied on."""
        written = {write.lock_key for write in self.tables}
        branch = None if self.branch == "main" else str(self.branch)
        table_keys = (*self.read_set, *(pointer.table_key for pointer in self.pointer_updates))
        # A table that is staged late may turn out to need no change, and then the sidecar does not name it.
        is_bare = not self.pointer_updates and all(write.staged is None for write in self.tables)
        own = own_lock_keys(self.kind, branch, is_bare=is_bare)
        return frozenset(written | {lock_key(table, branch) for table in table_keys} | own)


def mint_again(runtime: Runtime, plan: WritePlan) -> WritePlan:
    """Name a write that is prepared again: its commit, its idempotency key and its sidecar name the new operation."""
    operation_id = OperationId(runtime.new_id())
    key = None if plan.operation is None else replace(plan.operation, operation_id=operation_id)
    return replace(
        plan, operation_id=operation_id, commit_id=CommitId(runtime.new_id()), operation=key
    )


def plan_of(
    header: Header,
    base: Snapshot,
    tables: Sequence[TableWrite],
    read_set: Mapping[TableKey, Version] | None = None,
) -> WritePlan:
    """Plan a named write of a branch; a table that it writes is not part of its read set."""
    written = {write.table_key for write in tables}
    return WritePlan(
        kind=header.kind,
        commit_kind=header.commit_kind,
        branch=base.branch,
        branch_incarnation=base.branch_incarnation,
        actor=header.actor,
        operation_id=header.operation_id,
        commit_id=header.commit_id,
        tables=tuple(tables),
        read_set={key: at for key, at in (read_set or {}).items() if key not in written},
        if_commit=header.if_commit,
        batch_id=header.batch_id,
        batch_request=header.batch_request,
        message=header.message,
        allowed_by=header.allowed_by,
        maintenance=header.is_maintenance,
    )
