"""Properties that come and go: what takes the place of another is not taken for it, by no reader and no diff."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.api.graph import Graph

VALUES: dict[str, Any] = {
    "I32?": 9,
    "Vector(2)?": [1.0, 2.0],
    "[String]?": ["a"],
    "Vector(3)?": [1.0, 2.0, 3.0],
    "Date?": "2020-01-02",
    "String?": "text",
    "I64?": 8,
}


def schema(*properties: str) -> str:
    return f"node Port {{ code: String @key  {'  '.join(properties)} }}"


def shown(name: str) -> str:
    return f"query q() {{ match {{ $p: Port }} return {{ $p.{name} }} order {{ $p.code }} }}"


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraph.init(tmp_path / "g", schema(), config={"upkeep": "off"}) as opened:
        ports = [{"type": "Port", "data": {"code": f"p{n}"}} for n in range(20)]
        opened.load(ports, mode="append")
        yield opened


def test_a_warm_reader_takes_no_property_for_the_one_before_it(graph: Graph) -> None:
    for type_ in VALUES:
        graph.schema_apply(schema(f"size: {type_}"))
        # A column is held after it was asked for a few times.
        for _ in range(4):
            assert graph.query(shown("size")).rows == [{"p.size": None}] * 20
        graph.schema_apply(schema())


@pytest.mark.parametrize("name", ["size", "other"])
def test_a_diff_takes_no_property_for_the_one_before_it(graph: Graph, name: str) -> None:
    graph.schema_apply(schema("size: I32?"))
    graph.load(
        [{"type": "Port", "data": {"code": f"p{n}", "size": 7}} for n in range(20)], mode="merge"
    )
    before = graph.commits()[0]
    for type_, value in VALUES.items():
        graph.schema_apply(schema())
        # With the files that held the dropped column goes its number, which then serves another.
        graph.load([{"type": "Port", "data": {"code": f"p{n}"}} for n in range(20)], mode="merge")
        graph.optimize()
        graph.schema_apply(schema(f"{name}: {type_}"))
        graph.load([{"type": "Port", "data": {"code": "p1", name: value}}], mode="merge")
        changes = {change.id: change for change in graph.diff(before, "main", images=True)}
        assert changes["p1"].properties == (name,)
        assert changes["p1"].before is not None
        assert changes["p1"].before["size"] == 7
        assert changes["p1"].after == {"id": "p1", "code": "p1", name: value}
