"""Loads in steps, interrupted at every step of their commit, as an error and as a death: whole or absent."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.plan import WriteOptions
from omnigraphdb.engine.write.load import load
from omnigraphdb.engine.write.runner_choice import RunnerChoice
from omnigraphdb.ids import BranchName
from omnigraphdb.pipeline.local import LocalRunner
from tests.faults import test_writes as writes
from tests.faults.conftest import PLACES, Stage
from tests.faults.rows import TAKEOVER_ROWS, WRITE_ROWS, Row
from tests.support.child import KILLED, run_child
from tests.support.replacing import two_commits
from tests.support.settled import assert_settled
from tests.support.story import ACTOR, WRITES

CELLS = [
    pytest.param(row, name, place, id=f"{row.id}-{name}-{place}")
    for row in WRITE_ROWS
    for name in ("append", "merge", "overwrite")
    for place in PLACES
    if place in row.places and (name == "merge" or place == "main")
]
TWO_COMMITS = [
    pytest.param(row, place, id=f"{row.id}-{place}")
    for row in TAKEOVER_ROWS
    for place in PLACES
    if place in row.places
]


class Recorder:
    """Stands where a graph is asked to load, and keeps the records."""

    def load(self, records: list[dict[str, Any]], **options: Any) -> None:
        self.records, self.options = records, options


def written_in_steps(graph: Graph, branch: str, tag: str, actor: str | None, *, name: str) -> None:
    """Write the story of a load, its records in a file that is cut into tiny splits."""
    told = Recorder()
    WRITES[name].run(told, branch, tag, actor)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "records.jsonl"
        path.write_text("".join(f"{json.dumps(one)}\n" for one in told.records))
        load(
            graph._engine,
            path,
            mode=told.options["mode"],
            branch=BranchName(branch),
            options=WriteOptions(actor=actor),
            choose_runner=lambda _: RunnerChoice(LocalRunner(2, buckets=2), "a test"),
        )


def in_steps(stage: Callable[[str, str], Stage]) -> Callable[[str, str], Stage]:
    """The same stage, on which the story is written in steps."""

    def set_up(name: str, place: str) -> Stage:
        found = stage(name, place)

        def run(graph: Graph, branch: str, tag: str, actor: str | None) -> None:
            written_in_steps(graph, branch, tag, actor, name=name)

        return replace(found, write=replace(found.write, run=run))

    return set_up


def perform(uri: str, name: str, branch: str) -> None:
    """Open a graph and write one story in steps: what a child process does."""
    with omnigraphdb.open(uri, config={"split_bytes": 60}) as graph:
        written_in_steps(graph, branch, "1", ACTOR, name=name)


@pytest.mark.parametrize(("row", "name", "place"), CELLS)
def test_a_failed_load_is_whole_or_absent(
    row: Row, name: str, place: str, stage: Callable[[str, str], Stage]
) -> None:
    writes.test_a_failed_write_is_whole_or_absent(row, name, place, in_steps(stage))


@pytest.mark.parametrize(("row", "name", "place"), CELLS)
def test_a_killed_load_is_whole_or_absent(
    row: Row, name: str, place: str, stage: Callable[[str, str], Stage]
) -> None:
    kill_and_reopen(row, name, place, in_steps(stage), perform)


def kill_and_reopen(
    row: Row,
    name: str,
    place: str,
    stage: Callable[[str, str], Stage],
    work: Callable[[str, str, str], None],
) -> None:
    """Write a story in a child that dies, and open the graph again."""
    story = stage(name, place)
    with story.open(read_only=True) as graph:
        before = writes.look(graph, story)
    failpoints = f"{row.point.value}={row.exit}"
    assert run_child(work, story.uri, name, place, failpoints=failpoints) == KILLED
    assert len(list(Path(story.uri).glob("__staging/*.json"))) == 1
    with story.open(read_only=True) as graph:
        operation = writes.pending(graph, row.open)
    graph = story.open()
    assert_settled(graph)
    writes.assert_settled_as(row.open, graph, story, before, operation, row.moved)
    writes.follow_up(graph, story, row.open)
    assert_settled(graph)
    writes.assert_reopens_unchanged(graph, story)


# ---- two commits of each table


def perform_in_two_commits(uri: str, name: str, branch: str) -> None:
    """What a child process does when rows are replaced in two commits."""
    with two_commits():
        perform(uri, name, branch)


@pytest.mark.parametrize(("row", "place"), TWO_COMMITS)
def test_a_load_of_two_commits_that_fails_is_whole_or_absent(
    row: Row, place: str, stage: Callable[[str, str], Stage]
) -> None:
    with two_commits():
        writes.test_a_failed_write_is_whole_or_absent(row, "merge", place, in_steps(stage))


@pytest.mark.parametrize(("row", "place"), TWO_COMMITS)
def test_a_load_of_two_commits_that_is_killed_is_whole_or_absent(
    row: Row, place: str, stage: Callable[[str, str], Stage]
) -> None:
    kill_and_reopen(row, "merge", place, in_steps(stage), perform_in_two_commits)
