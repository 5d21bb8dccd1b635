"""Late commits: commits of an operation that landed after it had ended; recovery undoes them.

A roll-back takes the versions that a late PUT could create. Late commits come from roll-backs of earlier releases, from
a writer that was suspended past the end of its lease during a commit, or from a writer on an earlier branch of the name.
"""

from collections.abc import Collection, Sequence

from omnigraphdb.commit.locks import HeldLocks, lock_key
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, BranchName, OperationId, Version
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.change import Change, Update
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.recovery.audit import Audit
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt, TransactionInfo

_log = get_logger(__name__)


def are_late(past_pin: Sequence[TransactionInfo], rolled_back: Collection[OperationId]) -> bool:
    """Whether all commits past a pin belong to operations that were rolled back."""
    return bool(past_pin) and all(
        transaction.operation_id in rolled_back for transaction in past_pin
    )


def list_past_pin(tables: Tables, at: TableAt, head: Version) -> Sequence[TransactionInfo]:
    """Read the commits past a pin; a late request may have created one without those before it."""
    transactions = tables.transactions(at.path, at.branch, at.version, head)
    if all(transaction.operation is not None for transaction in transactions):
        return transactions
    listed = {info.version for info in tables.versions(at.path, at.branch)}
    return [transaction for transaction in transactions if transaction.version in listed]


def undo_late(
    committer: Committer, audit: Audit, branch: BranchName, entry: Entry, held_locks: HeldLocks
) -> bool:
    """Restore a table to its pin when only late commits are past it; says whether it is there.

    The restore carries the operation id of the last of them. A restore whose publish failed is therefore late itself,
    and the next recoverer undoes it.
    """
    at, tables = entry.at, committer.tables
    head = tables.head(at.path, at.branch)
    if head == at.version:
        # The commits past the pin were work in progress.
        return True
    past_pin = list_past_pin(tables, at, head)
    ended = audit.rolled_back() | _list_unknown(committer, branch, past_pin)
    if not are_late(past_pin, ended):
        return False
    last = past_pin[-1].operation_id
    assert last is not None, "a late commit names its operation"
    held_locks.require("the removal of a late commit")
    landed = tables.restore(
        at.path,
        at.branch,
        at.version,
        expected_head=head,
        operation_id=last,
        actor=RECOVERY_ACTOR,
        lock=held_locks.lock(lock_key(entry.table_key, at.branch)),
    )
    fail(Failpoint.LATE_RESTORED)
    update = Update(table_key=entry.table_key, at=landed.at, row_count=landed.row_count)
    expected = {entry.table_key: entry.version}
    publish(
        committer.manifest, Change(branch=branch, updates=(update,), expected=expected, draft=None)
    )
    _log.warning("recovery.late_commit_undone", operation=last, table=entry.table_key)
    return True


def _list_unknown(
    committer: Committer, branch: BranchName, past_pin: Sequence[TransactionInfo]
) -> frozenset[OperationId]:
    """List the operations that a branch neither shows nor waits for: they ran on an earlier branch of the name.

    An operation of this branch is pending from before its first commit until the branch shows it, or is rolled back.
    Main is never made again.
    """
    operation_ids = {
        transaction.operation_id for transaction in past_pin if transaction.operation_id is not None
    }
    if branch == MAIN or not operation_ids:
        return frozenset()
    pending = {sidecar.operation_id for sidecar in committer.sidecars.pending()}
    commits = committer.manifest.current(branch).lineage.commits
    return frozenset(operation_ids - pending - {commit.operation_id for commit in commits})
