"""A merge over a base that is put together from several states: rows are compared, nothing is written for it.

Every row of every state is given a class per column, equal for equal values. The base and the merge then follow from
classes alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.commit.addressed import CHANGED, MIXED, REMOVED, TRIPLES, AddressedRows
from omnigraphdb.engine.diff.row_cache import NO_ROW_CACHE, RowCache
from omnigraphdb.engine.diff.rows import pair_columns
from omnigraphdb.engine.equality import Mask
from omnigraphdb.engine.merge.conflicts import ConflictKind
from omnigraphdb.engine.merge.relate import TableRelation
from omnigraphdb.engine.merge.resolve import (
    Resolution,
    RowConflicts,
    join_agreed,
    mark_mixed,
)
from omnigraphdb.engine.merge_base import MergedBase, Node, RecordedMerge, Recovered, Stored
from omnigraphdb.ids import CommitId, Granularity, TableKey
from omnigraphdb.limits import COMPARE_ROWS_MAX
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

Classes = Any
"""A NumPy matrix of numbers, one line per row, one column per property: equal numbers are equal values."""


def list_other_versions(relation: TableRelation) -> list[TableAt | None]:
    """List the versions of a table that are compared with the target's: the source's, and those of the base's states."""
    entries = (relation.source, *relation.parts.values())
    listed = dict.fromkeys(None if entry is None else entry.at for entry in entries)
    return [at for at in listed if at != relation.target.at]


def merge_over(
    tables: Tables,
    base: Node,
    relation: TableRelation,
    granularity: Granularity,
    moves: Sequence[pa.Table],
    row_cache: RowCache = NO_ROW_CACHE,
) -> Resolution:
    """Combine the changes of both sides since the base; rows that every state has as the target has them are not read.

    `moves` are the rows of the target that may differ in each of the `list_other_versions`.
    """
    versions = _Versions(tables, relation, moves, row_cache)
    parts = [
        _decide(part, base, relation, granularity, versions.names) for part in versions.parts()
    ]
    return _join(parts, relation, versions.names)


# ---- rows of some ids in one state


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of some ids: whether each is there, whether that and its values are known, and their classes."""

    there: Mask
    known: Mask
    values: Classes

    def equal(self, other: "Rows") -> Mask:
        """Mask the rows that are known and equal in both, or known and absent in both."""
        equal_rows = (self.values == other.values).all(axis=1) | ~self.there
        mask: Mask = self.known & other.known & (self.there == other.there) & equal_rows
        return mask

    def pick(self, mask: Mask, other: "Rows") -> "Rows":
        """Take these rows where the mask is set, the rows of `other` elsewhere."""
        return Rows(
            there=np.where(mask, self.there, other.there),
            known=np.where(mask, self.known, other.known),
            values=np.where(mask[:, None], self.values, other.values),
        )

    def unless(self, unknown: Mask) -> "Rows":
        """Return the same rows with some of them unknown."""
        return Rows(there=self.there, known=self.known & ~unknown, values=self.values)


# ---- reading them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some ids, where their rows lie on both sides, and their rows in every version."""

    ids: pa.Array
    source_at: pa.Array
    target_at: pa.Array
    rows: Mapping[TableAt | None, Rows]


