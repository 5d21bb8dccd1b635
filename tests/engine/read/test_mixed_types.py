"""Variables of several types: interfaces, and walks over any edge."""

from collections.abc import Callable

import pytest

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.errors import QueryError

SCHEMA = """
interface Named { name: String  age: I32? }
interface Unused { note: String }
node Port implements Named { code: String @key  lat: F64? }
node Vessel implements Named { imo: String @key  kind: enum(bulk, tanker) }
node Company { cid: String @key  title: String }
node Berth implements Named { mark: String @key }
edge CallsAt: Vessel -> Port { eta: DateTime?  note: String? }
edge Feeds: Port -> Port { weight: I32?  note: String? }
edge Ships: Port -> Port { weight: I32?  note: String? }
edge OwnedBy: Vessel -> Company { note: String? }
"""
PORTS = [("A", "Ant", 5), ("B", "Bre", None), ("C", "Cux", 7)]
VESSELS = [("A", "Aster", 5), ("v2", "Borea", None), ("v3", "Cirrus", 9)]
EDGES = [
    ("CallsAt", "A", "B", {"note": "first"}),
    ("CallsAt", "A", "B", {}),
    ("CallsAt", "v2", "A", {}),
    ("Feeds", "A", "B", {"weight": 3}),
    ("Feeds", "B", "A", {}),
    ("Feeds", "C", "C", {}),
    ("Ships", "A", "B", {}),
    ("OwnedBy", "A", "k", {}),
]

Ask = Callable[[str], list[tuple[object, ...]]]


def fill(graph: Graph) -> Graph:
    nodes = [
        *({"type": "Port", "data": {"code": c, "name": n, "age": a}} for c, n, a in PORTS),
        *(
            {"type": "Vessel", "data": {"imo": i, "name": n, "age": a, "kind": "bulk"}}
            for i, n, a in VESSELS
        ),
        {"type": "Company", "data": {"cid": "k", "title": "K"}},
    ]
    edges = [{"edge": e, "from": a, "to": b, "data": d} for e, a, b, d in EDGES]
    graph.load([*nodes, *edges], mode="append")
    return graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return fill(omnigraphdb.init(str(tmp_path_factory.mktemp("mixed") / "graph"), SCHEMA))


@pytest.fixture(scope="module", params=["committed", "compacted", "branched"])
def ask(request: pytest.FixtureRequest, graph: Graph) -> Ask:
    """The same questions before and after maintenance, and on a branch."""
    branch = "main"
    if request.param == "compacted":
        graph.optimize()
    elif request.param == "branched":
        branch = graph.branch_create("mixed").name

    def ask(text: str) -> list[tuple[object, ...]]:
        found = graph.query(f"query q() {{ {text} }}", branch=branch)
        return [tuple(row.values()) for row in found.rows]

    return ask


def test_an_interface_matches_every_type_that_implements_it(ask: Ask) -> None:
    assert ask(
        "match { $x: Named } return { $x, type($x) as t, $x.name } order { $x.age desc }"
    ) == [
        ("v3", "Vessel", "Cirrus"),
        ("C", "Port", "Cux"),
        ("A", "Port", "Ant"),
        ("A", "Vessel", "Aster"),
        ("B", "Port", "Bre"),
        ("v2", "Vessel", "Borea"),
    ]
    assert ask('match { $x: Named { name: "Ant" } } return { entity($x) as e }') == [
        ({"id": "A", "name": "Ant", "age": 5},)
    ]
    assert ask('match { $x: Named  id($x) in ["A", "v3"] } return { type($x) as t, $x.*}') == [
        ("Port", "Ant", 5),
        ("Vessel", "Aster", 5),
        ("Vessel", "Cirrus", 9),
    ]


def test_equal_ids_of_two_types_are_two_entities(ask: Ask) -> None:
    assert ask('match { $x: Named  id($x) = "A" } return { count(distinct $x) as n }') == [(2,)]
    assert ask("match { $x: Named } return { $x as x, count($x) as n } order { x } limit 2") == [
        ("A", 1),
        ("A", 1),
    ]
    assert ask(
        "match { $x: Named  $y: Named  $x != $y  $x.age = $y.age }"
        " return { type($x) as a, type($y) as b } order { a }"
    ) == [("Port", "Vessel"), ("Vessel", "Port")]


def test_a_walk_of_one_edge_type_leads_from_the_types_that_have_it(ask: Ask) -> None:
    assert ask("match { $x: Named  $x callsAt $p } return { $x as x, $p as p } order { x }") == [
        ("A", "B"),
        ("v2", "A"),
    ]
    assert ask(
        "match { $x: Named  not { $x callsAt $_ } } return { $x as x, type($x) as t } order { x, t }"
    ) == [("A", "Port"), ("B", "Port"), ("C", "Port"), ("v3", "Vessel")]
    assert ask(
        "match { $x: Named } return { type($x) as t, $x as x, count { $x callsAt $p } as n }"
        " having { n > 0 } order { x }"
    ) == [("Vessel", "A", 1), ("Vessel", "v2", 1)]
    assert ask("match { $x feeds $y  $y: Named { age: 7 } } return { $x }") == [("C",)]


def test_any_edge_leads_either_way_and_gives_a_pair_once(ask: Ask) -> None:
    assert ask(
        'match { $x: Port { code: "A" }  $x -- $y } return { type($y) as t, $y as y } order { t, y }'
    ) == [("Port", "B"), ("Vessel", "v2")]
    assert ask("match { $x: Port  $x -- $x } return { $x }") == [("C",)]
    assert ask("match { $x -- $y } return { count($x) as n }") == [(9,)]
    assert ask(
        "match { $x: Port  $x -- $y  $x != $y }"
        " return { $x as x, type($y) as t, $y as y } order { x, t, y }"
    ) == [("A", "Port", "B"), ("A", "Vessel", "v2"), ("B", "Port", "A"), ("B", "Vessel", "A")]


