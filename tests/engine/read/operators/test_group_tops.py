"""The first rows of each group: what is selected holds them, however rows stand and keys repeat."""

import numpy as np
import pytest

from omnigraphdb.engine.read.operators.group_tops import RowGroups, select_first_each


def first_of_each(codes: list[int], keys: list[int], count: int) -> set[int]:
    """The rows whose key is among the first of their group, by sorting each group."""
    found: set[int] = set()
    for code in set(codes):
        rows = sorted((key, row) for row, key in enumerate(keys) if codes[row] == code)
        found |= {row for key, row in rows if key <= rows[:count][-1][0]}
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("grouped", [True, False], ids=["in runs", "scattered"])
def test_the_selection_is_what_sorting_each_group_gives(seed: int, grouped: bool) -> None:
    chance = np.random.default_rng(seed)
    rows, groups, count = 60, int(chance.integers(1, 30)), int(chance.integers(1, 6))
    codes = chance.integers(0, groups, rows)
    codes = np.unique(np.sort(codes) if grouped else codes, return_inverse=True)[1]
    keys = chance.integers(0, 9, rows)
    order = None if grouped else np.argsort(codes, kind="stable")
    found = select_first_each(RowGroups(order, np.bincount(codes)), keys, count)
    assert found is not None
    assert found.tolist() == sorted(first_of_each(codes.tolist(), keys.tolist(), count))


def test_more_rows_than_it_is_worth_are_not_selected() -> None:
    groups = RowGroups(None, np.array([100]))
    assert select_first_each(groups, np.arange(100), 50) is None
    assert select_first_each(groups, np.arange(100), 0) is None


def test_rows_are_numbered_inside_their_group() -> None:
    codes = np.array([1, 0, 1, 1, 0])
    groups = RowGroups(np.argsort(codes, kind="stable"), np.bincount(codes))
    assert groups.number_rows().tolist() == [0, 0, 1, 2, 1]
