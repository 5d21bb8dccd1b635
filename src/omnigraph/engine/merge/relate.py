"""How two branches relate: their base, the outcome, and per table what there is to do."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice

from omnigraph.errors import NotFoundError, UserInputError
from omnigraph.ids import MAIN, BranchName, CommitId, TableKey
from omnigraph.limits import BRANCH_STATES_MAX
from omnigraph.manifest.lineage import merge_base, plain_base
from omnigraph.manifest.manifest import Manifest
from omnigraph.manifest.records import GraphCommit, lance_branch
from omnigraph.manifest.snapshot import Entry, Snapshot
from omnigraph.manifest.state import BranchState
from omnigraph.manifest.travel import state_of
from omnigraph.values import dataclass


class Outcome(StrEnum):
    """What a merge comes to."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Source and target as they were captured, and the newest state they share; None when there is nothing to do."""

    source: BranchState
    target: BranchState
    base: BranchState | None
    outcome: Outcome

    @property
    def source_commit(self) -> CommitId:
        """The commit that is merged."""
        assert self.source.head is not None, "a branch without commits has no merge base"
        return self.source.head.id


def relate(manifest: Manifest, source: BranchState, target: BranchState) -> Relation:
    """Find the merge base of two branches and what follows from it."""
    base = _base(manifest, source, target)
    ours, theirs = source.head, target.head
    if ours is not None and theirs is not None and base is not None:
        if ours.id == theirs.id or base.id == ours.id:
            return Relation(
                source=source, target=target, base=None, outcome=Outcome.ALREADY_UP_TO_DATE
            )
        forward = base.id == theirs.id
        return Relation(
            source=source,
            target=target,
            # The head of the target is at hand as it was captured.
            base=target if forward else state_of(manifest, base.branch, base),
            outcome=Outcome.FAST_FORWARD if forward else Outcome.MERGED,
        )
    raise UserInputError(
        f"branches '{source.branch}' and '{target.branch}' have no common ancestor and cannot be merged; "
        "nothing was written",
        hint="export one of them and load it into the other",
    )


def _base(manifest: Manifest, source: BranchState, target: BranchState) -> GraphCommit | None:
    if source.head is None or target.head is None:
        return None
    ours, theirs = source.head.id, target.head.id
    if source.has_lineage and target.has_lineage:
        plain = plain_base(source.image.rows, ours, target.image.rows, theirs)
        if plain is not None:
            return plain
    return merge_base(_known(manifest, source, target), ours, theirs)


def _known(
    manifest: Manifest, source: BranchState, target: BranchState
) -> Mapping[CommitId, GraphCommit]:
    """The commits both sides show, and those of other live branches that only one of them has merged.

    Work that reached both sides through a third branch is shared work, although neither side shows its commits.
    What both sides merged before they parted lies behind a commit that both show, and is not looked for.
    """
    ours, theirs = source.lineage.by_id, target.lineage.by_id
    known = {**ours, **theirs}
    own = {commit: known[commit] for commit in ours.keys() ^ theirs.keys()}
    missing = _unknown_parents(own, known)
    if not missing:
        return known
    others = (BranchName(name) for name in manifest.rows.branches())
    seen = {source.branch, target.branch}
    for branch in islice((b for b in others if b not in seen), BRANCH_STATES_MAX):
        try:
            shown = manifest.current(branch).lineage.by_id
        except NotFoundError:
            # It was deleted since the branches were listed, and has nothing to tell any more.
            continue
        if missing & shown.keys():
            own |= {commit: found for commit, found in shown.items() if commit not in known}
            known |= shown
            missing = _unknown_parents(own, known)
            if not missing:
                break
    return known


def _unknown_parents(
    commits: Mapping[CommitId, GraphCommit], known: Mapping[CommitId, GraphCommit]
) -> set[CommitId]:
    merged = {commit.merged_parent for commit in commits.values() if commit.merged_parent}
    return merged - known.keys()


# ---- per table


class Way(StrEnum):
    """How a table gets from the target's state to the merged one."""

    SAME = "same"
    POINT = "point"
    """The rows are those of the source, on a line that outlives it: only the pin moves."""
    ADOPT = "adopt"
    """The target did not touch it: what the source did is done again on the target's line."""
    THREE_WAY = "three_way"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRelation:
    """One table on the three sides."""

    table_key: TableKey
    way: Way
    base: Entry | None
    source: Entry
    target: Entry

    def fork(self, branch: BranchName) -> str | None:
        """The Lance branch to give the target before it can write, if it has none of its own."""
        own = lance_branch(branch)
        return own if self.target.at.branch != own else None


def relate_tables(base: Snapshot, source: Snapshot, target: Snapshot) -> tuple[TableRelation, ...]:
    """Relate every table of the target, by key."""
    return tuple(
        TableRelation(
            table_key=key,
            way=_way(base.entries.get(key), source.entry(key), entry, target.branch),
            base=base.entries.get(key),
            source=source.entry(key),
            target=entry,
        )
        for key, entry in target.entries.items()
    )


def _way(base: Entry | None, source: Entry, target: Entry, branch: BranchName) -> Way:
    if source.at == target.at or (base is not None and base.at == source.at):
        return Way.SAME
    if base is None or base.at != target.at:
        return Way.THREE_WAY
    owned = branch != MAIN and target.at.branch == branch
    # A pin only moves up, and only to main's line: a fork of the source would keep the source from being deleted.
    if source.at.branch is None and not owned and source.version > target.version:
        return Way.POINT
    return Way.ADOPT
