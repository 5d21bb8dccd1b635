"""Entry points: settle every pending operation that can be settled here and now."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.commit.protocol import Desk
from omnigraph.commit.queues import SCHEMA_APPLY, Hold, QueueKey, queue_key
from omnigraph.commit.sidecar import Sidecar, WriterKind
from omnigraph.logs import get_logger
from omnigraph.manifest.records import graph_branch
from omnigraph.recovery.act import (
    Case,
    aborted,
    discard_effect_free,
    discard_orphan,
    moved_elsewhere,
    roll_back,
    roll_forward,
    settle_stale,
)
from omnigraph.recovery.audit import Audit
from omnigraph.recovery.classify import Decision, Finding, classify, decide
from omnigraph.recovery.observe import observe

_log = get_logger(__name__)


class Power(StrEnum):
    """What a recoverer may do."""

    FORWARD_ONLY = "forward_only"
    FULL = "full"


class Outcome(StrEnum):
    """What became of a pending operation."""

    SETTLED = "settled"
    DEFERRED = "deferred"
    ALIVE = "alive"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Recovery:
    """The recoverer of one graph."""

    desk: Desk
    audit: Audit

    def heal(self) -> tuple[Outcome, ...]:
        """Roll forward what is complete; a live owner is not waited for. Runs at every write entry."""
        return self._each(Power.FORWARD_ONLY, wait=False)

    def refresh(self) -> tuple[Outcome, ...]:
        """Roll forward what is complete, after its owner, if alive, had its turn."""
        return self._each(Power.FORWARD_ONLY, wait=True)

    def settle(self) -> tuple[Outcome, ...]:
        """Settle everything whose owner is dead: whoever can take all turns of an operation proves that."""
        return self._each(Power.FULL, wait=False)

    def _each(self, power: Power, *, wait: bool) -> tuple[Outcome, ...]:
        """Oldest first, each on a fresh look, because settling one moves pins of the next."""
        return tuple(
            self._one(sidecar, power, wait=wait) for sidecar in self.desk.sidecars.pending()
        )

    def _one(self, sidecar: Sidecar, power: Power, *, wait: bool) -> Outcome:
        if wait:
            with self.desk.queues.hold(queues_of(sidecar)) as hold:
                return self._under(sidecar, hold, power)
        with self.desk.queues.try_hold(queues_of(sidecar)) as tried:
            return Outcome.ALIVE if tried is None else self._under(sidecar, tried, power)

    def _under(self, sidecar: Sidecar, hold: Hold, power: Power) -> Outcome:
        """Settle one operation whose turns are all held."""
        fresh = self.desk.sidecars.read(sidecar.path)
        if fresh is None:
            return Outcome.GONE
        branch = graph_branch(fresh.branch)
        if fresh.branch is not None and fresh.branch not in self.desk.manifest.rows.branches():
            main = self.desk.manifest.current(graph_branch(None))
            discard_orphan(
                Case(desk=self.desk, audit=self.audit, sidecar=fresh, hold=hold, state=main)
            )
            return Outcome.SETTLED
        state = self.desk.manifest.current(branch)
        case = Case(desk=self.desk, audit=self.audit, sidecar=fresh, hold=hold, state=state)
        outcome = process(
            replace(case, seen=observe(fresh, state.snapshot, self.desk.tables)), power
        )
        if outcome is Outcome.DEFERRED:
            _log.warning("recovery.deferred", operation=fresh.operation_id, power=str(power))
        return outcome


def queues_of(sidecar: Sidecar) -> Iterable[QueueKey]:
    """The turns that prove an operation has no live owner."""
    keys = {queue_key(pin.table_key, pin.table_branch) for pin in sidecar.tables}
    return keys | {SCHEMA_APPLY} if sidecar.writer_kind is WriterKind.SCHEMA_APPLY else keys


def process(case: Case, power: Power) -> Outcome:
    """Decide one operation and act on the decision, as far as the power goes."""
    sidecar = case.sidecar
    if sidecar.recorded is not None:
        return _back(case, power)
    own = None if sidecar.commit_id is None else case.state.shows(sidecar.commit_id)
    if own is not None:
        settle_stale(case, own)
        return Outcome.SETTLED
    findings = [classify(seen, sidecar.mode) for seen in case.seen]
    decision = decide(findings)
    if decision is Decision.ABORT:
        if power is Power.FULL:
            raise aborted(case)
        return Outcome.DEFERRED
    if decision is Decision.ROLL_FORWARD and not moved_elsewhere(case):
        roll_forward(case)
        return Outcome.SETTLED
    if all(finding is Finding.NO_MOVEMENT for finding in findings):
        return _unmoved(case)
    return _back(case, power)


def _unmoved(case: Case) -> Outcome:
    """No HEAD is past its pin: the operation never began, or, when pins are past it, it is long done."""
    passed = [seen for seen in case.seen if seen.visible > seen.pin.expected]
    if passed and case.sidecar.commit_id is None:
        settle_stale(case, None)
    else:
        discard_effect_free(case)
    return Outcome.SETTLED


def _back(case: Case, power: Power) -> Outcome:
    match power:
        case Power.FORWARD_ONLY:
            return Outcome.DEFERRED
        case Power.FULL:
            roll_back(case)
            return Outcome.SETTLED
