"""The last look before effects: is everything a plan relies on still where it was prepared?"""

from collections.abc import Sequence

from omnigraphdb.commit.locks import HeldLocks, LockKey, lock_key
from omnigraphdb.commit.plan import TableWrite, WritePlan
from omnigraphdb.commit.sidecar import Sidecar
from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.errors import (
    DriftError,
    InternalError,
    ManifestConflict,
    OmniError,
    PreconditionFailed,
    ReadSetConflict,
    RecoveryRequired,
)
from omnigraphdb.ids import MAIN, TableKey, Version
from omnigraphdb.manifest.change import require_incarnation
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.manifest.stamp import CURRENT
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt


def require_base(
    tables: Tables, manifest: Manifest, sidecars: Sidecars, plan: WritePlan, held_locks: HeldLocks
) -> None:
    """Raise unless branch, newest commit, pins and table HEADs are in the state on which the plan was prepared."""
    state = _state(manifest, plan, held_locks)
    require_incarnation(plan.branch, plan.branch_incarnation, state.branch_incarnation)
    head = state.head.id if state.head else None
    if plan.if_commit is not None and head != plan.if_commit:
        raise PreconditionFailed(plan.if_commit, head)
    for write in plan.tables:
        require_pin(write, state.snapshot)
    _require_read_set(plan, state.snapshot)
    for write in plan.tables:
        # The last commit of this handle is the newest while nobody else had the lock; the commit itself meets a
        # program that takes no locks, as it would right after a look.
        is_known = held_locks.is_unbroken and tables.has_landed(write.base)
        if write.fork is None and not is_known:
            require_no_drift(tables, sidecars, write.table_key, write.base, held_locks)
    _require_no_rivals(sidecars, _list_without_head(plan))


def _state(manifest: Manifest, plan: WritePlan, held_locks: HeldLocks) -> BranchState:
    """Return the state of the branch as far as the plan relies on it.

    Pins move under their locks only. Where nobody else held these locks, the cached pins are still right; a branch name
    may have begun another incarnation and somebody else may have moved the head, so those are looked up.
    """
    if held_locks.is_unbroken and plan.branch == MAIN and plan.if_commit is None:
        cached = manifest.heads.get(MAIN)
        if cached is not None and cached.stamp == CURRENT:
            return cached
    return manifest.current(plan.branch)


def require_pin(write: TableWrite, snapshot: Snapshot) -> None:
    """Raise unless a table is visible exactly where its write was prepared."""
    entry = snapshot.entries.get(write.table_key)
    actual = entry.version if entry is not None else Version(0)
    if entry is not None and entry.at == write.base:
        return
    raise ManifestConflict(
        write.table_key, write.base.version, actual, is_stale_base=not write.strict
    )


def _require_read_set(plan: WritePlan, snapshot: Snapshot) -> None:
    for table, expected in plan.read_set.items():
        entry = snapshot.entries.get(table)
        actual = entry.version if entry is not None else Version(0)
        if actual != expected:
            if plan.is_strict:
                raise ReadSetConflict(table, expected, actual)
            raise ManifestConflict(table, expected, actual, is_stale_base=True)


# ---- HEADs


def require_no_drift(
    tables: Tables, sidecars: Sidecars, table: TableKey, at: TableAt, held_locks: HeldLocks
) -> None:
    """Raise when a HEAD is not at its pin, with the advice that fits."""
    if tables.is_newest(at):
        return
    head = tables.head(at.path, at.branch)
    if head < at.version:
        raise InternalError(f"{table} is pinned at {at.version}, its newest version is {head}")
    # A process that took a lock over may be amid a write.
    held_locks.require(f"the write to {table}")
    raise drift(sidecars, table, at.branch, at.version, head)


def _list_without_head(plan: WritePlan) -> list[LockKey]:
    """List the tables that a plan forks, or whose pin alone it moves: no HEAD of theirs tells of an interrupted write."""
    forked = [write.lock_key for write in plan.tables if write.fork is not None]
    own = lance_branch(plan.branch)
    return forked + [lock_key(pointer.table_key, own) for pointer in plan.pointer_updates]


def _require_no_rivals(sidecars: Sidecars, keys: Sequence[LockKey]) -> None:
    """Raise when a pending operation may have made, or moved, a fork of a table on the branch that is written."""
    if not keys:
        return
    owners = {pin.lock_key: sidecar for sidecar in sidecars.pending() for pin in sidecar.tables}
    for key in keys:
        rival = owners.get(key)
        if rival is not None:
            raise RecoveryRequired(
                rival.operation_id,
                f"{key.table} on branch '{key.branch or MAIN}' belongs to the interrupted {rival.writer_kind} "
                f"{rival.operation_id}; nothing was written, reopen the graph read-write",
                has_begun=False,
            )


def drift(
    sidecars: Sidecars, table: TableKey, branch: str | None, pin: Version, head: Version
) -> OmniError:
    """Build the error of a HEAD past its pin: a case for recovery, for repair, or an unknown one."""
    try:
        covering = find_covering_sidecar(sidecars, table, branch)
    except OmniError as error:
        advice = (
            f"pending operations could not be listed ({error}), so it is unclear whether reopening the graph "
            "read-write or `omnigraphdb repair` is right; look again when the storage answers"
        )
        return DriftError(table, pin, head, advice)
    if covering is None:
        return DriftError(table, pin, head, "run `omnigraphdb repair`")
    return RecoveryRequired(
        covering.operation_id,
        f"{table} is at version {head}, the graph pins {pin}: the interrupted {covering.writer_kind} "
        f"{covering.operation_id} must be rolled back first; nothing was written, reopen the graph read-write",
        has_begun=False,
    )


def find_covering_sidecar(
    sidecars: Sidecars, table: TableKey, branch: str | None
) -> Sidecar | None:
    """Find the pending operation that names a table on exactly this branch."""
    for sidecar in sidecars.pending():
        for pin in sidecar.tables:
            if (pin.table_key, pin.table_branch) == (table, branch):
                return sidecar
    return None
