"""What maintenance costs and saves, in counts: flat for a writer, nothing when there is nothing to do."""

from pathlib import Path

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.ids import MAIN
from omnigraphdb.limits import INDEX_ROWS_MIN, MANIFEST_FRAGMENTS_MAX, SMALL_FRAGMENTS_MAX
from omnigraphdb.storage.counters import Cost, Costs, counting
from tests.support.maintenance import ADD, FIND, fragments, scattered

SCHEMA = "node Person { name: String @key  age: I32? @index }"
DEPTH = 120


def written(root: Path, count: int) -> tuple[Graph, list[Costs]]:
    """A graph after so many one-row commits, and what each of them cost."""
    graph = omnigraphdb.init(root, SCHEMA)
    costs = []
    for number in range(count):
        with counting() as one:
            graph.mutate(ADD, {"name": f"p{number}", "age": number})
        costs.append(one)
    return graph, costs


def test_maintenance_comes_once_in_many_writes_and_the_others_do_not_notice(tmp_path: Path) -> None:
    graph, costs = written(tmp_path / "g", DEPTH)
    with graph:
        tended = [one for one in costs if one[Cost.STAGE_COMPACTION]]
        assert DEPTH // (SMALL_FRAGMENTS_MAX + 2) <= len(tended) <= DEPTH // SMALL_FRAGMENTS_MAX
        plain = [one for one in costs if not one[Cost.STAGE_COMPACTION]]
        assert {one[Cost.TABLE_COMMITS] for one in plain} == {1}
        assert {one[Cost.MANIFEST_SWAPS] for one in plain} == {1}
        assert {one[Cost.TABLE_SCANS] for one in plain[-20:]} == {0}
        assert max(one[Cost.TABLE_COMMITS] for one in tended) <= 3


def test_reads_and_writes_meet_as_few_fragments_after_many_commits_as_after_few(
    tmp_path: Path,
) -> None:
    graph, _ = written(tmp_path / "g", DEPTH)
    with graph:
        assert len(fragments(graph)) <= SMALL_FRAGMENTS_MAX + 2
        assert graph._engine.manifest.load(MAIN).fragments <= MANIFEST_FRAGMENTS_MAX + 1


def test_a_point_read_costs_the_same_after_many_commits(tmp_path: Path) -> None:
    asked = []
    for depth in (2, DEPTH):
        graph, _ = written(tmp_path / str(depth), depth)
        graph.close()
        with (
            omnigraphdb.open(tmp_path / str(depth), read_only=True) as reader,
            counting() as costs,
        ):
            assert reader.query(FIND, {"name": "p1"}).rows == [{"p.name": "p1", "p.age": 1}]
        asked.append((costs[Cost.TABLE_OPENS], costs[Cost.TABLE_SCANS]))
    assert asked[0] == asked[1]


def test_an_optimized_graph_is_optimized_for_nothing(tmp_path: Path) -> None:
    with scattered(tmp_path / "g") as graph:
        graph.optimize()
        with counting() as costs:
            graph.optimize()
        for none in (Cost.TABLE_COMMITS, Cost.MANIFEST_SWAPS, Cost.STAGE_COMPACTION):
            assert costs[none] == 0
        assert costs[Cost.OBJECT_WRITES] == 0


def test_all_indexes_of_a_table_are_one_commit(tmp_path: Path) -> None:
    with scattered(tmp_path / "g") as graph, counting() as costs:
        assert graph.optimize().tables
        assert costs[Cost.MANIFEST_SWAPS] == 1


def test_a_load_into_an_indexed_table_builds_nothing(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        rows = [{"type": "Person", "data": {"name": f"p{i}"}} for i in range(INDEX_ROWS_MIN)]
        graph.load(rows, mode="append")
        with counting() as costs:
            graph.load([{"type": "Person", "data": {"name": "late"}}], mode="merge")
        assert costs[Cost.STAGE_INDICES] == 0
        assert costs[Cost.TABLE_COMMITS] == costs[Cost.MANIFEST_SWAPS] == 1


def test_a_small_load_builds_nothing(tmp_path: Path) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph, counting() as costs:
        graph.load([{"type": "Person", "data": {"name": "p"}}], mode="append")
        assert costs[Cost.STAGE_INDICES] == 0
        assert costs[Cost.TABLE_COMMITS] == costs[Cost.MANIFEST_SWAPS] == 1
