"""Rows by id: streams a table of any size in the order of its ids, while memory holds a part of the rows."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.limits import (
    ORDERED_IDS_A_PART,
    ORDERED_PART_BYTES,
    ORDERED_PARTS_MAX,
    ORDERED_SAMPLE_ROWS,
    ORDERED_STEP_BYTES,
    ORDERED_WIDE_BYTES,
)
from omnigraphdb.pipeline.memory import release_freed
from omnigraphdb.storage.blobs import BlobForm
from omnigraphdb.storage.tables import Table


def scan_by_id(table: Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Stream every row with its blobs, by id; a table that is small is sorted in memory."""
    sample = table.read(blobs=BlobForm.BYTES, limit=ORDERED_SAMPLE_ROWS)
    width = _measure_width(sample)
    if width * rows <= ORDERED_PART_BYTES:
        return iter(table.scan(order_by_id=True, blobs=BlobForm.BYTES))
    if width >= ORDERED_WIDE_BYTES:
        return _fetch_by_id(table, rows, sample)
    return _sort_rows(table, rows, width)


def _measure_width(sample: pa.Table) -> int:
    return int(max(1, sample.nbytes // max(1, sample.num_rows)))


def _fetch_by_id(table: Table, rows: int, sample: pa.Table) -> Iterator[pa.RecordBatch]:
    """Fetch wide rows one by one in the order of their ids: a scan would hold whole pages of them."""
    step = max(1, ORDERED_STEP_BYTES // _measure_width(sample))
    width = _measure_width(sample.select(["id"])) + pa.uint64().byte_width
    scanned = table.scan(["id"], row_id=True, bounded=True)
    for part in _sort_parts(table, rows, width, scanned):
        ordered = part[ROW_ID].combine_chunks()
        for start in range(0, len(ordered), step):
            yield from table.take(ordered.slice(start, step), blobs=BlobForm.BYTES).to_batches()


def _sort_rows(table: Table, rows: int, width: int) -> Iterator[pa.RecordBatch]:
    """Sort narrow rows: they are read once, since fetching them one by one would read every page many times."""
    step = max(1, ORDERED_STEP_BYTES // width)
    scanned = table.scan(batch_rows=step, blobs=BlobForm.BYTES, bounded=True)
    for part in _sort_parts(table, rows, width, scanned):
        yield from part.to_batches(max_chunksize=step)


def _sort_parts(
    table: Table, rows: int, width: int, scanned: pa.RecordBatchReader
) -> Iterator[pa.Table]:
    """Cut rows into parts by their ids, in temporary files of this machine, and give part by part, each sorted."""
    bounds = _choose_bounds(table, rows, -(-width * rows // ORDERED_PART_BYTES))
    with tempfile.TemporaryDirectory(prefix="omnigraph-export-") as folder:
        with _Parts(Path(folder), bounds) as parts:
            for batch in scanned:
                parts.add(batch)
        for number in range(len(bounds) + 1):
            # Allocators keep what the scan and earlier parts freed.
            release_freed()
            yield from parts.take(number)


def _choose_bounds(table: Table, rows: int, parts: int) -> pa.Array:
    """Choose the first ids of all parts but the first, by a sample: ids are unique, so that parts have about the same size."""
    count = min(ORDERED_PARTS_MAX, parts)
    # Positions at regular distances would all meet ids of one kind where ids repeat a pattern.
    random_rows = np.random.default_rng(0).integers(0, max(1, rows), count * ORDERED_IDS_A_PART)
    positions = np.unique(random_rows)
    seen, sampled = 0, []
    for batch in table.scan(["id"], bounded=True):
        first, end = np.searchsorted(positions, [seen, seen + batch.num_rows])
        sampled.append(batch["id"].take(pa.array(positions[first:end] - seen)))
        seen += batch.num_rows
    ids = pa.concat_arrays(sampled)
    ordered = ids.take(pc.sort_indices(ids))
    firsts = np.unique(np.linspace(0, len(ordered), count, endpoint=False, dtype=np.int64))
    return ordered.take(pa.array(firsts[1:]))


class _Parts:
    """Rows in files by their ids: each file holds the rows between two bounds."""

    def __init__(self, folder: Path, bounds: pa.Array) -> None:
        self._folder = folder
        self._bounds = bounds
        self._writers: dict[int, Any] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, each to the file of its part."""
        positions = pc.search_sorted(self._bounds, batch["id"], side="right")
        numbers = positions.to_numpy().astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        grouped = batch.take(pa.array(order))
        starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            self._write(int(numbers[order[start]]), grouped.slice(start, end - start))

    def _write(self, number: int, rows: pa.RecordBatch) -> None:
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = pa.ipc.new_stream(self._file(number), rows.schema)
        writer.write_batch(rows)

    def _file(self, number: int) -> str:
        return str(self._folder / f"{number}.arrow")

    def take(self, number: int) -> Iterator[pa.Table]:
        """Give the rows of one part by id, and remove its file; a part may be empty."""
        if number not in self._writers:
            return
        with pa.ipc.open_stream(self._file(number)) as reader:
            rows = reader.read_all()
        Path(self._file(number)).unlink()
        yield rows.take(pc.sort_indices(rows["id"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()
