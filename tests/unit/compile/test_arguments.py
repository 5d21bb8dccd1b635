"""Values in their place: what search, bounds and assignments ask of a parameter."""

from datetime import UTC, datetime

import pytest

from omnigraph.compile.arguments import arguments, assign_columns
from omnigraph.errors import DataError, ParamError
from tests.support.compiling import mutation, read

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
        arguments(read(body, params), {"x": None})
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
    checked = read(body, "$x: I64", extended=True)
    assert arguments(checked, {"x": least}) == {"x": least}
    with pytest.raises(ParamError) as caught:
        arguments(checked, {"x": least - 1})
    assert caught.value.code == "P02"


def test_a_filter_may_be_given_null() -> None:
    checked = read("match { $v: Vessel { dwt: $x } } return { $v }", "$x: I32?")
    assert arguments(checked, None) == {"x": None}


# ---- assignments


def test_assigned_values_are_what_the_table_stores() -> None:
    checked = mutation(
        'insert Vessel { imo: $i, name: "a", dwt: $f, seen: now() }  insert OwnedBy { from: $i, to: "c" }',
        "$i: String, $f: F64",
    )
    assert assign_columns(checked, {"i": "9", "f": 7.0}, NOW) == (
        {"imo": "9", "name": "a", "dwt": 7, "seen": NOW},
        {"src": "9", "dst": "c"},
    )


def test_a_delete_assigns_nothing() -> None:
    assert assign_columns(mutation('delete Port where code = "x"'), {}, NOW) == ({},)


@pytest.mark.parametrize(
    ("params", "body", "value", "rule", "mention"),
    [
        ("$x: String?", 'update Port set { name: $x } where code = "nowhere"', None, "W01", "Port.name"),
        ("$x: String?", "insert OwnedBy { from: $x, to: \"c\" }", None, "W01", "OwnedBy.src"),
        ("$x: I64", 'update Vessel set { crew: $x } where imo = "1"', -1, "W02", "-1"),
        ("$x: F64", 'update Vessel set { draft: $x } where imo = "1"', 1e39, "W02", "draft"),
        ("$x: F64", 'update Vessel set { dwt: $x } where imo = "1"', 7.5, "W03", "7.5"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_stored_is_refused_whether_or_not_anything_matches(
    params: str, body: str, value: object, rule: str, mention: str
) -> None:
    with pytest.raises(DataError, match=mention) as caught:
        assign_columns(mutation(body, params), {"x": value}, NOW)
    assert caught.value.code == rule


def test_every_value_that_cannot_be_stored_is_reported() -> None:
    checked = mutation(
        'update Vessel set { crew: $x, dwt: $y } where imo = "1"', "$x: I64, $y: F64"
    )
    with pytest.raises(DataError) as caught:
        assign_columns(checked, {"x": -1, "y": 0.5}, NOW)
    assert [p.rule for p in caught.value.problems] == ["W02", "W03"]
