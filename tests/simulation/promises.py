"""What calls promise: which write must show, must not, or may; which branch must be there; what a key must tell."""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

from omnigraphdb.engine.results import OperationState
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN
from tests.simulation import verbs
from tests.simulation.handles import Handle
from tests.simulation.scenarios import BranchChange, Universe, Write
from tests.simulation.universe import Fate


class Showing(StrEnum):
    """Whether a write shows on its branch."""

    SHOWN = "shown"
    ABSENT = "absent"
    EITHER = "either"


def list_deletions(universe: Universe, branch: str) -> list[BranchChange]:
    """List the deletions of a branch that may have taken effect."""
    return [one for one in _list_changes(universe, branch) if not one.is_made]


def _list_changes(universe: Universe, branch: str) -> Iterator[BranchChange]:
    for change in universe.branch_changes.values():
        if change.branch == branch and change.fate is not Fate.REFUSED:
            yield change


def decide_showing(universe: Universe, write: Write) -> Showing:
    """Decide whether a write shows on its branch at the end; what was written to a deleted branch went with it."""
    if write.fate is Fate.REFUSED:
        return Showing.ABSENT
    if write.fate is Fate.UNKNOWN:
        return Showing.EITHER
    deletions = list_deletions(universe, write.branch)
    if all(one.ended <= write.began for one in deletions):
        return Showing.SHOWN
    # A keyed write that is asked for again lands on the next branch of the name.
    last = write.finished
    if any(one.fate is Fate.ACKNOWLEDGED and one.began >= last for one in deletions):
        return Showing.ABSENT
    return Showing.EITHER


def list_wrong_branches(universe: Universe, names: Collection[str]) -> Iterator[str]:
    """S3: a branch that was made, and that nobody deletes, is there; one that was deleted is not."""
    initial = universe.initial_branches
    for branch in sorted({one.branch for one in universe.branch_changes.values()} | initial):
        changes = list(_list_changes(universe, branch))
        made = [one for one in changes if one.is_made]
        if branch in initial:
            made.append(BranchChange("start", branch, ended=0.0, told=[Fate.ACKNOWLEDGED]))
        gone = [one for one in changes if not one.is_made]
        if branch in names and _is_last(gone, made):
            yield f"S3 {branch} was deleted, and is there"
        if branch not in names and _is_last(made, gone):
            yield f"S3 {branch} was made, and is not there"


def list_lost_with_branches(universe: Universe) -> Iterator[str]:
    """S1: no write is lost with a branch that is deleted because main has all of its commits; nobody merges it."""
    for change in universe.branch_changes.values():
        if not change.is_merged or change.fate is not Fate.ACKNOWLEDGED:
            continue
        for write in universe.writes.values():
            if write.branch == change.branch and write.fate is Fate.ACKNOWLEDGED:
                yield f"S1 {write.name} was acknowledged, and {change.branch} deleted as if it were merged"


def _is_last(changes: Iterable[BranchChange], others: Collection[BranchChange]) -> bool:
    """Whether one of some changes was acknowledged, and came after all the others."""
    return any(
        one.fate is Fate.ACKNOWLEDGED and all(other.ended <= one.began for other in others)
        for one in changes
    )


def list_wrong_keys(universe: Universe, handle: Handle, names: Collection[str]) -> Iterator[str]:
    """S1: a key tells what its request did; that of a refused request is free."""
    for write in universe.writes.values():
        if not write.has_key or write.branch not in names:
            continue
        try:
            known = verbs.find_key(handle, write.branch, write.name)
        except OmniError as error:
            yield f"S1 the key of {write.name} cannot be looked up: {error}"
            continue
        match decide_showing(universe, write):
            case Showing.SHOWN if known.state is not OperationState.LANDED:
                yield f"S1 {write.name} was acknowledged, and its key says {known.state}"
            case Showing.SHOWN if known.commit is None or known.commit.id != write.commit:
                yield f"S1 {write.name} was acknowledged as {write.commit}, its key says {known.commit}"
            case Showing.ABSENT if known.state is not OperationState.NOT_LANDED:
                yield f"S1 {write.name} does not show, and its key says {known.state}: {write.said}"
    for change in universe.branch_changes.values():
        if change.fate is Fate.REFUSED:
            known = verbs.find_key(handle, str(MAIN), change.name)
            # Who decided, and was refused by what came then, finds the decision when it asks again.
            is_free = known.state is OperationState.NOT_LANDED
            is_kept = known.state is OperationState.UNDECIDED and _has_company(universe, change)
            if not (is_free or is_kept):
                yield f"S1 {change.name} was refused, and its key says {known.state}: {change.said}"


def _has_company(universe: Universe, change: BranchChange) -> bool:
    """Whether a fault, or another change of the branch, came while a change was tried."""
    rivals = (one for one in _list_changes(universe, change.branch) if one is not change)
    return not change.is_undisturbed or any(
        one.began <= change.finished and one.finished >= change.began for one in rivals
    )
