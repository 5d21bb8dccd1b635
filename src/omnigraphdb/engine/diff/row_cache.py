"""The row cache: rows of table versions that a comparison reads more than once, while they are few."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from omnigraphdb.storage.addresses import (
    find_cached,
    row_bytes,
    rows_at,
    sort_addresses,
    stream_at,
)
from omnigraphdb.storage.blobs import BlobForm, is_blob
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import TableAt

_UNPACKED: Final = 4
"""The size of values in memory, relative to their size on disk."""


class RowCache:
    """Reads rows by address, from memory if they were put there; bounded by bytes, and by default empty.

    `implied` names, by the path of a table, columns that the id determines: rows with one id do not differ in them.
    """

    def __init__(
        self, bytes_max: int = 0, implied: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._room = bytes_max
        self._implied = implied or {}
        self._rows: dict[TableAt, list[pa.Table]] = {}

    def implied(self, table: Table) -> Sequence[str]:
        """List the columns of a table, besides the id, that need no comparison."""
        return self._implied.get(table.at.path, ())

    def columns(self, table: Table, rows: int) -> list[str]:
        """List the columns to read of so many rows whose ids are read: all columns that fit here, if the rows are few."""
        if not self._room or rows * _row_bytes(table) > self._room:
            return ["id"]
        return [field.name for field in table.schema if not is_blob(field.type)]

    def put(self, table: Table, rows: pa.Table) -> None:
        """Cache rows with their addresses, if there is room."""
        if rows.nbytes <= self._room:
            self._room -= rows.nbytes
            self._rows.setdefault(table.at, []).append(rows)

    def rows(
        self,
        table: Table,
        addresses: pa.Array,
        names: Sequence[str],
        blobs: BlobForm = BlobForm.DESCRIPTOR,
    ) -> pa.Table:
        """Read rows as `rows_at` does."""
        find_rows = self.find_rows(table, addresses, names)
        return rows_at(table, addresses, names, blobs) if find_rows is None else find_rows

    def stream(
        self, table: Table, addresses: pa.Array, names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows as `stream_at` does."""
        ordered = sort_addresses(addresses)
        cached = self.find_rows(table, ordered, names)
        return stream_at(table, ordered, names) if cached is None else iter(cached.to_batches())

    def find_rows(self, table: Table, addresses: pa.Array, names: Sequence[str]) -> pa.Table | None:
        """Find rows by address; None unless all of them are cached."""
        return find_cached(self.tables(table.at), addresses, names)

    def tables(self, at: TableAt) -> tuple[pa.Table, ...]:
        """Return the cached rows of a version, with their addresses."""
        return tuple(self._rows.get(at, ()))


def _row_bytes(table: Table) -> int:
    """Estimate the size of a row in memory, by its types and by the size of rows on disk."""
    parts = table.fragments()
    stored = sum(part.bytes for part in parts) // max(1, sum(part.physical_rows for part in parts))
    return max(row_bytes(table.schema), _UNPACKED * stored)


NO_ROW_CACHE: Final = RowCache()
"""Caches nothing: for a caller that reads rows once."""
