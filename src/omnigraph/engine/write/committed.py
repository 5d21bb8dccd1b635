"""Committed rows of one view, and which tables were consulted: the read set of a write."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.ids import TableKey, Version
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.blobs import BlobForm
from omnigraph.storage.tables import Table, Tables


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """The rows a write is judged against; every table it looks into is noted."""

    snapshot: Snapshot
    tables: Tables
    consulted: set[TableKey] = field(default_factory=set)

    def table(self, table: TableKey) -> Table:
        """Open a table and note that the write depends on it."""
        self.consulted.add(table)
        return self.tables.open(self.snapshot.entry(table).at)

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Rows whose column holds one of the values."""
        return self.table(table).lookup(name, values, list(columns))

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Every row."""
        return self.table(table).read(list(columns))

    def whole(self, table: TableKey, ids: pa.Array) -> pa.Table:
        """Whole rows by id, blobs included."""
        return self.table(table).lookup("id", ids, blobs=BlobForm.BYTES)

    def read_set(self) -> dict[TableKey, Version]:
        """The version of every table that was consulted."""
        return {table: self.snapshot.entry(table).version for table in sorted(self.consulted)}