class _Versions:
    """All versions of one table that a merge looks at, against the one of the target."""

    def __init__(
        self,
        tables: Tables,
        relation: TableRelation,
        moves: Sequence[pa.Table],
        row_cache: RowCache,
    ) -> None:
        self._tables, self._row_cache = tables, row_cache
        self._target, self._source = relation.target.at, relation.source.at
        self._others, self._moves = list_other_versions(relation), moves
        target = tables.open(self._target)
        self.names = pair_columns(target, target, row_cache).names

    def parts(self) -> Iterator[_Part]:
        """List the rows that differ somewhere, a bounded number at a time."""
        moved = [column(moves, "id") for moves in self._moves]
        ids = pc.unique(pa.concat_arrays(moved)).sort()
        for start in range(0, len(ids), COMPARE_ROWS_MAX):
            yield self._part(ids.slice(start, COMPARE_ROWS_MAX))

    def _part(self, ids: pa.Array) -> _Part:
        positions = [pc.index_in(ids, value_set=column(moves, "id")) for moves in self._moves]
        lookups = zip(self._moves, positions, strict=True)
        before = [column(moves, "before").take(position) for moves, position in lookups]
        target_at = pc.coalesce(*before)
        sides = [_Side(at=self._target, moved=_mark_all(ids), rows=target_at)]
        for at, moves, position in zip(self._others, self._moves, positions, strict=True):
            rows = column(moves, "after").take(position)
            sides.append(_Side(at=at, moved=position.is_valid().to_numpy(False), rows=rows))
        rows = dict(zip((side.at for side in sides), self._classify(sides), strict=True))
        by_version = {side.at: side.rows for side in sides}
        return _Part(
            ids=ids,
            source_at=by_version[self._source],
            target_at=target_at,
            rows=rows,
        )

    def _classify(self, sides: "Sequence[_Side]") -> list[Rows]:
        """Give equal values of one row and property the number of the first version that has them."""
        target = sides[0]
        shape = (len(target.rows), len(self.names))
        done: list[Rows] = []
        for number, side in enumerate(sides):
            exists = np.where(side.moved, side.is_there, target.is_there)
            values = np.where(side.moved[:, None], np.full(shape, -1), np.zeros(shape, int))
            for other, rows in zip(sides[:number], done, strict=True):
                self._share(side, values, other, rows.values)
            values[values < 0] = number
            is_known = np.ones(len(exists), dtype=bool)
            done.append(Rows(there=exists, known=is_known, values=values))
        return done

    def _share(self, side: "_Side", values: Classes, other: "_Side", classes: Classes) -> None:
        """Take over the classes of values that are equal in an earlier version."""
        open_rows = (values < 0).any(axis=1)
        in_both = open_rows & side.moved & side.is_there & other.moved & other.is_there
        at = np.flatnonzero(in_both)
        if not len(at) or side.at is None or other.at is None:
            return
        pair = pair_columns(
            self._tables.open(other.at), self._tables.open(side.at), self._row_cache
        )
        differing = pair.matrix(
            other.rows.filter(pa.array(in_both)), side.rows.filter(pa.array(in_both))
        )
        for position, name in enumerate(self.names):
            if name in pair.names:
                alike = at[~differing[:, pair.names.index(name)]]
                alike = alike[values[alike, position] < 0]
                values[alike, position] = classes[alike, position]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Addresses of rows in one version; where a row did not move it is as the target has it."""

    at: TableAt | None
    moved: Mask
    rows: pa.Array

    @property
    def is_there(self) -> Mask:
        """A mask of the rows that exist, valid for rows that moved."""
        mask: Mask = self.rows.is_valid().to_numpy(False)
        return mask


def _mark_all(ids: pa.Array) -> Mask:
    return np.ones(len(ids), dtype=bool)


# ---- the base


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Reads a base from the versions of one table."""

    part: _Part
    relation: TableRelation
    granularity: Granularity

    def base(self, node: Node) -> Rows:
        """Read the rows of a base."""
        match node:
            case Stored():
                return self._stored(node.commit)
            case MergedBase():
                left, right = self.base(node.left), self.base(node.right)
                return fold(left, right, self.base(node.shared), self.granularity)
            case Recovered():
                return rebuild_state([self._read_testimony(witness) for witness in node.witnesses])

    def _stored(self, commit: CommitId) -> Rows:
        entry = self.relation.parts[commit]
        return self.part.rows[None if entry is None else entry.at]

    def _read_testimony(self, witness: RecordedMerge) -> "MergeEffect":
        return MergeEffect(
            shared=self.base(witness.shared),
            before=self.base(witness.before),
            after=self.base(witness.after),
            agreed=self._mask_agreed(dict(witness.agreed)),
        )

    def _mask_agreed(
        self, ids_by_table: Mapping[TableKey, tuple[str, ...] | None]
    ) -> "Mask | None":
        ids = ids_by_table.get(self.relation.table_key, ())
        if ids is None:
            return None
        mask: Mask = pc.is_in(self.part.ids, value_set=pa.array(ids, pa.string())).to_numpy(False)
        return mask


