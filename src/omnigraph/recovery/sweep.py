"""Entry points: settle every pending operation that can be settled here and now."""

from dataclasses import field, replace
from enum import StrEnum

from omnigraph.commit.guard import Blocked
from omnigraph.commit.locks import SCHEMA_APPLY, HeldLocks, lock_key
from omnigraph.commit.protocol import Committer
from omnigraph.commit.sidecar import Sidecar, WriterKind
from omnigraph.commit.sidecars import operation_of
from omnigraph.errors import ConflictError, OmniError, RecoveryRequired, SidecarUnreadable
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, OperationId, TableKey
from omnigraph.limits import CONTRACT_ROUNDS_MAX, CONTRACT_WAIT_SECONDS
from omnigraph.logs import get_logger
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.recovery.audit import Audit, RecoveryKind
from omnigraph.recovery.case import Case
from omnigraph.recovery.classify import Verdict, judge
from omnigraph.recovery.finish import discard, discard_orphan, settle_stale
from omnigraph.recovery.gather import gather
from omnigraph.recovery.late import undo_late
from omnigraph.recovery.roll_back import roll_back
from omnigraph.recovery.roll_forward import roll_forward
from omnigraph.recovery.schema_files import has_files, is_readable, reconcile
from omnigraph.storage.locks.holders import Activity, Holder
from omnigraph.values import dataclass

_log = get_logger(__name__)


class Power(StrEnum):
    """What a recoverer may do."""

    FORWARD_ONLY = "forward_only"
    FULL = "full"


