"""Updates, deletes, overwrites and merges beside others: refused only when the rows they matched changed."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.once import once
from tests.support.settled import assert_settled
from tests.support.writers import in_threads

SCHEMA = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
"""
ADD = "query add($name: String, $age: I32) { insert Person { name: $name, age: $age } }"
OLDER = "query older() { update Person set { age: 99 } where age >= 2 }"
SET = "query put($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
GONE = "query gone() { delete Person where age >= 2 }"
DROP = "query drop($name: String) { delete Person where name = $name }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    people = [{"type": "Person", "data": {"name": n, "age": i}} for i, n in enumerate("abcd")]
    knows = [{"edge": "Knows", "from": "c", "to": "a", "data": {"id": "ca"}}]
    graph.load([*people, *knows], mode="append")
    return graph


def ages(graph: Graph) -> dict[str, int]:
    return {row["name"]: row["age"] for row in graph.table("Person").to_pylist()}


def overtaken(graph: Graph, query: str, rival: object) -> omnigraphdb.MutationResult:
    """Run a write whose base a rival moves after it was prepared."""
    with armed(Failpoint.PREPARED, once(rival)):  # type: ignore[arg-type]
        return graph.mutate(query)


def test_an_update_that_inserts_overtook_includes_the_rows_that_match_now(graph: Graph) -> None:
    def rival() -> None:
        graph.mutate(ADD, {"name": "e", "age": 7})
        graph.mutate(SET, {"name": "a", "age": 1})

    done = overtaken(graph, OLDER, rival)
    assert done.affected_nodes == 3
    assert ages(graph) == {"a": 1, "b": 1, "c": 99, "d": 99, "e": 99}
    assert_settled(graph)


def test_a_delete_that_inserts_overtook_takes_new_rows_and_their_edges_along(graph: Graph) -> None:
    def rival() -> None:
        graph.mutate(ADD, {"name": "e", "age": 7})
        graph.mutate('query k() { insert Knows { from: "e", to: "a" } }')

    done = overtaken(graph, GONE, rival)
    assert (done.affected_nodes, done.affected_edges) == (3, 2)
    assert sorted(ages(graph)) == ["a", "b"]
    assert graph.table("Knows").num_rows == 0
    assert_settled(graph)


@pytest.mark.parametrize("query", [OLDER, GONE])
@pytest.mark.parametrize(
    ("rival", "params"),
    [
        (SET, {"name": "c", "age": 5}),
        (SET, {"name": "c", "age": 2}),
        (DROP, {"name": "d"}),
        (ADD, {"name": "d", "age": 3}),
    ],
    ids=["changed", "written", "gone", "upserted"],
)
def test_a_write_whose_rows_changed_or_went_is_refused_and_changes_nothing(
    graph: Graph, query: str, rival: str, params: dict[str, object]
) -> None:
    before = ages(graph)
    with pytest.raises(omnigraphdb.ManifestConflict) as refused:
        overtaken(graph, query, lambda: graph.mutate(rival, params))
    assert refused.value.table_key == "node:Person"
    assert refused.value.actual == refused.value.expected + 1
    expected = {k: v for k, v in before.items() if rival != DROP or k != "d"}
    expected |= {params["name"]: params["age"]} if rival == SET else {}  # type: ignore[dict-item]
    assert ages(graph) == expected
    assert_settled(graph)


def test_a_row_that_went_and_came_again_is_another_row(graph: Graph) -> None:
    def rival() -> None:
        graph.mutate(DROP, {"name": "d"})
        graph.mutate(ADD, {"name": "d", "age": 3})

    with pytest.raises(omnigraphdb.ManifestConflict):
        overtaken(graph, OLDER, rival)
    assert ages(graph)["c"] == 2


def test_a_delete_is_refused_when_an_edge_that_it_takes_along_went(graph: Graph) -> None:
    with pytest.raises(omnigraphdb.ManifestConflict) as refused:
        overtaken(graph, GONE, lambda: graph.mutate('query k() { delete Knows where from = "c" }'))
    assert refused.value.table_key == "edge:Knows"


def test_maintenance_between_the_attempts_changes_no_row(graph: Graph) -> None:
    def rival() -> None:
        for n in range(6):
            graph.mutate(ADD, {"name": f"n{n}", "age": 0})
        graph.optimize()

    assert overtaken(graph, OLDER, rival).affected_nodes == 2
    assert ages(graph)["d"] == 99


def test_an_update_on_a_branch_meets_the_first_write_of_another(graph: Graph) -> None:
    graph.branch_create("side")
    side = graph.on("side")
    overtaken(side, OLDER, lambda: side.mutate(ADD, {"name": "e", "age": 8}))
    assert ages(side) == {"a": 0, "b": 1, "c": 99, "d": 99, "e": 99}
    with pytest.raises(omnigraphdb.ManifestConflict):
        overtaken(side, GONE, lambda: side.mutate(SET, {"name": "c", "age": 98}))
    assert ages(graph) == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_an_overwrite_conflicts_with_any_change_of_its_type_and_with_no_other(graph: Graph) -> None:
    people = [{"type": "Person", "data": {"name": n, "age": 1}} for n in "ac"]
    with armed(Failpoint.PREPARED, once(lambda: graph.load([_CITY], mode="append"))):
        graph.load(people, mode="overwrite")
    assert ages(graph) == {"a": 1, "c": 1}
    with (
        armed(Failpoint.PREPARED, once(lambda: graph.mutate(ADD, {"name": "z", "age": 0}))),
        pytest.raises(omnigraphdb.ManifestConflict),
    ):
        graph.load(people, mode="overwrite")
    assert sorted(ages(graph)) == ["a", "c", "z"]


_CITY = {"type": "City", "data": {"name": "Ghent"}}


def test_if_commit_refuses_whatever_the_others_changed(graph: Graph) -> None:
    expected = graph.commits()[0].id
    with (
        armed(Failpoint.PREPARED, once(lambda: graph.load([_CITY], mode="append"))),
        pytest.raises(omnigraphdb.PreconditionFailed),
    ):
        graph.mutate(OLDER, if_commit=expected)
    assert ages(graph)["c"] == 2


def test_updaters_of_their_own_rows_beside_inserters_all_land(graph: Graph) -> None:
    updaters, inserters, rounds = 8, 3, 4
    graph.load(
        [{"type": "Person", "data": {"name": f"u{n}", "age": 0}} for n in range(updaters)],
        mode="append",
    )

    def update(n: int) -> None:
        for age in range(1, rounds + 1):
            graph.mutate(SET, {"name": f"u{n}", "age": age})

    def insert(n: int) -> None:
        for k in range(rounds):
            graph.mutate(ADD, {"name": f"i{n}-{k}", "age": 0})

    works = [lambda n=n: update(n) for n in range(updaters)]
    works += [lambda n=n: insert(n) for n in range(inserters)]
    assert in_threads(works) == [None] * len(works)
    found = ages(graph)
    assert {found[f"u{n}"] for n in range(updaters)} == {rounds}
    assert len(found) == 4 + updaters + inserters * rounds
    assert_settled(graph)
