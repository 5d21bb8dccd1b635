"""The rows a merge is judged against: those of the target, with a note of every table that was looked into."""

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from omnigraph.ids import TableKey, Version
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.storage.tables import Table, Tables
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Committed rows of the target; what a verdict relied on must not have moved when it is published."""

    snapshot: Snapshot
    tables: Tables
    consulted: set[TableKey] = field(default_factory=set)

    def table(self, table: TableKey) -> Table:
        """Open a table and note it."""
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

    def read_set(self) -> dict[TableKey, Version]:
        """The version of every table that was looked into."""
        return {table: self.snapshot.entry(table).version for table in sorted(self.consulted)}
