"""Rows that lie far apart take over in two commits: what a merge leaves is the same as in one."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts, OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import BranchName, TableKey
from omnigraphdb.limits import COPY_ROWS_MIN
from omnigraphdb.storage.counters import Cost, counting
from tests.support.settled import assert_settled

SCHEMA = "node P { name: String @key  a: I64?  b: String? }"
FAR = "omnigraphdb.storage.lance.tables.SPAN_ROWS_MAX"
ROWS = 300


def names(*numbers: int) -> list[str]:
    return [f"n{number:04d}" for number in numbers]


def write_rows(graph: Graph, branch: str, chosen: list[str], a: int) -> None:
    rows = pa.table({"name": chosen, "a": pa.array([a] * len(chosen), pa.int64())})
    graph.load({"P": rows}, mode="merge", branch=branch)


def remove(graph: Graph, branch: str, name: str) -> None:
    graph.mutate("query d($n: String) { delete P where name = $n }", {"n": name}, branch=branch)


def made(path: Path) -> Graph:
    """Three fragments, and a branch."""
    graph = omnigraphdb.init(path, SCHEMA, config={"maintenance": "off"})
    for start in range(0, ROWS, 100):
        write_rows(graph, "main", names(*range(start, start + 100)), 0)
    graph.branch_create("side")
    return graph


def facts(graph: Graph, branch: str = "main") -> dict[str, tuple[Any, ...]]:
    """The values of every row, its row id, and the commit of the table it was born in."""
    engine = graph._engine
    entry = engine.manifest.load(BranchName(branch)).snapshot.entry(TableKey("node:P"))
    table = engine.store.tables.open(entry.at)
    found = table.read(["id", "a", "b", "_row_created_at_version"], row_id=True).to_pylist()
    return {r["id"]: (r["a"], r["b"], r["_rowid"], r["_row_created_at_version"]) for r in found}


def spread(graph: Graph) -> None:
    write_rows(graph, "side", names(3, 150, 299), 1)


def spread_and_new(graph: Graph) -> None:
    write_rows(graph, "side", [*names(3, 150, 299), "new", "newer"], 1)


def new_elsewhere(graph: Graph) -> None:
    spread(graph)
    write_rows(graph, "side", ["new", "newer"], 1)


def some_gone(graph: Graph) -> None:
    spread_and_new(graph)
    remove(graph, "side", "n0007")
    remove(graph, "side", "n0150")


def some_as_they_were(graph: Graph) -> None:
    spread_and_new(graph)
    write_rows(graph, "side", names(150, 200), 0)


def target_moved(graph: Graph) -> None:
    spread_and_new(graph)
    write_rows(graph, "main", [*names(4, 151, 298), "late"], 2)
    remove(graph, "main", "n0009")


WORKS = [spread, spread_and_new, new_elsewhere, some_gone, some_as_they_were, target_moved]


@pytest.mark.parametrize("work", WORKS)
def test_two_commits_leave_what_one_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    near, far = made(tmp_path / "near"), made(tmp_path / "far")
    for graph in (near, far):
        work(graph)
    monkeypatch.setattr(FAR, 10**9)
    told = near.merge("side")
    monkeypatch.setattr(FAR, 0)
    with counting() as costs:
        assert far.merge("side").tables == told.tables
    assert costs[Cost.TABLE_COMMITS] == 2
    before, after = facts(near), facts(far)
    old = [name for name in before if name.startswith("n0") or name == "late"]
    assert {name: after[name] for name in old} == {name: before[name] for name in old}
    assert {n: found[:2] for n, found in after.items()} == {
        n: found[:2] for n, found in before.items()
    }
    assert len({row_id for *_, row_id, _ in after.values()}) == len(after)
    assert_settled(far)


@pytest.mark.parametrize("work", WORKS)
def test_the_branch_may_go_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Any
) -> None:
    monkeypatch.setattr(FAR, 0)
    graph = made(tmp_path / "g")
    work(graph)
    graph.merge("side")
    graph.branch_delete("side")
    graph.branch_create("again")
    write_rows(graph, "again", names(3, 4, 299), 5)
    graph.merge("again")
    graph.branch_delete("again")
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    seen = omnigraphdb.open(tmp_path / "g", read_only=True)
    rows = {row["name"]: row["a"] for row in seen.table("P").to_pylist()}
    assert [rows[name] for name in names(3, 4, 299)] == [5, 5, 5]
    assert rows == {name: values[0] for name, values in facts(graph).items()}
    assert_settled(graph)


def test_a_target_that_is_forked_first_takes_over_on_its_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FAR, 0)
    graph = made(tmp_path / "g")
    graph.branch_create("other")
    spread_and_new(graph)
    graph.merge("side", into="other")
    before, after = facts(graph), facts(graph, "other")
    assert {name for name in after if after[name] != before.get(name)} == {
        *names(3, 150, 299),
        "new",
        "newer",
    }
    assert [after[name][2:] for name in names(3, 150)] == [
        before[name][2:] for name in names(3, 150)
    ]
    graph.branch_delete("side")
    assert facts(graph, "other") == after
    assert_settled(graph)


def test_a_merge_that_dies_between_its_commits_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FAR, 0)
    graph = made(tmp_path / "g")
    spread_and_new(graph)
    before = facts(graph)
    with armed(Failpoint.MERGE_APPENDED), pytest.raises(OmniError):
        graph.merge("side")
    assert facts(graph) == before
    reopened = omnigraphdb.open(tmp_path / "g")
    assert facts(reopened) == before
    reopened.merge("side")
    assert facts(reopened)["n0150"][0] == 1
    assert_settled(reopened)


# ---- whole fragments


def many(start: int, count: int) -> pa.Table:
    return pa.table({"name": [f"new {n:05d}" for n in range(start, start + count)]})


def fragment_rows(graph: Graph) -> list[int]:
    engine = graph._engine
    entry = engine.manifest.load(BranchName("main")).snapshot.entry(TableKey("node:P"))
    return [part.physical_rows for part in engine.store.tables.open(entry.at).fragments()]


def test_large_fragments_are_taken_over_as_they_are_and_small_ones_written_together(
    tmp_path: Path,
) -> None:
    graph = made(tmp_path / "g")
    graph.load({"P": many(0, COPY_ROWS_MIN)}, mode="append", branch="side")
    graph.load({"P": many(COPY_ROWS_MIN, 5)}, mode="append", branch="side")
    graph.load({"P": many(COPY_ROWS_MIN + 5, 6)}, mode="append", branch="side")
    graph.merge("side")
    assert fragment_rows(graph) == [100, 100, 100, COPY_ROWS_MIN, 11]
    graph.branch_delete("side")
    assert len(facts(graph)) == ROWS + COPY_ROWS_MIN + 11
    assert_settled(graph)


def test_rows_that_a_branch_took_back_again_are_left_behind(tmp_path: Path) -> None:
    graph = made(tmp_path / "g")
    graph.load({"P": many(0, COPY_ROWS_MIN)}, mode="append", branch="side")
    remove(graph, "side", "new 00007")
    graph.merge("side")
    assert fragment_rows(graph) == [100, 100, 100, COPY_ROWS_MIN - 1]
    assert "new 00007" not in facts(graph)
    assert_settled(graph)


# ---- a long life


def test_lines_that_number_rows_differently_do_not_mix_them_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lines have the same new row in the same place of fragments with the same number, under other row ids."""
    monkeypatch.setattr(FAR, 0)
    graph = made(tmp_path / "g")
    write_rows(graph, "side", names(3), 1)
    write_rows(graph, "side", ["both", "beside"], 1)
    write_rows(graph, "main", ["mine"], 1)
    write_rows(graph, "main", ["both", "beside"], 1)
    graph.merge("side")
    write_rows(graph, "side", ["both"], 2)
    before = facts(graph)
    assert before["both"][2] != facts(graph, "side")["both"][2]
    graph.merge("side")
    after = facts(graph)
    assert after["both"] == (2, *before["both"][1:])
    assert {n: found for n, found in after.items() if n != "both"} == {
        n: found for n, found in before.items() if n != "both"
    }
    assert_settled(graph)


