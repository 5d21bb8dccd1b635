"""Candidates: the rows of two versions of a table that may differ, found without reading rows that cannot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import LAST_UPDATED, ROW_ADDRESS, ROW_ID
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.ids import Version
from omnigraphdb.storage.addresses import rows_at
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import BranchRef, FragmentInfo, TableAt
from omnigraphdb.values import dataclass

MOVES: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("before", pa.uint64()),
        pa.field("after", pa.uint64()),
        pa.field("version", pa.uint64()),
        pa.field("row_id", pa.uint64()),
    ]
)
"""A row that may differ: its addresses in both versions (null where it does not exist), the version that wrote it last,
and its row id in the older version (null where it does not exist)."""

SIDE: Final = pa.schema(
    [MOVES.field("id"), *(pa.field(name, pa.uint64()) for name in ("row", "row_id", "version"))]
)
"""A row of one version that may differ: its address, its row id, and the version that wrote it last (null where both
versions have its fragment)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRows:
    """One side of a comparison: a table, the fragments to read, and the addresses of single rows."""

    table: Table | None
    fragments: tuple[int, ...]
    single: pa.Array

    @property
    def rows(self) -> int:
        """The number of rows in the fragments."""
        if self.table is None or not self.fragments:
            return 0
        fragment_ids = frozenset(self.fragments)
        return sum(
            fragment.rows for fragment in self.table.fragments() if fragment.id in fragment_ids
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentDifference:
    """Fragments of one version that differ from the other version.

    `pruned` fragments exist in both versions with different deleted rows; `whole` fragments exist in this one only.
    """

    whole: tuple[int, ...]
    pruned: tuple[FragmentInfo, ...]


def candidates(
    tables: Tables,
    before: TableAt | None,
    after: TableAt | None,
    row_cache: RowCache = NO_ROW_CACHE,
) -> pa.Table:
    """List every row that may differ, by id, as `MOVES`; a version that is None has no rows."""
    if before == after:
        return MOVES.empty_table()
    left, right = _find_portions(tables, before, after)
    last_shared = partial(find_last_shared_version, tables, before, after)
    newer = _read_side(right, row_cache)
    return find_moves(last_shared, _read_older_side(left, newer, row_cache), newer).sort_by("id")


def _find_portions(
    tables: Tables, before: TableAt | None, after: TableAt | None
) -> tuple[ComparedRows, ComparedRows]:
    left = None if before is None else tables.open(before)
    right = None if after is None else tables.open(after)
    if left is None or right is None:
        return _whole_portion(left), _whole_portion(right)
    older_parts, newer_parts = left.fragments(), right.fragments()
    older, newer = (
        compare_fragments(older_parts, newer_parts),
        compare_fragments(newer_parts, older_parts),
    )
    lost, gained = find_pruned_rows(left, right, older.pruned, newer.pruned)
    return (
        ComparedRows(table=left, fragments=older.whole, single=lost),
        ComparedRows(table=right, fragments=newer.whole, single=gained),
    )


def _whole_portion(table: Table | None) -> ComparedRows:
    fragments = () if table is None else tuple(fragment.id for fragment in table.fragments())
    return ComparedRows(table=table, fragments=fragments, single=pa.array([], pa.uint64()))


def compare_fragments(
    own: Sequence[FragmentInfo], other: Sequence[FragmentInfo]
) -> FragmentDifference:
    """Find the fragments of one version that the other does not have, or not with the same deleted rows."""
    other_deletions = {(part.id, part.files): part.deletions for part in other}
    differing = [
        part for part in own if other_deletions.get((part.id, part.files), ...) != part.deletions
    ]
    return FragmentDifference(
        whole=tuple(part.id for part in differing if (part.id, part.files) not in other_deletions),
        pruned=tuple(part for part in differing if (part.id, part.files) in other_deletions),
    )


def find_pruned_rows(
    left: Table,
    right: Table,
    older_parts: Sequence[FragmentInfo],
    newer_parts: Sequence[FragmentInfo],
) -> tuple[pa.Array, pa.Array]:
    """Find the addresses that are live in only one of two versions of the same fragments; no row is read."""
    before, after = (
        _read_deleted_addresses(left, older_parts),
        _read_deleted_addresses(right, newer_parts),
    )
    lost, gained = np.setdiff1d(after, before), np.setdiff1d(before, after)
    return pa.array(lost, pa.uint64()), pa.array(gained, pa.uint64())


def _read_deleted_addresses(table: Table, parts: Sequence[FragmentInfo]) -> Any:
    """Read the addresses of the deleted rows of these fragments."""
    deletions = table.deleted([part.id for part in parts if part.deletions is not None])
    parts_of = [
        np.uint64(number << 32) | offsets.astype(np.uint64) for number, offsets in deletions.items()
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts_of])


def _read_side(portion: ComparedRows, row_cache: RowCache) -> pa.Table:
    """Read every row of a portion."""
    return pa.concat_tables([_read_single(portion, row_cache), _read_fragments(portion, row_cache)])


def _read_single(portion: ComparedRows, row_cache: RowCache) -> pa.Table:
    table, rows = portion.table, portion.single
    if table is None or not len(rows):
        return SIDE.empty_table()
    row_values = rows_at(table, rows, row_cache.columns(table, len(rows)), row_id=True)
    row_cache.put(table, row_values.append_column(ROW_ADDRESS, rows))
    return _align_single_side(column(row_values, "id"), rows, column(row_values, ROW_ID))


