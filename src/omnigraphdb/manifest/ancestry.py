"""Common ancestors of two branches over first and merged parents, and the lowest of them."""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN, BranchName, CommitId
from omnigraphdb.manifest.lineage import decode_commits
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.merged import commit_rows, find_merged_commits, lost_rows
from omnigraphdb.manifest.records import KEY, GraphCommit
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.values import MAIN_INCARNATION
from omnigraphdb.values import dataclass

Commits = Mapping[CommitId, GraphCommit]


def parents_of(commit: GraphCommit) -> tuple[CommitId, ...]:
    """Return the first and the merged parent, where a commit has them."""
    return tuple(parent for parent in (commit.parent, commit.merged_parent) if parent is not None)


def count_apart(first: BranchState, second: BranchState) -> tuple[int, int]:
    """Count the commits that only the first branch knows, and those of the second; decodes no commit."""
    first_ids, second_ids = first.ancestors[KEY], second.ancestors[KEY]
    return _count_missing(first_ids, second_ids), _count_missing(second_ids, first_ids)


def _count_missing(ids: pa.ChunkedArray, among: pa.ChunkedArray) -> int:
    return len(ids) - (pc.sum(pc.is_in(ids, value_set=among.combine_chunks())).as_py() or 0)


# ---- a graph of commits


