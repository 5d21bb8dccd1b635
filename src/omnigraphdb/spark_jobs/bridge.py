"""The type map between stored columns and Spark columns, both ways."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.errors import NotFound, UserInputError
from omnigraphdb.storage.blobs import BLOB_DESCRIPTOR, BlobForm, is_blob
from omnigraphdb.values import dataclass

UNSIGNED: Final = pa.decimal128(20, 0)
"""Holds every U64; Spark has no unsigned integers."""

INSTANT: Final = pa.timestamp("us", "UTC")


class VectorForm(StrEnum):
    """The form in which Spark reads a vector."""

    ARRAY = "array"
    """`array<float>`."""

    BINARY = "binary"
    """Four little-endian bytes a number: takes a third of the JVM's time."""


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms in which a reader wants vectors and blobs."""

    vectors: VectorForm = VectorForm.ARRAY
    blobs: BlobForm = BlobForm.DESCRIPTOR


_Form = TypeVar("_Form", VectorForm, BlobForm)


def parse_forms(vectors: str | None, blobs: str | None) -> Forms:
    """Parse the options `vectors` and `blobs`; None stands for the default."""
    return Forms(
        _parse_form("vectors", vectors or VectorForm.ARRAY, VectorForm),
        _parse_form("blobs", blobs or BlobForm.DESCRIPTOR, BlobForm),
    )


def _parse_form(option: str, text: str, forms: type[_Form]) -> _Form:
    try:
        return forms(text)
    except ValueError as error:
        raise UserInputError(
            f"option '{option}' is one of {', '.join(forms)}, not '{text}'; nothing was read"
        ) from error


def spark_type(stored: pa.DataType, forms: Forms = Forms()) -> pa.DataType:  # noqa: B008 - frozen
    """Return the Arrow type that Spark accepts for a stored column."""
    if pa.types.is_fixed_size_list(stored):
        return pa.binary() if forms.vectors is VectorForm.BINARY else pa.list_(stored.value_type)
    if pa.types.is_list(stored):
        return pa.list_(spark_type(stored.value_type, forms))
    if is_blob(stored):
        return pa.binary() if forms.blobs is BlobForm.BYTES else _widen_integers(BLOB_DESCRIPTOR)
    return _scalar(stored)


def _scalar(stored: pa.DataType) -> pa.DataType:
    if pa.types.is_uint32(stored):
        return pa.int64()
    if pa.types.is_uint64(stored):
        return UNSIGNED
    # Storage keeps instants as date64; dates are date32.
    return INSTANT if pa.types.is_date64(stored) else stored


def _widen_integers(struct: pa.DataType) -> pa.DataType:
    """Give the size of a blob descriptor as a bigint: no blob needs an unsigned integer."""
    return pa.struct(
        [
            (member.name, pa.int64() if pa.types.is_uint64(member.type) else member.type)
            for member in struct
        ]
    )


def spark_schema(stored: pa.Schema, columns: Sequence[str] | None, forms: Forms) -> StructType:
    """Return the Spark schema of some columns of a table, or of all."""
    selected_names = stored.names if columns is None else list(columns)
    missing = next((name for name in selected_names if name not in stored.names), None)
    if missing is not None:
        raise NotFound("column", missing, known=stored.names)
    fields = [
        pa.field(name, spark_type(stored.field(name).type, forms), stored.field(name).nullable)
        for name in selected_names
    ]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=False)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects for batches of a Spark schema."""
    return to_arrow_schema(schema, timezone="UTC")


def require_readable(schema: StructType, stored: pa.Schema, forms: Forms) -> None:
    """Refuse a user schema whose column types are not those of the table."""
    actual = spark_schema(stored, [field.name for field in schema.fields], forms)
    for requested_field, stored_field in zip(schema.fields, actual.fields, strict=True):
        if _simple(requested_field.dataType.simpleString()) != _simple(
            stored_field.dataType.simpleString()
        ):
            raise UserInputError(
                f"column '{requested_field.name}' was asked for as {requested_field.dataType.simpleString()} and is "
                f"{stored_field.dataType.simpleString()}; nothing was read",
                hint="read it as it is, then cast it",
            )


def _simple(text: str) -> str:
    return text.replace(" ", "")


def to_spark(batch: pa.RecordBatch, target_schema: pa.Schema) -> pa.RecordBatch:
    """Convert a scanned batch to the schema that Spark expects."""
    columns = [_to_spark(batch.column(field.name), field.type) for field in target_schema]
    return pa.RecordBatch.from_arrays(columns, schema=target_schema)


def _to_spark(column: pa.Array, target_type: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_list(column.type) and pa.types.is_binary(target_type):
        return _vector_bytes(column)
    return column if column.type == target_type else column.cast(target_type)


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
    binary = fixed.cast(pa.binary())
    return binary if not vectors.null_count else _mask_like(binary, vectors)


def _mask_like(values: pa.Array, like: pa.Array) -> pa.Array:
    return pa.compute.if_else(like.is_valid(), values, pa.scalar(None, values.type))


# ---- from Spark


def decimals_to_integers(rows: pa.Table) -> pa.Table:
    """Turn decimals without fraction, which hold a U64 in Spark, into integers as a load reads them."""
    for index, field in enumerate(rows.schema):
        if _is_whole_decimal(field.type):
            rows = rows.set_column(index, field.name, _to_integers(rows.column(index)))
    return rows


def _is_whole_decimal(type_: pa.DataType) -> bool:
    item = type_.value_type if pa.types.is_list(type_) else type_
    return bool(pa.types.is_decimal(item) and item.scale == 0)


def _to_integers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    nested = pa.types.is_list(column.type)
    for integer_type in (pa.int64(), pa.uint64()):
        try:
            return column.cast(pa.list_(integer_type) if nested else integer_type)
        except pa.ArrowInvalid:
            continue
    # Numbers beyond every integer become texts, which the load then refuses by value.
    return column.cast(pa.list_(pa.string()) if nested else pa.string())


def from_spark(column: pa.Array, property_type: PropertyType) -> pa.Array:
    """Undo the type map for a result column whose property type is known."""
    if property_type.scalar is Scalar.U64 and _is_whole_decimal(column.type):
        return column.cast(property_type.arrow)
    return column
