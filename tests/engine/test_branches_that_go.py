"""Branches that are deleted while somebody looks at all of them: nobody who did not ask for them notices."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import NotFound
from omnigraphdb.storage.lance.rows import LanceRows
from omnigraphdb.storage.values import BranchRef

SCHEMA = "node Person { name: String @key }"
ADD = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A graph whose branch 'gone' is deleted whenever the branches have just been listed."""
    made = omnigraphdb.init(tmp_path / "g", SCHEMA)
    for name in ("gone", "middle", "side"):
        made.branch_create(name)
        made.mutate(ADD, {"n": name}, branch=name)
    refs = made._engine.manifest.rows.branches()
    made.branch_delete("gone")
    real, seen = LanceRows.branches, iter([True])

    def stale(self: LanceRows) -> Mapping[str, BranchRef]:
        # What one listing showed, and no later one shows.
        return refs if next(seen, False) else real(self)

    names = LanceRows.branch_names
    named = iter([True])
    monkeypatch.setattr(LanceRows, "branches", stale)
    monkeypatch.setattr(
        LanceRows,
        "branch_names",
        lambda self: frozenset(refs) if next(named, False) else names(self),
    )
    return made


VERBS: dict[str, Callable[[Graph], object]] = {
    "open": lambda graph: omnigraphdb.open(graph.uri).close(),
    "open to read": lambda graph: omnigraphdb.open(graph.uri, read_only=True).close(),
    "doctor": lambda graph: graph.doctor(),
    "branches": lambda graph: graph.branches(),
}


@pytest.mark.parametrize("verb", VERBS)
def test_who_looks_at_every_branch_is_not_stopped_by_one_that_went(graph: Graph, verb: str) -> None:
    VERBS[verb](graph)
    graph.branches()
    assert [branch.name for branch in graph.branches()] == ["main", "middle", "side"]


def test_a_commit_is_found_on_another_branch(graph: Graph) -> None:
    wanted = graph._engine.manifest.current("side").head  # type: ignore[arg-type]
    assert wanted is not None
    assert graph.commit(wanted.id).branch == "side"


def test_a_commit_that_is_nowhere_is_not_found(graph: Graph) -> None:
    with pytest.raises(NotFound, match="01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        graph.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_a_merge_looks_for_shared_work_on_the_branches_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = omnigraphdb.init(tmp_path / "m", SCHEMA)
    for name in ("aside", "gone", "one", "two"):
        graph.branch_create(name)
    graph.mutate(ADD, {"n": "shared"}, branch="gone")
    for name in ("one", "two"):
        graph.merge("gone", into=name)
        graph.mutate(ADD, {"n": name}, branch=name)
    refs = graph._engine.manifest.rows.branches()
    graph.branch_delete("gone")
    monkeypatch.setattr(LanceRows, "branches", lambda self: refs)
    assert graph.merge("one", into="two").outcome == "merged"
    assert set(graph.table("Person", branch="two")["id"].to_pylist()) == {"shared", "one", "two"}
