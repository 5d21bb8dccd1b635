"""A graph with every kind of history, its files, and reads at every commit, tag and branch of it."""

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.ids import MAIN

SCHEMA = """
node Person { name: String @key  age: I32? @index  bio: String?  face: Blob? }
node Town { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
WIDER = (
    SCHEMA.replace("face: Blob?", "face: Blob?  nick: String?") + "node Club { name: String @key }"
)
NARROWER = WIDER.replace("node Town { name: String @key }", "").replace("bio: String?  ", "")

Change = Callable[[bytes], bytes | None]
"""What becomes of the bytes of a file; None: the file is removed."""
Answers = Mapping[str, str]
"""The digest of each answer, or the error in its place, by what was asked."""


def flip(content: bytes) -> bytes:
    """Flip bits in the middle."""
    middle = len(content) // 2
    flipped = bytes(one ^ 0x55 for one in content[middle : middle + 4])
    return content[:middle] + flipped + content[middle + 4 :]


CHANGES: Mapping[str, Change] = {
    "flipped": flip,
    "cut": lambda content: content[: len(content) // 2],
    "gone": lambda content: None,
}


# ---- the graph


def make_graph(home: Path) -> None:
    """Make a graph with branches, tags, merges, updates, deletes, blobs, indexes and schema changes."""
    with omnigraphdb.init(home, SCHEMA) as graph:
        graph.load(_people(0, 40), mode="append")
        graph.load(
            [{"edge": "Knows", "from": f"p{n}", "to": f"p{n + 1}"} for n in range(20)],
            mode="append",
        )
        face = "base64:" + "AAAA" * 40_000
        graph.load([{"type": "Person", "data": {"name": "faced", "face": face}}], mode="append")
        graph.load([{"type": "Town", "data": {"name": "Ghent"}}], mode="append")
        graph.tag("first")
        _run(graph, 'update Person set { age: 99 } where name = "p1"')
        _run(graph, 'delete Person where name = "p30"')
        graph.branch_create("side")
        _run(graph, 'update Person set { age: 7 } where name = "p2"', "side")
        _run(graph, 'insert Person { name: "sided" }', "side")
        _run(graph, 'delete Knows where from = "p3"', "side")
        graph.merge("side")
        graph.branch_delete("side")
        graph.schema_apply(WIDER)
        _run(graph, 'update Person set { nick: "Nick" } where age < 5')
        graph.branch_create("draft")
        graph.load([{"type": "Club", "data": {"name": "chess"}}], mode="append", branch="draft")
        _run(graph, "delete Person where age > 35 and age < 38", "draft")
        graph.ensure_indices()
        graph.optimize()
        graph.tag("dense")
        graph.branch_delete("draft")
        graph.schema_apply(NARROWER)
        graph.branch_create("late")
        _run(graph, 'delete Person where name = "p12"', "late")
        graph.tag("beside", branch="late")
        _run(graph, 'update Person set { age: 8 } where name = "p13"', "late")
        _run(graph, 'insert Person { name: "last"  age: 1 }')


def _people(start: int, count: int) -> list[dict[str, Any]]:
    return [
        {"type": "Person", "data": {"name": f"p{n}", "age": n, "bio": f"word{n} tea"}}
        for n in range(start, start + count)
    ]


def _run(graph: Graph, statement: str, branch: str = MAIN) -> None:
    graph.mutate(f"query q() {{ {statement} }}", branch=branch)


def list_files(home: Path) -> list[str]:
    """List the files of a graph by their paths below its root; locks and marks of running processes are none of it."""
    found = (one.relative_to(home).as_posix() for one in home.rglob("*") if one.is_file())
    return sorted(one for one in found if not one.startswith("__locks/"))


# ---- reads


def read_everything(home: Path) -> Answers:
    """Read rows, schema, history and differences at every commit, tag and branch; an error of ours is an answer."""
    answers: dict[str, str] = {}

    def ask(name: str, read: Callable[[], object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", omnigraphdb.OmniWarning)
            try:
                answers[name] = hashlib.md5(repr(read()).encode()).hexdigest()
            except OmniError as error:
                answers[name] = f"{type(error).__name__}: {error}"

    def ask_all() -> None:
        with omnigraphdb.open(home, read_only=True) as graph:
            ask("tags", lambda: [(one.name, one.commit) for one in graph.tags()])
            branches: list[str] = []
            ask(
                "branches",
                lambda: _fill(branches, (one.name for one in graph.branches())),
            )
            for branch in branches:
                _ask_branch(graph, branch, ask)

    ask("open", ask_all)
    return answers


def _ask_branch(
    graph: Graph, branch: str, ask: Callable[[str, Callable[[], object]], None]
) -> None:
    commits: list[Any] = []
    ask(f"{branch} commits", lambda: _fill(commits, graph.commits(branch=branch)))
    ask(f"{branch} history", lambda: graph.history("Person", "p2", branch=branch))
    ask(f"{branch} rows", lambda: _rows(graph, branch, None))
    # What a branch has from main is read there.
    own = [one.id for one in commits if one.branch == branch]
    for newer, older in pairwise([None, *own]):
        ask(f"{branch} {older} rows", partial(_rows, graph, branch, older))
        if newer is not None:
            ask(f"{branch} {older} diff", partial(_diff, graph, older, newer))
            ask(f"{branch} {newer} changes", partial(_changes, graph, newer))


def _fill(items: list[Any], read: Iterable[Any]) -> list[Any]:
    items.extend(read)
    return items


def _changes(graph: Graph, commit: str) -> object:
    return graph.commit_changes(commit).to_dict()


def _diff(graph: Graph, base: str, head: str) -> object:
    return graph.diff(base, head).to_dict()


def _rows(graph: Graph, branch: str, at: str | None) -> list[object]:
    snapshot = graph.snapshot(branch=branch, at=at)
    names = sorted(snapshot.tables())
    rows: list[object] = [names, snapshot.describe().to_dict()]
    for name in names:
        table: pa.Table = snapshot.table(name)
        rows.append((table.schema.names, sorted(map(repr, table.to_pylist()))))
    if "Person" in names:
        rows.append(snapshot.blob("Person", "faced", "face").read())
    return rows


# ---- damage


@contextmanager
def damaged(home: Path, name: str, change: Change) -> Iterator[None]:
    """Change one file for a while."""
    file = home / name
    content = file.read_bytes()
    after = change(content)
    if after is None:
        file.unlink()
    else:
        file.write_bytes(after)
    try:
        yield
    finally:
        file.write_bytes(content)
