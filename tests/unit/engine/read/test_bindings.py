"""Tables of bindings: rows by place, weights that stand for equal rows, codes that tell rows apart."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.engine.read.bindings import Bindings, codes, concat, distinct, encode_together
from omnigraphdb.engine.read.columns.row_ids import ABSENT, lay_out_runs
from omnigraphdb.errors import EngineError
from omnigraphdb.limits import PATHS_MAX

rows_of = st.lists(
    st.tuples(st.integers(ABSENT, 3), st.integers(ABSENT, 3), st.integers(1, 3)), max_size=12
)


def table(rows: list[tuple[int, int, int]], *, weighted: bool) -> Bindings:
    a, b, weights = (np.array([row[n] for row in rows], dtype=np.int64) for n in range(3))
    return Bindings({"a": a, "b": b}, len(rows), weights if weighted else None)


def listed(rows: Bindings) -> list[tuple[int, ...]]:
    columns = [rows.columns[name].tolist() for name in sorted(rows.columns)]
    return list(zip(*columns, strict=True)) if columns else [()] * rows.rows


@given(rows=rows_of, weighted=st.booleans())
def test_a_weight_stands_for_that_many_rows(
    rows: list[tuple[int, int, int]], weighted: bool
) -> None:
    found = table(rows, weighted=weighted)
    expected: Counter[tuple[int, ...]] = Counter()
    for a, b, weight in rows:
        expected[a, b] += weight if weighted else 1
    assert Counter(listed(found.unweighted())) == expected
    assert found.total == sum(expected.values())
    twice = found.weighted(np.full(len(rows), 2, dtype=np.int64))
    assert twice.total == 2 * found.total


@given(rows=rows_of, start=st.integers(0, 5), size=st.integers(0, 9))
def test_rows_are_taken_by_place(rows: list[tuple[int, int, int]], start: int, size: int) -> None:
    found = table(rows, weighted=True)
    pairs = [(a, b) for a, b, _ in rows]
    assert listed(found.slice(start, start + size)) == pairs[start : start + size]
    mask = np.array([a == b for a, b, _ in rows], dtype=bool)
    assert listed(found.keep(mask)) == [pair for pair in pairs if pair[0] == pair[1]]
    assert listed(concat([found.slice(0, start), found.slice(start, len(rows))])) == pairs
    assert list(found.only(("b", "c")).columns) == ["b"]


@given(rows=rows_of)
def test_each_combination_is_given_once_and_no_entity_is_a_value(
    rows: list[tuple[int, int, int]],
) -> None:
    found = distinct(table(rows, weighted=False), ("a", "b"))
    expected = {(a, b) for a, b, _ in rows}
    assert sorted(listed(found)) == sorted(expected)


@given(left=rows_of, right=rows_of)
def test_codes_are_equal_exactly_where_rows_are(
    left: list[tuple[int, int, int]], right: list[tuple[int, int, int]]
) -> None:
    one, two = table(left, weighted=False), table(right, weighted=False)
    ours, theirs = encode_together(one, two, ("a", "b"))
    named = dict(zip(ours.tolist(), listed(one), strict=True))
    for code, pair in zip(theirs.tolist(), listed(two), strict=True):
        assert named.get(code, pair) == pair
        assert (pair in listed(one)) == (code in named)
    assert len(set(codes(one, ("a", "b")).tolist())) == len(set(listed(one)))


def test_more_paths_than_a_number_can_count_are_refused() -> None:
    rows = Bindings({}, 1, np.array([PATHS_MAX], dtype=np.int64))
    with pytest.raises(EngineError, match="counts more than"):
        rows.weighted(np.array([2], dtype=np.int64))


@given(runs=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), max_size=8))
def test_runs_are_laid_out_after_one_another(runs: list[tuple[int, int]]) -> None:
    starts, counts = (np.array([run[n] for run in runs], dtype=np.int64) for n in range(2))
    of_run, places = lay_out_runs(starts, counts)
    expected = [(n, start + step) for n, (start, count) in enumerate(runs) for step in range(count)]
    assert list(zip(of_run.tolist(), places.tolist(), strict=True)) == expected
