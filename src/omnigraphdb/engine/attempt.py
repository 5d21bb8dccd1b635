"""One write from entry to commit: heal, look, prepare, commit; prepared again, under its locks, when its base moved."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from itertools import count
from typing import Generic, TypeVar

from omnigraphdb.commit.locks import SCHEMA_APPLY, HeldLocks, LockKey
from omnigraphdb.commit.plan import WritePlan, mint_again
from omnigraphdb.commit.protocol import CommittedPlan, Refused, commit
from omnigraphdb.commit.stage import ALONE, StageWorkers
from omnigraphdb.engine.joint_commit import (
    collect_group,
    commit_together,
    list_staged_rows,
    make_member,
)
from omnigraphdb.engine.matched_rows import require_matched_rows
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.engine.writer import CompletedWrite, Prepare, Prepared
from omnigraphdb.errors import (
    ConflictError,
    DriftError,
    ManifestConflict,
    NotFoundError,
    OmniError,
    ReadSetConflict,
    RecoveryRequired,
    UserInputError,
)
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.limits import PREPARE_ROUNDS_MAX
from omnigraphdb.manifest.branches import is_schema_locked, refuse_during_schema_apply
from omnigraphdb.manifest.change import BranchMadeAgain, require_incarnation
from omnigraphdb.manifest.view import View
from omnigraphdb.runtime import Runtime
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.locks.holders import Activity
from omnigraphdb.values import dataclass

T = TypeVar("T")


def enter(engine: Engine, operation: str) -> None:
    """Complete interrupted writes and let a running schema change finish, before the writer reads anything."""
    engine.recovery.heal()
    wait_for_schema_change(engine, operation)


def wait_for_schema_change(engine: Engine, operation: str) -> None:
    """Let a running schema change finish before an operation begins; a killed schema change refuses the operation.

    A live schema change holds its lock to the end, so waiting for that lock is waiting for the change.
    """
    if not is_schema_locked(engine.manifest):
        return
    with engine.committer.locks.acquire([SCHEMA_APPLY], Activity(operation)):
        pass
    if is_schema_locked(engine.manifest):
        engine.recovery.heal()
        engine.recovery.drop_dead_schema_lock()
        refuse_during_schema_apply(engine.manifest.rows.branches(), operation)


def attempt(
    engine: Engine,
    branch: BranchName,
    prepare: Prepare[T],
    operation: str = "this write",
    workers: StageWorkers = ALONE,
    *,
    may_rely_on_memory: bool = False,
    only_inserts: bool = False,
) -> CompletedWrite[T]:
    """Heal, capture a view, prepare, lock and commit; prepare again under the locks when the base moved.

    `workers` help to stage tables under the locks. `may_rely_on_memory`: the write is right on any state that its locks
    show to be the newest, and needs no read of the store before. `only_inserts`: its rows come from the caller alone, and
    depend on no stored row.
    """
    try:
        with _announce(engine, branch, only_inserts) as on_waiting:
            writer = _Writer(prepare, workers, only_inserts, on_waiting, engine.runtime)
            done = _attempt_from_memory(engine, branch, writer) if may_rely_on_memory else None
            return done or _attempt_from_store(engine, branch, writer, operation)
    except BaseException:
        # The next write sees the leftovers of this one.
        engine.entered.pop(branch)
        raise


def _announce(
    engine: Engine, branch: BranchName, only_inserts: bool
) -> AbstractContextManager[Callable[[], None]]:
    """Announce a writer that will soon be ready; no writer waits for a writer that reads first, or uses a network."""
    if only_inserts and not engine.is_distant:
        return engine.arrivals.announce(branch)
    return nullcontext(lambda: None)


@dataclass(frozen=True, slots=True)
class _Writer(Generic[T]):
    """The writer of one call of `attempt`."""

    work: Prepare[T]
    workers: StageWorkers
    only_inserts: bool
    on_waiting: Callable[[], None]
    """Called when the writer waits for its locks."""
    runtime: Runtime
    _attempts: Iterator[int] = field(default_factory=count)

    def prepare(self, view: View) -> Prepared[T]:
        """Prepare the write; every repetition is another operation.

        Recovery may have rolled back the operation before, and the record of a rollback must never name a visible write.
        """
        prepared = self.work(view)
        if next(self._attempts) == 0 or prepared.plan is None:
            return prepared
        return replace(prepared, plan=mint_again(self.runtime, prepared.plan))


def _attempt_from_memory(
    engine: Engine, branch: BranchName, writer: _Writer[T]
) -> CompletedWrite[T] | None:
    """Commit a write prepared on the state that this handle saw last, without a read of the store.

    Pins and schema change under the locks of tables only, and a lease that no other process had shows that they did not.
    Return None when no state is cached, or when the cached state does not lead to a commit: then the store is read.
    """
    view = engine.find_recent_view(branch)
    if view is None:
        return None
    try:
        prepared = writer.prepare(view)
        plan = prepared.plan
        if plan is None:
            return None
        return _commit_with_group(_FirstAttempt(engine, view, writer, prepared, plan, True))
    except RecoveryRequired as error:
        if error.has_begun:
            raise
        return None
    except (UserInputError, ConflictError, NotFoundError):
        return None


def _attempt_from_store(
    engine: Engine, branch: BranchName, writer: _Writer[T], operation: str
) -> CompletedWrite[T]:
    view = _enter_and_capture(engine, branch, operation)
    engine.require_here(branch, operation)
    try:
        return _prepare_and_commit(engine, view, writer)
    except RecoveryRequired as error:
        # Its owner was alive at the heal above and has died since; the write that it left may be complete.
        if error.has_begun or not any(outcome.is_ended for outcome in engine.recovery.heal()):
            raise
    except DriftError as error:
        # Commits after a roll-back belong to no operation, and others may have written since; repair handles other drift.
        if not engine.recovery.undo_late(branch, TableKey(error.table_key)):
            raise
    return _prepare_and_commit(engine, engine.view(branch), writer)


def _enter_and_capture(engine: Engine, branch: BranchName, operation: str) -> View:
    """Enter and capture a view.

    A distant store gets all requests at once; the view is captured again if an operation or a schema change was pending.
    """
    if not engine.store.root.is_distant:
        enter(engine, operation)
        return engine.view(branch)
    entered_at = engine.runtime.monotonic()
    with ThreadPoolExecutor(2, "omnigraph-entry") as pool:
        pending = pool.submit(carry_context(engine.recovery.heal))
        locked = pool.submit(carry_context(is_schema_locked), engine.manifest)
        seen = _try_capture(engine, branch)
    if pending.result() or locked.result():
        wait_for_schema_change(engine, operation)
        seen = _try_capture(engine, branch)
    if isinstance(seen, OmniError):
        raise seen
    engine.entered.put(branch, entered_at)
    return seen


def _try_capture(engine: Engine, branch: BranchName) -> View | OmniError:
    try:
        return engine.view(branch)
    except OmniError as error:
        return error


def _prepare_and_commit(engine: Engine, view: View, writer: _Writer[T]) -> CompletedWrite[T]:
    prepared = writer.prepare(view)
    plan = prepared.plan
    if plan is None:
        return CompletedWrite(view=view, plan=None, outcome=prepared.outcome)
    first = _FirstAttempt(engine, view, writer, prepared, plan)
    return _commit_with_group(first) or _commit_alone(first)


@dataclass(frozen=True, slots=True)
class _FirstAttempt(Generic[T]):
    """The plan that a writer prepared before it had its locks."""

    engine: Engine
    view: View
    writer: _Writer[T]
    prepared: Prepared[T]
    plan: WritePlan
    is_from_memory: bool = False


def _commit_with_group(first: _FirstAttempt[T]) -> CompletedWrite[T] | None:
    """Commit when the locks are free, together with other waiting writers; None when the write must begin again alone."""
    member = make_member(
        first.engine,
        first.view,
        first.writer.prepare,
        first.prepared,
        first.plan,
        only_inserts=first.writer.only_inserts,
    )
    locks, plan = first.engine.committer.locks, first.plan
    with locks.acquire_or_join(
        plan.lock_keys, plan.activity, member, first.writer.on_waiting
    ) as held_locks:
        if held_locks is not None:
            group = [] if member is None else collect_group(member, held_locks)
            if len(group) < 2:
                done_or_keys = _commit_locked(first, held_locks)
                return done_or_keys if isinstance(done_or_keys, CompletedWrite) else None
            commit_together(group, held_locks)
    assert member is not None, "a writer that brings no member gets its locks"
    return member.wait()


def _commit_alone(first: _FirstAttempt[T]) -> CompletedWrite[T]:
    """Commit with locks of its own; acquire more locks when the write comes to need them."""
    keys = first.plan.lock_keys
    for _ in range(PREPARE_ROUNDS_MAX):
        with first.engine.committer.locks.acquire(keys, first.plan.activity) as held_locks:
            done_or_keys = _commit_locked(first, held_locks)
        if isinstance(done_or_keys, CompletedWrite):
            return done_or_keys
        keys |= done_or_keys
    raise ReadSetConflict("the set of tables this write touches")


def _commit_locked(
    first: _FirstAttempt[T], held_locks: HeldLocks
) -> CompletedWrite[T] | frozenset[LockKey]:
    """Commit a prepared write, and prepare it again when its base moved: under the locks the base moves only once.

    A strict write is prepared again only if the rows that it matched did not change; rows that match now and did not match
    before are included. A write that comes to need other locks than those held returns the keys of the needed locks.
    """
    engine, view, prepared = first.engine, first.view, first.prepared
    is_stale = first.is_from_memory and not held_locks.is_unbroken
    last: ConflictError | None = None
    for _ in range(1 + PREPARE_ROUNDS_MAX):
        if is_stale:
            view = engine.view(view.branch)
            incarnation = first.plan.branch_incarnation
            require_incarnation(view.branch, incarnation, view.snapshot.branch_incarnation)
            require_matched_rows(engine.store.tables, first.view, first.plan, view)
            with engine.store.tables.reuse_appends(list_staged_rows(first.plan)):
                prepared = first.writer.prepare(view)
        plan = prepared.plan
        if plan is None:
            return CompletedWrite(view=view, plan=None, outcome=prepared.outcome)
        if not held_locks.covers(plan.lock_keys):
            return plan.lock_keys
        try:
            committed = commit_locked(engine, plan, held_locks, first.writer.workers)
            return CompletedWrite(
                view=view, plan=plan, outcome=prepared.outcome, committed=committed
            )
        except BranchMadeAgain:
            # The branch that the write saw is gone, and so are the files that it staged.
            raise
        except (ManifestConflict, ReadSetConflict) as error:
            is_rebasable = isinstance(error, ManifestConflict) and error.is_stale_base
            if not is_rebasable and (last is not None or not plan.is_strict):
                raise
            last, is_stale = error, True
    assert last is not None, "a loop that ends has seen a conflict"
    raise last


def commit_locked(
    engine: Engine, plan: WritePlan, held_locks: HeldLocks, workers: StageWorkers = ALONE
) -> CommittedPlan:
    """Commit a plan under its locks; a plan that is refused after HEADs moved is rolled back before the locks are free."""
    try:
        return commit(engine.committer, plan, held_locks, workers)
    except Refused as refused:
        engine.recovery.roll_back_refused(plan.operation_id, held_locks)
        raise refused.conflict from None
