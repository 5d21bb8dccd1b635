"""Requests with idempotency keys: of each verb one with no argument more than it needs, and one for each argument."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from omnigraphdb.api.graph import Graph
from omnigraphdb.runtime import SystemRuntime
from tests.golden.world import ADD, AGE, GROWN, NAMES

Request = Callable[[str], object]
"""Makes a request under a key."""
_ROWS: Final = [{"type": "Person", "data": {"name": "Yan", "age": 1}}]
_ANCHORS: Final = {
    verb: f"01ARZ3NDEKTSV4RRFFQ69G5F0{number}"
    for number, verb in enumerate(("first", "mutate", "load", "merge", "schema_apply"))
}


def list_requests(graph: Graph, folder: Path) -> Iterator[tuple[str, Request]]:
    """List the requests by their names, which are their keys."""
    yield from _list_mutations(graph)
    yield from _list_loads(graph, folder)
    yield from _list_branches(graph)
    yield from _list_merges(graph, folder)
    yield from _list_schemas(graph)


def write_anchor(graph: Graph, verb: str) -> str:
    """Make a commit whose id is the same in every recording: digests of requests name commits."""
    id = _ANCHORS[verb]
    original = SystemRuntime.new_id
    SystemRuntime.new_id = lambda self: id  # type: ignore[method-assign]
    try:
        graph.mutate(AGE, {"n": "Ada", "a": 1})
    finally:
        SystemRuntime.new_id = original  # type: ignore[method-assign]
    assert graph.commits(limit=1)[0].id == id
    return id


def _list_mutations(graph: Graph) -> Iterator[tuple[str, Request]]:
    values: dict[str, Any] = {"n": "Ada", "a": 5}

    def mutate(**more: Any) -> Request:
        return lambda key: graph.mutate(AGE, values, idempotency_key=key, **more)

    yield "mutate", mutate()
    yield (
        "mutate, no effect",
        lambda key: graph.mutate(AGE, {"n": "-", "a": 1}, idempotency_key=key),
    )
    yield (
        "mutate, name",
        lambda key: graph.mutate(f"{NAMES}\n{AGE}", "age", values, idempotency_key=key),
    )
    yield (
        "mutate, returning",
        lambda key: graph.mutate(ADD, {"n": "Xan", "a": None}, idempotency_key=key),
    )
    yield (
        "mutate, branch",
        lambda key: graph.mutate(AGE, {"n": "Dee", "a": 8}, branch="side", idempotency_key=key),
    )
    yield "mutate, actor", mutate(actor="bo")
    yield "mutate, message", mutate(message="why")
    yield "mutate, if_commit", lambda key: mutate(if_commit=write_anchor(graph, "mutate"))(key)


def _list_loads(graph: Graph, folder: Path) -> Iterator[tuple[str, Request]]:
    def load(**more: Any) -> Request:
        given = {"mode": "merge", **more}
        return lambda key: graph.load(_ROWS, idempotency_key=key, **given)

    path = folder / "rows.jsonl"
    path.write_text('{"type": "Note", "data": {"id": "n5"}}\n', encoding="utf-8")
    yield "load", load()
    yield "load, append", lambda key: graph.load(path, mode="append", idempotency_key=key)
    yield "load, overwrite", lambda key: graph.load(path, mode="overwrite", idempotency_key=key)
    yield (
        "load, type",
        lambda key: graph.load([{"name": "Y"}], mode="merge", type="Person", idempotency_key=key),
    )
    yield "load, branch", load(branch="side")
    yield "load, from_branch", load(branch="made", from_branch="main")
    yield "load, actor", load(actor="bo")
    yield "load, allow_empty", load(allow_empty=True)
    yield "load, batch_id", load(batch_id="b1")
    yield "load, append_only", load(append_only=["Note"])
    yield "load, message", load(message="why")
    yield "load, create_missing", load(create_missing="Person")
    yield "load, spark", load(spark=False)
    yield "load, rejects", load(rejects=folder / "rejects.jsonl")
    yield "load, if_commit", lambda key: load(if_commit=write_anchor(graph, "load"))(key)


def _list_branches(graph: Graph) -> Iterator[tuple[str, Request]]:
    def create(name: str, **more: Any) -> Request:
        return lambda key: graph.branch_create(name, idempotency_key=key, **more)

    def delete(name: str, **more: Any) -> Request:
        return lambda key: graph.branch_delete(name, idempotency_key=key, **more)

    yield "branch_create", create("b1")
    yield "branch_create, from_branch", create("b2", from_branch="side")
    yield "branch_create, at", create("b3", at="v1")
    yield "branch_create, at a version", create("b4", at=3)
    yield "branch_create, actor", create("b5", actor="bo")
    yield "branch_delete", delete("b2")
    yield "branch_delete, merged_into", delete("b1", merged_into="main")
    yield "branch_delete, actor", delete("b5", actor="bo")


def _list_merges(graph: Graph, folder: Path) -> Iterator[tuple[str, Request]]:
    def merge(source: str, **more: Any) -> Request:
        return lambda key: graph.merge(source, idempotency_key=key, **more)

    yield "merge", merge("b3")
    yield "merge, into", merge("main", into="side")
    yield "merge, granularity", merge("b4", granularity="property")
    yield "merge, allow_older_base", merge("b4", allow_older_base=True)
    yield "merge, actor", merge("b4", actor="bo")
    yield "merge, message", merge("b4", message="why")
    yield "merge, spark", merge("b4", spark=False)
    yield "merge, rejects", merge("b4", rejects=folder / "conflicts.jsonl")
    yield "merge, if_commit", lambda key: merge("b4", if_commit=write_anchor(graph, "merge"))(key)


def _list_schemas(graph: Graph) -> Iterator[tuple[str, Request]]:
    def apply(**more: Any) -> Request:
        return lambda key: graph.schema_apply(GROWN, idempotency_key=key, **more)

    for branch in ("b3", "b4", "made"):
        graph.branch_delete(branch)
    yield "schema_apply", apply()
    yield "schema_apply, allow_data_loss", apply(allow_data_loss=True)
    yield "schema_apply, actor", apply(actor="bo")
    yield "schema_apply, message", apply(message="why")
    yield "schema_apply, spark", apply(spark=False)
    yield (
        "schema_apply, if_commit",
        lambda key: apply(if_commit=write_anchor(graph, "schema_apply"))(key),
    )
