"""Blob columns of what Lance read, brought into the form that was asked for."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from omnigraph.catalog.names import ROW_ID
from omnigraph.storage.blobs import (
    BLOB_DESCRIPTOR,
    BLOB_INPUT,
    BlobForm,
    as_descriptor,
    is_external,
    restage_blobs,
)
from omnigraph.storage.lance.faults import TableLocation, translate_faults
from omnigraph.storage.lance.physical import blob_columns
from omnigraph.storage.objects.faults import StoreAction

_SHOWN: Final = {
    BlobForm.DESCRIPTOR: BLOB_DESCRIPTOR,
    BlobForm.BYTES: pa.large_binary(),
    BlobForm.INPUT: BLOB_INPUT,
}


class BlobReads:
    """The Blob columns of one opened version; a table without any costs nothing."""

    __slots__ = ("_dataset", "_location", "_names")

    def __init__(self, dataset: LanceDataset, schema: pa.Schema, location: TableLocation) -> None:
        self._dataset = dataset
        self._location = location
        self._names = frozenset(blob_columns(schema))

    def among(self, names: Sequence[str]) -> bool:
        """Tell whether any of these columns is a Blob."""
        return not self._names.isdisjoint(names)

    def needs_row_id(self, names: Sequence[str], form: BlobForm) -> bool:
        """Tell whether bytes must be fetched row by row."""
        return form is not BlobForm.DESCRIPTOR and self.among(names)

    def shown(self, stored: pa.Schema, form: BlobForm, *, row_id: bool) -> pa.Schema:
        """The schema of what is given; a row id that was only needed on the way is left out."""
        fields = [
            pa.field(f.name, _SHOWN[form]) if f.name in self._names else f
            for f in stored
            if row_id or f.name != ROW_ID
        ]
        return pa.schema(fields)

    def table(self, rows: pa.Table, form: BlobForm, *, row_id: bool) -> pa.Table:
        """Bring a table into the form; without Blob columns it stays as it is."""
        if not self.among(rows.column_names):
            return rows
        shown = self.shown(rows.schema, form, row_id=row_id)
        batches = [self._batch(batch, shown, form) for batch in rows.to_batches()]
        return pa.Table.from_batches(batches, shown)

    def stream(
        self, source: pa.RecordBatchReader, form: BlobForm, *, row_id: bool
    ) -> pa.RecordBatchReader:
        """Bring a stream into the form, and its failures into our words."""
        shown = self.shown(source.schema, form, row_id=row_id)
        return pa.RecordBatchReader.from_batches(shown, self._batches(source, shown, form))

    def _batches(
        self, source: pa.RecordBatchReader, shown: pa.Schema, form: BlobForm
    ) -> Iterator[pa.RecordBatch]:
        while True:
            with translate_faults(StoreAction.READ, self._location):
                batch = next(source, None)
            if batch is None:
                return
            yield self._batch(batch, shown, form) if self.among(shown.names) else batch

    def _batch(self, batch: pa.RecordBatch, shown: pa.Schema, form: BlobForm) -> pa.RecordBatch:
        columns = [
            self._column(batch, f.name, form) if f.name in self._names else batch.column(f.name)
            for f in shown
        ]
        return pa.record_batch(columns, schema=shown)

    def _column(self, batch: pa.RecordBatch, name: str, form: BlobForm) -> pa.Array:
        stored = batch.column(name)
        match form:
            case BlobForm.DESCRIPTOR:
                return as_descriptor(stored)
            case BlobForm.BYTES if pa.types.is_large_binary(stored.type):
                return stored
            case BlobForm.BYTES:
                return pa.array(self._contents(batch, name, stored.is_valid()), pa.large_binary())
            case BlobForm.INPUT:
                managed = pc.invert(pc.fill_null(is_external(stored), True))
                return restage_blobs(stored, self._contents(batch, name, managed))

    def _contents(self, batch: pa.RecordBatch, name: str, which: pa.Array) -> list[bytes | None]:
        positions = pc.indices_nonzero(which).to_pylist()
        contents: list[bytes | None] = [None] * batch.num_rows
        if positions:
            row_ids = batch.column(ROW_ID).take(pa.array(positions)).to_pylist()
            with translate_faults(StoreAction.READ, self._location):
                found = self._dataset.read_blobs(name, ids=row_ids)
            for position, (_, content) in zip(positions, found, strict=True):
                contents[position] = content
        return contents
