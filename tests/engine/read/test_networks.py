"""A graph as a networkx graph: the same nodes, parallel edges and attributes."""

from collections.abc import Iterator
from datetime import date

import networkx
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path_factory.mktemp("networks") / "g", SCHEMA) as made:
        people = [{"type": "Person", "data": {"name": name, "age": age, "photo": "base64:aGk="}}
                  for name, age in (("Ada", 36), ("Bo", None), ("Paris", 3))]  # fmt: skip
        knows = [
            {"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"since": "2020-01-01"}},
            {"edge": "Knows", "from": "Ada", "to": "Bo"},
            {"edge": "Knows", "from": "Bo", "to": "Paris"},
        ]
        lives = {"edge": "LivesIn", "from": "Paris", "to": "Paris"}
        made.load(
            [*people, {"type": "City", "data": {"name": "Paris"}}, *knows, lives], mode="append"
        )
        yield made


def test_nodes_are_types_and_ids_with_their_properties(graph: Graph) -> None:
    found = graph.to_networkx()
    assert isinstance(found, networkx.MultiDiGraph)
    assert set(found) == {
        ("Person", "Ada"),
        ("Person", "Bo"),
        ("Person", "Paris"),
        ("City", "Paris"),
    }
    assert found.nodes["Person", "Ada"] == {"type": "Person", "id": "Ada", "name": "Ada", "age": 36}
    assert found.nodes["Person", "Bo"] == {"type": "Person", "id": "Bo", "name": "Bo"}


def test_edges_are_parallel_and_keyed_by_their_id(graph: Graph) -> None:
    found = graph.to_networkx()
    both = found.get_edge_data(("Person", "Ada"), ("Person", "Bo"))
    ids = graph.table("Knows")["id"].to_pylist()
    assert set(both) <= set(ids)
    assert sorted(str(one.get("since")) for one in both.values()) == ["2020-01-01", "None"]
    assert {one["type"] for one in both.values()} == {"Knows"}
    assert date(2020, 1, 1) in [one.get("since") for one in both.values()]
    assert found.has_edge(("Person", "Paris"), ("City", "Paris"))
    assert found.number_of_edges() == 4


def test_algorithms_agree_with_queries(graph: Graph) -> None:
    reach = 'query q() { match { $a: Person { name: "Ada" }  $a knows{1,9} $b } return { $b.name as n } }'
    found = networkx.descendants(graph.to_networkx(["Person", "Knows"]), ("Person", "Ada"))
    assert {name for _, name in found} == {row["n"] for row in graph.query(reach)}


def test_some_types_bring_the_ends_of_their_edges(graph: Graph) -> None:
    only = graph.to_networkx(["LivesIn"])
    assert set(only) == {("Person", "Paris"), ("City", "Paris")}
    assert only.nodes["City", "Paris"] == {}
    assert graph.to_networkx([]).number_of_nodes() == 0


def test_the_past_and_branches(graph: Graph) -> None:
    assert graph.to_networkx(at=graph.commits()[-1]).number_of_nodes() == 0
    graph.branch_create("more")
    graph.mutate('query q() { insert City { name: "Rome" } }', branch="more")
    assert ("City", "Rome") in graph.to_networkx(branch="more")
    assert ("City", "Rome") not in graph.to_networkx()