def _align_single_side(ids: pa.Array, rows: pa.Array, row_ids: pa.Array) -> pa.Table:
    return pa.table([ids, rows, row_ids, pa.nulls(len(rows), pa.uint64())], schema=SIDE)


def _read_fragments(portion: ComparedRows, row_cache: RowCache) -> pa.Table:
    if portion.table is None or not portion.fragments:
        return SIDE.empty_table()
    names = row_cache.columns(portion.table, portion.rows)
    rows = _read(portion.table, portion.fragments, names)
    row_cache.put(portion.table, rows)
    return _add_side(rows)


def _read_older_side(portion: ComparedRows, newer: pa.Table, row_cache: RowCache) -> pa.Table:
    """Read every row of the older portion; the id of a row whose row id the newer portion has is taken from there.

    Single rows lie in fragments that both versions have. Their row ids were assigned before the branches diverged,
    and mean the same row in both versions.
    """
    table, rows = portion.table, portion.single
    if table is None or not len(rows):
        return _read_fragments(portion, row_cache)
    row_ids = table.row_ids(rows)
    successors = pc.index_in(row_ids, value_set=column(newer, "row_id"))
    is_replaced = successors.is_valid()
    ids = column(newer, "id").take(successors.filter(is_replaced))
    replaced = _align_single_side(ids, rows.filter(is_replaced), row_ids.filter(is_replaced))
    _cache_rows(table, column(replaced, "row"), row_cache)
    lone = replace(portion, single=rows.filter(pc.invert(is_replaced)))
    return pa.concat_tables(
        [replaced, _read_single(lone, NO_ROW_CACHE), _read_fragments(portion, row_cache)]
    )


def _cache_rows(table: Table, rows: pa.Array, row_cache: RowCache) -> None:
    """Read rows that will be compared, if the row cache has room for them."""
    available = ("id", *row_cache.implied(table))
    names = [name for name in row_cache.columns(table, len(rows)) if name not in available]
    if names and len(rows):
        row_values = rows_at(table, rows, names)
        row_cache.put(table, row_values.append_column(ROW_ADDRESS, rows))


def _read(table: Table, fragments: Sequence[int], names: Sequence[str]) -> pa.Table:
    return table.read([*names, LAST_UPDATED], row_id=True, row_address=True, fragments=fragments)


def _add_side(rows: pa.Table) -> pa.Table:
    versions = rows[LAST_UPDATED].cast(pa.uint64())
    return pa.table([rows["id"], rows[ROW_ADDRESS], rows[ROW_ID], versions], schema=SIDE)


def find_moves(last_shared: Callable[[], int], left: pa.Table, right: pa.Table) -> pa.Table:
    """Join the rows of both sides by id, as `MOVES`, without the rows that a rewrite carried along."""
    before = left.rename_columns(["id", "before", "row_id", "old_version"])
    after = right.rename_columns(["id", "after", "new_row_id", "version"])
    if not before.num_rows or not after.num_rows:
        return pa.concat_tables([before, after], promote_options="default").select(MOVES.names)
    return _drop_untouched(last_shared, _join_by_id(before, after)).select(MOVES.names).cast(MOVES)


def _join_by_id(before: pa.Table, after: pa.Table) -> pa.Table:
    """Join the rows of both versions by id; a row of one version alone has nulls for the other."""
    positions = pc.index_in(before["id"], value_set=after["id"])
    older_parts = after.drop_columns(["id"]).take(positions)
    is_new = np.ones(after.num_rows, dtype=bool)
    is_new[positions.drop_null().to_numpy()] = False
    joined = pa.table(
        [*before.columns, *older_parts.columns], [*before.column_names, *older_parts.column_names]
    )
    return pa.concat_tables([joined, after.filter(pa.array(is_new))], promote_options="default")


# ---- rows that were only rewritten


def _drop_untouched(last_shared: Callable[[], int], moves: pa.Table) -> pa.Table:
    """Drop rows that a rewrite copied unchanged: same row id, last written before the branches diverged."""
    carried = pc.and_(
        pc.equal(moves["row_id"], moves["new_row_id"]),
        pc.equal(moves["old_version"], moves["version"]),
    )
    if not pc.any(carried, min_count=0).as_py():
        return moves
    since = pa.scalar(last_shared(), pa.uint64())
    untouched = pc.and_(carried, pc.less_equal(moves["version"], since))
    return moves.filter(pc.invert(pc.fill_null(untouched, False)))


def find_last_shared_version(tables: Tables, before: TableAt | None, after: TableAt | None) -> int:
    """Find the last version that both branches share: row ids assigned later mean different rows."""
    if before is None or after is None:
        return 0
    if before.branch == after.branch:
        return min(before.version, after.version)
    refs = tables.forks(before.path)
    older_parts, newer_parts = _list_ancestors(before, refs), _list_ancestors(after, refs)
    return max(
        (min(older_parts[b], newer_parts[b]) for b in older_parts.keys() & newer_parts.keys()),
        default=0,
    )


def _list_ancestors(at: TableAt, refs: Mapping[str, BranchRef]) -> dict[str | None, Version]:
    """List the branches that a version descends from, each with its last shared version."""
    branch, version = at.branch, at.version
    ancestors = {branch: version}
    while branch is not None and branch in refs:
        version = min(version, refs[branch].parent_version)
        branch = refs[branch].parent
        ancestors[branch] = version
    return ancestors
