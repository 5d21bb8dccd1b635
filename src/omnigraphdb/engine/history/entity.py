"""The history of one entity: the commits that changed it, found from the versions that its row names, back through merges."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from omnigraphdb.cancellation import check_cancelled
from omnigraphdb.catalog.names import LAST_UPDATED, ROW_ADDRESS
from omnigraphdb.engine.diff.candidates import MOVES
from omnigraphdb.engine.diff.rows import Step, drop_equal, pair_columns
from omnigraphdb.engine.history.changes import Change
from omnigraphdb.engine.history.compare import ChangeFilter, TablePair, make_changes
from omnigraphdb.engine.results import Commit
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.errors import HistoryReclaimed, NotFoundError
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.limits import HISTORY_PROBES_MAX
from omnigraphdb.manifest.ancestry import CommitGraph, graph_of
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.manifest.snapshot import Entry, list_versions_at
from omnigraphdb.manifest.state import BranchState
from omnigraphdb.manifest.travel import find_commit, state_of
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass
from omnigraphdb.wire import Value, wire

_WITH_ROWS: Final = ChangeFilter(images=True)
_NOTHING: Final = 0
"""The set of no commits."""
_CLEANED: Final = "cleanup removed what the table was then"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryChange:
    """One commit that changed an entity, and how; `merges` are the merges through which it came, the newest first."""

    commit: Commit
    change: Change
    merges: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "commit": self.commit.to_dict(),
            "change": self.change.to_dict(),
            "merges": list(self.merges),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap(Value):
    """A commit at which, and before which, a history cannot be read, and the reason."""

    commit: str = field(metadata=wire("graph_commit_id"))
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityHistory:
    """The changes of one entity, the newest first; `more` when there are more than were asked for."""

    table_key: str
    id: str
    changes: tuple[HistoryChange, ...]
    gaps: tuple[HistoryGap, ...] = ()
    more: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The wire form."""
        return {
            "table_key": self.table_key,
            "id": self.id,
            "changes": [change.to_dict() for change in self.changes],
            "gaps": [gap.to_dict() for gap in self.gaps],
            "more": self.more,
        }

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[HistoryChange]:
        return iter(self.changes)


def read_history(
    engine: Engine, state: BranchState, table: Entry, id: str, limit: int
) -> EntityHistory:
    """Read the newest changes of an entity; each costs about one row read, for tables and histories of any size."""
    walk = _Walk(engine=engine, path=table.at.path, id=id, start=state)
    changes = list(islice(walk.list_changes(state, _NOTHING, ()), limit + 1))
    return EntityHistory(
        table_key=table.table_key,
        id=id,
        changes=tuple(changes[:limit]),
        gaps=tuple(walk.gaps),
        more=len(changes) > limit,
    )


@dataclass(frozen=True, slots=True)
class _EntityVersion:
    """The row of the entity in one version: where it is, and the version that wrote it last."""

    address: int
    updated: int


