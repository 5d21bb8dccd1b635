"""A handle after `close`: everything that is asked of it is refused, by one error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import GraphClosed, UserInputError
from tests.support.reference import list_members

SCHEMA = "node Port { code: String @key }"
PORTS = "query q() { match { $p: Port } return { $p.code } }"
ADD = 'query add() { insert Port { code: "B" } }'
RECORDS = [{"type": "Port", "data": {"code": "A"}}]

CALLS: dict[str, Callable[[Graph], Any]] = {
    "query": lambda graph: graph.query(PORTS),
    "stream": lambda graph: graph.stream(PORTS),
    "explain": lambda graph: graph.explain(PORTS),
    "entity": lambda graph: graph.entity("Port", "A"),
    "neighbours": lambda graph: graph.neighbours("Port", "A"),
    "path": lambda graph: graph.path("Port", "A", "Port", "A"),
    "show": lambda graph: graph.show(),
    "diff_drawing": lambda graph: graph.diff_drawing("main", "main"),
    "log_drawing": lambda graph: graph.log_drawing(),
    "table": lambda graph: graph.table("Port"),
    "export": lambda graph: graph.export(),
    "export_files": lambda graph: graph.export_files("nowhere"),
    "snapshot": lambda graph: graph.snapshot(),
    "project": lambda graph: graph.project(),
    "catalog": lambda graph: graph.catalog,
    "schema_source": lambda graph: graph.schema_source,
    "assign": lambda graph: graph.assign("Port.size", ["A"], [1]),
    "mutate": lambda graph: graph.mutate(ADD),
    "load": lambda graph: graph.load(RECORDS, mode="merge"),
    "schema_plan": lambda graph: graph.schema_plan(SCHEMA),
    "schema_from": lambda graph: graph.schema_from({"City": [{"name": "Oslo"}]}),
    "schema_apply": lambda graph: graph.schema_apply(SCHEMA),
    "blob": lambda graph: graph.blob("Person", "Ada", "photo"),
    "branches": lambda graph: graph.branches(),
    "branch": lambda graph: graph.branch("main"),
    "duckdb": lambda graph: graph.duckdb(),
    "to_networkx": lambda graph: graph.to_networkx(),
    "describe": lambda graph: graph.describe(),
    "branch_create": lambda graph: graph.branch_create("b"),
    "branch_delete": lambda graph: graph.branch_delete("b"),
    "commits": lambda graph: graph.commits(),
    "jobs": lambda graph: graph.jobs(),
    "commit": lambda graph: graph.commit("01"),
    "operation": lambda graph: graph.operation("key"),
    "tag": lambda graph: graph.tag("v"),
    "guard": lambda graph: graph.guard,
    "policy": lambda graph: graph.policy(),
    "set_policy": lambda graph: graph.set_policy(None),
    "tags": lambda graph: graph.tags(),
    "tag_delete": lambda graph: graph.tag_delete("v"),
    "merge": lambda graph: graph.merge("b"),
    "diff": lambda graph: graph.diff("main", "main"),
    "query_frame": lambda graph: graph.query_frame(PORTS),
    "frames": lambda graph: graph.frames(),
    "diff_frame": lambda graph: graph.diff_frame("main", "main"),
    "changes_frame": lambda graph: graph.changes_frame(),
    "diff_stream": lambda graph: graph.diff_stream("main", "main"),
    "changes": lambda graph: graph.changes(),
    "changes_stream": lambda graph: graph.changes_stream(),
    "stored_queries": lambda graph: graph.stored_queries("."),
    "change_page": lambda graph: graph.change_page(),
    "diff_page": lambda graph: graph.diff_page("main", "main"),
    "baseline_stream": lambda graph: graph.baseline_stream(),
    "history": lambda graph: graph.history("Port", "A"),
    "commit_changes": lambda graph: graph.commit_changes("01"),
    "baseline": lambda graph: graph.baseline("nowhere"),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "index_status": lambda graph: graph.index_status(),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(keep=1),
    "cleanup_preview": lambda graph: graph.cleanup_preview(keep=1),
    "export_lines": lambda graph: list(graph.export_lines()),
    "relocate": lambda graph: graph.relocate(),
    "repair": lambda graph: graph.repair(),
    "refresh": lambda graph: graph.refresh(),
    "doctor": lambda graph: graph.doctor(),
    "recoveries": lambda graph: graph.recoveries(),
    "pending_recoveries": lambda graph: graph.pending_recoveries(),
    "discard_recovery": lambda graph: graph.discard_recovery("01"),
}
STILL = {"with_policy", "uri", "location", "read_only", "on", "close"}


def loaded(place: Path) -> Graph:
    graph = omnigraphdb.init(place / "g", SCHEMA)
    graph.load(RECORDS, mode="append")
    return graph


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_closed_handle_refuses_whatever_is_asked_of_it(
    tmp_path: Path, call: Callable[[Graph], Any]
) -> None:
    graph = loaded(tmp_path)
    graph.close()
    with pytest.raises(GraphClosed, match="is closed") as refused:
        call(graph)
    assert isinstance(refused.value, UserInputError)
    assert refused.value.kind == "closed"
    with omnigraphdb.open(tmp_path / "g") as again:
        assert len(again.commits()) == 2


def test_every_call_of_a_graph_is_among_those_that_are_refused() -> None:
    members = {*list_members(Graph)}
    assert members - STILL == set(CALLS)


def test_a_closed_handle_still_says_what_it_was_and_may_be_closed_again(tmp_path: Path) -> None:
    graph = loaded(tmp_path)
    side = graph.on("main")
    with graph, graph.snapshot() as seen:
        assert len(seen.query(PORTS)) == 1
    graph.close()
    assert graph.uri in repr(graph)
    assert graph.location.uri == graph.uri
    assert not graph.read_only
    for call in (lambda: seen.query(PORTS), lambda: seen.table("Port"), lambda: side.commits()):
        with pytest.raises(GraphClosed):
            call()


def test_what_was_begun_before_the_end_ends(tmp_path: Path) -> None:
    graph = loaded(tmp_path)
    begun, rows = graph.stream(PORTS), graph.export()
    graph.close()
    assert [batch.num_rows for batch in begun] == [1]
    assert len(list(rows)) == 1
