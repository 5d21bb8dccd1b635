"""What cleanup keeps: the versions that the caller's rules keep, and those that branches and tags show or that merges need."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import combinations, islice, pairwise

from omnigraph.engine.merge_base import BaseFinder, StoredStates, stored_in
from omnigraph.engine.session.engine import Engine
from omnigraph.errors import OmniError, StorageError, UserInputError
from omnigraph.failpoints import Failpoint, fail
from omnigraph.ids import MAIN, BranchName, CommitId, Version
from omnigraph.limits import SCRATCH_SECONDS
from omnigraph.manifest.ancestry import CommitGraph, graph_of
from omnigraph.manifest.names import SCHEMA_APPLY_LOCK
from omnigraph.manifest.records import Tag, graph_branch
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.tags import list_tags
from omnigraph.manifest.travel import state_of
from omnigraph.storage.values import MAIN_INCARNATION, VersionInfo
from omnigraph.values import dataclass

Live = Mapping[BranchName, BranchState]
CommitTime = Callable[[Version], int | None]
"""The time of the commit that published a version of a table; None for maintenance, which makes no commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which versions stay: the newest `keep`, and those visible at `cutoff_us` or later; each rule keeps on its own."""

    keep: int | None
    cutoff_us: int | None
    scratch_age_us: int = int(SCRATCH_SECONDS * 1_000_000)

    def list_removable(
        self, versions: tuple[VersionInfo, ...], committed_us: CommitTime
    ) -> tuple[Version, ...]:
        """List the versions that neither rule keeps; the newest version always stays."""
        count = max(len(versions) - max(self.keep or 1, 1), 0)
        replaced = list(islice(pairwise(versions), count))
        if self.cutoff_us is None:
            return tuple(info.version for info, _ in replaced)
        # A version was visible until the next one was published, and a reader of that time may still use it.
        old = [(i, next_) for i, next_ in replaced if next_.created_us < self.cutoff_us]
        count = _count_replaced_before(old, committed_us, self.cutoff_us)
        return tuple(info.version for info, _ in old[:count])

    def allows_drop(self, dropped_us: int) -> bool:
        """Whether a table that nothing shows since `dropped_us` may be removed; `keep` counts versions of visible tables only."""
        return self.cutoff_us is None or dropped_us < self.cutoff_us


def _count_replaced_before(
    old: Sequence[tuple[VersionInfo, VersionInfo]], committed_us: CommitTime, cutoff_us: int
) -> int:
    """Count the versions, from the oldest, that were replaced before the cutoff by the times of commits too.

    A table version carries the clock of its writer, which may have been slow; commits never go back in time.
    If all clocks are right, the first comparison decides.
    """
    count = len(old)
    for n in reversed(range(len(old))):
        at = committed_us(old[n][1].version)
        if at is None:
            continue
        if at < cutoff_us:
            break
        count = n
    return count


def parse_retention(engine: Engine, keep: int | None, older_than: timedelta | None) -> Retention:
    """Check the rules of a caller."""
    if keep is None and older_than is None:
        raise UserInputError(
            "cleanup needs a rule for what to keep; nothing was removed",
            hint="give keep (versions per table), older_than (an age), or both",
        )
    if keep is not None and keep < 1:
        raise UserInputError(
            f"cleanup keeps at least 1 version of each table, not {keep}; nothing was removed"
        )
    if older_than is not None and older_than < timedelta(0):
        raise UserInputError(f"an age cannot be {older_than}; nothing was removed")
    if older_than is None:
        return Retention(keep=keep, cutoff_us=None)
    age = older_than // timedelta(microseconds=1)
    return Retention(keep=keep, cutoff_us=engine.runtime.now_us() - age, scratch_age_us=age)


# ---- pinned versions


def live_snapshots(engine: Engine) -> Mapping[BranchName, Snapshot]:
    """Read what every live branch shows; refuse if one cannot be read, because any branch may pin any version."""
    return {branch: state.snapshot for branch, state in _live_states(engine).items()}


class PinnedVersions:
    """The versions that live branches show or need for merges; the needs of merges are computed anew only if a branch moved."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heads: object = None
        self._bases: tuple[Snapshot, ...] = ()
        self._tags: tuple[Tag, ...] = ()
        self._tag_snapshots: tuple[Snapshot, ...] = ()

    def find(self, path: str, branch: str | None) -> frozenset[Version]:
        """Find the versions of a table, or of one of its forks, that a live branch shows (its own or its parent's) or
        that a merge of two live branches needs, or that a tag names."""
        live = _live_states(self._engine)
        shown = [state.snapshot for state in live.values()]
        return frozenset(
            entry.version
            for snapshot in (*shown, *self._merge_bases(live), *self._tagged(live))
            for entry in snapshot.entries.values()
            if entry.at.path == path and entry.at.branch == branch
        )

    def _merge_bases(self, live: Live) -> tuple[Snapshot, ...]:
        heads = {branch: (state.branch_incarnation, state.head) for branch, state in live.items()}
        if heads != self._heads:
            states = states_for_merges(self._engine, live)
            self._heads, self._bases = heads, tuple(state.snapshot for state in states)
        return self._bases

    def _tagged(self, live: Live) -> tuple[Snapshot, ...]:
        tags = list_tags(live[MAIN])
        if tags != self._tags:
            states = tagged_states(self._engine, tags)
            self._tags, self._tag_snapshots = tags, tuple(state.snapshot for state in states)
        return self._tag_snapshots


