"""A small graph and the ways to change its schema; also what a child process does that is killed."""

from pathlib import Path

import omnigraphdb
from omnigraphdb.api.graph import Graph

BASE = """
node Person { name: String @key  age: I32?  mood: enum(calm, wild)? }
node City { name: String @key  note: String? }
edge Lives: Person -> City { since: I32? }
"""
RECORDS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "mood": "calm"}},
    {"type": "Person", "data": {"name": "Bob"}},
    {"type": "City", "data": {"name": "Rome", "note": "old"}},
    {"edge": "Lives", "from": "Ada", "to": "Rome", "data": {"id": "l1", "since": 1840}},
]
VARIANTS = {
    "add types": BASE
    + "node Pet { name: String @key }\nedge Owns: Person -> Pet { since: I32? }\n",
    "add properties": BASE.replace("age: I32?", "age: I32?  born: Date?").replace(
        "note: String?", "note: String?  size: I64?"
    ),
    "rename a type": BASE.replace("node City", 'node Town @rename_from("City")').replace(
        "-> City", "-> Town"
    ),
    "rename a type and a property": BASE.replace(
        "node City { name: String @key  note: String?",
        'node Town @rename_from("City") { name: String @key  remark: String? @rename_from("note")',
    ).replace("-> City", "-> Town"),
    "drop a type": BASE.replace("edge Lives: Person -> City { since: I32? }", ""),
    "drop a property": BASE.replace("age: I32?", ""),
    "metadata only": BASE.replace("enum(calm, wild)?", "enum(calm, shy, wild)?").replace(
        "node City", 'node City @description("a place")'
    ),
    "mixed": """
node Human @rename_from("Person") { name: String @key  years: I32? @rename_from("age")  mood: enum(calm, wild)? }
node City { name: String @key  note: String?  size: I64? }
node Pet { name: String @key }
edge Owns: Human -> Pet
""",
}


def made(root: Path) -> Graph:
    """A graph with a few rows."""
    graph: Graph = omnigraphdb.init(root, BASE)
    graph.load(RECORDS, mode="append")
    return graph


def content(graph: Graph) -> dict[str, list[dict[str, object]]]:
    """Every visible row by table key, as stored."""
    keys = graph.snapshot().tables()
    return {key: graph.table(key).sort_by("id").to_pylist() for key in sorted(keys)}


def change(uri: str, variant: str) -> None:
    """Open a graph and change its schema: what a child process does."""
    with omnigraphdb.open(uri) as graph:
        graph.schema_apply(VARIANTS[variant])
