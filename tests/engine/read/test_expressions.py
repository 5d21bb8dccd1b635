"""Expressions, blocks, stages and unions on a small graph: what they give, and what they refuse."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.errors import EngineError, QueryError

SCHEMA = """
node Port { code: String @key  name: String  lat: F64? }
node Vessel { imo: String @key  name: String  kind: String  built: Date?  dwt: I32?  ok: Bool? }
edge CallsAt: Vessel -> Port { berth: String? }
edge Feeds: Port -> Port { weight: I32? }
"""
PORTS = [("BEANR", "Antwerp", 51.2), ("DEHAM", "Hamburg", None), ("NLRTM", "Rotterdam", 51.9)]
VESSELS = [
    ("1", "Aster", "tanker", "2010-05-31", 80000, True),
    ("2", "Borea", "bulk", None, 120000, False),
    ("3", "Cirrus", "tanker", "2018-03-15", None, None),
]
FEEDS = [("NLRTM", "BEANR", 5), ("NLRTM", "DEHAM", 9), ("BEANR", "DEHAM", 2)]
CALLS = [("1", "NLRTM"), ("1", "NLRTM"), ("1", "BEANR"), ("2", "NLRTM")]

Ask = Callable[..., list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = omnigraphdb.init(str(tmp_path_factory.mktemp("expressions") / "graph"), SCHEMA)
    nodes = [
        *({"type": "Port", "data": {"code": c, "name": n, "lat": t}} for c, n, t in PORTS),
        *(
            {
                "type": "Vessel",
                "data": {"imo": i, "name": n, "kind": k, "built": b, "dwt": d, "ok": o},
            }
            for i, n, k, b, d, o in VESSELS
        ),
    ]
    edges = [
        *({"edge": "Feeds", "from": a, "to": b, "data": {"weight": w}} for a, b, w in FEEDS),
        *({"edge": "CallsAt", "from": a, "to": b} for a, b in CALLS),
    ]
    made.load([*nodes, *edges], mode="append")
    return made


@pytest.fixture
def ask(graph: Graph) -> Ask:
    def ask(text: str, **params: object) -> list[tuple[object, ...]]:
        declared = ", ".join(f"${name}: String" for name in params)
        found = graph.query(f"query q({declared}) {{ {text} }}", params)
        return [tuple(row.values()) for row in found.rows]

    return ask


def test_a_filter_calculates(ask: Ask) -> None:
    assert ask("match { $v: Vessel  $v.dwt / 7 % 2 = 0 and -$v.dwt < 0 } return { $v }") == [
        ("1",),
        ("2",),
    ]
    assert ask("match { $v: Vessel  $v.ok } return { $v }") == [("1",)]
    assert ask("match { $v: Vessel  not $v.ok } return { $v }") == [("2",)]


def test_and_evaluates_from_the_left(ask: Ask) -> None:
    guarded = "$v.dwt != 80000 and 10 / ($v.dwt - 80000) >= 0"
    assert ask(f"match {{ $v: Vessel  {guarded} }} return {{ $v }}") == [("2",)]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("1 / ($v.dwt - 80000)", "division by zero"),
        ("1.0 % ($v.dwt - 80000)", "division by zero"),
        ("$v.dwt * 9223372036854775807", "beyond the range of I64"),
        ("$v.dwt * 1e308", "beyond the range of F64"),
        ('$v.built + duration("P9000Y")', "beyond the years"),
    ],
)
def test_a_value_that_cannot_be_names_its_row(ask: Ask, item: str, reason: str) -> None:
    with pytest.raises(EngineError, match=reason) as caught:
        ask(f"match {{ $v: Vessel }} return {{ {item} as x }}")
    assert "$v = 1" in str(caught.value)


def test_dates_move_inside_of_their_month(ask: Ask) -> None:
    text = 'match { $v: Vessel { imo: "1" } } return { $v.built + duration("P1M") as a, $v.built - duration("P3M1D") as b }'
    assert ask(text) == [("2010-06-30", "2010-02-27")]


def test_a_sum_of_integers_is_exact_or_an_error(ask: Ask) -> None:
    big = "match { $v: Vessel } return { sum(%s) as s }"
    assert ask(big % "coalesce($v.dwt, 1) + 3000000000000000000") == [(9000000000000200001,)]
    with pytest.raises(EngineError, match="beyond the range of I64"):
        ask(big % "coalesce($v.dwt, 0) + 9223372036854000000")


def test_blocks_are_conditions_and_values(ask: Ask) -> None:
    assert ask("match { $p: Port  count { $v callsAt $p } > 1 } return { $p }") == [("NLRTM",)]
    assert ask(
        "match { $p: Port  not { $v callsAt $p } or $p.lat < 51.5 } return { $p, sum($e.weight) { $p $e:feeds $_ } as w }"
    ) == [("BEANR", 2), ("DEHAM", None)]
    assert ask(
        "match { $p: Port  exists { $v callsAt $p  $v.kind = $k } } return { $p }", k="bulk"
    ) == [("NLRTM",)]


def test_a_stage_leaves_its_items(ask: Ask) -> None:
    assert ask(
        "match { $v $c:callsAt $p } with { $p, count($v) as n } having { n > 1 } match { $p feeds $q }"
        " return { $p, n, $q } order { $q.name }"
    ) == [("NLRTM", 3, "BEANR"), ("NLRTM", 3, "DEHAM")]
    assert ask(
        "match { $p $e:feeds $q } with { $p, $e.weight as w } order { w desc } limit 1 per $p return { $p, w } order { w }"
    ) == [("BEANR", 2), ("NLRTM", 9)]


def test_a_union_gives_rows_once_or_all(ask: Ask) -> None:
    both = "match {{ $p: Port }} return {{ 1 as n }} union {}match {{ $v: Vessel }} return {{ 1 as n }}"
    assert ask(both.format("")) == [(1,)]
    assert ask(both.format("all ")) == [(1,)] * 6


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("T50", "match { $v: Vessel  $v.dwt } return { $v }"),
        ("T51", "match { $v: Vessel  $v.name + 1 = 2 } return { $v }"),
        ("T52", "match { $v: Vessel } return { lower($v.dwt) as x }"),
        ("T53", 'match { $v: Vessel } return { coalesce($v.dwt, "x") as x }'),
        ("T54", 'match { $v: Vessel  $v.name matches "(" } return { $v }'),
        ("T55", 'match { $v: Vessel } return { $v.built + duration("1 day") as x }'),
        ("T56", "match { $v: Vessel } return { 1" + " + 1" * 300 + " as x }"),
        ("T59", "match { $v: Vessel } return { [$v.name] as x }"),
        ("T60", "match { $v: Vessel } return { percentile($v.dwt, 2) as x }"),
        ("T61", "match { $v: Vessel } return { $v.* as x }"),
        ("T62", "match { $v: Vessel } return { $v } union match { $p: Port } return { $p }"),
        ("T63", "match { $v: Vessel } with { $v.name } return { 1 as x }"),
        ("T9", "match { $v: Vessel  count { $p: Port } > 1 } return { $v }"),
        ("T25", "match { $v: Vessel  exists { $v callsAt $p } } return { $p }"),
        ("T36", "match { $v: Vessel } return { sum(count($v)) as x }"),
        ("T7", "match { $v: Vessel  $p: Port  $v = $p } return { $v }"),
    ],
)
def test_a_wrong_expression_is_refused_by_its_code(ask: Ask, code: str, text: str) -> None:
    with pytest.raises(QueryError) as caught:
        ask(text)
    assert caught.value.details["diagnostic"]["code"] == code


def test_every_form_reads_an_earlier_commit(tmp_path: Path) -> None:
    made = omnigraphdb.init(str(tmp_path / "graph"), SCHEMA)
    made.load([{"type": "Port", "data": {"code": "A", "name": "a"}}], mode="append")
    before = made.commits()[0].id
    made.load([{"type": "Port", "data": {"code": "B", "name": "b"}}], mode="append")
    text = (
        "query q() { match { $p: Port  count { $p feeds $_ } = 0 } with { upper($p.name) as name }"
        " return distinct { name } order { name } }"
    )
    assert [row["name"] for row in made.query(text, at=before).rows] == ["A"]
    assert [row["name"] for row in made.query(text).rows] == ["A", "B"]


def test_a_whole_entity_shows_its_properties_in_the_order_of_the_schema(graph: Graph) -> None:
    declared = ["imo", "name", "kind", "built", "dwt", "ok"]
    columns = graph.query("query q() { match { $v: Vessel } return { $v.* } }").columns
    assert columns == [f"v.{name}" for name in declared]
    row = graph.query("query q() { match { $v: Vessel } return { entity($v) as v } }").rows[0]
    assert list(row["v"]) == ["id", *declared]


def test_a_union_is_ordered_by_its_columns_only(graph: Graph) -> None:
    part = "match { $p: Port } return { $p.code as code }"
    ordered = f"query q() {{ {part} union all {part} order {{ code desc }} limit 2 }}"
    assert [row["code"] for row in graph.query(ordered).rows] == ["NLRTM", "NLRTM"]
    with pytest.raises(QueryError, match="ordered by its columns: code: String") as caught:
        graph.query(f"query q() {{ {part} union {part} order {{ $p.lat }} }}")
    assert caught.value.code == "T62"


def test_a_null_that_stands_as_a_condition_is_not_advised_to_be_compared_with_null(
    graph: Graph,
) -> None:
    with pytest.raises(QueryError, match="T50") as refused:
        graph.query("query q() { match { $v: Vessel  $v.ok or null } return { $v } }")
    assert "null is not null" not in str(refused.value)


def test_a_stage_keeps_edges(ask: Ask) -> None:
    heaviest = "match { $p $e:feeds $q } with { $p, $e } order { $e.weight desc } limit 1 per $p "
    assert ask(heaviest + "return { $p.code as p, $e.weight, to($e), type($e) } order { p }") == [
        ("BEANR", 2, "DEHAM", "Feeds"),
        ("NLRTM", 9, "DEHAM", "Feeds"),
    ]
    counted = "match { $p $e:feeds $q  optional { $v callsAt $p } } with { $e, count($v) as n } return { $e.weight as w, n } order { w }"
    assert ask(counted) == [(2, 1), (5, 2), (9, 2)]


def test_an_edge_that_a_stage_kept_has_no_value_by_itself(graph: Graph) -> None:
    with pytest.raises(QueryError, match="T23"):
        graph.query("query q() { match { $p $e:feeds $q } with { $e } return { $e } }")
