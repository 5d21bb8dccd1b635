"""Phases A to D: the one way from a prepared write to a visible one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from omnigraph.commit.forks import fork_table
from omnigraph.commit.guard import StaleBase, require_base
from omnigraph.commit.plan import TableWrite, WritePlan
from omnigraph.commit.queues import Hold, Queues, queue_key
from omnigraph.commit.sidecar import (
    Decided,
    Pin,
    Recorded,
    Sidecar,
    Sidecars,
    WriterKind,
)
from omnigraph.errors import (
    ConflictError,
    HeadMoved,
    InternalError,
    OmniError,
    PublishContention,
    RecoveryRequired,
)
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import TableKey, Version
from omnigraph.logs import get_logger
from omnigraph.manifest.change import Change, Draft, Update
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.publish import Published, publish
from omnigraph.manifest.records import lance_branch
from omnigraph.runtime import Runtime, datetime_of
from omnigraph.storage.layout import Root
from omnigraph.storage.tables import Landed, TableAt, Tables

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What committing needs: the tables, the manifest, the sidecars, the turns, the clock."""

    root: Root
    tables: Tables
    manifest: Manifest
    sidecars: Sidecars
    queues: Queues
    runtime: Runtime


def commit(desk: Desk, plan: WritePlan, held: Hold | None = None) -> Published:
    """Make a plan visible, or leave it to recovery, or leave no trace.

    `StaleBase`: what a re-basable plan was prepared on moved; nothing was written, prepare it again.
    """
    if held is not None:
        if not held.covers(plan.queues):
            raise InternalError("a write would be committed without all of its queues")
        return _walk(desk, plan, held)
    with desk.queues.hold(plan.queues) as fresh:
        return _walk(desk, plan, fresh)


def _walk(desk: Desk, plan: WritePlan, hold: Hold) -> Published:
    require_base(desk.tables, desk.manifest, desk.sidecars, plan)  # the last look before effects
    fail(Failpoint.STAGED)
    sidecar = intent(desk, plan, hold)
    desk.sidecars.arm(sidecar)  # A: the intent is durable
    fail(_ARMED[plan.kind])
    plan, sidecar = _stand(desk, plan, sidecar)
    landed = _land(desk, plan, hold)  # B: HEADs move
    if plan.kind is WriterKind.BRANCH_MERGE:
        sidecar = sidecar.confirm({table: one.at.version for table, one in landed.items()})
        desk.sidecars.confirm(sidecar)  # B': and so is the outcome
    fail(_COMMITTED[plan.kind])
    published = _publish(desk, plan, sidecar, landed)  # C: the graph moves
    _disarm(desk, plan)  # D: the intent is spent
    return published


_ARMED: Mapping[WriterKind, Failpoint] = dict.fromkeys(WriterKind, Failpoint.ARMED)
_COMMITTED: Mapping[WriterKind, Failpoint] = dict.fromkeys(WriterKind, Failpoint.TABLES_COMMITTED)


# ---- A


def intent(desk: Desk, plan: WritePlan, hold: Hold) -> Sidecar:
    """The sidecar of a plan."""
    return Sidecar(
        operation_id=plan.operation_id,
        writer_kind=plan.kind,
        branch=lance_branch(plan.branch),
        actor=plan.actor,
        started_at=datetime_of(desk.runtime.now_us()).isoformat(),
        tables=tuple(_pin(write, hold) for write in plan.tables),
        registrations=plan.registrations,
        tombstones=plan.tombstones,
        pointer_updates=plan.pointer_updates,
        read_set=plan.read_set,
        merge_source=plan.merge_source,
        commit_id=None if plan.maintenance else plan.commit_id,
    )


def _pin(write: TableWrite, hold: Hold) -> Pin:
    lock = hold.lock(queue_key(write.table_key, write.branch))
    return Pin(
        table_key=write.table_key,
        table_path=write.base.path,
        table_branch=write.branch,
        expected=write.base.version,
        post_commit=Version(write.base.version + write.commits),
        uuids=() if write.staged is None else (write.staged.uuid,),
        forked=write.fork is not None,
        token=lock.token,
    )


# ---- B