@pytest.mark.parametrize("seed", range(6))
def test_rows_keep_their_identity_through_many_merges_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(FAR, 0)
    graph, chance = made(tmp_path / "g"), random.Random(seed)
    for number in range(8):
        for branch in ("side", "main"):
            known = sorted(facts(graph, branch))
            some = chance.sample(known, 3)
            write_rows(graph, branch, [some[0], f"{branch} {number}"], number)
            # Written again as it was: no change, but it lies elsewhere now.
            write_rows(graph, branch, [some[1]], facts(graph, branch)[some[1]][0])
            if chance.random() < 0.3:
                remove(graph, branch, some[2])
        source, target = chance.choice([("side", "main"), ("main", "side")])
        before = facts(graph, target)
        try:
            graph.merge(source, into=target)
        except MergeConflicts as conflicts:
            put_all(graph, source, target, conflicts)
            before = facts(graph, target)
            graph.merge(source, into=target)
        after = facts(graph, target)
        kept = before.keys() & after.keys()
        assert {n: after[n][2:] for n in kept} == {n: before[n][2:] for n in kept}
        assert len({row_id for *_, row_id, _ in after.values()}) == len(after)
    assert_settled(graph)


def put_all(graph: Graph, source: str, target: str, conflicts: MergeConflicts) -> None:
    """Let the target have what the source has, so that they agree."""
    for conflict in conflicts.conflicts:
        assert conflict.row_id is not None
        row = facts(graph, source).get(conflict.row_id)
        if row is None:
            remove(graph, target, conflict.row_id)
        else:
            write_rows(graph, target, [conflict.row_id], row[0])
