"""Late commits: commits of an operation that landed after recovery rolled it back; recovery undoes them.

A roll-back takes the versions that a late PUT could create. Late commits come from roll-backs of earlier releases, or
from a writer that was suspended past the end of its lease during a commit.
"""

from collections.abc import Collection, Sequence

from omnigraph.commit.locks import HeldLocks, lock_key
from omnigraph.commit.protocol import Committer
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import RECOVERY_ACTOR, BranchName, OperationId
from omnigraph.logs import get_logger
from omnigraph.manifest.change import Change, Update
from omnigraph.manifest.publish import publish
from omnigraph.manifest.snapshot import Entry
from omnigraph.recovery.audit import Audit
from omnigraph.storage.values import TransactionInfo

_log = get_logger(__name__)


def are_late(past_pin: Sequence[TransactionInfo], rolled_back: Collection[OperationId]) -> bool:
    """Whether all commits past a pin belong to operations that were rolled back."""
    return bool(past_pin) and all(one.operation_id in rolled_back for one in past_pin)


def undo_late(
    committer: Committer, audit: Audit, branch: BranchName, entry: Entry, held_locks: HeldLocks
) -> bool:
    """Restore a table to its pin when only commits of rolled-back operations are past it; says whether it did.

    The restore carries the operation id of the last of them. A restore whose publish failed is therefore late itself,
    and the next recoverer undoes it.
    """
    at, tables = entry.at, committer.tables
    head = tables.head(at.path, at.branch)
    past_pin = tables.transactions(at.path, at.branch, at.version, head)
    if not are_late(past_pin, audit.rolled_back()):
        return False
    last = past_pin[-1].operation_id
    assert last is not None, "a late commit names its operation"
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
