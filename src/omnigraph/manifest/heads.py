"""Warm branch states: what this process knows of each branch, and turns between its publishers."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from omnigraph.ids import BranchName
from omnigraph.limits import BRANCH_STATES_MAX, PUBLISH_LOCKS
from omnigraph.manifest.state import BranchState


def _nothing(_: BranchName) -> None:
    return None


class Heads:
    """The newest known state per branch and a few past ones; safe to share between threads, bounded.

    `new_life` is told when a branch name turns out to mean another branch than before, or when its state is
    forgotten: caches keyed by names and versions must then drop what they hold of it.
    """

    def __init__(self, new_incarnation: Callable[[BranchName], None] = _nothing) -> None:
        self._new_incarnation = new_incarnation
        self._lock = threading.Lock()
        self._newest: OrderedDict[BranchName, BranchState] = OrderedDict()
        self._past: OrderedDict[Hashable, BranchState] = OrderedDict()
        # A fixed set of locks: two branches may share one, none is ever left behind.
        self._turns = tuple(threading.Lock() for _ in range(PUBLISH_LOCKS))

    def lock_branch(self, branch: BranchName) -> threading.Lock:
        """The lock that the publishers of one branch take turns with."""
        return self._turns[hash(branch) % PUBLISH_LOCKS]

    def get(self, branch: BranchName) -> BranchState | None:
        """The newest known state; it may be stale."""
        with self._lock:
            found = self._newest.get(branch)
            if found is not None:
                self._newest.move_to_end(branch)
            return found

    def keep(self, state: BranchState) -> BranchState:
        """Remember a state unless a newer one of the same life is known."""
        lost: list[BranchName] = []
        with self._lock:
            known = self._newest.get(state.branch)
            if known is not None and known.branch_incarnation != state.branch_incarnation:
                lost.append(state.branch)
            if (
                known is None
                or known.branch_incarnation != state.branch_incarnation
                or known.version <= state.version
            ):
                self._newest[state.branch] = state
            self._newest.move_to_end(state.branch)
            while len(self._newest) > BRANCH_STATES_MAX:
                lost.append(self._newest.popitem(last=False)[0])
        self._tell(lost)
        return state

    def drop(self, branch: BranchName) -> None:
        """Forget what is known: the next look loads again."""
        with self._lock:
            self._newest.pop(branch, None)

    def end(self, branch: BranchName) -> None:
        """Forget a branch that was deleted, and have every cache forget it."""
        self.drop(branch)
        self._tell([branch])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._newest.clear()
            self._past.clear()

    def past(self, name: Hashable, load: Callable[[], BranchState]) -> BranchState:
        """A past state; what a version shows never changes, so it is loaded once while it is held."""
        with self._lock:
            found = self._past.get(name)
        if found is None:
            found = load()
        with self._lock:
            self._past[name] = found
            self._past.move_to_end(name)
            while len(self._past) > BRANCH_STATES_MAX:
                self._past.popitem(last=False)
        return found

    def _tell(self, lost: list[BranchName]) -> None:
        # Outside the lock: a listener may well ask this object something.
        for branch in lost:
            self._new_incarnation(branch)
