"""A graph with a history of every kind of change, and the meaning of change frames: applied to the old state they give the new one."""

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import omnigraphdb
from omnigraphdb import Graph
from tests.support.plan_fixtures import FOLDER

SCHEMA = """
node Person { name: String @key  age: I64?  born: Date?  tags: [String]? }
node City { name: String @key  age: I64? }
edge Knows: Person -> Person { since: I64? }
edge LivesIn: Person -> City
"""

CHAIN = "node A { k: I64 @key }\nedge E: A -> A\n"
State = dict[tuple[str, str], dict[str, Any]]


def make_graph(path: Path) -> Graph:
    """A graph of some commits: inserts, updates, deletes, a merge and a new property."""
    graph = omnigraphdb.init(path, SCHEMA)
    people = [
        {"type": "Person", "data": {"name": n, "age": i, "tags": [n]}}
        for i, n in enumerate("abcde")
    ]
    cities = [{"type": "City", "data": {"name": n}} for n in ("Rome", "a")]
    edges = [
        {"edge": "Knows", "from": "a", "to": "b", "data": {"since": 1}},
        {"edge": "Knows", "from": "b", "to": "b"},
        {"edge": "LivesIn", "from": "a", "to": "Rome"},
    ]
    graph.load([*people, *cities, *edges], mode="append")
    graph.branch_create("side")
    graph.mutate('query u() { update Person set { age: 40 } where name = "b" }')
    graph.mutate('query d() { delete Person where name = "e" }', branch="side")
    graph.mutate(
        'query i() { insert Person { name: "f" born: date("2020-02-02") } }', branch="side"
    )
    graph.merge("side", into="main")
    graph.mutate('query d() { delete Knows where from = "b" }')
    graph.branch_delete("side")
    graph.schema_apply(SCHEMA.replace("tags: [String]?", "tags: [String]?  city: String?"))
    graph.mutate('query u() { update Person set { city: "Rome" } where name = "a" }')
    return graph


def make_chain(path: Path) -> Graph:
    """A graph with the first node of a chain."""
    graph = omnigraphdb.init(path, CHAIN)
    graph.load([{"type": "A", "data": {"k": 0}}], mode="append")
    return graph


@contextmanager
def writing(graph: Graph, length: int) -> Iterator[threading.Event]:
    """Let a thread add to a chain, one node and the edge to the one before in each commit; the event tells its end."""
    done = threading.Event()

    def write() -> None:
        with omnigraphdb.open(graph.uri) as writer:
            for n in range(1, length):
                node = {"type": "A", "data": {"k": n}}
                writer.load([node, {"edge": "E", "from": str(n), "to": str(n - 1)}], mode="append")
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        thread.join()


def read_state(graph: Graph, at: str | None = None) -> State:
    """Every entity of a state, by table key and id, as JSON shows it."""
    snapshot = graph.snapshot(at=at)
    return {
        (key, row["id"]): _as_json(row)
        for key in snapshot.tables()
        for row in snapshot.table(key.partition(":")[2]).to_pylist()
    }


def apply_changes(state: State, rows: Iterable[dict[str, Any]]) -> State:
    """The state after the changes of a frame."""
    found = dict(state)
    for row in rows:
        key = (row["table_key"], row["id"])
        if row["op"] == "delete":
            del found[key]
        else:
            found[key] = json.loads(row["after"])
    return {key: _as_json(row) for key, row in found.items()}


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """A row without NULLs: a property that was added later is missing in older images."""
    shown = json.loads(json.dumps(row, default=str))
    return {name: value for name, value in shown.items() if value is not None}


def make_harbour(path: Path) -> Graph:
    """A graph of the schema that random queries are about."""
    graph = omnigraphdb.init(path, (FOLDER / "harbour.pg").read_text())
    ports = [
        {"type": "Port", "data": {"code": k, "name": k, "lat": 1.0 * n, "depth": n}}
        for n, k in enumerate("abc")
    ]
    vessels = [
        {"type": "Vessel", "data": {"imo": k, "name": k, "kind": "tanker", "crew": n}}
        for n, k in enumerate("xyz")
    ]
    calls = [{"edge": "CallsAt", "from": a, "to": b} for a, b in ("xa", "xb", "ya", "xa")]
    feeds = [
        {"edge": "Feeds", "from": a, "to": b, "data": {"weight": 1}} for a, b in ("ab", "bc", "cc")
    ]
    graph.load([*ports, *vessels, *calls, *feeds], mode="append")
    return graph
