"""Three rows of one id become one, or a conflict: the truth table, over whole columns."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.diff.candidates import candidates
from omnigraph.engine.diff.equality import Mask
from omnigraph.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraph.engine.diff.rows import Compared, find_changed_rows, pair_columns
from omnigraph.engine.diff.spread import Spread
from omnigraph.engine.merge.conflicts import ConflictKind
from omnigraph.storage.addresses import find_addresses_in
from omnigraph.storage.arrow import column
from omnigraph.storage.counters import carry_context
from omnigraph.storage.tables import Tables
from omnigraph.storage.values import TableAt
from omnigraph.values import dataclass

TRIPLES = pa.schema(
    [
        pa.field("id", pa.string()),
        *(pa.field(side, pa.uint64()) for side in ("base", "source", "target")),
    ]
)
"""One id and its row addresses on the three sides, null where there is no row."""

MIXED = TRIPLES.append(pa.field("ours", pa.list_(pa.bool_())))
"""A row that takes properties from both sides; `ours` marks those that the source changed."""

_NOTHING = pa.array([], pa.uint64())
_NOBODY = pa.array([], pa.string())

CHANGED = pa.schema([pa.field(name, pa.uint64()) for name in ("source", "target", "row_id")])
"""A source row that replaces one of the target; the place and the lasting row id of that one are null where they are
not known."""

REMOVED = pa.schema([pa.field("id", pa.string()), pa.field("target", pa.uint64())])
"""A row of the target that goes; its place is null where it is not known."""


class Granularity(StrEnum):
    """What must not be changed on both sides: the row, or one property of it."""

    ROW = "row"
    PROPERTY = "property"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """Rows that both sides changed in ways that do not fit; `properties` marks in which columns."""

    kind: ConflictKind
    rows: pa.Table
    properties: Mask
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What a merge does to one table: addresses of source rows that come, of mixed ones, and rows that go."""

    new: pa.Array = field(default_factory=lambda: _NOTHING)
    changed: pa.Table = field(default_factory=CHANGED.empty_table)
    mixed: pa.Table = field(default_factory=MIXED.empty_table)
    removed: pa.Table = field(default_factory=REMOVED.empty_table)
    clashes: tuple[Clash, ...] = ()
    names: tuple[str, ...] = ()
    """The properties that `ours` of mixed rows marks."""
    agreed: pa.Array | None = field(default_factory=lambda: _NOBODY)
    """The ids of rows that both sides had changed in the same way; None when some agree in a part only."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Inserts, updates, deletes."""
        updates = self.changed.num_rows + self.mixed.num_rows
        return len(self.new), updates, self.removed.num_rows

    @property
    def is_empty(self) -> bool:
        """Whether the target stays as it is."""
        return not any(self.counts)


def adopt(
    tables: Tables,
    base: TableAt | None,
    source: TableAt,
    spread: Spread | None = None,
    row_cache: RowCache = NO_ROW_CACHE,
) -> Resolved:
    """Take everything the source did: the target still is the base."""
    moves = find_changed_rows(tables, base, source, spread, row_cache)
    return _take_source(moves, column(moves, "before"))


def _take_source(moves: pa.Table, target: pa.Array) -> Resolved:
    """Take what the source did; `target` says where the rows it left behind lie."""
    fresh, gone = pc.is_null(moves["before"]), pc.is_null(moves["after"])
    kept = pc.and_(pc.invert(fresh), pc.invert(gone))
    names = ["id", "source", "target", "row_id"]
    both = pa.table([moves["id"], moves["after"], target, moves["row_id"]], names)
    return Resolved(
        new=column(moves.filter(fresh), "after"),
        changed=both.filter(kept).select(CHANGED.names),
        removed=both.filter(gone).select(REMOVED.names),
    )


def three_way(
    tables: Tables,
    base: TableAt | None,
    source: TableAt,
    target: TableAt,
    granularity: Granularity,
    spread: Spread | None = None,
    row_cache: RowCache = NO_ROW_CACHE,
) -> Resolved:
    """Combine what both sides did since the base; rows the source left alone stay as the target has them."""
    with ThreadPoolExecutor(1, "omnigraph-compare") as pool:
        # Both sides are looked at together; a runner of many hands is busy with one of them at a time.
        looking = None if spread else pool.submit(carry_context(candidates), tables, base, target)
        moves = find_changed_rows(tables, base, source, spread, row_cache)
        theirs = looking.result() if looking else candidates(tables, base, target, spread)
    touched = theirs.filter(pc.is_in(theirs["id"], value_set=column(moves, "id")))
    met = pc.is_in(moves["id"], value_set=column(touched, "id"))
    sides = _Sides(tables, base, source, target)
    apart = moves.filter(pc.invert(met))
    alone = _take_source(apart, sides.in_target(column(apart, "before")))
    if not touched.num_rows:
        return alone
    return _together(alone, _triples(moves.filter(met), touched), sides, granularity)


def _triples(ours: pa.Table, theirs: pa.Table) -> pa.Table:
    place = pc.index_in(column(ours, "id"), value_set=column(theirs, "id"))
    found = column(theirs, "after").take(place)
    return pa.table([ours["id"], ours["before"], ours["after"], found], schema=TRIPLES)


