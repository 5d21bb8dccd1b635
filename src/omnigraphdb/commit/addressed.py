"""Rows of a delta that are named by version and address, and how they are read when they are staged."""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
import pyarrow as pa

from omnigraphdb.limits import MERGE_COMMITS_MAX
from omnigraphdb.storage.addresses import (
    chunk_rows,
    find_cached,
    rows_at,
    sort_addresses,
    stream_at,
)
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

TRIPLES = pa.schema(
    [
        pa.field("id", pa.string()),
        *(pa.field(side, pa.uint64()) for side in ("base", "source", "target")),
    ]
)
"""One id and its row addresses on the three sides of a merge, null where a side has no row."""

MIXED = TRIPLES.append(pa.field("from_source", pa.list_(pa.bool_())))
"""A row that takes properties from both sides; `from_source` marks the properties of the source."""

CHANGED = pa.schema([pa.field(name, pa.uint64()) for name in ("source", "target", "row_id")])
"""A source row that replaces a row of the target; the address and the row id of the replaced row are null where they
are not known."""

REMOVED = pa.schema([pa.field("id", pa.string()), pa.field("target", pa.uint64())])
"""A row of the target that goes; its address is null where it is not known."""

_NO_ADDRESSES = pa.array([], pa.uint64())


class Follows(StrEnum):
    """Which commit of the same delta comes right before."""

    NOTHING = "nothing"
    APPEND = "append"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedRows:
    """Rows of one version, the source, that come to another, the target; and rows of the target that go."""

    source: TableAt
    target: TableAt
    new: pa.Array = field(default_factory=lambda: _NO_ADDRESSES)
    """Addresses in the source of rows that the target does not have."""
    changed: pa.Table = field(default_factory=CHANGED.empty_table)
    mixed: pa.Table = field(default_factory=MIXED.empty_table)
    properties: tuple[str, ...] = ()
    """The properties that `from_source` of mixed rows marks."""
    removed: pa.Table = field(default_factory=REMOVED.empty_table)
    cached: tuple[pa.Table, ...] = field(default=(), repr=False, compare=False)
    """Rows of the source that were read already, with their addresses."""
    is_adopted: bool = False
    """True when the target is as the source found it, so that nothing had to be merged."""
    takes_over: bool = False
    """True when the rows are appended first and replace the old ones in a second commit."""
    follows: Follows = Follows.NOTHING

    @property
    def counts(self) -> tuple[int, int, int]:
        """Inserts, updates, deletes."""
        updates = self.changed.num_rows + self.mixed.num_rows
        return len(self.new), updates, self.removed.num_rows

    @property
    def is_empty(self) -> bool:
        """Whether the target stays as it is."""
        return not any(self.counts)

    @property
    def replaced_at(self) -> pa.Array:
        """Addresses of the rows that are replaced, null where they are not known."""
        return pa.concat_arrays([column(self.changed, "target"), column(self.mixed, "target")])

    @property
    def replaced_row_ids(self) -> pa.Array:
        """Row ids of the rows that are replaced, null where they are not known."""
        unknown = pa.nulls(self.mixed.num_rows, pa.uint64())
        return pa.concat_arrays([column(self.changed, "row_id"), unknown])

    @property
    def removed_at(self) -> pa.Array:
        """Addresses of the rows that go, null where they are not known."""
        return column(self.removed, "target")

    def only(
        self,
        *,
        new: pa.Array | None = None,
        changed: pa.Table | None = None,
        mixed: pa.Table | None = None,
        removed: pa.Table | None = None,
    ) -> "AddressedRows":
        """Select a part of these rows, for one commit."""
        return replace(
            self,
            new=_NO_ADDRESSES if new is None else new,
            changed=CHANGED.empty_table() if changed is None else changed,
            mixed=MIXED.empty_table() if mixed is None else mixed,
            removed=REMOVED.empty_table() if removed is None else removed,
        )


def cut_replaced(rows: AddressedRows, source: Table) -> Iterator[AddressedRows]:
    """Cut the rows that replace others into parts that fit in memory."""
    for changed in _cut(rows.changed, source):
        yield rows.only(changed=changed)
    for mixed in _cut(rows.mixed, source):
        yield rows.only(mixed=mixed)


def _cut(rows: pa.Table, table: Table) -> Iterator[pa.Table]:
    size = max(chunk_rows(table.schema), -(-rows.num_rows // MERGE_COMMITS_MAX))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


# ---- reading


def stream_source(
    tables: Tables, rows: AddressedRows, addresses: pa.Array, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Stream rows of the source in the order they lie in, from memory if all of them are there."""
    ordered = sort_addresses(addresses)
    cached = find_cached(rows.cached, ordered, names)
    if cached is not None:
        return iter(cached.to_batches())
    return stream_at(tables.open(rows.source), ordered, names)


def read_replacing(tables: Tables, rows: AddressedRows, names: Sequence[str]) -> pa.Table:
    """Read the rows that replace others, in the order of `replaced_at`."""
    parts = []
    if rows.changed.num_rows:
        addresses = column(rows.changed, "source")
        cached = find_cached(rows.cached, addresses, names)
        source = tables.open(rows.source)
        parts.append(
            rows_at(source, addresses, names, BlobForm.INPUT) if cached is None else cached
        )
    if rows.mixed.num_rows:
        parts.append(mix_properties(tables, rows, rows.mixed, names))
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def read_mixed(
    tables: Tables, rows: AddressedRows, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read the rows that take properties from both sides, some at a time."""
    for mixed in _cut(rows.mixed, tables.open(rows.source)):
        yield from mix_properties(tables, rows, mixed, names).to_batches()


def mix_properties(
    tables: Tables, rows: AddressedRows, mixed: pa.Table, names: Sequence[str]
) -> pa.Table:
    """Take every property from the side that changed it; the target's where neither or both did."""
    count = mixed.num_rows
    source, target = tables.open(rows.source), tables.open(rows.target)
    source_rows = rows_at(source, column(mixed, "source"), names, BlobForm.INPUT)
    target_rows = rows_at(target, column(mixed, "target"), names, BlobForm.INPUT)
    marks = column(mixed, "from_source").flatten().to_numpy(zero_copy_only=False).reshape(count, -1)
    changed = dict(zip(rows.properties, marks.T, strict=True)) if count else {}
    columns = []
    for name in source_rows.column_names:
        by_source = changed.get(name, np.zeros(count, dtype=bool))
        picked = pa.array(np.where(by_source, np.arange(count), count + np.arange(count)))
        columns.append(
            pa.concat_arrays([column(source_rows, name), column(target_rows, name)]).take(picked)
        )
    return pa.table(columns, schema=source_rows.schema)
