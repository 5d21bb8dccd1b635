"""Row ids and versions of the rows of a fragment, as a manifest spells them."""

import json
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.fragment import RowDatasetVersionMeta, RowIdSequence

from omnigraphdb.storage.lance.unofficial.sequences import row_ids_at, versions_at, versions_of


def read_row_ids(row_ids: list[int], offsets: list[int]) -> list[int] | None:
    metadata = RowIdSequence(pa.array(row_ids, pa.uint64())).to_inline_metadata()
    found = row_ids_at(metadata, np.array(offsets, np.uint64))
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    "row_ids",
    [
        list(range(7, 500)),
        [*range(100), *range(1_000, 1_100)],
        list(range(0, 5_000, 3)),
        [9, 3, 10**12],
        [*range(50), 3_000, *range(60, 70)],
    ],
    ids=["a range", "two ranges", "every third", "any order", "with holes"],
)
def test_row_ids_are_read_where_they_are_ranges_and_left_to_lance_elsewhere(
    row_ids: list[int],
) -> None:
    offsets = list(range(len(row_ids)))[::-2]
    is_range = row_ids == list(range(row_ids[0], row_ids[0] + len(row_ids)))
    expected = [row_ids[offset] for offset in offsets] if is_range else None
    assert read_row_ids(row_ids, offsets) == expected


@given(st.data(), st.lists(st.integers(0, 2**48), min_size=1, max_size=50, unique=True))
def test_row_ids_are_those_of_the_sequence(data: st.DataObject, row_ids: list[int]) -> None:
    offsets = data.draw(st.lists(st.integers(0, len(row_ids) - 1), max_size=20))
    assert read_row_ids(row_ids, offsets) in (None, [row_ids[offset] for offset in offsets])


def test_a_row_id_past_the_first_range_is_counted_from_the_start_of_its_own() -> None:
    spelled = RowIdSequence(range(5, 8)).to_inline_metadata()
    text = json.loads(spelled.json())["Inline"]
    twice = type(spelled).from_json(  # type: ignore[call-arg, misc]
        json.dumps({"Inline": [*text, *json.loads(_inline(range(90, 93)))]})
    )
    found = row_ids_at(twice, np.arange(6, dtype=np.uint64))
    assert found is not None
    assert found.tolist() == [5, 6, 7, 90, 91, 92]


def _inline(row_ids: range) -> str:
    return json.dumps(json.loads(RowIdSequence(row_ids).to_inline_metadata().json())["Inline"])


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=60))
def test_versions_are_spelled_as_one_run_per_stretch_of_rows(versions: list[int]) -> None:
    spelled = bytes(json.loads(versions_of(np.array(versions, np.uint64)).json())["inline"])
    runs = [list(group) for _, group in groupby(versions)]
    # Every run is a message of its own in the sequence, which has no other fields.
    assert _lengths(spelled) == len(runs)


def _lengths(spelled: bytes) -> int:
    place = count = 0
    while place < len(spelled):
        assert spelled[place] == 10
        place += 2 + spelled[place + 1]
        count += 1
    return count


@given(st.data(), st.lists(st.integers(1, 2**40), min_size=1, max_size=60))
def test_versions_are_read_as_they_were_spelled(data: st.DataObject, versions: list[int]) -> None:
    offsets = data.draw(st.lists(st.integers(0, len(versions) - 1), max_size=20))
    found = versions_at(versions_of(np.array(versions, np.uint64)), np.array(offsets, np.uint64))
    assert found is not None
    assert found.tolist() == [versions[offset] for offset in offsets]


@pytest.mark.parametrize(
    "spelled",
    [[], [10, 10, 10, 6, 10, 4, 8, 3, 16, 5, 16, 5], [10, 8, 10, 4, 34, 2, 8, 1, 16, 7]],
    ids=["nothing", "from the third row on", "not a range"],
)
def test_versions_that_are_spelled_otherwise_are_not_guessed(spelled: list[int]) -> None:
    told = RowDatasetVersionMeta.from_json(json.dumps({"inline": spelled}))
    assert versions_at(told, np.array([0], np.uint64)) is None


def test_a_row_past_the_last_run_has_no_version() -> None:
    assert versions_at(versions_of(np.array([4, 4], np.uint64)), np.array([2], np.uint64)) is None
