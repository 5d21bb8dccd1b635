"""Committed rows of one snapshot, and the tables that a write consulted: its read set."""

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from omnigraphdb.commit.delta import require_mutation_bytes
from omnigraphdb.engine.cached.ids import CachedIds
from omnigraphdb.ids import TableKey, Version
from omnigraphdb.manifest.snapshot import Snapshot
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRows:
    """The committed rows that rules look at. A table that was consulted must not move before the publish."""

    snapshot: Snapshot
    tables: Tables
    cached_ids: CachedIds | None = None
    """Answers whether an id exists without a lookup; a merge, which consults many tables once, has none."""
    consulted: set[TableKey] = field(default_factory=set)

    def table(self, table: TableKey) -> Table:
        """Open a table and note that the write depends on it."""
        self.consulted.add(table)
        return self.tables.open(self.snapshot.entry(table).at)

    def where(
        self, table: TableKey, name: str, values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """Return the rows whose column holds one of the values."""
        if name == "id" and list(columns) == ["id"]:
            ids = self._find_cached(table, values)
            if ids is not None:
                return pa.table({"id": ids})
        return self.table(table).lookup(name, values, list(columns))

    def all(self, table: TableKey, columns: Sequence[str]) -> pa.Table:
        """Return every row."""
        return self.table(table).read(list(columns))

    def holds_none_of(self, table: TableKey, ids: pa.Array) -> bool:
        """Whether the cached ids of a table show that it holds no id of these; nothing is looked up to find out."""
        existing_ids = self._find_cached(table, ids)
        return existing_ids is not None and not len(existing_ids)

    def matching(
        self, table: TableKey, columns: Sequence[str], filter: str | None = None
    ) -> pa.Table:
        """Return the rows that a filter lets through, as many as one mutation may hold."""
        source = self.table(table).scan(list(columns), filter, blobs=BlobForm.BYTES)
        batches: list[pa.RecordBatch] = []
        size = 0
        for batch in source:
            batches.append(batch)
            size += batch.nbytes
            require_mutation_bytes(size)
        return pa.Table.from_batches(batches, source.schema)

    def whole(self, table: TableKey, ids: pa.Array) -> pa.Table:
        """Return whole rows by id, blobs included."""
        return self.table(table).lookup("id", ids, blobs=BlobForm.BYTES)

    def read_set(self) -> dict[TableKey, Version]:
        """Return the version of every table that was consulted."""
        return {table: self.snapshot.entry(table).version for table in sorted(self.consulted)}

    def _find_cached(self, table: TableKey, ids: pa.Array) -> pa.Array | None:
        self.consulted.add(table)
        if self.cached_ids is None:
            return None
        return self.cached_ids.find_existing(self.snapshot.entry(table), self.tables, ids)
