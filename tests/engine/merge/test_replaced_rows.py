"""Changed rows are replaced where they lie: rows keep their identity, whatever maintenance did to the target meanwhile."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.storage.counters import Cost, counting
from tests.support.settled import assert_settled

if TYPE_CHECKING:
    from omnigraphdb.api.types import MergeGranularity

SCHEMA = "node P { name: String @key  a: I64?  b: String? }"
ROWS = 400
CHANGED = ("n0003", "n0117", "n0390")
GONE = ("n0005", "n0200")


def write_rows(graph: Graph, branch: str, names: tuple[str, ...], a: int) -> None:
    records = [{"type": "P", "data": {"name": name, "a": a}} for name in names]
    graph.load(records, mode="merge", branch=branch)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = omnigraphdb.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"})
    for start in range(0, ROWS, 100):
        write_rows(made, "main", tuple(f"n{n:04d}" for n in range(start, start + 100)), 0)
    made.branch_create("side")
    write_rows(made, "side", (*CHANGED, "new"), 1)
    for name in GONE:
        made.mutate("query d($n: String) { delete P where name = $n }", {"n": name}, branch="side")
    return made


def identities(graph: Graph) -> dict[str, tuple[int, int]]:
    """The row id of every row, and the version it was made in."""
    engine = graph._engine
    entry = engine.manifest.load(BranchName("main")).snapshot.entry(TableKey("node:P"))
    table = engine.store.tables.open(entry.at)
    found = table.read(["id", "_row_created_at_version"], row_id=True).to_pylist()
    return {row["id"]: (row["_rowid"], row["_row_created_at_version"]) for row in found}


@pytest.mark.parametrize("target", ["as it was", "written", "compacted", "written and compacted"])
def test_rows_that_stay_or_change_keep_their_identity(graph: Graph, target: str) -> None:
    if "written" in target:
        write_rows(graph, "main", ("n0004", "n0250", "late"), 9)
        graph.mutate('query d() { delete P where name = "n0399" }')
    if "compacted" in target:
        graph.optimize()
    before = identities(graph)
    graph.merge("side")
    after = identities(graph)
    assert after.keys() == (before.keys() | {"new"}) - set(GONE)
    assert {name: after[name] for name in before.keys() & after.keys()} == {
        name: found for name, found in before.items() if name in after
    }
    rows = {row["name"]: row["a"] for row in graph.table("P").to_pylist()}
    assert [rows[name] for name in CHANGED] == [1, 1, 1]
    assert rows["n0004"] == (9 if "written" in target else 0)
    assert_settled(graph)


@pytest.mark.parametrize("granularity", ["row", "property"])
def test_rows_that_both_sides_changed_are_replaced_in_place(
    graph: Graph, granularity: "MergeGranularity"
) -> None:
    names = {"n": "n0003"}
    graph.mutate('query u($n: String) { update P set { b: "main" } where name = $n }', names)
    if granularity == "row":
        assert len(graph.merge("side", dry_run=True).conflicts) == 1
        write_rows(graph, "side", ("n0003",), 0)
    before = identities(graph)
    graph.merge("side", granularity=granularity)
    row = next(row for row in graph.table("P").to_pylist() if row["name"] == "n0003")
    assert (row["a"], row["b"]) == ((0, "main") if granularity == "row" else (1, "main"))
    assert identities(graph)["n0003"] == before["n0003"]
    assert_settled(graph)


def test_a_merge_looks_nothing_up_in_a_target_that_was_not_rewritten(graph: Graph) -> None:
    """Every read is of rows that changed: none goes through an index or over the table."""
    graph.ensure_indices()
    with counting() as direct:
        graph.merge("side")
    assert direct[Cost.STAGE_MERGE] == 1
    assert direct[Cost.STAGE_MERGE_ROWS] == len(CHANGED)
    assert direct[Cost.STAGE_DELETE] == 0
    assert direct[Cost.TABLE_COMMITS] == 2
    assert direct[Cost.TABLE_SCANS] <= 5
