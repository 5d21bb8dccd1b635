"""A request that makes the ref of a branch arrives after the branch was deleted: its name comes back, and its files do not."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import BranchExists, TableNotFound
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A graph whose branch was deleted, and whose ref is there again."""
    home = tmp_path / "g"
    with omnigraphdb.init(home, SCHEMA) as graph:
        add(graph, "main", "a")
        graph.branch_create("side")
        add(graph, "side", "b")
        (ref,) = (home / "__manifest" / "_refs").rglob("side.json")
        late = ref.read_bytes()
        graph.branch_delete("side")
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_bytes(late)
    return home


def add(graph: Graph, branch: str, name: str) -> None:
    graph.load([{"type": "Person", "data": {"name": name}}], mode="append", branch=branch)


def test_a_ref_without_files_is_told_and_its_name_is_taken(home: Path) -> None:
    with omnigraphdb.open(home) as graph:
        (issue,) = graph.doctor()
        assert (issue.check, issue.branch) == ("unreadable branch", "side")
        assert "delete it again" in issue.remedy
        with pytest.raises(TableNotFound):
            graph.table("Person", branch="side")
        with pytest.raises(BranchExists):
            graph.branch_create("side")


@pytest.mark.parametrize("key", [None, "delete-side"])
def test_a_ref_without_files_is_deleted_and_its_name_is_free(home: Path, key: str | None) -> None:
    with omnigraphdb.open(home) as graph:
        graph.branch_delete("side", idempotency_key=key)
        assert_settled(graph)
        graph.branch_create("side")
        add(graph, "side", "c")
        assert sorted(graph.table("Person", branch="side")["name"].to_pylist()) == ["a", "c"]
        graph.merge("side")
        assert_settled(graph)