class _Sides:
    """The three versions, and how rows of two of them are compared."""

    def __init__(
        self, tables: Tables, base: TableAt | None, source: TableAt, target: TableAt
    ) -> None:
        self._source, self._target = tables.open(source), tables.open(target)
        self._base = self._target if base is None else tables.open(base)

    def in_target(self, rows: pa.Array) -> pa.Array:
        """Where rows of the base that the target left alone lie in the target."""
        return find_addresses_in(self._base, self._target, rows)

    def by_target(self) -> Compared:
        """Base against target."""
        return pair_columns(self._base, self._target)

    def by_source(self) -> Compared:
        """Base against source."""
        return pair_columns(self._base, self._source)

    def across(self) -> Compared:
        """Source against target."""
        return pair_columns(self._source, self._target)


def _together(
    alone: Resolved, triples: pa.Table, sides: _Sides, granularity: Granularity
) -> Resolved:
    """Decide the ids that both sides may have changed, case by case."""
    there = {n: triples[n].is_valid().to_numpy() for n in ("base", "source", "target")}
    both_new = ~there["base"] & there["source"] & there["target"]
    source_gone = there["base"] & ~there["source"] & there["target"]
    target_gone = there["base"] & there["source"] & ~there["target"]
    all_there = there["base"] & there["source"] & there["target"]
    doomed, clash_gone = _deleted_by_source(_pick(triples, source_gone), sides.by_target())
    updates = _updated_on_both(_pick(triples, all_there), sides, granularity)
    inserted, alike = _inserted_on_both(_pick(triples, both_new), sides.across())
    both_gone = _pick(triples, there["base"] & ~there["source"] & ~there["target"])
    clashes = (
        inserted,
        clash_gone,
        _clash(ConflictKind.DELETE_VS_UPDATE, _pick(triples, target_gone)),
        *updates.clashes,
    )
    return Resolved(
        new=alone.new,
        changed=pa.concat_tables([alone.changed, updates.changed]),
        mixed=updates.mixed,
        removed=pa.concat_tables([alone.removed, doomed]),
        clashes=tuple(clash for clash in clashes if clash.rows.num_rows),
        names=updates.names,
        agreed=join_agreed([column(both_gone, "id"), alike, updates.agreed]),
    )


def _pick(rows: pa.Table, mask: Any) -> pa.Table:
    return rows.filter(pa.array(mask))


def _clash(kind: ConflictKind, rows: pa.Table) -> Clash:
    return Clash(kind=kind, rows=rows, properties=np.zeros((rows.num_rows, 0), bool), names=())


def join_agreed(parts: Iterable[pa.Array | None]) -> pa.Array | None:
    """All ids on which both sides agree; None if some agree in a part only."""
    known = []
    for one in parts:
        if one is None:
            return None
        known.append(one)
    return pa.concat_arrays([_NOBODY, *known])


def _inserted_on_both(rows: pa.Table, both: Compared) -> tuple[Clash, pa.Array]:
    """Rows that differ are in conflict; the ids of the others are told."""
    matrix = both.matrix(column(rows, "source"), column(rows, "target"))
    apart = matrix.any(axis=1)
    clash = Clash(
        kind=ConflictKind.DIVERGENT_INSERT,
        rows=_pick(rows, apart),
        properties=matrix[apart],
        names=both.names,
    )
    return clash, column(_pick(rows, ~apart), "id")


def _deleted_by_source(rows: pa.Table, both: Compared) -> tuple[pa.Table, Clash]:
    """Rows the target only carried along go; rows it changed are in conflict."""
    touched = both.matrix(column(rows, "base"), column(rows, "target")).any(axis=1)
    doomed = _pick(rows, ~touched).select(REMOVED.names)
    return doomed, _clash(ConflictKind.DELETE_VS_UPDATE, _pick(rows, touched))


def _updated_on_both(rows: pa.Table, sides: _Sides, granularity: Granularity) -> Resolved:
    theirs = sides.by_target().matrix(column(rows, "base"), column(rows, "target"))
    untouched = ~theirs.any(axis=1)
    kept = _pick(rows, untouched)
    kept = kept.append_column("row_id", pa.nulls(kept.num_rows, pa.uint64()))
    rows, theirs = _pick(rows, ~untouched), theirs[~untouched]
    across = sides.across()
    apart = across.matrix(column(rows, "source"), column(rows, "target"))
    differing = apart.any(axis=1)
    agreed: pa.Array | None = column(_pick(rows, ~differing), "id")
    rows, theirs, apart = _pick(rows, differing), theirs[differing], apart[differing]
    ours = np.ones_like(apart)
    if granularity is Granularity.PROPERTY:
        ours = sides.by_source().matrix(column(rows, "base"), column(rows, "source"))
        agreed = None if (ours & theirs & ~apart).any() else agreed
        theirs = theirs & apart
    else:
        theirs = apart
    clashing = (ours & theirs).any(axis=1)
    clash = Clash(
        kind=ConflictKind.DIVERGENT_UPDATE,
        rows=_pick(rows, clashing),
        properties=(ours & theirs)[clashing],
        names=across.names,
    )
    # Where all that the source did is there already, the target's row is the merged one.
    mixed = ~clashing & (ours & apart).any(axis=1)
    return Resolved(
        changed=kept.select(CHANGED.names),
        mixed=mixed_of(_pick(rows, mixed), ours[mixed]),
        clashes=(clash,),
        names=across.names,
        agreed=agreed,
    )


def mixed_of(triples: pa.Table, ours: Mask) -> pa.Table:
    """Put beside rows of both sides which properties the source changed."""
    starts = np.arange(len(ours) + 1, dtype=np.int32) * ours.shape[1]
    marks = pa.ListArray.from_arrays(pa.array(starts), pa.array(ours.ravel()))
    return triples.append_column(MIXED.field("ours"), marks)
