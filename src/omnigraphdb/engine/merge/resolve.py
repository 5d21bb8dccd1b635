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
class Clash:
    """Rows that both sides changed in ways that do not fit; `properties` marks in which columns."""

    kind: ConflictKind
    rows: pa.Table
    properties: Mask
    names: tuple[str, ...]

    def take_first(self, count: int) -> "Clash":
        """The first of these rows by id."""
        order = pc.sort_indices(column(self.rows, "id")).slice(0, count)
        return replace(
            self, rows=self.rows.take(order), properties=self.properties[order.to_numpy()]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a merge decides about the rows of one table: those that move, and those that are in conflict."""

    rows: AddressedRows
    clashes: tuple[Clash, ...] = ()
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
    """Take what the source did; `replaced_at` are the addresses of the rows that the target has in their place."""
    is_new, is_gone = pc.is_null(moves["before"]), pc.is_null(moves["after"])
    is_kept = pc.and_(pc.invert(is_new), pc.invert(is_gone))
    names = ["id", "source", "target", "row_id"]
    both = pa.table([moves["id"], moves["after"], replaced_at, moves["row_id"]], names)
    return replace(
        rows,
        new=column(moves.filter(is_new), "after"),
        changed=both.filter(is_kept).select(CHANGED.names),
        removed=both.filter(is_gone).select(REMOVED.names),
    )


def three_way(
    tables: Tables,
    base: TableAt | None,
    source: TableAt,
    target: TableAt,
    granularity: Granularity,
    row_cache: RowCache = NO_ROW_CACHE,
) -> Resolution:
    """Combine what both sides did since the base; rows the source left alone stay as the target has them."""
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
    met = pc.is_in(moves["id"], value_set=column(touched, "id"))
    apart = moves.filter(pc.invert(met))
    alone = _take_source(rows, apart, sides.in_target(apart))
    if not touched.num_rows:
        return Resolution(rows=alone)
    return _resolve_common(alone, _join_triples(moves.filter(met), touched), sides, granularity)


def _join_triples(source_moves: pa.Table, target_moves: pa.Table) -> pa.Table:
    positions = pc.index_in(column(source_moves, "id"), value_set=column(target_moves, "id"))
    found = column(target_moves, "after").take(positions)
    return pa.table(
        [source_moves["id"], source_moves["before"], source_moves["after"], found], schema=TRIPLES
    )


class Sides(Protocol):
    """The three versions of a table, and how rows of two of them are compared."""

    def in_target(self, moves: pa.Table) -> pa.Array:
        """Where rows of the base that the target left alone lie in the target."""
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
        """Where rows of the base lie in the target; null where the target rewrote their fragment."""
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
    alone: AddressedRows, triples: pa.Table, sides: Sides, granularity: Granularity
) -> Resolution:
    """Decide the ids that both sides may have changed, case by case."""
    there = {n: triples[n].is_valid().to_numpy() for n in ("base", "source", "target")}
    both_new = ~there["base"] & there["source"] & there["target"]
    source_gone = there["base"] & ~there["source"] & there["target"]
    target_gone = there["base"] & there["source"] & ~there["target"]
    all_there = there["base"] & there["source"] & there["target"]
    doomed, clash_gone = _resolve_deletes(_pick(triples, source_gone), sides.by_target())
    updates = _resolve_updates(alone, _pick(triples, all_there), sides, granularity)
    inserted, alike = _compare_inserts(_pick(triples, both_new), sides.across())
    both_gone = _pick(triples, there["base"] & ~there["source"] & ~there["target"])
    clashes = (
        inserted,
        clash_gone,
        _make_clash(ConflictKind.DELETE_VS_UPDATE, _pick(triples, target_gone)),
        *updates.clashes,
    )
    rows = replace(updates.rows, removed=pa.concat_tables([alone.removed, doomed]))
    return Resolution(
        rows=rows,
        clashes=tuple(clash for clash in clashes if clash.rows.num_rows),
        agreed=join_agreed([column(both_gone, "id"), alike, updates.agreed]),
    )


def _pick(rows: pa.Table, mask: Any) -> pa.Table:
    return rows.filter(pa.array(mask))


def _make_clash(kind: ConflictKind, rows: pa.Table) -> Clash:
    return Clash(kind=kind, rows=rows, properties=np.zeros((rows.num_rows, 0), bool), names=())


def join_agreed(parts: Iterable[pa.Array | None]) -> pa.Array | None:
    """All ids on which both sides agree; None if some agree in a part only."""
    known = []
    for one in parts:
        if one is None:
            return None
        known.append(one)
    return pa.concat_arrays([_NO_IDS, *known])


def _compare_inserts(rows: pa.Table, both: Comparison) -> tuple[Clash, pa.Array]:
    """Rows that differ are in conflict; gives the ids of the others too."""
    matrix = both.matrix(column(rows, "source"), column(rows, "target"))
    apart = matrix.any(axis=1)
    clash = Clash(
        kind=ConflictKind.DIVERGENT_INSERT,
        rows=_pick(rows, apart),
        properties=matrix[apart],
        names=both.names,
    )
    return clash, column(_pick(rows, ~apart), "id")


def _resolve_deletes(rows: pa.Table, both: Comparison) -> tuple[pa.Table, Clash]:
    """Rows the target only carried along go; rows it changed are in conflict."""
    touched = both.matrix(column(rows, "base"), column(rows, "target")).any(axis=1)
    doomed = _pick(rows, ~touched).select(REMOVED.names)
    return doomed, _make_clash(ConflictKind.DELETE_VS_UPDATE, _pick(rows, touched))


def _resolve_updates(
    alone: AddressedRows, rows: pa.Table, sides: Sides, granularity: Granularity
) -> Resolution:
    """Add the rows that both sides updated to those that the source changed alone."""
    target_changed = sides.by_target().matrix(column(rows, "base"), column(rows, "target"))
    untouched = ~target_changed.any(axis=1)
    kept = _pick(rows, untouched)
    kept = kept.append_column("row_id", pa.nulls(kept.num_rows, pa.uint64()))
    rows, target_changed = _pick(rows, ~untouched), target_changed[~untouched]
    across = sides.across()
    apart = across.matrix(column(rows, "source"), column(rows, "target"))
    differing = apart.any(axis=1)
    agreed: pa.Array | None = column(_pick(rows, ~differing), "id")
    rows, target_changed, apart = (
        _pick(rows, differing),
        target_changed[differing],
        apart[differing],
    )
    source_changed = np.ones_like(apart)
    if granularity is Granularity.PROPERTY:
        source_changed = sides.by_source().matrix(column(rows, "base"), column(rows, "source"))
        agreed = None if (source_changed & target_changed & ~apart).any() else agreed
        target_changed = target_changed & apart
    else:
        target_changed = apart
    clashing = (source_changed & target_changed).any(axis=1)
    clash = Clash(
        kind=ConflictKind.DIVERGENT_UPDATE,
        rows=_pick(rows, clashing),
        properties=(source_changed & target_changed)[clashing],
        names=across.names,
    )
    # Where all that the source did is there already, the target's row is the merged one.
    mixed = ~clashing & (source_changed & apart).any(axis=1)
    moved = replace(
        alone,
        changed=pa.concat_tables([alone.changed, kept.select(CHANGED.names)]),
        mixed=mark_mixed(_pick(rows, mixed), source_changed[mixed]),
        properties=across.names,
    )
    return Resolution(rows=moved, clashes=(clash,), agreed=agreed)


def mark_mixed(triples: pa.Table, source_changed: Mask) -> pa.Table:
    """Put beside rows of both sides which properties the source changed."""
    starts = np.arange(len(source_changed) + 1, dtype=np.int32) * source_changed.shape[1]
    marks = pa.ListArray.from_arrays(pa.array(starts), pa.array(source_changed.ravel()))
    return triples.append_column(MIXED.field("from_source"), marks)
