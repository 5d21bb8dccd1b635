"""The graph of the sessions: its schema, data, queries and policies; small, and with something of everything."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import omnigraphdb

SCHEMA: Final = """\
node Person @description("Who is known") {
  name: String @key
  age: I32? @index
  born: Date?
  mail: String? @unique
  mood: enum(calm, glad)?
  tags: [String]?
  score: F64?
  seen: DateTime?
  big: I64?
  about: String? @index
  sig: Vector(2)?
  photo: Blob?
  @range(age, 0..150)
}
node City { name: String  area: String  @key(name, area) }
node Note { text: String? }
edge Knows: Person -> Person { since: I32?  weight: F64? }
edge LivesIn: Person -> City @card(0..1)
"""
GROWN: Final = (
    SCHEMA.replace("big: I64?", "big: I64?  nick: String?") + "node Port { code: String @key }\n"
)
PERSON: Final = {"type": "Person"}
ADA: Final = {
    "name": "Ada",
    "age": 36,
    "born": "1990-02-03",
    "mail": "ada@example.org",
    "mood": "calm",
    "tags": ["a", "b"],
    "score": 1.5,
    "seen": "2024-05-06T07:08:09Z",
    "big": 9007199254740993,
    "about": "paints red boats",
    "sig": [0.5, 1.0],
    "photo": "base64:aGVsbG8gd29ybGQ=",
}
PEOPLE: Final[list[dict[str, Any]]] = [
    {"type": "Person", "data": ADA},
    {"type": "Person", "data": {"name": "Bo", "age": 20, "about": "sails blue boats"}},
    {"type": "Person", "data": {"name": "Cy"}},
    {"type": "City", "data": {"name": "Ulm", "area": "south"}},
    {"type": "Note", "data": {"id": "n1", "text": "first"}},
    {
        "edge": "Knows",
        "from": "Ada",
        "to": "Bo",
        "data": {"id": "k1", "since": 2020, "weight": 2.0},
    },
    {"edge": "Knows", "from": "Bo", "to": "Cy", "data": {"id": "k2", "since": 2021, "weight": 1.0}},
    {
        "edge": "LivesIn",
        "from": "Ada",
        "to": '["south","Ulm"]',
        "data": {"id": "l1"},
    },
]
NAMES: Final = "query names() { match { $p: Person } return { $p.name as name, $p.age as age } order { $p.name } }"
FRIENDS: Final = """\
query friends($who: String, $least: I32?) @description("Who is known by somebody.") @mcp(expose: true) {
  match { $p: Person { name: $who }  $p knows $f } return { $f.name as friend, $f.age as age }
}
"""
COUNT: Final = "query many() { match { $p: Person } return { count($p) as people } }"
KNOWN: Final = "query known() { match { $p: Person  $p knows $f } return { $f.name } }"
EVERYTHING: Final = 'query all() { match { $p: Person { name: "Ada" } } return { $p } }'
ADD: Final = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } returning { name, age } }"
AGE: Final = "query age($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
DROP: Final = "query drop($n: String) { delete Person where name = $n }"
POLICY: Final = """\
version: 1
groups: { owners: [ada], readers: [bo] }
protected_branches: [main]
rules:
  - id: owners
    allow: { actors: { group: owners }, actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge, invoke_query, policy_change, maintain] }
  - id: readers
    allow: { actors: { group: readers }, actions: [read], branch_scope: any }
"""
POLICY_CASES: Final = """\
version: 1
cases:
  - { id: ada-writes, actor: ada, action: change, branch: main, expect: allow }
  - { id: bo-writes, actor: bo, action: change, branch: main, expect: deny }
"""

NOWHERE: Final = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
"""The id of nothing."""
PAST: Final = datetime(2020, 1, 1, tzinfo=UTC)
Handle = Any
"""A `Graph` or a `RemoteGraph`: what one of them lacks is recorded as absent."""


def make_graph(place: Path) -> omnigraphdb.Graph:
    """Make a graph with the data, and a branch `side` that has one more person and another age."""
    graph = omnigraphdb.init(place, SCHEMA, actor="ada")
    graph.load(PEOPLE, mode="append", message="first people")
    graph.branch_create("side")
    graph.mutate(ADD, {"n": "Dee", "a": 7}, branch="side", message="a child")
    graph.mutate(AGE, {"n": "Bo", "a": 21}, branch="side", actor="bo")
    graph.mutate(DROP, {"n": "Cy"}, branch="side")
    return graph


def write_queries(folder: Path) -> Path:
    """Write stored queries: two reads and a mutation."""
    folder.mkdir()
    (folder / "people.gq").write_text(f"{NAMES}\n{FRIENDS}\n{ADD}\n", encoding="utf-8")
    return folder
