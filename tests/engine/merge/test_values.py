"""Values of every kind survive a merge, and only rows that changed are written again."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.diff.rows import find_changed_rows
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import BranchName, OperationId, TableKey
from omnigraphdb.storage.counters import Cost, counting
from tests.engine.merge.conftest import assert_settled

SCHEMA = """
node Doc { name: String @key  body: Blob?  vec: Vector(4)?  at: DateTime?  day: Date?  n: F64?  big: U64?  tags: [String]? }
node Other { name: String @key }
"""


def doc(name: str, **values: Any) -> dict[str, Any]:
    return {"type": "Doc", "data": {"name": name, **values}}


def docs(graph: Graph, branch: str = "main") -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in graph.table("Doc", branch=branch).to_pylist()}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph: Graph = omnigraphdb.init(tmp_path / "g", SCHEMA)
    rows = [
        doc("bytes", body="base64:AAEC", vec=[1.0, 2.0, 3.0, 4.0], n=0.5, tags=["a, b"]),
        doc("empty", body="base64:", big=2**63 + 1),
        doc("null", at="2024-02-29T12:00:00.250Z", day="2024-02-29"),
        doc("gone", body="base64:/w=="),
    ]
    graph.load(rows, mode="append")
    graph.branch_create("side")
    return graph


@pytest.mark.parametrize("both", [False, True], ids=["adopt", "three_way"])
def test_blobs_vectors_and_the_rest_come_through(graph: Graph, both: bool) -> None:
    graph.load(
        [
            doc("new", body="base64:BQYH", vec=[0.0, -0.0, 1.0, 2.0], tags=[]),
            doc("bytes", body="base64:AAED", vec=[1.0, 2.0, 3.0, 4.0], n=0.5, tags=["a, b"]),
            doc("null", body="base64:", day="2024-03-01"),
        ],
        mode="merge",
        branch="side",
    )
    graph.mutate('query d() { delete Doc where name = "gone" }', branch="side")
    if both:
        graph.load([doc("mine", body="base64:CQ==")], mode="append")
    graph.merge("side")
    expected = docs(graph, "side") | ({"mine": docs(graph)["mine"]} if both else {})
    assert docs(graph) == expected
    found = docs(graph)
    assert (found["bytes"]["body"], found["null"]["body"], found["empty"]["body"]) == (
        b"\x00\x01\x03",
        b"",
        b"",
    )
    assert found["new"]["tags"] == []
    assert_settled(graph)


def test_equal_blobs_written_again_are_no_change(graph: Graph) -> None:
    row = doc("bytes", body="base64:AAEC", vec=[1.0, 2.0, 3.0, 4.0], n=0.5, tags=["a, b"])
    graph.load([row, doc("empty", body="base64:", big=2**63 + 1)], mode="merge", branch="side")
    assert graph.diff("main", "side").changes == ()
    changed = doc("bytes", body="base64:AAED", vec=[1.0, 2.0, 3.0, 4.0], n=0.5, tags=["a, b"])
    graph.load([changed], mode="merge", branch="side")
    [change] = graph.diff("main", "side").changes
    assert (change.id, change.properties) == ("bytes", ("body",))


def test_properties_changed_on_different_sides_merge_with_property_granularity(
    graph: Graph,
) -> None:
    graph.load([doc("empty", body="base64:Ag==", big=2**63 + 1)], mode="merge", branch="side")
    graph.load([doc("empty", body="base64:", big=7, vec=[1, 1, 1, 1])], mode="merge")
    with pytest.raises(omnigraphdb.MergeConflicts):
        graph.merge("side")
    graph.merge("side", granularity="property")
    row = docs(graph)["empty"]
    assert (row["body"], row["big"], row["vec"]) == (b"\x02", 7, [1.0, 1.0, 1.0, 1.0])
    assert_settled(graph)


def test_a_conflict_of_one_property_names_it_with_its_three_values(graph: Graph) -> None:
    graph.load([doc("empty", body="base64:Ag==", n=1.0)], mode="merge", branch="side")
    graph.load([doc("empty", body="base64:", big=7, n=2.0)], mode="merge")
    with pytest.raises(omnigraphdb.MergeConflicts) as caught:
        graph.merge("side", granularity="property")
    [conflict] = caught.value.conflicts
    assert conflict.properties == ("big", "n")
    assert "source '1.0'" in conflict.message
    assert "target '2.0'" in conflict.message


def versions(graph: Graph, branch: str = "main") -> dict[str, tuple[int, int]]:
    reader = graph.snapshot(branch=branch).scan(
        "Doc", ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    )
    rows = reader.read_all().to_pylist()
    return {
        row["id"]: (row["_row_created_at_version"], row["_row_last_updated_at_version"])
        for row in rows
    }


def test_only_changed_rows_get_a_new_version(graph: Graph) -> None:
    before = versions(graph)
    graph.load([doc("new"), doc("null", n=2.0)], mode="merge", branch="side")
    graph.merge("side")
    after = versions(graph)
    assert {name: after[name] for name in ("bytes", "empty", "gone")} == {
        name: before[name] for name in ("bytes", "empty", "gone")
    }
    assert after["null"][0] == before["null"][0]
    assert after["null"][1] > before["null"][1]


def frame(start: int, count: int, dimension: int = 4) -> pa.Table:
    vectors = np.random.default_rng(start).random(count * dimension, dtype=np.float32)
    return pa.table(
        {
            "name": [f"row {n:06d}" for n in range(start, start + count)],
            "vec": pa.FixedSizeListArray.from_arrays(vectors, dimension),
        }
    )


def test_an_append_only_fast_forward_joins_nothing_and_holds_no_delta(graph: Graph) -> None:
    graph.load({"Doc": frame(0, 20_000)}, mode="append", branch="side")
    with counting() as costs:
        graph.merge("side")
    assert costs[Cost.STAGE_APPEND_ROWS] == 20_000
    assert costs[Cost.STAGE_MERGE] == 0
    assert costs[Cost.DELTA_MATERIALISATIONS] == 0
    assert graph.table("Doc").num_rows == 20_004
    assert_settled(graph)


def test_a_delta_is_counted_once_it_is_in_memory(graph: Graph, tmp_path: Path) -> None:
    graph.load({"Doc": frame(0, 20_000)}, mode="append")
    graph.branch_create("later")
    changed = frame(0, 20_000).set_column(1, "vec", frame(9, 20_000)["vec"])
    graph.load({"Doc": changed}, mode="merge", branch="later")

    def lose() -> None:
        for file in (tmp_path / "g").glob("nodes/*/tree/later/data/*.lance"):
            file.write_bytes(b"")

    with (
        counting() as costs,
        armed(Failpoint.MERGE_CHUNK_UPSERTED, lose),
        pytest.raises(omnigraphdb.OmniError),
    ):
        graph.merge("later")
    # The first of three parts was read and written; the second could not be read.
    assert costs[Cost.STAGE_MERGE] == 1
    assert costs[Cost.DELTA_MATERIALISATIONS] == 1


def test_changed_rows_are_upserted_in_chunks(graph: Graph) -> None:
    graph.load({"Doc": frame(0, 20_000)}, mode="append")
    graph.branch_create("later")
    changed = frame(0, 20_000).set_column(1, "vec", frame(9, 20_000)["vec"])
    graph.load({"Doc": changed}, mode="merge", branch="later")
    with counting() as costs:
        result = graph.merge("later")
    assert result.tables == {"node:Doc": (0, 20_000, 0)}
    assert costs[Cost.STAGE_MERGE] == costs[Cost.DELTA_MATERIALISATIONS] == 3
    assert docs(graph) == docs(graph, "later")
    assert_settled(graph)


def test_merged_rows_cost_the_same_whatever_lies_around_them(tmp_path: Path) -> None:
    found = []
    for rows in (2_000, 40_000):
        graph = omnigraphdb.init(tmp_path / str(rows), SCHEMA)
        graph.load({"Doc": frame(0, rows)}, mode="append")
        graph.branch_create("side")
        graph.load([doc("new")], mode="append", branch="side")
        with counting() as costs:
            graph.merge("side")
        found.append(costs.as_dict())
    assert found[0] == found[1]
    assert found[0]["table_scans"] <= 6


def test_a_compaction_between_base_and_source_changes_nothing(graph: Graph) -> None:
    tables = graph._engine.store.tables
    graph.load({"Doc": frame(0, 50)}, mode="append", branch="side")
    graph.load([doc("null", n=3.0)], mode="merge", branch="side")
    expected = [(c.op, c.id) for c in graph.diff("main", "side")]
    entry = graph._engine.view(BranchName("side")).snapshot.entry(TableKey("node:Doc"))
    staged = tables.stage_compaction(entry.at)
    if staged is None:
        pytest.skip("there is nothing to compact")
    landed = tables.commit_staged(staged, operation_id=OperationId("compaction"), lock=None)
    base = graph._engine.view().snapshot.entry(TableKey("node:Doc"))
    moves = find_changed_rows(tables, base.at, landed.at)
    assert sorted(moves["id"].to_pylist()) == sorted(name for _, name in expected)
