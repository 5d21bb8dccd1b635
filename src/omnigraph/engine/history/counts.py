"""How much differs between two states: changes counted column by column, and the first of them described."""

from collections import Counter
from collections.abc import Iterable, Mapping

from omnigraph.engine.diff.rows import Step
from omnigraph.engine.history.changes import Change, DiffStats
from omnigraph.engine.history.compare import (
    TablePair,
    Wanted,
    find_steps,
    keep_ops,
    make_changes,
    naming_reclaimed,
)
from omnigraph.ids import Op, TableKey, type_name
from omnigraph.storage.tables import Tables
from omnigraph.values import dataclass

Counts = Mapping[Op, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedTable:
    """How much differs in one table, and the first changes of it."""

    key: TableKey
    counts: Counts
    first: tuple[Change, ...]

    @property
    def total(self) -> int:
        """How many entities differ."""
        return sum(self.counts.values())


def count_table(tables: Tables, pair: TablePair, wanted: Wanted, room: int = 0) -> CountedTable:
    """Count what differs between two versions of a table, and describe as many changes as there is room for."""
    counts: Counter[Op] = Counter()
    first: list[Change] = []
    for found, names in find_steps(tables, pair):
        step = keep_ops(found, wanted.ops)
        counts.update(_count_step(step))
        if room > len(first):
            with naming_reclaimed(pair):
                shown = step.slice(room - len(first))
                first.extend(make_changes(tables, pair, shown, names, wanted))
    return CountedTable(key=pair.key, counts=counts, first=tuple(first))


def _count_step(step: Step) -> Counts:
    inserts, deletes = (step.moves[side].null_count for side in ("before", "after"))
    updates = step.moves.num_rows - inserts - deletes
    return {Op.INSERT: inserts, Op.UPDATE: updates, Op.DELETE: deletes}


def sum_counts(counted: Iterable[CountedTable]) -> DiffStats:
    """Add up what differs in tables."""
    counts: Counter[Op] = Counter()
    types: set[str] = set()
    for one in counted:
        counts.update(one.counts)
        types.update([type_name(one.key)] if one.total else [])
    return DiffStats(
        inserts=counts[Op.INSERT],
        updates=counts[Op.UPDATE],
        deletes=counts[Op.DELETE],
        types_affected=tuple(sorted(types)),
    )
