"""Deriving the next image of keyed rows from the one before."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.errors import InternalError
from omnigraphdb.ids import Version
from omnigraphdb.limits import IMAGE_CHUNKS_MAX
from omnigraphdb.storage.rows import Image, fit_rows, move_image, replace_metadata, swap_rows
from tests.support.tables import MANIFEST_SCHEMA, cells, keyed


def image_of(rows: pa.Table) -> Image:
    return Image(
        branch="b", version=Version(1), incarnation=((1, "x"),), recent=rows, metadata={"k": "v"}
    )


KEYS = st.sampled_from("abcdef")
SWAPS = st.lists(st.dictionaries(KEYS, st.none() | st.text(max_size=3), min_size=1), max_size=8)


@given(SWAPS)
def test_swaps_behave_like_a_dictionary(swaps: list[dict[str, str | None]]) -> None:
    model: dict[str, str | None] = {"a": "0"}
    image = image_of(keyed({"a": "0"}))
    for version, changes in enumerate(swaps, 2):
        image = swap_rows(image, keyed(changes), "object_id", Version(version))
        model |= changes
        assert cells(image.rows) == model
        assert (image.version, image.branch, image.incarnation) == (version, "b", ((1, "x"),))
    assert image.rows.schema.equals(MANIFEST_SCHEMA)


def test_an_image_never_falls_apart_into_many_chunks() -> None:
    image = image_of(keyed({"a": "0"}))
    for number in range(3 * IMAGE_CHUNKS_MAX):
        image = swap_rows(image, keyed({f"n{number}": "x"}), "object_id", Version(number + 2))
        assert image.rows["object_id"].num_chunks <= IMAGE_CHUNKS_MAX
    assert image.rows.num_rows == 1 + 3 * IMAGE_CHUNKS_MAX


def test_metadata_and_version_change_without_touching_rows() -> None:
    image = image_of(keyed({"a": "0"}))
    changed = replace_metadata(image, "stamp", "4", Version(2))
    assert (dict(changed.metadata), changed.version) == ({"k": "v", "stamp": "4"}, 2)
    assert changed.rows.schema.metadata == {b"k": b"v", b"stamp": b"4"}
    assert cells(move_image(changed, Version(3)).rows) == {"a": "0"}


def test_rows_are_brought_into_stored_order_and_nothing_else() -> None:
    rows = keyed({"a": "1"})
    assert fit_rows(rows.select(rows.column_names[::-1]), MANIFEST_SCHEMA).equals(rows)
    with pytest.raises(InternalError, match="columns"):
        fit_rows(rows.drop_columns(["metadata"]), MANIFEST_SCHEMA)
    with pytest.raises(InternalError, match="types"):
        fit_rows(rows.set_column(2, "table_version", pa.array([1])), MANIFEST_SCHEMA)
