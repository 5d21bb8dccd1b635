"""Progress of a load: every phase is told, and who is told may stop it."""

import json
from pathlib import Path

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from tests.support.settled import assert_settled

SCHEMA = "node Thing { name: String @key }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    config = {"small_work_bytes": 100, "split_bytes": 200}
    made: Graph = omnigraph.init(tmp_path / "g", SCHEMA, config=config)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    records = [{"type": "Thing", "data": {"name": f"t{n}"}} for n in range(20)]
    path = tmp_path / "things.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_every_step_of_a_large_load_is_told_and_then_the_commit(graph: Graph, file: Path) -> None:
    told: list[omnigraph.Progress] = []
    graph.load(file, mode="append", spark=False, progress=told.append)
    phases = [one.phase for one in told]
    assert phases[0] == "check"
    assert {"meet", "decide"} & set(phases)
    assert "stage" in phases
    assert told[-1] == omnigraph.Progress("commit", 20, 20)
    assert told[0].done == 0
    assert told[0].total is not None
    assert told[0].total > 1
    assert_settled(graph)


def test_a_small_load_tells_of_its_commit_alone(graph: Graph) -> None:
    told: list[omnigraph.Progress] = []
    graph.load([{"type": "Thing", "data": {"name": "a"}}], mode="append", progress=told.append)
    assert told == [omnigraph.Progress("commit", 1, 1)]


def test_who_is_told_may_stop_the_load(graph: Graph, file: Path) -> None:
    def stop(found: omnigraph.Progress) -> None:
        if found.phase == "stage":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.load(file, mode="append", spark=False, progress=stop)
    assert graph.table("Thing").num_rows == 0
    assert_settled(graph)
