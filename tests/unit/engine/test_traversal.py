"""How edges are walked may be chosen; a wrong choice is refused by name."""

import pytest

from omnigraphdb.engine.cached.traversal import FRONTIER, HOPS, MODE, Mode, Traversal, traversal_of
from omnigraphdb.errors import ConfigError


def test_the_default_looks_at_what_things_cost() -> None:
    assert traversal_of({}) == Traversal(mode=Mode.AUTO, frontier_max=1_024, hops_max=6)


@pytest.mark.parametrize("text", ["csr", " CSR ", "Csr"])
def test_a_way_is_named_in_any_case(text: str) -> None:
    assert traversal_of({MODE: text}).mode is Mode.CSR


def test_an_empty_value_is_no_value() -> None:
    assert traversal_of({MODE: "", FRONTIER: " ", HOPS: ""}) == Traversal()


def test_bounds_are_whole_numbers_from_zero() -> None:
    assert traversal_of({FRONTIER: "0", HOPS: "3"}) == Traversal(frontier_max=0, hops_max=3)
    for name, value in ((FRONTIER, "-1"), (HOPS, "1.5"), (HOPS, "many")):
        with pytest.raises(ConfigError, match=f"{name} is '{value}'"):
            traversal_of({name: value})


def test_a_way_nobody_knows_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match="auto, indexed, csr"):
        traversal_of({MODE: "fast"})