class CommitGraph:
    """Commits and their parents, numbered so that ancestors come first.

    A set of commits is an integer with one bit for each. A parent without a row is a commit without parents.
    """

    def __init__(self, commits: Commits) -> None:
        self.commits = commits
        self.ids = tuple(_ancestors_first(commits))
        self._numbers = {commit: number for number, commit in enumerate(self.ids)}
        self._parents = tuple(
            tuple(self._numbers[p] for p in parents_of(commits[commit]))
            if commit in commits
            else ()
            for commit in self.ids
        )
        self._masks: dict[CommitId, int] = {}

    def ancestors(self, heads: Iterable[CommitId]) -> int:
        """Return the set of these commits and of all their ancestors."""
        mask = 0
        for head in heads:
            if head not in self._masks:
                self._masks[head] = self._walk(self._numbers[head])
            mask |= self._masks[head]
        return mask

    def __contains__(self, commit: CommitId) -> bool:
        return commit in self._numbers

    def _walk(self, head: int) -> int:
        seen = bytearray(head // 8 + 1)
        waiting = [head]
        while waiting:
            number = waiting.pop()
            if not seen[number >> 3] >> (number & 7) & 1:
                seen[number >> 3] |= 1 << (number & 7)
                waiting.extend(self._parents[number])
        return int.from_bytes(seen, "little")

    def common(self, source: Iterable[CommitId], target: Iterable[CommitId]) -> int:
        """Return the set of common ancestors."""
        return self.ancestors(source) & self.ancestors(target)

    def lowest(self, common: int) -> tuple[CommitId, ...]:
        """List the commits of a set that are not an ancestor of another, by id; the set holds all their ancestors."""
        lowest_commits = []
        while common:
            # No commit comes before its ancestors, so the last one is the ancestor of none.
            last = self.ids[common.bit_length() - 1]
            lowest_commits.append(last)
            common &= ~self.ancestors([last])
        return tuple(sorted(lowest_commits))

    def holds(self, commits: int, commit: CommitId) -> bool:
        """Whether a commit is in a set; a commit outside of the graph is in no set."""
        number = self._numbers.get(commit)
        return number is not None and bool(commits >> number & 1)

    def without(self, commits: int, removed: Iterable[CommitId]) -> int:
        """Return a set without some commits."""
        for commit in removed:
            commits &= ~(1 << self._numbers[commit])
        return commits


def _ancestors_first(commits: Commits) -> Iterator[CommitId]:
    done: set[CommitId] = set()
    for start in sorted(commits):
        waiting = [start]
        while waiting:
            commit = waiting[-1]
            parents = parents_of(commits[commit]) if commit in commits else ()
            ahead = [parent for parent in parents if parent not in done]
            if ahead and commit not in done:
                waiting.extend(ahead)
                continue
            waiting.pop()
            if commit not in done:
                done.add(commit)
                yield commit


def graph_of(branches: Iterable[pa.Table]) -> CommitGraph:
    """Return the graph of all commits that some branches know; each is decoded once."""
    rows = pa.concat_tables(branches)
    rows = rows.filter(pc.is_valid(rows["metadata"]))
    ids = rows[KEY].combine_chunks()
    once = rows.take(pc.index_in(pc.unique(ids), value_set=ids))
    return CommitGraph({commit.id: commit for commit in decode_commits(once)})


# ---- two branches


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonAncestors:
    """The lowest common ancestors of two heads, and the commits of the source that the target does not know yet.

    `rows` are all ancestors that are known; a plain merge does not decode them.
    """

    lowest: tuple[CommitId, ...]
    merged_commits: pa.Table
    rows: pa.Table

    def commit(self, name: CommitId) -> GraphCommit | None:
        """Decode one ancestor; None when only its name is known."""
        matches = _decode(self.rows.filter(pc.equal(self.rows[KEY], name)))
        return matches[0] if matches else None

    def graph(self) -> CommitGraph:
        """Decode the graph of all ancestors."""
        return graph_of([self.rows])


def find_shared(manifest: Manifest, source: BranchState, target: BranchState) -> CommonAncestors:
    """Find the commits that two branches share, by the commit graph alone; both branches have commits."""
    assert source.head is not None, "the source has a commit"
    assert target.head is not None, "the target has a commit"
    left, right = source.ancestors, target.ancestors
    heads = source.head.id, target.head.id
    parted = find_diverged(left, right)
    if not parted.missing:
        merged_commits = find_merged_commits(left, right)
        rows = pa.concat_tables([left, right])
        lowest = parted.find_plain(*heads)
        return CommonAncestors(
            lowest=lowest or _lowest(rows, heads), merged_commits=merged_commits, rows=rows
        )
    ancestors = _search(manifest, source, target, parted.missing)
    merged_commits = find_merged_commits(pa.concat_tables([left, ancestors]), right)
    rows = pa.concat_tables([left, right, ancestors])
    return CommonAncestors(lowest=_lowest(rows, heads), merged_commits=merged_commits, rows=rows)


def _lowest(rows: pa.Table, heads: tuple[CommitId, CommitId]) -> tuple[CommitId, ...]:
    graph = graph_of([rows])
    return graph.lowest(graph.common([heads[0]], [heads[1]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergedCommits:
    """The commits that only one of two branches knows, and their parents that the branch they are on does not know."""

    own: Commits
    other: Commits
    missing: frozenset[CommitId]

    def find_plain(self, source: CommitId, target: CommitId) -> tuple[CommitId, ...] | None:
        """Find the only lowest common ancestor without the commits that both have; None when there may be several.

        A branch has all ancestors of its head. If one side merged nothing since the fork, every common commit is an
        ancestor of the commit where that side forked, which is common itself.
        """
        for head, commits in ((source, self.own), (target, self.other)):
            if not any(commit.merged_parent for commit in commits.values()):
                commit = _left_at(commits, head)
                return None if commit is None else (commit,)
        return None


def find_diverged(left: pa.Table, right: pa.Table) -> DivergedCommits:
    """Find the commits that only one of two branches has; only those are decoded, however long the history is."""
    own, other = _only_in(left, right), _only_in(right, left)
    missing = _unknown_parents(own, left) | _unknown_parents(other, right)
    return DivergedCommits(own=own, other=other, missing=frozenset(missing))


def _only_in(rows: pa.Table, others: pa.Table) -> Commits:
    shared = pc.is_in(rows[KEY], value_set=others[KEY].combine_chunks())
    return {commit.id: commit for commit in _decode(rows.filter(pc.invert(shared)))}


def _decode(rows: pa.Table) -> tuple[GraphCommit, ...]:
    return decode_commits(rows.filter(pc.is_valid(rows["metadata"])))


def _unknown_parents(commits: Commits, rows: pa.Table) -> set[CommitId]:
    parents = {parent for commit in commits.values() for parent in parents_of(commit)}
    ids = pa.array(sorted(parents - commits.keys()), pa.string())
    is_known = pc.is_in(ids, value_set=rows[KEY].combine_chunks())
    return {CommitId(commit) for commit in ids.filter(pc.invert(is_known)).to_pylist()}


def _left_at(own: Commits, head: CommitId) -> CommitId | None:
    """Return the first commit that is not one's own, going back along first parents."""
    commit: CommitId | None = head
    while commit is not None and commit in own:
        commit = own[commit].parent
    return commit


# ---- ancestors that neither branch knows


def _search(
    manifest: Manifest, source: BranchState, target: BranchState, missing: Iterable[CommitId]
) -> pa.Table:
    """Search missing ancestors on every live branch; a commit that no branch has is recorded as lost."""
    commits = {c.id: c for state in (source, target) for c in _decode(state.ancestors)}
    ancestors: dict[CommitId, GraphCommit] = {}
    unresolved = _reach(missing, commits, ancestors)
    for state in _other_states(manifest, {source.branch, target.branch}):
        if not unresolved:
            break
        commits |= {c.id: c for c in _decode(state.ancestors)}
        unresolved = _reach(unresolved, commits, ancestors)
    return pa.concat_tables([commit_rows(ancestors.values()), lost_rows(sorted(unresolved))])


def _reach(
    ids: Iterable[CommitId], commits: Commits, ancestors: dict[CommitId, GraphCommit]
) -> set[CommitId]:
    """Add every id of `ids` that is in `commits`, and its ancestors, to `ancestors`; return the other ids."""
    lacking: set[CommitId] = set()
    waiting = list(ids)
    while waiting:
        commit_id = waiting.pop()
        if commit_id in commits:
            if commit_id not in ancestors:
                ancestors[commit_id] = commits[commit_id]
                waiting.extend(parents_of(commits[commit_id]))
        else:
            lacking.add(commit_id)
    return lacking


def _other_states(manifest: Manifest, seen: set[BranchName]) -> Iterator[BranchState]:
    refs = manifest.rows.branches()
    incarnations = {MAIN: MAIN_INCARNATION} | {
        BranchName(name): refs[name].incarnation for name in sorted(refs)
    }
    for branch, branch_incarnation in incarnations.items():
        if branch not in seen:
            try:
                yield manifest.current(branch, branch_incarnation, remember=False)
            except OmniError:
                # The branch was deleted since the branches were listed.
                if not manifest.is_gone(branch, branch_incarnation):
                    raise
