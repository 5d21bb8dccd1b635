"""The rows that rules look at: the committed rows, and the rows after the write."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog
from omnigraphdb.commit.delta import Deltas
from omnigraphdb.ids import TableKey, node_key
from omnigraphdb.storage.arrow import column
from omnigraphdb.values import dataclass


class CommittedRows(Protocol):
    """Rows of the snapshot a write was prepared on."""

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Read the rows whose column holds one of the values, with the named columns."""
        ...

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Read every row, with the named columns."""
        ...


@dataclass(frozen=True, slots=True)
class CommittedTables:
    """Committed rows in memory: for tests, and for rows that were read already."""

    tables: Mapping[TableKey, pa.Table]

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Read the rows whose column holds one of the values."""
        rows = self.tables[table]
        return rows.filter(pc.is_in(rows[name], value_set=values)).select(list(columns))

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Read every row."""
        return self.tables[table].select(list(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAfterWrite:
    """The image after the write: committed rows it leaves alone, plus the rows it puts."""

    deltas: Deltas
    committed: CommittedRows
    catalog: Catalog

    def kept_where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Read the committed rows with such a value that stay as they are; `id` is always among the columns."""
        with_id = _with_id(columns)
        delta = self.deltas.of(table)
        if (delta is not None and delta.replaces) or len(values) == 0:
            return self._empty_rows(table, with_id)
        return self._drop_touched(table, self.committed.where(table, name, values, with_id))

    def kept(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Read every committed row that stays as it is."""
        with_id = _with_id(columns)
        delta = self.deltas.of(table)
        if delta is not None and delta.replaces:
            return self._empty_rows(table, with_id)
        return self._drop_touched(table, self.committed.all(table, with_id))

    def _empty_rows(self, table: TableKey, columns: list[str]) -> pa.Table:
        return self.catalog.tables[table].schema.empty_table().select(columns)

    def _drop_touched(self, table: TableKey, rows: pa.Table) -> pa.Table:
        delta = self.deltas.of(table)
        if delta is None or not len(delta.touched) or not rows.num_rows:
            return rows
        return rows.filter(pc.invert(pc.is_in(rows["id"], value_set=delta.touched)))

    def missing_nodes(self, type_name: str, ids: pa.Array) -> pa.Array:
        """List the ids that are not nodes of the type after the write."""
        table = node_key(type_name)
        delta = self.deltas.of(table)
        unknown = pc.unique(ids.drop_null())
        if delta is not None:
            unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=delta.ids)))
        if not len(unknown):
            return unknown
        present = column(self.kept_where(table, "id", unknown, ["id"]), "id")
        return unknown.filter(pc.invert(pc.is_in(unknown, value_set=present)))


def _with_id(columns: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(["id", *columns]))