class Outcome(StrEnum):
    """What became of a pending operation."""

    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"
    DEFERRED = "deferred"
    ALIVE = "alive"
    GONE = "gone"

    @property
    def is_settled(self) -> bool:
        """Whether this recoverer ended it."""
        return self in (Outcome.ROLLED_FORWARD, Outcome.ROLLED_BACK, Outcome.DISCARDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A pending operation and its verdict; a `problem` when it, or what it names, cannot be read.

    One with a `holder` is not interrupted: its writer lives.
    """

    operation_id: OperationId
    sidecar: Sidecar | None = None
    verdict: Verdict | None = None
    problem: str | None = None
    holder: Holder | None = None


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recoverer of one graph.

    `own` are operations of this handle that nobody was told of: maintenance that failed after an acknowledged write.
    """

    committer: Committer
    audit: Audit
    own: set[OperationId] = field(default_factory=set)

    # ---- who calls

    def heal(self) -> tuple[Outcome, ...]:
        """Roll forward what is complete; a live owner is not waited for. Runs at every write entry.

        What maintenance of this handle left behind is rolled back as well: its caller got a success, and would not
        know why the next write is refused.
        """
        return self._each(Power.FORWARD_ONLY, wait=False)

    def own_up(self, error: OmniError) -> None:
        """Note what maintenance left that failed after an acknowledged write, so that the next heal settles it."""
        if isinstance(error, RecoveryRequired) and not isinstance(error, Blocked):
            self.own.add(OperationId(error.operation_id))

    def refresh(self) -> tuple[Outcome, ...]:
        """Roll forward what is complete, after its owner, if alive, had its turn."""
        self._reconcile_schema_files()
        return self._each(Power.FORWARD_ONLY, wait=True)

    def settle(self) -> tuple[Outcome, ...]:
        """Settle everything whose owner is dead: whoever can take all turns of an operation proves that."""
        return self._each(Power.FULL, wait=False)

    def sweep(self) -> tuple[Outcome, ...]:
        """Settle everything a read-write open must not leave behind, schema files and schema lock included."""
        self._reconcile_schema_files()
        outcomes = self.settle()
        self.drop_dead_schema_lock()
        return outcomes

    def require_readable(self) -> None:
        """Refuse a read-only open that would show new tables through the old schema; changes nothing.

        A schema change that is alive puts its files in place at once, and is waited for.
        """
        for _ in range(CONTRACT_ROUNDS_MAX):
            snapshot = self.committer.manifest.current(MAIN).snapshot
            if is_readable(self.committer.sidecars.objects, snapshot):
                return
            self.committer.runtime.wait(CONTRACT_WAIT_SECONDS)
        raise RecoveryRequired(
            "unknown",
            "a schema change is published and its schema files are not in place yet; nothing was changed, open "
            "the graph read-write once",
        )

    def take_back(self, operation_id: OperationId, held_locks: HeldLocks) -> None:
        """Settle a refused write of one's own, whose turns are held; raise unless nothing of it is left."""
        try:
            outcome = self._again(operation_id, held_locks)
        except OmniError as error:
            raise _left(operation_id, str(error)) from error
        match outcome:
            case Outcome.ROLLED_FORWARD:
                raise RecoveryRequired(
                    operation_id,
                    f"operation {operation_id} is visible: another process published a part of it, and recovery the "
                    "rest; do not repeat it",
                )
            case Outcome.DEFERRED | Outcome.ALIVE:
                raise _left(operation_id, "others were faster")
            case Outcome.ROLLED_BACK | Outcome.DISCARDED | Outcome.GONE:
                pass

    def undo_late(self, branch: BranchName, table: TableKey) -> bool:
        """Undo commits of rolled-back operations that are past the pin of a table; whether there were only such."""
        known = self.committer.manifest.current(branch).snapshot.entries.get(table)
        if known is None or not self.audit.rolled_back():
            return False
        key = lock_key(table, known.at.branch)
        with self.committer.locks.acquire(
            [key], Activity("the removal of a late commit")
        ) as held_locks:
            entry = self.committer.manifest.current(branch).snapshot.entries.get(table)
            if entry is None or entry.at.branch != known.at.branch:
                return False
            return undo_late(self.committer, self.audit, branch, entry, held_locks)

    def _again(self, operation_id: OperationId, held_locks: HeldLocks) -> Outcome:
        sidecar = self.committer.sidecars.find(operation_id)
        if sidecar is not None:
            return self._under(sidecar, held_locks, Power.FULL)
        kinds = {row.operation_id: row.kind for row in self.audit.rows()}
        forward = kinds.get(operation_id) is RecoveryKind.ROLLED_FORWARD
        return Outcome.ROLLED_FORWARD if forward else Outcome.GONE

    # ---- looking ahead

    def forecast(self) -> tuple[Pending, ...]:
        """What would become of every pending operation; changes nothing, takes no turn."""
        ahead = (self._ahead(one) for one in self.committer.sidecars.inventory())
        return tuple(pending for pending in ahead if pending is not None)

    def _ahead(self, one: Sidecar | SidecarUnreadable) -> Pending | None:
        if isinstance(one, SidecarUnreadable):
            return Pending(operation_id=operation_of(one.path), problem=one.reason)
        holder = self.committer.locks.holder(one.lock_keys)
        known = Pending(operation_id=one.operation_id, sidecar=one, holder=holder)
        if holder is not None:
            return known
        if self.committer.sidecars.find(one.operation_id) is None:
            # Its writer ended it while the list was read.
            return None
        try:
            return replace(
                known, verdict=judge(gather(self.committer, self.audit, one, HeldLocks({})).facts)
            )
        except OmniError as error:
            return replace(known, problem=str(error))

    # ---- one after the other

    def _each(self, power: Power, *, wait: bool) -> tuple[Outcome, ...]:
        """Oldest first, each on a fresh look, because settling one moves pins of the next."""
        pending = self.committer.sidecars.pending()
        if pending:
            fail(Failpoint.SWEEP_LISTED)
        return tuple(self._by(sidecar, power, wait=wait) for sidecar in pending)

    def _by(self, sidecar: Sidecar, power: Power, *, wait: bool) -> Outcome:
        if power is Power.FORWARD_ONLY and sidecar.operation_id in self.own:
            return self._own(sidecar)
        return self._one(sidecar, power, wait=wait)

    def _own(self, sidecar: Sidecar) -> Outcome:
        """Settle what this handle left, without a word when it cannot be settled yet: it blocks its own tables only."""
        try:
            outcome = self._one(sidecar, Power.FULL, wait=False)
        except OmniError as error:
            _log.warning("recovery.own_kept", operation=sidecar.operation_id, reason=str(error))
            return Outcome.DEFERRED
        if outcome is not Outcome.ALIVE:
            self.own.discard(sidecar.operation_id)
        return outcome

    def _one(self, sidecar: Sidecar, power: Power, *, wait: bool) -> Outcome:
        if wait:
            with self.committer.locks.acquire(sidecar.lock_keys, _activity(sidecar)) as held_locks:
                return self._under(sidecar, held_locks, power)
        with self.committer.locks.try_acquire(sidecar.lock_keys, _activity(sidecar)) as tried:
            return Outcome.ALIVE if tried is None else self._under(sidecar, tried, power)

    def _under(self, sidecar: Sidecar, held_locks: HeldLocks, power: Power) -> Outcome:
        """Settle one operation whose turns are all held; a lost race is looked at once more."""
        try:
            return self._settled(sidecar, held_locks, power)
        except ConflictError as error:
            _log.warning("recovery.lost_race", operation=sidecar.operation_id, reason=str(error))
        return self._settled(sidecar, held_locks, power)

    def _settled(self, sidecar: Sidecar, held_locks: HeldLocks, power: Power) -> Outcome:
        fresh = self.committer.sidecars.find(sidecar.operation_id)
        if fresh is None:
            return Outcome.GONE
        outcome = act(gather(self.committer, self.audit, fresh, held_locks), power)
        if outcome is Outcome.DEFERRED:
            _log.warning("recovery.deferred", operation=fresh.operation_id, power=str(power))
        return outcome

    # ---- what a schema change may have left

    def _reconcile_schema_files(self) -> None:
        """Settle staged schema files that no pending schema change names."""
        objects = self.committer.sidecars.objects
        if not has_files(objects):
            return
        with self.committer.locks.try_acquire([SCHEMA_APPLY]) as tried:
            if tried is not None and not self._is_schema_apply_pending():
                reconcile(objects, self.committer.manifest.current(MAIN).snapshot)

    def drop_dead_schema_lock(self) -> None:
        """Remove the lock of a schema change that was killed: a live one holds its turn."""
        if SCHEMA_APPLY_LOCK not in self.committer.manifest.rows.branches():
            return
        with self.committer.locks.try_acquire([SCHEMA_APPLY]) as tried:
            if tried is not None and not self._is_schema_apply_pending():
                self.committer.manifest.rows.delete_branch(SCHEMA_APPLY_LOCK)
                _log.warning("schema.dead_lock_removed")

    def _is_schema_apply_pending(self) -> bool:
        kinds = {sidecar.writer_kind for sidecar in self.committer.sidecars.pending()}
        return WriterKind.SCHEMA_APPLY in kinds


def act(case: Case, power: Power) -> Outcome:
    """Carry out the verdict on an operation, as far as the power goes."""
    match judge(case.facts):
        case Verdict.ABORT:
            if power is Power.FULL:
                raise _make_abort_error(case)
            return Outcome.DEFERRED
        case Verdict.ROLL_FORWARD:
            return Outcome.ROLLED_FORWARD if roll_forward(case) else Outcome.DEFERRED
        case Verdict.ROLL_BACK:
            if power is Power.FORWARD_ONLY:
                return Outcome.DEFERRED
            roll_back(case)
            return Outcome.ROLLED_BACK
        case Verdict.DISCARD:
            discard(case)
            return Outcome.ROLLED_BACK
        case Verdict.STALE:
            settle_stale(case)
            return Outcome.ROLLED_FORWARD
        case Verdict.ORPHAN:
            discard_orphan(case)
            return Outcome.DISCARDED


def _activity(sidecar: Sidecar) -> Activity:
    return Activity(f"the recovery of {sidecar.writer_kind}", sidecar.operation_id)


def _left(operation_id: OperationId, reason: str) -> RecoveryRequired:
    """The error of a refused write that could not be taken back at once."""
    return RecoveryRequired(
        operation_id,
        f"operation {operation_id} was refused after its tables were written, and could not be taken back yet "
        f"({reason}); nothing of it is visible, recovery settles it",
    )


def _make_abort_error(case: Case) -> RecoveryRequired:
    """The error of an operation whose tables stand where no writer can have left them."""
    seen = ", ".join(
        f"{s.pin.table_key} HEAD {s.head} pin {s.visible}: {finding}"
        for s, finding in zip(case.facts.seen, case.facts.findings, strict=True)
    )
    return RecoveryRequired(
        case.sidecar.operation_id,
        f"operation {case.sidecar.operation_id} ('{case.sidecar.path}') cannot be settled: {seen}; nothing was "
        "changed, restore the missing table versions or discard the operation",
    )
