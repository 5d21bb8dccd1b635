"""Graphs whose history lies in tables of its own: a history that cannot be read is never taken for an empty one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.manifest.stamp import stamp_of
from omnigraphdb.storage.layout import LEGACY_ACTORS, LEGACY_COMMITS
from tests.support.old_graphs import downgrade
from tests.support.settled import digest

SCHEMA = "node Person { name: String @key }"


def add(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query m() {{ insert Person {{ name: "{name}" }} }}', branch=branch, actor="ann")


def names(graph: Graph, branch: str) -> list[str]:
    return sorted(graph.table("Person", branch=branch)["name"].to_pylist())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A graph of shape 3 with a branch; both have commits of their own."""
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        add(graph, "shared")
        graph.branch_create("side")
        for number in range(3):
            add(graph, f"side {number}", "side")
        add(graph, "main")
        downgrade(graph)
    return tmp_path / "g"


def test_an_old_graph_keeps_its_history_when_it_is_written(home: Path) -> None:
    with omnigraphdb.open(home) as graph:
        assert len(graph.commits(branch="side")) == 5
        add(graph, "late", "side")
        assert len(graph.commits(branch="side")) == 6
        assert {c.actor for c in graph.commits(branch="side")} == {"ann", None}
        assert str(graph.merge("side").outcome) == "merged"


def test_a_migrated_branch_needs_its_old_history_no_more(home: Path) -> None:
    with omnigraphdb.open(home) as graph:
        add(graph, "late", "side")
    lose_ref(home)
    with omnigraphdb.open(home) as graph:
        assert len(graph.commits(branch="side")) == 6
        assert {b.name: b.head for b in graph.branches()}["side"] == graph.commits(branch="side")[
            0
        ].id
        graph.branch_create("child", from_branch="side")
        assert len(graph.commits(branch="child")) == 6
        assert str(graph.merge("side").outcome) == "merged"


def lose_ref(home: Path) -> None:
    (home / LEGACY_COMMITS / "_refs" / "branches" / "side.json").unlink()


def lose_files(home: Path) -> None:
    shutil.rmtree(home / LEGACY_COMMITS / "tree" / "side" / "_versions")


def lose_rows(home: Path) -> None:
    shutil.rmtree(home / LEGACY_COMMITS / "tree" / "side" / "data")


def lose_versions(home: Path) -> None:
    shutil.rmtree(home / LEGACY_COMMITS / "_versions")


def lose_actors(home: Path) -> None:
    shutil.rmtree(home / LEGACY_ACTORS / "_versions")


@pytest.mark.parametrize("lose", [lose_ref, lose_files, lose_rows])
def test_a_branch_whose_old_history_is_lost_is_not_stamped_and_can_be_read(
    home: Path, lose: Callable[[Path], None]
) -> None:
    omnigraphdb.open(home).close()
    lose(home)
    before = digest(home)
    with omnigraphdb.open(home) as graph:
        with pytest.raises(omnigraphdb.StorageError, match=LEGACY_COMMITS) as caught:
            add(graph, "late", "side")
        assert "side" in str(caught.value)
        assert names(graph, "side") == ["shared", "side 0", "side 1", "side 2"]
        assert stamp_of(graph._engine.manifest.rows.load("side").metadata) == 3
        assert graph.pending_recoveries() == []
    with omnigraphdb.open(home, read_only=True) as graph:
        assert names(graph, "side") == ["shared", "side 0", "side 1", "side 2"]
    assert _without_data(digest(home)) == _without_data(before)


def _without_data(files: dict[str, str]) -> dict[str, str]:
    """Rows that were staged and never committed are nobody's."""
    return {path: held for path, held in files.items() if "/data/" not in path}


@pytest.mark.parametrize("lose", [lose_versions, lose_actors])
def test_a_graph_whose_old_history_is_damaged_opens_read_only_and_is_not_stamped(
    home: Path, lose: Callable[[Path], None]
) -> None:
    lose(home)
    before = digest(home)
    with pytest.raises(omnigraphdb.StorageError, match="could not be read") as caught:
        omnigraphdb.open(home)
    assert "read-only" in str(caught.value.hint)
    with omnigraphdb.open(home, read_only=True) as graph:
        assert names(graph, "main") == ["main", "shared"]
        assert stamp_of(graph._engine.manifest.rows.load(None).metadata) == 3
    assert digest(home) == before


def test_a_branch_whose_old_history_is_lost_can_be_deleted(home: Path) -> None:
    lose_ref(home)
    with omnigraphdb.open(home) as graph:
        graph.branch_delete("side")
        add(graph, "late")
        assert names(graph, "main") == ["late", "main", "shared"]
