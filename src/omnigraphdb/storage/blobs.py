"""Blob columns as Arrow: the forms that callers stage and read, and the form that Lance stores."""

from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from omnigraphdb.errors import InternalError

BLOB_INPUT: Final = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
"""Staging input for a Blob column: a null, or exactly one of bytes and URI; plain `large_binary` works too."""

BLOB_DESCRIPTOR: Final = pa.struct(
    [pa.field("kind", pa.string()), pa.field("size", pa.uint64()), pa.field("uri", pa.string())]
)
"""The form of a Blob column unless a read asks for more; `size` of an external blob is null."""

_EXTERNAL: Final = pa.scalar(3, pa.uint8())
"""Lance's number for a blob that is only a URI; the others say where its bytes lie."""


class BlobKind(StrEnum):
    """The location of a blob's bytes: in the table, or at an external URI."""

    MANAGED = "managed"
    EXTERNAL = "external"


class BlobForm(StrEnum):
    """The form in which a read returns a Blob column."""

    DESCRIPTOR = "descriptor"
    """`BLOB_DESCRIPTOR`: no byte is read."""
    BYTES = "bytes"
    """`large_binary`: everything is read, external URIs too."""
    INPUT = "input"
    """`BLOB_INPUT`: fit to be staged again as it is; an external blob stays its URI."""


def is_blob(kind: pa.DataType) -> bool:
    """Tell the logical type of a Blob column; no other property is stored as `large_binary`."""
    return bool(pa.types.is_large_binary(kind))


def as_input(column: pa.Array, name: str) -> pa.Array:
    """Bring a staged Blob column into `BLOB_INPUT`; null and empty stay two things."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_large_binary(column.type) or pa.types.is_binary(column.type):
        data = column.cast(pa.large_binary())
        return _struct(BLOB_INPUT, [data, pa.nulls(len(data), pa.string())], data.is_valid())
    if not pa.types.is_struct(column.type) or column.type.get_field_index("data") < 0:
        raise InternalError(
            f"blob column '{name}' was staged as {column.type}, expected {BLOB_INPUT}"
        )
    data = pc.struct_field(column, "data").cast(pa.large_binary())
    uri = pc.struct_field(column, "uri").cast(pa.string())
    present = column.is_valid()
    is_single = pc.xor(data.is_valid(), uri.is_valid())
    if not pc.all(pc.or_(pc.invert(present), is_single), min_count=0).as_py():
        raise InternalError(
            f"blob column '{name}' has a value with neither or both of bytes and URI"
        )
    return _struct(BLOB_INPUT, [data, uri], present)


def as_descriptor(stored: pa.Array) -> pa.Array:
    """Convert a Blob column of a Lance scan into `BLOB_DESCRIPTOR`."""
    # Lance marks a null blob as a null struct; an empty one is a valid struct of size 0.
    external = is_external(stored)
    kind = pc.if_else(external, BlobKind.EXTERNAL.value, BlobKind.MANAGED.value)
    size = pc.if_else(external, pa.scalar(None, pa.uint64()), pc.struct_field(stored, "size"))
    uri = pc.if_else(external, pc.struct_field(stored, "blob_uri"), pa.scalar(None, pa.string()))
    return _struct(BLOB_DESCRIPTOR, [kind, size, uri], stored.is_valid())


def is_external(stored: pa.Array) -> pa.Array:
    """Mark the blobs that are only a URI; null blobs give null."""
    return pc.equal(pc.struct_field(stored, "kind"), _EXTERNAL)


def restage_blobs(stored: pa.Array, contents: list[bytes | None]) -> pa.Array:
    """Combine stored descriptors and the managed bytes into `BLOB_INPUT`."""
    external = pc.fill_null(is_external(stored), False)
    data = pa.array(contents, pa.large_binary())
    uri = pc.if_else(external, pc.struct_field(stored, "blob_uri"), pa.scalar(None, pa.string()))
    managed = pc.if_else(external, pa.scalar(None, pa.large_binary()), data)
    return _struct(BLOB_INPUT, [managed, uri], stored.is_valid())


def _struct(kind: pa.DataType, columns: list[pa.Array], present: pa.Array) -> pa.Array:
    flat = [pa.array(c) if not isinstance(c, pa.Array) else c for c in columns]
    return pa.StructArray.from_arrays(flat, fields=list(kind), mask=pc.invert(present))
