"""The base of a merge: one stored state, or a combination of several."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from omnigraphdb.errors import NotFoundError, OmniError
from omnigraphdb.ids import MAIN, CommitId
from omnigraphdb.manifest.ancestry import CommitGraph, parents_of
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import Agreed, GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import state_of
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """A state that can be opened."""

    commit: CommitId


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedBase:
    """Two states merged over the state that they share; a row on which they disagree is unknown."""

    left: "Node"
    right: "Node"
    shared: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMerge:
    """A merge that brought a lost state: its first parent, its result, and the state that both parents shared.

    `agreed` are rows that the lost state and the first parent had changed in the same way.
    """

    shared: "Node"
    before: "Node"
    after: "Node"
    agreed: Agreed


@dataclass(frozen=True, slots=True)
class Recovered:
    """A lost state, recovered from the merges that brought it."""

    witnesses: tuple[RecordedMerge, ...]


Node = Stored | MergedBase | Recovered


def stored_in(node: Node) -> Iterator[CommitId]:
    """List the commits whose states a base is read from."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        match current:
            case Stored():
                yield current.commit
            case MergedBase():
                waiting += [current.left, current.right, current.shared]
            case Recovered():
                waiting += [
                    part
                    for witness in current.witnesses
                    for part in (witness.shared, witness.before, witness.after)
                ]


@dataclass(frozen=True, kw_only=True)
class Base:
    """A base and the states that it is read from."""

    node: Node
    states: Mapping[CommitId, BranchState]

    @cached_property
    def only(self) -> BranchState | None:
        """The state of the base, if the base is a single state."""
        return self.states[self.node.commit] if isinstance(self.node, Stored) else None


def base_at(state: BranchState) -> Base:
    """Make the base that is a single state, which has a commit."""
    assert state.head is not None, "a base is a commit"
    return Base(node=Stored(state.head.id), states={state.head.id: state})


