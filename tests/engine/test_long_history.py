"""A graph whose old rows of the manifest are stored apart: what looks for one of them finds it, and nothing else reads them."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import HistoryReclaimed
from omnigraphdb.ids import MAIN, BranchName, CommitId
from omnigraphdb.manifest.change import Change, Draft
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind, GraphCommit
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.layout import NEWEST
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($name: String) { insert Person { name: $name } }"
COMMITS = 100
"""So many that the first of them are old."""
OFF = {"maintenance": "off"}


@pytest.fixture(scope="module")
def long_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of many commits, the first of them under a key, and a tag on the second."""
    path = tmp_path_factory.mktemp("long") / "g"
    with omnigraphdb.init(path, SCHEMA, config=OFF) as graph:
        graph.mutate(ADD, {"name": "p0"}, idempotency_key="first")
        for number in range(1, COMMITS):
            graph.mutate(ADD, {"name": f"p{number}"})
            if number == 1:
                graph.tag("second")
    return path


@pytest.fixture
def graph(long_graph: Path, tmp_path: Path) -> Iterator[Graph]:
    """A handle on a copy that has seen nothing yet."""
    shutil.copytree(long_graph, tmp_path / "g")
    with omnigraphdb.open(tmp_path / "g", config=OFF) as opened:
        yield opened
        assert_settled(opened)


def manifest_of(graph: Graph) -> Manifest:
    return graph._engine.manifest


def first_commit(graph: Graph) -> GraphCommit:
    """The oldest commit that wrote a row, read by another handle."""
    with omnigraphdb.open(graph.uri, read_only=True) as other:
        return manifest_of(other).current(MAIN).lineage.commits[1]


def test_the_first_commits_are_old(graph: Graph) -> None:
    state = manifest_of(graph).current(MAIN)
    assert state.image.history is not None
    assert state.shows(first_commit(graph).id) is not None
    assert state.image.recent.num_rows + 50 < state.image.rows.num_rows
    assert len(state.lineage.commits) == COMMITS + 1


def test_an_insert_a_read_and_a_page_of_the_log_read_no_old_row(graph: Graph) -> None:
    with counting() as costs:
        graph.mutate(ADD, {"name": "new"})
        assert len(graph.table("Person")) == COMMITS + 1
        assert len(graph.commits(limit=20)) == 20
        assert [tag.name for tag in graph.tags()] == ["second"]
    assert costs[Cost.MANIFEST_HISTORY_SCANS] == 0
    assert len(graph.commits()) == COMMITS + 2


def test_a_key_whose_record_is_old_is_found(graph: Graph) -> None:
    again = graph.mutate(ADD, {"name": "p0"}, idempotency_key="first")
    assert again.replayed
    assert again.commit is not None
    assert again.commit.id == first_commit(graph).id
    assert len(graph.commits()) == COMMITS + 1


def test_the_past_is_reached_by_an_old_commit_and_by_a_tag(graph: Graph) -> None:
    old = first_commit(graph)
    assert len(graph.snapshot(at=old.id).table("Person")) == 1
    assert len(graph.snapshot(at="second").table("Person")) == 2
    graph.branch_create("past", at=old.id)
    graph.mutate(ADD, {"name": "other"}, branch="past")
    assert graph.merge("past").commit is not None
    assert len(graph.table("Person")) == COMMITS + 1


def test_the_history_of_a_branch_that_was_made_again_is_not_that_of_the_first(graph: Graph) -> None:
    graph.branch_create("side")
    view = graph._engine.view(BranchName("side"))
    graph.branch_delete("side")
    graph.branch_create("side", at="second")
    with pytest.raises(HistoryReclaimed):
        _ = view.lineage
    assert len(graph.commits(branch="side")) == 3


def publish_commit(graph: Graph, commit: str) -> None:
    draft = Draft(commit=CommitId(commit), kind=CommitKind.MUTATION)
    publish(manifest_of(graph), Change(branch=MAIN, draft=draft))


def test_a_commit_whose_id_is_older_than_old_ones_is_published_once(graph: Graph) -> None:
    """As from a machine whose clock is slow: only a look at the old rows tells that the id is new."""
    with counting() as costs:
        for _ in range(2):
            publish_commit(graph, "0" * 26)
    assert costs[Cost.MANIFEST_HISTORY_SCANS] == 1
    ids = [commit.id for commit in graph.commits()]
    assert (ids[0], ids.count("0" * 26), len(ids)) == ("0" * 26, 1, COMMITS + 2)


def test_a_commit_that_landed_long_ago_is_recognised(graph: Graph) -> None:
    old = first_commit(graph)
    version = manifest_of(graph).current(MAIN).version
    change = Change(branch=MAIN, draft=Draft(commit=old.id, kind=old.kind))
    assert change.draft is not None
    known = replace(change, draft=replace(change.draft, operation_id=old.operation_id))
    found = publish(manifest_of(graph), known)
    assert found.commit == old
    assert manifest_of(graph).current(MAIN).version == version


@pytest.mark.parametrize(
    "noted", ["", "{}", '{"path": "__manifest", "version": 9999, "mark": null}']
)
def test_an_open_finds_the_newest_version_whatever_is_noted(graph: Graph, noted: str) -> None:
    graph.mutate(ADD, {"name": "new"})
    (Path(graph.uri) / NEWEST).write_text(noted)
    with omnigraphdb.open(graph.uri, read_only=True) as other:
        assert other.commits(limit=1) == graph.commits(limit=1)


def test_an_open_finds_the_newest_version_after_a_cleanup(graph: Graph) -> None:
    noted = json.loads((Path(graph.uri) / NEWEST).read_text())
    for number in range(4):
        graph.mutate(ADD, {"name": f"new{number}"})
    removed = graph.cleanup(keep=1, confirm=True).manifest
    assert removed.versions_removed > 0
    with omnigraphdb.open(graph.uri, read_only=True) as other:
        assert other.commits(limit=1) == graph.commits(limit=1)
        assert manifest_of(other).current(MAIN).version > noted["version"] + 3
