"""Blob columns as Arrow, without a store."""

import pyarrow as pa
import pytest

from omnigraphdb.errors import InternalError
from omnigraphdb.storage.blobs import (
    BLOB_DESCRIPTOR,
    BLOB_INPUT,
    BlobKind,
    as_descriptor,
    as_input,
    is_blob,
    restage_blobs,
)

STORED = pa.struct(
    [
        pa.field("kind", pa.uint8()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
        pa.field("blob_id", pa.uint32()),
        pa.field("blob_uri", pa.string()),
    ]
)


def stored(*cells: tuple[int, int, str] | None) -> pa.Array:
    listed = [
        cell
        and {"kind": cell[0], "position": 0, "size": cell[1], "blob_id": 0, "blob_uri": cell[2]}
        for cell in cells
    ]
    return pa.array(listed, STORED)


def test_only_large_binary_is_a_blob() -> None:
    assert is_blob(pa.large_binary())
    assert not any(is_blob(kind) for kind in (pa.binary(), pa.string(), pa.large_string()))


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary()])
def test_plain_bytes_become_input_and_null_stays_apart_from_empty(kind: pa.DataType) -> None:
    column = as_input(pa.array([b"x", b"", None], kind), "doc")
    assert column.type == BLOB_INPUT
    assert column.to_pylist() == [{"data": b"x", "uri": None}, {"data": b"", "uri": None}, None]


def test_input_passes_as_it_is() -> None:
    cells = [{"data": b"x", "uri": None}, None, {"data": None, "uri": "s3://b/k"}]
    assert as_input(pa.array(cells, BLOB_INPUT), "doc").to_pylist() == cells
    assert as_input(pa.array([], BLOB_INPUT), "doc").to_pylist() == []


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"data": None, "uri": None}], BLOB_INPUT),
        pa.array([{"data": b"x", "uri": "s3://b/k"}], BLOB_INPUT),
        pa.array(["text"]),
        pa.array([{"bytes": b"x"}]),
    ],
)
def test_anything_else_is_refused_by_name(column: pa.Array) -> None:
    with pytest.raises(InternalError, match="'doc'"):
        as_input(column, "doc")


def test_descriptors_tell_managed_from_external() -> None:
    column = as_descriptor(stored((0, 5, ""), (0, 0, ""), None, (3, 0, "s3://b/k"), (2, 9, "")))
    assert column.type == BLOB_DESCRIPTOR
    assert column.to_pylist() == [
        {"kind": BlobKind.MANAGED, "size": 5, "uri": None},
        {"kind": BlobKind.MANAGED, "size": 0, "uri": None},
        None,
        {"kind": BlobKind.EXTERNAL, "size": None, "uri": "s3://b/k"},
        {"kind": BlobKind.MANAGED, "size": 9, "uri": None},
    ]


def test_what_was_read_can_be_staged_again() -> None:
    column = restage_blobs(
        stored((0, 1, ""), None, (3, 0, "s3://b/k"), (0, 0, "")), [b"x", None, None, b""]
    )
    assert column.to_pylist() == [
        {"data": b"x", "uri": None},
        None,
        {"data": None, "uri": "s3://b/k"},
        {"data": b"", "uri": None},
    ]
    assert as_input(column, "doc").equals(column)
