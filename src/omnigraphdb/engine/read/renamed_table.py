"""A table version read under the present names of its properties."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa

from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import FragmentInfo, IndexInfo, IndexKind, Offsets, TableAt
from omnigraphdb.values import dataclass

_LASTING = ("id", "src", "dst")


@dataclass(frozen=True)
class RenamedTable:
    """A table version under other names; `stored` maps every property to its column.

    A property that is not in `stored` has no column here, even if some column has its name. Filters use the stored
    names.
    """

    table: Table
    stored: Mapping[str, str]

    @property
    def at(self) -> TableAt:
        """The version."""
        return self.table.at

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns under their present names."""
        schema = self.table.schema
        return pa.schema([schema.field(old).with_name(new) for new, old in self._columns.items()])

    @cached_property
    def field_ids(self) -> Mapping[str, int]:
        """The field ids of the columns, by their present names."""
        return {new: self.table.field_ids[old] for new, old in self._columns.items()}

    @cached_property
    def _columns(self) -> Mapping[str, str]:
        existing = self.table.field_ids
        lasting = {name: name for name in _LASTING if name in existing}
        return lasting | {new: old for new, old in self.stored.items() if old in existing}

    # ---- rows

    def read(
        self,
        columns: Sequence[str],
        filter: str | None = None,
        *,
        row_id: bool = False,
        fragments: Sequence[int] | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Read rows into memory."""
        names = self._names(columns)
        rows = self.table.read(names, filter, row_id=row_id, fragments=fragments, limit=limit)
        return self._rename_back(rows, columns)

    def take(self, row_ids: pa.Array, columns: Sequence[str]) -> pa.Table:
        """Fetch rows by row id."""
        return self._rename_back(self.table.take(row_ids, self._names(columns)), columns)

    def lookup(
        self, column: str, values: pa.Array, columns: Sequence[str], *, row_id: bool = False
    ) -> pa.Table:
        """Find rows whose column is one of the values."""
        names = self._names(columns)
        rows = self.table.lookup(self._columns[column], values, names, row_id=row_id)
        return self._rename_back(rows, columns)

    def nearest(
        self, column: str, vector: pa.Array, limit: int, *, columns: tuple[()], row_id: bool
    ) -> pa.Table:
        """Find the row ids of the closest rows."""
        stored = self._columns[column]
        return self.table.nearest(stored, vector, limit, columns=columns, row_id=row_id)

    def match(self, column: str, text: str, *, columns: tuple[()], row_id: bool) -> pa.Table:
        """Find the row ids of matching rows in the text index."""
        return self.table.match(self._columns[column], text, columns=columns, row_id=row_id)

    def _names(self, columns: Sequence[str]) -> list[str]:
        return [self._columns[name] for name in columns]

    def _rename_back(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Give rows their present names; columns that storage adds keep theirs."""
        new = dict(zip(self._names(columns), columns, strict=True))
        return rows.rename_columns([new.get(name, name) for name in rows.column_names])

    def explain(self, filter: str) -> str:
        """Show the physical plan of a filter."""
        return self.table.explain(filter)

    # ---- fragments and indexes

    def fragments(self) -> tuple[FragmentInfo, ...]:
        """List the fragments of this version."""
        return self.table.fragments()

    def deleted(self, fragments: Sequence[int]) -> Mapping[int, Offsets]:
        """Return the offsets of the deleted rows of some fragments."""
        return self.table.deleted(fragments)

    def indices(self) -> tuple[IndexInfo, ...]:
        """List the indexes of the renamed columns."""
        new = {old: name for name, old in self._columns.items()}
        renamed = (index for index in self.table.indices() if index.column in new)
        return tuple(replace(index, column=new[index.column]) for index in renamed)

    @property
    def damaged_segments(self) -> frozenset[str]:
        """The index segments of the graph that reads have found damaged so far."""
        return self.table.damaged_segments

    def uncovered(self, column: str, kind: IndexKind) -> tuple[int, ...]:
        """List the fragments that no index of that kind on a column covers."""
        return self.table.uncovered(self._columns[column], kind)
