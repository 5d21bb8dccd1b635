"""The session through `RemoteGraph` against a server, and what only a client meets."""

from functools import partial
from pathlib import Path

import omnigraphdb
from omnigraphdb.remote.graph import RemoteGraph
from tests.golden.forms import Entries, Notes
from tests.golden.graph_part import use_tags
from tests.golden.server import serve_graph
from tests.golden.session import list_verbs, run_session
from tests.golden.world import ADD, COUNT, FRIENDS


def record(folder: Path) -> Entries:
    """Record the session; every public name of `RemoteGraph` has an entry."""
    notes = Notes()
    with serve_graph(folder) as server:
        with omnigraphdb.connect(server.url, token="t-ada") as graph:
            call_stored(notes, graph)
            refuse_arguments(notes, graph)
            run_session(notes, graph, folder)
            use_tags(notes, graph)
            notes.note("close", graph.close)
        meet_server(notes, server.url)
    assert {name for name in dir(RemoteGraph) if name[0] != "_"} <= set(list_verbs(notes))
    return notes.entries


def call_stored(notes: Notes, graph: RemoteGraph) -> None:
    """Call stored queries in every way."""
    note = notes.note
    note("stored_queries", graph.stored_queries)
    note("run_stored, branch", lambda: graph.run_stored("names", branch="side"))
    note("run_stored, at", lambda: graph.run_stored("names", at=2))
    note("run_stored, no parameter", lambda: graph.run_stored("friends"))
    note("run_stored, mutation", lambda: graph.run_stored("add", {"n": "Sam"}, message="stored"))
    head = graph.commits(limit=1)[0]
    note("run_stored, if_commit", lambda: graph.run_stored("add", {"n": "Tom"}, if_commit=head))
    note("run_stored, wrong if_commit", lambda: graph.run_stored("add", {"n": "U"}, if_commit=head))
    note("run_stored, no mutation", lambda: graph.run_stored("names", expect_mutation=True))
    for again in ("", ", again"):
        note(
            f"run_stored, key{again}",
            lambda: graph.run_stored("add", {"n": "Una"}, idempotency_key="u"),
        )


def refuse_arguments(notes: Notes, graph: RemoteGraph) -> None:
    """Give what only a graph at hand takes."""
    note = notes.note
    note("branch_create, actor", lambda: graph.branch_create("x", actor="bo"))
    note("changes_stream, spark", lambda: list(graph.changes_stream(spark=True)))
    note("commit_changes, nodes_first", lambda: graph.commit_changes("x", nodes_first=True))
    note("diff, spark", lambda: graph.diff("main", "side", spark=True))
    note("load, actor", lambda: graph.load([], mode="merge", actor="bo"))
    note("load, a default", lambda: graph.load([], mode="merge", spark="auto"))
    note("load, progress", lambda: graph.load([], mode="merge", progress=print))
    note("merge, actor", lambda: graph.merge("side", actor="bo"))
    note("mutate, plain", lambda: graph.mutate(ADD, {"n": "X"}))
    note("mutate, progress", lambda: graph.mutate(ADD, {"n": "X"}, progress=print))  # type: ignore[call-arg]
    note("schema_apply, actor", lambda: graph.schema_apply("", actor="bo"))


def meet_server(notes: Notes, url: str) -> None:
    """Call with a wrong token, graph or address."""
    note = notes.note
    for name, token in (("no token", None), ("wrong token", "x")):
        with omnigraphdb.connect(url, token=token) as stranger:
            note(f"query, {name}", partial(stranger.query, COUNT))
    with omnigraphdb.connect(url, token="t-ada", graph="nothing") as other:
        note("query, no graph", lambda: other.query(FRIENDS, {"who": "Ada"}))
    with omnigraphdb.connect(url, token="t-ada", answer_bytes=64) as small:
        note("query, answer too long", lambda: small.query(COUNT))
    note("connect, not a server", lambda: omnigraphdb.connect("ftp://nowhere"))
