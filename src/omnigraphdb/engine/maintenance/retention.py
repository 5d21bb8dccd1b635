"""The versions that cleanup keeps: by the rules of the caller, and for branches, tags and merges."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import combinations, islice, pairwise

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.engine.merge_base import BaseFinder, StoredStates, stored_in
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import OmniError, StorageError, UserInputError
from omnigraphdb.failpoints import Failpoint, fail
from omnigraphdb.ids import MAIN, BranchName, CommitId, Version
from omnigraphdb.limits import SCRATCH_SECONDS
from omnigraphdb.manifest.ancestry import CommitGraph, graph_of
from omnigraphdb.manifest.names import SCHEMA_APPLY_LOCK
from omnigraphdb.manifest.records import KEY, GraphCommit, Tag, graph_branch
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.tags import list_tags
from omnigraphdb.manifest.travel import past_state_of
from omnigraphdb.storage.values import MAIN_INCARNATION, VersionInfo
from omnigraphdb.values import dataclass

CommitTime = Callable[[Version], int | None]
"""The time of the commit that published a version of a table; None for maintenance, which makes no commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The rules for versions that stay: the newest `keep`, and those visible since `cutoff_us`; either rule suffices."""

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
        """Whether a table that nothing shows since `dropped_us` may be removed; `keep` does not count here."""
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


# ---- states that branches, merges and tags need


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBranch:
    """A branch that cleanup read: its snapshot, its head, and its stamp."""

    snapshot: Snapshot
    head: GraphCommit | None
    stamp: int

    @property
    def version(self) -> Version:
        """The version of the manifest that was read."""
        return self.snapshot.version


Live = Mapping[BranchName, LiveBranch]


class PinnedStates:
    """The states whose versions stay: the states of live branches, of the bases of their merges, and of tags.

    Every branch is read once. Later reads cover only branches that were created meanwhile, and new tags, because those may
    need older versions. Every other change needs versions from the first read on, and those stay.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._marks = engine.manifest.rows.branch_marks()
        self._commits: list[pa.Table] = []
        self.live: Live = self._read()
        self._further: list[LiveBranch] = []
        self._tags: tuple[Tag, ...] | None = None
        self._tagged: tuple[BranchState, ...] = ()
        self._bases: tuple[BranchState, ...] | None = None

    def look_again(self) -> None:
        """Read the branches that were created since the last read, and the tags."""
        marks = self._engine.manifest.rows.branch_marks()
        if marks != self._marks:
            new_branches = {
                BranchName(n) for n, mark in marks.items() if self._marks.get(n) != mark
            }
            self._further += self._read(new_branches).values()
            self._marks, self._bases = marks, None
        if self._bases is None:
            heads = {
                branch.snapshot.branch: branch.head.id for branch in self._branches if branch.head
            }
            graph = graph_of(self._commits)
            self._bases = states_for_merges(self._engine, heads, graph)
        tags = list_tags(self._engine.manifest.current(MAIN))
        if tags != self._tags:
            self._tags, self._tagged = tags, tuple(tagged_states(self._engine, tags))

    def shows(self, path: str) -> bool:
        """Whether any state shows a table."""
        return any(entry.at.path == path for entry in self._entries())

    def keeps(self, path: str, fork: str | None) -> Callable[[Version], bool]:
        """Return a test for versions of a table or fork: a state shows the version, or it came after the first read."""
        entries = (
            entry for entry in self._entries() if entry.at.path == path and entry.at.branch == fork
        )
        pins = frozenset(entry.version for entry in entries)
        first = self._find_pin(path, fork)
        return lambda version: version in pins or (first is not None and version >= first)

    def list_manifests(self, branch: BranchName) -> frozenset[Version]:
        """List the versions of the manifest on a branch that merges, tags and other branches depend on."""
        past = (state for state in (*(self._bases or ()), *self._tagged) if state.branch == branch)
        refs = self._engine.manifest.rows.branches().values()
        forked = (ref.parent_version for ref in refs if graph_branch(ref.parent) == branch)
        return frozenset((*(version for state in past for version in _versions_of(state)), *forked))

    @property
    def _branches(self) -> tuple[LiveBranch, ...]:
        return (*self.live.values(), *self._further)

    def _entries(self) -> Iterator[Entry]:
        past = (state.snapshot for state in (*(self._bases or ()), *self._tagged))
        for snapshot in (*(branch.snapshot for branch in self._branches), *past):
            yield from snapshot.entries.values()

    def _find_pin(self, path: str, fork: str | None) -> Version | None:
        """Find the version that the branch of a fork showed at the first read."""
        branch = self.live.get(graph_branch(fork))
        entries = () if branch is None else branch.snapshot.entries.values()
        versions = (
            entry.version for entry in entries if entry.at.path == path and entry.at.branch == fork
        )
        return next(versions, None)

    def _read(self, branches: Collection[BranchName] | None = None) -> Live:
        """Read live branches, all or the listed `branches`; a commit that several of them know is stored once."""
        live: dict[BranchName, LiveBranch] = {}
        for state in _read_live(self._engine, branches):
            live[state.branch] = LiveBranch(
                snapshot=state.snapshot, head=state.head, stamp=state.stamp
            )
            self._commits.append(_find_fresh(state.ancestors, self._commits))
        return live


