"""What happened to a table, and what to do with the operation: pure, one answer per state."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.commit.sidecar import Mode, Pin
from omnigraph.ids import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One pin and the world: HEAD of its line, the visible version, and whose the commits between are.

    `ours` is None when the sidecar does not name its transactions, as those of earlier versions do not.
    """

    pin: Pin
    head: Version
    visible: Version
    ours: bool | None = None
    fork_exists: bool = False


class Finding(StrEnum):
    """How far a table got."""

    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INCOMPLETE_PHASE_B = "IncompletePhaseB"
    INVARIANT_VIOLATION = "InvariantViolation"


class Decision(StrEnum):
    """What becomes of the whole operation."""

    ABORT = "Abort"
    ROLL_BACK = "RollBack"
    ROLL_FORWARD = "RollForward"


def classify(seen: Observed, mode: Mode) -> Finding:
    """Read one table's movement in a mode."""
    if seen.head < seen.visible:
        return Finding.INVARIANT_VIOLATION
    if seen.head == seen.visible:
        return Finding.NO_MOVEMENT
    match mode:
        case Mode.STRICT:
            return _strict(seen)
        case Mode.LOOSE:
            return _past(seen) if seen.pin.expected == seen.visible else _unexpected(seen)
        case Mode.CONFIRMED:
            return _confirmed(seen)


def _strict(seen: Observed) -> Finding:
    if seen.head > seen.visible + 1:
        return Finding.UNEXPECTED_MULTISTEP
    exact = seen.pin.expected == seen.visible and seen.pin.post_commit == seen.head
    return _past(seen) if exact else Finding.UNEXPECTED_AT_P1


def _confirmed(seen: Observed) -> Finding:
    if seen.pin.confirmed is None:
        return Finding.INCOMPLETE_PHASE_B
    exact = seen.head == seen.pin.confirmed and seen.pin.expected == seen.visible
    return _past(seen) if exact else Finding.UNEXPECTED_MULTISTEP


def _past(seen: Observed) -> Finding:
    """Movement of the right length counts only when every commit in it is the operation's own."""
    return _unexpected(seen) if seen.ours is False else Finding.ROLLED_PAST_EXPECTED


def _unexpected(seen: Observed) -> Finding:
    one = seen.head == seen.visible + 1
    return Finding.UNEXPECTED_AT_P1 if one else Finding.UNEXPECTED_MULTISTEP


def decide(findings: Iterable[Finding]) -> Decision:
    """All or nothing: forward only when every table got there."""
    found = set(findings)
    if Finding.INVARIANT_VIOLATION in found:
        return Decision.ABORT
    if found <= {Finding.ROLLED_PAST_EXPECTED}:
        return Decision.ROLL_FORWARD
    return Decision.ROLL_BACK
