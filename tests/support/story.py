"""Writes that touch several tables, as values that a test, a child process and a model share."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.sidecar import WriterKind

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode

ACTOR: Final = "ada"
SCHEMA: Final = """
node Person { k: String @key  n: I32? }
node City { k: String @key  n: I32? }
node Note { k: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
BASE: Final[tuple[dict[str, Any], ...]] = (
    *({"type": "Person", "data": {"k": k, "n": 0}} for k in "abcd"),
    *({"type": "City", "data": {"k": k, "n": 0}} for k in "xy"),
    {"edge": "Knows", "from": "a", "to": "b", "data": {"id": "ab"}},
    {"edge": "Knows", "from": "b", "to": "c", "data": {"id": "bc"}},
    {"edge": "LivesIn", "from": "a", "to": "x", "data": {"id": "ax"}},
    {"edge": "LivesIn", "from": "b", "to": "y", "data": {"id": "by"}},
)

Content = tuple[str, ...]
"""What a branch shows, in one comparable value; edges go without their ids, which are made up."""


def content(graph: Graph, branch: str = "main", at: str | None = None) -> Content:
    """Everything a branch shows, now or at a commit."""
    return tuple(sorted(_encode_entity(entity) for entity in graph.export(branch=branch, at=at)))


def _encode_entity(entity: Mapping[str, Any]) -> str:
    data = dict(entity["data"])
    if "edge" in entity:
        data.pop("id", None)
    return json.dumps({**entity, "data": data}, sort_keys=True)


# ---- the writes


@dataclass(frozen=True, slots=True)
class Write:
    """One kind of write; every tag makes another one of the same kind, and all of them fit together."""

    name: str
    kind: WriterKind
    run: Callable[[Graph, str, str, str | None], None]


def _insert(graph: Graph, branch: str, tag: str, actor: str | None) -> None:
    graph.mutate(
        """query m($p: String, $c: String) {
             insert Person { k: $p, n: 1 }
             insert City { k: $c }
             insert LivesIn { from: $p, to: $c } }""",
        {"p": f"p{tag}", "c": f"c{tag}"},
        branch=branch,
        actor=actor,
    )


def _update(graph: Graph, branch: str, tag: str, actor: str | None) -> None:
    """Relies on a table that it does not write: the match reads the edges."""
    graph.mutate(
        """query m($k: String, $n: I32) {
             match { $p: Person { k: $k }  $p livesIn $c }
             update $p set { n: $n + count { $p livesIn $_ } - 1 }
             update City set { n: $n } where k = "x" }""",
        {"k": "ab"[int(tag) % 2], "n": 10 + int(tag)},
        branch=branch,
        actor=actor,
    )


def _delete(graph: Graph, branch: str, tag: str, actor: str | None) -> None:
    """Takes edges of both types along."""
    gone = {"0": "b", "1": "a", "2": "c"}[tag]
    graph.mutate(
        "query m($k: String) { delete Person where k = $k }",
        {"k": gone},
        branch=branch,
        actor=actor,
    )


def _load(mode: "Mode", records: Callable[[str], list[dict[str, Any]]]) -> Callable[..., None]:
    def run(graph: Graph, branch: str, tag: str, actor: str | None) -> None:
        graph.load(records(tag), mode=mode, branch=branch, actor=actor)

    return run


def _fresh(tag: str) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"k": f"p{tag}", "n": 1}},
        {"type": "City", "data": {"k": f"c{tag}"}},
        {"edge": "LivesIn", "from": f"p{tag}", "to": f"c{tag}", "data": {"id": f"l{tag}"}},
        {"edge": "Knows", "from": f"p{tag}", "to": "a", "data": {"id": f"k{tag}"}},
    ]


def _changed(tag: str) -> list[dict[str, Any]]:
    return [
        *_fresh(tag),
        {"type": "Person", "data": {"k": "a", "n": 10 + int(tag)}},
        {"type": "City", "data": {"k": "x", "n": 20 + int(tag)}},
        {"edge": "LivesIn", "from": "a", "to": f"c{tag}", "data": {"id": "ax"}},
    ]


def _replaced(tag: str) -> list[dict[str, Any]]:
    return [*_fresh(tag)[:3], {"edge": "Knows", "from": f"p{tag}", "to": f"p{tag}"}]


WRITES: Final = {
    write.name: write
    for write in (
        Write("insert", WriterKind.MUTATION, _insert),
        Write("update", WriterKind.MUTATION, _update),
        Write("delete", WriterKind.MUTATION, _delete),
        Write("append", WriterKind.LOAD, _load("append", _fresh)),
        Write("merge", WriterKind.LOAD, _load("merge", _changed)),
        Write("overwrite", WriterKind.LOAD, _load("overwrite", _replaced)),
    )
}


def note(graph: Graph, branch: str, tag: str) -> None:
    """A write that touches a table no story touches."""
    graph.mutate(f'query m() {{ insert Note {{ k: "{tag}" }} }}', branch=branch)


def perform(
    uri: str,
    name: str,
    branch: str = "main",
    tag: str = "1",
    actor: str | None = ACTOR,
    options: Mapping[str, str] | None = None,
) -> None:
    """Open a graph and write one story: what a child process does."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        WRITES[name].run(graph, branch, tag, actor)


def reopen(uri: str, options: Mapping[str, str] | None = None) -> None:
    """Open a graph and close it: what a child process does that recovers."""
    omnigraphdb.open(uri, storage_options=options).close()
