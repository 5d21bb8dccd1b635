"""Lineage that a merge brings survives a crash of the merge, even when its source is deleted before recovery."""

import json
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.sidecar_json import decode, encode
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.limits import SIDECAR_COMMITS_MAX
from omnigraphdb.manifest.branches import delete_branch
from omnigraphdb.manifest.merged import commit_rows
from tests.faults.test_merge import kill, merge
from tests.unit.manifest.test_lineage import commit

SCHEMA = "node P { name: String @key  a: I32? }"
FORWARD = (Failpoint.MERGE_CONFIRMED, Failpoint.PUBLISH_PREPARED, Failpoint.PUBLISHED)


def write_row(graph: Graph, branch: str, name: str, a: int = 1) -> None:
    graph.load([{"type": "P", "data": {"name": name, "a": a}}], mode="merge", branch=branch)


def make_graph(path: Path) -> Graph:
    graph: Graph = omnigraphdb.init(path, SCHEMA)
    write_row(graph, "main", "a")
    graph.branch_create("f")
    write_row(graph, "f", "one")
    write_row(graph, "f", "two")
    write_row(graph, "main", "m")
    return graph


def delete_unhealed(uri: str, branch: str) -> None:
    """Delete a branch as a release would that does not recover first."""
    with omnigraphdb.open(uri, read_only=True) as graph:
        delete_branch(graph._engine.manifest, graph._engine.store.tables, branch)


def check(uri: str, merged_commits: list[str]) -> None:
    with omnigraphdb.open(uri) as graph:
        assert {row["name"] for row in graph.table("node:P").to_pylist()} == {
            "a",
            "m",
            "one",
            "two",
        }
        assert {*merged_commits} < {c.id for c in graph.commits(all=True)}
        parents = [c.merged_parent for c in graph.commits() if c.merged_parent]
        assert parents == [merged_commits[0]]
        assert graph.commit(merged_commits[0]).branch == "f"
        assert graph.doctor() == []
        with omnigraphdb.open(uri) as again:
            assert again.commits(all=True) == graph.commits(all=True)


@pytest.mark.parametrize("point", FORWARD)
def test_a_merge_that_failed_keeps_the_lineage_of_a_source_that_is_gone(
    tmp_path: Path, point: Failpoint
) -> None:
    graph = make_graph(tmp_path / "g")
    merged_commits = [c.id for c in graph.commits(branch="f", limit=2)]
    with armed(point), pytest.raises(OmniError):
        graph.merge("f")
    graph.close()
    delete_unhealed(graph.uri, "f")
    check(graph.uri, merged_commits)


@pytest.mark.parametrize("point", FORWARD)
def test_a_merge_that_was_killed_keeps_the_lineage_of_a_source_that_is_gone(
    tmp_path: Path, point: Failpoint
) -> None:
    with make_graph(tmp_path / "g") as graph:
        merged_commits = [c.id for c in graph.commits(branch="f", limit=2)]
    kill(merge, graph.uri, "f", "main", at=point)
    delete_unhealed(graph.uri, "f")
    check(graph.uri, merged_commits)


def test_a_merge_over_a_virtual_base_that_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """A base that is put together is never written: there is no window in which a scratch state could stay."""
    with make_graph(tmp_path / "g") as graph:
        for name in ("g", "x"):
            graph.branch_create(name)
        write_row(graph, "g", "of_g")
        write_row(graph, "x", "own")
        for source, into in (("f", "main"), ("g", "main"), ("g", "x"), ("f", "x")):
            graph.merge(source, into=into)
        graph.branch_delete("f")
    kill(merge, graph.uri, "x", "main", at=Failpoint.MERGE_PLANNED)
    with omnigraphdb.open(graph.uri) as again:
        assert again.doctor() == []
        assert again.cleanup(keep=1).tables[0].forks_removed == ()
        assert str(again.merge("x").outcome) == "merged"
        assert again.doctor() == []


def test_a_record_of_an_earlier_release_brings_no_lineage_and_is_completed(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "g")
    with armed(Failpoint.MERGE_CONFIRMED), pytest.raises(OmniError):
        graph.merge("f")
    graph.close()
    [file] = list((Path(graph.uri) / "__recovery").glob("*.json"))
    record = json.loads(file.read_text())
    assert [facts[0] for facts in record.pop("merged_lineage")["commits"]]
    file.write_text(json.dumps(record))
    with omnigraphdb.open(graph.uri) as again:
        assert len(again.table("node:P")) == 4
        assert again.commits(all=True) == again.commits()
        assert again.doctor() == []
        # The branch is still there, and tells what the merge did not bring.
        write_row(again, "f", "three")
        assert str(again.merge("f").outcome) == "merged"
        again.branch_delete("f")
        assert again.commit(again.commits()[1].merged_parent or "").branch == "f"


@pytest.mark.parametrize("count", [0, 3, SIDECAR_COMMITS_MAX + 1])
def test_a_record_carries_many_commits(tmp_path: Path, count: int) -> None:
    graph = make_graph(tmp_path / "g")
    with armed(Failpoint.MERGE_CONFIRMED), pytest.raises(OmniError):
        graph.merge("f")
    committer = graph._engine.committer
    [sidecar] = committer.sidecars.pending()
    merged_commits = commit_rows(commit(f"c{number:04d}", number) for number in range(count))
    many = type(sidecar)(
        **{name: getattr(sidecar, name) for name in sidecar.__slots__ if name != "merged_commits"},
        merged_commits=merged_commits,
    )
    text = encode(many, committer.root)
    assert decode(many.path, text).merged_commits.equals(merged_commits)
    assert decode(many.path, text).agreed == ()
    assert len(text) < 200_000
