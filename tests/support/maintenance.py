"""Graphs to look after, and what maintenance must not change; also what a child process does that is killed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.ids import MAIN, BranchName, OperationId, TableKey, Version
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import FragmentInfo, Staged, TableAt

SCHEMA = """
node Person {
    name: String @key
    age: I32? @index
    bio: String? @index
    mood: enum(calm, wild)? @index
    note: String?
    like: Vector(4)? @index
    tags: [String]?
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
PERSON, CITY, KNOWS = TableKey("node:Person"), TableKey("node:City"), TableKey("edge:Knows")
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
OLDER = (
    "query older($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
)
GONE = "query gone($name: String) { delete Person where name = $name }"
FIND = (
    "query find($name: String) { match { $p: Person { name: $name } } return { $p.name, $p.age } }"
)


def person(number: int, **more: Any) -> dict[str, Any]:
    """One record."""
    return {"type": "Person", "data": {"name": f"p{number}", "age": number, **more}}


def records(people: int = 8) -> list[dict[str, Any]]:
    """People in a ring who know each other, and a city."""
    ring = [
        {"edge": "Knows", "from": f"p{i}", "to": f"p{(i + 1) % people}", "data": {"id": f"k{i}"}}
        for i in range(people)
    ]
    folk = [person(i, bio=f"likes tea {i}", mood="calm", like=[i, 1, 0, 0]) for i in range(people)]
    return [*folk, {"type": "City", "data": {"name": "Rome"}}, *ring]


def made(root: Path | str, people: int = 8, **options: Any) -> Graph:
    """A graph with a few rows."""
    graph = omnigraphdb.init(root, SCHEMA, **options)
    graph.load(records(people), mode="append")
    return graph


def scattered(root: Path) -> Graph:
    """A graph whose tables are full of small and holey fragments, some under an index and some not."""
    graph = made(root, config={"maintenance": "off"})
    graph.ensure_indices()
    for number in range(100, 106):
        graph.load([person(number)], mode="append")
    graph.mutate(OLDER, {"name": "p1", "age": 77})
    graph.mutate(GONE, {"name": "p101"})
    return graph


def content(graph: Graph, branch: str = MAIN) -> dict[str, list[dict[str, Any]]]:
    """Every visible row by table key, as stored."""
    keys = graph.snapshot(branch=branch).tables()
    return {key: graph.table(key, branch=branch).sort_by("id").to_pylist() for key in sorted(keys)}


def entry(graph: Graph, table: TableKey = PERSON, branch: str = MAIN) -> Entry:
    """Where a table is visible."""
    return graph._engine.manifest.load(BranchName(branch)).snapshot.entry(table)


def tables_of(graph: Graph) -> Tables:
    """The tables behind a graph."""
    return graph._engine.store.tables


def fragments(
    graph: Graph, table: TableKey = PERSON, branch: str = MAIN
) -> tuple[FragmentInfo, ...]:
    """The fragments of what is visible of a table."""
    return tables_of(graph).open(entry(graph, table, branch).at).fragments()


def heads(graph: Graph) -> dict[TableKey, Version]:
    """The newest version of every table of main."""
    snapshot = graph._engine.manifest.load(MAIN).snapshot
    return {key: tables_of(graph).head(e.at.path, None) for key, e in snapshot.entries.items()}


def states(graph: Graph, branch: str = MAIN) -> dict[str, str]:
    """How far each index is, by table and column."""
    found = graph.index_status(branch=branch).indexes
    return {f"{one.table_key}.{one.column}": str(one.state) for one in found}


def drifted(
    graph: Graph,
    stage: Callable[[Tables, TableAt], Staged | None],
    table: TableKey = PERSON,
) -> Version:
    """Commit to a table as a foreign program would: no sidecar, no publish."""
    at = entry(graph, table).at
    at = TableAt(path=at.path, branch=None, version=tables_of(graph).head(at.path, None))
    staged = stage(tables_of(graph), at)
    assert staged is not None, "there is nothing to commit"
    with graph._engine.committer.locks.acquire([lock_key(table, None)]) as held_locks:
        lock = held_locks.lock(lock_key(table, None))
        landed = tables_of(graph).commit_staged(
            staged, operation_id=OperationId("foreign"), lock=lock
        )
    return landed.at.version


def appended(tables: Tables, at: TableAt) -> Staged:
    """A foreign append of one person."""
    blank = tables.open(at).schema.empty_table().to_pylist()
    rows = pa.Table.from_pylist(
        [*blank, {"id": "stranger", "name": "stranger"}], schema=tables.open(at).schema
    )
    return tables.stage_append(at, rows)


def compacted(tables: Tables, at: TableAt) -> Staged | None:
    """A foreign compaction."""
    return tables.stage_compaction(at)


def tend(uri: str, work: str, branch: str) -> None:
    """Open a graph and look after it: what a child process does."""
    with omnigraphdb.open(uri) as graph:
        if work == "optimize":
            graph.optimize()
        elif work == "ensure_indices":
            graph.ensure_indices(branch=branch)
        else:
            graph.cleanup(keep=1, confirm=True)
