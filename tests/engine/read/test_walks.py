"""Walks without a variable: from no hop on, without end, over several edge types, under a condition on every edge."""

import itertools
from collections.abc import Iterator

import pytest

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.errors import ParamError, QueryError

SCHEMA = """
node Port { code: String @key }
node Vessel { imo: String @key }
edge Feeds: Port -> Port { weight: I32?  kind: enum(rail, road)? }
edge Ships: Port -> Port { weight: I32? }
edge CallsAt: Vessel -> Port
"""
PORTS = "ABCDEF"
Edges = list[tuple[str, str, int | None]]
FEEDS: Edges = [
    ("A", "B", 5),
    ("B", "C", 2),
    ("C", "D", None),
    ("D", "D", 9),
    ("A", "C", 1),
    ("E", "A", 3),
]
SHIPS: Edges = [("C", "E", 4), ("B", "F", 1), ("F", "B", 7)]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    rows = [{"type": "Port", "data": {"code": one}} for one in PORTS]
    rows.append({"type": "Vessel", "data": {"imo": "v"}})
    for name, edges in (("Feeds", FEEDS), ("Ships", SHIPS)):
        rows += [{"edge": name, "from": a, "to": b, "data": {"weight": w}} for a, b, w in edges]
    rows.append({"edge": "CallsAt", "from": "v", "to": "A"})
    with omnigraphdb.init(str(tmp_path_factory.mktemp("walks") / "g"), SCHEMA) as graph:
        graph.load(rows, mode="append")
        yield graph


def reach(edges: Edges, low: int, high: int) -> set[tuple[str, str]]:
    """The pairs whose shortest distance is within bounds; a loop is one hop."""
    found = {(a, b) for a, b, _ in edges if a == b and low == 1}
    for start in PORTS:
        seen, front = {start}, {start}
        if low == 0:
            found.add((start, start))
        for distance in range(1, high + 1):
            front = {b for a, b, _ in edges if a in front} - seen
            seen |= front
            found |= {(start, one) for one in front if distance >= low}
    return found


def ask(graph: Graph, walk: str, head: str = "", **params: object) -> set[tuple[str, str]]:
    text = f"query q({head}) {{ match {{ $a: Port  $a {walk} $b }} return {{ $a, $b }} }}"
    rows = [tuple(row.values()) for row in graph.query(text, params=params or None).rows]
    assert len(rows) == len(set(rows))
    return set(rows)


CASES = [
    *((f"feeds{{{low},{high}}}", FEEDS, low, high) for low, high in ((0, 0), (0, 2), (0, 1), (1, 2))),
    ("feeds{1,*}", FEEDS, 1, 9),
    ("feeds{0,*}", FEEDS, 0, 9),
    ("feeds{2,*}", FEEDS, 2, 9),
    ("feeds|ships{1,3}", FEEDS + SHIPS, 1, 3),
    ("ships|feeds", FEEDS + SHIPS, 1, 1),
    ("feeds|ships{1,*}", FEEDS + SHIPS, 1, 9),
    ("feeds{1,3 where weight > 1}", [one for one in FEEDS if (one[2] or 0) > 1], 1, 3),
    ("feeds{1,1 where weight is null}", [one for one in FEEDS if one[2] is None], 1, 1),
    (
        "feeds|ships{0,2 where weight between 2 and 5 or weight % 2 = 1 and not weight = 1}",
        [one for one in FEEDS + SHIPS if one[2] is not None and one[2] != 1],
        0,
        2,
    ),
]  # fmt: skip


