"""Paths on random graphs are those that a list of all paths, and networkx, give."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any

import networkx
import pytest

import omnigraphdb
from omnigraphdb import Graph
from tests.support.path_model import ModelEdge, Pair, Path, Walk, list_paths

SCHEMA = """
node Port { code: String @key  part: I32 }
edge Feeds: Port -> Port { weight: I32? }
edge Ships: Port -> Port { weight: I32? }
"""
KINDS = ("Feeds", "Ships")
NODES = 6


def make_rows(rng: random.Random, parts: range) -> Iterator[dict[str, Any]]:
    """Many small graphs in one: loops, parallel edges, zero weights, nodes without an edge."""
    for part in parts:
        names = [f"p{part}.{number}" for number in range(NODES)]
        yield from ({"type": "Port", "data": {"code": one, "part": part}} for one in names)
        for _ in range(rng.randint(4, 13)):
            ends = {"from": rng.choice(names), "to": rng.choice(names)}
            data = {"weight": rng.choice([0, 0, 1, 1, 2, 3, 7])}
            yield {"edge": rng.choice(KINDS), **ends, "data": data}


def read_edges(graph: Graph, **at: Any) -> list[ModelEdge]:
    found = []
    for kind in KINDS:
        word = kind.lower()
        text = f"query q() {{ match {{ $a: Port  $a $e:{word} $b }} return {{ id($e) as i, $a, $b, $e.weight as w }} }}"
        rows = graph.query(text, **at).rows
        found += [ModelEdge(row["i"], kind, row["a"], row["b"], row["w"]) for row in rows]
    return found


def make_walks(rng: random.Random, count: int) -> Iterator[Walk]:
    for number in range(count):
        choice = ("shortest", "by", "best", "all", "by best")[number % 5]
        by = "by" in choice
        low = rng.choice([0, 1]) if by else rng.choice([0, 1, 1, 2])
        yield Walk(
            kinds=rng.choice([("Feeds",), ("Ships",), KINDS]),
            low=low,
            high=rng.choice([1, 2, 3] if low == 0 else [2, 3, 4, 8]),
            by=by,
            best=rng.choice([1, 2, 3, 6]) if "best" in choice else None,
            every=choice == "all",
            least=rng.choice([None, None, 1]),
            undirected=rng.random() < 0.25,
        )


def group(rows: Sequence[Any]) -> dict[Pair, list[Path]]:
    found: dict[Pair, list[Path]] = {}
    for row in rows:
        found.setdefault((row["x"], row["y"]), []).append(tuple(one["id"] for one in row["e"]))
    return found


def ask_everywhere(graph: Graph, walk: Walk, edges: list[ModelEdge], way: str, **at: Any) -> int:
    """Compare the paths of all pairs; `way` is how the ends are bound."""
    match = {
        "from the left": f"$x: Port  $x $w:{walk.text} $y",
        "from the right": f"$y: Port {{ code: $end }}  $x $w:{walk.text} $y",
        "between": f"$x: Port  $x <feeds|ships>{{0,*}} $y  $x $w:{walk.text} $y",
        "pair": f"$x: Port {{ code: $start }}  $y: Port {{ code: $end }}  $x $w:{walk.text} $y",
    }[way]
    expected = list_paths(walk, edges)
    params: dict[str, str] = {}
    if way in ("pair", "from the right"):
        start, end = random.Random(walk.text).choice(sorted(expected) or [("none", "none")])
        params = {"start": start, "end": end}
        wanted = (
            (lambda pair: pair == (start, end)) if way == "pair" else lambda pair: pair[1] == end
        )
        expected = {pair: paths for pair, paths in expected.items() if wanted(pair)}
    elif walk.low == 0:
        # Nodes that no edge touches reach themselves.
        lonely = {
            row["p"]
            for row in graph.query("query q() { match { $p: Port } return { $p } }", **at).rows
        }
        alone: dict[Pair, list[Path]] = {(one, one): [()] for one in lonely}
        expected = alone | expected
    head = ", ".join(f"${name}: String" for name in params)
    text = f"query q({head}) {{ match {{ {match} }} return {{ $x, $y, hops($w) as n, edges($w) as e, sum($w.weight) as c, nodes($w) as v }} }}"
    rows = graph.query(text, params=params or None, **at).rows
    assert group(rows) == expected, (walk, way)
    # Two types may have edges of the same id.
    known = {(edge.id, edge.source, edge.target, edge.weight) for edge in edges}
    for row in rows:
        ids = [one["id"] for one in row["e"]]
        assert row["n"] == len(ids)
        assert row["c"] == (sum(one["weight"] for one in row["e"]) if ids else None)
        assert {(one["id"], one["from"], one["to"], one["weight"]) for one in row["e"]} <= known
        assert (row["v"][0], row["v"][-1], len(row["v"])) == (row["x"], row["y"], len(ids) + 1)
        for one, ends in zip(row["e"], zip(row["v"], row["v"][1:], strict=False), strict=True):
            assert {one["from"], one["to"]} == set(ends)
    return len(expected)


WAYS = ("from the left", "from the right", "between", "pair")


def run_cases(graph: Graph, rng: random.Random, walks: int, **at: Any) -> int:
    edges = read_edges(graph, **at)
    cases = 0
    for number, walk in enumerate(make_walks(rng, walks)):
        cases += ask_everywhere(graph, walk, edges, WAYS[number % len(WAYS)], **at)
    return cases


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    uri = str(tmp_path_factory.mktemp("paths") / "g")
    with omnigraphdb.init(uri, SCHEMA) as graph:
        graph.load(list(make_rows(random.Random(1), range(8))), mode="append")
        yield graph


def test_paths_are_those_of_a_list_of_all_paths(graph: Graph) -> None:
    assert run_cases(graph, random.Random(2), 40) > 300


def test_paths_of_an_old_commit_and_of_a_branch_are_theirs(graph: Graph) -> None:
    before = graph.commits()[0].id
    branch = graph.branch_create("side").name
    text = "query q() { delete Feeds where weight > 2 }"
    graph.mutate(text, branch=branch)
    graph.load(list(make_rows(random.Random(3), range(100, 103))), mode="append", branch=branch)
    assert run_cases(graph, random.Random(4), 12, branch=branch) > 50
    assert run_cases(graph, random.Random(5), 8, at=before) > 50


def test_paths_by_index_hops_are_the_same(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_TRAVERSAL_MODE", "indexed")
    with omnigraphdb.open(graph.uri) as handle:
        assert run_cases(handle, random.Random(6), 12) > 60


def test_lengths_and_costs_are_those_of_networkx(graph: Graph) -> None:
    edges = [edge for edge in read_edges(graph) if edge.kind == "Feeds"]
    other = networkx.MultiDiGraph()
    other.add_weighted_edges_from((edge.source, edge.target, edge.weight) for edge in edges)
    hops = dict(networkx.all_pairs_shortest_path_length(other))
    costs = dict(networkx.all_pairs_dijkstra_path_length(other))
    text = "query q() {{ match {{ $x: Port  $x $w:feeds{{1,8{by}}} $y }} return {{ $x, $y, hops($w) as n, sum($w.weight) as c }} }}"
    for by, name, found in (("", "n", hops), (" by weight", "c", costs)):
        rows = graph.query(text.format(by=by)).rows
        ours = {(row["x"], row["y"]): row[name] for row in rows if row["x"] != row["y"]}
        theirs = {(a, b): d for a, ends in found.items() for b, d in ends.items() if a != b}
        assert ours == theirs


@pytest.mark.soak
def test_paths_of_many_random_graphs(tmp_path: FilePath) -> None:
    rng, cases = random.Random(7), 0
    for number in range(3):
        with omnigraphdb.init(str(tmp_path / f"g{number}"), SCHEMA) as graph:
            graph.load(list(make_rows(rng, range(10))), mode="append")
            cases += run_cases(graph, rng, 200)
    assert cases > 20_000
