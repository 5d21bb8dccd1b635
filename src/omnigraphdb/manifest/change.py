"""A change of the manifest: the tables it updates, the pins it expects, and the rows that it writes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from omnigraphdb.errors import (
    InternalError,
    ManifestConflict,
    NotFound,
    PreconditionFailed,
    ReadSetConflict,
)
from omnigraphdb.ids import BranchName, CommitId, OperationId, TableKey, Version
from omnigraphdb.manifest.merged import NO_COMMITS, NO_ROWS, encode_merged_commits
from omnigraphdb.manifest.operations import KeyPublished, find_operation
from omnigraphdb.manifest.policies import require_next
from omnigraphdb.manifest.records import (
    Agreed,
    CommitKind,
    GraphCommit,
    GraphHead,
    Operation,
    PolicyVersion,
    Record,
    Registration,
    TableVersion,
    Tag,
    Tombstone,
)
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.table_history import TableHistory, TableIncarnation
from omnigraphdb.manifest.tags import require_free
from omnigraphdb.storage.values import Incarnation, TableAt
from omnigraphdb.values import dataclass


class BranchMadeAgain(ReadSetConflict):
    """The branch that a write was prepared on is gone, and another one has its name."""

    def __init__(self, branch: BranchName) -> None:
        super().__init__(f"branch '{branch}' was deleted and made again: what it shows")


def require_incarnation(branch: BranchName, expected: Incarnation, actual: Incarnation) -> None:
    """Refuse a write that was prepared on another branch of the same name."""
    if expected != actual:
        raise BranchMadeAgain(branch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A table version to make visible."""

    table_key: TableKey
    at: TableAt
    row_count: int
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A graph commit before its publish; its id is chosen once per write and survives every retry.

    `tables` are the keys it names as changed; without them, the keys its change touches. Its time is not before
    `not_before`, the time of its merged parent.
    """

    commit: CommitId
    kind: CommitKind
    actor: str | None = None
    merged_parent: CommitId | None = None
    tables: tuple[TableKey, ...] | None = None
    operation_id: OperationId | None = None
    batch_id: str | None = None
    batch_request: str | None = None
    not_before: int = 0
    agreed: Agreed | None = None
    message: str | None = None
    group: str | None = None
    replaced_schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDraft:
    """The row of an idempotency key before its publish; its actor is the caller, also when recovery publishes it."""

    key: str
    actor: str | None
    request: str
    operation_id: OperationId
    receipt: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    is_pending: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class DerivedRecords:
    """The records that a change was found to write on one state."""

    state: BranchState
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One publish. Without a draft it is maintenance: pins move, history does not.

    `registrations` map new table keys to their paths, `tombstones` dropped ones to pin + 1. `expected` may name
    tables that do not change: those a check relied on. An expected 0 means "no such table". `merged_commits` are commits
    of other branches, as `merged.ancestor_rows` gives them, that the branch keeps unless it has them. `operation` is
    the idempotency key of the write; it may be all there is to publish,
    and so may a `tag` or a `policy`.
    """

    branch: BranchName
    branch_incarnation: Incarnation | None = None
    """Of the branch that it was prepared on; None where any branch of the name will do."""
    updates: tuple[Update, ...] = ()
    registrations: Mapping[TableKey, str] = field(default_factory=dict)
    tombstones: Mapping[TableKey, Version] = field(default_factory=dict)
    expected: Mapping[TableKey, Version] = field(default_factory=dict)
    draft: Draft | None = None
    if_head: CommitId | None = None
    merged_commits: pa.Table = field(default_factory=lambda: NO_COMMITS)
    operation: OperationDraft | None = None
    before: "tuple[Change, ...]" = ()
    """Changes that come before it in the same swap, each on the state that the previous one leaves."""
    tag: Tag | None = None
    policy: PolicyVersion | None = None
    allowed_by: int | None = None
    """The version of the graph's policy that allowed it, 0 without one; None when nobody was asked."""
    derived: DerivedRecords | None = field(default=None, repr=False, compare=False)
    """The records that it writes on the state that it was checked against; another state needs other records."""

    @property
    def tables(self) -> tuple[TableKey, ...]:
        """The table keys it touches, sorted."""
        updated = {update.table_key for update in self.updates}
        return tuple(sorted(updated | self.registrations.keys() | self.tombstones.keys()))

    @property
    def writes_nothing(self) -> bool:
        """Whether the change only checks."""
        rows = (self.draft, self.operation, self.tag, self.policy)
        return not self.tables and all(row is None for row in rows)


