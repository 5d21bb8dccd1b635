"""A type that was dropped, or dropped and declared again, is read at earlier commits as it was."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import NotFound, QueryError

SCHEMA = """
node Port { code: String @key  size: I64? }
node Ship { name: String @key }
edge Feeds: Port -> Port { load: F64? }
edge Calls: Ship -> Port
"""
BARE = "node Port { code: String @key  size: I64? }\nnode Ship { name: String @key }\nedge Calls: Ship -> Port"
OTHER = SCHEMA.replace("load: F64?", "load: String?  fresh: Bool?")
RENAMED = (
    SCHEMA.replace("node Port", 'node Harbour @rename_from("Port")')
    .replace("Port -> Port", "Harbour -> Harbour")
    .replace("Ship -> Port", "Ship -> Harbour")
)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    rows: list[dict[str, Any]] = [{"type": "Port", "data": {"code": f"p{i}"}} for i in range(4)]
    rows += [
        {"edge": "Feeds", "from": f"p{a}", "to": f"p{b}", "data": {"load": float(a)}}
        for a, b in ((1, 2), (2, 3), (3, 1))
    ]
    graph.load(rows, mode="append")
    graph.tag("old")
    return graph


def _drop(graph: Graph) -> None:
    graph.schema_apply(BARE)


def _declare_again(graph: Graph) -> None:
    graph.schema_apply(BARE)
    graph.schema_apply(OTHER)
    graph.load(
        [{"edge": "Feeds", "from": "p0", "to": "p1", "data": {"load": "much"}}], mode="append"
    )


def _declare_and_rename(graph: Graph) -> None:
    graph.schema_apply(BARE)
    graph.schema_apply(SCHEMA)
    graph.schema_apply(RENAMED)


CHANGES: dict[str, Callable[[Graph], None]] = {
    "dropped": _drop,
    "declared again": _declare_again,
    "declared again, ends renamed": _declare_and_rename,
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_read_of_an_earlier_commit_shows_it(graph: Graph, change: str) -> None:
    CHANGES[change](graph)
    with omnigraphdb.open(graph.uri) as fresh:
        for seen in (graph, fresh):
            _require_old_rows(seen)


def _require_old_rows(graph: Graph) -> None:
    assert graph.project(edges=["Feeds"], at="old").edge_count == 3
    assert graph.project(at="old").edge_count == 3
    weighed = graph.project(edges={"Feeds": {"weight": "load"}}, at="old").dijkstra
    name = next(iter(graph.project(edges=["Feeds"], at="old").degrees().to_arrow()["type"])).as_py()
    assert weighed(name, "p1").to_arrow()["value"].to_pylist() == [0.0, 1.0, 3.0]
    frames = graph.frames(at="old")
    assert (frames["Feeds"].num_rows, frames.edges.num_rows) == (3, 3)
    assert set(frames.edges["src_type"].to_pylist()) == {name}
    assert sorted(graph.table("Feeds", at="old")["load"].to_pylist()) == [1.0, 2.0, 3.0]
    assert graph.snapshot(at="old").tables()["edge:Feeds"] == 3
    network = graph.to_networkx(at="old")
    assert (network.number_of_nodes(), network.number_of_edges()) == (4, 3)
    assert graph.entity(name, "p1", at="old") is not None
    id_ = graph.table("Feeds", at="old")["id"][0].as_py()
    found = graph.entity("Feeds", id_, at="old")
    assert found is not None
    assert isinstance(found["load"], float)
    for text in (
        "$p feeds $r",
        "$p $e:feeds $r  $e.load > 0.0",
        "$r: Port  exists { $p feeds $r }",
    ):
        asked = (
            f"query q() {{ match {{ $p: Port  {text} }} return {{ $p.code as a, $r.code as b }} }}"
        )
        pairs = {(one["a"], one["b"]) for one in graph.query(asked, at="old").rows}
        assert pairs == {("p1", "p2"), ("p2", "p3"), ("p3", "p1")}, text


def test_a_query_that_fits_neither_schema_is_refused(graph: Graph) -> None:
    _declare_again(graph)
    asked = "query q() { match { $p: Port  $p $e:feeds $r  $e.fresh = true } return { $p.code } }"
    assert graph.query(asked).rows == []
    with pytest.raises(QueryError, match="Feeds of this commit was dropped"):
        graph.query(asked, at="old")


def test_a_type_that_is_younger_than_the_commit_has_no_table(graph: Graph) -> None:
    graph.schema_apply(SCHEMA + "node Crew { name: String @key }\nedge Joins: Crew -> Ship\n")
    with pytest.raises(NotFound, match="Crew"):
        graph.table("Crew", at="old")
    assert graph.project(edges=["Joins"], at="old").edge_count == 0
    assert "Crew" not in graph.frames(at="old").types
