"""Indexes whose parts others built: they stay in parts, so that nobody has to hold one; answers are the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance.indexes import ensure_indices
from omnigraphdb.ids import MAIN, TableKey
from omnigraphdb.limits import INDEX_SEGMENTS_MAX
from omnigraphdb.pipeline.local import LocalRunner
from omnigraphdb.pipeline.maintenance import RunnerWorkers
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I32? @index  bio: String? @index }"
STEPS = {"small_work_bytes": 0, "split_bytes": 200, "load_concurrency": 8, "maintenance": "off"}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=STEPS) as made:
        yield made
        assert_settled(made)


def add(graph: Graph, start: int, count: int) -> None:
    """Add people in several fragments."""
    for first in range(start, start + count, 10):
        numbers = range(first, first + 10)
        rows = pa.table(
            {
                "name": [f"p{n:03}" for n in numbers],
                "age": pa.array(numbers, pa.int32()),
                "bio": [f"likes tea {n}" for n in numbers],
            }
        )
        graph.load({"Person": rows}, mode="append", spark=False)


def built(graph: Graph, count: int = 8) -> dict[str, int]:
    """How many segments every index has, once many workers built what was missing."""
    engine = graph._engine
    workers = RunnerWorkers(runner=LocalRunner(2), location=engine.location, count=count)
    ensure_indices(engine, workers=workers)
    entry = engine.view(MAIN).snapshot.entry(TableKey("node:Person"))
    infos = engine.store.tables.open(entry.at).indices()
    return {info.column: len(info.segments) for info in infos}


def found(graph: Graph, condition: str) -> list[Any]:
    text = f"query q() {{ match {{ $p: Person  {condition} }} return {{ $p.name }} order {{ $p.name }} }}"
    return [row["p.name"] for row in graph.query(text).rows]


def test_parts_stay_parts_and_find_every_row(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraphdb.engine.after_commit.index_after_load", lambda *_, **__: ())
    add(graph, 0, 100)
    segments = built(graph)
    assert set(segments.values()) == {INDEX_SEGMENTS_MAX // 2}
    assert found(graph, "$p.age = 57") == ["p057"]
    assert found(graph, "$p.age >= 95") == [f"p{n:03}" for n in range(95, 100)]
    assert found(graph, '$p.name = "p003"') == ["p003"]
    assert found(graph, 'search($p.bio, "99")') == ["p099"]
    assert len(found(graph, 'search($p.bio, "tea")')) == 100


def test_ranks_do_not_depend_on_parts(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = '$p.bio, "tea 7 17 likes"'
    text = f"query q() {{ match {{ $p: Person }} return {{ $p.name }} order {{ bm25({words}) }} limit 12 }}"
    monkeypatch.setattr("omnigraphdb.engine.after_commit.index_after_load", lambda *_, **__: ())
    with omnigraphdb.init(tmp_path / "whole", SCHEMA, config=STEPS) as whole:
        for one in (graph, whole):
            add(one, 0, 100)
        assert built(whole, 1)["bio"] == 1
        assert built(graph)["bio"] > 1
        assert graph.query(text).rows == whole.query(text).rows


def test_parts_that_find_no_room_become_one(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraphdb.engine.after_commit.index_after_load", lambda *_, **__: ())
    for start in range(0, 500, 50):
        add(graph, start, 50)
        segments = built(graph)
        assert max(segments.values()) <= INDEX_SEGMENTS_MAX
        assert found(graph, f"$p.age = {start + 7}") == [f"p{start + 7:03}"]
    assert found(graph, "$p.age < 3") == ["p000", "p001", "p002"]
