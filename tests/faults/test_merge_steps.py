"""A driver that dies in any phase of a merge in steps leaves the merge whole or absent, and the next one succeeds."""

import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.runner import Step
from tests.support.child import KILLED, run_child
from tests.support.merge_ways import SCHEMA, apply_step, by_runner, content, merge_by
from tests.support.replacing import two_commits

PHASES = ("compare", "gather", "decide", "stage")
POINTS = (
    Failpoint.MERGE_PLANNED,
    Failpoint.MERGE_ARMED,
    Failpoint.ROWS_APPENDED,
    Failpoint.MERGE_TABLE_COMMITTED,
    Failpoint.MERGE_EFFECTS_DONE,
    Failpoint.MERGE_CONFIRMED,
)


class DyingRunner(LocalRunner):
    """A runner whose process is killed when a step has run."""

    def __init__(self, phase: str) -> None:
        super().__init__(2, buckets=2)
        self._phase = phase

    def run(self, step: Step) -> pa.Table:
        rows = super().run(step)
        if step.name == self._phase:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows


def _merge(uri: str, phase: str) -> None:
    with two_commits(), omnigraphdb.open(uri) as graph:
        merge_by(graph, by_runner(DyingRunner(phase)))


def make_graph(home: Path) -> tuple[str, dict[str, list[dict[str, object]]]]:
    """Work on two types of a branch, and what a merge of it comes to."""
    with omnigraphdb.init(home / "g", SCHEMA) as graph:
        people = [{"type": "P", "data": {"name": f"p{n}", "a": 1}} for n in range(4)]
        graph.load(people, mode="append")
        graph.branch_create("side")
        for branch, step in (
            ("side", ("put", "p0", 2, "new", None, 1)),
            ("side", ("put", "p9", 2, "", 5, 2)),
            ("side", ("drop", "p1")),
            ("side", ("edge", "e0", "p0", "p9", 1)),
            ("main", ("put", "p2", 2, "x", None, 3)),
        ):
            apply_step(graph, branch, step)
        before = content(graph)
    return str(home / "g"), before


def check_end(graph: Graph, before: object) -> None:
    """The merge is whole or absent; after it is done again, it is whole."""
    now = content(graph)
    ids = [row["id"] for row in now["P"]]
    assert now == before or (ids == ["p0", "p2", "p3", "p9"] and len(now["E"]) == 1)
    merge_by(graph, by_runner(LocalRunner(1)))
    assert [row["id"] for row in content(graph)["P"]] == ["p0", "p2", "p3", "p9"]
    assert graph.doctor() == []


@pytest.mark.parametrize("phase", PHASES)
def test_a_driver_that_dies_between_steps_leaves_nothing(tmp_path: Path, phase: str) -> None:
    uri, before = make_graph(tmp_path)
    assert run_child(_merge, uri, phase) == KILLED
    with omnigraphdb.open(uri) as graph:
        assert content(graph) == before
        check_end(graph, before)


@pytest.mark.parametrize("point", POINTS, ids=str)
def test_a_driver_that_dies_while_it_commits_leaves_all_or_nothing(
    tmp_path: Path, point: Failpoint
) -> None:
    uri, before = make_graph(tmp_path)
    assert run_child(_merge, uri, "", failpoints=f"{point.value}=exit") == KILLED
    with omnigraphdb.open(uri) as graph:
        check_end(graph, before)
