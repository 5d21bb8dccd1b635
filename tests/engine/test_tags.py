"""Tags name commits: they stand wherever a commit does, and keep its state from cleanup."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    BranchInUse,
    ConflictError,
    HistoryReclaimed,
    NotFound,
    UserInputError,
)
from omnigraphdb.failpoints import Failpoint, Injected, armed
from tests.support.settled import assert_settled


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    with omnigraphdb.init(tmp_path / "g", "node Port { code: String @key }") as made:
        for code in "abc":
            write(made, code)
        yield made


def write(graph: Graph, code: str, branch: str = "main") -> None:
    graph.mutate(f'query m() {{ insert Port {{ code: "{code}" }} }}', branch=branch)


def codes(graph: Graph, at: str, branch: str = "main") -> list[str]:
    return sorted(graph.table("Port", at=at, branch=branch)["code"].to_pylist())


def test_a_tag_stands_wherever_a_commit_does(graph: Graph) -> None:
    tagged = graph.commits()[1]
    made = graph.tag("release/1.0", tagged, actor="ann")
    assert (made.commit, made.branch, made.actor) == (tagged.id, "main", "ann")
    assert graph.tags() == [made]
    assert codes(graph, "release/1.0") == ["a", "b"]
    assert graph.commit("release/1.0") == tagged
    assert [change.id for change in graph.diff("release/1.0", "main").changes] == ["c"]
    assert graph.commits(since="release/1.0") == graph.commits(limit=1)
    assert [b.commit.id for b in graph.changes(since="release/1.0").blocks] == [
        graph.commits()[0].id
    ]
    graph.branch_create("from-tag", at="release/1.0")
    assert codes(graph, "release/1.0", "from-tag") == ["a", "b"]


def test_a_tag_names_the_head_unless_a_point_is_given(graph: Graph) -> None:
    graph.branch_create("side")
    write(graph, "d", "side")
    assert graph.tag("here").commit == graph.commits()[0].id
    assert graph.tag("there", branch="side").commit == graph.commits(branch="side")[0].id
    assert codes(graph, "there", "side") == ["a", "b", "c", "d"]
    with pytest.raises(NotFound, match="there") as refused:
        codes(graph, "there")
    assert "'side'" in str(refused.value.hint)


def test_a_tag_keeps_its_state_from_cleanup_until_it_is_deleted(graph: Graph) -> None:
    first, second = graph.commits()[2], graph.commits()[1]
    graph.tag("kept", first)
    graph.cleanup(keep=1, confirm=True)
    assert codes(graph, "kept") == ["a"]
    with pytest.raises(HistoryReclaimed):
        codes(graph, second.id)
    graph.tag_delete("kept")
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(HistoryReclaimed):
        codes(graph, first.id)
    assert_settled(graph)


def test_a_tag_keeps_its_branch(graph: Graph) -> None:
    graph.branch_create("side")
    write(graph, "d", "side")
    graph.tag("there", branch="side")
    with pytest.raises(BranchInUse, match="'there'"):
        graph.branch_delete("side")
    graph.tag_delete("there")
    graph.branch_delete("side")


def test_a_name_belongs_to_one_commit_and_is_free_again_once_deleted(graph: Graph) -> None:
    newest, older = graph.commits()[:2]
    graph.tag("v", newest)
    assert graph.tag("v", newest).commit == newest.id
    with pytest.raises(ConflictError, match=newest.id):
        graph.tag("v", older)
    graph.tag_delete("v")
    assert graph.tags() == []
    with pytest.raises(NotFound):
        graph.tag_delete("v")
    assert graph.tag("v", older).commit == older.id
    assert len(graph.commits()) == 4


@pytest.mark.parametrize(
    "bad", ["", "main", "17", "2026-11-16", "01M7HHKVGEH067", "a b", "a..b", "-a", "a/", "\udc80"]
)
def test_a_name_that_means_something_else_is_refused(graph: Graph, bad: str) -> None:
    with pytest.raises(UserInputError, match=r"tag name|is no UTF-8 text"):
        graph.tag(bad)
    assert graph.tags() == []


def test_a_state_that_cleanup_removed_cannot_be_tagged(graph: Graph) -> None:
    gone = graph.commits()[2]
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises((NotFound, HistoryReclaimed)):
        graph.tag("late", gone)
    assert graph.tags() == []


def test_a_tag_that_fails_is_not_there(graph: Graph) -> None:
    with armed(Failpoint.TAG_CHECKED), pytest.raises(Injected):
        graph.tag("v")
    assert graph.tags() == []
    graph.tag("v")
    assert_settled(graph)
