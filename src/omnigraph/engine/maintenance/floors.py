"""What cleanup must never remove: everything that a live branch shows or may be merged on."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from omnigraph.engine.merge.base import BaseFinder, stored_in
from omnigraph.engine.merge.states import StoredStates
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError, StorageError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, CommitId, Version
from omnigraph.manifest.ancestry import CommitGraph, graph_of
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.records import graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.storage.values import MAIN_INCARNATION

Live = Mapping[BranchName, BranchState]


def live_snapshots(engine: Engine) -> Mapping[BranchName, Snapshot]:
    """What every live branch shows, read fresh; all of them or a refusal, since any may pin any version."""
    return {branch: state.snapshot for branch, state in _live_states(engine).items()}


class Floors:
    """The versions that one run of cleanup keeps; what merges need is found again only if a branch moved."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heads: object = None
        self._bases: tuple[Snapshot, ...] = ()

    def pinned_versions(self, path: str, branch: str | None) -> frozenset[Version]:
        """The versions of one line of a table that a live branch shows, its own or lazily its parent's, or that
        any two of them need to be merged."""
        live = _live_states(self._engine)
        shown = [state.snapshot for state in live.values()]
        return frozenset(
            entry.version
            for snapshot in (*shown, *self._merge_bases(live))
            for entry in snapshot.entries.values()
            if entry.at.path == path and entry.at.branch == branch
        )

    def _merge_bases(self, live: Live) -> tuple[Snapshot, ...]:
        heads = {branch: (state.branch_incarnation, state.head) for branch, state in live.items()}
        if heads != self._heads:
            found = states_for_merges(self._engine, live)
            self._heads, self._bases = heads, tuple(state.snapshot for state in found)
        return self._bases


def _live_states(engine: Engine) -> Live:
    refs = engine.manifest.rows.branches()
    lines = {BranchName(n): refs[n].incarnation for n in sorted(refs) if n != SCHEMA_APPLY_LOCK}
    found: dict[BranchName, BranchState] = {}
    unreadable: list[str] = []
    for branch, line in ({MAIN: MAIN_INCARNATION} | lines).items():
        try:
            fail(Failpoint.CLEANUP_BRANCH)
            found[branch] = engine.manifest.load(branch)
        except OmniError as error:
            # One that another process deletes meanwhile shows nothing any more.
            if not engine.manifest.is_gone(branch, line):
                unreadable.append(f"'{branch}' ({error})")
    if unreadable:
        raise StorageError(
            f"what these branches show could not be read, so that nothing may be removed: {', '.join(unreadable)}",
            hint="run cleanup again when the storage answers, or delete the branch",
        )
    return found


# ---- merges


def states_for_merges(engine: Engine, live: Live) -> tuple[BranchState, ...]:
    """The past states that a merge of any two live branches needs, now or after other branches are deleted."""
    graph = graph_of(state.ancestors for state in live.values())
    states = StoredStates(engine.manifest, engine.store.tables, graph.commits.get)
    heads = {branch: state.head.id for branch, state in live.items() if state.head is not None}
    parents = _parents(engine)
    needed: set[CommitId] = set()
    for one, other in combinations(sorted(heads), 2):
        pair = heads[one], heads[other]
        needed.update(_needed(graph, pair, lambda commit: states.find(commit) is not None))
        # Other branches may go, and one of these two: what it merged elsewhere is then told by those merges.
        for kept in ({one, other}, {one}, {other}):
            needed.update(_needed(graph, pair, _held_by(_lasting(kept, parents), states)))
    found = (states.find(commit) for commit in sorted(needed - {*heads.values()}))
    return tuple(state for state in found if state is not None)


def _held_by(branches: frozenset[BranchName], states: StoredStates) -> Callable[[CommitId], bool]:
    def is_held(commit: CommitId) -> bool:
        state = states.find(commit)
        return state is not None and state.branch in branches

    return is_held


def _needed(
    graph: CommitGraph, heads: tuple[CommitId, CommitId], is_stored: Callable[[CommitId], bool]
) -> Iterator[CommitId]:
    """The commits whose states the base of two heads is read from, if those are stored."""
    node = BaseFinder(graph, heads, is_stored).find([heads[0]], [heads[1]])
    if node is not None:
        yield from stored_in(node)


def _parents(engine: Engine) -> Mapping[BranchName, BranchName]:
    refs = engine.manifest.rows.branches().values()
    return {BranchName(ref.name): graph_branch(ref.parent) for ref in refs}


def _lasting(
    branches: set[BranchName], parents: Mapping[BranchName, BranchName]
) -> frozenset[BranchName]:
    """Branches that cannot be deleted before these are: they themselves and those they stand on."""
    found = {MAIN}
    for branch in branches:
        while branch not in found:
            found.add(branch)
            branch = parents.get(branch, MAIN)
    return frozenset(found)
