"""Which rows of two versions of a table may differ, found without reading rows that cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.commit.changes import column
from omnigraph.ids import Version
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.tables import FragmentInfo, Table, TableAt, Tables

ROW_ID: Final = "_rowid"
ROW_ADDRESS: Final = "_rowaddr"
LAST_UPDATED: Final = "_row_last_updated_at_version"

MOVES: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("before", pa.uint64()),
        pa.field("after", pa.uint64()),
        pa.field("version", pa.uint64()),
    ]
)
"""A row that may differ: its row ids on both sides, null where it is not, and the version that wrote it last."""

_SIDE: Final = pa.schema([MOVES.field("id"), pa.field("row", pa.uint64()), MOVES.field("version")])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Apart:
    """Fragments of one version that the other does not have as they are.

    `pruned` are there on both sides with other rows deleted; `whole` are there on this side only.
    """

    whole: tuple[int, ...]
    pruned: tuple[FragmentInfo, ...]


def candidates(tables: Tables, before: TableAt | None, after: TableAt | None) -> pa.Table:
    """List every row that may differ, by id, as `MOVES`; a version that is None has no rows."""
    if before == after:
        return MOVES.empty_table()
    left = None if before is None else tables.open(before)
    right = None if after is None else tables.open(after)
    moves = _joined(*_sides(left, right))
    if before is not None and after is not None:
        moves = _without_untouched(tables, before, after, moves)
    return moves.select(MOVES.names).cast(MOVES).sort_by("id")


def _sides(left: Table | None, right: Table | None) -> tuple[pa.Table, pa.Table]:
    if left is None or right is None:
        return _all(left), _all(right)
    here, there = left.fragments(), right.fragments()
    gone, come = _apart(here, there), _apart(there, here)
    lost, gained = _pruned_rows(left, right, [part.id for part in gone.pruned], here)
    return _side(left, gone.whole, lost), _side(right, come.whole, gained)


def _all(table: Table | None) -> pa.Table:
    return _SIDE.empty_table() if table is None else _whole(table, None)


def _apart(own: Sequence[FragmentInfo], other: Sequence[FragmentInfo]) -> _Apart:
    theirs = {(part.id, part.files): part.deletions for part in other}
    differing = [part for part in own if theirs.get((part.id, part.files), ...) != part.deletions]
    return _Apart(
        whole=tuple(part.id for part in differing if (part.id, part.files) not in theirs),
        pruned=tuple(part for part in differing if (part.id, part.files) in theirs),
    )


def _pruned_rows(
    left: Table, right: Table, shared: Sequence[int], infos: Sequence[FragmentInfo]
) -> tuple[pa.Array, pa.Array]:
    """Row ids that are live in one version of the same fragments only; no column is read."""
    if not shared:
        return pa.array([], pa.uint64()), pa.array([], pa.uint64())
    sizes = {part.id: part.physical_rows for part in infos}
    numbers = np.array(sorted(shared), dtype=np.uint64)
    starts = np.concatenate([[0], np.cumsum([sizes[int(n)] for n in numbers])])
    rows = [
        t.read((), row_id=True, row_address=True, fragments=list(shared)) for t in (left, right)
    ]
    places = [_places(r, numbers, starts) for r in rows]
    return _only(rows[0], *places, int(starts[-1])), _only(rows[1], *places[::-1], int(starts[-1]))


def _places(rows: pa.Table, numbers: Any, starts: Any) -> Any:
    """Number live rows through, over the physical rows of all these fragments."""
    addresses = rows[ROW_ADDRESS].to_numpy()
    fragment = np.searchsorted(numbers, addresses >> np.uint64(32))
    return starts[fragment] + (addresses & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _only(rows: pa.Table, own: Any, other: Any, total: int) -> pa.Array:
    seen = np.zeros(total, dtype=bool)
    seen[other] = True
    return column(rows, ROW_ID).filter(pa.array(~seen[own]))


def _side(table: Table, whole: Sequence[int], single: pa.Array) -> pa.Table:
    parts = [_SIDE.empty_table()]
    if whole:
        parts.append(_whole(table, whole))
    if len(single):
        found = table.take(single, ["id", ROW_ID])
        unknown = pa.nulls(found.num_rows, pa.uint64())
        parts.append(pa.table([found["id"], found[ROW_ID], unknown], schema=_SIDE))
    return pa.concat_tables(parts)


def _whole(table: Table, fragments: Sequence[int] | None) -> pa.Table:
    rows = table.read(["id", LAST_UPDATED], row_id=True, fragments=fragments)
    versions = rows[LAST_UPDATED].cast(pa.uint64())
    return pa.table([rows["id"], rows[ROW_ID], versions], schema=_SIDE)


def _joined(left: pa.Table, right: pa.Table) -> pa.Table:
    before = left.rename_columns(["id", "before", "old_version"])
    after = right.rename_columns(["id", "after", "version"])
    return before.join(after, "id", join_type="full outer")


# ---- rows that were carried along


def _without_untouched(
    tables: Tables, before: TableAt, after: TableAt, moves: pa.Table
) -> pa.Table:
    """Leave out rows that a rewrite only carried along: same row, last written before the lines parted."""
    carried = pc.and_(
        pc.equal(moves["before"], moves["after"]), pc.equal(moves["old_version"], moves["version"])
    )
    if not pc.any(carried, min_count=0).as_py():
        return moves
    parted = _parted(tables, before, after)
    untouched = pc.and_(carried, pc.less_equal(moves["version"], parted))
    return moves.filter(pc.invert(pc.fill_null(untouched, False)))


def _parted(tables: Tables, before: TableAt, after: TableAt) -> int:
    """The last version both lines have in common: row ids given out later mean different rows."""
    if before.branch == after.branch:
        return min(before.version, after.version)
    refs = tables.forks(before.path)
    here, there = _line(before, refs), _line(after, refs)
    return max((min(here[b], there[b]) for b in here.keys() & there.keys()), default=0)


def _line(at: TableAt, refs: Mapping[str, BranchRef]) -> dict[str | None, Version]:
    """The branches a version stands on, each with the last of its versions that is shared."""
    branch, version = at.branch, at.version
    line = {branch: version}
    while branch is not None and branch in refs:
        version = min(version, refs[branch].parent_version)
        branch = refs[branch].parent
        line[branch] = version
    return line
