"""Manifest files that an append makes of others, beside those that Lance writes for the same transaction."""

import struct
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.fragment import write_fragments

from omnigraphdb.ids import Version
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.lance.unofficial.manifest_files import ManifestFile
from omnigraphdb.storage.lance.unofficial.messages import read_fields
from omnigraphdb.storage.lance.unofficial.version_files import version_file

PLAIN = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int64())])
NESTED = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.float64())])),
        ("vector", pa.list_(pa.float32(), 4)),
    ],
    metadata={"made": "by a test"},
)
VALUES = {"n": 7, "tags": ["a", "b"], "place": {"x": 1.0, "y": 2.0}, "vector": [0.0, 1.0, 2.0, 3.0]}


def rows_of(schema: pa.Schema, ids: str) -> pa.Table:
    return pa.Table.from_pylist([{"id": one, **VALUES} for one in ids], schema=schema)


def make(place: Path, schema: pa.Schema, ids: str = "", *, stable: bool = True) -> LanceDataset:
    return lance.write_dataset(
        rows_of(schema, ids), place, enable_stable_row_ids=stable, data_storage_version="2.2"
    )


def describe(dataset: LanceDataset, ids: str, rows_per_file: int = 1_000) -> Transaction:
    rows = rows_of(dataset.schema, ids)
    fragments = write_fragments(
        rows, dataset, mode="append", max_rows_per_file=rows_per_file, data_storage_version="2.2"
    )
    properties = {"omnigraph:operation_id": "01ABC"}
    return Transaction(
        dataset.version, LanceOperation.Append(fragments), transaction_properties=properties
    )


def file_of(dataset: LanceDataset) -> Path:
    return Path(version_file(dataset.uri, Version(dataset.version)))


def parsed(dataset: LanceDataset) -> ManifestFile:
    found = ManifestFile.parse(file_of(dataset).read_bytes())
    assert found is not None
    return found


def time_of(file: bytes) -> int:
    """Read when Lance made a version."""
    position = struct.unpack("<Q", file[-16:-8])[0]
    (time,) = [one.value for one in read_fields(file[position + 4 : -16]) if one.number == 7]
    assert isinstance(time, bytes)
    parts = {one.number: int(one.value) for one in read_fields(time)}
    return parts[1] * 1_000_000_000 + parts.get(2, 0)


def assert_alike(dataset: LanceDataset, transaction: Transaction) -> LanceDataset:
    """Lance commits, and its file is what an append made of the version before, byte by byte."""
    ours = parsed(dataset).append(transaction, SYSTEM.now_us())
    assert ours is not None
    landed = LanceDataset.commit(dataset, transaction, max_retries=0)
    theirs = file_of(landed).read_bytes()
    assert replace(ours, time_ns=time_of(theirs)).encode() == theirs
    return landed


@pytest.mark.parametrize("schema", [PLAIN, NESTED], ids=["plain", "nested"])
def test_appends_are_alike(schema: pa.Schema, tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", schema)
    for ids in ("a", "bc", "d" * 200):
        dataset = assert_alike(dataset, describe(dataset, ids))
    assert_alike(dataset, describe(dataset, "efgh", rows_per_file=1))


def test_an_append_to_a_table_with_indexes_deletions_and_settings_is_alike(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", PLAIN, "abcdef")
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id = 'b'")
    dataset.update_config({"mine": "yes"})
    dataset.update_metadata({"more": "too"})
    dataset = lance.dataset(tmp_path / "t")
    dataset = assert_alike(dataset, describe(dataset, "gh"))
    dataset = assert_alike(dataset, describe(dataset, "i"))
    assert dataset.scanner(filter="id = 'h'").to_table().num_rows == 1


def test_what_an_append_made_is_read_and_continued_by_lance(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", PLAIN, "ab")
    version, uuids = parsed(dataset), list[str]()
    for number, ids in enumerate("cde", dataset.version):
        transaction = replace(describe(dataset, ids), read_version=number)
        uuids.append(transaction.uuid)
        made = version.append(transaction, SYSTEM.now_us())
        assert made is not None
        version = made
        Path(version_file(dataset.uri, Version(version.version))).write_bytes(version.encode())
    found = lance.dataset(tmp_path / "t")
    assert found.version == dataset.version + 3
    table = found.scanner(
        ["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
    ).to_table()
    assert table.column(0).to_pylist() == [*"abcde"]
    assert table["_rowid"].to_pylist() == [*range(5)]
    for name in ("_row_created_at_version", "_row_last_updated_at_version"):
        assert table[name].to_pylist() == [1, 1, 2, 3, 4]
    assert [named.uuid for one in (2, 3, 4) if (named := found.read_transaction(one))] == uuids
    found = lance.write_dataset(rows_of(PLAIN, "f"), found, mode="append")
    found.delete("id = 'd'")
    assert lance.dataset(tmp_path / "t").to_table()["id"].to_pylist() == [*"abcef"]


def test_what_is_not_known_is_left_to_lance(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", PLAIN, "ab")
    file = file_of(dataset).read_bytes()
    assert ManifestFile.parse(file) is not None
    for damaged in (b"", file[:-1], file[:40], file[:-4] + b"LANX", b"\xff" * len(file)):
        assert ManifestFile.parse(damaged) is None
    assert ManifestFile.parse(file.replace(lance.__version__.encode(), b"99.9.9")) is None
    unstable = make(tmp_path / "u", PLAIN, "ab", stable=False)
    assert ManifestFile.parse(file_of(unstable).read_bytes()) is None


def test_rows_that_had_ids_before_are_left_to_lance(tmp_path: Path) -> None:
    dataset = make(tmp_path / "t", PLAIN, "ab")
    version, transaction = parsed(dataset), describe(dataset, "c")
    assert isinstance(transaction.operation, LanceOperation.Append)
    (fragment,) = transaction.operation.fragments
    fragment.row_id_meta = dataset.get_fragments()[0].metadata.row_id_meta
    assert version.append(transaction, 0) is None
    assert version.append(Transaction(1, LanceOperation.Delete([], [], "none")), 0) is None
