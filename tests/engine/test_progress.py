"""Progress of long work: every phase is told, with rows and bytes, and who is told may stop it."""

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import groupby
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.pipeline.progress import Unit
from tests.support.settled import assert_settled

SCHEMA = "node Thing { name: String @key }"
WIDER = "node Thing { name: String @key  size: I32? @index }"
Told = list[omnigraphdb.Progress]


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    config = {"small_work_bytes": 100, "split_bytes": 200}
    made: Graph = omnigraphdb.init(tmp_path / "g", SCHEMA, config=config)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    records = [{"type": "Thing", "data": {"name": f"t{n}"}} for n in range(20)]
    path = tmp_path / "things.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def list_phases(told: Told) -> list[str]:
    return [phase for phase, _ in groupby(one.phase for one in told)]


def test_every_step_of_a_large_load_is_told_and_then_the_commit(graph: Graph, file: Path) -> None:
    told: Told = []
    graph.load(file, mode="append", spark=False, progress=told.append)
    phases = list_phases(told)
    assert phases[0] == "check"
    assert {"meet", "decide"} & set(phases)
    assert phases[-2:] == ["stage", "commit"]
    assert told[-1] == omnigraphdb.Progress("commit", 20, 20, Unit.ROWS, 20)
    assert told[0].done == 0
    assert told[0].total is not None
    assert told[0].total > 1
    assert_settled(graph)


def test_a_step_tells_of_every_part_with_its_bytes(graph: Graph, file: Path) -> None:
    told: Told = []
    graph.load(file, mode="append", spark=False, progress=told.append)
    check = [one for one in told if one.phase == "check"]
    parts = check[0].total
    assert parts is not None
    assert [one.done for one in check] == list(range(parts + 1))
    sizes = [one.bytes for one in check]
    assert sizes[0] == 0
    assert sizes == sorted(sizes, key=lambda size: size or 0)
    assert sizes[-1] == file.stat().st_size


def test_a_load_in_memory_tells_of_every_phase_with_rows_and_bytes(graph: Graph) -> None:
    told: Told = []
    records = [{"type": "Thing", "data": {"name": "a"}}]
    graph.load(records, mode="append", progress=told.append)
    assert list_phases(told) == ["read", "check", "stage", "commit"]
    ends = {one.phase: one for one in told}
    assert {one.rows for one in ends.values()} == {1}
    assert ends["read"].bytes
    assert told[0] == omnigraphdb.Progress("read", 0, None, Unit.ROWS, 0, 0)
    assert told[-1].to_dict() == {
        "phase": "commit",
        "done": 1,
        "total": 1,
        "unit": "rows",
        "rows": 1,
        "bytes": None,
    }


def test_who_is_told_may_stop_the_load(graph: Graph, file: Path) -> None:
    def stop(found: omnigraphdb.Progress) -> None:
        if found.phase == "stage":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.load(file, mode="append", spark=False, progress=stop)
    assert graph.table("Thing").num_rows == 0
    assert_settled(graph)


Call = Callable[[Graph, Path, Told], object]
CALLS: dict[str, tuple[Call, list[str]]] = {
    "merge": (
        lambda graph, _, told: graph.merge("side", progress=told.append),
        ["compare", "stage", "commit"],
    ),
    "export_files": (
        lambda graph, home, told: graph.export_files(home / "out", progress=told.append),
        ["export"],
    ),
    "ensure_indices": (
        lambda graph, _, told: graph.ensure_indices(progress=told.append),
        ["index", "commit"],
    ),
    "optimize": (
        lambda graph, _, told: graph.optimize(progress=told.append),
        ["optimize", "commit"],
    ),
    "cleanup": (
        lambda graph, _, told: graph.cleanup(older_than=timedelta(days=1), progress=told.append),
        ["cleanup"],
    ),
    "schema_apply": (
        lambda graph, _, told: graph.schema_apply(WIDER, progress=told.append),
        ["reshape", "commit", "index", "commit"],
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_long_work_tells_of_its_phases_from_nothing_to_all(
    graph: Graph, file: Path, tmp_path: Path, call: str
) -> None:
    graph.load(file, mode="append", spark=False)
    graph.branch_create("side")
    for branch in ("side", "main"):
        record = {"type": "Thing", "data": {"name": f"of {branch}"}}
        graph.load([record], mode="append", branch=branch)
    told: Told = []
    act, phases = CALLS[call]
    if call == "schema_apply":
        graph.branch_delete("side")
    act(graph, tmp_path, told)
    assert list_phases(told) == phases
    for _, steps in groupby(told, lambda one: one.phase):
        done = list(steps)
        assert done[0].done == 0
        assert done[-1].done == done[-1].total
        assert done[-1].done
    assert_settled(graph)
