"""Every public name of a graph at hand and of its snapshots, in one session."""

from pathlib import Path

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.snapshot import Snapshot
from omnigraphdb.policy import PolicyEngine
from tests.golden.forms import Entries, Notes
from tests.golden.session import list_verbs, run_session
from tests.golden.world import (
    ADD,
    COUNT,
    NAMES,
    NOWHERE,
    PEOPLE,
    POLICY,
    SCHEMA,
    Handle,
    make_graph,
    write_queries,
)

_INTERNAL = frozenset({"pin", "pin_write", "export_files", "branch", "commit"})
"""Names of snapshots that only Spark and exports call, or that read as verbs of the graph."""


def record(folder: Path) -> Entries:
    """Record the session; every public name of `Graph` and `Snapshot` has an entry."""
    notes = Notes()
    write_queries(folder / "queries")
    with make_graph(folder / "g") as graph:
        project_graph(notes, graph)
        use_tags(notes, graph)
        run_session(notes, graph, folder)
        keep_policies(notes, graph)
        use_handle(notes, graph, folder)
        notes.note("close", graph.close)
        notes.note("query, closed", lambda: graph.query(COUNT))
    open_graphs(notes, folder)
    read_texts(notes, folder)
    verbs = set(list_verbs(notes))
    assert {name for name in dir(Graph) if name[0] != "_"} <= verbs
    inner = {f"snapshot.{name}" for name in dir(Snapshot) if name[0] != "_"}
    assert inner - {f"snapshot.{name}" for name in _INTERNAL} <= verbs
    return notes.entries


def project_graph(notes: Notes, graph: Graph) -> None:
    """Run every algorithm on a projection."""
    note = notes.note
    people = graph.project(nodes=["Person"], edges={"Knows": {"weight": "weight"}})
    note("project", lambda: people)
    graph.branch_create("scores")
    both = graph.project(nodes=["Person"], edges={"Knows": {"undirected": True}})
    note("project, size", lambda: people.nbytes)
    note("project, pagerank", lambda: people.pagerank())
    note("project, pagerank, rows", lambda: people.pagerank().to_arrow())
    note("project, pagerank, top", lambda: people.pagerank().top(1))
    note("project, degrees", lambda: people.degrees().to_arrow())
    note("project, betweenness", lambda: people.betweenness().to_arrow())
    note("project, wcc", lambda: people.wcc().to_arrow())
    note("project, scc", lambda: people.scc().to_arrow())
    note("project, label_propagation", lambda: both.label_propagation().to_arrow())
    note("project, louvain", lambda: both.louvain().to_arrow())
    note("project, triangles", lambda: both.triangles().to_arrow())
    note("project, k_core", lambda: both.k_core().to_arrow())
    note("project, bfs", lambda: people.bfs("Person", "Ada").to_arrow())
    note("project, dijkstra", lambda: people.dijkstra("Person", "Ada").to_arrow())
    note("project, bfs of nobody", lambda: people.bfs("Person", "Nobody"))
    note("project, no type", lambda: graph.project(nodes=["Persn"]))
    note("project, no weight", lambda: graph.project(edges={"Knows": {"weight": "costs"}}))
    note("project, write", lambda: people.pagerank().write("Person.score", branch="scores"))
    note(
        "project, compare",
        lambda: omnigraphdb.compare(people.pagerank(), both.pagerank(), top=2),
    )
    graph.branch_delete("scores")


def use_tags(notes: Notes, graph: Handle) -> None:
    """Name commits."""
    note = notes.note
    note("tag", lambda: graph.tag("v1", actor="ada"))
    note("tag, at", lambda: graph.tag("start", graph.commits()[-1], branch="main"))
    note("tag, there already", lambda: graph.tag("v1", branch="side"))
    note("tag, no name", lambda: graph.tag("a b"))
    note("tag, no commit", lambda: graph.tag("v2", NOWHERE))
    note("tags", graph.tags)
    note("query, at a tag", lambda: graph.query(COUNT, at="start"))
    note("commit, of a tag", lambda: graph.commit("v1"))
    note("tag_delete", lambda: graph.tag_delete("start"))
    note("tag_delete, nothing", lambda: graph.tag_delete("v3"))


