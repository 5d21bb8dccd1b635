"""Digests are equal exactly where values are equal, for every type that a column may have."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from omnigraphdb.engine.diff.digest import can_digest, digest_column, digest_nulls
from omnigraphdb.engine.equality import same

COLUMNS = [
    pa.array([1, None, 2, 1, 0, -1]),
    pa.array([2**63 + 5, 3, None, 2**63], pa.uint64()),
    pa.array([5, None, -5], pa.int8()),
    pa.array([1.0, -0.0, 0.0, float("nan"), None, float("nan")], pa.float32()),
    pa.array(["a", None, "", "b\0", "b", "ab", "ba", "a" * 8, "a" * 9, "a" * 600, "a" * 599 + "b"]),
    pa.array([b"x", b"", None, b"\0"]),
    pa.array([True, False, None, True]),
    pa.array([date(2020, 1, 1), None, date(1970, 1, 1)]),
    pa.array([datetime(2020, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    pa.array([[1, 2], [2, 1], None, [], [1, 2], [1, None], [None, 1]], pa.list_(pa.int32())),
    pa.array([["x", "yy"], ["xy", "y"], None, ["x", "yy"], []]),
    pa.array(
        [[1.0, 2.0], [2.0, 1.0], None, [1.0, 2.0], [1.0, None], [0.0, 0.0], [-0.0, 0.0]],
        pa.list_(pa.float32(), 2),
    ),
    pa.array([[1.0, 2.0, 3.0], [2.0, 1.0, 3.0]], pa.list_(pa.float32(), 3)),
    pa.array([{"a": 1, "b": "x"}, {"a": None, "b": "x"}, None, {"a": 1, "b": "x"}]),
]


@pytest.mark.parametrize("values", COLUMNS, ids=lambda values: str(values.type))
@pytest.mark.parametrize("start", [0, 1])
def test_digests_are_equal_where_values_are(values: pa.Array, start: int) -> None:
    assert can_digest(values.type)
    shown = values.slice(start)
    found = digest_column(shown, 77)
    for n in range(len(shown)):
        # Each value is compared with all others, in one column with them: neighbours must not change the verdict.
        other = shown.take(pa.array([n] * len(shown)))
        assert (same(other, shown) == (found == found[n])).all()


def test_a_column_that_is_not_there_is_null_everywhere() -> None:
    nulls = digest_column(pa.array([None, None], pa.string()), 5)
    assert (digest_nulls(2, 5) == nulls).all()


def test_another_seed_gives_other_digests() -> None:
    values = pa.array(["a", "b"])
    assert (digest_column(values, 1) != digest_column(values, 2)).all()
