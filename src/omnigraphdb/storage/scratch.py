"""Rows that a long operation keeps beside the tables while it runs: each file is written once, read by anyone, then removed."""

from collections.abc import Sequence

import pyarrow as pa
from lance.file import LanceFileWriter

from omnigraphdb.limits import SCAN_BATCH_ROWS
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.faults import translate_faults
from omnigraphdb.storage.lance.new_files import require_whole_file
from omnigraphdb.storage.lance.row_files import read_row_file
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class Scratch:
    """Files of rows under one root; paths are relative to it."""

    datasets: Datasets

    def new_id(self) -> str:
        """Make a fresh part of a name."""
        return self.datasets.runtime.new_id()

    def write(self, path: str, rows: pa.Table) -> None:
        """Write a file; it is whole once this returns."""
        with translate_faults(StoreAction.WRITE, self.datasets.location(path, None)):
            file = LanceFileWriter(
                self.datasets.uri(path), rows.schema, storage_options=self.datasets.options
            )
            with file:
                for batch in rows.to_batches(max_chunksize=SCAN_BATCH_ROWS):
                    file.write_batch(batch)
            require_whole_file(self.datasets.root, path)

    def read(
        self,
        path: str,
        columns: Sequence[str] | None = None,
        *,
        start: int = 0,
        rows: int | None = None,
    ) -> pa.Table:
        """Read some columns of a file, or of so many of its rows."""
        return read_row_file(self.datasets, path, columns, start=start, rows=rows)
