"""A diff in steps lists what a diff in memory lists; changes and conflicts of any number go to files."""

import json
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.comparisons import Change
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ChangeFeedGap, MergeConflicts, UserInputError
from tests.support.merge_ways import FEW, apply_step, in_steps, merge_by, merge_graph

IN_STEPS = {"small_work_rows": 0, "small_work_bytes": 0}


def work(graph: Graph) -> None:
    for branch, step in FEW:
        apply_step(graph, branch, step)
    graph.optimize()
    graph.load([{"type": "P", "data": {"name": "q05", "a": 9}}], mode="merge", branch="side")


@pytest.mark.parametrize("images", [False, True])
def test_both_ways_list_the_same_changes(images: bool) -> None:
    with merge_graph() as graph:
        work(graph)
        here = graph.diff("main", "side", images=images)
        assert (here.engine, here.changes != ()) == ("local", True)
        with omnigraphdb.open(graph.uri, config=IN_STEPS) as stepped:
            there = stepped.diff("main", "side", images=images, spark=False)
            assert stepped.doctor() == []
        assert there.changes == here.changes
        assert "in steps" in there.reason


def test_changes_go_to_a_file(tmp_path: Path) -> None:
    with merge_graph() as graph:
        work(graph)
        expected = graph.diff("main", "side")
        for config in ({}, IN_STEPS):
            with omnigraphdb.open(graph.uri, config=config) as opened:
                found = opened.diff("main", "side", spark=False, out=tmp_path / "changes.jsonl")
            lines = (tmp_path / "changes.jsonl").read_text().splitlines()
            assert [json.loads(line) for line in lines] == expected.to_dict()["changes"]
            assert (found.changes, found.stats) == ((), expected.stats)
        with pytest.raises(UserInputError, match=r"\.jsonl"):
            graph.diff("main", "side", out=tmp_path / "changes.csv")


@pytest.mark.parametrize("way", ["memory", "steps"])
def test_conflicts_go_to_a_file(tmp_path: Path, way: str) -> None:
    from omnigraphdb.engine.merge.conflicts import parse_conflict_file

    path = tmp_path / "conflicts.jsonl"
    with merge_graph() as graph:
        work(graph)
        with pytest.raises(MergeConflicts) as caught:
            merge_by(
                graph,
                None if way == "memory" else in_steps(3),
                rejects=parse_conflict_file(path),
            )
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert lines == [one.to_dict() for one in caught.value.conflicts]
        assert caught.value.total == len(lines) > 1
        with pytest.raises(UserInputError, match="folder"):
            graph.merge("side", rejects=tmp_path / "none" / "x.jsonl")


@pytest.mark.parametrize("way", ["memory", "steps"])
def test_conflicts_are_a_frame(way: str) -> None:
    with merge_graph() as graph:
        work(graph)
        config = {} if way == "memory" else IN_STEPS
        with (
            omnigraphdb.open(graph.uri, config=config) as opened,
            pytest.raises(MergeConflicts) as caught,
        ):
            opened.merge("side", rejects="frame", spark=False)
    rows = omnigraphdb.rejects_frame(caught.value, engine="polars").to_dicts()
    assert len(rows) == caught.value.total > 1
    for row in rows:
        row |= {
            side: None if row[side] is None else json.loads(row[side])
            for side in ("base", "source", "target")
        }
    assert rows == [one.to_dict() for one in caught.value.conflicts]
    arrow = omnigraphdb.rejects_frame(caught.value)
    assert arrow.num_rows == len(omnigraphdb.rejects_frame(caught.value, engine="pandas"))
    with pytest.raises(UserInputError, match="keeps no table"):
        omnigraphdb.rejects_frame(UserInputError("x"))


# ---- the change feed


def list_blocks(graph: Graph, **given: object) -> list[tuple[str, tuple[Change, ...]]]:
    found = graph.changes_stream(branch="side", **given)  # type: ignore[arg-type]
    return [(block.commit.id, tuple(block.changes)) for block in found]


def test_a_feed_in_steps_lists_what_one_in_memory_lists() -> None:
    with merge_graph() as graph:
        work(graph)
        here = graph.changes(branch="side", images=True, limit=1_000)
        assert (here.engine, "little enough" in here.reason) == ("local", True)
        with omnigraphdb.open(graph.uri, config=IN_STEPS) as stepped:
            there = stepped.changes(branch="side", images=True, limit=1_000, spark=False)
            assert (there, "in steps" in there.reason) == (here, True)
            assert there.to_dict()["reason"] == there.reason
            assert len(there.blocks) > 3
            assert list_blocks(stepped, spark=False) == list_blocks(graph)
            few = stepped.changes(branch="side", limit=1, spark=False)
            assert few == graph.changes(branch="side", limit=1)
            rest = stepped.changes(branch="side", since=few.cursor, ops=["delete"], spark=False)
            assert rest == graph.changes(branch="side", since=few.cursor, ops=["delete"])
            assert stepped.doctor() == []
        with omnigraphdb.open(graph.uri, config=IN_STEPS, read_only=True) as seen:
            assert "opened to be read" in seen.changes(branch="side").reason


def test_changes_that_are_read_too_late_are_refused() -> None:
    with merge_graph() as graph:
        work(graph)
        with omnigraphdb.open(graph.uri, config=IN_STEPS) as stepped:
            blocks = list(stepped.changes_stream(branch="side", spark=False))
            with pytest.raises(UserInputError, match="read before the next commit"):
                list(blocks[-1].changes)


def test_a_feed_in_steps_names_the_gap_that_one_in_memory_names() -> None:
    with merge_graph() as graph:
        for n in range(6):
            graph.load([{"type": "P", "data": {"name": f"n{n}"}}], mode="append")
        graph.cleanup(keep=2, confirm=True)
        with omnigraphdb.open(graph.uri, config=IN_STEPS) as stepped:
            told = []
            for opened in (graph, stepped):
                with pytest.raises(ChangeFeedGap) as caught:
                    [tuple(one.changes) for one in opened.changes_stream(spark=False)]
                told.append(str(caught.value))
        assert told[0] == told[1]
