"""Every kind of writer on a small graph, and where each can be stopped: what recovery may have to settle."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint
from tests.support import schema_changes, story

MERGE_SCHEMA: Final = """
node Person { name: String @key  age: I32? }
node City { name: String @key }
edge Knows: Person -> Person
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """One kind of writer: the graph it meets, what it does, and the failpoints by what becomes of it.

    `pins`: it moves HEADs, so that a roll-back restores tables. `files`: it brings schema files.
    """

    prepare: Callable[[Path], Graph]
    write: Callable[[Graph], object]
    forward: tuple[Failpoint, ...] = ()
    back: tuple[Failpoint, ...] = ()
    discarded: tuple[Failpoint, ...] = ()
    stale: tuple[Failpoint, ...] = ()
    branch: str = "main"
    pins: bool = True
    files: bool = False
    has_commit: bool = True


# ---- mutations and loads


def _make_story_graph(root: Path) -> Graph:
    graph = omnigraphdb.init(root, story.SCHEMA)
    graph.load(list(story.BASE), mode="append")
    return graph


def _story(name: str) -> Writer:
    return Writer(
        prepare=_make_story_graph,
        write=lambda graph: story.WRITES[name].run(graph, "main", "1", "ada"),
        forward=(Failpoint.TABLES_COMMITTED,),
        back=(Failpoint.TABLE_COMMITTED,),
        discarded=(Failpoint.ARMED,),
        stale=(Failpoint.PUBLISHED,),
    )


# ---- schema changes


def _schema(variant: str, **points: Any) -> Writer:
    return Writer(
        prepare=schema_changes.made,
        write=lambda graph: graph.schema_apply(schema_changes.VARIANTS[variant]),
        forward=(Failpoint.SCHEMA_STAGED,),
        stale=(Failpoint.SCHEMA_PUBLISHED,),
        files=True,
        **points,
    )


# ---- merges


def _people(*names: str, age: int) -> list[dict[str, Any]]:
    return [{"type": "Person", "data": {"name": name, "age": age}} for name in names]


def _apart(root: Path) -> Graph:
    """Both sides changed people; the edges are new on one of them."""
    graph = omnigraphdb.init(root, MERGE_SCHEMA)
    graph.load(_people("a", "b", "c", age=1), mode="append")
    graph.branch_create("side")
    edge = {"edge": "Knows", "from": "a", "to": "d", "data": {"id": "ad"}}
    graph.load([*_people("a", "d", age=2), edge], mode="merge", branch="side")
    graph.mutate('query m() { delete Person where name = "b" }', branch="side")
    graph.load(_people("e", age=3), mode="append")
    return graph


def _cancelled(root: Path) -> Graph:
    """What the source did, it undid."""
    graph = omnigraphdb.init(root, MERGE_SCHEMA)
    graph.load(_people("a", "b", age=1), mode="append")
    graph.branch_create("side")
    graph.load(_people("c", age=2), mode="append", branch="side")
    graph.mutate('query m() { delete Person where name = "c" }', branch="side")
    graph.load([{"type": "City", "data": {"name": "Rome"}}], mode="append")
    return graph


def _pointed(root: Path) -> Graph:
    """The target, a branch, owns no table: it takes over main's by pointing at it."""
    graph = omnigraphdb.init(root, MERGE_SCHEMA)
    graph.load(_people("a", "b", age=1), mode="append")
    graph.branch_create("side")
    graph.load(_people("a", "c", age=2), mode="merge")
    return graph


# ---- maintenance


def _scattered(root: Path) -> Graph:
    graph = omnigraphdb.init(root, story.SCHEMA, config={"maintenance": "off"})
    graph.load(list(story.BASE), mode="append")
    for number in range(3):
        graph.load(
            [{"type": kind, "data": {"k": f"{kind} {number}"}} for kind in ("Person", "City")],
            mode="append",
        )
    return graph


WRITERS: Final[dict[str, Writer]] = {
    "mutation": _story("insert"),
    "load": _story("merge"),
    "schema: mixed": _schema(
        "mixed",
        back=(Failpoint.SCHEMA_UNSTAGED, Failpoint.SCHEMA_HALF_STAGED),
        discarded=(Failpoint.SCHEMA_ARMED,),
    ),
    "schema: add types": _schema("add types", pins=False, back=(Failpoint.SCHEMA_HALF_STAGED,)),
    "schema: drop a type": _schema("drop a type", pins=False, back=(Failpoint.SCHEMA_HALF_STAGED,)),
    "schema: metadata only": _schema(
        "metadata only",
        pins=False,
        back=(Failpoint.SCHEMA_HALF_STAGED,),
        discarded=(Failpoint.SCHEMA_UNSTAGED,),
    ),
    "merge: three-way": Writer(
        prepare=_apart,
        write=lambda graph: graph.merge("side"),
        forward=(Failpoint.MERGE_CONFIRMED,),
        back=(Failpoint.MERGE_EFFECTS_DONE,),
        discarded=(Failpoint.MERGE_ARMED,),
        stale=(Failpoint.PUBLISHED,),
    ),
    "merge: cancels out": Writer(
        prepare=_cancelled,
        write=lambda graph: graph.merge("side"),
        forward=(Failpoint.MERGE_ARMED, Failpoint.MERGE_CONFIRMED),
        stale=(Failpoint.PUBLISHED,),
        pins=False,
    ),
    "merge: by pointer": Writer(
        prepare=_pointed,
        write=lambda graph: graph.merge("main", into="side"),
        forward=(Failpoint.MERGE_CONFIRMED,),
        stale=(Failpoint.PUBLISHED,),
        branch="side",
        pins=False,
    ),
    "indexes": Writer(
        prepare=_scattered,
        write=lambda graph: graph.ensure_indices(),
        forward=(Failpoint.INDICES_COMMITTED,),
        back=(Failpoint.INDICES_TABLE_COMMITTED,),
        discarded=(Failpoint.INDICES_ARMED,),
        stale=(Failpoint.PUBLISHED,),
        has_commit=False,
    ),
    "optimize": Writer(
        prepare=_scattered,
        write=lambda graph: graph.optimize(),
        forward=(Failpoint.OPTIMIZE_COMMITTED,),
        back=(Failpoint.OPTIMIZE_TABLE_COMMITTED,),
        discarded=(Failpoint.OPTIMIZE_ARMED,),
        stale=(Failpoint.PUBLISHED,),
        has_commit=False,
    ),
}


def shown(graph: Graph, branch: str) -> tuple[str, story.Content]:
    """What a branch shows, and through which schema."""
    return graph.schema_source, story.content(graph, branch)
