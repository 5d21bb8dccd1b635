"""Gathering: read everything that a decision on one pending operation depends on, changing nothing."""

from collections.abc import Sequence
from typing import Final

from omnigraphdb.commit.locks import HeldLocks
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecar import Pin, Sidecar, WriterKind
from omnigraphdb.errors import TableNotFound
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, BranchName, OperationId, Version
from omnigraphdb.manifest.operations import find_operation
from omnigraphdb.manifest.records import GraphCommit, Operation, graph_branch
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.recovery.audit import Audit
from omnigraphdb.recovery.classify import Facts, Observed, Ownership
from omnigraphdb.recovery.schema_files import StagingAction, decide_staging, is_placed, read_staging
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt, TransactionInfo
from omnigraphdb.values import dataclass

_RESTORE: Final = "Restore"
_REPLACING: Final = frozenset({_RESTORE, "Overwrite"})
"""Lance operations after which a table holds nothing of earlier commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatheredOperation:
    """A pending operation whose locks are held, and the branch state it was read on.

    The state is main's when the branch of the operation is gone.
    """

    committer: Committer
    audit: Audit
    sidecar: Sidecar
    held_locks: HeldLocks
    state: BranchState
    facts: Facts
    staging: StagingAction = StagingAction.NOTHING

    @property
    def id(self) -> OperationId:
        """The operation."""
        return self.sidecar.operation_id

    @property
    def branch(self) -> BranchName:
        """The graph branch it writes."""
        return graph_branch(self.sidecar.branch)

    @property
    def snapshot(self) -> Snapshot:
        """The visible snapshot of its branch."""
        return self.state.snapshot

    @property
    def objects(self) -> Objects:
        """The texts of the graph."""
        return self.committer.sidecars.objects

    def require_locks(self) -> None:
        """Stop before the next effect when a lock was lost: another recoverer, or a writer, may hold it now."""
        self.held_locks.require(f"the recovery of {self.id}", self.id)

    @property
    def is_schema_apply(self) -> bool:
        """Whether schema files are part of it."""
        return self.sidecar.writer_kind is WriterKind.SCHEMA_APPLY


def gather(
    committer: Committer, audit: Audit, sidecar: Sidecar, held_locks: HeldLocks
) -> GatheredOperation:
    """Read everything a decision depends on, without a cache."""
    alive = _is_alive(committer, sidecar)
    state = committer.manifest.current(graph_branch(sidecar.branch) if alive else MAIN)
    staging = _staging(committer, sidecar, state.snapshot) if alive else StagingAction.NOTHING
    facts = Facts(sidecar=sidecar, is_alive=False)
    if alive:
        facts = Facts(
            sidecar=sidecar,
            observed=observe(sidecar, state.snapshot, committer.tables),
            is_published=_is_published(committer, sidecar, state)
            or _is_completed(audit, sidecar, state, staging),
            is_reached=is_reached(sidecar, state.snapshot),
            is_read_set_unmoved=_is_read_set_unmoved(sidecar, state.snapshot),
            has_leftovers=_has_leftovers(committer, sidecar, state.snapshot, staging),
            may_complete=_may_complete(sidecar, state, staging),
        )
    return GatheredOperation(
        committer=committer,
        audit=audit,
        sidecar=sidecar,
        held_locks=held_locks,
        state=state,
        facts=facts,
        staging=staging,
    )


# ---- the operation


def _is_published(committer: Committer, sidecar: Sidecar, state: BranchState) -> bool:
    """Whether its own commit is visible, or its schema is in place, which happens after the publish."""
    if sidecar.commit_id is not None and state.shows(sidecar.commit_id) is not None:
        return True
    hash_ = sidecar.schema_hash
    return hash_ is not None and is_placed(committer.sidecars.objects, hash_)


def _is_completed(
    audit: Audit, sidecar: Sidecar, state: BranchState, staging: StagingAction
) -> bool:
    """Whether an earlier recoverer made it visible and died before it wrote the audit row.

    Of the commits that name an operation, only a completing one shows tables, brings a merged parent, or leaves
    schema files to be put in place; a decision to roll back is in the sidecar before its commit.
    """
    commit = find_recovery_commit(state, sidecar.operation_id)
    if commit is None or sidecar.recorded is not None:
        return False
    if sidecar.operation_id in audit.rolled_back():
        # A late PUT created the sidecar again after the roll-back.
        return False
    waits = staging is StagingAction.PROMOTE
    return waits or bool(commit.tables) or commit.merged_parent is not None


def find_recovery_commit(state: BranchState, operation_id: OperationId) -> GraphCommit | None:
    """Find the commit by which an earlier recoverer ended this operation; of a group, the last one."""
    recovery_commits = state.lineage.listed(actor=RECOVERY_ACTOR)
    matches = (
        commit for commit in recovery_commits if operation_id in (commit.operation_id, commit.group)
    )
    return next(matches, None)


def _may_complete(sidecar: Sidecar, state: BranchState, staging: StagingAction) -> bool:
    """Whether its schema files can be put in place, it follows the head that it names, and its keys are free."""
    is_placeable = (
        sidecar.writer_kind is not WriterKind.SCHEMA_APPLY or staging is StagingAction.PROMOTE
    )
    head = None if state.head is None else state.head.id
    follows = all(write.if_commit in (None, head) for write in sidecar.writes)
    return is_placeable and follows and all(_is_key_free(write, state) for write in sidecar.writes)


def _is_key_free(write: Sidecar, state: BranchState) -> bool:
    published = find_published_operation(write, state)
    return published is None or published.operation_id == write.operation_id


def find_published_operation(sidecar: Sidecar, state: BranchState) -> Operation | None:
    """Find the operation that its branch shows under its idempotency key."""
    draft = sidecar.operation
    return None if draft is None else find_operation(state, draft.actor, draft.key)


def _is_alive(committer: Committer, sidecar: Sidecar) -> bool:
    """Whether the branch exists in the incarnation the operation wrote; the list of refs decides, never a failed open."""
    if sidecar.branch is None:
        return True
    ref = committer.manifest.rows.branches().get(sidecar.branch)
    expected = sidecar.branch_incarnation
    return ref is not None and (expected is None or ref.incarnation == expected)


def is_reached(sidecar: Sidecar, snapshot: Snapshot) -> bool:
    """Whether everything it registers, drops and points elsewhere is visible."""
    entries = snapshot.entries
    registered = all(r.table_key in entries for r in sidecar.registrations)
    dropped = not any(t.table_key in entries for t in sidecar.tombstones)
    pointed = all(
        (entry := entries.get(p.table_key)) is not None
        and (entry.at.branch, entry.version) == (p.branch, p.version)
        for p in sidecar.pointer_updates
    )
    return registered and dropped and pointed


def _is_read_set_unmoved(sidecar: Sidecar, snapshot: Snapshot) -> bool:
    pins = snapshot.pins
    return all(pins.get(table) == expected for table, expected in sidecar.read_set.items())


def _staging(committer: Committer, sidecar: Sidecar, snapshot: Snapshot) -> StagingAction:
    if sidecar.writer_kind is not WriterKind.SCHEMA_APPLY:
        return StagingAction.NOTHING
    staging = read_staging(committer.sidecars.objects, snapshot, is_covered=True)
    foreign = staging.staged is not None and sidecar.schema_hash not in (None, staging.staged.hash)
    return StagingAction.HOLD_BACK if foreign else decide_staging(staging)


def _has_leftovers(
    committer: Committer, sidecar: Sidecar, snapshot: Snapshot, staging: StagingAction
) -> bool:
    """Whether tables or schema files exist that only this operation made."""
    paths = (
        registration.table_path
        for registration in sidecar.registrations
        if registration.created and registration.table_key not in snapshot.entries
    )
    return staging is not StagingAction.NOTHING or any(
        committer.tables.exists(path) for path in paths
    )


# ---- its tables


def observe(sidecar: Sidecar, snapshot: Snapshot, tables: Tables) -> tuple[Observed, ...]:
    """Observe every pin of an operation."""
    return tuple(_PinReader(sidecar, pin, snapshot, tables).observe() for pin in sidecar.tables)


def table_path(pin: Pin, snapshot: Snapshot) -> str:
    """Give the path of a pinned table: from the manifest, or from the sidecar when the manifest has no such table."""
    entry = snapshot.entries.get(pin.table_key)
    return entry.at.path if entry is not None else pin.table_path


def _entry(pin: Pin, snapshot: Snapshot) -> Entry | None:
    """Find the visible table of a pin by its key, or by its path when the table was renamed."""
    entry = snapshot.entries.get(pin.table_key)
    if entry is not None:
        return entry
    return next((e for e in snapshot.entries.values() if e.at.path == pin.table_path), None)


class _PinReader:
    """Reads where the table of one pin stands."""

    def __init__(self, sidecar: Sidecar, pin: Pin, snapshot: Snapshot, tables: Tables) -> None:
        self._sidecar = sidecar
        self._pin = pin
        self._tables = tables
        self._entry = _entry(pin, snapshot)
        self._path = table_path(pin, snapshot)
        self._visible = self._entry.version if self._entry is not None else Version(0)

    def observe(self) -> Observed:
        is_fork = self._is_unadopted()
        if is_fork is None:
            # A Lance branch that was never created has not moved.
            return Observed(pin=self._pin, head=self._visible, visible=self._visible)
        try:
            head = self._tables.head(self._path, self._pin.table_branch)
        except TableNotFound:
            if is_fork:
                # Its ref arrived after its files were cleared: the fork holds nothing.
                return Observed(pin=self._pin, head=self._visible, visible=self._visible)
            head = Version(0)
        return self._moved(head, is_fork) if head > self._visible else self._unmoved(head, is_fork)

    def _is_unadopted(self) -> bool | None:
        """Check that the manifest does not use the Lance branch of the pin; None when the branch does not exist."""
        branch = self._pin.table_branch
        if branch is None or (self._entry is not None and self._entry.at.branch == branch):
            return False
        return True if branch in self._tables.forks(self._path) else None

    def _unmoved(self, head: Version, is_fork: bool) -> Observed:
        return Observed(
            pin=self._pin,
            head=head,
            visible=self._visible,
            is_fork=is_fork,
            is_visible=head == self._visible and self._shows_ours(),
        )

    def _moved(self, head: Version, is_fork: bool) -> Observed:
        transactions = self._commits(self._visible, head)
        last = transactions[-1] if transactions else None
        at = TableAt(path=self._path, branch=self._pin.table_branch, version=head)
        return Observed(
            pin=self._pin,
            head=head,
            visible=self._visible,
            is_fork=is_fork,
            ownership=self._ownership(transactions),
            is_restored=last is not None and self._restores_visible(last),
            is_whole=self._tables.find_cut(at) is None,
        )

    def _restores_visible(self, transaction: TransactionInfo) -> bool:
        """Whether a commit is a restore of this operation's recovery to the version that is visible now.

        A recoverer that slept past its lease may have restored a version that others have replaced since.
        """
        return transaction.restored == self._visible and self._is_ours(transaction)

    def _ownership(self, transactions: Sequence[TransactionInfo]) -> Ownership:
        if not self._sidecar.knows_its_commits:
            return Ownership.UNKNOWN
        ours = [self._is_ours(transaction) for transaction in transactions]
        if all(ours):
            return Ownership.ALL
        # A commit that cannot be read may be ours: recovery must neither leave it in place nor show it.
        unread = any(transaction.uuid is None for transaction in transactions)
        return Ownership.SOME if any(ours) or unread else Ownership.NONE

    def _shows_ours(self) -> bool:
        """Whether a commit of this operation is visible and no later visible commit replaced all rows."""
        if not self._sidecar.knows_its_commits or self._visible <= self._pin.expected:
            return False
        is_shown = False
        for transaction in self._commits(self._pin.expected, self._visible):
            if self._is_ours(transaction):
                is_shown = transaction.operation != _RESTORE
            elif transaction.operation in _REPLACING:
                is_shown = False
        return is_shown

    def _is_ours(self, transaction: TransactionInfo) -> bool:
        return (
            transaction.operation_id == self._sidecar.operation_id
            or transaction.uuid in self._pin.uuids
        )

    def _commits(self, after: Version, upto: Version) -> tuple[TransactionInfo, ...]:
        return self._tables.transactions(self._path, self._pin.table_branch, after, upto)
