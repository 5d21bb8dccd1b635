"""How large fragments grow."""

import pytest

from omnigraphdb.limits import FRAGMENT_ROWS_MAX, FRAGMENT_ROWS_MIN, FRAGMENTS_AIM
from omnigraphdb.storage.lance.fragments import fragment_rows


@pytest.mark.parametrize(
    ("table_rows", "expected"),
    [
        (0, FRAGMENT_ROWS_MIN),
        (700_000, FRAGMENT_ROWS_MIN),
        (FRAGMENT_ROWS_MIN * FRAGMENTS_AIM, FRAGMENT_ROWS_MIN),
        (FRAGMENT_ROWS_MIN * FRAGMENTS_AIM + 1, 2 * FRAGMENT_ROWS_MIN),
        (10**12, FRAGMENT_ROWS_MAX),
    ],
)
def test_fragments_double_when_there_are_many(table_rows: int, expected: int) -> None:
    assert fragment_rows(table_rows) == expected


def test_growth_changes_the_size_rarely() -> None:
    sizes = {fragment_rows(rows) for rows in range(0, 200_000_000, 1_000_000)}
    assert len(sizes) == 5
