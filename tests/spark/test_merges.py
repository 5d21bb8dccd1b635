"""Merges and diffs by executors end as those of this process do: the same rows, the same conflicts in the same words."""

import random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from omnigraph.api.comparisons import ChangePage
from omnigraph.api.graph import Graph
from omnigraph.errors import MergeConflicts
from tests.support.merge_ways import (
    FEW,
    apply_step,
    content,
    in_steps,
    make_random_steps,
    merge_by,
    merge_graph,
)

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def end(graph: Graph, granularity: Any, spark: Any) -> Any:
    """Merge, and give the rows or the conflicts."""
    try:
        if spark is None:
            done = merge_by(graph, in_steps(2), granularity=granularity)
        else:
            done = graph.merge("side", granularity=granularity, spark=spark)
            assert (done.engine, done.reason) == ("spark", "Spark was asked for")
    except MergeConflicts as error:
        return [one.to_dict() for one in error.conflicts], error.total
    assert graph.doctor() == []
    return done.tables, content(graph)


def show(page: ChangePage) -> list[Any]:
    """What each commit of a page changed, whatever graph it is of."""
    return [
        [
            (c.op, c.table_key, c.id, c.properties, c.endpoints, c.before, c.after)
            for c in one.changes
        ]
        for one in page.blocks
    ]


def compare_runners(steps: list[Any], granularity: str, spark: Any) -> Any:
    with merge_graph() as here, merge_graph() as there:
        for branch, step in steps:
            for graph in (here, there):
                apply_step(graph, branch, step)
        changes = here.diff("main", "side").changes
        told = there.diff("main", "side", spark=spark)
        assert told.engine == "spark"
        assert [(c.op, c.table_key, c.id, c.properties, c.endpoints) for c in told] == [
            (c.op, c.table_key, c.id, c.properties, c.endpoints) for c in changes
        ]
        page = there.changes(branch="side", limit=1_000, images=True, spark=spark)
        assert (page.engine, page.reason) == ("spark", "Spark was asked for")
        assert show(page) == show(here.changes(branch="side", limit=1_000, images=True))
        expected = end(here, granularity, None)
        assert end(there, granularity, spark) == expected
        return expected


def test_conflicts_of_every_kind_are_found_by_executors(spark: Any) -> None:
    conflicts, total = compare_runners(FEW, "row", spark)
    assert total == len(conflicts) > 1


@pytest.mark.parametrize("seed", [1, 2])
def test_random_work_is_merged_alike(spark: Any, seed: int) -> None:
    chance = random.Random(seed)
    compare_runners(make_random_steps(chance, 8), chance.choice(["row", "property"]), spark)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 40))
def test_much_random_work_is_merged_alike(spark: Any, seed: int) -> None:
    chance = random.Random(seed)
    compare_runners(make_random_steps(chance, 12), chance.choice(["row", "property"]), spark)
