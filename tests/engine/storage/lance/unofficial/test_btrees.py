"""B-trees that are sorted here: file by file what Lance writes, and left to Lance where that is better."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance import LanceDataset
from lance.file import LanceFileReader

from omnigraphdb.limits import BTREE_ROWS_MIN
from omnigraphdb.storage.lance.unofficial.btrees import LOOKUP, PAGES, build_segment, sort_texts
from tests.support.lance_bare import Op, append, commit, create, fragments

ROWS = BTREE_ROWS_MIN + 4_321
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("src", pa.string(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("n", pa.int32()),
    ]
)


def edges(start: int, count: int) -> pa.Table:
    """Ids that ascend, ends that come many times and in no order, some of them with letters beyond ASCII."""
    chance = np.random.default_rng(start)
    ends = [f"{'ä' if n % 3 else 'z'}{n}" for n in chance.integers(0, 700, count)]
    ids = [f"k{n:08d}" for n in range(start, start + count)]
    notes = [None if n % 5 else "x" for n in range(count)]
    return pa.table([ids, ends, notes, range(count)], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    dataset = create(tmp_path / "t", SCHEMA)
    for start in range(0, ROWS, ROWS // 3):
        dataset = append(dataset, edges(start, min(ROWS // 3, ROWS - start)))
    gone = [fragment.delete("n % 97 = 0") for fragment in dataset.get_fragments()]
    return commit(dataset, Op.Delete([one for one in gone if one], [], "n % 97 = 0"))


def segment(dataset: LanceDataset, column: str, numbers: Sequence[int]) -> Any:
    return dataset.create_index_uncommitted(
        column, "BTREE", name=f"{column}_i", fragment_ids=list(numbers)
    )


def sorted_here(dataset: LanceDataset, column: str, *, like: str | None = None) -> Any:
    empty = partial(segment, dataset, like or column, ())
    return build_segment(dataset, column, fragments(dataset), empty)


def written(dataset: LanceDataset, index: Any) -> tuple[pa.Table, pa.Table, Any]:
    """Both files of a segment, entries of one text by address, and what is noted of them."""
    files = [
        LanceFileReader(f"{dataset.uri}/_indices/{index.uuid}/{name}") for name in (PAGES, LOOKUP)
    ]
    pages, lookup = (file.read_all().to_table() for file in files)
    by_address = pages.sort_by([("values", "ascending"), ("ids", "ascending")])
    assert pages["values"].equals(by_address["values"])
    return by_address, lookup, files[1].metadata().schema.metadata


@pytest.mark.parametrize("column", ["id", "src"])
def test_a_segment_sorted_here_is_the_one_lance_builds(table: LanceDataset, column: str) -> None:
    ours, theirs = sorted_here(table, column), segment(table, column, fragments(table))
    assert written(table, ours) == written(table, theirs)
    for name in ("fields", "index_version", "index_details", "dataset_version", "fragment_ids"):
        assert getattr(ours, name) == getattr(theirs, name)
    sizes = {file.path: file.size_bytes for file in ours.files}
    found = Path(table.uri) / "_indices" / ours.uuid
    assert sizes == {file.name: file.stat().st_size for file in found.iterdir()}


def test_a_segment_sorted_here_is_asked_and_answers_as_a_scan_does(table: LanceDataset) -> None:
    indexed = commit(table, Op.CreateIndex([sorted_here(table, "src")], []))
    for text in ("z0", "ä1", "ä698", "z699", "nobody", ""):
        filter = f"src = '{text}'"
        assert "ScalarIndexQuery" in indexed.scanner(filter=filter).explain_plan(True)
        assert _ids(indexed, filter) == _ids(table, filter)
    assert _ids(indexed, "src >= 'z5' and src < 'z51'") == _ids(
        table, "src >= 'z5' and src < 'z51'"
    )


def _ids(dataset: LanceDataset, filter: str) -> list[str]:
    return sorted(dataset.to_table(columns=["id"], filter=filter)["id"].to_pylist())


@pytest.mark.parametrize("column", ["note", "n"])
def test_nulls_and_numbers_are_left_to_lance(table: LanceDataset, column: str) -> None:
    assert sorted_here(table, column) is None


def test_few_rows_and_distinct_texts_in_no_order_are_left_to_lance(tmp_path: Path) -> None:
    few = append(create(tmp_path / "few", SCHEMA), edges(0, BTREE_ROWS_MIN - 1))
    assert sorted_here(few, "id") is None
    rows = edges(0, ROWS)
    mixed = append(create(tmp_path / "mixed", SCHEMA), rows.take(np.random.permutation(ROWS)))
    assert sorted_here(mixed, "id") is None
    assert not (tmp_path / "mixed" / "_indices").exists()
    assert sorted_here(mixed, "src") is not None


def test_a_form_that_is_not_known_is_left_to_lance(table: LanceDataset) -> None:
    assert sorted_here(table, "src", like="n") is None


@given(st.lists(st.text(max_size=3), min_size=1), st.booleans())
def test_texts_are_sorted_as_their_bytes_are(texts: list[str], ascending: bool) -> None:
    given = pa.array(
        sorted(texts, key=str.encode) if ascending else [*texts, texts[0]], pa.string()
    )
    addresses = np.arange(len(given), dtype=np.uint64) + np.uint64(7)
    found = sort_texts(given, addresses)
    assert found is not None
    assert found.texts.to_pylist() == sorted(given.to_pylist(), key=str.encode)
    back = pc.take(given, pa.array(found.addresses - np.uint64(7)))
    assert back.equals(found.texts)
    assert sorted(found.addresses) == list(addresses)
