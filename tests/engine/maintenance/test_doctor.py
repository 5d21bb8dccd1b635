"""The doctor: a settled graph has nothing, and everything that can be wrong is told with what helps."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, BranchName, CommitId, OperationId, Version
from omnigraphdb.manifest.branches import lock_schema, unlock_schema
from omnigraphdb.manifest.records import GraphCommit, encode
from omnigraphdb.recovery.audit import AuditRow, RecoveryKind
from omnigraphdb.storage.layout import RECOVERY, SCHEMA_PG, staging_path
from tests.support.maintenance import ADD, PERSON, appended, drifted, made


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = made(tmp_path / "g")
    yield opened
    opened.close()


def list_remedies(graph: Graph) -> dict[str, str]:
    """What was found, with what helps."""
    return {one.check: one.remedy for one in graph.doctor()}


def put_commit(graph: Graph, **facts: object) -> GraphCommit:
    """Write a commit into the manifest as no writer would."""
    engine = graph._engine
    head = engine.manifest.current(MAIN).head
    assert head is not None
    made_up = replace(head, id=CommitId(engine.runtime.new_id()), **facts)  # type: ignore[arg-type]
    engine.store.manifest.swap(engine.store.manifest.load(None), encode([made_up]))
    engine.manifest.heads.clear()
    return made_up


def test_a_settled_graph_has_no_issues(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"name": "Zoe"}, branch="side")
    graph.merge("side")
    assert graph.doctor() == []


# ---- drift


def test_drift_that_nobody_explains_is_for_repair(graph: Graph) -> None:
    drifted(graph, appended)
    [found] = graph.doctor()
    assert (found.check, found.table_key, found.branch) == ("drift", PERSON, MAIN)
    assert "omnigraphdb repair" in found.remedy
    assert "recovery" not in found.remedy


def test_drift_that_an_interrupted_write_explains_is_for_recovery(graph: Graph) -> None:
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(OmniError):
        graph.mutate(ADD, {"name": "half"})
    [pending] = graph.pending_recoveries()
    found = list_remedies(graph)
    assert set(found) == {"pending recovery", "drift"}
    assert pending.operation_id in found["drift"]
    assert "omnigraphdb recovery run" in found["drift"]
    graph.refresh()
    assert graph.doctor() == []


def test_drift_beside_a_sidecar_nobody_can_read_is_left_open(graph: Graph) -> None:
    drifted(graph, appended)
    graph._engine.store.objects.put(f"{RECOVERY}/broken.json", "{")
    found = list_remedies(graph)
    assert set(found) == {"pending recovery", "drift"}
    assert "when pending writes can be read" in found["drift"]


# ---- history


def test_a_commit_whose_parent_is_not_there_is_told(graph: Graph) -> None:
    made_up = put_commit(
        graph, parent=CommitId("01NOBODY"), manifest_version=Version(1), created_at=1
    )
    [found] = graph.doctor()
    assert (found.check, found.branch) == ("history", MAIN)
    assert made_up.id in found.message
    assert "01NOBODY" in found.message


def test_two_beginnings_and_two_followers_are_told(graph: Graph) -> None:
    first = graph.commits()[-1].id
    put_commit(graph, parent=None, manifest_version=Version(1), created_at=1)
    assert any("2 first commits" in one.message for one in graph.doctor())
    put_commit(graph, parent=CommitId(first), manifest_version=Version(1), created_at=1)
    assert any(f"{first} has two successors" in one.message for one in graph.doctor())


def test_a_merged_parent_that_went_with_its_branch_is_no_ailment(graph: Graph) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"name": "Zoe"}, branch="side")
    graph.merge("side")
    graph.branch_delete("side")
    assert graph.doctor() == []


# ---- audit


def audit_row(graph: Graph, operation: str) -> AuditRow:
    return AuditRow(
        commit=CommitId(graph.commits()[0].id),
        kind=RecoveryKind.ROLLED_BACK,
        for_actor=None,
        operation_id=OperationId(operation),
        writer_kind="mutation",
        tables=(),
        created_at=1,
    )


def test_a_recovery_is_recorded_once(graph: Graph) -> None:
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(OmniError):
        graph.mutate(ADD, {"name": "half"})
    graph.refresh()
    assert len(graph.recoveries()) == 1
    audit = graph._engine.recovery.audit
    audit.record(audit_row(graph, graph.recoveries()[0].operation_id))
    assert len(graph.recoveries()) == 1
    assert graph.doctor() == []


def test_a_commit_by_recovery_without_a_record_is_told(graph: Graph) -> None:
    head = graph.commits()[0].id
    made_up = put_commit(
        graph,
        parent=CommitId(head),
        actor=RECOVERY_ACTOR,
        operation_id=OperationId("01LOST"),
        manifest_version=Version(99),
    )
    [found] = [one for one in graph.doctor() if one.check == "audit"]
    assert made_up.id in found.message
    graph._engine.recovery.audit.record(replace(audit_row(graph, "01LOST"), commit=made_up.id))
    assert [one for one in graph.doctor() if one.check == "audit"] == []


# ---- what a writer left


def test_leftovers_of_a_schema_change_are_told(graph: Graph) -> None:
    graph._engine.store.objects.put(staging_path(SCHEMA_PG), "node Person { name: String @key }")
    assert "staging file" in list_remedies(graph)
    graph._engine.store.objects.delete(staging_path(SCHEMA_PG))
    lock_schema(graph._engine.manifest, graph._engine.store.tables)
    assert "schema lock" in list_remedies(graph)
    unlock_schema(graph._engine.manifest)
    assert graph.doctor() == []


def test_a_fork_nobody_uses_is_told_and_cleanup_helps(graph: Graph) -> None:
    graph.branch_create("gone")
    graph.mutate(ADD, {"name": "Zoe"}, branch="gone")
    with armed(Failpoint.BRANCH_DROP_FORKS):
        graph.branch_delete("gone")
    assert "omnigraphdb cleanup" in list_remedies(graph)["orphan fork"]
    graph.cleanup(keep=100, confirm=True)
    assert graph.doctor() == []


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("is_known", [True, False], ids=["open since before", "opened now"])
def test_a_fork_of_a_live_branch_that_is_missing_is_told(
    graph: Graph, tmp_path: Path, is_known: bool, deep: bool
) -> None:
    graph.branch_create("side")
    graph.mutate(ADD, {"name": "Zoe"}, branch="side")
    path = graph._engine.manifest.current(BranchName("side")).snapshot.entry(PERSON).at.path
    with omnigraphdb.open(tmp_path / "g") as stranger:
        stranger._engine.store.tables.drop_fork(path, "side")
        examined = graph if is_known else stranger
        issues = [one for one in examined.doctor(deep=deep) if one.branch == "side"]
    by_check = {one.check: (one.table_key, one.remedy) for one in issues}
    table, remedy = by_check["missing fork"]
    assert table == PERSON
    assert "delete the branch" in remedy
    assert deep or len(issues) == 1
    graph.branch_delete("side")
    assert graph.doctor() == []