def encode_unknown_commits(change: Change, state: BranchState) -> pa.Table:
    """Encode the brought commits that a state does not have; all of their keys are new."""
    return (
        encode_merged_commits(change.merged_commits, state.ancestors)
        if change.merged_commits.num_rows
        else NO_ROWS
    )


def records_for(change: Change, state: BranchState, created_at: int) -> tuple[Record, ...]:
    """Check a change against a state and return its records; raises the conflict for the caller to resolve."""
    if change.derived is not None and change.derived.state is state:
        return change.derived.records
    if not change.before:
        return _records_of(change, state, created_at)
    all_records: list[Record] = []
    for step in (*change.before, change):
        records = _records_of(step, state, created_at)
        state = state.expect(records)
        all_records += records
    return join_records(all_records)


def join_records(records: Sequence[Record]) -> tuple[Record, ...]:
    """Join the records of the changes of one swap; only their last head is stored."""
    heads = [record for record in records if isinstance(record, GraphHead)]
    return (*(record for record in records if not isinstance(record, GraphHead)), heads[-1])


def _records_of(change: Change, state: BranchState, created_at: int) -> tuple[Record, ...]:
    if change.branch_incarnation is not None:
        require_incarnation(change.branch, change.branch_incarnation, state.branch_incarnation)
    _require_head(change, state)
    _require_pins(change, state.table_history)
    if change.writes_nothing:
        return ()
    tables = tuple(_table_records(change, state.table_history))
    if change.registrations:
        # Versions and tombstones give no table another path.
        _require_one_owner(state.table_history.after(tables))
    lineage = tuple(_lineage_records(change, state, created_at))
    return (
        *tables,
        *_operation_records(change, state, created_at),
        *_tags(change, state),
        *_policies(change, state),
        *lineage,
    )


# ---- checks


def _require_head(change: Change, state: BranchState) -> None:
    if change.if_head is None:
        return
    actual = state.head.id if state.head else None
    if actual != change.if_head:
        raise PreconditionFailed(change.if_head, actual)


def _require_pins(change: Change, table_history: TableHistory) -> None:
    for table, expected in sorted(change.expected.items()):
        actual = _pin(change, table_history.latest(table))
        if actual != expected:
            raise ManifestConflict(table, expected, actual)


def _pin(change: Change, latest: TableIncarnation | None) -> Version:
    """Give the version to compare with; 0 for a dropped key that is registered again."""
    if latest is None or (latest.is_dropped and latest.table_key in change.registrations):
        return Version(0)
    return latest.pin


def _require_one_owner(table_history: TableHistory) -> None:
    """Refuse two visible keys with one table: a write to one would also be a write to the other."""
    owners: dict[str, TableKey] = {}
    for latest in table_history.visible:
        other = owners.setdefault(latest.path, latest.table_key)
        if other != latest.table_key:
            raise InternalError(
                f"{other} and {latest.table_key} would both be stored at '{latest.path}'; nothing was written"
            )


# ---- the rows


def _table_records(change: Change, table_history: TableHistory) -> Iterator[Record]:
    registered = {r.table_key: r for r in _registrations(change, table_history)}
    yield from registered.values()
    updated_history = table_history.after(registered.values())
    seen: set[TableKey] = set()
    for update in sorted(change.updates, key=lambda update: update.table_key):
        if update.table_key in seen:
            raise InternalError(f"{update.table_key} is updated twice in one publish")
        seen.add(update.table_key)
        yield _version(change, update, _require_incarnation(updated_history, update.table_key))
    for table, version in sorted(change.tombstones.items()):
        yield _make_tombstone(change, table, version, _require_incarnation(updated_history, table))


def _require_incarnation(table_history: TableHistory, table: TableKey) -> TableIncarnation:
    latest = table_history.latest(table)
    if latest is None:
        raise NotFound("table", table, known=table_history.by_key)
    return latest


def _registrations(change: Change, table_history: TableHistory) -> Iterator[Registration]:
    for table, path in sorted(change.registrations.items()):
        latest = table_history.latest(table)
        if latest is not None and not latest.is_dropped:
            if latest.path != path:
                raise ReadSetConflict(f"the path of {table}", path, latest.path)
            yield Registration(table_key=table, path=path, incarnation=latest.incarnation)
        else:
            incarnation = table_history.next_incarnation(table)
            yield Registration(table_key=table, path=path, incarnation=incarnation)