@pytest.mark.parametrize("mode", ["csr", "indexed"])
def test_a_walk_reaches_what_a_search_by_hand_reaches(
    graph: Graph, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", mode)
    with omnigraphdb.open(graph.uri) as handle:
        for walk, edges, low, high in CASES:
            assert ask(handle, walk) == reach(edges, low, high), walk


def test_undirected_walks_over_several_types_go_both_ways(graph: Graph) -> None:
    both = [*FEEDS, *SHIPS]
    both += [(b, a, w) for a, b, w in both]
    assert ask(graph, "<feeds|ships>{0,2}") == reach(both, 0, 2)


def test_parameters_bound_a_walk_and_its_condition(graph: Graph) -> None:
    head = "$low: I64, $high: I32, $least: I64"
    for low, high, least in itertools.product((0, 1, 2), (2, 3), (1, 4)):
        kept = [one for one in FEEDS if (one[2] or 0) > least]
        walk = "feeds{$low,$high where weight > $least}"
        found = ask(graph, walk, head, low=low, high=high, least=least)
        assert found == reach(kept, low, high)


def test_a_walk_closes_a_pattern_and_stands_in_blocks(graph: Graph) -> None:
    text = """query q() { match { $a: Port  $b: Port  $a feeds{0,2 where weight > 1} $b
      not { $a ships|feeds{1,2} $a }  count { $a feeds|ships{1,*} $z } > 1 } return { $a, $b } }"""
    heavy = reach([one for one in FEEDS if (one[2] or 0) > 1], 0, 2)
    loops = {a for a, b in reach([*FEEDS, *SHIPS], 1, 2) if a == b}
    far = reach([*FEEDS, *SHIPS], 1, 9)
    many = {one for one in PORTS if sum(a == one for a, _ in far) > 1}
    rows = {tuple(row.values()) for row in graph.query(text).rows}
    assert rows == {(a, b) for a, b in heavy if a not in loops and a in many}


def test_an_edge_variable_of_several_types_is_any_of_them(graph: Graph) -> None:
    text = """query q() { match { $a: Port { code: "B" }  $a $e:feeds|ships{1,1 where weight < 5} $b }
      return { $b, type($e) as t, $e.weight } order { t } }"""
    rows = [tuple(row.values()) for row in graph.query(text).rows]
    assert rows == [("C", "Feeds", 2), ("F", "Ships", 1)]


@pytest.mark.parametrize(
    ("code", "walk"),
    [
        ("T15", "$a feeds{3,2} $b"),
        ("T15", "$a feeds{1,} $b"),
        ("T15", "$v: Vessel  $v callsAt{0,2} $b"),
        ("T15", "$v: Vessel  $v callsAt{1,$n} $b"),
        ("T67", "$a feeds|callsAt{1,2} $b"),
        ("T4", "$a feeds|sips{1,2} $b"),
        ("T6", "$a feeds{1,2 where wait > 2} $b"),
        ("T6", "$a feeds|ships{1,2 where kind = \"rail\"} $b"),
        ("T7", "$a feeds{1,2 where weight > \"x\"} $b"),
        ("T68", "$a feeds{1,2 where $a.code = \"A\"} $b"),
        ("T68", "$a feeds{1,2 where exists { $a feeds $z }} $b"),
        ("T68", "$a feeds{1,2 by weight} $b"),
        ("T68", "$a feeds{1,2 best 3} $b"),
        ("T68", "$a feeds{1,2 all} $b"),
        ("T25", "$a feeds{1,$m} $b"),
        ("T7", "$a feeds{1,$t} $b"),
        ("T65", "$a --{1,2} $b"),
        ("T65", "$a --{1,1 where weight > 2} $b"),
    ],
)  # fmt: skip
def test_a_walk_that_means_nothing_is_refused_by_code(graph: Graph, code: str, walk: str) -> None:
    start = "" if "$v:" in walk else "$a: Port "
    text = f"query q($n: I64, $t: String) {{ match {{ {start} {walk} }} return {{ $b }} }}"
    with pytest.raises(QueryError) as raised:
        graph.query(text, params={"n": 1, "t": ""})
    assert raised.value.code == code


def test_bounds_by_parameter_are_held_to_the_same_rules(graph: Graph) -> None:
    text = "query q($n: I64?) { match { $a: Port  $a feeds{2,$n} $b } return { $b } }"
    with pytest.raises(QueryError, match="end before they begin"):
        graph.query(text, params={"n": 1})
    for value in (-1, None):
        with pytest.raises(ParamError, match="maximum of hops"):
            graph.query(text, params={"n": value})


def test_explain_shows_the_walk(graph: Graph) -> None:
    text = "query q() { match { $a: Port  $a feeds|ships{0,* where weight > 2} $b } return { $b } }"
    assert "-[Feeds|Ships{0,* where $_1.weight > 2}]->" in str(graph.explain(text))
