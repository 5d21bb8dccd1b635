"""Values in their place: what search and bounds ask of a parameter."""

from datetime import UTC, datetime

import pytest

from omnigraphdb.compile.params import bind_arguments
from omnigraphdb.errors import ParamError
from tests.support.compiling import read

NOW = datetime(2026, 1, 10, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("params", "body"),
    [
        ("$x: String?", "match { $v: Vessel  search($v.name, $x) } return { $v }"),
        ("$x: String?", "match { $v: Vessel  not { search($v.name, $x) } } return { $v }"),
        ("$x: String?", "match { $v: Vessel } return { $v } order { bm25($v.name, $x) }"),
        ("$x: String?", "match { $v: Vessel } return { $v } order { nearest($v.sig, $x) } limit 1"),
        ("$x: Vector(3)?", "match { $v: Vessel } return { $v } order { nearest($v.sig, $x) } limit 1"),
        ("$x: I32?", 'match { $v: Vessel  fuzzy($v.name, "a", $x) } return { $v }'),
        ("$x: I32?", 'match { $v: Vessel } return { rrf(bm25($v.name, "a"), bm25($v.name, "b"), $x) as s } limit 1'),
    ],
)  # fmt: skip
def test_a_search_is_not_asked_for_null(params: str, body: str) -> None:
    with pytest.raises(ParamError) as caught:
        bind_arguments(read(body, params), {"x": None})
    assert (caught.value.code, caught.value.name) == ("P05", "x")


@pytest.mark.parametrize(
    ("body", "least"),
    [
        ("match { $v: Vessel } return { $v } limit $x", 0),
        ("match { $v: Vessel } return { $v } offset $x limit 5", 0),
        ('match { $v: Vessel  fuzzy($v.name, "a", $x) or $v.dwt = 1 } return { $v }', 0),
        ('match { $v: Vessel } return { $v } order { rrf(bm25($v.name, "a"), bm25($v.name, "b"), $x) } limit 1', 1),
    ],
)  # fmt: skip
def test_a_bound_has_a_least_value(body: str, least: int) -> None:
    checked = read(body, "$x: I64")
    assert bind_arguments(checked, {"x": least}) == {"x": least}
    with pytest.raises(ParamError) as caught:
        bind_arguments(checked, {"x": least - 1})
    assert caught.value.code == "P02"


def test_a_filter_may_be_given_null() -> None:
    checked = read("match { $v: Vessel { dwt: $x } } return { $v }", "$x: I32?")
    assert bind_arguments(checked, None) == {"x": None}