def _find_fresh(rows: pa.Table, earlier_commits: Sequence[pa.Table]) -> pa.Table:
    """Select the commits that are not among the earlier ones."""
    rows = rows.filter(pc.is_valid(rows["metadata"]))
    if not earlier_commits:
        return rows
    ids = pa.concat_tables(earlier_commits)[KEY].combine_chunks()
    return rows.filter(pc.invert(pc.is_in(rows[KEY], value_set=ids)))


def _versions_of(state: BranchState) -> Iterable[Version]:
    """Return the versions through which the commit of a state is found: from the version that its row names."""
    head = state.head
    first = state.version if head is None else min(head.manifest_version, state.version)
    # The row of an inherited commit names a version of another branch.
    if head is not None and head.branch != state.branch:
        first = state.version
    return map(Version, range(first, state.version + 1))


def tagged_states(engine: Engine, tags: Sequence[Tag]) -> Iterator[BranchState]:
    """Read the states that tags name; a tag is made of readable states alone, so a missing state is an error.

    A tag on the head needs the state in which its commit is read after the next commit; the current state stays anyway.
    """
    for tag in tags:
        commit = engine.manifest.current(tag.branch).lineage.require(CommitId(str(tag.commit)))
        yield past_state_of(engine.manifest, commit)


def _read_live(engine: Engine, branches: Collection[BranchName] | None) -> Iterator[BranchState]:
    """Read live branches, all or the listed `branches`; refuse if one is unreadable: any branch may pin any version."""
    refs = engine.manifest.rows.branches()
    incarnations = {MAIN: MAIN_INCARNATION} | {
        BranchName(n): refs[n].incarnation for n in sorted(refs) if n != SCHEMA_APPLY_LOCK
    }
    unreadable: list[str] = []
    for branch, incarnation in incarnations.items():
        if branches is not None and branch not in branches:
            continue
        try:
            fail(Failpoint.CLEANUP_BRANCH)
            state = engine.manifest.current(branch, incarnation, remember=False)
        except OmniError as error:
            # A branch that another process deleted meanwhile shows nothing any more.
            if not engine.manifest.is_gone(branch, incarnation):
                unreadable.append(f"'{branch}' ({error})")
        else:
            yield state
    if unreadable:
        raise StorageError(
            f"these branches cannot be read, so that no version may be removed: {', '.join(unreadable)}",
            hint="run cleanup again when the storage answers, or delete the branch",
        )


# ---- merges


def states_for_merges(
    engine: Engine, heads: Mapping[BranchName, CommitId], graph: CommitGraph
) -> tuple[BranchState, ...]:
    """Find the past states that a merge of any two live branches needs, now or after other branches are deleted."""
    states = StoredStates(engine.manifest, engine.store.tables, graph.commits.get)
    parents = _parents(engine)
    needed: set[CommitId] = set()
    for first, second in combinations(sorted(heads), 2):
        pair = heads[first], heads[second]
        needed.update(
            _find_base_commits(graph, pair, lambda commit: states.find(commit) is not None)
        )
        # Other branches, or one of these two, may be deleted; the base is then found through the branches that stay.
        for remaining in ({first, second}, {first}, {second}):
            needed.update(
                _find_base_commits(
                    graph, pair, _is_stored_on(_undeletable(remaining, parents), states)
                )
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
    """Return the branches that cannot be deleted before these: these branches and their parents."""
    undeletable = {MAIN}
    for branch in sorted(branches):
        while branch not in undeletable:
            undeletable.add(branch)
            branch = parents.get(branch, MAIN)
    return frozenset(undeletable)
