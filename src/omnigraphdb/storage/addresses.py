"""Rows of one table version by address: a few from anywhere, or many as a stream."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import ROW_ADDRESS, ROW_ID
from omnigraphdb.limits import (
    ADDRESSES_MAX,
    COMPARE_BYTES_MAX,
    COMPARE_ROWS_MAX,
    COPY_ROWS_MIN,
)
from omnigraphdb.storage.arrow import column
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Table

_NARROW_BYTES: Final = 32
"""The bytes of a value whose type does not tell its size."""
_SCAN_PART: Final = 4
"""A fragment is read whole when at least one in this many of its rows is wanted."""

Addresses = Any
"""A NumPy array of row addresses: fragment number in the upper half, row offset in the lower."""


def rows_at(
    table: Table,
    addresses: pa.Array,
    names: Sequence[str] | None = None,
    blobs: BlobForm = BlobForm.DESCRIPTOR,
    *,
    row_id: bool = False,
) -> pa.Table:
    """Fetch rows by address, in the order asked; no index of row ids has to be built for it."""
    row_addresses = addresses_of(addresses)
    columns = list(table.schema.names if names is None else names)
    if not len(row_addresses):
        return table.read(columns, blobs=blobs, limit=0, row_id=row_id)
    fetched = _fetch_rows(table, np.sort(row_addresses), columns, blobs, row_id=row_id)
    rows = pa.concat_tables([part for part in fetched if part.num_rows])
    positions = pc.index_in(pa.array(row_addresses), value_set=column(rows, ROW_ADDRESS))
    return rows.take(positions).select([*columns, ROW_ID] if row_id else columns)


def _fetch_rows(
    table: Table, addresses: Addresses, names: list[str], blobs: BlobForm, *, row_id: bool
) -> Iterator[pa.Table]:
    dense, sparse = _split(table, addresses)
    if dense:
        rows = table.read(names, row_address=True, row_id=row_id, fragments=dense, blobs=blobs)
        yield rows.filter(pc.is_in(rows[ROW_ADDRESS], value_set=pa.array(addresses)))
    spans, scattered = _split_spans(sparse)
    for first, last in spans:
        span = f"{ROW_ADDRESS} >= {first} AND {ROW_ADDRESS} <= {last}"
        within = [first >> 32]
        yield table.read(
            names, span, row_address=True, row_id=row_id, fragments=within, blobs=blobs
        )
    for start in range(0, len(scattered), ADDRESSES_MAX):
        condition = _spell_filter(scattered[start : start + ADDRESSES_MAX])
        yield table.read(names, condition, row_address=True, row_id=row_id, blobs=blobs)


def _split_spans(addresses: Addresses) -> tuple[list[tuple[int, int]], Addresses]:
    """Split sorted addresses: the first and last of every long run of neighbours, and the other addresses."""
    starts = np.flatnonzero(np.diff(addresses, prepend=addresses[:1]) != 1)
    lengths = np.diff(starts, append=len(addresses))
    is_long = lengths >= ADDRESSES_MAX
    firsts = addresses[starts[is_long]].tolist()
    lasts = addresses[starts[is_long] + lengths[is_long] - 1].tolist()
    return list(zip(firsts, lasts, strict=True)), addresses[~np.repeat(is_long, lengths)]


def _spell_filter(addresses: Addresses) -> str:
    return f"{ROW_ADDRESS} IN ({', '.join(map(str, addresses.tolist()))})"


def stream_at(table: Table, addresses: pa.Array, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Stream whole rows, fit to be staged, in the order they lie in; a bounded number is held."""
    step = chunk_rows(table.schema, names)
    dense, sparse = _split(table, np.sort(addresses_of(addresses)))
    if dense:
        ordered = pa.array(np.sort(addresses_of(addresses)))
        source = table.scan(
            list(names), row_address=True, fragments=dense, blobs=BlobForm.INPUT, batch_rows=step
        )
        for batch in source:
            rows = batch.filter(pc.is_in(batch.column(ROW_ADDRESS), value_set=ordered))
            if rows.num_rows:
                yield rows.select(list(names))
    for start in range(0, len(sparse), step):
        part = pa.array(sparse[start : start + step])
        yield from rows_at(table, part, names, BlobForm.INPUT).to_batches()


def _split(table: Table, addresses: Addresses) -> tuple[list[int], Addresses]:
    """Split addresses into the fragments worth reading whole, and the addresses in the others."""
    numbers, counts = np.unique(addresses >> np.uint64(32), return_counts=True)
    sizes = {part.id: part.physical_rows for part in table.fragments()}
    dense = [
        int(number)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        if count * _SCAN_PART >= sizes.get(number, 0)
    ]
    sparse = addresses[~np.isin(addresses >> np.uint64(32), np.array(dense, dtype=np.uint64))]
    return dense, sparse


