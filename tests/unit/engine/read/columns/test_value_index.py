"""Matches give the entities that have a value, in the order of their table."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.catalog.types import PropertyType, Scalar
from omnigraphdb.engine.read.columns.value_index import build_value_index, can_index_values


@given(
    st.lists(
        st.tuples(st.integers(0, 2**40), st.none() | st.sampled_from(["a", "b", "", "é", "no"])),
        unique_by=lambda pair: pair[0],
    )
)
def test_every_value_leads_to_its_entities_and_nothing_to_those_without(
    pairs: list[tuple[int, str | None]],
) -> None:
    numbers = np.array([number for number, _ in pairs], dtype=np.int64)
    found = build_value_index(pa.array([value for _, value in pairs], pa.string()), numbers)
    for value in ("a", "b", "", "é", "no", "other"):
        assert found.of(value).tolist() == [number for number, one in pairs if one == value]
    assert found.of(None).tolist() == []


def test_whole_numbers_match_as_numbers() -> None:
    found = build_value_index(pa.array([3, None, 7, 3], pa.uint64()), np.array([10, 11, 12, 13]))
    assert found.of(3).tolist() == [10, 13]
    assert found.of(2**63).tolist() == []
    assert found.nbytes > 0


@pytest.mark.parametrize("scalar", Scalar)
def test_only_types_whose_equality_is_that_of_python_match(scalar: Scalar) -> None:
    exact = {Scalar.STRING, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64}
    assert can_index_values(PropertyType(scalar=scalar)) == (scalar in exact)
    assert not can_index_values(PropertyType(scalar=scalar, is_list=True))
