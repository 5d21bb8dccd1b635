"""Blob columns: what is stored, what a scan gives, and what outlives changes."""

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.fragment import write_fragments

from tests.support.lance_bare import Op, commit, compaction, create

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), lance.blob_field("doc")])
INPUT = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])


def add(dataset: LanceDataset, cells: dict[str, Any]) -> LanceDataset:
    table = pa.table({"id": list(cells), "doc": pa.array(list(cells.values()), INPUT)})
    written = write_fragments(table, dataset, allow_external_blob_outside_bases=True)
    return commit(dataset, Op.Append(written))


def data(content: bytes) -> dict[str, Any]:
    return {"data": content, "uri": None}


def descriptors(dataset: LanceDataset) -> dict[str, Any]:
    return {row["id"]: row["doc"] for row in dataset.to_table().to_pylist()}


@pytest.fixture
def base(tmp_path: Path) -> LanceDataset:
    return create(tmp_path / "t", SCHEMA)


def test_null_and_empty_differ_by_the_validity_of_the_struct(base: LanceDataset) -> None:
    dataset = add(add(base, {"empty": data(b""), "null": None}), {"also": data(b"")})
    found = descriptors(dataset)
    assert found["null"] is None
    # The very first inline blob of a file lies at position 0, so that position tells nothing.
    for name in ("empty", "also"):
        assert (found[name]["kind"], found[name]["size"]) == (0, 0)
    folded = commit(dataset, compaction(dataset))
    assert descriptors(folded)["null"] is None
    assert descriptors(folded)["empty"] is not None


def test_kinds_say_where_the_bytes_lie(base: LanceDataset) -> None:
    cells = {
        "inline": data(b"x"),
        "packed": data(b"x" * 200_000),
        "own": data(b"x" * 5_000_000),
        "outside": {"data": None, "uri": "file:///nowhere"},
    }
    found = descriptors(add(base, cells))
    assert {name: cell["kind"] for name, cell in found.items()} == {
        "inline": 0,
        "packed": 1,
        "own": 2,
        "outside": 3,
    }
    assert found["outside"]["blob_uri"] == "file:///nowhere"


def test_bytes_are_read_by_row_id_in_the_order_asked(base: LanceDataset) -> None:
    dataset = add(add(base, {"a": data(b"1"), "b": None}), {"c": data(b"3")})
    found = [content for _, content in dataset.read_blobs("doc", ids=[2, 0, 1, 2])]
    assert found == [b"3", b"1", None, b"3"]
    whole = dataset.to_table(blob_handling="all_binary")["doc"].to_pylist()
    assert whole == [b"1", None, b"3"]


def test_a_blob_needs_exactly_one_of_bytes_and_uri(base: LanceDataset) -> None:
    for cell in ({"data": None, "uri": None}, {"data": b"x", "uri": "file:///x"}):
        with pytest.raises(OSError, match="exactly one of `data` and `uri`"):
            add(base, {"a": cell})


def test_an_outside_uri_must_be_allowed(base: LanceDataset) -> None:
    table = pa.table(
        {"id": ["a"], "doc": pa.array([{"data": None, "uri": "file:///nowhere"}], INPUT)}
    )
    with pytest.raises(OSError, match="outside registered external bases"):
        write_fragments(table, base)
