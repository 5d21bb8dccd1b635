"""Algorithms on Spark give what one process gives, on graphs of every shape side by side."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import BoundReached, NotFound, UserInputError
from tests.unit.engine.test_analytics import SHAPES

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

LONG = pytest.mark.soak
USES = {"Joins": {"weight": "load"}, "Likes": {"undirected": True}}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    """The dozen shapes beside one another, in edges of two types; an old commit has the half of them."""
    schema = """
    node Spot { code: String @key  rank: F64? }
    edge Joins: Spot -> Spot { load: F64? }
    edge Likes: Spot -> Spot
    """
    place = tmp_path_factory.mktemp("algorithms") / "g"
    with omnigraphdb.init(place, schema) as made:
        for number, make in enumerate(SHAPES.values()):
            shape = make()
            spots = [f"{number:02}-{one:03}" for one in shape.nodes]
            rows = [{"type": "Spot", "data": {"code": one}} for one in spots]
            for index, (a, b) in enumerate(shape.edges()):
                ends = {"from": f"{number:02}-{a:03}", "to": f"{number:02}-{b:03}"}
                joins = {"edge": "Joins", **ends, "data": {"load": float(index % 4)}}
                rows.append(joins if index % 5 else {"edge": "Likes", **ends, "data": {}})
            made.load(rows, mode="append")
        yield made


@pytest.fixture(scope="module")
def projections(graph: Graph, spark: Any) -> tuple[omnigraphdb.Projection, Any]:
    return graph.project(edges=USES), graph.project(edges=USES, spark=spark)


def by_node(table: pa.Table, column: str = "value") -> dict[str, Any]:
    return dict(zip(table["id"].to_pylist(), table[column].to_pylist(), strict=True))


def groups(table: pa.Table) -> set[frozenset[str]]:
    found: dict[Any, set[str]] = {}
    for id_, value in by_node(table).items():
        found.setdefault(value, set()).add(id_)
    return set(map(frozenset, found.values()))


def test_components(projections: Any) -> None:
    here, there = projections
    assert (there.engine, there.reason) == ("spark", "Spark was asked for")
    assert (there.node_count, there.edge_count) == (here.node_count, here.edge_count)
    assert groups(there.wcc().to_arrow()) == groups(here.wcc().to_arrow())


@pytest.mark.parametrize("name", ["degrees", pytest.param("triangles", marks=LONG)])
def test_counts(projections: Any, name: str) -> None:
    here, there = (getattr(one, name)().to_arrow() for one in projections)
    for column in here.column_names[2:]:
        assert by_node(there, column) == by_node(here, column)


@LONG
def test_labels(projections: Any) -> None:
    here, there = (one.label_propagation().to_arrow() for one in projections)
    assert groups(there) == groups(here)


@LONG
def test_ranks(projections: Any) -> None:
    here, there = (by_node(one.pagerank(tolerance=0.1).to_arrow()) for one in projections)
    assert there.keys() == here.keys()
    assert np.allclose([there[one] for one in here], list(here.values()), atol=1e-9, rtol=0)


@LONG
def test_ranks_from_a_former_answer(projections: Any) -> None:
    here, there = projections
    settled = here.pagerank(tolerance=1e-9)
    # One round is enough for who begins with the answer.
    again = there.pagerank(tolerance=1e-6, iterations=1, start=settled)
    expected = here.pagerank(tolerance=1e-6, iterations=1, start=settled)
    before, after = by_node(again.to_arrow()), by_node(expected.to_arrow())
    assert np.allclose([before[one] for one in after], list(after.values()), atol=1e-9, rtol=0)
    assert there.pagerank(tolerance=1e-6, iterations=1, start=again).top(3)[0].keys() == {
        *("type", "id", "value")
    }


def test_a_projection_past_the_bound_goes_to_spark(graph: Graph, spark: Any) -> None:
    with omnigraphdb.open(graph.uri, config={"projection_bytes": 0}) as small:
        there = small.project(edges=USES)
        assert (there.engine, there.reason.partition("are ")[2]) == (
            *("spark", "past projection_bytes"),
        )
        here, degrees = graph.project(edges=USES).degrees(), there.degrees()
        assert degrees.top(5) == here.top(5)
        assert len(degrees) == len(here)
        assert omnigraphdb.compare(degrees, here).num_rows == 0


@LONG
def test_hops(projections: Any) -> None:
    start = "04-000"
    here, there = (one.bfs("Spot", start).to_arrow() for one in projections)
    assert by_node(there) == by_node(here)
    assert len(by_node(here)) > 1


def test_wrong_calls_are_refused(graph: Graph, projections: Any, spark: Any) -> None:
    _, there = projections
    with pytest.raises(UserInputError, match="louvain runs in one process only"):
        there.louvain()
    with pytest.raises(UserInputError, match="'damping' lies between"):
        there.pagerank(damping=2)
    with pytest.raises(NotFound, match="nobody"):
        there.bfs("Spot", "nobody")
    with pytest.raises(BoundReached, match="the ranks still change"):
        there.pagerank(iterations=1)
    with pytest.raises(NotFound):
        graph.project(edges=["Nothing"], spark=spark)
    with pytest.raises(AttributeError):
        _ = there.nothing


@LONG
def test_an_old_commit_and_a_bad_weight(tmp_path: Path, spark: Any) -> None:
    with omnigraphdb.init(
        tmp_path / "g", "node A { k: String @key  n: I64? }\nedge E: A -> A { w: F64? }"
    ) as graph:
        ends = pa.table({"from": ["a", "b"], "to": ["b", "c"], "w": [1.0, 2.0]})
        first = graph.load(ends, type="E", mode="append", create_missing="A", spark=False).commit
        more = pa.table({"from": ["c"], "to": ["a"], "w": pa.array([None], pa.float64())})
        graph.load(more, type="E", mode="append", spark=False)
        old = graph.project(edges=["E"], at=first, spark=spark)
        assert old.edge_count == 2
        old.degrees().write("A.n")
        assert sorted(graph.table("A")["n"].to_pylist()) == [1, 1, 2]
        with pytest.raises(UserInputError, match="on 1 of 3 edges"):
            graph.project(edges={"E": {"weight": "w"}}, spark=spark)
