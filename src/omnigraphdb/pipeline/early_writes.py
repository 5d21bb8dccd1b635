"""Rows that are checked and written before their load begins, by tasks that hold them; the load joins only their keys."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.model import Catalog, EdgeType, TableType
from omnigraphdb.commit.delta import DeltaKind
from omnigraphdb.ids import TableKey
from omnigraphdb.limits import BESIDE_ROWS_BYTES, LOOKUP_ROWS_PER_VALUE, SCAN_BATCH_ROWS
from omnigraphdb.pipeline.checks import LoadProcess, LoadSpec, check_frame, make_id_range
from omnigraphdb.pipeline.input.read import POSITION, with_ids
from omnigraphdb.pipeline.input.splits import CheckedRows, SplitDraft
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.blobs import is_blob
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import Incarnation, TableAt
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """The type that rows are written for: its schema and its table version, as they were when the write began."""

    location: StoreLocation
    catalog: Catalog
    schema_hash: str
    table_key: TableKey
    at: TableAt
    rows: int
    """The number of committed rows."""
    owned: bool
    """True if the branch has files of its own; a table that must be forked first gets its fragments in the load."""
    incarnation: Incarnation
    """The incarnation of the branch: fragments lie beside it, and go when it is deleted."""

    @property
    def type(self) -> TableType:
        """The type of the rows."""
        return self.catalog.tables[self.table_key]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyWriter:
    """Writes rows of one load, part by part; every part becomes portions that the load takes as they are."""

    target: WriteTarget
    kind: DeltaKind
    seed: str
    """The operation id of the write: a process opens the store once for each."""
    area: str

    def write(self, frame: pa.Table) -> tuple[SplitDraft, ...] | None:
        """Check and write a part; None when anything is wrong with it, which the load then reports with all the rest."""
        load = self._make_spec()
        rows = check_frame(load, self.target.type, frame)
        return None if rows is None else tuple(self._write_rows(load, rows))

    def _make_spec(self) -> LoadSpec:
        target = self.target
        return LoadSpec(
            location=target.location,
            process=LoadProcess(),
            catalog=target.catalog,
            kind=self.kind,
            seed=self.seed,
            area=self.area,
        )

    def _write_rows(self, load: LoadSpec, rows: pa.Table) -> Iterator[SplitDraft]:
        """Write new rows as fragments; rows that replace committed ones wait, since they take over row ids."""
        store = load.store()
        is_committed = self._find_committed(rows, store)
        if is_committed is None:
            yield self._write_new(load, rows, store)
            return
        new, replacing = rows.filter(pc.invert(is_committed)), rows.filter(is_committed)
        if new.num_rows:
            yield self._write_new(load, new, store)
        for part in _cut_rows(replacing):
            yield self._write_waiting(load, part, store)

    def _find_committed(self, rows: pa.Table, store: Store) -> pa.Array | None:
        """Mark the rows whose id is committed; None when there are none.

        The load joins the keys again, so a row that another writer commits meanwhile costs time and nothing else.
        """
        ids = column(rows, "id")
        if self.kind is not DeltaKind.MERGE or not self.target.rows or ids.null_count == len(ids):
            return None
        committed_ids = _find_committed(store.tables.open(self.target.at), ids, self.target.rows)
        return (
            pc.is_in(ids, value_set=committed_ids, skip_nulls=True) if len(committed_ids) else None
        )

    def _write_new(self, load: LoadSpec, rows: pa.Table, store: Store) -> SplitDraft:
        target, type_ = self.target, self.target.type
        # Superseded rows of a merge are dropped by reading their fragment again, which does not give back blobs.
        rewritable = not any(is_blob(field.type) for field in type_.schema)
        if not target.owned or (self.kind is DeltaKind.MERGE and not rewritable):
            return self._write_waiting(load, rows, store)
        numbered = rows.append_column(POSITION, pa.array(np.arange(rows.num_rows), pa.int64()))
        stored_rows = (
            with_ids(numbered, SYSTEM.new_id()).select(type_.schema.names).cast(type_.schema)
        )
        written = store.tables.write(target.at, stored_rows)
        waiting = self._write_waiting(load, rows.select(["id", *_list_keys(type_)]), store)
        assert isinstance(waiting.content, CheckedRows), "waiting rows are checked"
        return replace(
            waiting, content=replace(waiting.content, written=written), bytes=rows.nbytes
        )

    def _write_waiting(self, load: LoadSpec, rows: pa.Table, store: Store) -> SplitDraft:
        names = tuple(name for name in rows.column_names if name != "id")
        content = CheckedRows(
            path=load.write_scratch(store, self.target.type.name, rows),
            columns=names,
            ids=make_id_range(column(rows, "id")),
            at=self.target.at,
        )
        return SplitDraft(content, rows.nbytes, rows.num_rows)


def _cut_rows(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows that replace committed ones into parts of which the process that commits reads one at a time."""
    step = max(1, BESIDE_ROWS_BYTES * rows.num_rows // max(1, rows.nbytes))
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))


def _list_keys(type_: TableType) -> list[str]:
    """List the columns beside `id` that rules about several rows need."""
    endpoints = ("src", "dst") if isinstance(type_, EdgeType) else ()
    unique = (name for group in type_.unique for name in group.columns)
    return [name for name in dict.fromkeys((*endpoints, *unique)) if name != "id"]


def _find_committed(table: Table, ids: pa.Array, committed: int) -> pa.Array:
    """Find the ids that are committed, by the index or by a scan that holds one batch at a time."""
    if committed > LOOKUP_ROWS_PER_VALUE * len(ids):
        return column(table.lookup("id", ids.drop_null(), ("id",)), "id")
    batch_ids = [
        batch.column(0).filter(pc.is_in(batch.column(0), value_set=ids))
        for batch in table.scan(["id"], batch_rows=SCAN_BATCH_ROWS)
    ]
    return pa.concat_arrays([pa.array([], pa.string()), *batch_ids])
