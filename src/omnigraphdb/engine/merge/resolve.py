"""Three rows of one id become one, or a conflict: the truth table, over whole columns."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.commit.addressed import CHANGED, MIXED, REMOVED, TRIPLES, AddressedRows
from omnigraphdb.engine.diff.candidates import candidates
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.engine.diff.rows import Comparison, find_changed_rows, pair_columns
from omnigraphdb.engine.equality import Mask
from omnigraphdb.engine.merge.conflicts import ConflictKind
from omnigraphdb.ids import Granularity
from omnigraphdb.storage.addresses import find_addresses_in
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

_NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class RowConflicts:
    """Rows that both sides changed in ways that do not fit; `properties` marks in which columns."""

    kind: ConflictKind
    rows: pa.Table
    properties: Mask
    names: tuple[str, ...]

    def take_first(self, count: int) -> "RowConflicts":
        """Take the first of these rows by id."""
        order = pc.sort_indices(column(self.rows, "id")).slice(0, count)
        return replace(
            self, rows=self.rows.take(order), properties=self.properties[order.to_numpy()]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The decision of a merge about the rows of one table: the rows that move, and the rows in conflict."""

    rows: AddressedRows
    clashes: tuple[RowConflicts, ...] = ()
    agreed: pa.Array | None = field(default_factory=lambda: _NO_IDS)
    """The ids of rows that both sides had changed in the same way; None when some agree in a part only."""


def adopt(
    tables: Tables, base: TableAt, source: TableAt, row_cache: RowCache = NO_ROW_CACHE
) -> Resolution:
    """Take everything the source did: the target still is the base."""
    return adopt_moves(base, source, find_changed_rows(tables, base, source, row_cache))


def adopt_moves(base: TableAt, source: TableAt, moves: pa.Table) -> Resolution:
    """Take every row that the source changed."""
    rows = AddressedRows(source=source, target=base, is_adopted=True)
    return Resolution(rows=_take_source(rows, moves, column(moves, "before")))


def _take_source(rows: AddressedRows, moves: pa.Table, replaced_at: pa.Array) -> AddressedRows:
    """Take the changes of the source; `replaced_at` are the addresses of the rows that the target has in their place."""
    is_new, is_gone = pc.is_null(moves["before"]), pc.is_null(moves["after"])
    is_kept = pc.and_(pc.invert(is_new), pc.invert(is_gone))
    names = ["id", "source", "target", "row_id"]
    moved_rows = pa.table([moves["id"], moves["after"], replaced_at, moves["row_id"]], names)
    return replace(
        rows,
        new=column(moves.filter(is_new), "after"),
        changed=moved_rows.filter(is_kept).select(CHANGED.names),
        removed=moved_rows.filter(is_gone).select(REMOVED.names),
    )


def three_way(
    tables: Tables,
    base: TableAt | None,
    source: TableAt,
    target: TableAt,
    granularity: Granularity,
    row_cache: RowCache = NO_ROW_CACHE,
) -> Resolution:
    """Combine the changes of both sides since the base; rows that the source left alone stay as the target has them."""
    with ThreadPoolExecutor(1, "omnigraph-compare") as pool:
        looking = pool.submit(carry_context(candidates), tables, base, target)
        moves = find_changed_rows(tables, base, source, row_cache)
        target_moves = looking.result()
    rows = AddressedRows(source=source, target=target)
    return resolve_moves(
        rows, moves, target_moves, StoredSides(tables, base, source, target), granularity
    )


def resolve_moves(
    rows: AddressedRows,
    moves: pa.Table,
    target_moves: pa.Table,
    sides: "Sides",
    granularity: Granularity,
) -> Resolution:
    """Combine rows that the source changed with rows that the target may have changed."""
    touched = target_moves.filter(pc.is_in(target_moves["id"], value_set=column(moves, "id")))
    in_both = pc.is_in(moves["id"], value_set=column(touched, "id"))
    source_moves = moves.filter(pc.invert(in_both))
    source_only = _take_source(rows, source_moves, sides.in_target(source_moves))
    if not touched.num_rows:
        return Resolution(rows=source_only)
    return _resolve_common(
        source_only, _join_triples(moves.filter(in_both), touched), sides, granularity
    )


def _join_triples(source_moves: pa.Table, target_moves: pa.Table) -> pa.Table:
    positions = pc.index_in(column(source_moves, "id"), value_set=column(target_moves, "id"))
    target_at = column(target_moves, "after").take(positions)
    return pa.table(
        [source_moves["id"], source_moves["before"], source_moves["after"], target_at],
        schema=TRIPLES,
    )


class Sides(Protocol):
    """The three versions of a table, and how rows of two of them are compared."""

    def in_target(self, moves: pa.Table) -> pa.Array:
        """Find the addresses in the target of base rows that the target left alone."""
        ...

    def by_target(self) -> Comparison:
        """Base against target."""
        ...

    def by_source(self) -> Comparison:
        """Base against source."""
        ...

    def across(self) -> Comparison:
        """Source against target."""
        ...


class StoredSides:
    """The three versions as they are stored: rows are compared by their values."""

    def __init__(
        self, tables: Tables, base: TableAt | None, source: TableAt, target: TableAt
    ) -> None:
        self._source, self._target = tables.open(source), tables.open(target)
        self._base = self._target if base is None else tables.open(base)

    def in_target(self, moves: pa.Table) -> pa.Array:
        """Find the addresses of base rows in the target; null where the target rewrote their fragment."""
        return find_addresses_in(self._base, self._target, column(moves, "before"))

    def by_target(self) -> Comparison:
        """Base against target."""
        return pair_columns(self._base, self._target)

    def by_source(self) -> Comparison:
        """Base against source."""
        return pair_columns(self._base, self._source)

    def across(self) -> Comparison:
        """Source against target."""
        return pair_columns(self._source, self._target)


