"""Random histories on two branches, merged by us and by a plain model: same rows or same conflicts."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts, UserInputError
from tests.support.merge_model import (
    Decide,
    broken_rules,
    merge_graph,
    merge_properties,
    merge_row,
)
from tests.support.merge_model import Graph as Model

if TYPE_CHECKING:
    from omnigraphdb.api.types import MergeGranularity

SCHEMA = """
node P { name: String @key  a: I32?  b: String?  u: I32? @unique }
edge E: P -> P { w: F64? }
"""
EDGES = {"edge:E": ("node:P", "node:P")}
BYSTANDERS = 40
NAMES = st.sampled_from(["p0", "p1", "p2", "p3", "p4"])
TEXTS = st.sampled_from([None, "", "x"])
SMALL = st.sampled_from([None, 1, 2])

put_node = st.tuples(st.just("put"), NAMES, SMALL, TEXTS, SMALL)
put_edge = st.tuples(st.just("edge"), st.sampled_from(["e0", "e1", "e2"]), NAMES, NAMES, SMALL)
drop_node = st.tuples(st.just("drop"), NAMES)
drop_edges = st.tuples(st.just("cut"), NAMES)
merge_back = st.tuples(st.just("merge"))
tend = st.tuples(st.just("tend"))
operation = st.one_of(put_node, put_edge, drop_node, drop_edges, tend)
history = st.lists(
    st.tuples(st.sampled_from(["main", "side"]), st.one_of(operation, operation, merge_back)),
    max_size=14,
)


def apply(graph: Graph, branch: str, step: tuple[Any, ...]) -> None:
    """Do one step; a step the graph refuses (a missing end, a taken value) is no step."""
    try:
        match step:
            case ("put", name, a, b, u):
                row = {"name": name, "a": a, "b": b, "u": u}
                graph.load([{"type": "P", "data": row}], mode="merge", branch=branch)
            case ("edge", id_, src, dst, w):
                edge = {"edge": "E", "from": src, "to": dst, "data": {"id": id_, "w": w}}
                graph.load([edge], mode="merge", branch=branch)
            case ("drop", name):
                text = "query d($n: String) { delete P where name = $n }"
                graph.mutate(text, {"n": name}, branch=branch)
            case ("cut", name):
                text = "query d($n: String) { delete E where from = $n }"
                graph.mutate(text, {"n": name}, branch=branch)
            case ("tend",):
                graph.optimize()
            case _:
                raise AssertionError(step)
    except UserInputError:
        return


def model(graph: Graph, branch: str = "main", at: str | None = None) -> Model:
    return {
        key: {row["id"]: row for row in graph.table(key, branch=branch, at=at).to_pylist()}
        for key in ("node:P", "edge:E")
    }


@contextmanager
def graph_of() -> Iterator[Graph]:
    with tempfile.TemporaryDirectory() as folder:
        graph = omnigraphdb.init(Path(folder) / "g", SCHEMA)
        # Rows nobody touches lie around the others, so that a few are picked out of many.
        names = [f"p{n}" for n in range(3)] + [f"q{n:02d}" for n in range(BYSTANDERS)]
        graph.load([{"type": "P", "data": {"name": name, "a": 1}} for name in names], mode="append")
        graph.branch_create("side")
        yield graph


def check_merge(graph: Graph, base: Model, granularity: "MergeGranularity") -> Model | None:
    """Merge and compare with the oracle; gives the state both sides now share, None after a conflict."""
    decide: Decide = merge_row if granularity == "row" else merge_properties
    source, target = model(graph, "side"), model(graph)
    past = {commit.id: model(graph, at=commit.id) for commit in graph.commits()}
    expected, conflicts = merge_graph(base, source, target, decide)
    conflicts = conflicts or broken_rules(expected, EDGES, "node:P.u")
    try:
        graph.merge("side", granularity=granularity)
        found = set()
    except MergeConflicts as error:
        found = {_known(c.kind, c.table_key, c.row_id) for c in error.conflicts}
    assert found == conflicts
    assert model(graph) == (target if conflicts else expected)
    assert model(graph, "side") == source
    for commit, rows in past.items():
        assert model(graph, at=commit) == rows
    return None if conflicts else source


def _known(kind: str, table: str, row: str | None) -> tuple[str, str, str]:
    """Which of two holders of a unique value is named depends on the side; the model names neither."""
    return (str(kind), table, "" if kind == "unique_violation" else str(row))


@settings(max_examples=25)
@given(history, st.sampled_from(["row", "property"]))
def test_a_merge_is_what_the_oracle_says(
    steps: list[tuple[str, tuple[Any, ...]]], granularity: "MergeGranularity"
) -> None:
    with graph_of() as graph:
        base = model(graph)
        for branch, step in steps:
            if step == ("merge",):
                base = check_merge(graph, base, granularity) or base
            else:
                apply(graph, branch, step)
        check_merge(graph, base, granularity)
        assert graph.doctor() == []


@settings(max_examples=25)
@given(history)
def test_a_diff_turns_one_state_into_the_other(
    steps: list[tuple[str, tuple[Any, ...]]],
) -> None:
    with graph_of() as graph:
        for branch, step in steps:
            if step != ("merge",):
                apply(graph, branch, step)
        one, other = model(graph), model(graph, "side")
        found = {(str(c.op), c.table_key, c.id): c for c in graph.diff("main", "side")}
        expected = {
            (_op(one[key].get(i), other[key].get(i)), key, i)
            for key in one
            for i in one[key].keys() | other[key].keys()
            if one[key].get(i) != other[key].get(i)
        }
        assert found.keys() == expected
        for (op, key, i), change in found.items():
            if op == "update":
                assert set(change.properties) == {
                    n for n in one[key][i] if one[key][i][n] != other[key][i][n]
                }


def _op(before: object, after: object) -> str:
    return "insert" if before is None else "delete" if after is None else "update"
