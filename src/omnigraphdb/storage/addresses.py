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
"""What a value takes whose type does not say."""
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
    wanted = addresses_of(addresses)
    shown = list(table.schema.names if names is None else names)
    if not len(wanted):
        return table.read(shown, blobs=blobs, limit=0, row_id=row_id)
    fetched = _fetch_rows(table, np.sort(wanted), shown, blobs, row_id=row_id)
    found = pa.concat_tables([part for part in fetched if part.num_rows])
    positions = pc.index_in(pa.array(wanted), value_set=column(found, ROW_ADDRESS))
    return found.take(positions).select([*shown, ROW_ID] if row_id else shown)


def _fetch_rows(
    table: Table, wanted: Addresses, names: list[str], blobs: BlobForm, *, row_id: bool
) -> Iterator[pa.Table]:
    dense, sparse = _split(table, wanted)
    if dense:
        rows = table.read(names, row_address=True, row_id=row_id, fragments=dense, blobs=blobs)
        yield rows.filter(pc.is_in(rows[ROW_ADDRESS], value_set=pa.array(wanted)))
    spans, scattered = _split_spans(sparse)
    for first, last in spans:
        span = f"{ROW_ADDRESS} >= {first} AND {ROW_ADDRESS} <= {last}"
        within = [first >> 32]
        yield table.read(
            names, span, row_address=True, row_id=row_id, fragments=within, blobs=blobs
        )
    for start in range(0, len(scattered), ADDRESSES_MAX):
        listed = _spell_filter(scattered[start : start + ADDRESSES_MAX])
        yield table.read(names, listed, row_address=True, row_id=row_id, blobs=blobs)


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
    """Give whole rows, fit to be staged, in the order they lie in; a bounded number is held."""
    step = chunk_rows(table.schema, names)
    dense, sparse = _split(table, np.sort(addresses_of(addresses)))
    if dense:
        wanted = pa.array(np.sort(addresses_of(addresses)))
        source = table.scan(
            list(names), row_address=True, fragments=dense, blobs=BlobForm.INPUT, batch_rows=step
        )
        for batch in source:
            kept = batch.filter(pc.is_in(batch.column(ROW_ADDRESS), value_set=wanted))
            if kept.num_rows:
                yield kept.select(list(names))
    for start in range(0, len(sparse), step):
        part = pa.array(sparse[start : start + step])
        yield from rows_at(table, part, names, BlobForm.INPUT).to_batches()


def _split(table: Table, wanted: Addresses) -> tuple[list[int], Addresses]:
    """Fragments worth reading whole, and the addresses in the others."""
    numbers, counts = np.unique(wanted >> np.uint64(32), return_counts=True)
    sizes = {part.id: part.physical_rows for part in table.fragments()}
    dense = [
        int(number)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        if count * _SCAN_PART >= sizes.get(number, 0)
    ]
    sparse = wanted[~np.isin(wanted >> np.uint64(32), np.array(dense, dtype=np.uint64))]
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
    wanted = np.sort(addresses_of(addresses))
    dense, sparse = _split(table, wanted)
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
            kept = batch.filter(pa.array(_mark_wanted(batch.column(ROW_ADDRESS), wanted)))
            if kept.num_rows:
                yield pa.Table.from_batches([kept])
    for start in range(0, len(sparse), step):
        part = pa.array(sparse[start : start + step])
        rows = rows_at(table, part, names, blobs, row_id=row_id)
        yield rows.append_column(ROW_ADDRESS, part)


def _mark_wanted(addresses: pa.Array, wanted: Addresses) -> Any:
    """Mark the addresses that are among sorted ones."""
    numbers = addresses_of(addresses)
    at = np.minimum(np.searchsorted(wanted, numbers), max(0, len(wanted) - 1))
    return wanted[at] == numbers


def whole_fragments(table: Table, addresses: pa.Array) -> tuple[list[int], pa.Array]:
    """Fragments all of whose rows are wanted and that are worth keeping as they are, and the other addresses.

    Small ones are better written together, unless there is only one.
    """
    wanted = addresses_of(addresses)
    numbers, counts = np.unique(wanted >> np.uint64(32), return_counts=True)
    sizes = {part.id: part.physical_rows for part in table.fragments()}
    whole = [
        number
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        if count == sizes.get(number) and (count >= COPY_ROWS_MIN or len(numbers) == 1)
    ]
    others = ~np.isin(wanted >> np.uint64(32), np.array(whole, dtype=np.uint64))
    return whole, pa.array(wanted[others], pa.uint64())


def chunk_rows(schema: pa.Schema, names: Sequence[str] | None = None) -> int:
    """How many whole rows of a table are held at once."""
    return max(1, min(COMPARE_ROWS_MAX, COMPARE_BYTES_MAX // row_bytes(schema, names)))


def row_bytes(schema: pa.Schema, names: Sequence[str] | None = None) -> int:
    """What a row takes, as far as types tell."""
    shown = [field for field in schema if names is None or field.name in names]
    return max(1, sum(_width(field.type) for field in shown))


def _width(kind: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size * max(1, kind.value_type.bit_width // 8))
    return _NARROW_BYTES


def addresses_of(addresses: pa.Array) -> Addresses:
    """The same as NumPy numbers."""
    return addresses.to_numpy(zero_copy_only=False).astype(np.uint64)


def sort_addresses(addresses: pa.Array) -> pa.Array:
    """The same addresses in the order the rows lie in."""
    return pa.array(np.sort(addresses_of(addresses)))


def find_cached(
    cached: Iterable[pa.Table], addresses: pa.Array, names: Sequence[str]
) -> pa.Table | None:
    """Find rows by address among tables that were read with their addresses; None unless one has all of them."""
    for rows in cached:
        if set(names) <= set(rows.column_names):
            present, chosen = column(rows, ROW_ADDRESS), rows.select(list(names))
            if present.equals(addresses):
                return chosen
            positions = pc.index_in(addresses, value_set=present)
            if not positions.null_count:
                return chosen.take(positions)
    return None


# ---- addresses in a later version


def find_addresses_in(before: Table, now: Table, rows: pa.Array) -> pa.Array:
    """Give the address of every row in the later version: the same, null where its fragment was rewritten."""
    if before.at == now.at:
        return rows
    here = {part.id: part.files for part in now.fragments()}
    kept = [part.id for part in before.fragments() if here.get(part.id) == part.files]
    # Nulls are set apart first: with them the numbers would pass through floats and lose their ends.
    numbers = addresses_of(pc.fill_null(rows, 0))
    there = np.isin(numbers >> np.uint64(32), np.array(kept, dtype=np.uint64))
    return pa.array(numbers, pa.uint64(), mask=~(there & rows.is_valid().to_numpy(False)))
