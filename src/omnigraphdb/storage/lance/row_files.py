"""Single Lance files of rows, read without a table: scratch files, and fragments that no one committed."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from lance.file import LanceFileReader

from omnigraphdb.limits import SCAN_BATCH_ROWS
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.faults import translate_faults
from omnigraphdb.storage.objects.faults import StoreAction


def read_row_file(
    datasets: Datasets,
    path: str,
    columns: Sequence[str] | None = None,
    *,
    start: int = 0,
    rows: int | None = None,
) -> pa.Table:
    """Read some columns of a file, or of so many of its rows; the path is relative to the graph root."""
    with translate_faults(StoreAction.READ, datasets.location(path, None)):
        names = None if columns is None else list(columns)
        file = LanceFileReader(datasets.uri(path), datasets.options, names)
        count = file.metadata().num_rows - start if rows is None else rows
        if not count:
            return file.read_all(batch_size=SCAN_BATCH_ROWS).to_table().slice(0, 0)
        return file.read_range(start, count, batch_size=SCAN_BATCH_ROWS).to_table()


def read_row_batches(datasets: Datasets, path: str) -> Iterator[pa.RecordBatch]:
    """Read a whole file, some rows at a time; the path is relative to the graph root."""
    with translate_faults(StoreAction.READ, datasets.location(path, None)):
        file = LanceFileReader(datasets.uri(path), datasets.options)
        if file.metadata().num_rows:
            yield from file.read_all(batch_size=SCAN_BATCH_ROWS).to_batches()
