"""Memory is bounded: a large result streams without being held, and what is cached stays under its bound."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.two_cores import two_cores

SCHEMA = """
node Left { key: String @key  n: I64 @index  text: String }
node Right { key: String @key  n: I64  text: String @index }
edge Link: Left -> Right { weight: I32 }
"""
PAIRS = (
    "query q() { match { $l: Left  $r: Right } return { $l.n as n, $l.text as l, $r.text as r } }"
)
SORTED = PAIRS.replace("r } }", "r } order { $r.n desc, $l.n } }")
READ = """
import json, resource, sys
import omnigraphdb

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

uri, way, query = sys.argv[1:]
graph = omnigraphdb.open(uri, read_only=True)
list(graph.stream(query.replace("$l: Left", "$l: Left { n: 1 }")))  # what any read takes is there already
before, rows, size = peak(), 0, 0
if way == "stream":
    for batch in graph.stream(query):
        rows, size = rows + batch.num_rows, size + batch.nbytes
else:
    table = graph.query(query).to_arrow()
    rows, size = table.num_rows, table.nbytes
print(json.dumps({"rows": rows, "bytes": size, "grown": peak() - before}))
"""


def pairs_graph(root: Path, left: int, right: int) -> Graph:
    def side(count: int) -> pa.Table:
        numbers = np.arange(count)
        return pa.table(
            {
                "key": pa.array(np.char.add("k", numbers.astype("U"))),
                "n": pa.array(numbers),
                "text": pa.array(np.char.add("a text of some length ", numbers.astype("U"))),
            }
        )

    graph = omnigraphdb.init(root, SCHEMA)
    graph.load({"Left": side(left), "Right": side(right)}, mode="append")
    return graph


def measured(graph: Graph, way: str, query: str) -> dict[str, Any]:
    """Read in a process of its own: its peak is what the read took."""
    ran = subprocess.run(
        [sys.executable, "-c", READ, graph.uri, way, query],
        env=two_cores(),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with pairs_graph(tmp_path_factory.mktemp("memory") / "g", 2_000, 1_000) as graph:
        yield graph


def test_a_stream_takes_a_fraction_of_its_result(million: Graph) -> None:
    found = measured(million, "stream", PAIRS)
    assert found["rows"] == 2_000_000
    assert found["grown"] < found["bytes"] / 2


def test_an_ordered_stream_holds_numbers_and_no_values(million: Graph) -> None:
    found = measured(million, "stream", SORTED)
    assert found["rows"] == 2_000_000
    assert found["grown"] < 120 * found["rows"]


def test_a_whole_result_is_not_held_twice(million: Graph) -> None:
    found = measured(million, "query", PAIRS)
    assert found["rows"] == 2_000_000
    assert found["grown"] < 2 * found["bytes"]


@pytest.mark.soak
def test_five_million_rows_stream_in_little_memory(tmp_path: Path) -> None:
    with pairs_graph(tmp_path / "g", 5_000, 1_000) as graph:
        found = measured(graph, "stream", PAIRS)
        assert found["rows"] == 5_000_000
        assert found["grown"] < found["bytes"] / 4


# ---- caches


QUERIES = (
    "match { $l: Left  $l link $r } return { $l.n as k, count($r) as n } order { n desc } limit 3",
    "match { $r: Right  $r link $l } return { count($l) as n }",
    "match { $l: Left  $l link $m  $m link $k } return { count($k) as n }",
    "match { $l: Left  $l $e:link $r  $e.weight > 3 } return { sum($e.weight) as n }",
    "match { $l: Left  $l.n > 10 } return { count($l) as n }",
    'match { $r: Right  search($r.text, "text 77") } return { $r } limit 3',
    'match { $r: Right } return { $r } order { bm25($r.text, "length 5") } limit 3',
    "match { $l: Left } return { max($l.text) as t }",
)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """Enough rows that everything a query would like to hold does not fit in a few megabytes."""
    count, edges = 40_000, 300_000
    chance = np.random.default_rng(1)
    with pairs_graph(tmp_path_factory.mktemp("linked") / "g", count, count) as graph:
        ends = {
            name: pa.array(np.char.add("k", chance.integers(0, count, edges).astype("U")))
            for name in ("from", "to")
        }
        weights = pa.array(chance.integers(0, 9, edges).astype(np.int32))
        graph.load({"Link": pa.table(ends | {"weight": weights})}, mode="append")
        yield graph


def answers(graph: Graph) -> Iterator[list[dict[str, Any]]]:
    for body in QUERIES:
        yield graph.query(f"query q() {{ {body} }}").rows


@pytest.mark.parametrize("megabytes", [0, 1, 4, 64])
def test_what_is_held_stays_under_its_bound_and_the_answers_stay_the_same(
    linked: Graph, megabytes: int
) -> None:
    expected = list(answers(linked))
    config = {"cache_bytes": megabytes << 20}
    with omnigraphdb.open(linked.uri, read_only=True, config=config) as graph:
        for _ in range(2):
            for found, wanted in zip(answers(graph), expected, strict=True):
                assert found == wanted
                assert graph._engine.cache.bytes_cached <= megabytes << 20


def test_what_is_held_is_counted_as_large_as_it_is(linked: Graph) -> None:
    with omnigraphdb.open(linked.uri, read_only=True) as graph:
        list(answers(graph))
        held = graph._engine.cache
        arrays = {id(one): one.nbytes for value, _ in held._values.values() for one in parts(value)}
        assert sum(arrays.values()) > 1_000_000
        assert sum(arrays.values()) <= 1.1 * held.bytes_cached


def parts(value: Any) -> Iterator[Any]:
    """The arrays inside a held value, wherever they are."""
    if isinstance(value, np.ndarray):
        yield value.base if isinstance(value.base, np.ndarray) else value
    elif isinstance(value, pa.Array):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from parts(one)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from parts(getattr(value, name))
