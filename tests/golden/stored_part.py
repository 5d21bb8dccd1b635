"""What is stored: digests and receipts of keyed requests, rows, sidecars, jobs, and every name that is written or read."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final

import lance

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.settings import Settings
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.logs import EventLogger
from omnigraphdb.runtime import SYSTEM
from tests.golden.forms import IN_ORDER, Entries
from tests.golden.stored_requests import list_requests, write_anchor
from tests.golden.world import AGE, GROWN, make_graph

_SOURCE: Final = Path(omnigraphdb.__file__).parent
_VARIABLE: Final = re.compile(r"\b(?:OMNIGRAPH|_OMNIGRAPHDB)_[A-Z_]*[A-Z]\b")
_RANDOM: Final = frozenset({"digests", "host", "process", "files"})
"""Keys whose values name files, machines and processes."""
_WAIT_SECONDS: Final = 30.0


def record(folder: Path) -> Entries:
    """Record stored facts of real graphs, and names from the sources."""
    entries: Entries = dict(list_enums())
    entries["settings"] = {
        one.name: str(one.default) for one in fields(Settings) if one.name[0] != "_"
    }
    texts = [path.read_text(encoding="utf-8") for path in sorted(_SOURCE.rglob("*.py"))]
    variables = {name for text in texts for name in _VARIABLE.findall(text)}
    entries["environment variables"] = {IN_ORDER: sorted(variables)}
    entries["log events"] = {
        IN_ORDER: sorted({one for text in texts for one in _list_events(text)})
    }
    entries |= dict(_record_requests(folder / "keyed"))
    entries |= dict(_record_sidecars(folder / "sidecars"))
    entries |= dict(_record_job(folder / "jobs"))
    return entries


# ---- names


def list_enums() -> Iterator[tuple[str, Any]]:
    """The values of every enum, by its class; classes of one name are told apart by their first value."""
    found: dict[str, dict[str, list[str]]] = {}
    for info in walk_packages(omnigraphdb.__path__, f"{omnigraphdb.__name__}."):
        if info.name.endswith(".__main__"):
            continue
        for one in vars(import_module(info.name)).values():
            if isinstance(one, type) and issubclass(one, StrEnum) and one.__module__ == info.name:
                values = [str(value.value) for value in one]
                found.setdefault(one.__name__, {})[values[0]] = values
    for name, classes in sorted(found.items()):
        for first, values in sorted(classes.items()):
            label = f"enum {name}" if len(classes) == 1 else f"enum {name} of {first}"
            yield label, {IN_ORDER: values}


def _list_events(text: str) -> Iterator[str]:
    """The first arguments of calls of loggers."""
    methods = {name for name in vars(EventLogger) if not name.startswith("_")}
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        event = node.args[0]
        is_logger = node.func.attr in methods and "log" in ast.unparse(node.func.value)
        if is_logger and isinstance(event, ast.Constant) and isinstance(event.value, str):
            yield event.value


# ---- facts of graphs


def _record_requests(place: Path) -> Iterator[tuple[str, Any]]:
    """Each keyed request with each of its arguments: its digest, and the receipt that is stored."""
    with make_graph(place) as graph:
        graph.tag("v1", write_anchor(graph, "first"))
        rows: list[dict[str, Any]] = []
        for name, call in list_requests(graph, place.parent):
            if name == "schema_apply":
                # A schema changes where main is the only branch.
                rows += _read_rows(place, "side")
                graph.branch_delete("side")
            call(name)
        rows += _read_rows(place, None)
    operations = {}
    for row in rows:
        if row["object_type"] == "operation":
            operations[row["metadata"]["key"]] = row["metadata"]
    for name, operation in sorted(operations.items()):
        yield f"request {name}", operation
    kinds: dict[str, Any] = {}
    for row in rows:
        kind = row["object_type"]
        kind += f" {row['metadata']['kind']}" if kind == "graph_commit" else ""
        kinds.setdefault(kind, row)
    for kind, row in sorted(kinds.items()):
        yield f"row {kind}", row
    for name in ("__schema_state.json", "_schema.ir.json"):
        yield f"file {name}", _drop_random(json.loads((place / name).read_text()))


def _read_rows(place: Path, branch: str | None) -> Iterator[dict[str, Any]]:
    dataset = lance.dataset(str(place / "__manifest"))
    if branch is not None:
        dataset = dataset.checkout_version((branch, None))
    for row in dataset.to_table().to_pylist():
        kept = {name: value for name, value in row.items() if value is not None}
        if "metadata" in kept:
            kept["metadata"] = _drop_random(json.loads(kept["metadata"]))
        yield kept


def _drop_random(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_random(one) for one in value]
    if isinstance(value, str) and value.startswith("sha256:"):
        # A schema names the ids of its types.
        return "sha256:<digest>"
    if not isinstance(value, dict):
        return value
    return {
        name: "<value>" if name in _RANDOM else _drop_random(one) for name, one in value.items()
    }


def _record_sidecars(place: Path) -> Iterator[tuple[str, Any]]:
    """The sidecar of each kind of writer, which a failure to delete it leaves."""
    writers: dict[str, Callable[[Graph], object]] = {
        "mutate": lambda g: g.mutate(AGE, {"n": "Ada", "a": 5}, idempotency_key="k", message="why"),
        "load": lambda g: g.load(
            [{"type": "Person", "data": {"name": "Zoe"}}], mode="merge", batch_id="b"
        ),
        "assign": lambda g: g.assign("Person.score", ["Ada"], [0.5]),
        "merge": lambda g: g.merge("side"),
        "schema_apply": lambda g: g.schema_apply(GROWN),
        "optimize": lambda g: g.optimize(),
        "ensure_indices": lambda g: g.ensure_indices(),
    }
    make_graph(place).close()
    for name, write in writers.items():
        # A writer that opens the graph settles what the one before left.
        with omnigraphdb.open(place, actor="ada", config={"maintenance": "off"}) as graph:
            if name == "schema_apply":
                graph.branch_delete("side")
            with armed(Failpoint.SIDECAR_DELETE):
                write(graph)
            files = sorted((place / "__recovery").glob("*.json"))
            yield f"sidecar {name}", [_drop_random(json.loads(one.read_text())) for one in files]
    with omnigraphdb.open(place) as graph:
        yield "recoveries", [one.to_dict() for one in graph.recoveries()]
    audit = lance.dataset(str(place / "_graph_commit_recoveries.lance"))
    yield "columns of recoveries", {one.name: str(one.type) for one in audit.schema}


def _record_job(place: Path) -> Iterator[tuple[str, Any]]:
    """The record of a job, which shows itself while a load lasts."""
    found: list[Any] = []

    def on_progress(_: object) -> None:
        until = SYSTEM.monotonic() + _WAIT_SECONDS
        while not found and SYSTEM.monotonic() < until:
            files = [one.read_text() for one in (place / "__jobs").glob("*")]
            found.extend(_drop_random(json.loads(text)) for text in files[:1] if text)
            SYSTEM.wait(0.02)

    with make_graph(place) as graph:
        graph.load([{"type": "Note", "data": {}}], mode="append", progress=on_progress)
    assert found, "no job showed itself"
    yield "job", found[0]
