"""Requests with idempotency keys, as values that a test and a child process share."""

from collections.abc import Callable
from typing import Any, Final

import omnigraphdb
from omnigraphdb.api.graph import Graph

SCHEMA: Final = """
node Person { k: String @key  n: I32? }
node City { k: String @key }
edge LivesIn: Person -> City
"""
BASE: Final[tuple[dict[str, Any], ...]] = (
    {"type": "Person", "data": {"k": "a", "n": 0}},
    {"type": "City", "data": {"k": "x"}},
)
INSERT: Final = """query m($p: String, $c: String) {
  insert Person { k: $p } insert City { k: $c } insert LivesIn { from: $p, to: $c } }"""
WIDER: Final = SCHEMA.replace("n: I32?", "n: I32?  m: I64?")
KEY: Final = "request-1"


def _mutate(graph: Graph, key: str) -> Any:
    return graph.mutate(INSERT, {"p": "b", "c": "y"}, idempotency_key=key)


def _load(graph: Graph, key: str) -> Any:
    records = [
        {"type": "Person", "data": {"k": "b"}},
        {"type": "City", "data": {"k": "y"}},
        {"edge": "LivesIn", "from": "b", "to": "y", "data": {}},
    ]
    return graph.load(records, mode="append", idempotency_key=key)


def _merge(graph: Graph, key: str) -> Any:
    return graph.merge("side", idempotency_key=key)


def _schema_apply(graph: Graph, key: str) -> Any:
    return graph.schema_apply(WIDER, idempotency_key=key)


def _branch_create(graph: Graph, key: str) -> Any:
    return graph.branch_create("made", idempotency_key=key)


def _branch_delete(graph: Graph, key: str) -> Any:
    return graph.branch_delete("side", idempotency_key=key)


def _nothing(graph: Graph, key: str) -> Any:
    return graph.mutate(
        'query m() { update Person set { n: 1 } where k = "none" }', idempotency_key=key
    )


REQUESTS: Final[dict[str, Callable[[Graph, str], Any]]] = {
    "mutate": _mutate,
    "load": _load,
    "merge": _merge,
    "schema_apply": _schema_apply,
    "branch_create": _branch_create,
    "branch_delete": _branch_delete,
    "nothing": _nothing,
}


def make_graph(place: str, request: str) -> None:
    """Write the graph that a request is made of: with a branch beside main, unless the schema is to change."""
    with omnigraphdb.init(place, SCHEMA) as graph:
        graph.load(BASE, mode="append")
        if request != "schema_apply":
            graph.branch_create("side")
            graph.mutate(INSERT, {"p": "s", "c": "z"}, branch="side")


def perform(place: str, request: str, key: str = KEY) -> None:
    """Open a graph and make a request: what a child process does."""
    with omnigraphdb.open(place) as graph:
        REQUESTS[request](graph, key)


def describe(graph: Graph) -> tuple[object, ...]:
    """What a request can change: rows, types, branches, and the commits that changed rows."""
    rows = sorted(
        str(sorted(map(str, one.items()))) for one in graph.export(types=["Person", "City"])
    )
    later = [c for c in graph.commits() if c.parent is not None and c.kind != "schema_apply"]
    made = [c for c in later if c.tables and graph.commit_changes(c).changes]
    return rows, graph.schema_source, [branch.name for branch in graph.branches()], len(made)
