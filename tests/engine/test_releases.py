"""A graph that an earlier release wrote is opened, read, merged and written to by the code of today."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniWarning
from tests.support.releases import Release, describe, list_releases, near, show_rows, thing
from tests.support.settled import assert_settled, digest

RELEASES = pytest.mark.parametrize("release", list_releases(), ids=lambda one: one.name)
BRANCHES = ("main", "lazy", "left", "left-before", "open", "right")


@pytest.fixture
def root(release: Release, tmp_path: Path) -> Path:
    """The graph of a release at a place of its own."""
    found = release.unpack(tmp_path)
    assert omnigraphdb.relocate(found).branches.keys() == set(BRANCHES) - {"main"}
    return found


@pytest.fixture
def graph(root: Path) -> Iterator[Graph]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = omnigraphdb.open(root)
    yield opened
    opened.close()


@RELEASES
@pytest.mark.parametrize("read_only", [True, False])
def test_main_is_read_before_the_graph_is_relocated(
    release: Release, read_only: bool, tmp_path: Path
) -> None:
    expected = release.expected
    with pytest.warns(OmniWarning, match="moved or copied"):
        graph = omnigraphdb.open(release.unpack(tmp_path), read_only=read_only)
    for commit, shown in expected["branches"]["main"]["commits"].items():
        snapshot = graph.snapshot(at=commit)
        for key, rows in shown["tables"].items():
            assert show_rows(snapshot.table(key)) == [expected["rows"][n] for n in rows]
    graph.close()


@RELEASES
def test_every_commit_of_every_branch_reads_as_it_did(release: Release, root: Path) -> None:
    before = digest(root)
    with omnigraphdb.open(root, read_only=True) as graph:
        assert _rows_shown(describe(graph)) == _rows_shown(release.expected)
        assert_settled(graph)
    assert digest(root) == before


def _rows_shown(described: dict[str, object]) -> dict[str, object]:
    """A description with the rows in the place of their numbers."""
    rows, branches = described["rows"], described["branches"]
    assert isinstance(rows, list)
    assert isinstance(branches, dict)
    shown = {
        (name, id): commit
        | {"tables": {key: [rows[n] for n in held] for key, held in commit["tables"].items()}}
        for name, branch in branches.items()
        for id, commit in branch["commits"].items()
    }
    return {"commits": shown, "recoveries": described["recoveries"]}


@RELEASES
def test_every_branch_is_written_to(release: Release, graph: Graph) -> None:
    for branch in BRANCHES:
        graph.load(
            [thing("new", text="red knot"), thing("a", text="blue rope"), near("new", "a")],
            mode="merge", branch=branch,
        )  # fmt: skip
        graph.mutate('query m() { delete Thing where key = "full" }', branch=branch)
        found = graph.query(
            'query q() { match { $t: Thing search($t.text, "rope") } return { $t.key as key } }',
            branch=branch,
        )
        assert [row["key"] for row in found.rows] == ["a"]
    graph.ensure_indices()
    graph.optimize()
    graph.cleanup(keep=2, confirm=True)
    assert_settled(graph)


@RELEASES
def test_branches_are_merged(release: Release, graph: Graph) -> None:
    keys = {branch: _keys(graph, branch) for branch in BRANCHES}
    # The branch that was merged and deleted is part of main; `open` removed "b" since it left `right`.
    assert "brief" in keys["main"]
    assert "b" not in keys["open"]
    assert graph.merge("left", into="right").outcome == "already_up_to_date"
    assert graph.merge("open", into="right").outcome == "fast_forward"
    assert _keys(graph, "right") == keys["open"]
    assert graph.merge("right").outcome == "merged"
    assert _keys(graph, "main") == (keys["main"] | keys["open"]) - {"b"}
    assert graph.merge("main", into="lazy").outcome == "fast_forward"
    assert_settled(graph)


def _keys(graph: Graph, branch: str) -> set[str]:
    return set(graph.table("Thing", branch=branch)["key"].to_pylist())


@RELEASES
def test_the_schema_is_changed_once_main_is_alone(release: Release, graph: Graph) -> None:
    for branch in ("open", "right", "left-before", "left", "lazy"):
        graph.branch_delete(branch)
    changed = graph.schema_source.replace("added: I64?", "added: I64?  more: DateTime?")
    assert graph.schema_apply(changed).applied
    graph.load([thing("new", more="2026-01-01T00:00:00Z")], mode="append")
    assert_settled(graph)


@RELEASES
def test_a_release_does_not_need_the_place_it_was_written_at(root: Path, release: Release) -> None:
    shutil.move(root, root.parent / "elsewhere")
    omnigraphdb.relocate(root.parent / "elsewhere")
    with omnigraphdb.open(root.parent / "elsewhere") as graph:
        assert _keys(graph, "open")
