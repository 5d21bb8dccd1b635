"""States of commits that a merge may need as its base, as far as they can still be opened."""

from collections.abc import Callable, Mapping

from omnigraph.engine.merge.base import Node, stored_in
from omnigraph.errors import NotFoundError, OmniError
from omnigraph.ids import MAIN, CommitId
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import GraphCommit
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import state_of
from omnigraph.storage.tables import Tables


class StoredStates:
    """Opens the state of a commit once; None when its branch is deleted or cleanup removed a part of it.

    Of the tables, those versions are looked at that a merge of two sides would read.
    """

    def __init__(
        self,
        manifest: Manifest,
        tables: Tables,
        commit: Callable[[CommitId], GraphCommit | None],
        *sides: BranchState,
    ) -> None:
        self._manifest = manifest
        self._tables = tables
        self._commit = commit
        self._sides = sides
        self._found: dict[CommitId, BranchState | None] = {}

    def find(self, commit: CommitId) -> BranchState | None:
        """The state of a commit."""
        if commit not in self._found:
            try:
                self._found[commit] = self._open(commit)
            except NotFoundError:
                self._found[commit] = None
            except OmniError:
                # While a branch is deleted its files go one after the other.
                if self._has_branch(commit):
                    raise
                self._found[commit] = None
        return self._found[commit]

    def of(self, node: Node) -> Mapping[CommitId, BranchState]:
        """The states that a base is read from."""
        found = {commit: self.find(commit) for commit in stored_in(node)}
        return {commit: state for commit, state in found.items() if state is not None}

    def _open(self, name: CommitId) -> BranchState | None:
        commit = self._commit(name)
        if commit is None:
            return None
        state = state_of(self._manifest, commit.branch, commit)
        if not self._is_alive(state):
            return None
        self._open_tables(state)
        return state

    def _has_branch(self, name: CommitId) -> bool:
        commit = self._commit(name)
        try:
            return (
                commit is not None and self._manifest.branch_incarnation(commit.branch) is not None
            )
        except NotFoundError:
            return False

    def _is_alive(self, state: BranchState) -> bool:
        """Whether a state that may be remembered is of the branch that has its name now."""
        for side in self._sides:
            if side.branch == state.branch:
                return side.branch_incarnation == state.branch_incarnation
        return (
            state.branch == MAIN
            or self._manifest.branch_incarnation(state.branch) == state.branch_incarnation
        )

    def _open_tables(self, state: BranchState) -> None:
        """Open the versions that a merge would read; those of the two sides are there."""
        shown = [side.snapshot.entries for side in self._sides]
        for key, entry in state.snapshot.entries.items():
            sides = [entries[key].at for entries in shown if key in entries]
            if len(set(sides)) == 2 and entry.at not in sides:
                self._tables.open(entry.at)
