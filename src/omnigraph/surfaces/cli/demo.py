"""`omnigraph demo`: the main job on a small example, step by step, in a place of its own."""

import json
import shutil
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.surfaces.cli.formats import Format, rendered
from omnigraph.surfaces.cli.output import say

if TYPE_CHECKING:
    from omnigraph.api.graph import Graph

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


def demo(
    directory: Annotated[
        Path | None, typer.Argument(help="Where to keep it; else it is removed.")
    ] = None,
) -> None:
    """Create an example graph, load it, query it, branch it, change the branch, merge it, look at the history.

    Example: omnigraph demo
    """
    from omnigraph.api.graph import init

    home = directory or Path(tempfile.mkdtemp(prefix="omnigraph-demo-"))
    try:
        with init(home / "ports.omni", SCHEMA, actor="demo") as graph:
            _story(graph, home)
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)


def _story(graph: "Graph", home: Path) -> None:
    say(f"1. created {graph.uri}\n")
    loaded = graph.load(RECORDS, mode="append")
    say(f"2. loaded {loaded.total_rows} records in one commit {loaded.commit}\n")
    _load_on_spark(graph, home / "more.jsonl")
    say("3. which ports are busy?")
    _show(graph.query(CALLS))
    say("4. where can goods go from Rotterdam in up to three hops?")
    _show(graph.query(REACH, {"from": "NLRTM"}))
    graph.branch_create("review")
    graph.mutate(
        RENAME, {"imo": "9100001", "name": "Aster Prime"}, branch="review", actor="reviewer"
    )
    say("5. a branch renames a vessel; main does not see it")
    _show(graph.query(NAMES, branch="review"))
    _show(graph.query(NAMES))
    say("6. history of the branch, newest first")
    for commit in graph.commits(branch="review"):
        say(f"   {commit.id}  {commit.kind:10} by {commit.actor or '-'}")
    say("\n7. what would a merge bring, and what did it bring?")
    for change in graph.diff("main", "review").changes:
        say(f"   {change.op} {change.table_key} '{change.id}'")
    merged = graph.merge("review", actor="reviewer")
    say(f"   {merged.outcome}: {merged.commit}\n")
    _show(graph.query(NAMES))
    first = graph.commits()[-1]
    counted = graph.snapshot(at=first).tables()
    say(f"8. at its first commit the graph had {sum(counted.values())} rows")
    say(f"9. doctor: {'settled' if not graph.doctor() else 'not settled'}")


def _load_on_spark(graph: "Graph", file: Path) -> None:
    """The same load by other hands; a small one, so only the demo would ask for them."""
    if find_spec("pyspark") is None:
        say("   (the same on Spark: pip install 'omnigraph[spark]')\n")
        return
    file.write_text("".join(json.dumps(record) + "\n" for record in MORE), encoding="utf-8")
    session = import_module("omnigraph.spark").session(quick=True)
    try:
        loaded = graph.load(file, mode="append", spark=session)
    finally:
        session.stop()
    say(f"   and {loaded.total_rows} more by {loaded.engine}, in one commit {loaded.commit}\n")


def _show(result: Any) -> None:
    say("\n".join("   " + line for line in rendered(result, Format.TABLE).splitlines()) + "\n")
