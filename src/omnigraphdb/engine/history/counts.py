"""The counts of the changes between two states, column by column, and a description of the first changes."""

from collections import Counter
from collections.abc import Iterable, Mapping

from omnigraphdb.engine.diff.rows import Step
from omnigraphdb.engine.history.changes import Change, DiffStats
from omnigraphdb.engine.history.compare import (
    EVERYTHING,
    ChangeFilter,
    TablePair,
    filter_changes,
    find_steps,
    list_differing_pairs,
    make_changes,
    naming_reclaimed,
)
from omnigraphdb.engine.session.engine import Engine
from omnigraphdb.ids import Op, TableKey, type_name
from omnigraphdb.manifest.records import GraphCommit
from omnigraphdb.manifest.travel import state_of
from omnigraphdb.storage.tables import Tables
from omnigraphdb.values import dataclass

Counts = Mapping[Op, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTable:
    """The counts of the changes in one table, and its first changes."""

    key: TableKey
    counts: Counts
    first: tuple[Change, ...]

    @property
    def total(self) -> int:
        """The number of entities that differ."""
        return sum(self.counts.values())


def count_table(
    tables: Tables, pair: TablePair, filters: ChangeFilter, limit: int = 0
) -> CountedTable:
    """Count the changes between two versions of a table, and describe the first of them, up to a limit."""
    counts: Counter[Op] = Counter()
    first: list[Change] = []
    for unfiltered, names in find_steps(tables, pair):
        step = filter_changes(unfiltered, pair, names, filters)
        counts.update(_count_step(step))
        if limit > len(first):
            with naming_reclaimed(pair):
                described = step.slice(limit - len(first))
                first.extend(make_changes(tables, pair, described, names, filters))
    return CountedTable(key=pair.key, counts=counts, first=tuple(first))


def _count_step(step: Step) -> Counts:
    inserts, deletes = (step.moves[side].null_count for side in ("before", "after"))
    updates = step.moves.num_rows - inserts - deletes
    return {Op.INSERT: inserts, Op.UPDATE: updates, Op.DELETE: deletes}


def count_commit(engine: Engine, parent: GraphCommit, commit: GraphCommit) -> Counts:
    """Count the changes of a commit against a parent."""
    before = state_of(engine.manifest, parent.branch, parent)
    after = state_of(engine.manifest, commit.branch, commit)
    counts: Counter[Op] = Counter()
    for pair in list_differing_pairs(before, after, EVERYTHING):
        counts.update(_count_pair(engine.store.tables, pair))
    return counts


def _count_pair(tables: Tables, pair: TablePair) -> Counts:
    was, now = (0 if entry is None else entry.row_count for entry in (pair.before, pair.after))
    if was == 0 or now == 0:
        # A first load, or the end of a type: no row has to be compared.
        return {Op.INSERT: now, Op.DELETE: was}
    return count_table(tables, pair, EVERYTHING).counts


def sum_counts(counted: Iterable[CountedTable]) -> DiffStats:
    """Add up the changes of tables."""
    counts: Counter[Op] = Counter()
    types: set[str] = set()
    for table in counted:
        counts.update(table.counts)
        types.update([type_name(table.key)] if table.total else [])
    return DiffStats(
        inserts=counts[Op.INSERT],
        updates=counts[Op.UPDATE],
        deletes=counts[Op.DELETE],
        types_affected=tuple(sorted(types)),
    )