def _stand(desk: Desk, plan: WritePlan, sidecar: Sidecar) -> tuple[WritePlan, Sidecar]:
    """Fork what the branch does not own yet, and stage what could not be staged before that."""
    if all(write.staged is not None for write in plan.tables):
        return plan, sidecar
    writes = tuple(_staged(desk, plan, write) for write in plan.tables)
    uuids = {write.table_key: write.staged.uuid for write in writes if write.staged is not None}
    pins = tuple(
        replace(pin, uuids=(uuids[pin.table_key],)) if pin.table_key in uuids else pin
        for pin in sidecar.tables
    )
    sidecar = replace(sidecar, tables=pins)
    # Which transactions are ours is on disk before any of them lands.
    desk.sidecars.record(sidecar)
    return replace(plan, tables=writes), sidecar


def _staged(desk: Desk, plan: WritePlan, write: TableWrite) -> TableWrite:
    if write.staged is not None:
        return write
    at = write.base
    if write.fork is not None:
        at = fork_table(desk.tables, desk.manifest, desk.sidecars, write, plan)
    first, *rest = write.steps
    return replace(write, base=at, staged=first(desk.tables, at), steps=tuple(rest), fork=None)


def _land(desk: Desk, plan: WritePlan, hold: Hold) -> dict[TableKey, Landed]:
    landed: dict[TableKey, Landed] = {}
    for write in plan.tables:
        try:
            found = _land_table(desk, plan, write, hold)
        except HeadMoved as error:
            if landed:
                raise
            # Nothing of this operation moved a HEAD: the intent can go with it.
            desk.sidecars.disarm(plan.operation_id)
            actual = Version(error.actual or write.base.version)
            raise StaleBase(write.table_key, write.base.version, actual) from error
        if found is not None:
            landed[write.table_key] = found
        fail(Failpoint.TABLE_COMMITTED)
    return landed


def _land_table(desk: Desk, plan: WritePlan, write: TableWrite, hold: Hold) -> Landed | None:
    """Make the commits of one table, each on the one before."""
    landed: Landed | None = None
    staged = write.staged
    waiting = list(write.steps)
    while staged is not None or waiting:
        if staged is not None:
            landed = desk.tables.commit_staged(
                staged,
                operation_id=plan.operation_id,
                actor=plan.actor,
                lock=hold.lock(write.queue),
            )
        at = write.base if landed is None else landed.at
        staged = waiting.pop(0)(desk.tables, at) if waiting else None
    return landed


# ---- C


def _publish(
    desk: Desk, plan: WritePlan, sidecar: Sidecar, landed: Mapping[TableKey, Landed]
) -> Published:
    try:
        return publish(desk.manifest, change_of(plan, landed))
    except PublishContention as error:
        raise RecoveryRequired(
            plan.operation_id,
            f"operation {plan.operation_id} is written but not visible yet: other writers of branch "
            f"'{plan.branch}' kept winning; recovery will complete it, do not repeat it",
        ) from error
    except ConflictError:
        # Nobody may complete a write that was refused: the decision is on disk before the turns are free.
        desk.sidecars.record(replace(sidecar, recorded=Recorded(decision=Decided.ROLL_BACK)))
        raise


def change_of(plan: WritePlan, landed: Mapping[TableKey, Landed]) -> Change:
    """The publish of a plan whose tables landed."""
    updates = [Update(table_key=k, at=one.at, row_count=one.row_count) for k, one in landed.items()]
    updates += [
        Update(
            table_key=p.table_key,
            at=TableAt(path=p.path or "", branch=p.branch, version=p.version),
            row_count=p.row_count,
        )
        for p in plan.pointer_updates
    ]
    expected = dict(plan.read_set)
    expected |= {write.table_key: write.base.version for write in plan.tables}
    expected |= {r.table_key: Version(0) for r in plan.registrations}
    expected |= {t.table_key: Version(t.version - 1) for t in plan.tombstones}
    return Change(
        branch=plan.branch,
        updates=tuple(updates),
        registrations={r.table_key: r.table_path for r in plan.registrations},
        tombstones={t.table_key: t.version for t in plan.tombstones},
        expected=expected,
        draft=None if plan.maintenance else _draft(plan),
        if_head=plan.if_commit,
    )


def _draft(plan: WritePlan) -> Draft:
    return Draft(
        commit=plan.commit_id,
        kind=plan.commit_kind,
        actor=plan.actor,
        merged_parent=plan.merge_source,
        operation_id=plan.operation_id,
        batch_id=plan.batch_id,
    )


# ---- D


def _disarm(desk: Desk, plan: WritePlan) -> None:
    try:
        desk.sidecars.disarm(plan.operation_id)
    except OmniError as error:
        # The write is visible; a sidecar that stays is recognised as spent by the next heal.
        _log.warning("sidecar.disarm_failed", operation=plan.operation_id, reason=str(error))
