"""Two values of one column are the same, or they are not: type by type."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.engine.equality import same

NAN = float("nan")
CASES: list[tuple[pa.DataType, Any, Any, bool]] = [
    (pa.string(), None, None, True),
    (pa.string(), None, "", False),
    (pa.string(), "a\x1fb", "a\x1fb", True),
    (pa.string(), "a\x1f", "a", False),
    (pa.int64(), 2**62, 2**62 + 1, False),
    (pa.float64(), NAN, NAN, True),
    (pa.float64(), NAN, None, False),
    (pa.float64(), 0.0, -0.0, True),
    (pa.bool_(), False, None, False),
    (pa.list_(pa.string()), ["a, b"], ["a", "b"], False),
    (pa.list_(pa.string()), [], None, False),
    (pa.list_(pa.string()), [None], [], False),
    (pa.list_(pa.string()), [None], [None], True),
    (pa.list_(pa.float64()), [1.0, NAN], [1.0, NAN], True),
    (pa.list_(pa.float32(), 2), [1.0, NAN], [1.0, NAN], True),
    (pa.list_(pa.float32(), 2), [0.0, 1.0], [-0.0, 1.0], False),
    (pa.list_(pa.float32(), 2), None, [0.0, 0.0], False),
    (pa.list_(pa.float32(), 2), None, None, True),
    (pa.large_binary(), b"", None, False),
    (pa.struct([("a", pa.string())]), {"a": None}, None, False),
    (pa.struct([("a", pa.string())]), {"a": "x"}, {"a": "x"}, True),
]


@pytest.mark.parametrize(("kind", "left", "right", "expected"), CASES)
def test_values_are_compared_by_type(
    kind: pa.DataType, left: Any, right: Any, expected: bool
) -> None:
    # Neighbours and an offset, so that a mistake in slicing shows.
    padding = [None, left, right]
    one, other = (
        pa.array([*padding, left], kind).slice(1),
        pa.array([*padding, right], kind).slice(1),
    )
    found = same(one, other)
    assert found.tolist() == [True, True, expected]


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right) and (left is None) == (right is None)


floats = st.one_of(st.none(), st.sampled_from([0.0, 1.5, NAN]))
lists = st.one_of(st.none(), st.lists(floats, max_size=3))


@given(st.lists(st.tuples(lists, lists), max_size=12))
def test_lists_are_compared_item_by_item(pairs: list[tuple[Any, Any]]) -> None:
    kind = pa.list_(pa.float64())
    left, right = (pa.array([p[side] for p in pairs], kind) for side in (0, 1))
    expected = np.array([_equal(*pair) for pair in pairs], dtype=bool)
    assert np.array_equal(same(left, right), expected)