def _resolve_common(
    source_only: AddressedRows, triples: pa.Table, sides: Sides, granularity: Granularity
) -> Resolution:
    """Decide the ids that both sides may have changed, case by case."""
    exists = {n: triples[n].is_valid().to_numpy() for n in ("base", "source", "target")}
    both_new = ~exists["base"] & exists["source"] & exists["target"]
    source_deleted = exists["base"] & ~exists["source"] & exists["target"]
    target_deleted = exists["base"] & exists["source"] & ~exists["target"]
    in_all = exists["base"] & exists["source"] & exists["target"]
    deletes, delete_clash = _resolve_deletes(_pick(triples, source_deleted), sides.by_target())
    updates = _resolve_updates(source_only, _pick(triples, in_all), sides, granularity)
    insert_clash, equal_ids = _compare_inserts(_pick(triples, both_new), sides.across())
    both_deleted = _pick(triples, exists["base"] & ~exists["source"] & ~exists["target"])
    clashes = (
        insert_clash,
        delete_clash,
        _make_clash(ConflictKind.DELETE_VS_UPDATE, _pick(triples, target_deleted)),
        *updates.clashes,
    )
    rows = replace(updates.rows, removed=pa.concat_tables([source_only.removed, deletes]))
    return Resolution(
        rows=rows,
        clashes=tuple(clash for clash in clashes if clash.rows.num_rows),
        agreed=join_agreed([column(both_deleted, "id"), equal_ids, updates.agreed]),
    )


def _pick(rows: pa.Table, mask: Any) -> pa.Table:
    return rows.filter(pa.array(mask))


def _make_clash(kind: ConflictKind, rows: pa.Table) -> RowConflicts:
    return RowConflicts(
        kind=kind, rows=rows, properties=np.zeros((rows.num_rows, 0), bool), names=()
    )


def join_agreed(parts: Iterable[pa.Array | None]) -> pa.Array | None:
    """Join the ids on which both sides agree; None if some rows agree in a part only."""
    id_arrays = []
    for ids in parts:
        if ids is None:
            return None
        id_arrays.append(ids)
    return pa.concat_arrays([_NO_IDS, *id_arrays])


def _compare_inserts(rows: pa.Table, comparison: Comparison) -> tuple[RowConflicts, pa.Array]:
    """Find the inserts that differ, which are in conflict; return the ids of the equal inserts too."""
    matrix = comparison.matrix(column(rows, "source"), column(rows, "target"))
    differing = matrix.any(axis=1)
    clash = RowConflicts(
        kind=ConflictKind.DIVERGENT_INSERT,
        rows=_pick(rows, differing),
        properties=matrix[differing],
        names=comparison.names,
    )
    return clash, column(_pick(rows, ~differing), "id")


def _resolve_deletes(rows: pa.Table, comparison: Comparison) -> tuple[pa.Table, RowConflicts]:
    """Delete the rows that the target only carried along; rows that it changed are in conflict."""
    touched = comparison.matrix(column(rows, "base"), column(rows, "target")).any(axis=1)
    deletes = _pick(rows, ~touched).select(REMOVED.names)
    return deletes, _make_clash(ConflictKind.DELETE_VS_UPDATE, _pick(rows, touched))


def _resolve_updates(
    source_only: AddressedRows, rows: pa.Table, sides: Sides, granularity: Granularity
) -> Resolution:
    """Add the rows that both sides updated to the rows that the source alone changed."""
    target_changed = sides.by_target().matrix(column(rows, "base"), column(rows, "target"))
    untouched = ~target_changed.any(axis=1)
    source_updates = _pick(rows, untouched)
    source_updates = source_updates.append_column(
        "row_id", pa.nulls(source_updates.num_rows, pa.uint64())
    )
    rows, target_changed = _pick(rows, ~untouched), target_changed[~untouched]
    across = sides.across()
    differences = across.matrix(column(rows, "source"), column(rows, "target"))
    differing = differences.any(axis=1)
    agreed_ids: pa.Array | None = column(_pick(rows, ~differing), "id")
    rows, target_changed, differences = (
        _pick(rows, differing),
        target_changed[differing],
        differences[differing],
    )
    source_changed = np.ones_like(differences)
    if granularity is Granularity.PROPERTY:
        source_changed = sides.by_source().matrix(column(rows, "base"), column(rows, "source"))
        agreed_ids = None if (source_changed & target_changed & ~differences).any() else agreed_ids
        target_changed = target_changed & differences
    else:
        target_changed = differences
    clashing = (source_changed & target_changed).any(axis=1)
    clash = RowConflicts(
        kind=ConflictKind.DIVERGENT_UPDATE,
        rows=_pick(rows, clashing),
        properties=(source_changed & target_changed)[clashing],
        names=across.names,
    )
    # Where the target already has every change of the source, its row is the merged row.
    mixed = ~clashing & (source_changed & differences).any(axis=1)
    merged_rows = replace(
        source_only,
        changed=pa.concat_tables([source_only.changed, source_updates.select(CHANGED.names)]),
        mixed=mark_mixed(_pick(rows, mixed), source_changed[mixed]),
        properties=across.names,
    )
    return Resolution(rows=merged_rows, clashes=(clash,), agreed=agreed_ids)


def mark_mixed(triples: pa.Table, source_changed: Mask) -> pa.Table:
    """Put beside rows of both sides which properties the source changed."""
    starts = np.arange(len(source_changed) + 1, dtype=np.int32) * source_changed.shape[1]
    marks = pa.ListArray.from_arrays(pa.array(starts), pa.array(source_changed.ravel()))
    return triples.append_column(MIXED.field("from_source"), marks)
