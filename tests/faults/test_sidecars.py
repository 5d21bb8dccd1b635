"""Sidecars that cannot be written, listed, read or understood: rows I1 to I8."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import (
    DriftError,
    RecoveryRequired,
    SidecarUnreadable,
    StorageError,
)
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import MAIN, TableKey, Version
from omnigraphdb.manifest.change import Change, Update
from omnigraphdb.manifest.publish import publish
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.values import TableAt
from tests.faults.conftest import Stage
from tests.support.fault_graph import fault_graph
from tests.support.fault_objects import Failure
from tests.support.foreign import foreign_rows
from tests.support.once import once
from tests.support.settled import assert_settled, digest
from tests.support.story import SCHEMA, WRITES, note

Setting = Callable[[str, str], Stage]
ID = "01HZY8M3D8Q4XT6V5R2N7K9B1C"


def plant(story: Stage, text: str, name: str = f"{ID}.json") -> Path:
    """Put a file among the sidecars."""
    path = Path(story.uri) / "__recovery" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# ---- writing


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("failure", list(Failure))
def test_i1_a_sidecar_that_cannot_be_written_stops_the_write(
    stage: Setting, name: str, failure: Failure
) -> None:
    story = stage(name, "main")
    graph, objects = fault_graph(story.uri)
    objects.fail("put_if_absent", "__recovery/*", failure)
    if failure is Failure.LOST:
        # It was written: only the answer is missing, and the writer reads what is there.
        story.write_with(graph, "1")
    else:
        with pytest.raises(StorageError):
            story.write_with(graph, "1")
        assert story.content(graph) == story.before
    assert graph.pending_recoveries() == []
    assert graph.recoveries() == []
    if failure is not Failure.LOST:
        story.write_with(graph, "1")
    assert story.content(graph) == story.after("1")
    assert_settled(graph)


@pytest.mark.parametrize("failure", [Failure.ERROR, Failure.LOST])
def test_a_sidecar_that_cannot_be_rewritten_leaves_the_fork_to_recovery(
    stage: Setting, failure: Failure
) -> None:
    story = stage("insert", "fresh")
    graph, objects = fault_graph(story.uri)
    objects.fail("put_if_match", "__recovery/*", failure)
    with pytest.raises(StorageError):
        story.write_with(graph, "1")
    note(graph, "fresh", "next")
    assert [row.recovery_kind for row in graph.recoveries()] == [RecoveryKind.ROLLED_BACK]
    assert_settled(graph)


@pytest.mark.parametrize("failure", [Failure.ERROR, Failure.LOST])
def test_a_spent_sidecar_that_cannot_be_removed_does_no_harm(
    stage: Setting, failure: Failure
) -> None:
    story = stage("insert", "main")
    graph, objects = fault_graph(story.uri)
    objects.fail("delete", "__recovery/*", failure)
    story.write_with(graph, "1")
    story.write_with(graph, "2")
    assert story.content(graph) == story.after("1", "2")
    assert_settled(graph)


@pytest.mark.parametrize("failure", [Failure.ERROR, Failure.LOST])
@pytest.mark.parametrize("nth", [0, 1])
def test_a_decision_that_cannot_be_written_down_undoes_nothing(
    stage: Setting, failure: Failure, nth: int
) -> None:
    """The first write is the decision, before any restore; the second notes the restore."""
    story = stage("insert", "main")
    with armed(Failpoint.TABLE_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(story.open(), "1")
    graph, objects = fault_graph(story.uri, settle=False)
    objects.fail("put_if_match", "__recovery/*", failure, skip=nth)
    with counting() as costs, pytest.raises(StorageError):
        graph.refresh(roll_back=True)
    assert costs[Cost.TABLE_RESTORES] == nth
    with counting() as costs:
        graph.refresh(roll_back=True)
    assert costs[Cost.TABLE_RESTORES] == 1 - nth
    assert [row.recovery_kind for row in graph.recoveries()] == [RecoveryKind.ROLLED_BACK]
    assert story.content(graph) == story.before
    assert_settled(graph)


@pytest.mark.parametrize("operation", ["list", "read", "delete"])
@pytest.mark.parametrize("at", [Failpoint.TABLE_COMMITTED, Failpoint.TABLES_COMMITTED])
def test_a_store_that_fails_during_recovery_is_asked_again_later(
    stage: Setting, operation: str, at: Failpoint
) -> None:
    story = stage("merge", "owned")
    with armed(at), pytest.raises(omnigraphdb.OmniError):
        story.write_with(story.open(), "1")
    graph, objects = fault_graph(story.uri, settle=False)
    for skip in range(2):
        objects.fail(operation, "__recovery*", Failure.ERROR, skip=skip)
        with suppress(StorageError):
            graph.refresh(roll_back=True)
        objects.clear()
    graph.refresh(roll_back=True)
    assert len(graph.recoveries()) == 1
    whole = at is Failpoint.TABLES_COMMITTED
    assert story.content(graph) == (story.after("1") if whole else story.before)
    assert_settled(graph)


# ---- listing


def test_i2_a_folder_that_cannot_be_listed_stops_writes_and_opens_until_it_can(
    stage: Setting,
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.SIDECAR_LIST):
        with pytest.raises(omnigraphdb.OmniError, match="sidecar_list"):
            story.write_with(graph, "1")
        with pytest.raises(omnigraphdb.OmniError, match="sidecar_list"):
            story.open()
        assert story.content(story.open(read_only=True)) == story.before
    story.write_with(graph, "1")
    assert_settled(story.open())


def test_i2_a_store_that_cannot_list_stops_writes_until_it_can(stage: Setting) -> None:
    story = stage("insert", "main")
    graph, objects = fault_graph(story.uri)
    objects.fail("list", "__recovery", Failure.DENIED)
    with pytest.raises(StorageError):
        story.write_with(graph, "1")
    story.write_with(graph, "1")
    assert_settled(graph)


def test_i3_drift_beside_a_folder_that_cannot_be_listed_names_both_ways_out(
    stage: Setting,
) -> None:
    graph = stage("insert", "main").open()
    foreign_rows(graph, "node:City", ["stray"])
    with armed(Failpoint.SIDECAR_LIST, "skip(1)+error"), pytest.raises(DriftError) as refused:
        graph.mutate('query m() { insert City { k: "new" } }')
    told = str(refused.value)
    assert "reopening the graph" in told
    assert "omnigraphdb repair" in told
    assert "sidecar_list" in told


@pytest.mark.parametrize("name", WRITES)
def test_drift_that_no_sidecar_explains_is_never_folded_in(stage: Setting, name: str) -> None:
    story = stage(name, "main")
    graph = story.open()
    for table in ("node:City", "node:Person"):
        foreign_rows(graph, table, ["stray"])
    versions = table_versions(story)
    with pytest.raises(DriftError, match="omnigraphdb repair"):
        story.write_with(graph, "1")
    assert table_versions(story) == versions
    assert graph.pending_recoveries() == []


DRIFTS: dict[str, Callable[[Graph], object]] = {
    "merge": lambda graph: graph.merge("side"),
    "schema apply: reshaped": lambda graph: graph.schema_apply(
        SCHEMA.replace("node City { k: String @key", "node City { k: String @key  m: I32?")
    ),
    "schema apply: renamed": lambda graph: graph.schema_apply(
        SCHEMA.replace("node City", 'node Town @rename_from("City")').replace("-> City", "-> Town")
    ),
    "schema apply: dropped": lambda graph: graph.schema_apply(
        SCHEMA.replace("node City { k: String @key  n: I32? }", "").replace(
            "edge LivesIn: Person -> City", ""
        )
    ),
    "ensure indices": lambda graph: graph.ensure_indices(),
}


@pytest.mark.parametrize("verb", DRIFTS)
def test_drift_that_no_sidecar_explains_is_never_folded_in_by_other_writers(
    stage: Setting, verb: str
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    if verb == "merge":
        graph.branch_create("side")
        graph.mutate('query m() { insert City { k: "new" } }', branch="side")
    foreign_rows(graph, "node:City", ["stray"])
    versions, before = table_versions(story), story.content(graph)
    with pytest.raises(DriftError, match="omnigraphdb repair"):
        DRIFTS[verb](graph)
    lines = {path: held for path, held in table_versions(story).items() if "__manifest" not in path}
    assert lines == {path: held for path, held in versions.items() if "__manifest" not in path}
    assert graph.pending_recoveries() == []
    assert (story.content(graph), graph.schema_source) == (before, SCHEMA)


def table_versions(story: Stage) -> dict[str, str]:
    return {k: v for k, v in digest(Path(story.uri)).items() if "_versions" in k}


def test_drift_is_repairs_business_when_only_another_branch_has_a_sidecar_for_the_table(
    stage: Setting,
) -> None:
    story = stage("insert", "owned")
    graph = story.open()
    with armed(Failpoint.TABLE_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1")
    foreign_rows(graph, "node:City", ["stray"])
    with pytest.raises(DriftError, match="omnigraphdb repair"):
        graph.mutate('query m() { insert City { k: "new" } }')


# ---- reading


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"schema_version": 1, "operation', "not a sidecar"),
        ("[]", "not a sidecar"),
        ('{"schema_version": 99}', "newer than the maximum 4"),
        ('{"schema_version": 0}', "never existed"),
        ('{"schema_version": "2"}', "never existed"),
        ('{"schema_version": 3, "operation_id": "x"}', "missing or malformed"),
        (
            json.dumps(
                {
                    "schema_version": 1,
                    "operation_id": "01HZY8M3D8Q4XT6V5R2N7K9B1D",
                    "started_at": "",
                    "branch": None,
                    "actor_id": None,
                    "writer_kind": "Mutation",
                    "tables": [],
                }
            ),
            "names the operation 01HZY8M3D8Q4XT6V5R2N7K9B1D",
        ),
    ],
)
def test_i4_i5_a_sidecar_that_cannot_be_understood_stops_writers_and_not_readers(
    stage: Setting, text: str, told: str
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    file = plant(story, text)
    for attempt in (lambda: story.write_with(graph, "1"), story.open):
        with pytest.raises(SidecarUnreadable, match=told) as refused:
            attempt()
        assert ID in str(refused.value)
    assert file.read_text() == text
    reader = story.open(read_only=True)
    assert story.content(reader) == story.before
    (shown,) = reader.pending_recoveries()
    assert shown.operation_id == ID
    assert told in str(shown.problem)
    file.unlink()
    story.write_with(graph, "1")
    assert_settled(story.open())


def test_i6_other_files_are_ignored(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    plant(story, "not a record", "readme.txt")
    story.write_with(graph, "1")
    assert_settled(story.open())


@pytest.mark.parametrize("at", [Failpoint.SIDECAR_LISTED, Failpoint.SWEEP_LISTED])
def test_i7_a_sidecar_that_vanishes_under_the_look_was_finished_by_its_owner(
    stage: Setting, at: Failpoint
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.PUBLISHED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1")
    (file,) = (Path(story.uri) / "__recovery").iterdir()
    with armed(at, once(file.unlink)):
        story.open()
    assert graph.recoveries() == []
    assert story.content(graph) == story.after("1")
    assert_settled(graph)


def test_i7_a_sidecar_that_cannot_be_read_is_loud(stage: Setting) -> None:
    story = stage("insert", "main")
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(story.open(), "1")
    graph, objects = fault_graph(story.uri, settle=False)
    objects.fail("read", "__recovery/*")
    with pytest.raises(StorageError):
        note(graph, "main", "next")
    note(graph, "main", "next")
    assert_settled(graph)


def test_i8_a_table_behind_its_pin_is_nobodys_to_settle(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.ARMED), pytest.raises(omnigraphdb.OmniError):
        graph.mutate('query m() { insert City { k: "new" } }')
    (file,) = (Path(story.uri) / "__recovery").iterdir()
    forge_lost_version(graph)
    text = file.read_text()
    note(graph, "main", "unrelated")
    assert file.read_text() == text
    with pytest.raises(RecoveryRequired, match="InvariantViolation") as refused:
        story.open()
    assert refused.value.operation_id in file.name
    assert file.read_text() == text
    (shown,) = story.open(read_only=True).pending_recoveries()
    assert shown.forecast == "abort"


def forge_lost_version(graph: omnigraphdb.Graph) -> None:
    """Pin a version of a table that is not there, as if its newest files were lost."""
    manifest = graph._engine.manifest
    entry = manifest.current(MAIN).snapshot.entry(TableKey("node:City"))
    at = TableAt(path=entry.at.path, branch=None, version=Version(entry.version + 5))
    update = Update(table_key=entry.table_key, at=at, row_count=entry.row_count)
    publish(manifest, Change(branch=MAIN, updates=(update,)))
