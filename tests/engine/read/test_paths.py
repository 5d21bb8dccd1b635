"""Path variables: their values, their places in a query, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.errors import NotFound, OmniError, QueryError, ResourceLimit, UserInputError

SCHEMA = """
node Port { code: String @key }
node Vessel { imo: String @key }
edge Feeds: Port -> Port { weight: F64?  kind: String? }
edge Ships: Port -> Port { weight: F64? }
edge CallsAt: Vessel -> Port
"""
FEEDS = [("A", "B", 1.5), ("B", "C", 2.0), ("A", "C", 4.0), ("C", "D", 0.0), ("D", "D", 1.0)]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    rows: list[Any] = [{"type": "Port", "data": {"code": one}} for one in "ABCDE"]
    rows += [{"type": "Vessel", "data": {"imo": "v"}}]
    rows += [
        {"edge": "Feeds", "from": a, "to": b, "data": {"weight": w, "kind": "rail"}}
        for a, b, w in FEEDS
    ]
    rows += [
        {"edge": "Ships", "from": "D", "to": "E", "data": {"weight": None}},
        {"edge": "CallsAt", "from": "v", "to": "A"},
    ]
    with omnigraphdb.init(str(tmp_path_factory.mktemp("paths") / "g"), SCHEMA) as graph:
        graph.load(rows, mode="append")
        graph.mutate('query q() { insert Ships { from: "A" to: "B" weight: -1.0 } }', branch="main")
        yield graph


def ask(graph: Graph, match: str, result: str, head: str = "", **params: object) -> list[Any]:
    text = f"query q({head}) {{ match {{ {match} }} return {{ {result} }} }}"
    return [tuple(row.values()) for row in graph.query(text, params=params or None).rows]


ENDS = '$x: Port { code: "A" }  $y: Port { code: "D" }'


def test_a_path_has_hops_nodes_edges_and_aggregates_of_its_edges(graph: Graph) -> None:
    values = "hops($w) as n, nodes($w) as v, sum($w.weight) as c, max($w.weight * 2) as m, collect($w.kind) as k"
    assert ask(graph, f"{ENDS}  $x $w:feeds{{1,8}} $y", values) == [
        (2, ["A", "C", "D"], 4.0, 8.0, ["rail", "rail"])
    ]
    assert ask(graph, f"{ENDS}  $x $w:feeds{{1,8 by weight}} $y", values) == [
        (3, ["A", "B", "C", "D"], 3.5, 4.0, ["rail"] * 3)
    ]
    ((edges,),) = ask(graph, f"{ENDS}  $x $w:feeds{{1,8}} $y", "edges($w) as e")
    assert [{**one, "id": ""} for one in edges] == [
        {"id": "", "from": "A", "to": "C", "weight": 4.0, "kind": "rail"},
        {"id": "", "from": "C", "to": "D", "weight": 0.0, "kind": "rail"},
    ]


def test_a_path_of_several_types_tells_the_type_of_each_edge(graph: Graph) -> None:
    match = '$x: Port { code: "C" }  $y: Port { code: "E" }  $x $w:feeds|ships{1,4} $y'
    ((edges,),) = ask(graph, match, "edges($w) as e")
    assert [one["type"] for one in edges] == ["Feeds", "Ships"]


def test_values_of_a_path_stand_wherever_values_do(graph: Graph) -> None:
    text = """query q($n: I64) {
      match { $x: Port { code: "A" }  $x $w:feeds{1,$n} $y  hops($w) < 3  sum($w.weight) > 1 }
      return { $y, hops($w) as n, case when hops($w) > 1 then "far" else "near" end as reach }
      having { n > 0 } order { hops($w) desc, sum($w.weight) } }"""
    rows = graph.query(text, params={"n": 5}).rows
    assert [tuple(row.values()) for row in rows] == [
        ("D", 2, "far"), ("B", 1, "near"), ("C", 1, "near"),
    ]  # fmt: skip
    grouped = ask(graph, "$x: Port  $x $w:feeds{1,3} $y", "hops($w) as n, count($y) as k")
    assert grouped == [(1, 5), (2, 2)]
    assert ask(graph, "$x: Port  $x $w:feeds{1,3} $y", "max(hops($w)) as n") == [(2,)]


def test_a_path_in_a_block_is_looked_at_there_and_may_be_missing(graph: Graph) -> None:
    far = "$x: Port  exists { $x $w:feeds{1,3} $y  hops($w) > 1 }"
    assert sorted(ask(graph, far, "$x")) == [("A",), ("B",)]
    lone = '$x: Port { code: "E" }  optional { $x $w:feeds{1,3} $y }'
    values = "$y, hops($w) as n, nodes($w) as v, edges($w) as e, count($w.weight) as k"
    assert ask(graph, lone, values) == [(None, None, None, None, None)]
    text = """query q() { match { $x: Port  $x $w:feeds{1,3} $y } with { $y, hops($w) as n }
      match { $y $u:feeds{0,2} $z } return { $z, n, hops($u) as m } order { n desc, m, $z.code } limit 2 }"""
    rows = [tuple(row.values()) for row in graph.query(text).rows]
    assert rows == [("D", 2, 0), ("D", 2, 0)]


def test_arrow_has_lists_of_ids_and_of_structs(graph: Graph) -> None:
    text = f"query q() {{ match {{ {ENDS}  $x $w:feeds{{1,8}} $y }} return {{ nodes($w) as v, edges($w) as e }} }}"
    schema = graph.query(text).to_arrow().schema
    assert str(schema.field("v").type) == "list<item: string>"
    assert [one.name for one in schema.field("e").type.value_type] == [
        "id", "from", "to", "weight", "kind",
    ]  # fmt: skip


def test_explain_names_the_search(graph: Graph) -> None:
    for choice, name in (("", "from both ends"), (" by weight", "by cost"), (" best 3", "Yen")):
        text = f"query q() {{ match {{ {ENDS}  $x $w:feeds{{1,8{choice}}} $y }} return {{ hops($w) as n }} }}"
        assert name in str(graph.explain(text))
    profiled = (
        f"query q() {{ match {{ {ENDS}  $x $w:feeds{{1,8}} $y }} return {{ hops($w) as n }} }}"
    )
    assert "pairs searched from both ends" in str(graph.explain(profiled, profile=True))


@pytest.mark.parametrize(
    ("code", "match", "result"),
    [
        ("T68", "$x $w:feeds{1,*} $y", "hops($w) as n"),
        ("T68", "$x $w:feeds{1,8 by kind} $y", "hops($w) as n"),
        ("T6", "$x $w:feeds{1,8 by wait} $y", "hops($w) as n"),
        ("T6", "$x $w:feeds|ships{1,8 by kind} $y", "hops($w) as n"),
        ("T68", "$x $w:feeds{2,8 by weight} $y", "hops($w) as n"),
        ("T68", "$x $w:feeds{1,8 by weight all} $y", "hops($w) as n"),
        ("T68", "$x $w:feeds{1,8 best 0} $y", "hops($w) as n"),
        ("T68", "$x $w:feeds{1,1 best 2} $y", "type($w) as n"),
        ("T68", "$v: Vessel  $v $w:callsAt{1,2} $x", "hops($w) as n"),
        ("T69", "$x $w:feeds{1,8} $y", "$w"),
        ("T69", "$x $w:feeds{1,8} $y", "$w.weight as k"),
        ("T69", "$x $w:feeds{1,8} $y", "id($w) as k"),
        ("T69", "$x $w:feeds{1,8} $y", "count($w) as k"),
        ("T69", "$x $w:feeds{1,8} $y  $w feeds $z", "$z"),
        ("T69", "$x $w:feeds{1,8} $y  $x $u:feeds{1,3} $z", "sum($w.weight + $u.weight) as k"),
        ("T69", "$x $e:feeds $y", "hops($e) as n"),
        ("T69", "$x $w:feeds{1,8} $y", "hops($x) as n"),
        ("T23", "$x $w:feeds{1,8} $y  $y $w:feeds{1,8} $z", "$z"),
        ("T8", "$x $w:feeds{1,8} $y", "sum($w.kind) as k"),
    ],
)
def test_a_path_that_means_nothing_is_refused_by_code(
    graph: Graph, code: str, match: str, result: str
) -> None:
    with pytest.raises(QueryError) as raised:
        ask(graph, f"$x: Port  {match}", result)
    assert raised.value.code == code


@pytest.mark.parametrize("bound", ["$y: Port  ", ""])
def test_a_weight_that_no_cost_adds_names_its_edge(graph: Graph, bound: str) -> None:
    match = f'$x: Port {{ code: "A" }}  {bound}$x $w:ships{{1,3 by weight}} $y'
    with pytest.raises(
        QueryError, match=r"'weight' of the edge [0-9A-Z]{26} of Ships is (NULL|-1)"
    ):
        ask(graph, match, "hops($w) as n")
    kept = match.replace("by weight", "by weight where weight >= 0")
    assert ask(graph, kept, "hops($w) as n") == []


def test_bounds_over_the_limit_are_refused(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResourceLimit, match=r"hops of the path .w: 65 is over the limit of 64"):
        ask(graph, f"{ENDS}  $x $w:feeds{{1,65}} $y", "hops($w) as n")
    with pytest.raises(ResourceLimit, match="limit of 64"):
        ask(graph, f"{ENDS}  $x $w:feeds{{1,65}} $y", "$y")
    with pytest.raises(ResourceLimit, match="limit of 64"):
        ask(graph, f"{ENDS}  $x $w:feeds{{1,$n}} $y", "hops($w) as n", "$n: I64", n=1000)
    monkeypatch.setenv("OMNIGRAPH_PATH_HOPS_MAX", "70")
    with omnigraphdb.open(graph.uri) as handle:
        assert ask(handle, f"{ENDS}  $x $w:feeds{{1,65}} $y", "hops($w) as n") == [(2,)]


def test_paths_that_outgrow_their_memory_are_refused(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_PATH_BYTES_MAX", "400")
    with omnigraphdb.open(graph.uri) as handle:
        for choice in ("", " by weight", " all", " best 3"):
            with pytest.raises(ResourceLimit, match="bytes of the paths") as raised:
                ask(handle, f"$x: Port  $x $w:feeds{{0,8{choice}}} $y", "hops($w) as n")
            assert "OMNIGRAPH_PATH_BYTES_MAX" in str(raised.value.hint)


def test_a_start_that_does_not_exist_has_no_path(graph: Graph) -> None:
    lost = ENDS.replace('"A"', '"nowhere"')
    for choice in ("", " by weight", " all", " best 2"):
        assert ask(graph, f"{lost}  $x $w:feeds{{0,8{choice}}} $y", "hops($w) as n") == []


def test_parameters_choose_how_many_paths(graph: Graph) -> None:
    match = f"{ENDS}  $x $w:feeds{{1,8 best $k}} $y"
    assert ask(graph, match, "hops($w) as n", "$k: I32", k=5) == [(2,), (3,)]
    with pytest.raises(OmniError, match="number of best paths"):
        ask(graph, match, "hops($w) as n", "$k: I32", k=0)


def test_a_path_is_found_without_a_query(graph: Graph) -> None:
    shortest = graph.path("Port", "A", "Port", "D", edges=["Feeds"])
    assert shortest is not None
    assert (shortest.nodes, shortest.hops, shortest.cost) == (("A", "C", "D"), 2, 2)
    cheapest = graph.path("Port", "A", "Port", "D", edges=["Feeds"], by="weight")
    assert cheapest is not None
    assert (cheapest.nodes, cheapest.cost) == (("A", "B", "C", "D"), 3.5)
    assert [one["weight"] for one in cheapest.edges] == [1.5, 2.0, 0.0]
    assert "cost 3.5" in repr(cheapest)
    mixed = graph.path("Port", "C", "Port", "E")
    assert mixed is not None
    assert [one["type"] for one in mixed.edges] == ["Feeds", "Ships"]
    itself = graph.path("Port", "A", "Port", "A")
    assert itself is not None
    assert (itself.nodes, itself.cost) == (("A",), 0)
    assert graph.path("Port", "E", "Port", "A") is None
    assert graph.path("Port", "E", "Port", "A", undirected=True) is not None
    assert graph.path("Port", "A", "Port", "D", edges=["Feeds"], hops_max=1) is None


@pytest.mark.parametrize(
    ("error", "message", "ends", "more"),
    [
        (NotFound, "Port nowhere", ("Port", "nowhere", "Port", "A"), {}),
        (NotFound, "Prt", ("Prt", "A", "Port", "A"), {}),
        (NotFound, "Fees", ("Port", "A", "Port", "D"), {"edges": ["Fees"]}),
        (NotFound, "wait", ("Port", "A", "Port", "D"), {"by": "wait"}),
        (UserInputError, "one type", ("Port", "A", "Vessel", "v"), {}),
        (UserInputError, "CallsAt", ("Port", "A", "Port", "D"), {"edges": ["CallsAt"]}),
        (UserInputError, "no edge type", ("Vessel", "v", "Vessel", "v"), {}),
        (ResourceLimit, "limit of 64", ("Port", "A", "Port", "D"), {"hops_max": 65}),
        (
            QueryError,
            "of Ships is",
            ("Port", "A", "Port", "B"),
            {"edges": ["Ships"], "by": "weight"},
        ),
    ],
)
def test_a_path_that_cannot_be_asked_for_is_refused_in_words(
    graph: Graph, error: type[OmniError], message: str, ends: tuple[str, ...], more: Any
) -> None:
    with pytest.raises(error, match=message):
        graph.path(*ends, **more)
