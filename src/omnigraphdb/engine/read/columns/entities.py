"""The entities of one table version: their row ids, ids and properties, read through a shared cache."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import TableType
from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.catalog.types import PropertyType
from omnigraphdb.compile.checked import EntityRef
from omnigraphdb.compile.plan.visit import Reference
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read import costs
from omnigraphdb.engine.read.columns.compare import codes_of
from omnigraphdb.engine.read.columns.id_index import IdIndex, build_id_index
from omnigraphdb.engine.read.columns.layout import CachedColumn, Layout, layout_of, read_column
from omnigraphdb.engine.read.columns.row_ids import (
    ABSENT,
    Integers,
    RowIds,
    count_up,
    indices_of,
    no_row_ids,
)
from omnigraphdb.engine.read.columns.row_offsets import RowOffsets, build_row_offsets
from omnigraphdb.engine.read.columns.value_index import ValueIndex, build_value_index
from omnigraphdb.engine.read.renamed_table import RenamedTable
from omnigraphdb.limits import HELD_PART, KEY_MAP_ROWS_MAX, LOOKUP_VALUES_MAX
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import FragmentInfo, IndexKind
from omnigraphdb.values import dataclass

ID = "id"
_CODED_PART = 4
"""A property is encoded for all entities if a read wants at least one in this many of them."""
_HASHED_PART = 4
"""Ids are hashed, rather than the texts that are looked up, if there are fewer than so many of them per text."""
_COMPARED_MAX = 1 << 20
"""Up to this many comparisons, cached ids are compared one by one: an index takes longer."""
_FOUND_MIN = 1_000
"""From this many ids on, cached ids are looked through, unless they are indexed."""
_WIDTH_ROWS = 1_000
"""The rows that are read to estimate the width of a text column."""


@dataclass(eq=False)
class Entities:
    """One table version as queries read it; without an entry the snapshot has no such table."""

    type: TableType
    entry: Entry | None
    tables: Tables
    cache: ByteCache
    names: Mapping[str, str] | None = None
    """The stored columns of the properties, if their names differ from those of the type."""

    # ---- which entities

    def __len__(self) -> int:
        return 0 if self.entry is None else self.layout.rows

    @cached_property
    def table(self) -> Table | RenamedTable:
        """The open table version."""
        assert self.entry is not None, "a table that did not exist is not read"
        opened = self.tables.open(self.entry.at)
        return opened if self.names is None else RenamedTable(opened, self.names)

    @cached_property
    def fields(self) -> Mapping[str, tuple[int, pa.DataType]]:
        """Field id and type of each column; both identify it, because the id of a dropped column may be used again."""
        schema = self.table.schema
        return {name: (n, schema.field(name).type) for name, n in self.table.field_ids.items()}

    def stored(self, reference: Reference) -> Reference:
        """Rename a reference to the stored column of its property."""
        if self.names is None or isinstance(reference, EntityRef) or reference.property == ID:
            return reference
        return replace(reference, property=self.names[reference.property])

    @cached_property
    def layout(self) -> Layout:
        """The fragments and rows of the version."""
        if self.entry is None:
            return Layout("", ())
        return layout_of(self.entry, self.tables, self.cache)

    @property
    def row_offsets(self) -> RowOffsets:
        """The offset of each entity in a whole column."""
        if not len(self):
            return build_row_offsets(no_row_ids())
        return self.cache.get(
            (self.layout, "row_offsets"), self._read_row_offsets, lambda offsets: offsets.nbytes
        )

    def _read_row_offsets(self) -> RowOffsets:
        rows = self.table.read((), row_id=True, fragments=[f.id for f in self.layout.fragments])
        return build_row_offsets(
            column(rows, ROW_ID).to_numpy(zero_copy_only=False).astype(np.int64)
        )

    @property
    def cached_row_offsets(self) -> RowOffsets | None:
        """The offset of each entity in a whole column, if cached."""
        return self.cache.peek((self.layout, "row_offsets"))

    @property
    def all(self) -> RowIds:
        """Every entity, in column order; the same array object while it is cached."""
        if not len(self):
            return no_row_ids()
        return self.cache.get(
            (self.layout, "all"), self._read_all, lambda row_ids: int(row_ids.nbytes)
        )

    def _read_all(self) -> RowIds:
        return self.row_offsets.all()

    def _are_all(self, row_ids: RowIds) -> bool:
        return len(row_ids) == len(self) and row_ids is self.cache.peek((self.layout, "all"))

    # ---- ids

    def row_id_of(self, text: str) -> int:
        """Find the entity with an id, or -1."""
        index = self._id_index(1)
        if index is not None:
            return index.row_id_of(text)
        return int(self._look_up(pa.array([text], pa.string()))[0])

    def row_ids_of(self, texts: pa.Array) -> RowIds:
        """Find the entities with these ids; -1 for ids that do not exist."""
        if not len(self) or not len(texts):
            return np.full(len(texts), ABSENT, dtype=np.int64)
        if len(texts) > LOOKUP_VALUES_MAX or self._prefers_finder(len(texts)):
            return self.id_finder()(texts)
        index = self._id_index(len(texts))
        if index is None:
            return self._look_up(texts)
        return np.array([index.row_id_of(text) for text in texts.to_pylist()], dtype=np.int64)

    def _prefers_finder(self, count: int) -> bool:
        """Whether a scan of the cached ids takes less than an index: for many ids, if they are cached but not indexed."""
        return count > _FOUND_MIN and self.cached_id_index is None and self.has_cached(ID)

    def id_finder(self) -> Callable[[pa.Array], RowIds]:
        """Return a function that finds entities by many ids at a time; the function holds the ids of all entities."""
        ids, row_offsets = self.whole(ID), self.row_offsets
        return lambda texts: row_offsets.at(_find_texts(texts, ids))

    def _look_up(self, texts: pa.Array) -> RowIds:
        if not len(self):
            return np.full(len(texts), ABSENT, dtype=np.int64)
        if len(texts) * len(self) <= _COMPARED_MAX and self.has_cached(ID):
            ids = self.whole(ID)
            offsets = [pc.index(ids, text).as_py() for text in texts]
            return self.row_offsets.at(np.array(offsets, dtype=np.int64))
        rows = self.table.lookup(ID, texts, (ID,), row_id=True)
        row_id_by_text = dict(zip(rows[ID].to_pylist(), rows[ROW_ID].to_pylist(), strict=True))
        return np.array(
            [row_id_by_text.get(text, ABSENT) for text in texts.to_pylist()], dtype=np.int64
        )

    @property
    def cached_id_index(self) -> IdIndex | None:
        """The id index, if cached."""
        return self.cache.peek((self.layout, "id_index"))

    def _id_index(self, lookups: int) -> IdIndex | None:
        """Return the id index, if it is cached or worth building by now."""
        cached_index = self.cached_id_index
        if cached_index is not None or not len(self) or len(self) > KEY_MAP_ROWS_MAX:
            return cached_index
        uncovered_cost = self.uncovered_rows(ID, IndexKind.BTREE) * costs.SCANNED_ROW
        cost = costs.LOOKUP + lookups * costs.LOOKUP_ROW + uncovered_cost
        if self.cache.spend((self.layout, "id_index"), cost) + cost < len(self) * costs.KEY_ROW:
            return None
        family = (self.layout.path, "id_index")
        previous = self.cache.latest(family)
        return self.cache.get(
            (self.layout, "id_index"),
            lambda: build_id_index(self.layout, self.row_offsets, self.whole(ID), previous),
            lambda index: index.nbytes,
            family,
        )

    def _find_uncovered(self, name: str, kind: IndexKind) -> frozenset[int]:
        damaged = self.table.damaged_segments
        key = (self.layout, self.table.at, "uncovered", self.table.field_ids[name], kind, damaged)
        return self.cache.get(
            key,
            lambda: frozenset(self.table.uncovered(name, kind)),
            lambda fragments: 100 + len(fragments),
        )

    def uncovered_fragments(self, name: str, kind: IndexKind) -> tuple[FragmentInfo, ...]:
        """List the fragments that no index of that kind on a column covers."""
        if not len(self):
            return ()
        uncovered = self._find_uncovered(name, kind)
        return tuple(part for part in self.layout.fragments if part.id in uncovered)

    def uncovered_rows(self, name: str, kind: IndexKind) -> int:
        """Count the rows that no index of that kind on a column covers."""
        return sum(part.rows for part in self.uncovered_fragments(name, kind))

    def covered(self, name: str, kind: IndexKind) -> bool:
        """Whether an index of that kind on a column covers every row."""
        return (
            len(self) > 0 and name in self.table.field_ids and not self._find_uncovered(name, kind)
        )

    # ---- properties

    def values(self, name: str, row_ids: RowIds) -> pa.Array:
        """Read a property of entities; NULL for no entity, and for a property that the version does not have."""
        return self.columns((name,), row_ids)[name]

    def columns(self, names: Sequence[str], row_ids: RowIds) -> dict[str, pa.Array]:
        """Read several properties of entities; the columns that are not cached are fetched together."""
        columns: dict[str, pa.Array] = {}
        missing: list[str] = []
        pick = self._picker(row_ids)
        fields = self.table.field_ids if len(self) else {}
        for name in dict.fromkeys(names):
            if name not in fields:
                columns[name] = pa.nulls(len(row_ids), self._kind(name))
            elif (whole := self._cached_or_read(name, len(row_ids))) is not None:
                columns[name] = pick(whole)
            else:
                missing.append(name)
        return columns | self._fetch_rows(missing, row_ids) if missing else columns

    def _picker(self, row_ids: RowIds) -> Callable[[pa.Array], pa.Array]:
        """Make a function that picks the values of entities from a whole column; their offsets are computed once."""
        if self._are_all(row_ids):
            return lambda whole: whole
        if len(row_ids) == 1 and (offset := self.row_offsets.offset_of(int(row_ids[0]))) != ABSENT:
            return lambda whole: whole.slice(offset, 1)
        indices: pa.Array | None = None

        def pick(whole: pa.Array) -> pa.Array:
            nonlocal indices
            if indices is None:
                indices = self.row_offsets.indices(row_ids)
            return whole.take(indices)

        return pick

    def value_index(self, name: str, *, explain_only: bool = False) -> ValueIndex | None:
        """Return the value index of a property, if it is cached or worth building by now."""
        if not len(self) or not self.has_cached(name) or len(self) > KEY_MAP_ROWS_MAX:
            return None
        key = (self.layout, "value_index", self.fields.get(name))
        cached_index: ValueIndex | None = self.cache.peek(key)
        if cached_index is not None or explain_only:
            return cached_index
        cost = len(self) * costs.COMPARED_ROW
        if self.cache.spend(key, cost) + cost < len(self) * costs.MATCHED_ROW:
            return None
        return self.cache.get(
            key, lambda: build_value_index(self.whole(name), self.all), lambda index: index.nbytes
        )

    def codes(self, name: str, row_ids: RowIds) -> Integers:
        """Encode a property of entities as integers that are equal where its values are; -1 for NULL or no entity."""
        if not len(self) or len(row_ids) * _CODED_PART < len(self) or not self.fits(name):
            return codes_of(self.values(name, row_ids))
        all_codes = self.cache.get(
            (self.layout, "codes", self.fields.get(name)),
            lambda: codes_of(self.whole(name)).astype(np.int32),
            lambda codes: int(codes.nbytes),
        )
        offsets = self.row_offsets.of(row_ids)
        return np.where(offsets < 0, ABSENT, all_codes[np.maximum(offsets, 0)])

    def _kind(self, name: str) -> pa.DataType:
        return pa.string() if name in (ID, "src", "dst") else self.declared(name).arrow

    def declared(self, name: str) -> PropertyType:
        """Return the declared type of a property."""
        return self.type.properties[name].type

    def whole(self, name: str) -> pa.Array:
        """Read a column of all entities, in column order."""
        if not len(self):
            return pa.array([], self._kind(name))
        if name not in self.table.field_ids:
            return pa.nulls(len(self), self.declared(name).arrow)
        key, family = self._column_key(name)
        previous = self.cache.latest(family)
        cached: CachedColumn = self.cache.get(
            key,
            lambda: read_column(
                self.layout, previous, lambda parts: self._read_column(name, parts)
            ),
            lambda column: column.nbytes,
            family,
        )
        return cached.values

    def cached_column(self, name: str) -> pa.Array | None:
        """Return a whole column, if cached."""
        if not len(self) or name not in self.table.field_ids:
            return None
        cached: CachedColumn | None = self.cache.peek(self._column_key(name)[0])
        return None if cached is None else cached.values

    def has_cached(self, name: str) -> bool:
        """Whether a whole column is cached."""
        if not len(self) or name not in self.table.field_ids:
            return True
        return self.cache.peek(self._column_key(name)[0]) is not None

    def _column_key(self, name: str) -> tuple[Any, Any]:
        field = self.fields[name]
        return (self.layout, "column", field), (self.layout.path, "column", field)

    def _read_column(self, name: str, parts: Sequence[FragmentInfo]) -> pa.Array:
        return column(self.table.read((name,), fragments=[part.id for part in parts]), name)

    def _cached_or_read(self, name: str, rows: int) -> pa.Array | None:
        """Return a whole column, if it is cached or worth caching by now."""
        key, _ = self._column_key(name)
        cached: CachedColumn | None = self.cache.peek(key)
        if cached is not None:
            return cached.values
        cost = costs.TAKE + rows * costs.TAKE_ROW
        if self.cache.spend(key, cost) + cost < self.read_cost(name) or not self.fits(name):
            return None
        return self.whole(name)

    def read_cost(self, name: str) -> float:
        """Estimate the cost of reading a whole column; copying rows of the previous column costs a tenth."""
        row = costs.SCANNED_NUMBER if self._is_fixed(name) else costs.SCANNED_ROW
        previous: CachedColumn | None = self.cache.latest(self._column_key(name)[1])
        if previous is None:
            return row * len(self)
        cached_starts = previous.layout.starts
        return row * sum(
            f.rows * (0.1 if f in cached_starts else 1.0) for f in self.layout.fragments
        )

    def _is_fixed(self, name: str) -> bool:
        kind = self.table.schema.field(name).type
        return bool(pa.types.is_primitive(kind))

    def fits(self, name: str) -> bool:
        """Whether a whole column is small enough to be cached together with others."""
        return len(self) * self._width(name) <= self.cache.bytes_max // HELD_PART

    def _width(self, name: str) -> int:
        kind = self.table.schema.field(name).type
        if pa.types.is_fixed_size_list(kind):
            return int(kind.list_size) * 4 + 1
        if self._is_fixed(name):
            return 9
        if len(self) * 64 <= self.cache.bytes_max // HELD_PART // 16:
            return 64
        return self.cache.get(
            (self.layout, "width", self.fields[name]),
            lambda: int(self.table.read((name,), limit=_WIDTH_ROWS).nbytes // _WIDTH_ROWS) + 1,
            lambda _: 100,
        )

    def _fetch_rows(self, names: Sequence[str], row_ids: RowIds) -> dict[str, pa.Array]:
        """Fetch rows by row id, each distinct row once."""
        present = row_ids != ABSENT
        distinct_row_ids, positions = np.unique(row_ids[present], return_inverse=True)
        rows = self.table.take(pa.array(distinct_row_ids.astype(np.uint64)), list(names))
        indices = np.full(len(row_ids), ABSENT, dtype=np.int64)
        indices[present] = positions
        take_indices = indices_of(indices)
        return {name: column(rows, name).take(take_indices) for name in names}

    # ---- ids of entities

    def id_texts(self, row_ids: RowIds) -> pa.Array:
        """Return the ids of entities; NULL for no entity."""
        return self.values(ID, row_ids)

    def id_ranks(self, row_ids: RowIds, *, descending: bool = False) -> Integers:  # noqa: ARG002 - ids of one type are unique
        """Rank entities by id; no entity comes first."""
        if not len(self):
            return np.full(len(row_ids), ABSENT, dtype=np.int64)
        if len(row_ids) * _CODED_PART < len(self) or not self.fits(ID):
            return np.where(row_ids == ABSENT, ABSENT, _rank_texts(self.id_texts(row_ids)))
        offsets = self.row_offsets.of(row_ids)
        ranks = self.cache.get((self.layout, "ranks"), self._ranks, lambda array: int(array.nbytes))
        return np.where(offsets < 0, ABSENT, ranks[np.maximum(offsets, 0)])

    def _ranks(self) -> Integers:
        texts = self.whole(ID)
        if pc.all(pc.less(texts[:-1], texts[1:]), min_count=0).as_py():
            return count_up(len(texts))
        return _rank_texts(texts)


def _find_texts(texts: pa.Array, among: pa.Array) -> Integers:
    """Find the offsets of texts among different texts, -1 where there is none; the smaller side is hashed."""
    if len(texts) * _HASHED_PART > len(among):
        indices = pc.fill_null(pc.index_in(texts, value_set=among), ABSENT)
        return np.asarray(indices.to_numpy(zero_copy_only=False).astype(np.int64))
    coded = texts.dictionary_encode()
    codes = pc.index_in(among, value_set=coded.dictionary)
    is_match = pc.is_valid(codes).to_numpy(zero_copy_only=False)
    offsets = np.full(len(coded.dictionary), ABSENT, dtype=np.int64)
    offsets[codes.drop_null().to_numpy()] = np.flatnonzero(is_match)
    return np.asarray(offsets[coded.indices.to_numpy(zero_copy_only=False)])


def _rank_texts(texts: pa.Array) -> Integers:
    ranks = pc.rank(texts, tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False).astype(np.int64))
