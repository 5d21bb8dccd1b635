"""Phases A to D: the one way from a prepared write to a visible one."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from omnigraphdb.commit.forks import fork_table
from omnigraphdb.commit.guard import require_base
from omnigraphdb.commit.locks import HeldLocks, TableLocks
from omnigraphdb.commit.plan import NewTable, SchemaChange, TableWrite, WritePlan
from omnigraphdb.commit.schema_files import install_staged_files, stage_files
from omnigraphdb.commit.sidecar import Decided, Pin, RecordedDecision, Sidecar, WriterKind
from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.commit.stage import ALONE, StageWorkers, stage_commit
from omnigraphdb.errors import (
    ConflictError,
    EngineError,
    HeadMoved,
    Interleaved,
    InternalError,
    ManifestConflict,
    OmniError,
    PreconditionFailed,
    PublishContention,
    RecoveryRequired,
    StorageError,
    TableExists,
)
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, OperationId, TableKey, Version
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.accepted_schema import keep_replaced
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import Published, publish
from omnigraphdb.manifest.records import graph_branch, lance_branch
from omnigraphdb.runtime import Runtime, datetime_of
from omnigraphdb.storage.layout import Root
from omnigraphdb.storage.locks.table import RequireLocks
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import Landed, Staged, TableAt
from omnigraphdb.values import dataclass

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """The parts that committing needs: the tables, the manifest, the sidecars, the locks, the clock."""

    root: Root
    tables: Tables
    manifest: Manifest
    sidecars: Sidecars
    locks: TableLocks
    runtime: Runtime


class Refused(ConflictError):
    """A refused publish after HEADs moved: the landed commits must be rolled back while the locks are held."""

    def __init__(self, conflict: ConflictError) -> None:
        super().__init__(str(conflict))
        self.conflict = conflict


@dataclass(frozen=True, slots=True)
class CommittedPlan:
    """A plan that is visible, and the transactions that were staged for each of its tables, commit by commit."""

    published: Published
    staged: Mapping[TableKey, tuple[Staged, ...]]


def commit(
    committer: Committer, plan: WritePlan, held_locks: HeldLocks, workers: StageWorkers = ALONE
) -> CommittedPlan:
    """Make a plan visible, or leave it to recovery, or leave no trace.

    Conflicts: nothing was written. `Refused`: roll it back. `RecoveryRequired`: it was
    written and recovery decides.
    """
    if not held_locks.covers(plan.lock_keys):
        raise InternalError("a write would be committed without all of its locks")
    # The last look.
    require_base(committer.tables, committer.manifest, committer.sidecars, plan, held_locks)
    fail(Failpoint.STAGED)
    sidecar = sidecar_of(committer, plan, held_locks)
    committer.sidecars.arm(sidecar)  # A: the intent is durable
    fail(_ARMED[plan.kind])
    plan, sidecar, created = _create_bases(committer, plan, sidecar, held_locks, workers)
    effects = _commit_tables(committer, plan, sidecar, held_locks, workers)  # B: HEADs move
    landed = created | {table: effect.landed for table, effect in effects.items()}
    with report_unfinished(sidecar):
        if plan.kind is WriterKind.BRANCH_MERGE:
            fail(Failpoint.MERGE_EFFECTS_DONE)
            sidecar = sidecar.confirm(
                {table: table_landed.at.version for table, table_landed in landed.items()}
            )
            committer.sidecars.confirm(sidecar)  # B': and so is the outcome
        fail(_COMMITTED[plan.kind])
        require_locks(committer, sidecar, held_locks)
        published = _publish(committer, plan, sidecar, landed)  # C: the graph moves
    if plan.schema is not None:
        _install_schema_files(committer, sidecar, held_locks)
    disarm(committer, plan.operation_id, held_locks)  # D: the intent is spent
    return CommittedPlan(published, {table: effect.staged for table, effect in effects.items()})


_ARMED: Mapping[WriterKind, Failpoint] = {
    **dict.fromkeys(WriterKind, Failpoint.ARMED),
    WriterKind.SCHEMA_APPLY: Failpoint.SCHEMA_ARMED,
    WriterKind.BRANCH_MERGE: Failpoint.MERGE_ARMED,
    WriterKind.ENSURE_INDICES: Failpoint.INDICES_ARMED,
    WriterKind.OPTIMIZE: Failpoint.OPTIMIZE_ARMED,
}
_LANDED: Mapping[WriterKind, Failpoint] = {
    **dict.fromkeys(WriterKind, Failpoint.TABLE_COMMITTED),
    WriterKind.SCHEMA_APPLY: Failpoint.SCHEMA_TABLE_COMMITTED,
    WriterKind.BRANCH_MERGE: Failpoint.MERGE_TABLE_COMMITTED,
    WriterKind.ENSURE_INDICES: Failpoint.INDICES_TABLE_COMMITTED,
    WriterKind.OPTIMIZE: Failpoint.OPTIMIZE_TABLE_COMMITTED,
}
_COMMITTED: Mapping[WriterKind, Failpoint] = {
    **dict.fromkeys(WriterKind, Failpoint.TABLES_COMMITTED),
    WriterKind.BRANCH_MERGE: Failpoint.MERGE_CONFIRMED,
    WriterKind.ENSURE_INDICES: Failpoint.INDICES_COMMITTED,
    WriterKind.OPTIMIZE: Failpoint.OPTIMIZE_COMMITTED,
}


# ---- A


def sidecar_of(committer: Committer, plan: WritePlan, held_locks: HeldLocks) -> Sidecar:
    """Build the sidecar of a plan."""
    return Sidecar(
        operation_id=plan.operation_id,
        writer_kind=plan.kind,
        branch=lance_branch(plan.branch),
        branch_incarnation=plan.branch_incarnation or None,
        actor=plan.actor,
        started_at=datetime_of(committer.runtime.now_us()).isoformat(),
        tables=tuple(_pin(write, held_locks) for write in plan.tables),
        registrations=plan.registrations,
        tombstones=plan.tombstones,
        pointer_updates=plan.pointer_updates,
        read_set=plan.read_set,
        merge_source=plan.merge_source,
        merged_commits=plan.merged_commits,
        agreed=plan.agreed,
        commit_id=None if plan.maintenance else plan.commit_id,
        # A schema change relies on every pin, and commits of recovery may come before it.
        if_commit=plan.if_commit if plan.schema is None else None,
        batch_id=plan.batch_id,
        batch_request=plan.batch_request,
        message=plan.message,
        operation=plan.operation,
        schema_hash=plan.schema_hash,
    )


def _pin(write: TableWrite, held_locks: HeldLocks) -> Pin:
    return Pin(
        table_key=write.table_key,
        table_path=write.base.path,
        table_branch=write.branch,
        expected=write.base.version,
        post_commit=Version(write.base.version + write.commits),
        uuids=() if write.staged is None else (write.staged.uuid,),
        digests={} if write.staged is None else write.staged.digests,
        forked=write.fork is not None,
        token=held_locks.lock(write.lock_key).token,
    )


# ---- B


def _create_bases(
    committer: Committer,
    plan: WritePlan,
    sidecar: Sidecar,
    held_locks: HeldLocks,
    workers: StageWorkers,
) -> tuple[WritePlan, Sidecar, dict[TableKey, Landed]]:
    """Create the bases of the commits, new tables and forks; then stage the tables that had to wait for them.

    A fork without a commit stays: somebody else may have taken it over. The next write to the table uses it, or
    cleanup removes it.
    """
    require = partial(require_locks_of, sidecar, held_locks)
    try:
        created = {
            key: _register_table(committer, plan, table, require)
            for key, table in plan.creations.items()
        }
    except ConflictError as error:
        raise Refused(error) from error
    if all(write.staged is not None for write in plan.tables):
        return plan, sidecar, created
    try:
        staged = tuple(_stage_table(committer, write, require, workers) for write in plan.tables)
    except ConflictError:
        _withdraw(committer, sidecar, held_locks)
        raise
    writes = tuple(write for write in staged if write.staged is not None or write.steps)
    sidecar = replace(sidecar, tables=tuple(_name_transactions(sidecar, writes)))
    # Which transactions are ours is on disk before any of them lands.
    committer.sidecars.record(sidecar)
    return replace(plan, tables=writes), sidecar, created


def _name_transactions(sidecar: Sidecar, writes: Iterable[TableWrite]) -> Iterator[Pin]:
    """List the pins of the tables that will change, with the transactions that are staged by now."""
    writes_by_table = {write.table_key: write for write in writes}
    for pin in sidecar.tables:
        if pin.table_key in writes_by_table:
            write = writes_by_table[pin.table_key]
            # Rows that workers wrote after the fork may take two commits.
            pin = replace(pin, post_commit=Version(pin.expected + write.commits))
            if write.staged is None:
                yield replace(pin, uuids=())
            else:
                yield replace(pin, uuids=(write.staged.uuid,), digests=write.staged.digests)


def _register_table(
    committer: Committer, plan: WritePlan, table: NewTable | TableAt, require: RequireLocks
) -> Landed:
    """Create a table that a registration names, or take over the existing one."""
    at = _create_table(committer, table, require) if isinstance(table, NewTable) else table
    fail(_LANDED[plan.kind])
    return Landed(at=at, row_count=committer.tables.open(at).count(), uuid="")


def _create_table(committer: Committer, new: NewTable, require: RequireLocks) -> TableAt:
    require()
    try:
        return committer.tables.create(new.path, new.schema)
    except TableExists:
        _require_unnamed(committer, new.path)
        require()
        committer.tables.delete_table(new.path)
        return committer.tables.create(new.path, new.schema)


def _require_unnamed(committer: Committer, path: str) -> None:
    """Refuse to replace a table that the history of main names; a schema change has no other branch beside it."""
    history = committer.manifest.current(MAIN).table_history.by_key.values()
    if any(incarnation.path == path for incarnations in history for incarnation in incarnations):
        raise InternalError(
            f"a new table would replace the one at '{path}', which history names; recovery takes "
            "this schema change back"
        )


def _stage_table(
    committer: Committer, write: TableWrite, require: RequireLocks, workers: StageWorkers
) -> TableWrite:
    if write.staged is not None:
        return write
    at = write.base
    if write.fork is not None:
        at = fork_table(committer.tables, committer.manifest, write, require)
    first, *rest = write.steps
    staged_step = stage_commit(committer.tables, at, first, workers)
    return replace(
        write, base=at, staged=staged_step.staged, steps=(*staged_step.then, *rest), fork=None
    )


@dataclass(frozen=True, slots=True)
class _Effect:
    """The commits of one table so far: the last one, with the files of all, and their staged transactions."""

    landed: Landed
    staged: tuple[Staged, ...]


def _commit_tables(
    committer: Committer,
    plan: WritePlan,
    sidecar: Sidecar,
    held_locks: HeldLocks,
    workers: StageWorkers,
) -> dict[TableKey, _Effect]:
    effects: dict[TableKey, _Effect] = {}
    for write in plan.tables:
        if effects:
            require_locks(committer, sidecar, held_locks)
        else:
            require_locks_of(sidecar, held_locks)
        try:
            for staged, landed in _commit_table(committer, plan, write, held_locks, workers):
                effects[write.table_key] = _add_effect(effects.get(write.table_key), staged, landed)
        except HeadMoved as error:
            if effects or plan.creations:
                raise Refused(_conflict(write, error)) from error
            _withdraw(committer, sidecar, held_locks)
            raise _conflict(write, error, is_stale_base=True) from error
        except Interleaved as error:
            if plan.branch == MAIN:
                raise
            # The commit between may be a late one of an earlier branch of the name, which no lock keeps out.
            raise Refused(_conflict(write, error, is_stale_base=True)) from error
        except (StorageError, EngineError):
            if not effects:
                raise
            with report_unfinished(sidecar):
                raise
        fail(_LANDED[plan.kind])
    return effects


def _add_effect(before: _Effect | None, staged: Staged, landed: Landed) -> _Effect:
    """Only the last commit of a table is published, so it carries the digests of all files."""
    if before is None:
        return _Effect(landed, (staged,))
    digests = {**before.landed.digests, **landed.digests}
    return _Effect(replace(landed, digests=digests), (*before.staged, staged))


@contextmanager
def report_unfinished(sidecar: Sidecar) -> Iterator[None]:
    """Report a store or worker that fails after HEADs moved as an unfinished write, which must not simply be repeated."""
    try:
        yield
    except (StorageError, EngineError) as error:
        raise RecoveryRequired(
            sidecar.operation_id,
            f"the {sidecar.writer_kind} {sidecar.operation_id} is written and not visible: {error}; recovery completes "
            "it or takes it back, look before repeating it",
        ) from error


def _commit_table(
    committer: Committer,
    plan: WritePlan,
    write: TableWrite,
    held_locks: HeldLocks,
    workers: StageWorkers,
) -> Iterator[tuple[Staged, Landed]]:
    """Make the commits of one table, each on the one before."""
    staged, steps, at = write.staged, write.steps, write.base
    while staged is not None or steps:
        if staged is not None:
            landed = committer.tables.commit_staged(
                staged,
                operation_id=plan.operation_id,
                actor=plan.actor,
                lock=held_locks.lock(write.lock_key),
            )
            at = landed.at
            yield staged, landed
        staged = None
        if steps:
            staged_step = stage_commit(committer.tables, at, steps[0], workers)
            staged, steps = staged_step.staged, (*staged_step.then, *steps[1:])


def _conflict(
    write: TableWrite, error: HeadMoved | Interleaved, *, is_stale_base: bool = False
) -> ManifestConflict:
    base = write.base.version
    actual = base if error.actual is None else error.actual
    return ManifestConflict(write.table_key, base, actual, is_stale_base=is_stale_base)


def require_locks(committer: Committer, sidecar: Sidecar, held_locks: HeldLocks) -> None:
    """Stop when a lock was lost after HEADs moved: recovery that settled the operation may not have seen all of them."""
    if held_locks.lost() is not None:
        committer.sidecars.rearm(sidecar)
    require_locks_of(sidecar, held_locks)


def require_locks_of(sidecar: Sidecar, held_locks: HeldLocks) -> None:
    """Stop when a lock of an operation was lost: its effects are left to recovery."""
    held_locks.require(f"the {sidecar.writer_kind} {sidecar.operation_id}", sidecar.operation_id)


def _withdraw(committer: Committer, sidecar: Sidecar, held_locks: HeldLocks) -> None:
    """Leave no intent of a write that moved no HEAD; without its locks a recoverer may be at work with the sidecar."""
    require_locks_of(sidecar, held_locks)
    disarm(committer, sidecar.operation_id, held_locks)


# ---- C


def _publish(
    committer: Committer, plan: WritePlan, sidecar: Sidecar, landed: Mapping[TableKey, Landed]
) -> Published:
    with refuse_conflicts(committer, sidecar):
        if plan.schema is not None:
            _stage_schema_files(committer, plan, plan.schema)
        return publish(committer.manifest, change_of(plan, landed))


@contextmanager
def refuse_conflicts(committer: Committer, sidecar: Sidecar) -> Iterator[None]:
    """Turn a conflict of a publish into `Refused`; a publish that others kept from winning is left to recovery."""
    try:
        yield
    except PublishContention as error:
        raise RecoveryRequired(
            sidecar.operation_id,
            f"operation {sidecar.operation_id} is written but not visible yet: other writers of branch "
            f"'{graph_branch(sidecar.branch)}' kept winning; recovery will complete it, do not repeat it",
        ) from error
    except ConflictError as error:
        _refuse(committer, sidecar, error)
        raise Refused(error) from error


def _refuse(committer: Committer, sidecar: Sidecar, error: ConflictError) -> None:
    """Record that a refused operation must not be completed, before its locks are free.

    Recovery sees a moved pin of the operation itself; it cannot see a moved read set or a lost head.
    """
    pinned_keys = {pin.table_key for pin in sidecar.tables}
    if isinstance(error, ManifestConflict) and error.table_key in pinned_keys:
        return
    with suppress(RecoveryRequired):
        committer.sidecars.record(sidecar.decided(RecordedDecision(decision=Decided.ROLL_BACK)))


def change_of(plan: WritePlan, landed: Mapping[TableKey, Landed]) -> Change:
    """Describe the publish of a plan whose tables landed."""
    landed_by_key = {
        plan.renames.get(key, key): table_landed for key, table_landed in landed.items()
    }
    updates = [
        Update(
            table_key=key,
            at=table_landed.at,
            row_count=table_landed.row_count,
            digests=table_landed.digests,
        )
        for key, table_landed in landed_by_key.items()
    ]
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
        branch_incarnation=plan.branch_incarnation,
        updates=tuple(updates),
        registrations={r.table_key: r.table_path for r in plan.registrations},
        tombstones={t.table_key: t.version for t in plan.tombstones},
        expected=expected,
        draft=None if plan.maintenance else _draft(plan),
        if_head=plan.if_commit,
        merged_commits=plan.merged_commits,
        operation=plan.operation,
        allowed_by=plan.allowed_by,
    )


def _draft(plan: WritePlan) -> Draft:
    return Draft(
        commit=plan.commit_id,
        kind=plan.commit_kind,
        actor=plan.actor,
        merged_parent=plan.merge_source,
        operation_id=plan.operation_id,
        batch_id=plan.batch_id,
        batch_request=plan.batch_request,
        not_before=plan.merge_source_at,
        agreed=plan.agreed,
        message=plan.message,
        replaced_schema=None if plan.schema is None else plan.schema.replaced.ir_hash,
    )


# ---- schema files


def _stage_schema_files(committer: Committer, plan: WritePlan, schema: SchemaChange) -> None:
    """Put the new schema files beside the accepted ones, and keep the schema that they replace for history."""
    state = committer.manifest.current(plan.branch)
    head = state.head.id if state.head else None
    if plan.if_commit is not None and head != plan.if_commit:
        raise PreconditionFailed(plan.if_commit, head)
    objects = committer.sidecars.objects
    keep_replaced(objects, plan.operation_id, schema.replaced)
    stage_files(objects, schema.accepted)


def _install_schema_files(committer: Committer, sidecar: Sidecar, held_locks: HeldLocks) -> None:
    try:
        fail(Failpoint.SCHEMA_PUBLISHED)
        require = partial(require_locks_of, sidecar, held_locks)
        install_staged_files(committer.sidecars.objects, require)
    except OmniError as error:
        raise RecoveryRequired(
            sidecar.operation_id,
            f"schema apply {sidecar.operation_id} is published, but its schema files could not be put in place "
            f"({error}); recovery does that, do not repeat it",
        ) from error


# ---- D


def disarm(committer: Committer, operation_id: OperationId, held_locks: HeldLocks) -> None:
    """Remove the sidecar of a write that is visible, or that moved nothing; without its locks recovery does that."""
    try:
        held_locks.require(f"operation {operation_id}", operation_id)
        committer.sidecars.disarm(operation_id)
    except OmniError as error:
        # A sidecar that stays is recognised as spent by the next heal.
        _log.warning("sidecar.disarm_failed", operation=operation_id, reason=str(error))
