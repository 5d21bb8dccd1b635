"""The entry points of recovery: each works through the pending sidecars, oldest first."""

from dataclasses import field, replace
from functools import partial

from omnigraphdb.commit.locks import SCHEMA_APPLY, HeldLocks, lock_key
from omnigraphdb.commit.protocol import Committer
from omnigraphdb.commit.sidecar import Sidecar, WriterKind
from omnigraphdb.commit.sidecars import operation_of
from omnigraphdb.errors import ConflictError, OmniError, RecoveryRequired, SidecarUnreadable
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName, OperationId, TableKey
from omnigraphdb.limits import CONTRACT_ROUNDS_MAX, CONTRACT_WAIT_SECONDS
from omnigraphdb.logs import get_logger
from omnigraphdb.manifest.accepted_schema import make_unplaced_error
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.recovery.act import Outcome, RecoveryMode, act
from omnigraphdb.recovery.audit import Audit, RecoveryKind
from omnigraphdb.recovery.classify import Decision, decide
from omnigraphdb.recovery.gather import gather
from omnigraphdb.recovery.late import undo_late
from omnigraphdb.recovery.schema_files import has_staged, is_readable, reconcile_staged
from omnigraphdb.storage.locks.holders import Activity, Holder
from omnigraphdb.values import dataclass

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A pending operation and the decision on it; a `problem` when it, or a file that it names, cannot be read.

    An operation with a `holder` is not interrupted: its writer is alive.
    """

    operation_id: OperationId
    sidecar: Sidecar | None = None
    decision: Decision | None = None
    problem: str | None = None
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recoverer of one graph.

    `own` are operations of this handle whose failure no caller saw: maintenance that failed after an acknowledged write.
    """

    committer: Committer
    audit: Audit
    own: set[OperationId] = field(default_factory=set)

    # ---- entry points

    def heal(self) -> tuple[Outcome, ...]:
        """Roll forward complete operations without waiting for live writers. Runs before every write.

        Operations in `own` are rolled back as well: their caller got a success, and could not explain why the next
        write is refused.
        """
        return self._recover_each(RecoveryMode.FORWARD_ONLY, wait=False)

    def note_own_failure(self, error: OmniError) -> None:
        """Note the operation of maintenance that failed after an acknowledged write, so that the next heal ends it."""
        if isinstance(error, RecoveryRequired) and error.has_begun:
            self.own.add(OperationId(error.operation_id))

    def refresh(self) -> tuple[Outcome, ...]:
        """Roll forward complete operations; waits for live writers first."""
        self._reconcile_schema_files()
        return self._recover_each(RecoveryMode.FORWARD_ONLY, wait=True)

    def recover_all(self) -> tuple[Outcome, ...]:
        """Roll every operation of a dead writer forward or back; holding all locks of an operation proves its writer dead."""
        return self._recover_each(RecoveryMode.FULL, wait=False)

    def recover_operation(self, sidecar: Sidecar) -> Outcome:
        """Roll one operation forward or back; waits for its writer first, if that is alive."""
        return self._recover_one(sidecar, RecoveryMode.FULL, wait=True)

    def sweep(self) -> tuple[Outcome, ...]:
        """Recover everything at a read-write open, schema files and the schema lock included."""
        self._reconcile_schema_files()
        outcomes = self.recover_all()
        self.drop_dead_schema_lock()
        return outcomes

    def require_readable(self) -> None:
        """Refuse a read-only open that would show new tables through the old schema; changes nothing.

        Waits for a live schema change, which puts its files in place right after its publish.
        """
        for _ in range(CONTRACT_ROUNDS_MAX):
            snapshot = self.committer.manifest.current(MAIN).snapshot
            if is_readable(self.committer.sidecars.objects, snapshot):
                return
            self.committer.runtime.wait(CONTRACT_WAIT_SECONDS)
        raise make_unplaced_error()

    def roll_back_refused(self, operation_id: OperationId, held_locks: HeldLocks) -> None:
        """Roll back a refused write of the caller, which holds its locks; raise unless nothing of the write is left."""
        try:
            outcome = self._recover_refused(operation_id, held_locks)
        except OmniError as error:
            raise _make_kept_error(operation_id, str(error)) from error
        match outcome:
            case Outcome.ROLLED_FORWARD:
                raise RecoveryRequired(
                    operation_id,
                    f"operation {operation_id} is visible: another process published a part of it, and recovery the "
                    "rest; do not repeat it",
                )
            case Outcome.DEFERRED | Outcome.ALIVE:
                raise _make_kept_error(operation_id, "others were faster")
            case Outcome.ROLLED_BACK | Outcome.DISCARDED | Outcome.GONE:
                pass

    def undo_late(self, branch: BranchName, table: TableKey) -> bool:
        """Undo late commits past the pin of a table; return whether nothing is past the pin any more.

        The removal waits for the holder of the lock: the commits past the pin may be a part of its work.
        """
        earlier = self.committer.manifest.current(branch).snapshot.entries.get(table)
        if earlier is None:
            return False
        key = lock_key(table, earlier.at.branch)
        with self.committer.locks.acquire(
            [key], Activity("the removal of a late commit")
        ) as held_locks:
            entry = self.committer.manifest.current(branch).snapshot.entries.get(table)
            if entry is None or entry.at.branch != earlier.at.branch:
                return False
            return undo_late(self.committer, self.audit, branch, entry, held_locks)

    def _recover_refused(self, operation_id: OperationId, held_locks: HeldLocks) -> Outcome:
        sidecar = self.committer.sidecars.find(operation_id)
        if sidecar is not None:
            return self._recover_locked(sidecar, held_locks, RecoveryMode.FULL)
        kinds = {row.operation_id: row.kind for row in self.audit.rows()}
        is_completed = kinds.get(operation_id) is RecoveryKind.ROLLED_FORWARD
        return Outcome.ROLLED_FORWARD if is_completed else Outcome.GONE

    # ---- forecast

    def forecast(self) -> tuple[Pending, ...]:
        """Decide for every pending operation without acting; nothing is changed and no lock is taken."""
        forecasts = (self._forecast_one(sidecar) for sidecar in self.committer.sidecars.inventory())
        return tuple(pending for pending in forecasts if pending is not None)

    def _forecast_one(self, sidecar: Sidecar | SidecarUnreadable) -> Pending | None:
        if isinstance(sidecar, SidecarUnreadable):
            return Pending(operation_id=operation_of(sidecar.path), problem=sidecar.reason)
        holder = self.committer.locks.holder(sidecar.lock_keys)
        pending = Pending(operation_id=sidecar.operation_id, sidecar=sidecar, holder=holder)
        if holder is not None:
            return pending
        if self.committer.sidecars.find(sidecar.operation_id) is None:
            # Its writer ended it since the sidecars were listed.
            return None
        try:
            return replace(
                pending,
                decision=decide(gather(self.committer, self.audit, sidecar, HeldLocks({})).facts),
            )
        except OmniError as error:
            return replace(pending, problem=str(error))

    # ---- each pending operation

    def _recover_each(self, power: RecoveryMode, *, wait: bool) -> tuple[Outcome, ...]:
        """Recover pending operations, oldest first; each is gathered anew, because the one before may move its pins."""
        pending = self.committer.sidecars.pending()
        if pending:
            fail(Failpoint.SWEEP_LISTED)
        return tuple(
            self._recover_own(sidecar)
            if power is RecoveryMode.FORWARD_ONLY and sidecar.operation_id in self.own
            else self._recover_one(sidecar, power, wait=wait)
            for sidecar in pending
        )

    def _recover_own(self, sidecar: Sidecar) -> Outcome:
        """Recover an operation in `own`; a failure is only logged, because the operation blocks its own tables only."""
        try:
            outcome = self._recover_one(sidecar, RecoveryMode.FULL, wait=False)
        except OmniError as error:
            _log.warning("recovery.own_kept", operation=sidecar.operation_id, reason=str(error))
            return Outcome.DEFERRED
        if outcome is not Outcome.ALIVE:
            self.own.discard(sidecar.operation_id)
        return outcome

    def _recover_one(self, sidecar: Sidecar, power: RecoveryMode, *, wait: bool) -> Outcome:
        if wait:
            with self.committer.locks.acquire(sidecar.lock_keys, _activity(sidecar)) as held_locks:
                return self._recover_locked(sidecar, held_locks, power)
        with self.committer.locks.try_acquire(sidecar.lock_keys, _activity(sidecar)) as tried:
            return Outcome.ALIVE if tried is None else self._recover_locked(sidecar, tried, power)

    def _recover_locked(
        self, sidecar: Sidecar, held_locks: HeldLocks, power: RecoveryMode
    ) -> Outcome:
        """Recover one operation whose locks are all held; retries once when another writer won a race."""
        try:
            return self._gather_and_act(sidecar, held_locks, power)
        except ConflictError as error:
            _log.warning("recovery.lost_race", operation=sidecar.operation_id, reason=str(error))
        return self._gather_and_act(sidecar, held_locks, power)

    def _gather_and_act(
        self, sidecar: Sidecar, held_locks: HeldLocks, power: RecoveryMode
    ) -> Outcome:
        fresh = self.committer.sidecars.find(sidecar.operation_id)
        if fresh is None:
            return Outcome.GONE
        outcome = act(gather(self.committer, self.audit, fresh, held_locks), power)
        if outcome is Outcome.DEFERRED:
            _log.warning("recovery.deferred", operation=fresh.operation_id, power=str(power))
        return outcome

    # ---- leftovers of schema changes

    def _reconcile_schema_files(self) -> None:
        """Put in place or remove staged schema files that no pending schema change owns."""
        objects = self.committer.sidecars.objects
        if not has_staged(objects):
            return
        with self.committer.locks.try_acquire([SCHEMA_APPLY]) as tried:
            if tried is not None and not self._is_schema_apply_pending():
                snapshot = self.committer.manifest.current(MAIN).snapshot
                reconcile_staged(objects, snapshot, partial(tried.require, "recovery"))

    def drop_dead_schema_lock(self) -> None:
        """Remove the branch that locks the schema when its schema change is dead: a live one holds the table lock."""
        if SCHEMA_APPLY_LOCK not in self.committer.manifest.rows.branches():
            return
        with self.committer.locks.try_acquire([SCHEMA_APPLY]) as tried:
            if tried is not None and not self._is_schema_apply_pending():
                tried.require("recovery")
                self.committer.manifest.rows.delete_branch(SCHEMA_APPLY_LOCK)
                _log.warning("schema.dead_lock_removed")

    def _is_schema_apply_pending(self) -> bool:
        kinds = {sidecar.writer_kind for sidecar in self.committer.sidecars.pending()}
        return WriterKind.SCHEMA_APPLY in kinds


def _activity(sidecar: Sidecar) -> Activity:
    return Activity(f"the recovery of {sidecar.writer_kind}", sidecar.operation_id)


def _make_kept_error(operation_id: OperationId, reason: str) -> RecoveryRequired:
    """Make the error for a refused write that could not be rolled back at once."""
    return RecoveryRequired(
        operation_id,
        f"operation {operation_id} was refused after its tables were written, and could not be rolled back yet "
        f"({reason}); nothing of it is visible, recovery will end it",
    )
