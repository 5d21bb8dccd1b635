"""Rows by id: streams a table of any size in the order of its ids, while memory holds the ids and a part of the rows."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.names import ROW_ID
from omnigraph.limits import (
    ORDERED_PART_BYTES,
    ORDERED_PARTS_MAX,
    ORDERED_SAMPLE_ROWS,
    ORDERED_STEP_BYTES,
    ORDERED_WIDE_BYTES,
)
from omnigraph.storage.blobs import BlobForm
from omnigraph.storage.tables import Table

_RANK = "__rank"

Ranks = npt.NDArray[np.int64]


def scan_by_id(table: Table, rows: int) -> Iterator[pa.RecordBatch]:
    """Stream every row with its blobs, by id; a table that is small is sorted in memory."""
    sample = table.read(blobs=BlobForm.BYTES, limit=ORDERED_SAMPLE_ROWS)
    width = max(1, sample.nbytes // max(1, sample.num_rows))
    if width * rows <= ORDERED_PART_BYTES:
        return iter(table.scan(order_by_id=True, blobs=BlobForm.BYTES))
    if width >= ORDERED_WIDE_BYTES:
        return _fetch_by_id(table, max(1, ORDERED_STEP_BYTES // width))
    return _sort_parts(table, width, -(-width * rows // ORDERED_PART_BYTES))


def _fetch_by_id(table: Table, step: int) -> Iterator[pa.RecordBatch]:
    """Fetch wide rows one by one in the order of their ids: a scan would hold whole pages of them."""
    found = table.read(["id"], row_id=True)
    ordered = found[ROW_ID].take(pc.sort_indices(found["id"])).combine_chunks()
    del found
    for start in range(0, len(ordered), step):
        yield from table.take(ordered.slice(start, step), blobs=BlobForm.BYTES).to_batches()


def _sort_parts(table: Table, width: int, count: int) -> Iterator[pa.RecordBatch]:
    """Cut narrow rows into parts by the ranks of their ids, in temporary files of this machine, and sort part by part."""
    ranks, step = _rank_ids(table), max(1, ORDERED_STEP_BYTES // width)
    with tempfile.TemporaryDirectory(prefix="omnigraph-export-") as folder:
        parts = _Parts(Path(folder), min(ORDERED_PARTS_MAX, count), len(ranks))
        with parts:
            start = 0
            for batch in table.scan(batch_rows=step, blobs=BlobForm.BYTES):
                parts.add(batch, ranks[start : start + batch.num_rows])
                start += batch.num_rows
        del ranks
        for number in range(min(ORDERED_PARTS_MAX, count)):
            yield from parts.read(number, step)


def _rank_ids(table: Table) -> Ranks:
    """Give every row, in stored order, the place of its id among all ids."""
    order = pc.sort_indices(table.read(["id"])["id"]).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order), dtype=np.int64)
    return ranks


class _Parts:
    """Rows in files by their ranks: each file holds the rows of some ranks that follow one another."""

    def __init__(self, folder: Path, count: int, rows: int) -> None:
        self._folder = folder
        self._size = -(-rows // count)
        self._writers: dict[int, Any] = {}

    def add(self, batch: pa.RecordBatch, ranks: Ranks) -> None:
        """Add rows with their ranks."""
        ranked = batch.append_column(_RANK, pa.array(ranks))
        numbers = ranks // self._size
        for number in np.unique(numbers).tolist():
            self._write(number, ranked.filter(pa.array(numbers == number)))

    def _write(self, number: int, rows: pa.RecordBatch) -> None:
        writer = self._writers.get(number)
        if writer is None:
            writer = self._writers[number] = pa.ipc.new_stream(self._file(number), rows.schema)
        writer.write_batch(rows)

    def _file(self, number: int) -> str:
        return str(self._folder / f"{number}.arrow")

    def read(self, number: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Read one part in order, and remove its file."""
        if number not in self._writers:
            return
        with pa.ipc.open_stream(self._file(number)) as reader:
            rows = reader.read_all()
        Path(self._file(number)).unlink()
        ordered = rows.take(pc.sort_indices(rows[_RANK])).drop_columns([_RANK])
        yield from ordered.to_batches(max_chunksize=batch_rows)

    def __enter__(self) -> "_Parts":
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()
