"""One story with and without the code that reads and writes Lance's own files: both graphs are the same."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConfigError
from omnigraphdb.limits import BTREE_ROWS_MIN, COPY_ROWS_MIN
from omnigraphdb.storage.lance import stage, table
from omnigraphdb.storage.lance import tables as lance_tables
from omnigraphdb.storage.lance.unofficial import btrees
from tests.support.settled import assert_settled

SCHEMA = """
node Person { name: String @key  age: I32?  note: String? }
edge Knows: Person -> Person { since: I32? }
"""
WIDER = SCHEMA.replace("note: String?", 'remark: String? @rename_from("note")  mail: String?')
COUNT = BTREE_ROWS_MIN
"""Rows that make a B-tree worth sorting here."""

UNOFFICIAL = (
    (btrees, "build_segment"),
    (lance_tables, "copy_fragments"),
    (stage, "share_deletions"),
    (stage, "versions_of"),
    (table, "row_ids_at"),
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each unofficial way was taken."""
    counts: Counter[str] = Counter()
    for module, name in UNOFFICIAL:
        original = getattr(module, name)

        def counted(*args: Any, name: str = name, original: Any = original, **named: Any) -> Any:
            counts[name] += 1
            return original(*args, **named)

        monkeypatch.setattr(module, name, counted)
    monkeypatch.setattr(lance_tables, "SPAN_ROWS_MAX", COUNT // 2)
    return counts


def people(numbers: range, age: int) -> dict[str, pa.Table]:
    names = [f"p{number:05d}" for number in numbers]
    ages = pa.array([age] * len(names), pa.int32())
    return {"Person": pa.table({"name": names, "age": ages, "note": ["n"] * len(names)})}


def delete(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query drop() {{ delete Person where name = "{name}" }}', branch=branch)


def tell(root: Path, unofficial: str) -> list[list[str]]:
    """Load, index, delete, update rows all over a table, merge, change the schema; gives what each step shows."""
    config = {"unofficial_lance": unofficial, "maintenance": "off"}
    graph = omnigraphdb.init(str(root), SCHEMA, config=config)
    graph.load(people(range(COUNT), 1), mode="append")
    ends = [f"p{number:05d}" for number in range(0, COUNT, 8)]
    ids = [f"k{number}" for number in range(len(ends))]
    graph.load({"Knows": pa.table({"id": ids, "src": ends, "dst": ends[::-1]})}, mode="append")
    graph.ensure_indices()
    graph.branch_create("side")
    graph.load(people(range(COUNT, COUNT + COPY_ROWS_MIN), 3), mode="append", branch="side")
    graph.merge("side")
    graph.load(people(range(0, COUNT, 96), 2), mode="merge", branch="side")
    delete(graph, "p00003", "side")
    graph.load(people(range(5, COUNT, 96), 4), mode="merge")
    delete(graph, "p00007")
    shown = [facts(graph)]
    graph.merge("side")
    shown += [facts(graph), [str(change) for change in graph.diff("side", "main").changes]]
    graph.branch_delete("side")
    graph.schema_apply(WIDER)
    graph.ensure_indices()
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    shown += [facts(graph)]
    assert_settled(graph)
    graph.close()
    return shown


def facts(graph: Graph) -> list[str]:
    lines = b"".join(bytes(part) for part in graph.export_lines())
    return sorted(lines.decode().splitlines())


def test_a_graph_is_the_same_with_the_api_of_lance_alone(
    tmp_path: Path, calls: Counter[str]
) -> None:
    official = tell(tmp_path / "official", "off")
    assert not calls
    assert tell(tmp_path / "unofficial", "on") == official
    assert set(calls) == {name for _, name in UNOFFICIAL}


@pytest.mark.parametrize(("first", "then"), [("on", "off"), ("off", "on")])
def test_what_one_way_wrote_the_other_reads(tmp_path: Path, first: str, then: str) -> None:
    shown = tell(tmp_path / "graph", first)[-1]
    with omnigraphdb.open(tmp_path / "graph", config={"unofficial_lance": then}) as graph:
        assert facts(graph) == shown
        delete(graph, "p00100")
        assert len(facts(graph)) < len(shown)
        assert_settled(graph)


def test_relocate_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with omnigraphdb.init(tmp_path / "graph", SCHEMA) as graph:
        graph.branch_create("side")
    shutil.move(tmp_path / "graph", tmp_path / "moved")
    monkeypatch.setenv("OMNIGRAPH_UNOFFICIAL_LANCE", "off")
    with pytest.raises(ConfigError, match="unofficial_lance"):
        omnigraphdb.relocate(tmp_path / "moved")
    monkeypatch.setenv("OMNIGRAPH_UNOFFICIAL_LANCE", "on")
    assert omnigraphdb.relocate(tmp_path / "moved").branches


def test_another_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unofficial_lance"):
        omnigraphdb.init(tmp_path / "graph", SCHEMA, config={"unofficial_lance": "maybe"})
