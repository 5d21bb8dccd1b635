"""Blocks that are counted for all nodes of a type give what they give for each of them, from whichever end they begin."""

import random
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb import Graph

SCHEMA = """
node Port { code: String @key  depth: I32?  name: String? }
node Vessel { imo: String @key  dwt: I32? }
edge Feeds: Port -> Port { weight: I32? }
edge CallsAt: Vessel -> Port { berth: String? }
"""
BLOCKS = [
    "count { $p feeds $q  $q.depth > 4 }",
    "count { $q feeds $p  $q.depth > 4 }",
    "count { $p <feeds> $q  $q.depth > 4  $q.name is not null }",
    "count { $p $e:feeds $q  $q.depth between 2 and 7 }",
    "count { $p $e:<feeds> $q  $q.depth > 4 }",
    "count { $p callsAt $v  $v.dwt > 4 }",
    "count { $v $c:callsAt $p  not $v.dwt > 4 }",
    'count { $p feeds $q  $q.code in ["p1", "p2", "p3"] }',
    'count { $p feeds $q  $q.name matches "[ab]" or $q.depth is null }',
    "count { $p feeds $q  $q.depth > 4  $q feeds $r }",
    "count { $p $e:feeds $q  $q.depth > 4  $e.weight > 3 }",
    "min($q.depth) { $p feeds $q  $q.depth > 4 }",
    "max($e.weight) { $p $e:feeds $q  $q.depth > 4 }",
    "exists { $p feeds $q  $q.depth > 4 }",
    "sum($q.depth) { $p feeds $q  $q.depth > 4 }",
    "collect($q.depth) { $p $e:feeds $q  $q.depth > 4 }",
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    chance, place = random.Random(7), tmp_path_factory.mktemp("counted")
    graph = omnigraphdb.init(str(Path(place) / "g"), SCHEMA)

    def number() -> int | None:
        return chance.choice([None, *range(10)])

    ports = [f"p{n}" for n in range(30)]
    nodes = [
        {"type": "Port", "data": {"code": one, "depth": number(), "name": chance.choice(["a", "c", None])}}
        for one in ports
    ]  # fmt: skip
    nodes += [{"type": "Vessel", "data": {"imo": f"v{n}", "dwt": number()}} for n in range(12)]
    pairs = [(chance.choice(ports), chance.choice(ports)) for _ in range(90)]
    edges = [{"edge": "Feeds", "from": a, "to": b, "data": {"weight": number()}} for a, b in pairs]
    calls = [(f"v{chance.randrange(12)}", chance.choice(ports)) for _ in range(30)]
    edges += [{"edge": "CallsAt", "from": a, "to": b} for a, b in calls]
    graph.load([*nodes, *edges], mode="append")
    graph.mutate('query m() { delete Port where code in ["p4", "p9"] }')
    return graph


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_all_nodes_gives_what_it_gives_for_each(graph: Graph, block: str) -> None:
    def ask(more: str) -> list[tuple[object, ...]]:
        text = f"query q() {{ match {{ $p: Port  {more} }} return {{ $p as p, {block} as n }} order {{ p }} }}"
        return [tuple(row.values()) for row in graph.query(text).rows]

    whole = ask("")
    # The condition holds for all ports; with it the block begins at the ports.
    assert whole == ask('$p.code != "none"')
    assert len(whole) == 28
    assert len({str(value) for _, value in whole}) > 1
