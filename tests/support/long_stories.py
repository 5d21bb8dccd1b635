"""Stories of several branches as numbered steps, so that any of them can be run by a process that dies."""

import sys
from collections.abc import Callable
from typing import Any

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = [{"type": "Person", "data": {"name": name, "age": 30}} for name in ("Ada", "Bo", "Cy")]
RING = [{"edge": "Knows", "from": "Ada", "to": "Bo", "data": {"id": "k1"}}]

Step = Callable[[Graph], object]


def make_graph(uri: str) -> Graph:
    """A graph with a few rows."""
    graph: Graph = omnigraphdb.init(uri, SCHEMA)
    graph.load([*PEOPLE, *RING], mode="append")
    return graph


def _write_person(branch: str, name: str, age: int) -> Step:
    record = {"type": "Person", "data": {"name": name, "age": age}}
    return lambda graph: graph.load([record], mode="merge", branch=branch)


def _write_edge(branch: str, number: int, one: str, other: str) -> Step:
    edge = {"edge": "Knows", "from": one, "to": other, "data": {"id": f"e{number}"}}
    return lambda graph: graph.load([edge], mode="merge", branch=branch)


def _delete_person(branch: str, name: str) -> Step:
    text = f'query d() {{ delete Person where name = "{name}" }}'
    return lambda graph: graph.mutate(text, branch=branch)


def _branch(name: str, source: str = "main") -> Step:
    return lambda graph: graph.branch_create(name, from_branch=source)


def _merge(source: str, into: str = "main") -> Step:
    return lambda graph: graph.merge(source, into=into)


STORIES: dict[str, tuple[Step, ...]] = {
    # SC-1: two branches with disjoint edits, both merged.
    "two": (
        _branch("one"),
        _branch("two"),
        _write_person("one", "Eve", 1),
        _write_edge("one", 1, "Eve", "Ada"),
        _delete_person("two", "Cy"),
        _write_person("two", "Bo", 44),
        _merge("one"),
        _merge("two"),
    ),
    # SC-2: three branches merged one after another, main written in between.
    "three": (
        _branch("one"),
        _branch("two"),
        _branch("three"),
        _write_person("one", "Eve", 1),
        _write_person("main", "Dan", 2),
        _merge("one"),
        _write_edge("two", 2, "Ada", "Cy"),
        _write_person("main", "Dan", 3),
        _merge("two"),
        _write_person("three", "Fay", 4),
        _merge("three"),
    ),
}


def content(graph: Graph) -> dict[str, list[dict[str, Any]]]:
    """Everything every branch shows."""
    return {b.name: list(graph.export(branch=b.name)) for b in graph.branches()}


def one_step(uri: str, story: str, number: str) -> None:
    """What a child process does."""
    STORIES[story][int(number)](omnigraphdb.open(uri))


if __name__ == "__main__":
    one_step(*sys.argv[1:4])
