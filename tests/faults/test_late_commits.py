"""A commit that is found past the pin although its operation was rolled back: known by the record, and undone."""

from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.commit.locks import lock_key
from omnigraphdb.errors import DriftError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import BranchName, OperationId, TableKey
from omnigraphdb.recovery.audit import RecoveryKind
from tests.support.child import KILLED, run_child
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, content

PERSON = TableKey("node:Person")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(BASE, mode="append")
        graph.branch_create("b")
        WRITES["insert"].run(graph, "b", "0", None)
    return str(tmp_path / "g")


def rolled_back(uri: str, branch: str) -> OperationId:
    """Interrupt a write and let recovery take it back."""
    graph = omnigraphdb.open(uri)
    with armed(Failpoint.TABLE_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        WRITES["insert"].run(graph, branch, "1", None)
    (row,) = omnigraphdb.open(uri).recoveries()
    assert row.recovery_kind is RecoveryKind.ROLLED_BACK
    return OperationId(row.operation_id)


def commit_late(graph: Graph, branch: str, operation: OperationId) -> None:
    """Let a commit of an operation come to the table of persons now."""
    engine = graph._engine
    at = engine.manifest.load(BranchName(branch)).snapshot.entry(PERSON).at
    tables = engine.store.tables
    rows = tables.open(at).read().slice(0, 1)
    key = lock_key(PERSON, at.branch)
    with engine.committer.locks.acquire([key]) as held_locks:
        tables.commit_staged(
            tables.stage_append(at, rows), operation_id=operation, lock=held_locks.lock(key)
        )


def write_again(uri: str, branch: str) -> None:
    """Write to the table of persons: what a child process does."""
    with omnigraphdb.open(uri) as graph:
        WRITES["insert"].run(graph, branch, "2", None)


@pytest.mark.parametrize("branch", ["main", "b"])
def test_the_next_write_undoes_a_commit_that_came_after_its_roll_back(
    uri: str, branch: str
) -> None:
    operation = rolled_back(uri, branch)
    graph = omnigraphdb.open(uri)
    before, commits = content(graph, branch), len(graph.commits(branch=branch))
    commit_late(graph, branch, operation)
    assert [one.check for one in graph.doctor()] == ["drift"]
    WRITES["insert"].run(graph, branch, "2", None)
    assert_settled(graph)
    assert {one for one in content(graph, branch) if '2"' not in one} == set(before)
    # Undoing it is maintenance: the one new commit is that of the write.
    assert len(graph.commits(branch=branch)) == commits + 1


@pytest.mark.parametrize("way", ["error", "kill"])
def test_undoing_it_may_be_interrupted(uri: str, way: str) -> None:
    operation = rolled_back(uri, "main")
    graph = omnigraphdb.open(uri)
    before = content(graph)
    commit_late(graph, "main", operation)
    if way == "kill":
        point = f"{Failpoint.LATE_RESTORED.value}=exit"
        assert run_child(write_again, uri, "main", failpoints=point) == KILLED
    else:
        with armed(Failpoint.LATE_RESTORED), pytest.raises(omnigraphdb.OmniError):
            write_again(uri, "main")
    graph = omnigraphdb.open(uri)
    assert content(graph) == before
    WRITES["insert"].run(graph, "main", "2", None)
    assert_settled(graph)


def test_repair_restores_the_pin_and_force_does_not_publish_a_part(uri: str) -> None:
    operation = rolled_back(uri, "main")
    graph = omnigraphdb.open(uri)
    before = content(graph)
    commit_late(graph, "main", operation)
    found = {one.table_key: one for one in graph.repair().tables}[PERSON]
    assert (found.classification, found.action) == ("rolled_back", "preview")
    done = graph.repair(confirm=True, force=True)
    found = {one.table_key: one for one in done.tables}[PERSON]
    assert (found.classification, found.action) == ("rolled_back", "restored")
    assert done.commit is None
    assert content(graph) == before
    assert_settled(graph)


@pytest.mark.parametrize("verb", ["optimize", "cleanup"])
def test_maintenance_undoes_it_too(uri: str, verb: str) -> None:
    operation = rolled_back(uri, "main")
    graph = omnigraphdb.open(uri)
    before = content(graph)
    commit_late(graph, "main", operation)
    if verb == "optimize":
        assert [one.skipped for one in graph.optimize().tables if one.skipped] == []
    else:
        graph.cleanup(keep=5, confirm=True)
    assert content(graph) == before
    assert_settled(graph)


def test_a_commit_of_anybody_else_is_left_for_repair(uri: str) -> None:
    rolled_back(uri, "main")
    graph = omnigraphdb.open(uri)
    commit_late(graph, "main", OperationId("somebody else"))
    with pytest.raises(DriftError, match="omnigraphdb repair"):
        WRITES["insert"].run(graph, "main", "2", None)
    found = {one.table_key: one for one in graph.repair().tables}[PERSON]
    assert found.classification == "suspicious"