def keep_policies(notes: Notes, graph: Graph) -> None:
    """Guard a handle by a policy, then keep one in the graph."""
    note = notes.note
    note("guard", lambda: graph.guard)
    guarded = graph.with_policy(PolicyEngine.load_graph(POLICY))
    note("with_policy", lambda: guarded.mutate(ADD, {"n": "Pam"}, actor="ada"))
    note("with_policy, denied", lambda: guarded.mutate(ADD, {"n": "Pat"}, actor="bo"))
    note("with_policy, branch denied", lambda: guarded.branch_create("b", actor="bo"))
    note("with_policy, merge denied", lambda: guarded.merge("main", into="x", actor="bo"))
    note("with_policy, schema denied", lambda: guarded.schema_apply(SCHEMA, actor="bo"))
    note("with_policy, stranger", lambda: guarded.branch_delete("x", actor="eve"))
    note("policy, none", graph.policy)
    note("set_policy", lambda: graph.set_policy(POLICY, actor="ada"))
    note("policy", graph.policy)
    note("policy, version", lambda: graph.policy(1))
    note("policy, no version", lambda: graph.policy(7))
    note("mutate, denied by the kept policy", lambda: graph.mutate(ADD, {"n": "Z"}, actor="bo"))
    note("set_policy, denied", lambda: graph.set_policy(None, actor="bo"))
    note("set_policy, broken", lambda: graph.set_policy("version: 3"))
    note("set_policy, none", lambda: graph.set_policy(None, actor="ada"))


def use_handle(notes: Notes, graph: Graph, folder: Path) -> None:
    """Read what a handle says of itself, and what its queries and schemas of files give."""
    note = notes.note
    note("location", lambda: graph.location)
    (folder / "rows.csv").write_text("name,age\nAda,3\nBo,\n", encoding="utf-8")
    note("schema_from", lambda: graph.schema_from(folder / "rows.csv"))
    note("schema_from, no file", lambda: graph.schema_from(folder / "no.csv"))
    note("stored_queries", lambda: list(graph.stored_queries(folder / "queries")))
    stored = graph.stored_queries(folder / "queries")
    note("stored_queries, query", lambda: stored.query("names"))
    note("stored_queries, mutate", lambda: stored.mutate("add", {"n": "Quin"}))
    note("stored_queries, nothing", lambda: stored.query("other"))
    note("stored_queries, no folder", lambda: graph.stored_queries(folder / "none"))
    page = graph.show()
    note("show", lambda: page)
    page.close()


def open_graphs(notes: Notes, folder: Path) -> None:
    """Make and open graphs."""
    note = notes.note
    note("init, there already", lambda: omnigraphdb.init(folder / "g", SCHEMA))
    note("init, broken", lambda: omnigraphdb.init(folder / "h", "node person {}"))
    note("init, no setting", lambda: omnigraphdb.init(folder / "h", SCHEMA, config={"durable": 1}))
    with omnigraphdb.init(folder / "h", SCHEMA) as graph:
        note("init", lambda: repr(graph))
        note("init, a load that makes no sense", lambda: graph.load(PEOPLE[-1:], mode="append"))
    note("open, nothing", lambda: omnigraphdb.open(folder / "nothing"))
    note("open, no policy", lambda: omnigraphdb.open(folder / "h", policy="version: 9"))
    with omnigraphdb.open(folder / "h", read_only=True) as graph:
        note("open, read only", lambda: repr(graph))
        note("mutate, read only", lambda: graph.mutate(ADD, {"n": "X"}))
        note("branch_create, read only", lambda: graph.branch_create("x"))
    note("relocate, a graph that stands", lambda: omnigraphdb.relocate(folder / "h"))
    note(
        "discard_recovery, of the package",
        lambda: omnigraphdb.discard_recovery(folder / "h", NOWHERE),
    )
    note("connect, not a server", lambda: omnigraphdb.connect("ftp://nowhere"))


def read_texts(notes: Notes, folder: Path) -> None:
    """Check texts without a graph."""
    note = notes.note
    note("parse_schema", lambda: sorted(omnigraphdb.parse_schema(SCHEMA).nodes))
    note("parse_schema, broken", lambda: omnigraphdb.parse_schema("node Person { name: Text }"))
    note("lint", lambda: omnigraphdb.lint(SCHEMA, NAMES))
    note("lint, broken", lambda: omnigraphdb.lint(SCHEMA, "query q() { match { $p: Per } }"))
    note("infer_schema", lambda: omnigraphdb.infer_schema(folder / "rows.csv"))
    error = note(
        "rejects_frame, the load",
        lambda: omnigraphdb.open(folder / "h").load(
            [{"type": "Person", "data": {"age": 1}}], mode="append", rejects=folder / "r.jsonl"
        ),
    )
    assert error is None
