"""Columns and order of a read."""

import pytest

from omnigraphdb.compile.checked import (
    Aggregate,
    Bm25,
    Const,
    EntityRef,
    Nearest,
    PropertyRef,
    Rrf,
    SortKey,
)
from tests.support.compiling import read


def test_columns_are_named_after_their_expressions() -> None:
    found = read(
        'match { $v: Vessel } return { $v, $v.name, $who, 7, now(), "x" as tag, [1] as l }',
        "$who: String",
    )
    assert [(c.name, str(c.type)) for c in found.columns] == [
        ("v", "String"),
        ("v.name", "String"),
        ("who", "String"),
        ("literal", "I64"),
        ("now", "DateTime"),
        ("tag", "String"),
        ("l", "[I64]"),
    ]


def test_aggregates_are_named_by_function_and_typed() -> None:
    found = read(
        "match { $v: Vessel } return { $v.kind, count($v), sum($v.dwt), avg($v.dwt), min($v.draft),"
        " max($v.kind) }"
    )
    assert [(c.name, str(c.type)) for c in found.columns] == [
        ("v.kind", "enum(bulk, roro, tanker)?"),
        ("count", "I64"),
        ("sum", "I64?"),
        ("avg", "F64?"),
        ("min", "F32?"),
        ("max", "enum(bulk, roro, tanker)?"),
    ]
    assert found.is_aggregate


def test_search_functions_may_be_projected() -> None:
    found = read(
        'match { $v: Vessel } return { search($v.name, "x"), bm25($v.name, "x"),'
        ' nearest($v.sig, "x") as d }'
    )
    assert [(c.name, str(c.type)) for c in found.columns] == [
        ("search", "Bool"),
        ("bm25", "F64"),
        ("d", "F64?"),
    ]


# ---- order


def keys(order: str, items: str = "$v.name as n, $v.dwt", params: str = "") -> list[SortKey]:
    return list(read(f"match {{ $v: Vessel }} return {{ {items} }} order {{ {order} }} limit 5", params).order)  # fmt: skip


def test_a_key_is_an_alias_or_a_property_with_its_direction() -> None:
    first, second, third = keys("n, $v.dwt desc, $v.built asc")
    assert first == SortKey(key="n")
    assert isinstance(second.key, PropertyRef)
    assert (second.key.property, second.descending) == ("dwt", True)
    assert not third.descending


def test_an_aggregate_query_orders_by_its_columns() -> None:
    found = keys("c desc, $v.kind", "$v.kind, count($v) as c")
    assert found == [SortKey(key="c", descending=True), SortKey(key="v.kind")]


def test_nearest_ranks_from_the_smallest_distance() -> None:
    (key,) = keys("nearest($v.sig, [1, 2.0, 3])")
    assert isinstance(key.key, Nearest)
    assert not key.descending
    assert isinstance(key.key.query, Const)
    assert key.key.query.value == (1.0, 2.0, 3.0)
    assert key.key.query.type.dimension == 3
    assert key.key.model == "acme/e1"


def test_bm25_and_rrf_rank_from_the_highest_score() -> None:
    (key,) = keys('bm25($v.name, "x")')
    assert isinstance(key.key, Bm25)
    assert key.descending
    (fused,) = keys('rrf(nearest($v.sig, "x"), bm25($v.name, "x")) desc')
    assert isinstance(fused.key, Rrf)
    assert isinstance(fused.key.k, Const)
    assert fused.key.k.value == 60


def test_an_alias_of_a_ranking_is_that_ranking() -> None:
    (key,) = keys("d", "nearest($v.sig, $t) as d", "$t: String")
    assert isinstance(key.key, Nearest)


@pytest.mark.parametrize("text", ["limit 0", "limit 7"])
def test_a_limit_is_a_constant(text: str) -> None:
    found = read(f"match {{ $v: Vessel }} return {{ $v }} {text}")
    assert isinstance(found.limit, Const)
    assert found.limit.value == int(text.split()[1])


def test_a_count_of_a_variable_counts_entities() -> None:
    (column,) = read("match { $v: Vessel } return { count($v) as n }").columns
    assert isinstance(column.expr, Aggregate)
    assert isinstance(column.expr.argument, EntityRef)
