"""Two forms of one table: the logical one callers see, the physical one Lance stores; they differ in blob columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from omnigraphdb.catalog.names import ROW_ID
from omnigraphdb.errors import InternalError
from omnigraphdb.storage.blobs import (
    BLOB_DESCRIPTOR,
    BLOB_INPUT,
    BlobForm,
    as_descriptor,
    as_input,
    is_blob,
    is_external,
    restage_blobs,
)
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import Data

_SHOWN: Final = {
    BlobForm.DESCRIPTOR: BLOB_DESCRIPTOR,
    BlobForm.BYTES: pa.large_binary(),
    BlobForm.INPUT: BLOB_INPUT,
}

INLINE_BLOB_BYTES_MAX: Final = 65_536
"""Lance stores larger blobs in files of their own, beside the rows."""

_BLOB_EXTENSION: Final = "lance.blob.v2"


def physical(schema: pa.Schema) -> pa.Schema:
    """Turn a logical schema into the one Lance stores."""
    return pa.schema(
        [lance.blob_field(f.name, nullable=f.nullable) if is_blob(f.type) else f for f in schema]
    )


def logical(schema: pa.Schema) -> pa.Schema:
    """Turn the stored schema into the one callers see."""
    return pa.schema([_logical(field) for field in schema])


def blob_columns(schema: pa.Schema) -> tuple[str, ...]:
    """Name the Blob columns of a logical schema."""
    return tuple(field.name for field in schema if is_blob(field.type))


class StorageStream:
    """Rows on their way into a table of a logical schema, brought batch by batch into the form Lance takes.

    Columns may come in any order and nullable ones may be missing; anything else is a mistake of the caller.
    """

    def __init__(self, data: Data, schema: pa.Schema) -> None:
        _require_fit(data.schema, schema)
        self._schema = schema
        self._stored = physical(schema)
        self._source = data.to_reader() if isinstance(data, pa.Table) else data
        self._error: BaseException | None = None
        self._blobs = blob_columns(schema)
        self.large_blob_bytes = 0
        """The bytes of the blobs so far that Lance stores beside the rows."""

    def reader(self) -> pa.RecordBatchReader:
        """Give the stream for Lance; it can be read once."""
        return pa.RecordBatchReader.from_batches(self._stored, self._batches())

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise an error of the source unchanged: on its way through Lance only its text survives."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._source:
                if batch.num_rows:
                    columns = [_column(batch, field) for field in self._schema]
                    rows = pa.record_batch(columns, schema=self._stored)
                    self.large_blob_bytes += sum(_count_large(rows[name]) for name in self._blobs)
                    yield rows
        except Exception as error:
            self._error = error
            raise


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if batch.schema.get_field_index(field.name) < 0:
        empty = pa.nulls(batch.num_rows, field.type)
        return _blob(as_input(empty, field.name)) if is_blob(field.type) else empty
    column = batch.column(field.name)
    if not field.nullable and column.null_count:
        raise InternalError(
            f"column '{field.name}' is required, {column.null_count} rows have none"
        )
    return _blob(as_input(column, field.name)) if is_blob(field.type) else column


def _blob(column: pa.Array) -> pa.Array:
    kind = lance.blob_field("blob").type
    parts = {"data": pc.struct_field(column, "data"), "uri": pc.struct_field(column, "uri")}
    nulls = pa.nulls(len(column), pa.uint64())
    fields = list(kind.storage_type)
    storage = pa.StructArray.from_arrays(
        [parts.get(f.name, nulls) for f in fields], fields=fields, mask=column.is_null()
    )
    return pa.ExtensionArray.from_storage(kind, storage)


def _count_large(blobs: pa.Array) -> int:
    lengths = pc.binary_length(pc.struct_field(blobs.storage, "data"))
    large = lengths.filter(pc.greater(lengths, INLINE_BLOB_BYTES_MAX))
    return int(pc.sum(large).as_py() or 0)


def _require_fit(input_schema: pa.Schema, schema: pa.Schema) -> None:
    unknown = sorted(set(input_schema.names) - set(schema.names))
    if unknown:
        raise InternalError(f"columns {unknown} are not in the table, which has {schema.names}")
    if len(set(input_schema.names)) != len(input_schema.names):
        raise InternalError(f"a column is given twice: {input_schema.names}")
    for field in schema:
        if field.name not in input_schema.names:
            if not field.nullable:
                raise InternalError(f"column '{field.name}' is required and was not given")
        elif not is_blob(field.type) and input_schema.field(field.name).type != field.type:
            actual = input_schema.field(field.name).type
            raise InternalError(f"column '{field.name}' is {actual}, the table stores {field.type}")


def _logical(field: pa.Field) -> pa.Field:
    kind = field.type
    if getattr(kind, "extension_name", None) == _BLOB_EXTENSION:
        return pa.field(field.name, pa.large_binary(), nullable=field.nullable)
    return pa.field(field.name, kind, nullable=field.nullable)


# ---- blob columns
# Blob columns that Lance read, brought into the form that was asked for.


class BlobReads:
    """The Blob columns of one opened version; a table without any costs nothing."""

    __slots__ = ("_dataset", "_location", "_names")

    def __init__(self, dataset: LanceDataset, schema: pa.Schema, location: TableLocation) -> None:
        self._dataset = dataset
        self._location = location
        self._names = frozenset(blob_columns(schema))

    def has_blob(self, names: Sequence[str]) -> bool:
        """Tell whether any of these columns is a Blob."""
        return not self._names.isdisjoint(names)

    def needs_row_id(self, names: Sequence[str], form: BlobForm) -> bool:
        """Tell whether bytes must be fetched row by row."""
        return form is not BlobForm.DESCRIPTOR and self.has_blob(names)

    def shown(self, stored: pa.Schema, form: BlobForm, *, row_id: bool) -> pa.Schema:
        """Return the schema of the rows that a read gives; a row id that was only needed on the way is left out."""
        fields = [
            pa.field(f.name, _SHOWN[form]) if f.name in self._names else f
            for f in stored
            if row_id or f.name != ROW_ID
        ]
        return pa.schema(fields)

    def table(self, rows: pa.Table, form: BlobForm, *, row_id: bool) -> pa.Table:
        """Bring a table into the form; without Blob columns it stays as it is."""
        if not self.has_blob(rows.column_names):
            return rows
        schema = self.shown(rows.schema, form, row_id=row_id)
        batches = [self._batch(batch, schema, form) for batch in rows.to_batches()]
        return pa.Table.from_batches(batches, schema)

    def stream(
        self, source: pa.RecordBatchReader, form: BlobForm, *, row_id: bool
    ) -> pa.RecordBatchReader:
        """Bring a stream into the form, and translate its errors."""
        schema = self.shown(source.schema, form, row_id=row_id)
        return pa.RecordBatchReader.from_batches(schema, self._batches(source, schema, form))

    def _batches(
        self, source: pa.RecordBatchReader, schema: pa.Schema, form: BlobForm
    ) -> Iterator[pa.RecordBatch]:
        while True:
            with translate_faults(StoreAction.READ, self._location):
                batch = next(source, None)
            if batch is None:
                return
            yield self._batch(batch, schema, form) if self.has_blob(schema.names) else batch

    def _batch(self, batch: pa.RecordBatch, schema: pa.Schema, form: BlobForm) -> pa.RecordBatch:
        columns = [
            self._column(batch, f.name, form) if f.name in self._names else batch.column(f.name)
            for f in schema
        ]
        return pa.record_batch(columns, schema=schema)

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

    def _contents(
        self, batch: pa.RecordBatch, name: str, is_requested: pa.Array
    ) -> list[bytes | None]:
        positions = pc.indices_nonzero(is_requested).to_pylist()
        contents: list[bytes | None] = [None] * batch.num_rows
        if positions:
            row_ids = batch.column(ROW_ID).take(pa.array(positions)).to_pylist()
            with translate_faults(StoreAction.READ, self._location):
                blobs = self._dataset.read_blobs(name, ids=row_ids)
            for position, (_, content) in zip(positions, blobs, strict=True):
                contents[position] = content
        return contents
