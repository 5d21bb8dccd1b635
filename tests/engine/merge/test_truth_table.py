"""The three-way truth table, every cell at once, against an oracle over plain dicts."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import MergeConflicts
from tests.engine.merge.conftest import assert_settled
from tests.support.merge_model import Decide, merge_graph, merge_properties, merge_row

if TYPE_CHECKING:
    from omnigraphdb.api.types import MergeGranularity

SCHEMA = "node Item { name: String @key  a: I32?  b: String? }\nnode Other { name: String @key }"
VALUES: list[tuple[int | None, str | None] | None] = [
    None,
    (None, None),
    (1, None),
    (1, ""),
    (2, "x"),
]
"""No row, and four different ones; NULL and the empty text among them."""

CELLS = list(itertools.product(VALUES, repeat=3))
DECIDE: dict[str, Decide] = {"row": merge_row, "property": merge_properties}


def rows_of(cells: list[tuple[Any, ...]], side: int) -> dict[str, dict[str, Any]]:
    """The rows one side has: one id per cell of the table."""
    found = {}
    for number, cell in enumerate(cells):
        if cell[side] is not None:
            name = f"i{number:03d}"
            found[name] = {"id": name, "name": name, "a": cell[side][0], "b": cell[side][1]}
    return found


def write_rows(
    graph: Graph, branch: str, rows: dict[str, dict[str, Any]], before: dict[str, Any]
) -> None:
    """Bring a branch from one content to another by upserts and deletes."""
    fresh = [{"type": "Item", "data": row} for i, row in rows.items() if before.get(i) != row]
    fresh += [{"type": "Other", "data": {"name": branch}}]
    graph.load(fresh, mode="merge", branch=branch)
    for name in before.keys() - rows.keys():
        graph.mutate(
            "query d($n: String) { delete Item where name = $n }", {"n": name}, branch=branch
        )


def items(graph: Graph, branch: str = "main") -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in graph.table("Item", branch=branch).to_pylist()}


def story(path: Path, cells: list[tuple[Any, ...]]) -> tuple[Graph, list[dict[str, Any]]]:
    sides = [rows_of(cells, side) for side in range(3)]
    graph = omnigraphdb.init(path, SCHEMA)
    write_rows(graph, "main", sides[0], {})
    graph.branch_create("side")
    write_rows(graph, "side", sides[1], sides[0])
    write_rows(graph, "main", sides[2], sides[0])
    return graph, sides


@pytest.mark.parametrize("granularity", DECIDE)
def test_every_cell_that_conflicts_is_reported_and_nothing_is_written(
    tmp_path: Path, granularity: "MergeGranularity"
) -> None:
    graph, sides = story(tmp_path / "g", CELLS)
    base, source, target = ({"node:Item": side} for side in sides)
    _, expected = merge_graph(base, source, target, DECIDE[granularity])
    head = graph.commits()[0]
    with pytest.raises(MergeConflicts) as caught:
        graph.merge("side", granularity=granularity)
    found = {(str(c.kind), c.table_key, c.row_id) for c in caught.value.conflicts}
    assert found == expected
    assert len(caught.value.conflicts) == len(expected)
    for conflict in caught.value.conflicts:
        assert conflict.row_id is not None
        rows = (conflict.base, conflict.source, conflict.target)
        assert rows == tuple(side.get(conflict.row_id) for side in sides)
    preview = graph.merge("side", granularity=granularity, dry_run=True)
    assert preview.conflicts == caught.value.conflicts
    assert (items(graph), graph.commits()[0]) == (sides[2], head)
    assert_settled(graph)


@pytest.mark.parametrize("granularity", DECIDE)
def test_every_cell_that_merges_gives_the_row_of_the_oracle(
    tmp_path: Path, granularity: "MergeGranularity"
) -> None:
    decide = DECIDE[granularity]
    quiet = [c for c in CELLS if not isinstance(decide(*_rows(c)), str)]
    graph, sides = story(tmp_path / "g", quiet)
    base, source, target = ({"node:Item": side} for side in sides)
    expected, conflicts = merge_graph(base, source, target, decide)
    assert not conflicts
    preview = graph.merge("side", granularity=granularity, dry_run=True)
    result = graph.merge("side", granularity=granularity)
    assert items(graph) == expected["node:Item"]
    assert (result.tables, str(result.outcome)) == (preview.tables, "merged")
    before, after = target["node:Item"], expected["node:Item"]
    assert result.tables["node:Item"] == (
        len(after.keys() - before.keys()),
        sum(before[i] != after[i] for i in before.keys() & after.keys()),
        len(before.keys() - after.keys()),
    )
    assert items(graph, "side") == sides[1]
    assert_settled(graph)


def _rows(cell: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    first, second, third = (None if v is None else {"a": v[0], "b": v[1]} for v in cell)
    return first, second, third
