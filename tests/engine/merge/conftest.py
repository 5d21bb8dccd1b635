"""A small graph with every kind of rule a merge can break."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique  note: String?  tags: [String]? }
node City { name: String @key  size: I32?  @range(size, 0..100) }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1)
"""

PEOPLE = [
    {"type": "Person", "data": {"name": n, "age": a}}
    for n, a in [("Alice", 30), ("Bob", 25), ("Carol", 40), ("Dan", 50)]
]
CITIES = [{"type": "City", "data": {"name": n}} for n in ("Oslo", "Rome")]
EDGES = [{"edge": "Knows", "from": "Bob", "to": "Carol", "data": {"id": "k1"}}]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made: Graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    made.load([*PEOPLE, *CITIES, *EDGES], mode="append")
    return made


def content(graph: Graph, branch: str = "main", at: str | None = None) -> list[dict[str, object]]:
    """Everything a branch shows, in export order."""
    return list(graph.export(branch=branch, at=at))


def assert_settled(graph: Graph) -> None:
    """Pins equal HEADs, ends exist, nothing is pending, and a second handle agrees."""
    assert graph.doctor() == []
    with omnigraphdb.open(graph.uri) as again:
        assert content(again) == content(graph)
        assert again.commits()[0] == graph.commits()[0]
