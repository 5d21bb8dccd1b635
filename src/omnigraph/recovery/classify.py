"""What happened to a table, and what to do with its operation: pure, one answer per state."""

from collections.abc import Iterable
from enum import StrEnum

from omnigraph.commit.sidecar import Mode, Pin, Sidecar
from omnigraph.ids import Version
from omnigraph.values import dataclass


class Ownership(StrEnum):
    """Whose the commits between the visible version and HEAD are."""

    UNKNOWN = "unknown"
    """Sidecars before version 3 do not tell."""
    ALL = "all"
    SOME = "some"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One pin and the world.

    `is_visible`: the operation's own commits are among those that are visible. `is_fork`: the line exists and no
    manifest places the table on it. `is_restored`: HEAD is this operation's restore.
    """

    pin: Pin
    head: Version
    visible: Version
    ownership: Ownership = Ownership.UNKNOWN
    is_visible: bool = False
    is_fork: bool = False
    is_restored: bool = False


# ---- one table


class Finding(StrEnum):
    """How far a table got."""

    NO_MOVEMENT = "NoMovement"
    ALREADY_VISIBLE = "AlreadyVisible"
    FOREIGN = "Foreign"
    """HEAD moved, but not by this operation: it is not ours to undo."""
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


UNTOUCHED = frozenset({Finding.NO_MOVEMENT, Finding.FOREIGN})
REACHED = frozenset({Finding.ROLLED_PAST_EXPECTED, Finding.ALREADY_VISIBLE})


def classify(seen: Observed, mode: Mode) -> Finding:
    """Read one table's movement in a mode."""
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
            return _past(seen) if seen.pin.expected == seen.visible else _classify_unexpected(seen)
        case Mode.CONFIRMED:
            return _classify_confirmed(seen)


def _classify_strict(seen: Observed) -> Finding:
    if seen.head > seen.visible + 1:
        return Finding.UNEXPECTED_MULTISTEP
    exact = seen.pin.expected == seen.visible and seen.pin.post_commit == seen.head
    return _past(seen) if exact else Finding.UNEXPECTED_AT_P1


def _classify_confirmed(seen: Observed) -> Finding:
    if seen.pin.confirmed is None:
        return Finding.INCOMPLETE_PHASE_B
    exact = seen.head == seen.pin.confirmed and seen.pin.expected == seen.visible
    return _past(seen) if exact else Finding.UNEXPECTED_MULTISTEP


def _past(seen: Observed) -> Finding:
    """Movement of the right length counts only when no foreign commit is in it."""
    foreign = seen.ownership is Ownership.SOME
    return _classify_unexpected(seen) if foreign else Finding.ROLLED_PAST_EXPECTED


def _classify_unexpected(seen: Observed) -> Finding:
    one = seen.head == seen.visible + 1
    return Finding.UNEXPECTED_AT_P1 if one else Finding.UNEXPECTED_MULTISTEP


# ---- the whole operation


class Decision(StrEnum):
    """What the tables alone say."""

    ABORT = "Abort"
    ROLL_BACK = "RollBack"
    ROLL_FORWARD = "RollForward"


def decide(findings: Iterable[Finding]) -> Decision:
    """All or nothing: forward only when every table got there."""
    found = set(findings)
    if Finding.INVARIANT_VIOLATION in found:
        return Decision.ABORT
    return Decision.ROLL_FORWARD if found <= REACHED else Decision.ROLL_BACK


class Verdict(StrEnum):
    """What becomes of an operation."""

    ABORT = "abort"
    ROLL_FORWARD = "roll forward"
    ROLL_BACK = "roll back"
    DISCARD = "discard, it has no effect"
    STALE = "forget, it is visible already"
    ORPHAN = "discard, its branch is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a verdict depends on.

    `is_alive`: its branch is there, in the life it wrote. `is_published`: its own commit is visible.
    `is_reached`: what it registers, drops and points elsewhere is visible. `relies`: its read set is unmoved.
    `has_leftovers`: tables or schema files that only it made are there. `may_complete`: its schema files, if it
    has any, can be put in place.
    """

    sidecar: Sidecar
    seen: tuple[Observed, ...] = ()
    is_alive: bool = True
    is_published: bool = False
    is_reached: bool = True
    relies: bool = True
    has_leftovers: bool = False
    may_complete: bool = True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """How far each table got."""
        return tuple(classify(seen, self.sidecar.mode) for seen in self.seen)

    @property
    def is_satisfied(self) -> bool:
        """Whether all it wanted is visible, whoever published it."""
        if not self.sidecar.table_keys or not self.is_reached:
            return False
        if self.sidecar.knows_its_commits:
            return all(finding is Finding.ALREADY_VISIBLE for finding in self.findings)
        return all(seen.head == seen.visible > seen.pin.expected for seen in self.seen)


def judge(facts: Facts) -> Verdict:
    """Decide an operation; a decision that was recorded is never taken again."""
    if not facts.is_alive:
        return Verdict.ORPHAN
    findings = facts.findings
    decision = decide(findings)
    if decision is Decision.ABORT:
        return Verdict.ABORT
    if facts.sidecar.recorded is not None:
        return Verdict.ROLL_BACK
    if facts.is_published or facts.is_satisfied:
        return Verdict.STALE
    if decision is Decision.ROLL_FORWARD and facts.relies and facts.may_complete:
        return Verdict.ROLL_FORWARD
    if all(finding in UNTOUCHED for finding in findings):
        return _judge_untouched(facts)
    return Verdict.ROLL_BACK


def _judge_untouched(facts: Facts) -> Verdict:
    """No table holds anything of it: it never began, or, when pins are past it, it is long done."""
    passed = any(seen.visible > seen.pin.expected for seen in facts.seen)
    if passed and not facts.sidecar.knows_its_commits:
        return Verdict.STALE
    return Verdict.ROLL_BACK if facts.has_leftovers else Verdict.DISCARD