def _version(change: Change, update: Update, latest: TableIncarnation) -> TableVersion:
    if update.at.path != latest.path:
        raise InternalError(
            f"{update.table_key} is stored at '{latest.path}', not at '{update.at.path}'; nothing was written"
        )
    if latest.is_dropped or (update.at.version <= latest.pin and not _takes_over(update, latest)):
        expected = change.expected.get(update.table_key, Version(update.at.version - 1))
        raise ManifestConflict(update.table_key, expected, latest.pin)
    return TableVersion(
        table_key=update.table_key,
        path=latest.path,
        version=update.at.version,
        branch=update.at.branch,
        row_count=update.row_count,
        incarnation=latest.incarnation,
        digests=update.digests,
    )


def _takes_over(update: Update, latest: TableIncarnation) -> bool:
    """Whether a fork at an unchanged version takes the table over: same version, same rows, another branch."""
    return (
        update.at.version == latest.version
        and update.row_count == latest.row_count
        and update.at.branch != latest.branch
    )


def _make_tombstone(
    change: Change, table: TableKey, version: Version, latest: TableIncarnation
) -> Tombstone:
    if latest.is_dropped:
        raise ManifestConflict(table, change.expected.get(table, Version(version - 1)), latest.pin)
    if version <= latest.pin:
        raise InternalError(
            f"a tombstone of {table} at {version} would not hide version {latest.pin}; nothing was written"
        )
    return Tombstone(table_key=table, version=version, incarnation=latest.incarnation)


def _operation_records(change: Change, state: BranchState, created_at: int) -> Iterator[Operation]:
    draft = change.operation
    if draft is None:
        return
    stored_operation = find_operation(state, draft.actor, draft.key)
    is_own = stored_operation is not None and stored_operation.operation_id == draft.operation_id
    if stored_operation is not None and not (is_own and stored_operation.is_pending):
        raise KeyPublished(stored_operation.key, stored_operation.operation_id)
    yield Operation(
        branch=change.branch,
        actor=draft.actor,
        key=draft.key,
        request=draft.request,
        operation_id=draft.operation_id,
        created_at=created_at,
        commit=None if change.draft is None else change.draft.commit,
        receipt=draft.receipt,
        is_pending=draft.is_pending,
    )


def _tags(change: Change, state: BranchState) -> Iterator[Tag]:
    if change.tag is not None:
        require_free(state, change.tag)
        yield change.tag


def _policies(change: Change, state: BranchState) -> Iterator[PolicyVersion]:
    if change.policy is not None:
        require_next(state.policies, change.policy)
        yield change.policy


def _lineage_records(change: Change, state: BranchState, created_at: int) -> Iterator[Record]:
    head = state.head
    if change.draft is None:
        # Rewritten unchanged: all publishes of a branch must contend on this row.
        commit, parent = (head.id, head.parent) if head else (None, None)
        yield GraphHead(branch=change.branch, commit=commit, parent=parent)
        return
    parent = head.id if head else None
    # A clock may step back, and clocks of two machines differ; times in a history never decrease.
    commit_time = max(created_at, change.draft.not_before, head.created_at if head else 0)
    if head is not None and change.draft.group is not None and head.group == change.draft.group:
        # Commits of one swap have one version; their times tell their order.
        commit_time = max(commit_time, head.created_at + 1)
    yield _commit(change, change.draft, state, parent, commit_time)
    yield GraphHead(branch=change.branch, commit=change.draft.commit, parent=parent)


def _commit(
    change: Change, draft: Draft, state: BranchState, parent: CommitId | None, created_at: int
) -> GraphCommit:
    return GraphCommit(
        id=draft.commit,
        branch=change.branch,
        manifest_version=Version(state.version + 1),
        created_at=created_at,
        kind=draft.kind,
        parent=parent,
        merged_parent=draft.merged_parent,
        actor=draft.actor,
        tables=draft.tables if draft.tables is not None else change.tables,
        operation_id=draft.operation_id,
        batch_id=draft.batch_id,
        batch_request=draft.batch_request,
        agreed=draft.agreed,
        pins={update.table_key: update.at.version for update in change.updates},
        message=draft.message,
        group=draft.group,
        replaced_schema=draft.replaced_schema,
    )
