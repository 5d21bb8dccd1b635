"""How a read goes about its work is told: pushed filters, indexes, memory, rows and time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.read.profile import Profile
from omnigraphdb.errors import ParamError

SCHEMA = """
node Person { key: String @key  age: I32? @index  name: String? @index  city: enum(a, b, c) @index  sig: Vector(2)? @index }
edge Knows: Person -> Person { since: I32? }
"""
COUNT = 200_000
FRIENDS = """
query friends($key: String, $age: I32) {
  match { $p: Person { key: $key }  $p knows $f  $f.age > $age }
  return { $f, $f.age } order { $f.age } limit 5
}
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    numbers = np.arange(COUNT)
    keys = pa.array(np.char.add("p", numbers.astype("U")))
    people = pa.table(
        {
            "key": keys,
            "age": pa.array((numbers % 90).astype(np.int32)),
            "city": pa.array(["a", "b", "c"]).take(pa.array(numbers % 3)),
        }
    )
    knows = pa.table({"from": keys, "to": keys.take(pa.array((numbers * 7 + 1) % COUNT))})
    root = tmp_path_factory.mktemp("explain") / "g"
    with omnigraphdb.init(root, SCHEMA) as made:
        made.load({"Person": people, "Knows": knows}, mode="append")
        yield made


@pytest.fixture
def cold(graph: Graph) -> Iterator[Graph]:
    """A handle that has read nothing yet."""
    with omnigraphdb.open(graph.uri, read_only=True) as opened:
        yield opened


def test_the_tree_tells_filters_and_the_way_of_every_operator(cold: Graph) -> None:
    found = cold.explain(FRIENDS, {"key": "p7", "age": 3})
    assert [step.depth for step in found.steps] == list(range(len(found.steps)))
    lines = found.text.splitlines()
    assert len(lines) == len(found.steps) == len(found.operators)
    assert "Scan $p: Person where $p.id = $key" in lines[-1]
    assert "[id lookup]" in lines[-1]
    assert "index hops" in lines[-2]
    assert any("$f.age > $age" in line for line in lines)
    assert str(found) == found.text
    assert not found.profiled


def test_explaining_reads_no_row_and_needs_no_value(cold: Graph) -> None:
    cold.explain(FRIENDS)
    assert cold._engine.cache.bytes_cached < 100_000
    assert cold.explain(FRIENDS, "friends").text == cold.explain(FRIENDS).text
    with pytest.raises(ParamError):
        cold.explain(FRIENDS, profile=True)


def test_an_equality_on_an_indexed_property_is_said_to_ask_the_index(cold: Graph) -> None:
    text = 'query q() { match { $p: Person { city: "a" } } return { $p } }'
    assert "index on city" in cold.explain(text).text
    for _ in range(50):
        cold.query(text)
    # Asked often enough, the column is in memory, and so is who has which value of it.
    assert "values of city" in cold.explain(text).text


def test_a_profile_counts_rows_and_milliseconds_per_operator(graph: Graph) -> None:
    found = graph.explain(FRIENDS, {"key": "p7", "age": 3}, profile=True)
    assert found.profiled
    rows = {step.operator.split()[0]: step.rows for step in found.steps}
    assert rows["Scan"] == 1
    assert rows["Expand"] == 1
    assert rows["Project"] == len(graph.query(FRIENDS, {"key": "p7", "age": 3}))
    assert all(step.milliseconds is not None and step.milliseconds >= 0 for step in found.steps)
    assert "[1 row, " in found.text
    assert "1 rows" not in found.text
    assert " ms" in found.text


def test_time_is_not_counted_twice(graph: Graph) -> None:
    ticks = iter(range(10_000))
    profile = Profile(lambda: float(next(ticks)))
    plan = graph.explain(FRIENDS).plan
    assert plan is not None
    project = plan.root
    with profile.running(project), profile.running(project.input):
        pass
    assert profile.of(project).seconds == 3.0
    assert profile.own_seconds(project) == 2.0
    assert profile.own_seconds(project.input) == 1.0


def test_an_explanation_travels_as_json(graph: Graph) -> None:
    plain = graph.explain(FRIENDS).to_dict()
    assert plain["query_name"] == "friends"
    assert plain["profiled"] is False
    assert set(plain["operators"][0]) == {"operator", "depth", "notes"}
    run = graph.explain(FRIENDS, {"key": "p7", "age": 3}, profile=True).to_dict()
    assert {"rows", "milliseconds"} <= set(run["operators"][0])


def test_the_past_is_explained_by_what_was_there_then(graph: Graph, tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as small:
        before = small.commits()[0]
        small.load([{"type": "Person", "data": {"key": "a", "age": 1, "city": "a"}}], mode="append")
        text = "query q() { match { $p: Person  $p.age > 0 } return { $p } }"
        assert small.explain(text, profile=True).steps[0].rows == 1
        assert small.explain(text, profile=True, at=before).steps[0].rows == 0
