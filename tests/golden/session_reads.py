"""The reads of the session: queries, tables, entities, snapshots and history."""

from pathlib import Path
from typing import Any

from tests.golden.forms import Notes
from tests.golden.world import ADD, COUNT, EVERYTHING, FRIENDS, NAMES, NOWHERE, PAST, Handle


def read_queries(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("uri", lambda: graph.uri)
    note("schema_source", lambda: graph.schema_source)
    note("catalog", lambda: [sorted(graph.catalog.nodes), sorted(graph.catalog.edges)])
    note("read_only", lambda: graph.read_only)
    note("on", lambda: graph.on("side").query(COUNT))
    note("on, no branch", lambda: graph.on("nowhere").query(COUNT))
    note("query", lambda: graph.query(NAMES))
    note("query, rows", lambda: graph.query(NAMES).rows)
    note("query, arrow", lambda: graph.query(EVERYTHING).to_arrow())
    note("query, every type", lambda: graph.query(EVERYTHING))
    note("query, parameters", lambda: graph.query(FRIENDS, {"who": "Ada"}))
    note("query, named", lambda: graph.query(f"{NAMES}\n{FRIENDS}", "friends", {"who": "Bo"}))
    note("query, branch", lambda: graph.query(NAMES, branch="side"))
    note("query, at a version", lambda: graph.query(COUNT, at=2))
    note(
        "query, search",
        lambda: graph.query(
            'query q() { match { $p: Person  search($p.about, "boats") } return { $p.name } order { $p.name } }'
        ),
    )
    note("query, no text", lambda: graph.query(""))
    note("query, broken", lambda: graph.query("query q() { match { $p: } }"))
    note("query, no type", lambda: graph.query("query q() { match { $p: Persn } return { $p } }"))
    note("query, no parameter", lambda: graph.query(FRIENDS))
    note("query, wrong parameter", lambda: graph.query(FRIENDS, {"who": 5}))
    note("query, unknown parameter", lambda: graph.query(FRIENDS, {"who": "A", "whom": "B"}))
    note("query, no name", lambda: graph.query(NAMES, "other"))
    note("query, a mutation", lambda: graph.query(ADD, {"n": "X"}))
    note("query, no branch", lambda: graph.query(NAMES, branch="sid"))
    note("query, no commit", lambda: graph.query(NAMES, at=NOWHERE))
    note("query, no moment", lambda: graph.query(NAMES, at=PAST))


def read_frames(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("query_frame", lambda: graph.query_frame(NAMES, engine="arrow"))
    note(
        "query_frame, pandas", lambda: graph.query_frame(NAMES, engine="pandas").to_dict("records")
    )
    note("query_frame, no library", lambda: graph.query_frame(NAMES, engine="numpy"))
    note("stream", lambda: graph.stream(NAMES))
    note("stream, rows", lambda: _describe_stream(graph.stream(NAMES)))
    note("explain", lambda: graph.explain(FRIENDS, {"who": "Ada"}))
    note("explain, text", lambda: str(graph.explain(FRIENDS, {"who": "Ada"})))
    note("explain, profile", lambda: graph.explain(FRIENDS, {"who": "Ada"}, profile=True))


def _describe_stream(stream: Any) -> list[Any]:
    return [stream.columns, stream.branch, stream.commit, list(stream.rows())]


def read_rows(notes: Notes, graph: Handle, folder: Path) -> None:
    note = notes.note
    note("table", lambda: graph.table("Person").drop_columns(["photo"]))
    note("table, edges", lambda: graph.table("Knows", branch="side"))
    note("table, no type", lambda: graph.table("Persn"))
    note("export", lambda: list(graph.export()))
    note("export, types", lambda: list(graph.export(branch="side", types=["Knows"])))
    note("export, no type", lambda: list(graph.export(types=["Nothing"])))
    note("export_lines", lambda: b"".join(map(bytes, graph.export_lines(types=["City"]))))
    note("export_files", lambda: graph.export_files(folder / "out", types=["Person", "Knows"]))
    note(
        "export_files, parquet",
        lambda: graph.export_files(folder / "pq", format="parquet", types=["City"]),
    )
    note("export_files, no format", lambda: graph.export_files(folder / "no", format="csv"))
    note("describe", lambda: graph.describe(branch="side"))
    note("duckdb", lambda: graph.duckdb().sql("select name, age from Person order by name").arrow())
    note("frames", lambda: graph.frames(engine="arrow").vertices)
    note("frames, a type", lambda: graph.frames(engine="arrow")["City"])
    note("to_networkx", lambda: sorted(map(str, graph.to_networkx(["Person", "Knows"]).edges)))
    note("run_stored", lambda: graph.run_stored("friends", {"who": "Ada"}))
    note("run_stored, no query", lambda: graph.run_stored("nothing"))


def read_entities(notes: Notes, graph: Handle) -> None:
    note = notes.note
    note("entity", lambda: graph.entity("Person", "Ada"))
    note(
        "entity, of two properties", lambda: graph.entity("City", {"name": "Ulm", "area": "south"})
    )
    note("entity, nobody", lambda: graph.entity("Person", "Nobody"))
    note("entity, no type", lambda: graph.entity("People", "Ada"))
    note("entity, wrong key", lambda: graph.entity("City", "Ulm"))
    note("neighbours", lambda: graph.neighbours("Person", "Bo"))
    note(
        "neighbours, one way",
        lambda: graph.neighbours("Person", "Bo", edge="Knows", direction="in", limit=1),
    )
    note("neighbours, nobody", lambda: graph.neighbours("Person", "Nobody"))
    note("neighbours, no direction", lambda: graph.neighbours("Person", "Bo", direction="up"))
    note("path", lambda: graph.path("Person", "Ada", "Person", "Cy"))
    note(
        "path, by cost",
        lambda: graph.path("Person", "Ada", "Person", "Cy", edges=["Knows"], by="weight"),
    )
    note("path, none", lambda: graph.path("Person", "Cy", "Person", "Ada"))
    note("path, no property", lambda: graph.path("Person", "Ada", "Person", "Cy", by="costs"))
    blob = note("blob", lambda: _hide_fetch(graph.blob("Person", "Ada", "photo")))
    if blob is not None:
        note("blob, bytes", lambda: graph.blob("Person", "Ada", "photo").read())
    note("blob, null", lambda: graph.blob("Person", "Bo", "photo"))
    note("blob, no blob", lambda: graph.blob("Person", "Ada", "name"))


def _hide_fetch(blob: Any) -> dict[str, Any]:
    return {
        name: getattr(blob, name)
        for name in ("table_key", "id", "property", "kind", "size", "branch", "commit")
    }


def read_snapshot(notes: Notes, graph: Handle) -> None:
    note = notes.note
    snapshot = note("snapshot", lambda: graph.snapshot(branch="side"))
    note("snapshot, at a version", lambda: graph.snapshot(at=2))
    note("snapshot, no version", lambda: graph.snapshot(at=99))
    inner = Notes(notes.entries, f"{notes.prefix}snapshot.")
    note = inner.note
    note("branch", lambda: snapshot.branch)
    note("commit", lambda: snapshot.commit)
    note("manifest_version", lambda: snapshot.manifest_version)
    note("tables", lambda: snapshot.tables())
    note("to_dict", lambda: snapshot.to_dict())
    note("describe", lambda: snapshot.describe())
    note("duckdb", lambda: snapshot.duckdb().sql("select count(*) as n from Person").arrow())
    note("entity", lambda: snapshot.entity("Person", "Dee"))
    note("blob", lambda: snapshot.blob("Person", "Ada", "photo").read())
    note("explain", lambda: snapshot.explain(NAMES))
    note("export", lambda: list(snapshot.export(["City"])))
    note("export_lines", lambda: b"".join(map(bytes, snapshot.export_lines(["City"]))))
    note("frames", lambda: snapshot.frames(engine="arrow").edges)
    note("history", lambda: snapshot.history("Person", "Bo"))
    note("list_paths", lambda: snapshot.list_paths("Person", "Ada", "Person", "Bo", best=2))
    note("path", lambda: snapshot.path("Person", "Ada", "Person", "Bo"))
    note("neighbours", lambda: snapshot.neighbours("Person", "Ada", limit=1))
    note("query", lambda: snapshot.query(NAMES))
    note("query, broken", lambda: snapshot.query("query"))
    note("query_frame", lambda: snapshot.query_frame(NAMES, engine="arrow"))
    note("scan", lambda: snapshot.scan("Person", ["name", "age"], "age > 6"))
    note("scan, no column", lambda: snapshot.scan("Person", ["nme"]))
    note("stream", lambda: snapshot.stream(NAMES).rows())
    note("table", lambda: snapshot.table("City"))
    note("to_networkx", lambda: sorted(map(str, snapshot.to_networkx().nodes)))
    note("close", lambda: snapshot.close())


def read_history(notes: Notes, graph: Handle) -> None:
    note = notes.note
    commits = note("commits", lambda: graph.commits(branch="side"))
    first, last = commits[-1].id, commits[0].id
    note("commits, limit", lambda: graph.commits(limit=1))
    note("commits, actor", lambda: graph.commits(branch="side", actor="bo"))
    note("commits, since", lambda: graph.commits(branch="side", since=commits[1]))
    note("commits, since a moment", lambda: graph.commits(since=PAST, limit=1))
    note("commits, all", lambda: graph.commits(all=True))
    note("commits, no branch", lambda: graph.commits(branch="nowhere"))
    note("commits, no limit", lambda: graph.commits(limit=0))
    note("commit", lambda: graph.commit(last))
    note("commit, text", lambda: str(graph.commit(last)))
    note("commit, nothing", lambda: graph.commit(NOWHERE))
    note("history", lambda: graph.history("Person", "Bo", branch="side"))
    note("history, at", lambda: graph.history("Person", "Bo", at=first, branch="side"))
    note("history, limit", lambda: graph.history("Person", "Bo", branch="side", limit=1))
    note("history, nobody", lambda: graph.history("Person", "Nobody"))
    note("history, no limit", lambda: graph.history("Person", "Bo", limit=0))
    note("log_drawing", lambda: graph.log_drawing(counts=True))
    page = note("log_drawing, page", lambda: graph.log_drawing(["side"], limit=2))
    note("log_drawing, next page", lambda: graph.log_drawing(["side"], limit=2, before=page.next))
    note("log_drawing, no branch", lambda: graph.log_drawing(["nowhere"]))