class BaseFinder:
    """Chooses bases among the ancestors of two heads; `is_stored` tells whether the state of a commit can be opened."""

    def __init__(
        self, graph: CommitGraph, heads: Iterable[CommitId], is_stored: Callable[[CommitId], bool]
    ) -> None:
        self._graph = graph
        self._within = graph.ancestors(heads)
        self._is_stored = is_stored
        self._states: dict[CommitId, Node | None] = {}
        self._bases: dict[tuple[frozenset[CommitId], frozenset[CommitId]], Node | None] = {}

    def find(self, source: Iterable[CommitId], target: Iterable[CommitId]) -> Node | None:
        """Find the base of two commits, or of two sets of merged commits; None if it cannot be recovered."""
        pair = frozenset(source), frozenset(target)
        if pair not in self._bases:
            # Until it is found it cannot be a part of itself.
            self._bases[pair] = None
            common = self._graph.common(*pair)
            self._bases[pair] = self._choose(common)
        return self._bases[pair]

    def find_older(self, source: CommitId, target: CommitId) -> Node | None:
        """Find the lowest common ancestors with a stored or recovered state, when the lowest of all have none."""
        common = self._graph.common([source], [target])
        while lowest := self._graph.lowest(common):
            node = self._fold(lowest)
            if node is not None:
                return node
            lost = [commit for commit in lowest if self._state(commit) is None]
            common = self._graph.without(common, lost or lowest)
        return None

    def _choose(self, common: int) -> Node | None:
        lowest = self._graph.lowest(common)
        if len(lowest) == 1 and self._is_stored(lowest[0]):
            return Stored(lowest[0])
        pure_merge = next(
            (m for m in self._pure_merges(common, lowest) if self._is_stored(m)), None
        )
        return Stored(pure_merge) if pure_merge is not None else self._fold(lowest)

    def _pure_merges(self, common: int, lowest: tuple[CommitId, ...]) -> Iterator[CommitId]:
        """Find merges of all the lowest commits that hold nothing but common work."""
        pure: set[CommitId] = set()
        for merge in self._merges:
            parents = parents_of(merge)
            if all(parent in pure or self._graph.holds(common, parent) for parent in parents):
                pure.add(merge.id)
                ancestors = self._graph.ancestors([merge.id])
                if all(self._graph.holds(ancestors, commit) for commit in lowest):
                    yield merge.id

    @cached_property
    def _merges(self) -> tuple[GraphCommit, ...]:
        """The merges among the ancestors of the heads, ancestors first."""
        commits = (self._graph.commits.get(commit_id) for commit_id in self._graph.ids)
        return tuple(
            commit
            for commit in commits
            if commit is not None
            and len(parents_of(commit)) == 2
            and self._graph.holds(self._within, commit.id)
        )

    def _fold(self, lowest: tuple[CommitId, ...]) -> Node | None:
        """Merge several states, one after the other, each over the state that it shares with the earlier ones."""
        node: Node | None = None
        for number, commit in enumerate(lowest):
            state = self._state(commit)
            if state is None:
                return None
            if node is None:
                node = state
                continue
            shared = self.find(lowest[:number], [commit])
            if shared is None:
                return None
            node = MergedBase(left=node, right=state, shared=shared)
        return node

    def _state(self, commit: CommitId) -> Node | None:
        if commit not in self._states:
            # A state is not recovered from merges that are recovered from it.
            self._states[commit] = None
            self._states[commit] = (
                Stored(commit) if self._is_stored(commit) else self._recover(commit)
            )
        return self._states[commit]

    def _recover(self, commit: CommitId) -> Node | None:
        """Recover a lost state from the merges that brought it; a single merge suffices if it leaves no row unknown."""
        merges = [merge for merge in self._merges if merge.merged_parent == commit]
        for merge in merges:
            if self._is_forward(merge) and (merged_state := self._state(merge.id)) is not None:
                return merged_state
        witnesses = tuple(
            witness for witness in map(self._find_witness, merges) if witness is not None
        )
        exact = tuple(witness for witness in witnesses if None not in dict(witness.agreed).values())
        return Recovered(exact[:1] or witnesses) if witnesses else None

    def _is_forward(self, merge: GraphCommit) -> bool:
        """Whether a merge shows only the state that it brought."""
        first, merged = parents_of(merge)
        return self._graph.holds(self._graph.ancestors([merged]), first)

    def _find_witness(self, merge: GraphCommit) -> RecordedMerge | None:
        # A merge without `agreed` may have been made over an older base, and proves nothing.
        if merge.agreed is None:
            return None
        first, merged = parents_of(merge)
        before, after = self._state(first), self._state(merge.id)
        shared = self.find([first], [merged])
        if before is None or after is None or shared is None:
            return None
        return RecordedMerge(shared=shared, before=before, after=after, agreed=merge.agreed)


# ---- states that can be opened


class StoredStates:
    """Opens the state of a commit once; None when its branch is deleted or cleanup removed a part of it.

    Of the tables, only the versions that a merge of two sides would read are opened.
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
        """Return the state of a commit."""
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
        """Return the states that a base is read from."""
        states = {commit: self.find(commit) for commit in stored_in(node)}
        return {commit: state for commit, state in states.items() if state is not None}

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
        """Whether a state, which may be a cached one, belongs to the branch that has its name now."""
        for side in self._sides:
            if side.branch == state.branch:
                return side.branch_incarnation == state.branch_incarnation
        return (
            state.branch == MAIN
            or self._manifest.branch_incarnation(state.branch) == state.branch_incarnation
        )

    def _open_tables(self, state: BranchState) -> None:
        """Open the versions that a merge would read; the versions of the two sides exist."""
        side_entries = [side.snapshot.entries for side in self._sides]
        for key, entry in state.snapshot.entries.items():
            versions = [entries[key].at for entries in side_entries if key in entries]
            if len(set(versions)) == 2 and entry.at not in versions:
                self._tables.open(entry.at)
