"""Every pair of operations, one on the source and one on the target, with the whole content afterwards."""

from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts
from tests.engine.merge.conftest import assert_settled, content

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
PEOPLE = {"Alice": 30, "Bob": 25, "Carol": 40, "Dan": 50}

Model = tuple[dict[str, int], list[tuple[str, str]]]
"""People with their ages, and who knows whom."""

UNSUPPORTED = ("drop a property", "add a label", "remove a label")
"""The language has no such operation on data; when one is added it needs its row and column here."""


def _noop(graph: Graph, branch: str, age: int) -> None:
    return None


def _mutation(text: str) -> Callable[[Graph, str, int], None]:
    def run(graph: Graph, branch: str, age: int) -> None:
        params = {"age": age} if "$age" in text else None
        graph.mutate(
            f"query m({'$age: I32' if params else ''}) {{ {text} }}", params, branch=branch
        )

    return run


OPERATIONS: dict[str, Callable[[Graph, str, int], None]] = {
    "noop": _noop,
    "add_node": _mutation('insert Person { name: "Eve", age: $age }'),
    "remove_node": _mutation('delete Person where name = "Alice"'),
    "add_edge": _mutation('insert Knows { from: "Alice", to: "Carol" }'),
    "remove_edge": _mutation('delete Knows where from = "Bob"'),
    "set_value": _mutation('update Person set { age: $age } where name = "Alice"'),
}

FF, M, UTD = "fast_forward", "merged", "already_up_to_date"
ORPHAN = "orphan_edge"
TABLE: dict[str, list[str]] = {
    "noop": [UTD, UTD, UTD, UTD, UTD, UTD],
    "add_node": [FF, "divergent_insert", M, M, M, M],
    "remove_node": [FF, M, M, ORPHAN, M, "delete_vs_update"],
    "add_edge": [FF, M, ORPHAN, M, M, M],
    "remove_edge": [FF, M, M, M, M, M],
    "set_value": [FF, M, "delete_vs_update", M, M, "divergent_update"],
}
CELLS = [(s, t, cell) for s, row in TABLE.items() for t, cell in zip(OPERATIONS, row, strict=True)]


def after(model: Model, operation: str, age: int) -> Model:
    people, edges = dict(model[0]), list(model[1])
    match operation:
        case "add_node":
            people["Eve"] = age
        case "remove_node":
            people.pop("Alice", None)
            edges = [edge for edge in edges if "Alice" not in edge]
        case "add_edge":
            edges.append(("Alice", "Carol"))
        case "remove_edge":
            edges = [edge for edge in edges if edge[0] != "Bob"]
        case "set_value":
            people["Alice"] = age
        case _:
            assert operation == "noop"
    return people, edges


def seen(graph: Graph, branch: str = "main") -> Model:
    people = {row["id"]: row["age"] for row in graph.table("Person", branch=branch).to_pylist()}
    edges = [(row["src"], row["dst"]) for row in graph.table("Knows", branch=branch).to_pylist()]
    return people, sorted(edges)


def start(path: Path) -> tuple[Graph, Model]:
    graph = omnigraphdb.init(path, SCHEMA)
    records: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": name, "age": age}} for name, age in PEOPLE.items()
    ]
    graph.load([*records, {"edge": "Knows", "from": "Bob", "to": "Carol"}], mode="append")
    graph.branch_create("side")
    return graph, (dict(PEOPLE), [("Bob", "Carol")])


@pytest.mark.parametrize(("source", "target", "cell"), CELLS)
def test_a_pair_of_operations(tmp_path: Path, source: str, target: str, cell: str) -> None:
    graph, base = start(tmp_path / "g")
    OPERATIONS[source](graph, "side", 31)
    OPERATIONS[target](graph, "main", 32)
    alone = after(base, target, 32)
    before, commits = content(graph), len(graph.commits())
    if cell in (FF, M, UTD):
        result = graph.merge("side", actor="referee")
        assert str(result.outcome) == cell
        people, edges = after(alone, source, 31)
        assert seen(graph) == (people, sorted(edges))
        assert len(graph.commits()) == commits + (cell != UTD)
        assert str(graph.merge("side").outcome) == UTD
    else:
        with pytest.raises(MergeConflicts) as caught:
            graph.merge("side")
        assert {str(conflict.kind) for conflict in caught.value.conflicts} == {cell}
        assert (content(graph), len(graph.commits())) == (before, commits)
    assert_settled(graph)


def test_the_same_value_on_both_sides_is_no_conflict(tmp_path: Path) -> None:
    graph, _ = start(tmp_path / "g")
    for branch in ("side", "main"):
        OPERATIONS["set_value"](graph, branch, 33)
    assert str(graph.merge("side").outcome) == M
    assert seen(graph)[0]["Alice"] == 33
    assert_settled(graph)
