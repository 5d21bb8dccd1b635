"""Types across the bridge: what a stored column is to Spark, and what Spark's columns are to a load."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from omnigraph.catalog.types import PropertyType, Scalar
from omnigraph.errors import NotFound, UserInputError
from omnigraph.storage.blobs import BLOB_DESCRIPTOR, BlobForm, is_blob
from omnigraph.values import dataclass

UNSIGNED: Final = pa.decimal128(20, 0)
"""Holds every U64; Spark has no unsigned integers."""

INSTANT: Final = pa.timestamp("us", "UTC")


class VectorForm(StrEnum):
    """How Spark sees a vector."""

    ARRAY = "array"
    """`array<float>`: convenient."""

    BINARY = "binary"
    """Four little-endian bytes a number: a third of the JVM's time."""


@dataclass(frozen=True, slots=True)
class Forms:
    """What a reader chose where there is a choice."""

    vectors: VectorForm = VectorForm.ARRAY
    blobs: BlobForm = BlobForm.DESCRIPTOR


def spark_type(stored: pa.DataType, forms: Forms = Forms()) -> pa.DataType:  # noqa: B008 - frozen
    """The Arrow form in which Spark takes a column."""
    if pa.types.is_fixed_size_list(stored):
        return pa.binary() if forms.vectors is VectorForm.BINARY else pa.list_(stored.value_type)
    if pa.types.is_list(stored):
        return pa.list_(spark_type(stored.value_type, forms))
    if is_blob(stored):
        return pa.binary() if forms.blobs is BlobForm.BYTES else _plain(BLOB_DESCRIPTOR)
    return _scalar(stored)


def _scalar(stored: pa.DataType) -> pa.DataType:
    if pa.types.is_uint32(stored):
        return pa.int64()
    if pa.types.is_uint64(stored):
        return UNSIGNED
    # Days are date32; date64 is how instants are stored.
    return INSTANT if pa.types.is_date64(stored) else stored


def _plain(struct: pa.DataType) -> pa.DataType:
    """A descriptor's size is not a U64 of the user's: a bigint is handier."""
    return pa.struct(
        [(one.name, pa.int64() if pa.types.is_uint64(one.type) else one.type) for one in struct]
    )


def spark_schema(stored: pa.Schema, columns: Sequence[str] | None, forms: Forms) -> StructType:
    """The Spark schema of some columns of a table, or of all."""
    chosen = stored.names if columns is None else list(columns)
    missing = next((name for name in chosen if name not in stored.names), None)
    if missing is not None:
        raise NotFound("column", missing, known=stored.names)
    fields = [
        pa.field(name, spark_type(stored.field(name).type, forms), stored.field(name).nullable)
        for name in chosen
    ]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=False)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema Spark expects of batches of a Spark schema."""
    return to_arrow_schema(schema, timezone="UTC")


def require_readable(asked: StructType, stored: pa.Schema, forms: Forms) -> None:
    """Refuse a user schema that the table cannot fill as it is."""
    given = spark_schema(stored, [field.name for field in asked.fields], forms)
    for wanted, found in zip(asked.fields, given.fields, strict=True):
        if _simple(wanted.dataType.simpleString()) != _simple(found.dataType.simpleString()):
            raise UserInputError(
                f"column '{wanted.name}' was asked for as {wanted.dataType.simpleString()} and is "
                f"{found.dataType.simpleString()}; nothing was read",
                hint="read it as it is, then cast it",
            )


def _simple(text: str) -> str:
    return text.replace(" ", "")


def to_spark(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Give a scanned batch the form Spark expects."""
    columns = [_to_spark(batch.column(field.name), field.type) for field in wanted]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _to_spark(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(column.type) and pa.types.is_binary(wanted):
        return _vector_bytes(column)
    return column if column.type == wanted else column.cast(wanted)


def _vector_bytes(vectors: pa.FixedSizeListArray) -> pa.Array:
    width = 4 * vectors.type.list_size
    numbers = np.ascontiguousarray(
        vectors.values.slice(
            vectors.offset * vectors.type.list_size, len(vectors) * vectors.type.list_size
        )
        .fill_null(0.0)
        .to_numpy(zero_copy_only=False),
        dtype="<f4",
    )
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(vectors), [None, pa.py_buffer(numbers)]
    )
    whole = fixed.cast(pa.binary())
    return whole if not vectors.null_count else _mask_like(whole, vectors)


def _mask_like(values: pa.Array, like: pa.Array) -> pa.Array:
    return pa.compute.if_else(like.is_valid(), values, pa.scalar(None, values.type))


# ---- back again


def plain(rows: pa.Table) -> pa.Table:
    """Rows of a Spark frame as a load reads them: whole decimals, Spark's way to hold a U64, become integers."""
    for place, field in enumerate(rows.schema):
        if _is_whole_decimal(field.type):
            rows = rows.set_column(place, field.name, _whole(rows.column(place)))
    return rows


def _is_whole_decimal(found: pa.DataType) -> bool:
    item = found.value_type if pa.types.is_list(found) else found
    return bool(pa.types.is_decimal(item) and item.scale == 0)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    nested = pa.types.is_list(column.type)
    for wanted in (pa.int64(), pa.uint64()):
        try:
            return column.cast(pa.list_(wanted) if nested else wanted)
        except pa.ArrowInvalid:
            continue
    # Numbers beyond every integer stay texts, and the load says which they are.
    return column.cast(pa.list_(pa.string()) if nested else pa.string())


def from_spark(column: pa.Array, wanted: PropertyType) -> pa.Array:
    """A column of a result, ready to be given the type of a property."""
    if wanted.scalar is Scalar.U64 and _is_whole_decimal(column.type):
        return column.cast(wanted.arrow)
    return column
