"""The entities of one table version, numbered: dense number ↔ id, and their property columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import TableType
from omnigraph.catalog.types import PropertyType
from omnigraph.commit.changes import column
from omnigraph.engine.read.cache import ByteCache
from omnigraph.manifest.snapshot import Entry
from omnigraph.storage.tables import Table, Tables

Numbers = npt.NDArray[np.int64]
"""Dense numbers of entities; -1 is no entity."""

ABSENT = -1
WHOLE_COLUMN_ROWS = 100_000
"""Columns of smaller tables are read whole at once: a take costs as much."""
TAKE_FRACTION = 16
"""A column is fetched row by row only when less than one in this many of its rows are wanted."""


@dataclass(frozen=True)
class Ids:
    """The ids of a table version in its own order, and Lance's stable row id of each."""

    texts: pa.Array
    row_ids: npt.NDArray[np.uint64]

    @property
    def nbytes(self) -> int:
        """How much memory this takes, the key map included once it is asked for."""
        return int(self.texts.nbytes + self.row_ids.nbytes)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The dense number of every id."""
        return {text: number for number, text in enumerate(self.texts.to_pylist())}


@dataclass(frozen=True, slots=True)
class Entities:
    """One table version, read through a cache that several queries share."""

    type: TableType
    entry: Entry
    tables: Tables
    cache: ByteCache

    @property
    def table(self) -> Table:
        """The opened version."""
        return self.tables.open(self.entry.at)

    def key(self, *parts: Any) -> tuple[Any, ...]:
        """Name something about exactly this version of this life of the table."""
        return (self.entry.at, self.entry.line, *parts)

    @property
    def ids(self) -> Ids:
        """The ids, in the order that numbers the entities."""
        return self.cache.get(self.key("ids"), self._read_ids, lambda ids: ids.nbytes)

    def _read_ids(self) -> Ids:
        rows = self.table.read(["id"], row_id=True)
        row_ids = column(rows, "_rowid").to_numpy(zero_copy_only=False).astype(np.uint64)
        return Ids(column(rows, "id"), row_ids)

    def __len__(self) -> int:
        return self.entry.row_count

    def all(self) -> Numbers:
        """Every entity."""
        return np.arange(len(self.ids.texts), dtype=np.int64)

    def numbers_of(self, texts: pa.Array) -> Numbers:
        """The dense numbers of ids; -1 for those that are not there."""
        if len(texts) <= TAKE_FRACTION:
            known = self.ids.numbers
            return np.array([known.get(text, ABSENT) for text in texts.to_pylist()], dtype=np.int64)
        found = pc.index_in(texts, value_set=self.ids.texts)
        return np.asarray(
            pc.fill_null(found, ABSENT).to_numpy(zero_copy_only=False), dtype=np.int64
        )

    def id_texts(self, numbers: Numbers) -> pa.Array:
        """The ids of entities; NULL for no entity."""
        return self.ids.texts.take(_indices(numbers))

    def values(self, name: str, numbers: Numbers) -> pa.Array:
        """A property of entities; NULL for no entity, and for a property the version does not have."""
        whole = self.cache.peek(self.key("column", name))
        if whole is None and self._is_selective(len(numbers)):
            return self._taken(name, numbers)
        return (self.whole(name) if whole is None else whole).take(_indices(numbers))

    def _is_selective(self, wanted: int) -> bool:
        return len(self) > WHOLE_COLUMN_ROWS and wanted * TAKE_FRACTION < len(self)

    def whole(self, name: str) -> pa.Array:
        """A property of all entities, in their order."""
        return self.cache.get(
            self.key("column", name),
            lambda: self._read_column(name),
            lambda values: int(values.nbytes),
        )

    def _read_column(self, name: str) -> pa.Array:
        if name not in self.table.schema.names:
            return pa.nulls(len(self.ids.texts), self.property_type(name).arrow)
        return column(self.table.read([name]), name)

    def property_type(self, name: str) -> PropertyType:
        """The declared type of a property."""
        return self.type.properties[name].type

    def _taken(self, name: str, numbers: Numbers) -> pa.Array:
        """Fetch some rows by row id; each wanted row once."""
        if name not in self.table.schema.names:
            return pa.nulls(len(numbers), self.property_type(name).arrow)
        wanted, places = np.unique(numbers[numbers != ABSENT], return_inverse=True)
        rows = self.table.take(pa.array(self.ids.row_ids[wanted]), [name])
        spread = np.full(len(numbers), ABSENT, dtype=np.int64)
        spread[numbers != ABSENT] = places
        return column(rows, name).take(_indices(spread))


def _indices(numbers: Numbers) -> pa.Array:
    absent = numbers == ABSENT
    return pa.array(numbers, mask=absent) if absent.any() else pa.array(numbers)


def concat(parts: Sequence[Numbers]) -> Numbers:
    """Put number columns after one another."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
