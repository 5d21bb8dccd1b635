"""The first write of a table on a branch, interrupted or met by a rival: rows K1 to K7 beside the matrix."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import BranchName, OperationId, TableKey
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.snapshot import Entry
from omnigraphdb.storage.values import TableAt
from tests.faults.conftest import Stage
from tests.support.foreign import foreign_publish
from tests.support.once import once
from tests.support.settled import assert_settled
from tests.support.story import content

Setting = Callable[[str, str], Stage]
ADD = 'query m() { insert City { k: "new" } }'
CHANGE = 'query m() { update City set { n: 9 } where k = "x" }'


def entry_of(manifest: Manifest, branch: str = "fresh", table: str = "node:City") -> Entry:
    return manifest.load(BranchName(branch)).snapshot.entry(TableKey(table))


def leave_fork(graph: Graph, *, with_row: bool = False) -> Path:
    """Forge what a writer of an earlier release left: a fork no manifest places, and no sidecar names."""
    engine = graph._engine
    entry = entry_of(engine.manifest)
    forked = engine.store.tables.fork(entry.at, "fresh")
    if with_row:
        tables = engine.store.tables
        rows = tables.open(forked).read().slice(0, 1)
        stray = rows.set_column(0, rows.schema.field("id"), [["stray"]])
        staged = tables.stage_append(forked, stray)
        tables.commit_staged(staged, operation_id="dead", lock=None)  # type: ignore[arg-type]
    return Path(graph.uri) / entry.at.path


@pytest.mark.parametrize("text", [ADD, CHANGE])
def test_a_stray_fork_is_cleared_and_the_branch_starts_from_what_it_shows(
    stage: Setting, text: str
) -> None:
    graph = stage("insert", "fresh").open()
    leave_fork(graph, with_row=True)
    graph.mutate(text, branch="fresh")
    assert "stray" not in str(content(graph, "fresh"))
    assert entry_of(graph._engine.manifest).at.branch == "fresh"
    assert_settled(graph)


@pytest.mark.parametrize("text", [ADD, CHANGE])
def test_k1_the_rival_of_a_first_writer_reads_again(stage: Setting, text: str) -> None:
    """The rival takes no turns, as a writer of another program would not."""
    graph = stage("insert", "fresh").open()
    rival = omnigraphdb.open(graph.uri)
    leave_fork(graph)
    adopt = once(lambda: _adopt(rival))
    with armed(Failpoint.FORK_CLASSIFY, adopt):
        graph.mutate(text, branch="fresh")
    assert graph.recoveries() == []
    assert '"id": "r"' in str(content(graph, "fresh"))
    assert entry_of(graph._engine.manifest).at.branch == "fresh"
    assert_settled(graph)


def test_a_strict_writer_whose_fork_is_moved_under_it_forks_again(stage: Setting) -> None:
    graph = stage("insert", "fresh").open()
    rival = omnigraphdb.open(graph.uri)
    with armed(Failpoint.FORK_CREATED, once(lambda: _append(rival))):
        graph.mutate(CHANGE, branch="fresh")
    assert graph.recoveries() == []
    assert '"id": "r"' not in str(content(graph, "fresh"))
    assert_settled(graph)


def test_a_conflict_at_the_second_fork_leaves_the_first_for_the_next_write(stage: Setting) -> None:
    """Somebody else may have taken the first fork over by then; nobody is told of it, and the next write uses it."""
    graph = stage("insert", "fresh").open()
    rival = omnigraphdb.open(graph.uri)
    text = """query m() { update City set { n: 9 } where k = "x"
                          update Person set { n: 9 } where k = "a" }"""
    with (
        armed(Failpoint.FORK_CREATED, once(lambda: _person_fork(rival))),
        pytest.raises(omnigraphdb.PreconditionFailed),
    ):
        graph.mutate(text, branch="fresh", if_commit=graph.commits(branch="fresh")[0].id)
    assert graph.recoveries() == []
    manifest = graph._engine.manifest
    assert entry_of(manifest).at.branch is None
    assert entry_of(manifest, table="node:Person").at.branch == "fresh"
    forks = graph._engine.store.tables.forks(entry_of(manifest).at.path)
    assert "fresh" in forks
    assert [issue.check for issue in graph.doctor()] == ["orphan fork"]
    graph.mutate(ADD, branch="fresh")
    assert entry_of(manifest).at.branch == "fresh"
    assert graph._engine.store.tables.forks(entry_of(manifest).at.path) == forks
    assert_settled(graph)
    assert_settled(graph)


def _person_fork(rival: Graph) -> None:
    """Fork people and adopt the fork, as a writer that takes no turns."""
    engine = rival._engine
    engine.store.tables.fork(entry_of(engine.manifest, table="node:Person").at, "fresh")
    foreign_publish(rival, "node:Person", None, "fresh", lance_branch="fresh")


def _append(rival: Graph) -> TableAt:
    """Append to the fork of the cities, telling nobody."""
    engine = rival._engine
    entry = entry_of(engine.manifest)
    tables = engine.store.tables
    at = TableAt(path=entry.at.path, branch="fresh", version=entry.version)
    rows = tables.open(at).read().slice(0, 1).set_column(0, "id", [["r"]])
    staged = tables.stage_append(at, rows)
    return tables.commit_staged(staged, operation_id=OperationId("rival"), lock=None).at


def _adopt(rival: Graph) -> None:
    foreign_publish(rival, "node:City", _append(rival).version, "fresh", lance_branch="fresh")


def test_k3_a_stray_fork_that_cannot_be_cleared_stays_and_is_cleared_later(stage: Setting) -> None:
    graph = stage("insert", "fresh").open()
    leave_fork(graph, with_row=True)
    with armed(Failpoint.FORK_RECLAIM), pytest.raises(omnigraphdb.OmniError):
        graph.mutate(ADD, branch="fresh")
    assert "fresh" in graph._engine.store.tables.forks(entry_of(graph._engine.manifest).at.path)
    graph.mutate(ADD, branch="fresh")
    assert_settled(graph)


def test_k4_a_fork_whose_owner_cannot_be_looked_up_is_kept(stage: Setting) -> None:
    graph = stage("insert", "fresh").open()
    leave_fork(graph)
    with (
        armed(Failpoint.FORK_CLASSIFY_READ),
        pytest.raises(omnigraphdb.ConflictError, match="could not be verified"),
    ):
        graph.mutate(ADD, branch="fresh")
    assert "fresh" in graph._engine.store.tables.forks(entry_of(graph._engine.manifest).at.path)
    assert graph.pending_recoveries() == []
    graph.mutate(ADD, branch="fresh")
    assert_settled(graph)


def test_k5_files_of_a_fork_without_its_ref_are_cleared(stage: Setting) -> None:
    graph = stage("insert", "fresh").open()
    table = leave_fork(graph, with_row=True)
    shutil.rmtree(table / "_refs")
    assert (table / "tree" / "fresh").exists()
    graph = omnigraphdb.open(graph.uri)
    graph.mutate(ADD, branch="fresh")
    assert "stray" not in str(content(graph, "fresh"))
    assert_settled(graph)


def test_a_branch_of_a_branch_forks_from_its_parent_and_is_taken_back_to_it(
    stage: Setting,
) -> None:
    graph = stage("insert", "owned").open()
    graph.branch_create("child", from_branch="owned")
    before = content(graph, "child")
    with armed(Failpoint.TABLE_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        graph.mutate(
            'query m() { insert City { k: "new" }  insert Person { k: "new" } }', branch="child"
        )
    graph = omnigraphdb.open(graph.uri)
    assert content(graph, "child") == before == content(graph, "owned")
    assert_settled(graph)
    graph.mutate(ADD, branch="child")
    assert content(graph, "owned") == before
    assert_settled(graph)


def test_only_the_tables_that_are_written_fork(stage: Setting) -> None:
    graph = stage("insert", "fresh").open()
    graph.mutate('query m() { insert Knows { from: "a", to: "d" } }', branch="fresh")
    manifest = graph._engine.manifest
    assert entry_of(manifest, table="edge:Knows").at.branch == "fresh"
    assert entry_of(manifest, table="node:Person").at.branch is None
    assert_settled(graph)
