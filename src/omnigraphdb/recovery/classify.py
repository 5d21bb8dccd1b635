"""The state of each table of an operation, and the decision of recovery on the operation: pure functions."""

from collections.abc import Iterable
from enum import StrEnum

from omnigraphdb.commit.sidecar import Decided, Mode, Pin, Sidecar
from omnigraphdb.ids import Version
from omnigraphdb.values import dataclass


class Ownership(StrEnum):
    """The share of the operation in the commits between the visible version and HEAD."""

    UNKNOWN = "unknown"
    """Sidecars before version 3 do not record their commits."""
    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One pin and the state of its table.

    `is_visible`: commits of the operation are visible. `is_fork`: the Lance branch exists and no manifest uses it.
    `is_restored`: HEAD is a restore to the visible version that this operation's recovery made. `is_whole`: no file of HEAD was cut by a full disk.
    """

    pin: Pin
    head: Version
    visible: Version
    ownership: Ownership = Ownership.UNKNOWN
    is_visible: bool = False
    is_fork: bool = False
    is_restored: bool = False
    is_whole: bool = True


# ---- one table


class Finding(StrEnum):
    """The progress of the operation on one table."""

    NO_MOVEMENT = "NoMovement"
    ALREADY_VISIBLE = "AlreadyVisible"
    FOREIGN = "Foreign"
    """Others moved HEAD; this operation's recovery must not undo their commits."""
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


UNTOUCHED = frozenset({Finding.NO_MOVEMENT, Finding.FOREIGN})
REACHED = frozenset({Finding.ROLLED_PAST_EXPECTED, Finding.ALREADY_VISIBLE})


def classify(seen: Observed, mode: Mode) -> Finding:
    """Classify the movement of one table in a mode."""
    if seen.head < seen.visible:
        return Finding.INVARIANT_VIOLATION
    if seen.head == seen.visible:
        return Finding.ALREADY_VISIBLE if seen.is_visible else Finding.NO_MOVEMENT
    if seen.ownership is Ownership.NONE:
        return Finding.FOREIGN
    match mode:
        case Mode.STRICT:
            return _classify_strict(seen)
        case Mode.LOOSE:
            return (
                _classify_expected_length(seen)
                if seen.pin.expected == seen.visible
                else _classify_unexpected(seen)
            )
        case Mode.CONFIRMED:
            return _classify_confirmed(seen)


def _classify_strict(seen: Observed) -> Finding:
    exact = seen.pin.expected == seen.visible and seen.pin.post_commit == seen.head
    # Only a sidecar that knows its commits may have announced two of them.
    is_known = seen.head == seen.visible + 1 or seen.ownership is Ownership.ALL
    return _classify_expected_length(seen) if exact and is_known else _classify_unexpected(seen)


def _classify_confirmed(seen: Observed) -> Finding:
    if seen.pin.confirmed is None:
        return Finding.INCOMPLETE_PHASE_B
    exact = seen.head == seen.pin.confirmed and seen.pin.expected == seen.visible
    return _classify_expected_length(seen) if exact else Finding.UNEXPECTED_MULTISTEP


def _classify_expected_length(seen: Observed) -> Finding:
    """Accept movement of the expected length only when every commit in it is ours and can be read."""
    is_ours = seen.ownership is not Ownership.SOME
    return Finding.ROLLED_PAST_EXPECTED if is_ours and seen.is_whole else _classify_unexpected(seen)


def _classify_unexpected(seen: Observed) -> Finding:
    is_one_step = seen.head == seen.visible + 1
    return Finding.UNEXPECTED_AT_P1 if is_one_step else Finding.UNEXPECTED_MULTISTEP


# ---- the whole operation


class TablesDecision(StrEnum):
    """The decision that the tables alone allow."""

    ABORT = "Abort"
    ROLL_BACK = "RollBack"
    ROLL_FORWARD = "RollForward"


def decide_tables(findings: Iterable[Finding]) -> TablesDecision:
    """Roll forward only when every table reached its target."""
    distinct = set(findings)
    if Finding.INVARIANT_VIOLATION in distinct:
        return TablesDecision.ABORT
    return TablesDecision.ROLL_FORWARD if distinct <= REACHED else TablesDecision.ROLL_BACK


class Decision(StrEnum):
    """The action that recovery takes on an operation."""

    ABORT = "abort"
    ROLL_FORWARD = "roll forward"
    ROLL_BACK = "roll back"
    DISCARD = "discard, it has no effect"
    STALE = "forget, it is visible already"
    ORPHAN = "discard, its branch is gone"
    GIVEN_UP = "discard, an operator decided so"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a decision depends on.

    `is_alive`: its branch exists in the incarnation it wrote. `is_published`: its own commit is visible.
    `is_reached`: everything it registers, drops and points elsewhere is visible. `has_leftovers`: tables or schema
    files exist that only it made. `may_complete`: its schema files, if it has any, can be put in place, the head is the
    one that it must follow, and its idempotency key, if it has one, is free or its own.
    """

    sidecar: Sidecar
    observed: tuple[Observed, ...] = ()
    is_alive: bool = True
    is_published: bool = False
    is_reached: bool = True
    is_read_set_unmoved: bool = True
    has_leftovers: bool = False
    may_complete: bool = True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The finding for each table."""
        return tuple(classify(seen, self.sidecar.mode) for seen in self.observed)

    @property
    def is_satisfied(self) -> bool:
        """Whether all of its changes are visible, by any publisher."""
        if not self.sidecar.table_keys or not self.is_reached:
            return False
        if self.sidecar.knows_its_commits:
            return all(finding is Finding.ALREADY_VISIBLE for finding in self.findings)
        return all(seen.head == seen.visible > seen.pin.expected for seen in self.observed)


def decide(facts: Facts) -> Decision:
    """Decide the action that recovery takes on an operation; a recorded decision is final."""
    recorded = facts.sidecar.recorded
    if recorded is not None and recorded.decision is Decided.DISCARD:
        return Decision.GIVEN_UP
    if not facts.is_alive:
        return Decision.ORPHAN
    findings = facts.findings
    decision = decide_tables(findings)
    if decision is TablesDecision.ABORT:
        return Decision.ABORT
    if recorded is not None:
        return Decision.ROLL_BACK
    if facts.is_published or facts.is_satisfied:
        return Decision.STALE
    if decision is TablesDecision.ROLL_FORWARD and facts.is_read_set_unmoved and facts.may_complete:
        return Decision.ROLL_FORWARD
    if all(finding in UNTOUCHED for finding in findings):
        return _decide_untouched(facts)
    return Decision.ROLL_BACK


def _decide_untouched(facts: Facts) -> Decision:
    """Decide for tables without a commit of it: it never began, or it ended long ago when pins are past it."""
    is_pin_passed = any(seen.visible > seen.pin.expected for seen in facts.observed)
    if is_pin_passed and not facts.sidecar.knows_its_commits:
        return Decision.STALE
    return Decision.ROLL_BACK if facts.has_leftovers else Decision.DISCARD