def fold(left: Rows, right: Rows, shared: Rows, granularity: Granularity) -> Rows:
    """Merge the rows of two states over their shared state; a row in which they disagree is unknown."""
    by_left, by_right = left.equal(shared), right.equal(shared)
    equal_rows = left.equal(right)
    merged = right.pick(by_left, left)
    unknown = ~(by_left | by_right | equal_rows)
    if granularity is Granularity.PROPERTY:
        mixed, clashing = _merge_properties(left, right, shared)
        mixable = unknown & left.there & right.there & shared.there & ~clashing
        mixable &= left.known & right.known & shared.known
        return mixed.pick(mixable, merged.unless(unknown))
    return merged.unless(unknown)


def _merge_properties(left: Rows, right: Rows, shared: Rows) -> tuple[Rows, Mask]:
    """Take every property from the side that changed it, and tell which rows changed one on both sides."""
    left_changed, right_changed = left.values != shared.values, right.values != shared.values
    clashing = (left_changed & right_changed & (left.values != right.values)).any(axis=1)
    values = np.where(left_changed, left.values, right.values)
    return Rows(there=left.there, known=left.known, values=values), clashing


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEffect:
    """The evidence of a merge about a state that it brought; `agreed` marks rows that both had changed in the same way.

    `agreed` is None when these rows are not known.
    """

    shared: Rows
    before: Rows
    after: Rows
    agreed: "Mask | None"

    def rows(self) -> Rows:
        """Rebuild the rows of the state.

        A row that the merge changed is as the merge left it, and a row on which both agreed is as the first parent had it.
        All other rows are as both shared them. If the agreed rows are not known, a row that the first parent had changed is
        unknown.
        """
        untouched = self.before.equal(self.after)
        values = np.where(
            self.before.values == self.after.values, self.shared.values, self.after.values
        )
        mixed = Rows(there=self.after.there, known=self.after.known, values=values)
        in_all = self.before.there & self.after.there & self.shared.there & self.shared.known
        changed = mixed.pick(in_all, self.after)
        is_known = self.before.known & self.after.known
        rows = self.shared.pick(untouched, changed).unless(self._mask_doubtful() | ~is_known)
        return rows if self.agreed is None else self.before.pick(untouched & self.agreed, rows)

    def _mask_doubtful(self) -> Mask:
        """Mask the rows that the first parent had changed, as a whole or in properties, and the merge left alone."""
        if self.agreed is not None:
            return np.zeros(len(self.shared.there), dtype=bool)
        unchanged = self.before.values == self.after.values
        properties = (unchanged & (self.before.values != self.shared.values)).any(axis=1)
        in_all = self.before.there & self.after.there & self.shared.there
        rows = self.before.equal(self.after) & ~self.before.equal(self.shared)
        mask: Mask = rows | (in_all & properties)
        return mask

    def ruled_out(self, rows: Rows) -> Mask:
        """Mask the rows in which the state surely differs from these rows."""
        is_known = self.before.known & self.after.known & self.shared.known & rows.known
        untouched = self.before.equal(self.after)
        options = self.shared.equal(rows) | self.before.equal(rows)
        mask: Mask = is_known & untouched & ~options
        return mask


def rebuild_state(testimonies: Sequence[MergeEffect]) -> Rows:
    """Put a state together from the merges that brought it: one merge may show a row that another leaves open."""
    state = testimonies[0].rows()
    for testimony in testimonies[1:]:
        rows = testimony.rows()
        state = state.pick(state.known, rows)
    for testimony in testimonies:
        for other in testimonies:
            # A row has two options; if another merge rules out one of them, the other holds.
            shared = other.ruled_out(testimony.before) & testimony.before.equal(testimony.after)
            state = state.pick(state.known | ~shared, testimony.shared)
    return state


# ---- the merge


