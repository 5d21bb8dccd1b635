"""The last look before effects: is everything a plan relies on still where it was prepared?"""

from collections.abc import Sequence

from omnigraph.commit.locks import HeldLocks
from omnigraph.commit.plan import TableWrite, WritePlan
from omnigraph.commit.sidecar import Sidecar
from omnigraph.commit.sidecars import Sidecars
from omnigraph.errors import (
    DriftError,
    InternalError,
    ManifestConflict,
    OmniError,
    PreconditionFailed,
    ReadSetConflict,
    RecoveryRequired,
)
from omnigraph.ids import MAIN, TableKey, Version
from omnigraph.manifest.change import require_incarnation
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.stamp import CURRENT
from omnigraph.manifest.state import BranchState
from omnigraph.storage.tables import Tables
from omnigraph.storage.values import TableAt


class StaleBase(ManifestConflict):
    """The base of a re-basable write moved before its first effect: prepare it again."""


class Blocked(RecoveryRequired):
    """A pending operation stands in the way of a write that has not begun."""


def require_base(
    tables: Tables, manifest: Manifest, sidecars: Sidecars, plan: WritePlan, held_locks: HeldLocks
) -> None:
    """Raise unless the branch, its newest commit, its pins and the HEADs of its tables are what the plan was prepared on."""
    state = _state(manifest, plan, held_locks)
    require_incarnation(plan.branch, plan.branch_incarnation, state.branch_incarnation)
    head = state.head.id if state.head else None
    if plan.if_commit is not None and head != plan.if_commit:
        raise PreconditionFailed(plan.if_commit, head)
    for write in plan.tables:
        require_pin(write, state.snapshot)
    _require_read_set(plan, state.snapshot)
    for write in plan.tables:
        # What this handle committed last is the newest while nobody else had the lock; a program that takes no locks
        # is met by the commit itself, as it would be right after a look.
        is_known = held_locks.is_unbroken and tables.has_landed(write.base)
        if write.fork is None and not is_known:
            require_no_drift(tables, sidecars, write.table_key, write.base)
    _require_no_rivals(sidecars, [write for write in plan.tables if write.fork is not None])


def _state(manifest: Manifest, plan: WritePlan, held_locks: HeldLocks) -> BranchState:
    """The branch as far as the plan relies on it.

    Pins move under their locks only. Where nobody else held these locks, the cached pins are still right; a branch name
    may have begun another incarnation and somebody else may have moved the head, so those are looked up.
    """
    if held_locks.is_unbroken and plan.branch == MAIN and plan.if_commit is None:
        known = manifest.heads.get(MAIN)
        if known is not None and known.stamp == CURRENT:
            return known
    return manifest.current(plan.branch)


def require_pin(write: TableWrite, snapshot: Snapshot) -> None:
    """Raise unless a table is visible exactly where its write was prepared."""
    entry = snapshot.entries.get(write.table_key)
    actual = entry.version if entry is not None else Version(0)
    if entry is not None and entry.at == write.base:
        return
    conflict = ManifestConflict if write.strict else StaleBase
    raise conflict(write.table_key, write.base.version, actual)


def _require_read_set(plan: WritePlan, snapshot: Snapshot) -> None:
    for table, expected in plan.read_set.items():
        entry = snapshot.entries.get(table)
        actual = entry.version if entry is not None else Version(0)
        if actual != expected:
            if plan.is_strict:
                raise ReadSetConflict(table, expected, actual)
            raise StaleBase(table, expected, actual)


# ---- HEADs


def require_no_drift(tables: Tables, sidecars: Sidecars, table: TableKey, at: TableAt) -> None:
    """Raise when a HEAD is not at its pin, with the advice that fits."""
    if tables.is_newest(at):
        return
    head = tables.head(at.path, at.branch)
    if head < at.version:
        raise InternalError(f"{table} is pinned at {at.version}, its newest version is {head}")
    raise drift(sidecars, table, at.branch, at.version, head)


def _require_no_rivals(sidecars: Sidecars, writes: Sequence[TableWrite]) -> None:
    """Raise when a pending operation may own a fork that this write is about to make."""
    if not writes:
        return
    owners = {pin.lock_key: sidecar for sidecar in sidecars.pending() for pin in sidecar.tables}
    for write in writes:
        rival = owners.get(write.lock_key)
        if rival is not None:
            raise Blocked(
                rival.operation_id,
                f"branch '{write.fork}' of {write.table_key} belongs to the interrupted {rival.writer_kind} "
                f"{rival.operation_id}; nothing was written, reopen the graph read-write",
            )


def drift(
    sidecars: Sidecars, table: TableKey, branch: str | None, pin: Version, head: Version
) -> OmniError:
    """The error of a HEAD past its pin: recovery's business, repair's, or nobody knows."""
    try:
        covering = find_covering_sidecar(sidecars, table, branch)
    except OmniError as error:
        advice = (
            f"pending operations could not be listed ({error}), so it is unclear whether reopening the graph "
            "read-write or `omnigraph repair` is right; look again when the storage answers"
        )
        return DriftError(table, pin, head, advice)
    if covering is None:
        return DriftError(table, pin, head, "run `omnigraph repair`")
    return Blocked(
        covering.operation_id,
        f"{table} is at version {head}, the graph pins {pin}: the interrupted {covering.writer_kind} "
        f"{covering.operation_id} must be rolled back first; nothing was written, reopen the graph read-write",
    )


def find_covering_sidecar(
    sidecars: Sidecars, table: TableKey, branch: str | None
) -> Sidecar | None:
    """The pending operation that names a table on exactly this branch."""
    for sidecar in sidecars.pending():
        for pin in sidecar.tables:
            if (pin.table_key, pin.table_branch) == (table, branch):
                return sidecar
    return None
