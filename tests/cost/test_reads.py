"""What reads ask of the tables: nothing when they are warm, only what is new after a commit."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.storage.counters import Cost, counting

SCHEMA = """
node Person { key: String @key  age: I32 @index  name: String @index  sig: Vector(2) @index }
edge Knows: Person -> Person { since: I32 }
"""
COUNT = 2_000
QUERIES = {
    "point": 'match { $p: Person { key: "p7" } } return { $p.name, $p.age }',
    "hop": 'match { $p: Person { key: "p7" }  $p knows $f } return { $f, $f.age }',
    "reach": 'match { $p: Person { key: "p7" }  $p knows{1,3} $f } return { count($f) as n }',
    "back": 'match { $p: Person { key: "p7" }  $f knows $p } return { $f }',
    "edges": "match { $p: Person { age: 7 }  $p $k:knows $f } return { $k.since, $f }",
    "degrees": "match { $p: Person  $p knows $f } return { $p.key, count($f) as n } order { n desc } limit 3",
    "filter": "match { $p: Person  $p.age > 60 } return { count($p) as n }",
    "search": 'match { $p: Person  search($p.name, "name7") } return { $p }',
    "rank": 'match { $p: Person } return { $p } order { bm25($p.name, "name7") } limit 3',
    "nearest": "match { $p: Person } return { $p } order { nearest($p.sig, [0.5, 0.5]) } limit 3",
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    numbers = np.arange(COUNT)
    keys = pa.array(np.char.add("p", numbers.astype("U")))
    people = pa.table(
        {
            "key": keys,
            "age": pa.array((numbers % 90).astype(np.int32)),
            "name": pa.array(np.char.add("name", (numbers % 50).astype("U"))),
            "sig": pa.FixedSizeListArray.from_arrays(
                pa.array(np.linspace(0, 1, 2 * COUNT).astype(np.float32)), 2
            ),
        }
    )
    knows = pa.table(
        {
            "from": pa.concat_arrays([keys] * 5),
            "to": keys.take(pa.array(np.random.default_rng(1).integers(0, COUNT, 5 * COUNT))),
            "since": pa.array(np.ones(5 * COUNT, dtype=np.int32)),
        }
    )
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"}) as made:
        made.load({"Person": people, "Knows": knows}, mode="append")
        yield made


def asked(work: Callable[[], object]) -> dict[Cost, int]:
    with counting() as costs:
        work()
    return {kind: costs[kind] for kind in (Cost.TABLE_OPENS, Cost.TABLE_SCANS) if costs[kind]}


def warmed(graph: Graph, text: str, **at: object) -> None:
    for _ in range(60):
        graph.query(text, **at)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_warm_query_opens_and_scans_nothing(graph: Graph, name: str) -> None:
    text = f"query q() {{ {QUERIES[name]} }}"
    warmed(graph, text)
    assert asked(lambda: graph.query(text)) == {}
    assert asked(lambda: list(graph.stream(text))) == {}


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_a_warm_query_of_the_past_opens_and_scans_nothing(graph: Graph, name: str) -> None:
    before = graph.commits()[0]
    graph.mutate('query m() { update Person set { age: 3 } where key = "p9" }')
    text = f"query q() {{ {QUERIES[name]} }}"
    warmed(graph, text, at=before)
    assert asked(lambda: graph.query(text, at=before)) == {}


@pytest.mark.parametrize("name", ["hop", "reach", "degrees"])
def test_after_a_commit_of_one_edge_only_that_edge_is_read(graph: Graph, name: str) -> None:
    text = f"query q() {{ {QUERIES[name]} }}"
    warmed(graph, text)
    insert = 'query m() { insert Knows { from: "p7", to: "p9", since: 2 } }'
    for _ in range(3):
        graph.mutate(insert)
        spent = asked(lambda: graph.query(text))
        assert spent.get(Cost.TABLE_SCANS, 0) <= 1
        assert asked(lambda: graph.query(text)) == {}


def test_a_commit_to_another_table_costs_a_reader_nothing(graph: Graph) -> None:
    text = f"query q() {{ {QUERIES['filter']} }}"
    warmed(graph, text)
    graph.mutate('query m() { insert Knows { from: "p7", to: "p9", since: 2 } }')
    assert asked(lambda: graph.query(text)) == {}