@dataclass(frozen=True, slots=True)
class _Left:
    """A commit that changed the table, and the version that it left."""

    commit: GraphCommit
    entry: Entry


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One walk back through the history of an entity; notes the gaps that it meets."""

    engine: Engine
    path: str
    id: str
    start: BranchState
    gaps: list[HistoryGap] = field(default_factory=list)
    probes: int = 0
    graphs: list[CommitGraph] = field(default_factory=list)

    @property
    def _graph(self) -> CommitGraph:
        """The commits that the branch has, merged ones included; most histories enter no merge and need none."""
        if not self.graphs:
            self.graphs.append(graph_of([self.start.ancestors]))
        return self.graphs[0]

    @property
    def _tables(self) -> Tables:
        return self.engine.store.tables

    def list_changes(
        self, state: BranchState, excluded: int, merges: tuple[str, ...]
    ) -> Iterator[HistoryChange]:
        """List the changes that a branch shows, the newest first, down to a set of excluded commits."""
        lefts = self._list_lefts(state)
        at = len(lefts) - 1
        while at >= 0 and not self._is_known(lefts[at].commit, excluded):
            check_cancelled()
            try:
                at = self._find_candidate(lefts, at)
                is_known = at < 0 or self._is_known(lefts[at].commit, excluded)
                change = None if is_known else self._compare(lefts, at)
            except (HistoryReclaimed, NotFoundError):
                self._note(lefts[max(at, 0)].commit.id, _CLEANED)
                return
            if change is not None:
                commit = lefts[at].commit
                yield HistoryChange(commit=Commit.of(commit), change=change, merges=merges)
                yield from self._enter_merge(commit, excluded, merges)
            at -= 1

    def _is_known(self, commit: GraphCommit, excluded: int) -> bool:
        return excluded != _NOTHING and self._graph.holds(excluded, commit.id)

    def _find_candidate(self, lefts: Sequence[_Left], at: int) -> int:
        """Find the newest commit up to a position that may have changed the entity; -1 if there is none.

        A row names the version that wrote it last, so the commit that left this version is looked up. An entity that does
        not exist is searched before each commit that may have removed it.
        """
        seen = self._read(lefts[at].entry)
        if seen is not None:
            return bisect_left(lefts, seen.updated, hi=at, key=lambda left: left.entry.version)
        while at >= 0:
            if _may_remove(lefts, at):
                self.probes += 1
                if self.probes > HISTORY_PROBES_MAX:
                    self._note(lefts[at].commit.id, "an earlier life of the id was not looked for")
                    return -1
                if self._read(lefts[at - 1].entry) is not None:
                    return at
            at -= 1
        return at

    def _read(self, entry: Entry) -> _EntityVersion | None:
        rows = self._tables.open(entry.at).lookup(
            "id", pa.array([self.id], pa.string()), [LAST_UPDATED], row_address=True
        )
        if not rows.num_rows:
            return None
        return _EntityVersion(rows[ROW_ADDRESS][0].as_py(), rows[LAST_UPDATED][0].as_py())

    def _compare(self, lefts: Sequence[_Left], at: int) -> Change | None:
        """Compare the entity after a commit with the entity before it; None when the commit only wrote the row anew."""
        after, before = lefts[at].entry, lefts[at - 1].entry if at else None
        now, was = self._read(after), None if before is None else self._read(before)
        if now is None and was is None:
            return None
        row = {
            "id": self.id,
            "before": None if was is None else was.address,
            "after": None if now is None else now.address,
            "version": None if now is None else now.updated,
            "row_id": None,
        }
        step, names = self._drop_equal(pa.Table.from_pylist([row], schema=MOVES), before, after)
        pair = TablePair(
            key=after.table_key,
            path=self.path,
            before=before,
            after=after,
            manifest_version=lefts[at].commit.manifest_version,
        )
        return next(make_changes(self._tables, pair, step, names, _WITH_ROWS), None)

    def _drop_equal(
        self, moves: pa.Table, before: Entry | None, after: Entry
    ) -> tuple[Step, tuple[str, ...]]:
        if before is None:
            return Step(moves, np.zeros((moves.num_rows, 0), dtype=bool)), ()
        comparison = pair_columns(self._tables.open(before.at), self._tables.open(after.at))
        return drop_equal(moves, comparison), comparison.names

    def _enter_merge(
        self, commit: GraphCommit, excluded: int, merges: tuple[str, ...]
    ) -> Iterator[HistoryChange]:
        """List the changes that a merge brought to the entity; commits that the target already had are not followed."""
        if commit.merged_parent is None:
            return
        if commit.parent is not None and commit.parent in self._graph:
            excluded |= self._graph.ancestors([commit.parent])
        if self._graph.holds(excluded, commit.merged_parent):
            return
        try:
            source = find_commit(self.engine.manifest, commit.merged_parent)
            state = state_of(self.engine.manifest, source.branch, source)
        except (HistoryReclaimed, NotFoundError):
            self._note(commit.merged_parent, "the branch that was merged is gone")
            return
        yield from self.list_changes(state, excluded, (*merges, commit.id))

    def _note(self, commit: str, reason: str) -> None:
        gap = HistoryGap(commit=commit, reason=reason)
        if gap not in self.gaps:
            self.gaps.append(gap)

    # ---- the versions of the table

    def _list_lefts(self, state: BranchState) -> list[_Left]:
        """List the commits of a branch that left a version of the table, oldest first; no earlier state is read."""
        versions = list_versions_at(state.image.rows, state.table_history, self.path)
        lefts: list[_Left] = []
        for commit in reversed(state.lineage.commits):
            try:
                entry = self._find_entry(state, commit, versions)
            except HistoryReclaimed:
                self._note(commit.id, _CLEANED)
                break
            # A fork that takes the table over leaves the version that it found.
            if entry is not None and (not lefts or entry.version < lefts[-1].entry.version):
                lefts.append(_Left(commit, entry))
        return lefts[::-1]

    def _find_entry(
        self,
        state: BranchState,
        commit: GraphCommit,
        versions: Mapping[tuple[TableKey, Version], Entry],
    ) -> Entry | None:
        for key, version in commit.pins.items():
            if (key, version) in versions:
                return versions[key, version]
        keys = {key for key, _ in versions}
        if commit.pins or commit.kind is CommitKind.INIT or keys.isdisjoint(commit.tables):
            return None
        # Commits of early releases do not say which versions they left.
        past_entries = state_of(
            self.engine.manifest, state.branch, commit
        ).snapshot.entries.values()
        return next((entry for entry in past_entries if entry.at.path == self.path), None)


def _may_remove(lefts: Sequence[_Left], at: int) -> bool:
    """Whether a commit may have removed rows: a mutation that leaves no fewer rows has removed none."""
    if not at:
        return False
    is_mutation = lefts[at].commit.kind is CommitKind.MUTATION
    return not is_mutation or lefts[at].entry.row_count < lefts[at - 1].entry.row_count
