"""Which rows of two versions of a table may differ, found without reading rows that cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.compare.fetch import ROW_ADDRESS, rows_at
from omnigraph.ids import Version
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.tables import FragmentInfo, Table, TableAt, Tables

ROW_ID: Final = "_rowid"
LAST_UPDATED: Final = "_row_last_updated_at_version"

MOVES: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("before", pa.uint64()),
        pa.field("after", pa.uint64()),
        pa.field("version", pa.uint64()),
    ]
)
"""A row that may differ: its addresses on both sides, null where it is not, and the version that wrote it last."""

_SIDE: Final = pa.schema(
    [MOVES.field("id"), *(pa.field(name, pa.uint64()) for name in ("row", "row_id", "version"))]
)


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
    lost, gained = _pruned_rows(left, right, gone.pruned, come.pruned)
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
    left: Table, right: Table, here: Sequence[FragmentInfo], there: Sequence[FragmentInfo]
) -> tuple[pa.Array, pa.Array]:
    """Addresses that are live in one version of the same fragments only; no column is read."""
    if not here:
        return pa.array([], pa.uint64()), pa.array([], pa.uint64())
    starts = np.concatenate([[0], np.cumsum([part.physical_rows for part in here])])
    numbers = np.array([part.id for part in here], dtype=np.uint64)
    before, after = _live(left, here, starts), _live(right, there, starts)
    lost, gained = np.flatnonzero(before & ~after), np.flatnonzero(after & ~before)
    return _addresses(lost, numbers, starts), _addresses(gained, numbers, starts)


def _live(table: Table, parts: Sequence[FragmentInfo], starts: Any) -> Any:
    """Mark the live rows among the physical rows of these fragments, numbered through."""
    live = np.ones(int(starts[-1]), dtype=bool)
    holey = [part.id for part in parts if part.deletions is not None]
    if not holey:
        return live
    rows = table.read((), row_address=True, fragments=holey)[ROW_ADDRESS].to_numpy()
    # They come in order; this sort only notices, and would mend it if they did not.
    rows = np.sort(rows, kind="stable")
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        if part.deletions is not None:
            bounds = np.array([part.id, part.id + 1], dtype=np.uint64) << np.uint64(32)
            first, last = np.searchsorted(rows, bounds)
            live[start:stop] = False
            live[start:stop][(rows[first:last] - bounds[0]).astype(np.int64)] = True
    return live


def _addresses(places: Any, numbers: Any, starts: Any) -> pa.Array:
    fragment = np.searchsorted(starts, places, side="right") - 1
    offsets = (places - starts[fragment]).astype(np.uint64)
    return pa.array((numbers[fragment] << np.uint64(32)) | offsets, pa.uint64())


def _side(table: Table, whole: Sequence[int], single: pa.Array) -> pa.Table:
    parts = [_SIDE.empty_table()]
    if whole:
        parts.append(_whole(table, whole))
    if len(single):
        unknown = pa.nulls(len(single), pa.uint64())
        parts.append(
            pa.table([rows_at(table, single, ["id"])["id"], single, unknown, unknown], schema=_SIDE)
        )
    return pa.concat_tables(parts)


def _whole(table: Table, fragments: Sequence[int] | None) -> pa.Table:
    rows = table.read(["id", LAST_UPDATED], row_id=True, row_address=True, fragments=fragments)
    versions = rows[LAST_UPDATED].cast(pa.uint64())
    return pa.table([rows["id"], rows[ROW_ADDRESS], rows[ROW_ID], versions], schema=_SIDE)


def _joined(left: pa.Table, right: pa.Table) -> pa.Table:
    before = left.rename_columns(["id", "before", "old_row_id", "old_version"])
    after = right.rename_columns(["id", "after", "row_id", "version"])
    return before.join(after, "id", join_type="full outer")


# ---- rows that were carried along


def _without_untouched(
    tables: Tables, before: TableAt, after: TableAt, moves: pa.Table
) -> pa.Table:
    """Leave out rows that a rewrite only carried along: same row, last written before the lines parted."""
    carried = pc.and_(
        pc.equal(moves["old_row_id"], moves["row_id"]),
        pc.equal(moves["old_version"], moves["version"]),
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
