"""Two schemas of one table: the logical one callers see, the physical one Lance stores."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import lance
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InternalError
from omnigraph.storage.blobs import as_input, is_blob
from omnigraph.storage.values import Data

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


class Fitted:
    """Rows on their way into a table of a logical schema, brought batch by batch into the form Lance takes.

    Columns may come in any order and nullable ones may be missing; anything else is a mistake of the caller.
    """

    def __init__(self, data: Data, schema: pa.Schema) -> None:
        _require_fit(data.schema, schema)
        self._schema = schema
        self._stored = physical(schema)
        self._source = data.to_reader() if isinstance(data, pa.Table) else data
        self._error: BaseException | None = None

    def reader(self) -> pa.RecordBatchReader:
        """Give the stream for Lance; it can be read once."""
        return pa.RecordBatchReader.from_batches(self._stored, self._batches())

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Raise what the source raised as it was: on its way through Lance only its text survives."""
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
                    yield pa.record_batch(columns, schema=self._stored)
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
    absent = pa.nulls(len(column), pa.uint64())
    fields = list(kind.storage_type)
    storage = pa.StructArray.from_arrays(
        [parts.get(f.name, absent) for f in fields], fields=fields, mask=column.is_null()
    )
    return pa.ExtensionArray.from_storage(kind, storage)


def _require_fit(given: pa.Schema, schema: pa.Schema) -> None:
    unknown = sorted(set(given.names) - set(schema.names))
    if unknown:
        raise InternalError(f"columns {unknown} are not in the table, which has {schema.names}")
    if len(set(given.names)) != len(given.names):
        raise InternalError(f"a column is given twice: {given.names}")
    for field in schema:
        if field.name not in given.names:
            if not field.nullable:
                raise InternalError(f"column '{field.name}' is required and was not given")
        elif not is_blob(field.type) and given.field(field.name).type != field.type:
            actual = given.field(field.name).type
            raise InternalError(f"column '{field.name}' is {actual}, the table stores {field.type}")


def _logical(field: pa.Field) -> pa.Field:
    kind = field.type
    if getattr(kind, "extension_name", None) == _BLOB_EXTENSION:
        return pa.field(field.name, pa.large_binary(), nullable=field.nullable)
    return pa.field(field.name, kind, nullable=field.nullable)