def _decide(
    part: _Part,
    node: Node,
    relation: TableRelation,
    granularity: Granularity,
    names: tuple[str, ...],
) -> Resolution:
    base = _Reading(part=part, relation=relation, granularity=granularity).base(node)
    source, target = part.rows[relation.source.at], part.rows[relation.target.at]
    equal_rows, by_target = source.equal(target), target.equal(base)
    open_rows = ~equal_rows & ~source.equal(base)
    from_source, clashing = open_rows & by_target, open_rows & ~by_target
    agreed_ids: pa.Array | None = part.ids.filter(pa.array(equal_rows & ~by_target))
    triples = _triples(part)
    mixed, source_changed = np.zeros_like(clashing), np.zeros_like(source.values, dtype=bool)
    differing = source.values != target.values
    if granularity is Granularity.PROPERTY:
        source_changed, target_changed = source.values != base.values, target.values != base.values
        in_all = clashing & base.known & base.there & source.there & target.there
        fitting = in_all & ~(source_changed & target_changed & differing).any(axis=1)
        mixed = fitting & (source_changed & differing).any(axis=1)
        agreed_ids = (
            None if (source_changed & target_changed & ~differing)[in_all].any() else agreed_ids
        )
        differing = np.where(
            in_all[:, None], source_changed & target_changed & differing, differing
        )
        clashing = clashing & ~fitting
    is_written, in_target = from_source & source.there, target.there
    rows = AddressedRows(
        source=relation.source.at,
        target=relation.target.at,
        new=part.source_at.filter(pa.array(is_written & ~in_target)),
        changed=_list_changed(triples.filter(pa.array(is_written & in_target))),
        mixed=mark_mixed(triples.filter(pa.array(mixed)), source_changed[mixed]),
        properties=names,
        removed=triples.filter(pa.array(from_source & ~source.there)).select(REMOVED.names),
    )
    return Resolution(
        rows=rows,
        clashes=tuple(_find_clashes(triples, base, source, target, clashing, differing, names)),
        agreed=agreed_ids,
    )


def _triples(part: _Part) -> pa.Table:
    nowhere = pa.nulls(len(part.ids), pa.uint64())
    return pa.table([part.ids, nowhere, part.source_at, part.target_at], schema=TRIPLES)


def _list_changed(triples: pa.Table) -> pa.Table:
    unnamed = triples.append_column("row_id", pa.nulls(triples.num_rows, pa.uint64()))
    return unnamed.select(CHANGED.names)


def _find_clashes(
    triples: pa.Table,
    base: Rows,
    source: Rows,
    target: Rows,
    clashing: Mask,
    differing: Mask,
    names: tuple[str, ...],
) -> Iterator[RowConflicts]:
    in_both = source.there & target.there
    is_new = base.known & ~base.there
    kinds = {
        ConflictKind.DIVERGENT_INSERT: in_both & is_new,
        ConflictKind.DIVERGENT_UPDATE: in_both & ~is_new,
        ConflictKind.DELETE_VS_UPDATE: ~in_both,
    }
    for kind, of_kind in kinds.items():
        rows = clashing & of_kind
        if rows.any():
            has_values = kind is not ConflictKind.DELETE_VS_UPDATE
            yield RowConflicts(
                kind=kind,
                rows=triples.filter(pa.array(rows)),
                properties=differing[rows] if has_values else np.zeros((rows.sum(), 0), bool),
                names=names if has_values else (),
            )


def _join(
    parts: Sequence[Resolution], relation: TableRelation, names: tuple[str, ...]
) -> Resolution:
    row_parts = [part.rows for part in parts]
    rows = AddressedRows(
        source=relation.source.at,
        target=relation.target.at,
        new=pa.concat_arrays([pa.array([], pa.uint64()), *(part.new for part in row_parts)]),
        changed=pa.concat_tables([CHANGED.empty_table(), *(part.changed for part in row_parts)]),
        mixed=pa.concat_tables([MIXED.empty_table(), *(part.mixed for part in row_parts)]),
        properties=names,
        removed=pa.concat_tables([REMOVED.empty_table(), *(part.removed for part in row_parts)]),
    )
    return Resolution(
        rows=rows,
        clashes=tuple(clash for part in parts for clash in part.clashes),
        agreed=join_agreed(part.agreed for part in parts),
    )
