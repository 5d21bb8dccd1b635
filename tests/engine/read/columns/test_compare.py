"""Columns compare as numbers and texts do, without a rounding that decides."""

import math
import operator
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.types import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraphdb.catalog.values import to_arrow
from omnigraphdb.engine.read.columns.compare import compare_columns, is_in_list

OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EDGES = [0, 1, -1, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]


def integers(scalar: Scalar) -> st.SearchStrategy[int]:
    low, high = INTEGER_BOUNDS[scalar]
    near = [edge for edge in EDGES if low <= edge <= high]
    return st.one_of(st.integers(low, high), st.sampled_from(near))


def values(scalar: Scalar) -> st.SearchStrategy[Any]:
    if scalar in INTEGER_BOUNDS:
        return integers(scalar)
    width: Literal[32, 64] = 32 if scalar is Scalar.F32 else 64
    near = st.sampled_from([float(edge) for edge in EDGES])
    return st.one_of(st.floats(width=width), near)


numbers = st.sampled_from([Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.F32, Scalar.F64])


@given(data=st.data(), left=numbers, right=numbers, op=st.sampled_from(sorted(OPERATORS)))
def test_numbers_of_any_two_types_compare_as_numbers(
    data: st.DataObject, left: Scalar, right: Scalar, op: Any
) -> None:
    pairs = data.draw(
        st.lists(st.tuples(st.none() | values(left), st.none() | values(right)), max_size=6)
    )
    types = [PropertyType(scalar=one, nullable=True) for one in (left, right)]
    columns = [to_arrow([pair[n] for pair in pairs], types[n]) for n in (0, 1)]
    found = compare_columns(columns[0], types[0], op, columns[1], types[1]).to_pylist()
    stored = zip(columns[0].to_pylist(), columns[1].to_pylist(), strict=True)
    assert found == [None if a is None or b is None else OPERATORS[op](a, b) for a, b in stored]


TEXT = PropertyType(scalar=Scalar.STRING, nullable=True)
TEXTS = PropertyType(scalar=Scalar.STRING, nullable=True, is_list=True)
words = st.none() | st.sampled_from(["", "a", "ab", "abc", "b", "é", "aé", "%", "a%"])


@given(pairs=st.lists(st.tuples(words, words), max_size=6))
def test_a_text_and_its_part_may_differ_in_every_row(
    pairs: list[tuple[str | None, str | None]],
) -> None:
    whole, part = (pa.array([pair[n] for pair in pairs], pa.string()) for n in (0, 1))
    known = [a is not None and b is not None for a, b in pairs]
    inside = compare_columns(whole, TEXT, "contains", part, TEXT).to_pylist()
    assert inside == [(b in a if a is not None and b is not None else None) for a, b in pairs]
    first = compare_columns(whole, TEXT, "starts_with", part, TEXT).to_pylist()
    assert [one is not None for one in first] == known
    assert [one for one in first if one is not None] == [
        a.startswith(b) for a, b in pairs if a is not None and b is not None
    ]


@given(pairs=st.lists(st.tuples(st.none() | st.lists(words, max_size=3), words), max_size=6))
def test_a_list_and_an_item_may_differ_in_every_row(pairs: list[tuple[Any, Any]]) -> None:
    lists = pa.array([pair[0] for pair in pairs], pa.list_(pa.string()))
    items = pa.array([pair[1] for pair in pairs], pa.string())
    found = compare_columns(lists, TEXTS, "contains", items, TEXT).to_pylist()
    # Nothing is in an empty list, not even NULL.
    expected = [
        False if many == [] else None if many is None or one is None else one in many
        for many, one in pairs
    ]
    assert found == expected


def test_a_null_among_the_choices_makes_a_miss_unknown() -> None:
    column = pa.array(["a", "b", None])
    assert is_in_list(column, TEXT, ("a",)).to_pylist() == [True, False, None]
    assert is_in_list(column, TEXT, ("a", None)).to_pylist() == [True, None, None]
    assert is_in_list(column, TEXT, None).to_pylist() == [None, None, None]
    assert is_in_list(column, TEXT, ()).to_pylist() == [False, False, False]


@pytest.mark.parametrize("choices", [(0,), (0.0,), (-0.0,)])
def test_both_zeros_are_among_either(choices: tuple[float, ...]) -> None:
    kind = PropertyType(scalar=Scalar.F64)
    column = pa.array([0.0, -0.0, math.nan, 1.0])
    assert is_in_list(column, kind, choices).to_pylist() == [True, True, False, False]
