"""A served graph gives what the graph at hand gives, call by call; what it has not, it explains."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.results import OperationState
from omnigraphdb.errors import UserInputError
from omnigraphdb.remote.graph import RemoteGraph
from tests.support.served import ADD, NAMES, make_graph, serving


@dataclass(frozen=True)
class Both:
    """The same graph, at hand and served."""

    here: omnigraphdb.Graph
    there: RemoteGraph


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folder = tmp_path_factory.mktemp("remote")
    place = make_graph(folder / "g")
    with omnigraphdb.open(place) as graph:
        graph.branch_create("review", actor="ada")
        for name in ("Cy", "Di", "Ed"):
            graph.mutate(ADD, {"n": name}, branch="review", actor="bo")
        graph.mutate('query up() { update Person set { age: 37 } where name = "Ada" }')
    with (
        serving(str(place), "--unauthenticated", log=folder / "log") as server,
        omnigraphdb.open(place, read_only=True) as here,
        omnigraphdb.connect(server.url) as there,
    ):
        yield Both(here, there)


Ask = Callable[[Any], Any]
CALLS: dict[str, Ask] = {
    "entity": lambda graph: graph.entity("Person", "Ada"),
    "entity that is not there": lambda graph: graph.entity("Person", "Nobody"),
    "entity at a commit": lambda graph: graph.entity("Person", "Ada", at=graph.commits()[-1]),
    "entity at a moment": lambda graph: graph.entity(
        "Person", "Ada", at=graph.commits()[-1].created_at
    ),
    "table": lambda graph: graph.table("Person").drop_columns(["photo"]).to_pylist(),
    "table of edges": lambda graph: graph.table("Knows", branch="review").to_pylist(),
    "types of a table": lambda graph: graph.table("Person").drop_columns(["photo"]).schema,
    "table of a snapshot": lambda graph: graph.snapshot(branch="review").table("Knows").to_pylist(),
    "query at a commit": lambda graph: graph.query(NAMES, branch="review", at=head(graph)).rows,
    "export at a commit": lambda graph: list(graph.export(branch="review", at=head(graph))),
    "blob of a branch": lambda graph: graph.blob("Person", "Ada", "photo", branch="review").read(),
    "query of a snapshot": lambda graph: graph.snapshot(branch="review").query(NAMES).rows,
    "stream": lambda graph: list(graph.stream(NAMES, branch="review").rows()),
    "facts of a stream": lambda graph: (graph.stream(NAMES).commit, graph.stream(NAMES).columns),
    "neighbours": lambda graph: graph.neighbours("Person", "Ada").to_dict(),
    "neighbours one way": lambda graph: repr(graph.neighbours("Person", "Bo", direction="in")),
    "path": lambda graph: graph.path("Person", "Ada", "Person", "Bo", undirected=True),
    "path by edges": lambda graph: repr(
        graph.path("Person", "Ada", "Person", "Bo", edges=["Knows"])
    ),
    "diff": lambda graph: graph.diff("main", "review", images=True),
    "reason of a diff": lambda graph: graph.diff("main", "review").reason,
    "diff_page": lambda graph: graph.diff_page("main", "review", limit=2),
    "second diff_page": lambda graph: read_second(graph),
    "diff_stream": lambda graph: sorted(map(str, graph.diff_stream("main", "review"))),
    "diff_drawing": lambda graph: graph.diff_drawing("main", "review", nodes_max=2).to_dict(),
    "changes": lambda graph: [b.changes for b in graph.changes(branch="review").blocks],
    "reason of changes": lambda graph: graph.changes().reason,
    "changes_stream": lambda graph: [
        (block.commit, sorted(map(str, block.changes)), block.engine, block.reason)
        for block in graph.changes_stream(branch="review")
    ],
    "baseline_stream": lambda graph: read_baseline(graph),
    "history": lambda graph: graph.history("Person", "Ada"),
    "branches": lambda graph: graph.branches(compare=True),
    "log_drawing": lambda graph: graph.log_drawing(limit=3),
    "second log_drawing": lambda graph: graph.log_drawing(
        ["review"], limit=2, before=graph.log_drawing(limit=3).next
    ),
    "describe": lambda graph: replace(graph.describe(branch="review"), uri=""),
    "describe at a commit": lambda graph: graph.describe(branch="review", at=head(graph)).types,
    "operation": lambda graph: graph.operation("nothing", branch="review"),
    "index_status": lambda graph: graph.index_status(),
    "doctor": lambda graph: graph.doctor(),
    "recoveries": lambda graph: (graph.recoveries(), graph.pending_recoveries()),
    "jobs": lambda graph: graph.jobs(),
}


def head(graph: Any) -> str:
    return str(graph.branch("review").head)


def read_second(graph: Any) -> Any:
    first = graph.diff_page("main", "review", limit=2)
    return graph.diff_page("main", "review", limit=2, page_token=first.next_page_token)


def read_baseline(graph: Any) -> tuple[Any, ...]:
    found = graph.baseline_stream(types=["Person"])
    lines = b"".join(pa.py_buffer(line).to_pybytes() for line in found.lines)
    return found.commit, found.cursor, lines


@pytest.mark.parametrize("name", CALLS)
def test_a_call_gives_the_same(both: Both, name: str) -> None:
    assert CALLS[name](both.there) == CALLS[name](both.here)


def test_the_heads_of_branches_have_their_actors(both: Both) -> None:
    assert {one.name: one.head_actor for one in both.there.branches()} == {
        "main": None,
        "review": "bo",
    }


def test_a_stream_goes_on_after_a_commit_of_it(both: Both) -> None:
    first = next(both.there.changes_stream(branch="review"))
    rest = list(both.there.changes_stream(branch="review", since=first.cursor))
    assert len(rest) == len(both.here.commits(branch="review")) - 2


def test_what_is_missing_is_explained(both: Both) -> None:
    names = {name for name in dir(omnigraphdb.Graph) if not name.startswith("_")}
    missing = sorted(name for name in names if not hasattr(both.there, name))
    assert missing == [
        "assign", "changes_frame", "cleanup_preview", "diff_frame", "discard_recovery", "duckdb", "export_files", "frames",
        "guard", "location", "policy", "project", "query_frame", "read_only", "refresh", "relocate", "schema_from",
        "set_policy", "show", "to_networkx", "with_policy",
    ]  # fmt: skip
    for name in missing:
        with pytest.raises(AttributeError, match=f"no '{name}': it needs the storage"):
            getattr(both.there, name)
    with pytest.raises(AttributeError, match="RemoteGraph has no 'optimise'"):
        both.there.optimise  # type: ignore[attr-defined] # noqa: B018
    for refused in (
        lambda: both.there.branch_create("b", actor="ada"),
        lambda: both.there.load([], mode="append", batch_id="1"),
        lambda: both.there.mutate(ADD, {"n": "x"}, actor="ada"),
        lambda: both.there.doctor(deep=True),
    ):
        with pytest.raises(UserInputError, match="needs the storage of the graph"):
            refused()


def test_a_dry_run_over_the_wire_writes_nothing(both: Both) -> None:
    graph, before = both.there, both.here.commits()
    tried = graph.mutate(ADD, {"n": "Zoe"}, dry_run=True)
    assert (tried.affected_nodes, tried.commit) == (1, None)
    record = {"type": "Person", "data": {"name": "Zoe"}}
    loaded = graph.load([record], mode="append", dry_run=True)
    assert (loaded.tables, loaded.commit) == ({"node:Person": 1}, None)
    with pytest.raises(omnigraphdb.OmniError, match="agee"):
        graph.load([{"type": "Person", "data": {"agee": 1}}], mode="append", dry_run=True)
    assert both.here.commits() == before


def test_a_message_over_the_wire_is_that_of_the_commit(both: Both) -> None:
    graph, said = both.there.on("noted"), "Grüße: 100 % — ✓"
    both.there.branch_create("noted")
    record = {"type": "Person", "data": {"name": "Noa"}}
    done: list[Any] = [
        graph.mutate(ADD, {"n": "Nia"}, message=said),
        graph.load([record], mode="append", message=said),
        both.there.merge("noted", into="review", message=said),
    ]
    assert [one.commit.message for one in done] == [said] * 3
    both.there.branch_delete("noted")


def test_a_blob_column_of_a_served_table_tells_kind_and_size(both: Both) -> None:
    rows = {row["id"]: row["photo"] for row in both.there.table("Person").to_pylist()}
    assert rows == {"Ada": {"kind": "managed", "size": 11, "uri": None}, "Bo": None}


def test_a_served_graph_is_maintained(both: Both) -> None:
    graph = both.there
    keyed = graph.mutate(ADD, {"n": "Key"}, branch="review", idempotency_key="k-1")
    assert graph.operation("k-1", branch="review").commit == keyed.commit
    assert graph.operation("k-1").state is OperationState.NOT_LANDED
    assert {str(index.state) for index in graph.ensure_indices().indexes} == {"ready"}
    assert graph.on("review").ensure_indices().indexes != ()
    assert {table.table_key for table in graph.optimize().tables} >= {"node:Person"}
    preview = graph.cleanup(keep=1, older_than=timedelta(seconds=0.25))
    assert not preview.confirmed
    assert sum(table.versions_removed for table in preview.tables) > 0
    young = graph.cleanup(keep=1, older_than=timedelta(days=1, microseconds=1), confirm=True)
    assert young.confirmed
    assert sum(table.versions_removed for table in young.tables) == 0
    assert graph.repair(confirm=True).commit is None
    with pytest.raises(UserInputError, match="actor=… needs the storage of the graph"):
        graph.optimize(actor="bo")
    with pytest.raises(UserInputError, match="'keep' is a whole number"):
        graph.cleanup(keep="all")  # type: ignore[arg-type]
    with pytest.raises(UserInputError, match="'older_than' is a timedelta"):
        graph.cleanup(older_than=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", ["1e999", "1e300", "-1e300", '"7d"', "true"])
def test_an_age_is_a_number_of_seconds(both: Both, seconds: str) -> None:
    answer = httpx.post(
        f"{both.there.uri}/cleanup",
        content=f'{{"older_than_seconds": {seconds}}}',
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == 400
    assert "'older_than_seconds' is" in answer.json()["error"]
