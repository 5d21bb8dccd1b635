"""Every kind of mutation and load, interrupted at every step, as an error and as a death: whole or absent."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import armed
from omnigraphdb.ids import RECOVERY_ACTOR
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.counters import Cost, counting
from tests.faults.conftest import PLACES, Stage
from tests.faults.rows import WRITE_ROWS, Effect, Row
from tests.support.child import KILLED, run_child
from tests.support.settled import assert_settled, fingerprint
from tests.support.story import ACTOR, WRITES, note, perform

Setting = Callable[[str, str], Stage]
CELLS = [
    pytest.param(row, name, place, id=f"{row.id}-{name}-{place}")
    for row in WRITE_ROWS
    for name in WRITES
    for place in PLACES
    if place in row.places
]


# ---- as an error: the same handle goes on, then the graph is opened again


@pytest.mark.parametrize(("row", "name", "place"), CELLS)
def test_a_failed_write_is_whole_or_absent(row: Row, name: str, place: str, stage: Setting) -> None:
    story = stage(name, place)
    graph = story.open()
    before = look(graph, story)
    with armed(row.point, row.action):
        fails(graph, story, row)
    operation = pending(graph, row.heal)
    if row.heal is Effect.DEFERRED:
        assert_blocks_only_its_tables(graph, story, operation)
        graph = story.open()
        assert_settled_as(row.open, graph, story, before, operation, row.moved)
        follow_up(graph, story, row.open)
    else:
        follow_up(graph, story, row.heal)
        assert_settled_as(row.heal, graph, story, before, operation)
    assert_settled(graph)
    assert_reopens_unchanged(graph, story)


def fails(graph: Graph, story: Stage, row: Row) -> None:
    if row.acknowledged:
        story.write_with(graph, "1", ACTOR)
        return
    with pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1", ACTOR)


def pending(graph: Graph, expected: Effect) -> str | None:
    """The operation that waits for recovery, if one should."""
    found = [one.operation_id for one in graph.pending_recoveries()]
    assert len(found) == (expected is not Effect.NOTHING)
    return found[0] if found else None


def assert_blocks_only_its_tables(graph: Graph, story: Stage, operation: str | None) -> None:
    heads = fingerprint(graph)[story.branch][3]
    with counting() as costs:
        note(graph, story.branch, "unrelated")
        with pytest.raises(omnigraphdb.RecoveryRequired) as refused:
            story.write_with(graph, "1")
    assert refused.value.operation_id == operation
    assert "reopen" in str(refused.value)
    assert pending(graph, Effect.DEFERRED) == operation
    assert costs[Cost.TABLE_RESTORES] == 0
    now = fingerprint(graph)[story.branch][3]
    assert {**now, "node:Note": 0} == {**heads, "node:Note": 0}


# ---- as a death: only an open can help


@pytest.mark.parametrize(("row", "name", "place"), CELLS)
def test_a_killed_write_is_whole_or_absent(row: Row, name: str, place: str, stage: Setting) -> None:
    story = stage(name, place)
    with story.open(read_only=True) as graph:
        before = look(graph, story)
    failpoints = f"{row.point.value}={row.exit}"
    assert run_child(perform, story.uri, name, place, failpoints=failpoints) == KILLED
    with story.open(read_only=True) as graph:
        operation = pending(graph, row.open)
    graph = story.open()
    assert_settled(graph)
    assert_settled_as(row.open, graph, story, before, operation, row.moved)
    follow_up(graph, story, row.open)
    assert_settled(graph)
    assert_reopens_unchanged(graph, story)


@pytest.mark.parametrize("name", WRITES)
def test_m12_an_acknowledged_write_survives_a_death(name: str, stage: Setting) -> None:
    story = stage(name, "main")
    assert run_child(_write_and_die, story.uri, name) == KILLED
    graph = story.open()
    assert story.content(graph) == story.after("1")
    assert graph.recoveries() == []
    assert_settled(graph)


def _write_and_die(uri: str, name: str) -> None:
    from omnigraphdb.failpoints import kill

    perform(uri, name)
    kill()


# ---- what both assert


def look(graph: Graph, story: Stage) -> Mapping[str, Any]:
    """The branch and main before the fault."""
    assert story.content(graph) == story.before
    return fingerprint(graph)


def assert_settled_as(
    effect: Effect,
    graph: Graph,
    story: Stage,
    before: Mapping[str, Any],
    operation: str | None,
    moved: int = 1,
) -> None:
    rows = [row for row in graph.recoveries() if row.operation_id == operation]
    assert len(graph.recoveries()) == len(before["recoveries"]) + len(rows)
    if effect is Effect.NOTHING:
        assert rows == []
        return
    (row,) = rows
    assert (row.for_actor, row.writer_kind) == (ACTOR, str(story.write.kind))
    commit = graph.commit(row.commit)
    assert commit.branch == story.branch
    assert commit.merged_parent is None
    heads_before = before[story.branch][1]
    match effect:
        case Effect.FORWARD | Effect.STALE:
            assert row.recovery_kind is RecoveryKind.ROLLED_FORWARD
            assert commit.actor == (RECOVERY_ACTOR if effect is Effect.FORWARD else ACTOR)
            assert row.tables
        case Effect.FREE:
            assert (row.recovery_kind, row.tables) == (RecoveryKind.ROLLED_BACK, ())
            assert commit.actor == RECOVERY_ACTOR
        case Effect.BACK:
            assert row.recovery_kind is RecoveryKind.ROLLED_BACK
            assert commit.actor == RECOVERY_ACTOR
            assert all(o.to_version == before[story.branch][2][o.table_key] for o in row.tables)
            assert len(row.tables) == moved
        case Effect.DEFERRED | Effect.NOTHING:
            raise AssertionError(effect)
    if effect is not Effect.BACK:
        assert commit.parent == heads_before[-1]
    if story.branch != "main":
        assert fingerprint(graph)["main"] == before["main"]


def follow_up(graph: Graph, story: Stage, effect: Effect) -> None:
    """A write of the same kind succeeds, on top of the whole story or of none of it, and of its recovery."""
    told = [row.commit for row in graph.recoveries()]
    head = graph.commits(branch=story.branch, limit=1)[0]
    story.write_with(graph, "2")
    shown = story.content(graph)
    tags = ("1", "2") if effect.is_visible else ("2",)
    assert [one for one in shown if '"Note"' not in one] == list(story.after(*tags))
    newest = graph.commits(branch=story.branch, limit=1)[0]
    healed = {row.commit for row in graph.recoveries()} - set(told)
    assert newest.parent in (healed or {head.id})


def assert_reopens_unchanged(graph: Graph, story: Stage) -> None:
    shown = fingerprint(graph)
    again = story.open()
    assert fingerprint(again) == shown
    assert again.pending_recoveries() == []
