"""Graphs in the internal shapes 1 to 4, as earlier releases left them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
import pyarrow as pa

from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import MAIN, BranchName, Version
from omnigraphdb.manifest.lineage import LegacyLineage
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.records import (
    KEY,
    GraphCommit,
    GraphHead,
    Registration,
    TableVersion,
    encode,
    lance_branch,
)
from omnigraphdb.manifest.stamp import STAMP
from omnigraphdb.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS, MANIFEST
from omnigraphdb.storage.rows import Rows
from tests.support.manifests import CITY, PATHS, PERSON, START_US, StillRuntime, another_handle

MakeRows = Callable[[str, str], Rows]
"""Gives rows for a path and a key column."""


COMMITS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)
ACTORS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)

SIDE = BranchName("side")
MAIN_COMMITS = ("01OLD00000000000000000MAIN1", "01OLD00000000000000000MAIN2")
SIDE_COMMIT = "01OLD00000000000000000SIDE1"
ACTORS = {MAIN_COMMITS[1]: "ann", SIDE_COMMIT: "bob"}


@dataclass(frozen=True, kw_only=True)
class OldGraph:
    """An old graph: two commits on main; a branch `side` made after the first, with one of its own."""

    manifest: Manifest
    commits: Rows
    actors: Rows
    stamp: int


def old_graph(make: MakeRows, stamp: int, *, runs: Sequence[str] = ()) -> OldGraph:
    """Build a graph with that stamp; `runs` are scratch branches, which shapes before 3 may have."""
    if stamp == 4:
        return _with_lineage(old_graph(make, 3))
    rows, commits, actors = (
        make(MANIFEST, KEY),
        make(LEGACY_COMMITS, "graph_commit_id"),
        make(LEGACY_ACTORS, "graph_commit_id"),
    )
    schema = _unmarked() if stamp < 2 else encode([]).schema
    stamped = {} if stamp < 2 else {STAMP: str(stamp)}
    first = encode([*_table(PERSON, 1), *_table(CITY, 1)]).cast(schema)
    rows.create(first, metadata=stamped, config={})
    commits.create(_commits([_commit(MAIN_COMMITS[0], None, 1, None)]), metadata={}, config={})
    actors.create(_actors(ACTORS), metadata={}, config={})

    for name in (SIDE, *runs):
        rows.create_branch(name, None, Version(1))
        commits.create_branch(name, None, Version(1))
    _swap(rows, SIDE, encode([_version(PERSON, 2, SIDE)]).cast(schema))
    _swap(commits, SIDE, _commits([_commit(SIDE_COMMIT, SIDE, 2, MAIN_COMMITS[0])]))
    _swap(rows, MAIN, encode([_version(CITY, 2, None)]).cast(schema))
    _swap(commits, MAIN, _commits([_commit(MAIN_COMMITS[1], None, 2, MAIN_COMMITS[0])]))

    legacy = LegacyLineage(commits, actors, has_files=lambda path: False)
    manifest = Manifest(rows=rows, runtime=StillRuntime(), legacy=legacy)
    return OldGraph(manifest=manifest, commits=commits, actors=actors, stamp=stamp)


def _with_lineage(old: OldGraph) -> OldGraph:
    """Bring a graph of shape 3 to shape 4, in which each branch has its history in its manifest."""
    rows = old.manifest.rows
    for branch in (MAIN, SIDE):
        commits = old.manifest.load(branch).lineage.commits
        head = GraphHead(branch=branch, commit=commits[-1].id, parent=commits[-1].parent)
        _swap(rows, branch, encode([*commits, head]))
        rows.set_metadata(rows.load(lance_branch(branch)), STAMP, "4")
    return replace(old, manifest=another_handle(old.manifest), stamp=4)


def _unmarked() -> pa.Schema:
    """The manifest schema without the primary-key mark."""
    return pa.schema([field.remove_metadata() for field in encode([]).schema])


def _table(table: str, version: int) -> Iterable[Registration | TableVersion]:
    return (Registration(table_key=table, path=PATHS[table]), _version(table, version, None))  # type: ignore[arg-type, index]


def _version(table: str, version: int, branch: str | None) -> TableVersion:
    return TableVersion(
        table_key=table,  # type: ignore[arg-type]
        path=PATHS[table],  # type: ignore[index]
        version=Version(version),
        branch=branch,
        row_count=version * 10,
    )


def _commit(
    name: str, branch: str | None, version: int, parent: str | None
) -> Mapping[str, object]:
    return {
        "graph_commit_id": name,
        "manifest_branch": branch,
        "manifest_version": version,
        "parent_commit_id": parent,
        "created_at": START_US + version,
    }


def _commits(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=COMMITS_SCHEMA)


def _actors(actors: Mapping[Any, str]) -> pa.Table:
    rows = [
        {"graph_commit_id": commit, "actor_id": actor, "created_at": START_US}
        for commit, actor in actors.items()
    ]
    return pa.Table.from_pylist(rows, schema=ACTORS_SCHEMA)


def _swap(rows: Rows, branch: BranchName, fresh: pa.Table) -> None:
    rows.swap(rows.load(lance_branch(branch)), fresh)


# ---- a whole graph


def downgrade(graph: Graph) -> None:
    """Bring a graph with at most one level of branches to shape 3: its history lies in tables of its own."""
    engine = graph._engine
    commits = engine.store.keyed_rows(LEGACY_COMMITS, "graph_commit_id")
    actors = engine.store.keyed_rows(LEGACY_ACTORS, "graph_commit_id")
    branches = [BranchName(name) for name in engine.manifest.rows.branches()]
    states = {branch: engine.manifest.load(branch) for branch in (MAIN, *branches)}
    shared = set.intersection(*(set(s.lineage.by_id) for s in states.values()))
    named = {c.id: c.actor for s in states.values() for c in s.lineage.commits if c.actor}
    actors.create(_actors(named), metadata={}, config={})
    known = states[MAIN].lineage.by_id
    commits.create(
        _commits([_encode_commit(known[one]) for one in sorted(shared)]), metadata={}, config={}
    )
    for branch in branches:
        commits.create_branch(branch, None, Version(1))
    for branch, state in states.items():
        own = [_encode_commit(c) for c in state.lineage.commits if c.id not in shared]
        if own:
            _swap(commits, branch, _commits(own))
        _strip(graph, branch)


def _encode_commit(commit: GraphCommit) -> Mapping[str, object]:
    return {
        "graph_commit_id": commit.id,
        "manifest_branch": lance_branch(commit.branch),
        "manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "created_at": commit.created_at,
    }


def _strip(graph: Graph, branch: BranchName) -> None:
    """Take lineage out of a branch's manifest."""
    tree = "" if branch == MAIN else f"/tree/{branch}"
    dataset = lance.dataset(f"{graph.uri}/{MANIFEST}{tree}")
    dataset.delete("object_type in ('graph_commit', 'graph_head')")
    dataset.update_schema_metadata({STAMP: "3"})
