"""One write from entry to commit: heal, look, prepare, commit; prepared again, under its locks, when its base moved."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from omnigraph.commit.guard import Blocked, StaleBase
from omnigraph.commit.locks import SCHEMA_APPLY, HeldLocks
from omnigraph.commit.plan import WritePlan
from omnigraph.commit.protocol import CommittedPlan, Refused, commit
from omnigraph.commit.stage import ALONE, StageWorkers
from omnigraph.engine.matched_rows import require_matched_rows
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import ConflictError, DriftError, ManifestConflict, OmniError, ReadSetConflict
from omnigraph.ids import BranchName, TableKey
from omnigraph.limits import PREPARE_ROUNDS_MAX
from omnigraph.manifest.branches import is_schema_locked, refuse_during_schema_apply
from omnigraph.manifest.publish import Published
from omnigraph.manifest.records import GraphCommit
from omnigraph.manifest.view import View
from omnigraph.storage.counters import carry_context
from omnigraph.storage.locks.holders import Activity
from omnigraph.values import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """What a writer makes of a view: a plan, None when there is nothing to write, and what it will report."""

    plan: WritePlan | None
    outcome: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[T]):
    """A write that ended: what it reports, the view it was prepared on, and what was published, if anything."""

    view: View
    plan: WritePlan | None
    outcome: T
    committed: CommittedPlan | None = None

    @property
    def published(self) -> Published | None:
        """What became visible; None when there was nothing to write."""
        return None if self.committed is None else self.committed.published

    @property
    def commit(self) -> GraphCommit | None:
        """The commit it made; None when there was nothing to write."""
        return None if self.published is None else self.published.commit


Prepare = Callable[[View], Prepared[T]]
"""A writer: a function from a view to a plan and an outcome."""


def enter(engine: Engine, operation: str) -> None:
    """Complete interrupted writes and let a running schema change finish, before the writer looks at anything."""
    engine.recovery.heal()
    wait_for_schema_change(engine, operation)


def wait_for_schema_change(engine: Engine, operation: str) -> None:
    """Let a running schema change finish before an operation begins; one that was killed refuses it.

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
) -> Done[T]:
    """Heal, capture a view, prepare, lock and commit; prepare again under the locks when the base moved.

    `workers` help with what is staged under the locks.
    """
    view = _enter_and_capture(engine, branch, operation)
    engine.require_here(branch, operation)
    try:
        return _prepare_and_commit(engine, view, prepare, workers)
    except Blocked:
        # Its owner was alive at the heal above and has died since; what it left may be complete.
        if not any(outcome.is_ended for outcome in engine.recovery.heal()):
            raise
    except DriftError as error:
        # What came after its roll-back is nobody's; anything else is for repair.
        if not engine.recovery.undo_late(branch, TableKey(error.table_key)):
            raise
    return _prepare_and_commit(engine, engine.view(branch), prepare, workers)


def _enter_and_capture(engine: Engine, branch: BranchName, operation: str) -> View:
    """Enter and look. A store that takes its time is asked everything at once, and looked at again if need be."""
    if not engine.store.root.is_distant:
        enter(engine, operation)
        return engine.view(branch)
    with ThreadPoolExecutor(2, "omnigraph-entry") as pool:
        pending = pool.submit(carry_context(engine.recovery.heal))
        locked = pool.submit(carry_context(is_schema_locked), engine.manifest)
        seen = _try_capture(engine, branch)
    if pending.result() or locked.result():
        wait_for_schema_change(engine, operation)
        seen = _try_capture(engine, branch)
    if isinstance(seen, OmniError):
        raise seen
    return seen


def _try_capture(engine: Engine, branch: BranchName) -> View | OmniError:
    try:
        return engine.view(branch)
    except OmniError as error:
        return error


def _prepare_and_commit(
    engine: Engine, view: View, prepare: Prepare[T], workers: StageWorkers
) -> Done[T]:
    prepared = prepare(view)
    plan = prepared.plan
    if plan is None:
        return Done(view=view, plan=None, outcome=prepared.outcome)
    try:
        with engine.committer.locks.acquire(plan.lock_keys, plan.activity) as held_locks:
            committed = commit_held(engine, plan, held_locks, workers)
            return Done(view=view, plan=plan, outcome=prepared.outcome, committed=committed)
    except (ManifestConflict, ReadSetConflict) as error:
        if not plan.is_strict and not isinstance(error, StaleBase):
            raise
    return _prepare_under_locks(engine, view, prepare, plan, workers)


def _prepare_under_locks(
    engine: Engine,
    first: View,
    prepare: Prepare[T],
    first_plan: WritePlan,
    workers: StageWorkers,
) -> Done[T]:
    """Prepare again while holding the locks, so that nobody can move the base a second time.

    A strict write is prepared again only if the rows that it matched are as it saw them; rows that match now and did
    not before are included.
    """
    keys = first_plan.lock_keys
    last: ConflictError = ReadSetConflict("the set of tables this write touches")
    for _ in range(PREPARE_ROUNDS_MAX):
        with engine.committer.locks.acquire(keys, first_plan.activity) as held_locks:
            view = engine.view(first.branch)
            require_matched_rows(engine.store.tables, first, first_plan, view)
            prepared = prepare(view)
            plan = prepared.plan
            if plan is None:
                return Done(view=view, plan=None, outcome=prepared.outcome)
            if held_locks.covers(plan.lock_keys):
                try:
                    committed = commit_held(engine, plan, held_locks, workers)
                    return Done(view=view, plan=plan, outcome=prepared.outcome, committed=committed)
                except StaleBase as error:
                    # A process that takes no locks moved a table; look again.
                    last = error
            keys = keys | plan.lock_keys
    raise last


def commit_held(
    engine: Engine, plan: WritePlan, held_locks: HeldLocks, workers: StageWorkers = ALONE
) -> CommittedPlan:
    """Commit a plan under its locks; a plan that is refused after HEADs moved is rolled back before the locks are free."""
    try:
        return commit(engine.committer, plan, held_locks, workers)
    except Refused as refused:
        engine.recovery.roll_back_refused(plan.operation_id, held_locks)
        raise refused.conflict from None
