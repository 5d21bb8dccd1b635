"""The public Arrow form of rows; storage keeps its own form, and rows are converted when a call returns them."""

from typing import Final, TypeVar

import pyarrow as pa

INSTANT: Final = pa.timestamp("ms", "UTC")
"""The public type of a `DateTime`: readers take the stored `date64` for a day."""

_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)


def public_type(stored: pa.DataType) -> pa.DataType:
    """Return the type that a stored column has outside."""
    if pa.types.is_date64(stored):
        return INSTANT
    if pa.types.is_list(stored) and pa.types.is_date64(stored.value_type):
        return pa.list_(stored.value_field.with_type(INSTANT))
    return stored


def public_schema(stored: pa.Schema) -> pa.Schema:
    """Return the schema that stored rows have outside; the very same one when nothing differs."""
    public = stored
    for position, field in enumerate(stored):
        outside = public_type(field.type)
        if outside != field.type:
            public = public.set(position, field.with_type(outside))
    return public


def public_rows(stored: _Rows) -> _Rows:
    """Convert rows to their public types; their numbers do not change."""
    schema = stored.schema
    public = public_schema(schema)
    return stored if public is schema else stored.cast(public)


def public_reader(stored: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Convert batches to their public types, each batch when the reader asks for it."""
    schema = stored.schema
    public = public_schema(schema)
    if public is schema:
        return stored
    return pa.RecordBatchReader.from_batches(public, (batch.cast(public) for batch in stored))
