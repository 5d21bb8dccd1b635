"""Live or interrupted writers: the unfinished work of a writer proves nothing while it holds its locks."""

from collections.abc import Collection
from typing import NamedTuple

from omnigraphdb.commit.locks import LockKey, lock_key
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecar import Sidecar
from omnigraphdb.ids import BranchName, Version
from omnigraphdb.limits import EXAMINATIONS_MAX
from omnigraphdb.manifest.snapshot import Entry


class Drift(NamedTuple):
    """A HEAD that is not at its pin."""

    pin: Version
    head: Version


def is_interrupted(
    committer: Committer, sidecar: Sidecar, own_keys: Collection[LockKey] = ()
) -> bool:
    """Wait for the owner of a pending operation, if it lives, and tell whether the operation is left behind.

    An owner removes its sidecar before it gives its locks back. `own_keys` are locks of the caller.
    """
    committer.locks.wait_out(sidecar.lock_keys.difference(own_keys))
    return committer.sidecars.find(sidecar.operation_id) is not None


def find_drift(committer: Committer, branch: BranchName, entry: Entry) -> Drift | None:
    """Compare the HEAD of a table with its pin; a live writer, which moves both, is waited for.

    A writer moves the pin before it gives its lock back, so that a HEAD which its writer left past the pin stays
    there.
    """
    seen = _compare(committer, entry, entry)
    for _ in range(EXAMINATIONS_MAX):
        if seen is None:
            return None
        committer.locks.wait_out([lock_key(entry.table_key, entry.at.branch)])
        now = committer.manifest.current(branch).snapshot.entries.get(entry.table_key)
        latest = None if now is None else _compare(committer, entry, now)
        if latest == seen:
            return seen
        seen = latest
    return None


def _compare(committer: Committer, entry: Entry, now: Entry) -> Drift | None:
    """Compare HEAD and pin of a table; None when they agree, or when the table was moved meanwhile."""
    if (now.at.path, now.at.branch) != (entry.at.path, entry.at.branch):
        return None
    head = committer.tables.head(entry.at.path, entry.at.branch)
    return None if head == now.version else Drift(now.version, head)
