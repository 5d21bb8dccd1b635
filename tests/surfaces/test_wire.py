"""Every value with a JSON form has a declared shape, and Python, the command line and HTTP show the same keys."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api import wire
from omnigraphdb.api.graph import Graph
from omnigraphdb.api.verbs.branch import LIST_BRANCHES, BranchesList
from omnigraphdb.api.verbs.history import LIST_COMMITS, CommitsList
from omnigraphdb.api.verbs.verb import run_verb
from omnigraphdb.wire import is_value
from tests.support.commands import Run, runner
from tests.support.reference import result_classes
from tests.support.served import ADD, NAMES, PEOPLE, SCHEMA, ServerProcess, serving
from tests.support.shapes import fits

SHAPES: dict[str, Any] = {
    "Baseline": wire.BaselineOutput,
    "Blob": wire.BlobOutput,
    "Change": wire.ChangeRecord,
    "ChangeBlock": wire.BlockRecord,
    "ChangePage": wire.FeedRecord,
    "ChangeStream": wire.BlockRecord,
    "Diagnostic": wire.DiagnosticOutput,
    "Diff": wire.DiffRecord,
    "DiffDrawing": wire.DiffGraphOutput,
    "Explanation": wire.ExplanationOutput,
    "EntityHistory": wire.HistoryRecord,
    "HistoryChange": wire.HistoryChangeRecord,
    "Neighbourhood": wire.NeighbourhoodOutput,
    "Position": wire.PositionOutput,
    "QueryResult": wire.ReadOutput,
    "Scores": wire.ScoresOutput,
    "SparkScores": wire.ScoresOutput,
    "StoredQuery": wire.QueryCatalogEntry,
}


def test_every_value_with_a_wire_form_has_a_shape() -> None:
    """A value declares its form at its fields; the others have a typed dictionary beside them."""
    classes = {cls for cls in result_classes() if hasattr(cls, "to_dict")}
    assert {cls.__name__ for cls in classes if not is_value(cls)} == SHAPES.keys()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a branch that conflicts with main."""
    place = tmp_path_factory.mktemp("wire") / "g"
    with omnigraphdb.init(place, SCHEMA) as graph:
        graph.load(PEOPLE, mode="append")
        graph.branch_create("b")
        graph.mutate(ADD, {"n": "Cy"}, branch="b", idempotency_key="k")
        graph.tag("one")
    return place


def make_values(graph: Graph, folder: Path) -> Iterator[Any]:
    """Values of most classes, from real calls."""
    yield graph.baseline(folder / "baseline.jsonl")
    yield graph.blob("Person", "Ada", "photo")
    yield from graph.branches(compare=True)
    yield from graph.diff("main", "b", images=True)
    yield graph.diff("main", "b")
    yield from graph.changes(images=True).blocks
    yield graph.changes(limit=1)
    yield from graph.changes_stream()
    yield from graph.commits()
    yield graph.describe()
    yield from omnigraphdb.lint("node A { }", "query q() { match { $a: B } return { $a.name } }")
    yield graph.explain(NAMES, profile=True)
    yield graph.export_files(folder / "files")
    yield from graph.tags()
    yield graph.history("Person", "Ada")
    yield graph.operation("k", branch="b")
    yield graph.query(NAMES)
    yield graph.schema_plan(SCHEMA.replace("age: I32?", "age: I64?"))
    yield graph.project().pagerank()
    yield graph.merge("b", dry_run=True)
    yield graph.merge("b")
    yield graph.load([], mode="append")
    yield graph.index_status()
    yield graph.ensure_indices()
    yield graph.optimize()
    yield graph.cleanup(older_than=timedelta(days=1))
    yield graph.repair()


def test_values_have_their_shapes(place: Path, tmp_path: Path) -> None:
    seen = set()
    with omnigraphdb.open(place) as graph:
        for value in make_values(graph, tmp_path):
            name = type(value).__name__
            body = value.to_dict()
            shape = type(value) if is_value(type(value)) else SHAPES[name]
            fits(shape, body)
            seen.add(name)
    assert len(seen) >= 20, SHAPES.keys() - seen


# ---- three surfaces


def list_keys(value: Any, place: str = "") -> set[str]:
    """The keys of a JSON value, with the places where they stand."""
    if isinstance(value, dict):
        inner = (list_keys(one, f"{place}.{key}") for key, one in value.items())
        return {f"{place}.{key}" for key in value}.union(*inner)
    if isinstance(value, list):
        return set().union(*(list_keys(one, f"{place}[]") for one in value))
    return set()


@pytest.fixture(scope="module")
def server(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    log = tmp_path_factory.mktemp("served") / "log"
    with serving(str(place), "--unauthenticated", log=log) as found:
        yield found


READS: dict[str, tuple[Callable[[Graph], Any], tuple[str, ...], tuple[str, str, Any]]] = {
    "snapshot": (lambda g: g.snapshot().to_dict(), ("snapshot",), ("GET", "/snapshot", None)),
    "query": (
        lambda g: g.query(NAMES).to_dict(),
        ("query", "-e", NAMES),
        ("POST", "/query", {"query": NAMES}),
    ),
    "explain": (
        lambda g: g.explain(NAMES).to_dict(),
        ("query", "-e", NAMES, "--explain"),
        ("POST", "/query/explain", {"query": NAMES}),
    ),
    "branches": (
        lambda g: run_verb(g, LIST_BRANCHES, BranchesList(compare=True)).to_dict(),
        ("branch", "list"),
        ("GET", "/branches", None),
    ),
    "commits": (
        lambda g: run_verb(g, LIST_COMMITS, CommitsList()).to_dict(),
        ("commit", "list"),
        ("GET", "/commits", None),
    ),
    "schema": (
        lambda g: {"schema_source": g.schema_source},
        ("schema", "show"),
        ("GET", "/schema", None),
    ),
    "jobs": (lambda g: {"jobs": [*g.jobs()]}, ("jobs",), ("GET", "/jobs", None)),
}


@pytest.mark.parametrize("name", READS)
def test_three_surfaces_show_the_same_keys(
    server: ServerProcess,
    place: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call, words, (method, path, body) = READS[name]
    run: Run = runner(monkeypatch, capsys)
    with omnigraphdb.open(place, read_only=True) as graph:
        here = list_keys(json.loads(json.dumps(call(graph))))
    typed = list_keys(run(*words, "--store", str(place), "--json").json)
    with server.client() as http:
        served = list_keys(http.request(method, path, json=body).json())
    assert typed == here
    assert served == here
