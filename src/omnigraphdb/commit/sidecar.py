"""The intent record of a write: its planned effects, on disk before the first effect, gone after the last."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Final

import pyarrow as pa

from omnigraphdb.commit.locks import SCHEMA_APPLY, LockKey, lock_key, merge_key
from omnigraphdb.errors import InternalError
from omnigraphdb.ids import CommitId, OperationId, TableKey, Version
from omnigraphdb.manifest.change import OperationDraft
from omnigraphdb.manifest.merged import NO_COMMITS
from omnigraphdb.manifest.records import Agreed
from omnigraphdb.storage import layout
from omnigraphdb.storage.values import Incarnation
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value

SCHEMA_VERSION: Final = 3
CONFIRMATION_FLOOR: Final = 2
"""From this version on recovery decides about a merge by its confirmation; fixed for good."""
DELTA_FLOOR: Final = 3
"""From this version on pointer updates, ownership and read sets are complete; fixed for good."""
GROUP_VERSION: Final = 4
"""The version of a group: releases that do not know members must refuse it, or they would publish one commit for all."""


class WriterKind(StrEnum):
    """The kind of a writer; the set of stored spellings only ever grows."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"
    GROUP = "Group"
    """Several mutations and loads that share one publish."""


class Mode(StrEnum):
    """The interpretation of the movement of a HEAD."""

    STRICT = "strict"
    LOOSE = "loose"
    CONFIRMED = "confirmed"


def mode_of(kind: WriterKind, schema_version: int) -> Mode:
    """Resolve the mode of a sidecar once, exhaustively."""
    match kind:
        case WriterKind.MUTATION | WriterKind.LOAD:
            return Mode.STRICT
        case WriterKind.SCHEMA_APPLY | WriterKind.ENSURE_INDICES | WriterKind.OPTIMIZE:
            return Mode.LOOSE
        case WriterKind.GROUP:
            return Mode.CONFIRMED
        case WriterKind.BRANCH_MERGE:
            return Mode.CONFIRMED if schema_version >= CONFIRMATION_FLOOR else Mode.LOOSE


def own_lock_keys(kind: WriterKind, branch: str | None, *, is_bare: bool) -> frozenset[LockKey]:
    """List the locks an operation holds beside those of its tables; `is_bare`: it may have no table."""
    match kind:
        case WriterKind.SCHEMA_APPLY:
            return frozenset({SCHEMA_APPLY})
        case WriterKind.BRANCH_MERGE if is_bare:
            return frozenset({merge_key(branch)})
        case _:
            return frozenset()


class Decided(StrEnum):
    """A decision that must not be taken again."""

    ROLL_BACK = "RollBack"
    DISCARD = "Discard"
    """By an operator: nothing of the operation becomes visible, and nothing of it is undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One table the operation commits to: where it stood, where it will stand."""

    table_key: TableKey
    table_path: str
    table_branch: str | None
    expected: Version
    post_commit: Version
    confirmed: Version | None = None
    uuids: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of the files that the first commit brings, so that a recoverer that completes the operation can note them."""
    forked: bool = False
    token: str | None = None

    @property
    def lock_key(self) -> LockKey:
        """The lock its owner holds."""
        return lock_key(self.table_key, self.table_branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A table to register; `created` when this operation made the dataset."""

    table_key: TableKey
    table_path: str
    table_branch: str | None = None
    created: bool = True


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A table to hide from this version on."""

    table_key: TableKey
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerUpdate:
    """A pin that moves without a commit on its table."""

    table_key: TableKey
    version: Version
    branch: str | None
    row_count: int
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutcome(Value):
    """The versions of one table before and after an operation was settled; stored in the form that is sent."""

    table_key: TableKey
    from_version: Version
    to_version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecision:
    """The decision, the outcomes that it undoes, and the tables that were restored so far."""

    decision: Decided
    outcomes: tuple[TableOutcome, ...] = ()
    restored: Mapping[TableKey, Version] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """One pending operation, or a group of them that is published in one swap."""

    operation_id: OperationId
    writer_kind: WriterKind
    branch: str | None
    actor: str | None
    started_at: str
    branch_incarnation: Incarnation | None = None
    """The incarnation of the branch that it writes."""
    tables: tuple[Pin, ...] = ()
    registrations: tuple[Registration, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    pointer_updates: tuple[PointerUpdate, ...] = ()
    read_set: Mapping[TableKey, Version] = field(default_factory=dict)
    merge_source: CommitId | None = None
    merged_commits: pa.Table = field(default_factory=lambda: NO_COMMITS)
    """Commits of the source that a merge keeps on its branch: the source may be gone when it is completed."""
    agreed: Agreed | None = None
    commit_id: CommitId | None = None
    if_commit: CommitId | None = None
    """The head that it must follow, whoever completes it."""
    batch_id: str | None = None
    """The batch that it loads; its commit names it, so that a completed batch is not loaded again."""
    batch_request: str | None = None
    message: str | None = None
    operation: OperationDraft | None = None
    """The row of its idempotency key, which is published with its commit, by its writer or by recovery."""
    schema_hash: str | None = None
    """The hash of the schema IR that a schema change puts in place."""
    recorded: RecordedDecision | None = None
    members: "tuple[Sidecar, ...]" = ()
    """The writes of a group, in the order of their commits; their pins are known when the group is confirmed."""
    schema_version: int = SCHEMA_VERSION

    @property
    def mode(self) -> Mode:
        """The interpretation of its movements."""
        return mode_of(self.writer_kind, self.schema_version)

    @property
    def knows_its_commits(self) -> bool:
        """Whether every commit it made can be distinguished from a foreign one."""
        return self.schema_version >= DELTA_FLOOR

    @property
    def writes(self) -> "tuple[Sidecar, ...]":
        """The writes that it consists of: the members of a group, else itself."""
        return self.members or (self,)

    @property
    def path(self) -> str:
        """Its path, relative to the graph root."""
        return layout.sidecar_path(self.operation_id)

    @property
    def table_keys(self) -> tuple[TableKey, ...]:
        """Every table it changes, sorted."""
        keys = {pin.table_key for pin in self.tables}
        keys |= {registration.table_key for registration in self.registrations}
        keys |= {tombstone.table_key for tombstone in self.tombstones}
        keys |= {pointer.table_key for pointer in self.pointer_updates}
        return tuple(sorted(keys))

    @property
    def lock_keys(self) -> frozenset[LockKey]:
        """The locks that its owner holds: a process that can take them all knows that the owner is gone."""
        keys = {pin.lock_key for pin in self.tables}
        keys |= {lock_key(pointer.table_key, self.branch) for pointer in self.pointer_updates}
        return frozenset(keys | own_lock_keys(self.writer_kind, self.branch, is_bare=not keys))

    def confirm(self, versions: Mapping[TableKey, Version]) -> "Sidecar":
        """Note the exact version each pin reached; every one must have one."""
        missing = [pin.table_key for pin in self.tables if pin.table_key not in versions]
        if missing:
            raise InternalError(
                f"operation {self.operation_id} has no version of {missing[0]} to confirm"
            )
        pins = tuple(replace(pin, confirmed=versions[pin.table_key]) for pin in self.tables)
        return replace(self, tables=pins)

    def decided(self, recorded: RecordedDecision) -> "Sidecar":
        """Note a decision. Releases that do not know decisions must refuse the file, so it becomes version 3."""
        version = max(self.schema_version, SCHEMA_VERSION)
        return replace(self, recorded=recorded, schema_version=version)
