"""`omnigraphdb demo`: the main job on a small example, step by step, in a place of its own."""

import json as jsonlib
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraphdb.packages import install_command
from omnigraphdb.surfaces.cli.address import Json
from omnigraphdb.surfaces.cli.formats import Format, render
from omnigraphdb.surfaces.cli.output import say, say_json
from omnigraphdb.values import dataclass

if TYPE_CHECKING:
    from omnigraphdb.api.graph import Graph

SCHEMA = """\
node Port { code: String @key  name: String  lat: F64? }
node Vessel { imo: String @key  name: String  kind: enum(bulk, tanker, roro)  dwt: I64? }
edge CallsAt: Vessel -> Port { berth: String? }
edge Feeds: Port -> Port { weight: I32? }
"""
RECORDS: list[dict[str, Any]] = [
    {"type": "Port", "data": {"code": "NLRTM", "name": "Rotterdam", "lat": 51.9}},
    {"type": "Port", "data": {"code": "BEANR", "name": "Antwerp", "lat": 51.2}},
    {"type": "Port", "data": {"code": "DEHAM", "name": "Hamburg"}},
    {"type": "Vessel", "data": {"imo": "9100001", "name": "Aster", "kind": "tanker", "dwt": 80000}},
    {"type": "Vessel", "data": {"imo": "9100002", "name": "Borea", "kind": "bulk", "dwt": 120000}},
    {"edge": "CallsAt", "from": "9100001", "to": "NLRTM", "data": {"berth": "A1"}},
    {"edge": "CallsAt", "from": "9100001", "to": "BEANR"},
    {"edge": "CallsAt", "from": "9100002", "to": "NLRTM"},
    {"edge": "Feeds", "from": "NLRTM", "to": "BEANR", "data": {"weight": 5}},
    {"edge": "Feeds", "from": "BEANR", "to": "DEHAM", "data": {"weight": 2}},
]
MORE: list[dict[str, Any]] = [
    {"type": "Vessel", "data": {"imo": "9100003", "name": "Cirrus", "kind": "roro"}},
    {"edge": "CallsAt", "from": "9100003", "to": "NLRTM", "data": {"berth": "B2"}},
    {"edge": "CallsAt", "from": "9100003", "to": "DEHAM"},
]
CALLS = """query calls() {
  match { $v: Vessel  $v callsAt $p }
  return { $p.name as port, count($v) as vessels }
  order { vessels desc }
}"""
REACH = """query reach($from: String) {
  match { $a: Port { code: $from }  $a feeds{1,3} $b }
  return { $b.name as port }
  order { port }
}"""
RENAME = """query rename($imo: String, $name: String) {
  update Vessel set { name: $name } where imo = $imo
}"""
NAMES = (
    "query names() { match { $v: Vessel } return { $v.imo as imo, $v.name as name } order { imo } }"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing the demo did: in words, and as facts."""

    name: str
    text: str
    facts: dict[str, Any]


def demo(
    directory: Annotated[
        Path | None, typer.Argument(help="Where to keep the graph; by default it is removed.")
    ] = None,
    json: Json = False,
) -> None:
    """Show the main job on a small example graph, step by step.

    Example: omnigraphdb demo
    """
    from omnigraphdb.api.opening import init

    home = directory or Path(tempfile.mkdtemp(prefix="omnigraph-demo-"))
    done: list[Step] = []
    try:
        with init(home / "ports.omni", SCHEMA, actor="demo") as graph:
            for step in _story(graph, home):
                done.append(step)
                if not json:
                    say(step.text)
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
    if directory is not None and not json:
        say(f"10. look at it in a browser: omnigraphdb ui {home / 'ports.omni'}")
    if json:
        say_json({"steps": [{"step": step.name} | step.facts for step in done]})


def _story(graph: "Graph", home: Path) -> Iterator[Step]:
    yield Step(name="init", text=f"1. created {graph.uri}\n", facts={"uri": graph.uri})
    loaded = graph.load(RECORDS, mode="append")
    yield Step(
        name="load",
        text=f"2. loaded {loaded.total_rows} records in one commit {loaded.commit}\n",
        facts=loaded.to_dict(),
    )
    yield _load_on_spark(graph, home / "more.jsonl")
    yield _ask("query", "3. which ports are busy?", graph.query(CALLS))
    yield _ask(
        "traverse",
        "4. where can goods go from Rotterdam in up to three hops?",
        graph.query(REACH, {"from": "NLRTM"}),
    )
    graph.branch_create("review")
    graph.mutate(
        RENAME, {"imo": "9100001", "name": "Aster Prime"}, branch="review", actor="reviewer"
    )
    title = "5. a branch renames a vessel; main does not see it"
    yield _ask("branch", title, graph.query(NAMES, branch="review"), graph.query(NAMES))
    yield _history(graph)
    yield _merge(graph)
    counted = graph.snapshot(at=graph.commits()[-1]).tables()
    yield Step(
        name="travel",
        text=f"8. at its first commit the graph had {sum(counted.values())} rows",
        facts={"tables": counted},
    )
    found = [issue.to_dict() for issue in graph.doctor()]
    yield Step(
        name="doctor",
        text=f"9. doctor: {'not settled' if found else 'settled'}",
        facts={"issues": found},
    )


def _load_on_spark(graph: "Graph", file: Path) -> Step:
    """Load the same records by Spark; for so few records only the demo asks for it."""
    if find_spec("pyspark") is None:
        how = install_command("spark")
        return Step(
            name="load_on_spark", text=f"   (the same on Spark: {how})\n", facts={"skipped": how}
        )
    file.write_text("".join(jsonlib.dumps(record) + "\n" for record in MORE), encoding="utf-8")
    session = import_module("omnigraphdb.spark").session(quick=True)
    try:
        loaded = graph.load(file, mode="append", spark=session)
    finally:
        session.stop()
    return Step(
        name="load_on_spark",
        text=f"   and {loaded.total_rows} more by {loaded.engine}, in one commit {loaded.commit}\n",
        facts=loaded.to_dict(),
    )


def _history(graph: "Graph") -> Step:
    commits = graph.commits(branch="review")
    lines = [f"   {one.id}  {one.kind:10} by {one.actor or '-'}" for one in commits]
    return Step(
        name="history",
        text="\n".join(["6. history of the branch, newest first", *lines, ""]),
        facts={"commits": [one.to_dict() for one in commits]},
    )


def _merge(graph: "Graph") -> Step:
    expected = graph.diff("main", "review")
    lines = [f"   {one.op} {one.table_key} '{one.id}'" for one in expected.changes]
    merged = graph.merge("review", actor="reviewer")
    title = "7. what would a merge bring, and what did it bring?"
    outcome = f"   {merged.outcome}: {merged.commit}\n"
    names = graph.query(NAMES)
    return Step(
        name="merge",
        text="\n".join([title, *lines, outcome, _render_result(names)]),
        facts={
            "expected": expected.to_dict(),
            "merged": merged.to_dict(),
            "results": [names.to_dict()],
        },
    )


def _ask(name: str, title: str, *results: Any) -> Step:
    return Step(
        name=name,
        text="\n".join([title, *map(_render_result, results)]),
        facts={"results": [result.to_dict() for result in results]},
    )


def _render_result(result: Any) -> str:
    lines = render(result, Format.TABLE).splitlines()
    return "\n".join("   " + line for line in lines) + "\n"