def tagged_states(engine: Engine, tags: Sequence[Tag]) -> Iterator[BranchState]:
    """Read the states that tags name; a tag is made of readable states alone, so a missing one is an error."""
    for tag in tags:
        commit = engine.manifest.current(tag.branch).lineage.by_id[CommitId(str(tag.commit))]
        yield state_of(engine.manifest, tag.branch, commit)


def _live_states(engine: Engine) -> Live:
    refs = engine.manifest.rows.branches()
    incarnations = {
        BranchName(n): refs[n].incarnation for n in sorted(refs) if n != SCHEMA_APPLY_LOCK
    }
    states: dict[BranchName, BranchState] = {}
    unreadable: list[str] = []
    for branch, incarnation in ({MAIN: MAIN_INCARNATION} | incarnations).items():
        try:
            fail(Failpoint.CLEANUP_BRANCH)
            states[branch] = engine.manifest.load(branch)
        except OmniError as error:
            # A branch that another process deleted meanwhile shows nothing any more.
            if not engine.manifest.is_gone(branch, incarnation):
                unreadable.append(f"'{branch}' ({error})")
    if unreadable:
        raise StorageError(
            f"these branches cannot be read, so that no version may be removed: {', '.join(unreadable)}",
            hint="run cleanup again when the storage answers, or delete the branch",
        )
    return states


# ---- merges


def states_for_merges(engine: Engine, live: Live) -> tuple[BranchState, ...]:
    """Find the past states that a merge of any two live branches needs, now or after other branches are deleted."""
    graph = graph_of(state.ancestors for state in live.values())
    states = StoredStates(engine.manifest, engine.store.tables, graph.commits.get)
    heads = {branch: state.head.id for branch, state in live.items() if state.head is not None}
    parents = _parents(engine)
    needed: set[CommitId] = set()
    for one, other in combinations(sorted(heads), 2):
        pair = heads[one], heads[other]
        needed.update(
            _find_base_commits(graph, pair, lambda commit: states.find(commit) is not None)
        )
        # Other branches, or one of these two, may be deleted; the base is then found through the branches that stay.
        for kept in ({one, other}, {one}, {other}):
            needed.update(
                _find_base_commits(graph, pair, _is_stored_on(_undeletable(kept, parents), states))
            )
    past = (states.find(commit) for commit in sorted(needed - {*heads.values()}))
    return tuple(state for state in past if state is not None)


def _is_stored_on(
    branches: frozenset[BranchName], states: StoredStates
) -> Callable[[CommitId], bool]:
    def is_stored(commit: CommitId) -> bool:
        state = states.find(commit)
        return state is not None and state.branch in branches

    return is_stored


def _find_base_commits(
    graph: CommitGraph, heads: tuple[CommitId, CommitId], is_stored: Callable[[CommitId], bool]
) -> Iterator[CommitId]:
    """Find the stored commits whose states make up the merge base of two heads."""
    node = BaseFinder(graph, heads, is_stored).find([heads[0]], [heads[1]])
    if node is not None:
        yield from stored_in(node)


def _parents(engine: Engine) -> Mapping[BranchName, BranchName]:
    refs = engine.manifest.rows.branches().values()
    return {BranchName(ref.name): graph_branch(ref.parent) for ref in refs}


def _undeletable(
    branches: set[BranchName], parents: Mapping[BranchName, BranchName]
) -> frozenset[BranchName]:
    """The branches that cannot be deleted before these: these themselves and their parents."""
    lasting = {MAIN}
    for branch in branches:
        while branch not in lasting:
            lasting.add(branch)
            branch = parents.get(branch, MAIN)
    return frozenset(lasting)
