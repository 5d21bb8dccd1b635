"""A lookup that memory answers sees every commit at once, whoever made it, and refuses what it refused before."""

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.engine.read.verbs import find_prepared
from omnigraphdb.errors import ParamError, SchemaContractError
from omnigraphdb.limits import LOOKUP_VALUES_MAX

SCHEMA = "node Person { name: String @key  age: I32? } edge Knows: Person -> Person"
POINT = "query q($id: String) { match { $p: Person { name: $id } } return { $p.age as age } }"
HOP = "query q($id: String) { match { $p: Person { name: $id }  $p knows $f } return { $f.name as name } }"
WALKS = """query q($id: String) {
  match { $p: Person { name: $id }  $p knows $f  $f knows $g } return { count($g) as n }
}"""
ADD = "query q($a: String, $b: String) { insert Knows { from: $a, to: $b } }"


def is_prepared(graph: omnigraphdb.Graph, text: str) -> bool:
    """Whether the next answer comes from memory in one step."""
    return find_prepared(graph._engine, graph.snapshot()._view, text, None) is not None


def warm(graph: omnigraphdb.Graph) -> None:
    for text in (POINT, HOP, WALKS):
        for _ in range(LOOKUP_VALUES_MAX):
            if is_prepared(graph, text):
                break
            graph.query(text, {"id": "Ada"})
        assert is_prepared(graph, text)


@pytest.fixture
def friends(tmp_path: Path) -> omnigraphdb.Graph:
    graph = omnigraphdb.init(tmp_path / "friends", SCHEMA)
    names = ("Ada", "Bo", "Cy", "Di")
    people = pa.table({"name": names, "age": pa.array(range(30, 34), pa.int32())})
    graph.load({"Person": people}, mode="append")
    for a, b in (("Ada", "Bo"), ("Bo", "Cy"), ("Bo", "Di")):
        graph.mutate(ADD, {"a": a, "b": b})
    warm(graph)
    return graph


def answers(graph: omnigraphdb.Graph, name: str) -> list[list[dict[str, object]]]:
    return [graph.query(text, {"id": name}).rows for text in (POINT, HOP, WALKS)]


def test_prepared_answers_are_those_of_a_handle_that_has_nothing_in_memory(
    friends: omnigraphdb.Graph,
) -> None:
    with omnigraphdb.open(friends.uri) as other:
        for name in ("Ada", "Bo", "Di", "nobody"):
            assert answers(friends, name) == answers(other, name), name


def test_a_commit_of_another_handle_is_seen_by_the_next_lookup(friends: omnigraphdb.Graph) -> None:
    with omnigraphdb.open(friends.uri) as other:
        other.mutate(ADD, {"a": "Ada", "b": "Cy"})
        other.mutate(ADD, {"a": "Cy", "b": "Ada"})
        other.mutate('query q() { update Person set { age: 99 } where name = "Ada" }')
        assert answers(friends, "Ada") == [
            [{"age": 99}],
            [{"name": "Bo"}, {"name": "Cy"}],
            [{"n": 3}],
        ]


def test_a_snapshot_keeps_its_answers_while_others_commit(friends: omnigraphdb.Graph) -> None:
    before = friends.snapshot()
    friends.mutate('query q() { delete Person where name = "Bo" }')
    assert [before.query(text, {"id": "Ada"}).rows for text in (POINT, HOP, WALKS)] == [
        [{"age": 30}],
        [{"name": "Bo"}],
        [{"n": 2}],
    ]
    assert answers(friends, "Ada") == [[{"age": 30}], [], [{"n": 0}]]


def test_a_branch_has_answers_of_its_own(friends: omnigraphdb.Graph) -> None:
    friends.branch_create("review")
    review = friends.on("review")
    warm(review)
    review.mutate(ADD, {"a": "Ada", "b": "Di"})
    assert [row["name"] for row in review.query(HOP, {"id": "Ada"}).rows] == ["Bo", "Di"]
    assert friends.query(HOP, {"id": "Ada"}).rows == [{"name": "Bo"}]


def test_parameters_are_refused_as_before(friends: omnigraphdb.Graph) -> None:
    for given in (None, {}, {"id": 7}, {"id": None}, {"id": "half \ud800"}, {"other": "Ada"}):
        with pytest.raises(ParamError):
            friends.query(POINT, given)
    assert friends.query(POINT, {"id": "Ada", "more": "is ignored"}).rows == [{"age": 30}]
    assert friends.query(POINT, {"id": "Åda"}).rows == []


def test_a_schema_text_that_was_edited_is_refused(
    friends: omnigraphdb.Graph, tmp_path: Path
) -> None:
    with open(tmp_path / "friends" / "_schema.pg", "a") as text:
        text.write("\nnode Pet { name: String @key }\n")
    with pytest.raises(SchemaContractError):
        friends.query(POINT, {"id": "Ada"})
