"""The relation of two branches: their base, the outcome, and the work per table."""

from collections.abc import Mapping
from dataclasses import field, replace
from enum import StrEnum

import pyarrow as pa

from omnigraphdb.engine.merge_base import Base, BaseFinder, Stored, StoredStates, base_at
from omnigraphdb.errors import MergeBaseUnavailable, UserInputError
from omnigraphdb.ids import MAIN, BranchName, CommitId, TableKey
from omnigraphdb.manifest.ancestry import CommonAncestors, find_shared
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import lance_branch
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass


class Outcome(StrEnum):
    """The outcome of a merge."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Source and target as they were captured, and their base; there is no base when there is nothing to do."""

    source: BranchState
    target: BranchState
    base: Base | None
    outcome: Outcome
    merged_commits: pa.Table
    """The commits of the source that the target does not have yet."""
    is_exact: bool = True
    """True if the base holds everything that both share; an older base, which the caller has to allow, does not."""

    @property
    def source_commit(self) -> CommitId:
        """The commit that is merged."""
        assert self.source.head is not None, "a branch without commits has no merge base"
        return self.source.head.id


def relate(
    manifest: Manifest,
    tables: Tables,
    source: BranchState,
    target: BranchState,
    *,
    allow_older_base: bool = False,
) -> Relation:
    """Find the merge base of two branches, and the outcome that follows from it."""
    source_head, target_head = source.head, target.head
    if source_head is None or target_head is None:
        raise _make_unrelated_error(source, target)
    shared = find_shared(manifest, source, target)
    if not shared.lowest:
        raise _make_unrelated_error(source, target)
    relation = Relation(
        source=source,
        target=target,
        base=None,
        outcome=Outcome.ALREADY_UP_TO_DATE,
        merged_commits=shared.merged_commits,
    )
    if source_head.id in shared.lowest:
        return relation
    if target_head.id in shared.lowest:
        # The head of the target is at hand as it was captured.
        return replace(relation, base=base_at(target), outcome=Outcome.FAST_FORWARD)
    states = StoredStates(manifest, tables, shared.commit, source, target)
    base, is_exact = _choose_base(shared, states, source, target, older=allow_older_base)
    return replace(relation, base=base, outcome=Outcome.MERGED, is_exact=is_exact)


def _make_unrelated_error(source: BranchState, target: BranchState) -> UserInputError:
    return UserInputError(
        f"branches '{source.branch}' and '{target.branch}' have no common ancestor and cannot be merged; "
        "nothing was written",
        hint="export one of them and load it into the other",
    )


def _choose_base(
    shared: CommonAncestors,
    states: StoredStates,
    source: BranchState,
    target: BranchState,
    *,
    older: bool,
) -> tuple[Base, bool]:
    """Take the only lowest common ancestor if it can be opened, else the states from which the commit graph rebuilds it."""
    if len(shared.lowest) == 1:
        state = states.find(shared.lowest[0])
        if state is not None:
            return Base(node=Stored(shared.lowest[0]), states={shared.lowest[0]: state}), True
    assert source.head is not None, "related branches have commits"
    assert target.head is not None, "related branches have commits"
    heads = source.head.id, target.head.id
    finder = BaseFinder(shared.graph(), heads, lambda commit: states.find(commit) is not None)
    node = finder.find([heads[0]], [heads[1]])
    is_exact = node is not None
    if node is None and older:
        node = finder.find_older(*heads)
    if node is None:
        raise MergeBaseUnavailable(source.branch, target.branch, shared.lowest)
    return Base(node=node, states=states.of(node)), is_exact


# ---- per table


class MergeStrategy(StrEnum):
    """The way of a table from the state of the target to the merged state."""

    SAME = "same"
    POINT = "point"
    """The rows are those of the source, on a line that outlives it: only the pin moves."""
    ADOPT = "adopt"
    """The target did not touch the table: the changes of the source are repeated on the target's line."""
    THREE_WAY = "three_way"
    PUT_TOGETHER = "put_together"
    """As three-way, over a base that is put together from several states."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRelation:
    """One table on the three sides.

    `parts` are its versions in the states that a base is put together from, None where it was not there.
    """

    table_key: TableKey
    way: MergeStrategy
    base: Entry | None
    source: Entry
    target: Entry
    parts: Mapping[CommitId, Entry | None] = field(default_factory=dict)

    def fork(self, branch: BranchName) -> str | None:
        """Return the Lance branch to create for the target before it can write; None if it has a branch of its own."""
        own = lance_branch(branch)
        return own if self.target.at.branch != own else None

    @property
    def is_same_move(self) -> bool:
        """Whether both sides moved to one version that the base does not have."""
        bases = self.parts.values() if self.parts else (self.base,)
        is_base = all(entry is not None and entry.at == self.source.at for entry in bases)
        return self.source.at == self.target.at and not is_base


def relate_tables(base: Base, source: Snapshot, target: Snapshot) -> tuple[TableRelation, ...]:
    """Relate every table of the target, by key."""
    return tuple(
        _relate_table(base, key, source.entry(key), entry, target.branch)
        for key, entry in target.entries.items()
    )


def _relate_table(
    base: Base, key: TableKey, source: Entry, target: Entry, branch: BranchName
) -> TableRelation:
    parts = {commit: state.snapshot.entries.get(key) for commit, state in base.states.items()}
    if len({None if entry is None else entry.at for entry in parts.values()}) == 1:
        only = next(iter(parts.values()))
        way = _choose_way(only, source, target, branch)
        return TableRelation(table_key=key, way=way, base=only, source=source, target=target)
    way = MergeStrategy.SAME if source.at == target.at else MergeStrategy.PUT_TOGETHER
    return TableRelation(
        table_key=key, way=way, base=None, source=source, target=target, parts=parts
    )


def _choose_way(
    base: Entry | None, source: Entry, target: Entry, branch: BranchName
) -> MergeStrategy:
    if source.at == target.at or (base is not None and base.at == source.at):
        return MergeStrategy.SAME
    if base is None or base.at != target.at:
        return MergeStrategy.THREE_WAY
    owned = branch != MAIN and target.at.branch == branch
    # A pin only moves up, and only to main's line: a fork of the source would keep the source from being deleted.
    if source.at.branch is None and not owned and source.version > target.version:
        return MergeStrategy.POINT
    return MergeStrategy.ADOPT