def test_a_variable_of_any_edge_is_one_edge(ask: Ask) -> None:
    assert ask(
        'match { $x: Port { code: "A" }  $x $e:-- $y }'
        " return { type($e) as e, from($e) as f, to($e) as t, $e.note, type($y) as y } order { e, f }"
    ) == [
        ("CallsAt", "v2", "A", None, "Vessel"),
        ("Feeds", "A", "B", None, "Port"),
        ("Feeds", "B", "A", None, "Port"),
        ("Ships", "A", "B", None, "Port"),
    ]
    assert ask("match { $x $e:-- $y } return { type($e) as t, count($x) as n } order { t }") == [
        ("CallsAt", 6),
        ("Feeds", 5),
        ("OwnedBy", 2),
        ("Ships", 2),
    ]
    assert ask('match { $x $e:-- $y  $e.note = "first" } return { count(distinct $x) as n }') == [
        (2,)
    ]


def test_mixed_variables_go_through_blocks_and_stages(ask: Ask) -> None:
    assert ask(
        'match { $x: Named  optional { $x -- $y  type($y) = "Company" } }'
        " return { $x as x, type($x) as t, $y as y } order { x, t } limit 3"
    ) == [("A", "Port", None), ("A", "Vessel", "k"), ("B", "Port", None)]
    assert ask(
        "match { $x: Named } with { $x, $x.age as a } order { a desc } limit 3 match { $x -- $y }"
        " return { $x as x, a, $y as y, type($y) as t } order { x, t }"
    ) == [("A", 5, "B", "Port"), ("A", 5, "v2", "Vessel"), ("C", 7, "C", "Port")]
    assert ask(
        "match { $v: Vessel  $v -- $p  $p -- $q } return { count($q) as n, count(distinct $q) as d }"
    ) == [(5, 4)]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("T1", "match { $x: Unused } return { $x }"),
        ("T6", "match { $x: Named } return { $x.lat }"),
        ("T6", "match { $x -- $y } return { $y.name }"),
        ("T2", "match { $x: Named { lat: 1.0 } } return { $x }"),
        ("T26", "match { $x: Named  $x: Port } return { $x }"),
        ("T5", "match { $x: Named  $x ownedBy $y  $y callsAt $p } return { $x }"),
        ("T7", "match { $x: Named  $c: Company  $x != $c } return { $x }"),
        ("T65", "match { $x: Company  $y: Company  $x -- $y } return { $x }"),
        ("T65", "match { $b: Berth  $b -- $y } return { $y }"),
        ("T65", "match { $x: Port  $x --{1,3} $y } return { $x }"),
        ("T66", 'match { $x: Named  search($x.name, "a") } return { $x }'),
        ("T23", "match { $x: Port  $x $x:-- $y } return { $x }"),
    ],
)
def test_what_mixed_types_do_not_have_is_refused(graph: Graph, code: str, text: str) -> None:
    with pytest.raises(QueryError) as caught:
        graph.query(f"query q() {{ {text} }}")
    assert caught.value.code == code


def test_explain_names_the_access_path_of_each_type(graph: Graph) -> None:
    text = "query q() { match { $x: Named  $x.age = 5  $x $e:-- $y } return { $x, type($e) as t } }"
    shown = str(graph.explain(text))
    assert "Scan $x: Berth|Port|Vessel where $x.age = 5" in shown
    assert "Port: " in shown
    assert "-[$e: CallsAt|Feeds|OwnedBy|Ships]- $y: Company|Port|Vessel" in shown
    assert "OwnedBy: " in shown


# ---- keys of two variables


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("$x: Port  $y: Port  $x.code < $y.code", {("A", "B"), ("A", "C"), ("B", "C")}),
        ("$x: Port  $y: Port  id($x) > $y.code", {("B", "A"), ("C", "A"), ("C", "B")}),
        ("$x: Port  $y: Port  $x.code contains $y.code", {(one, one) for one in "ABC"}),
        (
            "$x: Port  $y: Port  $x.code != $y.code",
            {(a, b) for a in "ABC" for b in "ABC" if a != b},
        ),
        ("$x: Port  $y: Vessel  $x.code >= $y.imo", {("A", "A"), ("B", "A"), ("C", "A")}),
        ('$x: Port  $y: Vessel  $x.code = $y.imo or $x.code = "none"', {("A", "A")}),
        (
            '$x: Port  $y: Vessel  not { $x.code = $y.imo }  $x.code = "A"',
            {("A", "v2"), ("A", "v3")},
        ),
        ("$x: Named  $y: Port  id($x) = $y.code or 1 = 2", {(one, one) for one in "ABC"}),
    ],
)
def test_keys_of_two_variables_are_compared_as_texts(
    ask: Ask, pattern: str, rows: set[tuple[str, str]]
) -> None:
    found = ask(f"match {{ {pattern} }} return {{ $x as x, $y as y }}")
    assert set(found) == rows


def test_the_keys_of_an_inner_and_an_outer_variable_are_compared_as_texts(ask: Ask) -> None:
    body = "match { $x: Port } return { $x as x, count { $y: Port  $y.code > $x.code } as n } order { x }"
    assert ask(body) == [("A", 2), ("B", 1), ("C", 0)]
