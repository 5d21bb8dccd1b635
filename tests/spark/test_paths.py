"""Walks and shortest paths are the same on Spark as in this process; the other paths are refused by name."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb import Graph
from omnigraphdb.errors import QueryError
from tests.properties.test_paths_oracle import SCHEMA, make_rows

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with omnigraphdb.init(str(tmp_path_factory.mktemp("paths") / "g"), SCHEMA) as graph:
        graph.load(list(make_rows(random.Random(11), range(3))), mode="append")
        yield graph


VALUES = "hops($w) as n, nodes($w) as v, sum($w.weight) as s, max($w.weight + 1) as m, count($w.weight) as k"


@pytest.mark.parametrize(
    ("match", "result"),
    [
        ("$x: Port  $x $w:feeds|ships{1,3 where weight < 7} $y", f"$x, $y, {VALUES}"),
        ('$y: Port { code: "p0.1" }  $x $w:feeds|ships{0,4} $y  hops($w) < 4', f"$x, $y, {VALUES}"),
        ("$x: Port  $x feeds|ships{0,* where weight > 0} $y", "$x, $y"),
    ],
)
def test_walks_and_shortest_paths_give_the_same_rows(
    graph: Graph, spark: Any, match: str, result: str
) -> None:
    text = f"query q() {{ match {{ {match} }} return {{ {result} }} }}"
    ours, theirs = (graph.query(text, spark=one).rows for one in (None, spark))
    assert sorted(map(str, theirs)) == sorted(map(str, ours))
    assert ours


@pytest.mark.parametrize("choice", ["by weight", "best 2", "all"])
def test_other_paths_are_refused_by_name(graph: Graph, spark: Any, choice: str) -> None:
    text = f"query q() {{ match {{ $x: Port  $x $w:feeds{{1,3 {choice}}} $y }} return {{ hops($w) as n }} }}"
    with pytest.raises(QueryError, match=f"'{choice.split()[0]}'.* does not run on Spark"):
        graph.query(text, spark=spark)