def stream_rows_at(
    table: Table,
    addresses: pa.Array,
    names: Sequence[str],
    step: int,
    blobs: BlobForm = BlobForm.DESCRIPTOR,
    *,
    row_id: bool = False,
) -> Iterator[pa.Table]:
    """Stream rows with their addresses, mostly in the order they lie in, at most `step` of them at a time."""
    ordered = np.sort(addresses_of(addresses))
    dense, sparse = _split(table, ordered)
    if dense:
        source = table.scan(
            list(names),
            row_address=True,
            row_id=row_id,
            fragments=dense,
            blobs=blobs,
            batch_rows=step,
        )
        for batch in source:
            matches = batch.filter(pa.array(_mark_wanted(batch.column(ROW_ADDRESS), ordered)))
            if matches.num_rows:
                yield pa.Table.from_batches([matches])
    for start in range(0, len(sparse), step):
        part = pa.array(sparse[start : start + step])
        rows = rows_at(table, part, names, blobs, row_id=row_id)
        yield rows.append_column(ROW_ADDRESS, part)


def _mark_wanted(addresses: pa.Array, ordered: Addresses) -> Any:
    """Mark the addresses that are among the sorted ones."""
    numbers = addresses_of(addresses)
    positions = np.minimum(np.searchsorted(ordered, numbers), max(0, len(ordered) - 1))
    return ordered[positions] == numbers


def whole_fragments(table: Table, addresses: pa.Array) -> tuple[list[int], pa.Array]:
    """List the fragments whose rows are all addressed and worth keeping as they are, and the other addresses.

    Small fragments are better written together, unless there is only one.
    """
    row_addresses = addresses_of(addresses)
    numbers, counts = np.unique(row_addresses >> np.uint64(32), return_counts=True)
    sizes = {part.id: part.physical_rows for part in table.fragments()}
    fragment_ids = [
        number
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        if count == sizes.get(number) and (count >= COPY_ROWS_MIN or len(numbers) == 1)
    ]
    others = ~np.isin(row_addresses >> np.uint64(32), np.array(fragment_ids, dtype=np.uint64))
    return fragment_ids, pa.array(row_addresses[others], pa.uint64())


def chunk_rows(schema: pa.Schema, names: Sequence[str] | None = None) -> int:
    """Return the number of whole rows of a table that are held at once."""
    return max(1, min(COMPARE_ROWS_MAX, COMPARE_BYTES_MAX // row_bytes(schema, names)))


def row_bytes(schema: pa.Schema, names: Sequence[str] | None = None) -> int:
    """Estimate the bytes of a row from the types of its columns."""
    fields = [field for field in schema if names is None or field.name in names]
    return max(1, sum(_width(field.type) for field in fields))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size * max(1, kind.value_type.bit_width // 8))
    return _NARROW_BYTES


def addresses_of(addresses: pa.Array) -> Addresses:
    """Convert addresses to NumPy numbers."""
    return addresses.to_numpy(zero_copy_only=False).astype(np.uint64)


def sort_addresses(addresses: pa.Array) -> pa.Array:
    """Sort addresses in the order the rows lie in."""
    return pa.array(np.sort(addresses_of(addresses)))


def find_cached(
    cached: Iterable[pa.Table], addresses: pa.Array, names: Sequence[str]
) -> pa.Table | None:
    """Find rows by address among tables that were read with their addresses; None unless one table has all of them."""
    for rows in cached:
        if set(names) <= set(rows.column_names):
            present, selected = column(rows, ROW_ADDRESS), rows.select(list(names))
            if present.equals(addresses):
                return selected
            positions = pc.index_in(addresses, value_set=present)
            if not positions.null_count:
                return selected.take(positions)
    return None


# ---- addresses in a later version


def find_addresses_in(before: Table, now: Table, rows: pa.Array) -> pa.Array:
    """Return the address of every row in the later version: the same, null where its fragment was rewritten."""
    if before.at == now.at:
        return rows
    current_files = {part.id: part.files for part in now.fragments()}
    unchanged_ids = [
        part.id for part in before.fragments() if current_files.get(part.id) == part.files
    ]
    # Nulls are set apart first: with them the numbers would pass through floats and lose their ends.
    numbers = addresses_of(pc.fill_null(rows, 0))
    is_unchanged = np.isin(numbers >> np.uint64(32), np.array(unchanged_ids, dtype=np.uint64))
    return pa.array(numbers, pa.uint64(), mask=~(is_unchanged & rows.is_valid().to_numpy(False)))
