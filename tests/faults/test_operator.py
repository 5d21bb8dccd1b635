"""The operator's way out: what is pending, what would become of it, settling it, and giving it up."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import NotFound, RecoveryRequired, SidecarUnreadable
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import RECOVERY_ACTOR
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.surfaces.cli.main import main
from tests.faults.conftest import Stage
from tests.support.child import run_parked_child
from tests.support.settled import assert_settled
from tests.support.story import ACTOR, note, perform

Setting = Callable[[str, str], Stage]
LOST = "01HZY8M3D8Q4XT6V5R2N7K9B1C"
FORECASTS = {
    Failpoint.ARMED: "discard, it has no effect",
    Failpoint.TABLE_COMMITTED: "roll back",
    Failpoint.TABLES_COMMITTED: "roll forward",
    Failpoint.PUBLISHED: "forget, it is visible already",
}


@dataclass(frozen=True)
class Told:
    """What one command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def invoke(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["omnigraphdb", "recovery", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        told = capsys.readouterr()
        return Told(int(str(stop.value.code or 0)), told.out, told.err)

    return invoke


def interrupted(story: Stage, at: Failpoint = Failpoint.TABLE_COMMITTED) -> str:
    """Interrupt the story; give its operation."""
    with story.open() as graph:
        with armed(at), pytest.raises(omnigraphdb.OmniError):
            story.write_with(graph, "1", ACTOR)
        (left,) = graph.pending_recoveries()
        return left.operation_id


def unreadable(story: Stage) -> Path:
    file = Path(story.uri) / "__recovery" / f"{LOST}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"schema_version": 99}')
    return file


# ---- looking


@pytest.mark.parametrize(("at", "forecast"), FORECASTS.items())
def test_what_is_pending_is_told_with_what_would_become_of_it(
    stage: Setting, at: Failpoint, forecast: str, run: Callable[..., Told]
) -> None:
    story = stage("insert", "owned")
    operation = interrupted(story, at)
    (left,) = story.open(read_only=True).pending_recoveries()
    assert left.forecast == forecast
    assert (left.branch, left.actor, left.writer_kind) == ("owned", ACTOR, "Mutation")
    assert left.tables == ("edge:LivesIn", "node:City", "node:Person")
    told = run("list", story.uri)
    assert told.code == 0
    assert operation in told.out
    assert f"recovery would {forecast}" in told.out
    assert "1 pending, 0 settled" in told.out
    (shown,) = run("list", story.uri, "--json").json["pending"]
    assert shown == left.to_dict()


def test_recoveries_are_listed_and_found_in_the_history(
    stage: Setting, run: Callable[..., Told]
) -> None:
    story = stage("insert", "main")
    operation = interrupted(story)
    graph = story.open()
    (row,) = graph.recoveries()
    (commit,) = graph.commits(actor=RECOVERY_ACTOR)
    assert (row.commit, row.operation_id) == (commit.id, operation)
    told = run("list", story.uri)
    assert f"RolledBack {operation} Mutation in commit {commit.id}" in told.out
    assert "edge:LivesIn" in told.out
    assert run("list", story.uri, "--json").json == {"pending": [], "settled": [row.to_dict()]}


# ---- settling


def test_run_settles_and_says_what_became_of_each(stage: Setting, run: Callable[..., Told]) -> None:
    story = stage("insert", "main")
    operation = interrupted(story)
    told = run("run", story.uri)
    assert told.code == 0
    assert f"RolledBack {operation}" in told.out
    assert "1 settled, 0 left" in told.out
    assert run("run", story.uri, "--json").json == {"pending": [], "settled": []}
    assert_settled(story.open())


def test_run_leaves_a_live_writer_alone_and_says_so(
    stage: Setting, run: Callable[..., Told]
) -> None:
    story = stage("insert", "main")
    at = Failpoint.TABLES_COMMITTED
    with run_parked_child(perform, story.uri, "insert", at=at) as writer:
        told = run("run", story.uri)
        assert told.code == 1
        assert "0 settled, 1 left" in told.out
        writer.release()
    assert_settled(story.open())


# ---- giving up


def test_a_discarded_operation_leaves_what_it_wrote_and_says_so(
    stage: Setting, run: Callable[..., Told]
) -> None:
    story = stage("insert", "main")
    operation = interrupted(story)
    told = run("discard", operation, story.uri, "--confirm")
    assert told.code == 0
    assert f"discarded {operation} Mutation" in told.out
    assert "edge:LivesIn at version" in told.out
    assert "omnigraphdb repair" in told.out
    graph = story.open()
    (row,) = graph.recoveries()
    assert (row.recovery_kind, row.for_actor) == (RecoveryKind.DISCARDED, ACTOR)
    assert graph.commit(row.commit).actor == RECOVERY_ACTOR
    assert [(one.check, one.table_key) for one in graph.doctor()] == [("drift", "edge:LivesIn")]
    assert story.content(graph) == story.before
    note(graph, "main", "others go on")


def test_nothing_is_discarded_without_a_word(stage: Setting, run: Callable[..., Told]) -> None:
    story = stage("insert", "main")
    operation = interrupted(story)
    told = run("discard", operation, story.uri)
    assert told.code == 2
    assert "--confirm" in told.err
    assert len(story.open(read_only=True).pending_recoveries()) == 1


def test_a_record_that_keeps_the_graph_from_being_opened_can_be_discarded(
    stage: Setting, run: Callable[..., Told]
) -> None:
    story = stage("insert", "main")
    unreadable(story)
    with pytest.raises(SidecarUnreadable, match="recovery discard"):
        raise_hint(story)
    assert "cannot be read" in run("list", story.uri).out
    told = run("discard", LOST, story.uri, "--confirm", "--json")
    assert told.code == 0
    assert told.json["writer_kind"] == "Unknown"
    assert "omnigraphdb doctor" in told.json["leaves"][0]
    graph = story.open()
    assert [row.recovery_kind for row in graph.recoveries()] == [RecoveryKind.DISCARDED]
    story.write_with(graph, "1")
    assert_settled(graph)


def raise_hint(story: Stage) -> None:
    """Raise the refusal of an open with its hint in the text."""
    try:
        story.open()
    except SidecarUnreadable as error:
        raise SidecarUnreadable(error.path, str(error.hint)) from error


def test_an_open_handle_can_discard_too(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    unreadable(story)
    with pytest.raises(SidecarUnreadable):
        story.write_with(graph, "1")
    done = graph.discard_recovery(LOST)
    assert done.operation_id == LOST
    story.write_with(graph, "1")
    assert_settled(graph)


def test_what_a_live_writer_does_cannot_be_discarded(stage: Setting) -> None:
    story = stage("insert", "main")
    at = Failpoint.TABLES_COMMITTED
    with run_parked_child(perform, story.uri, "insert", at=at) as writer:
        (left,) = story.open(read_only=True).pending_recoveries()
        with pytest.raises(RecoveryRequired, match="live writer"):
            omnigraphdb.discard_recovery(story.uri, left.operation_id)
        writer.release()
    graph = story.open()
    assert story.content(graph) == story.after("1")
    assert_settled(graph)


def test_an_unknown_operation_cannot_be_discarded(stage: Setting) -> None:
    story = stage("insert", "main")
    operation = interrupted(story)
    with pytest.raises(NotFound, match=operation[:20]):
        omnigraphdb.discard_recovery(
            story.uri, operation[:-1] + ("1" if operation[-1] == "0" else "0")
        )
    assert_settled(story.open())


@pytest.mark.parametrize("place", ["owned", "fresh"])
def test_an_operation_of_a_branch_is_discarded_on_its_branch(stage: Setting, place: str) -> None:
    story = stage("insert", place)
    operation = interrupted(story)
    done = omnigraphdb.discard_recovery(story.uri, operation)
    graph = story.open()
    assert graph.commit(done.commit).branch == place
    assert story.content(graph) == story.before
    if place == "fresh":
        assert any("fork" in one for one in done.leaves)
        story.write_with(graph, "1")
        assert story.content(graph) == story.after("1")
        assert_settled(graph)


def test_a_discard_that_is_interrupted_is_recorded_once(stage: Setting) -> None:
    story = stage("insert", "main")
    operation = interrupted(story, Failpoint.ARMED)
    with armed(Failpoint.SIDECAR_DELETE), pytest.raises(omnigraphdb.OmniError):
        omnigraphdb.discard_recovery(story.uri, operation)
    omnigraphdb.discard_recovery(story.uri, operation)
    graph = story.open()
    assert [row.recovery_kind for row in graph.recoveries()] == [RecoveryKind.DISCARDED]
    assert_settled(graph)


@pytest.mark.parametrize(
    "at", [Failpoint.ARMED, Failpoint.TABLE_COMMITTED, Failpoint.TABLES_COMMITTED]
)
def test_the_next_open_completes_a_discard_and_not_its_operation(
    stage: Setting, at: Failpoint
) -> None:
    story = stage("insert", "main")
    operation = interrupted(story, at)
    with armed(Failpoint.SIDECAR_DELETE), pytest.raises(omnigraphdb.OmniError):
        omnigraphdb.discard_recovery(story.uri, operation)
    (pending,) = story.open(read_only=True).pending_recoveries()
    assert pending.forecast == "discard, an operator decided so"
    graph = story.open()
    assert graph.pending_recoveries() == []
    assert story.content(graph) == story.before
    (row,) = graph.recoveries()
    assert (row.operation_id, row.recovery_kind) == (operation, RecoveryKind.DISCARDED)
    assert [c.id for c in graph.commits() if c.actor == RECOVERY_ACTOR] == [row.commit]


def test_a_read_only_handle_discards_nothing(stage: Setting) -> None:
    story = stage("insert", "main")
    operation = interrupted(story)
    graph: Graph = story.open(read_only=True)
    with pytest.raises(omnigraphdb.ReadOnlyError):
        graph.discard_recovery(operation)
