"""A merge in steps does what a merge in memory does: the same rows, or the same conflicts in the same words."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import Step
from tests.support.merge_ways import (
    FEW,
    apply_step,
    by_runner,
    content,
    in_steps,
    merge_by,
    merge_graph,
    operations,
)
from tests.support.replacing import two_commits

history = st.lists(
    st.tuples(st.sampled_from(["main", "side"]), st.one_of(operations, st.just(("merge",)))),
    max_size=12,
)


def compare_ways(here: Graph, there: Graph, granularity: str, buckets: int) -> None:
    """Try the merge both ways, then do it: in memory on one graph, in steps on the other."""
    ways = ((here, None), (there, in_steps(buckets)))
    tried = [
        merge_by(graph, way, granularity=granularity, dry_run=True).to_dict() | FREE
        for graph, way in ways
    ]
    assert tried[0] == tried[1]
    ends: list[Any] = []
    for graph, way in ways:
        try:
            merge_by(graph, way, granularity=granularity)
            ends.append(content(graph))
        except MergeConflicts as error:
            ends.append([conflict.to_dict() for conflict in error.conflicts])
    assert ends[0] == ends[1]
    assert there.doctor() == []


FREE = {"engine": "", "reason": ""}
"""What tells the ways apart."""


@settings(max_examples=12)
@given(history, st.sampled_from(["row", "property"]), st.integers(1, 3), st.booleans())
def test_both_ways_decide_alike(
    steps: list[tuple[str, tuple[Any, ...]]], granularity: str, buckets: int, twice: bool
) -> None:
    with two_commits(twice), merge_graph() as here, merge_graph() as there:
        for branch, step in steps:
            if step == ("merge",):
                compare_ways(here, there, granularity, buckets)
                continue
            for graph in (here, there):
                apply_step(graph, branch, step)
        compare_ways(here, there, granularity, buckets)


@pytest.mark.parametrize("granularity", ["row", "property"])
def test_every_kind_of_conflict_is_found_in_steps(granularity: str) -> None:
    with merge_graph() as here, merge_graph() as there:
        for branch, step in FEW:
            for graph in (here, there):
                apply_step(graph, branch, step)
        compare_ways(here, there, granularity, 2)


@pytest.mark.parametrize("twice", [False, True])
def test_a_merge_into_a_branch_forks_its_tables_and_writes_there(twice: bool) -> None:
    with two_commits(twice), merge_graph() as graph:
        apply_step(graph, "main", ("put", "p0", 5, "new", None, 1))
        apply_step(graph, "main", ("drop", "p1"))
        graph.branch_create("other", from_branch="side")
        done = merge_by(graph, in_steps(2), source="main", target="side")
        assert done.tables == {"node:P": (0, 1, 1)}
        assert content(graph, "side") == content(graph, "main")
        assert content(graph, "other") != content(graph, "side")
        assert graph.doctor() == []


class NotedSteps(LocalRunner):
    """Notes the steps that it runs."""

    def __init__(self) -> None:
        super().__init__(2, buckets=2)
        self.names: list[str] = []

    def run(self, step: Step) -> pa.Table:
        """Run a step and note its name."""
        self.names.append(step.name)
        return super().run(step)


def test_all_tables_are_compared_in_one_step() -> None:
    with merge_graph() as graph:
        for branch, name in (("side", "p0"), ("main", "p1")):
            apply_step(graph, branch, ("put", name, 5, "new", None, 1))
            apply_step(graph, branch, ("edge", f"e-{name}", name, "p2", 1))
            apply_step(graph, branch, ("one", f"o-{name}", name, "p2"))
        runner = NotedSteps()
        done = merge_by(graph, by_runner(runner))
        assert done.tables == {"edge:E": (1, 0, 0), "edge:One": (1, 0, 0), "node:P": (0, 1, 0)}
        assert runner.names == ["compare", "gather", "decide", "stage"]
        assert graph.doctor() == []


def test_a_base_that_is_put_together_is_merged_in_steps() -> None:
    with merge_graph() as here, merge_graph() as there:
        for graph in (here, there):
            # A criss-cross: each side merges an earlier state of the other.
            apply_step(graph, "main", ("put", "p0", 1, "m", None, 1))
            apply_step(graph, "side", ("put", "p1", 1, "s", None, 1))
            graph.branch_create("main-then")
            graph.branch_create("side-then", from_branch="side")
            graph.merge("side-then", into="main")
            graph.merge("main-then", into="side")
            apply_step(graph, "main", ("put", "p2", 2, "m2", None, 1))
            apply_step(graph, "side", ("put", "p0", 3, "s2", None, 1))
        compare_ways(here, there, "row", 2)
