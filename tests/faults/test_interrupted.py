"""Recovery itself interrupted, raced or asked while the owner lives: rows R1 to R10."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import open_unsettled
from omnigraphdb.errors import RecoveryRequired
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed, parked
from omnigraphdb.ids import MAIN, RECOVERY_ACTOR, CommitId, TableKey
from omnigraphdb.manifest.change import Change, Draft, Update
from omnigraphdb.manifest.publish import publish
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.values import TableAt
from tests.faults.conftest import PLACES, Stage
from tests.support.child import KILLED, run_child, run_parked_child
from tests.support.foreign import foreign_rows
from tests.support.forge import forge_sidecar
from tests.support.once import once
from tests.support.settled import assert_settled, fingerprint
from tests.support.story import note, reopen

Setting = Callable[[str, str], Stage]
FORWARD, BACK = Failpoint.TABLES_COMMITTED, Failpoint.TABLE_COMMITTED


def interrupted(story: Stage, at: Failpoint, tag: str = "1") -> Graph:
    """A graph on which the story was interrupted; the handle has not looked since."""
    graph = story.open()
    with armed(at), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, tag)
    return graph


def kinds(graph: Graph) -> list[RecoveryKind]:
    return [row.recovery_kind for row in graph.recoveries()]


def heads(graph: Graph, branch: str) -> dict[str, int]:
    found: dict[str, int] = fingerprint(graph)[branch][3]
    return found


# ---- dying in the middle of a recovery


STEPS = [
    (FORWARD, Failpoint.ROLL_FORWARD),
    (FORWARD, Failpoint.PUBLISH_PREPARED),
    (FORWARD, Failpoint.PUBLISHED),
    (FORWARD, Failpoint.AUDIT),
    (FORWARD, Failpoint.SIDECAR_DELETE),
    (BACK, Failpoint.ROLLBACK_RESTORED),
    (BACK, Failpoint.PUBLISH_PREPARED),
    (BACK, Failpoint.PUBLISHED),
    (BACK, Failpoint.ROLLBACK_PUBLISHED),
    (BACK, Failpoint.AUDIT),
    (BACK, Failpoint.SIDECAR_DELETE),
    (Failpoint.ARMED, Failpoint.PUBLISHED),
    (Failpoint.ARMED, Failpoint.AUDIT),
    (Failpoint.ARMED, Failpoint.SIDECAR_DELETE),
    (Failpoint.PUBLISHED, Failpoint.AUDIT),
    (Failpoint.PUBLISHED, Failpoint.SIDECAR_DELETE),
]
KINDS = {
    FORWARD: RecoveryKind.ROLLED_FORWARD,
    BACK: RecoveryKind.ROLLED_BACK,
    Failpoint.ARMED: RecoveryKind.ROLLED_BACK,
    Failpoint.PUBLISHED: RecoveryKind.ROLLED_FORWARD,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("writing", "recovering"), STEPS)
def test_r2_r3_r4_a_recovery_that_dies_again_and_again_ends_as_it_began(
    stage: Setting, writing: Failpoint, recovering: Failpoint, place: str
) -> None:
    story = stage("merge", place)
    graph = interrupted(story, writing)
    commits = len(graph.commits(branch=place))
    tall = heads(graph, place)
    (left,) = graph.pending_recoveries()
    # A publish happens once, so a fault after it does too: here an error, there a death.
    is_last = recovering is Failpoint.PUBLISHED
    if not is_last or place == "owned":
        with armed(recovering), pytest.raises(omnigraphdb.OmniError):
            story.open()
    if not is_last or place != "owned":
        assert run_child(reopen, story.uri, failpoints=f"{recovering.value}=exit") == KILLED
    graph = story.open()
    assert kinds(graph) == [KINDS[writing]]
    assert [row.operation_id for row in graph.recoveries()] == [left.operation_id]
    whole = KINDS[writing] is RecoveryKind.ROLLED_FORWARD
    assert story.content(graph) == (story.after("1") if whole else story.before)
    added = len(graph.commits(branch=place)) - commits
    assert added == (0 if writing is Failpoint.PUBLISHED else 1)
    if writing is BACK and place != "fresh":
        # One restore for the table that moved, and at most one more for each of the two interruptions.
        grown = {t: v - tall[t] for t, v in heads(graph, place).items() if v != tall[t]}
        assert all(extra <= 3 for extra in grown.values())
        assert len(grown) == 1
    assert_settled(graph)
    story.write_with(graph, "2")
    assert_settled(graph)


# ---- two recoverers


def test_r1_two_opens_race_and_both_succeed(stage: Setting) -> None:
    story = stage("insert", "main")
    interrupted(story, FORWARD)
    with run_parked_child(reopen, story.uri, at=Failpoint.ROLL_FORWARD) as child:
        second = story.open()
        assert len(second.pending_recoveries()) == 1  # the other one is at it
        child.release()
    assert kinds(second) == [RecoveryKind.ROLLED_FORWARD]
    assert story.content(second) == story.after("1")
    assert_settled(second)


def test_r1_a_recoverer_that_lost_its_turn_finds_the_goal_reached(stage: Setting) -> None:
    story = stage("insert", "main")
    interrupted(story, FORWARD)

    def rival() -> None:
        for file in (Path(story.uri) / "__locks").iterdir():
            file.unlink()
        assert run_child(reopen, story.uri) == 0

    with armed(Failpoint.ROLL_FORWARD, once(rival)):
        graph = story.open()
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert story.content(graph) == story.after("1")
    assert_settled(graph)


@pytest.mark.parametrize("user_writes", [False, True])
def test_r7_a_goal_that_another_reached_is_recorded_with_the_commit_that_reached_it(
    stage: Setting, user_writes: bool
) -> None:
    """The rival is a recoverer of an earlier release: it names no operation, and dies before its audit."""
    story = stage("insert", "main")
    graph = interrupted(story, FORWARD)
    reached: list[str] = []

    def rival() -> None:
        reached.append(publish_heads(graph, RECOVERY_ACTOR))
        if user_writes:
            reached.append(publish_heads(graph, "user", tables=()))

    with armed(Failpoint.ROLL_FORWARD, once(rival)):
        graph = story.open()
    assert [row.commit for row in graph.recoveries()] == reached[:1]
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert story.content(graph) == story.after("1")
    assert_settled(graph)


def publish_heads(
    graph: Graph,
    actor: str,
    tables: tuple[str, ...] = ("edge:LivesIn", "node:City", "node:Person"),
) -> str:
    """Publish tables at their HEADs, as somebody who takes no turns."""
    engine = graph._engine
    snapshot = engine.manifest.load(MAIN).snapshot
    updates = []
    for table in tables:
        place = snapshot.entry(TableKey(table)).at
        at = TableAt(
            path=place.path, branch=None, version=engine.store.tables.head(place.path, None)
        )
        count = engine.store.tables.open(at).count()
        updates.append(Update(table_key=TableKey(table), at=at, row_count=count))
    draft = Draft(commit=CommitId(engine.runtime.new_id()), kind=CommitKind.RECOVERY, actor=actor)
    publish(engine.manifest, Change(branch=MAIN, updates=tuple(updates), draft=draft))
    return draft.commit


def test_a_lost_publish_whose_goal_nobody_reached_is_left_for_later(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = interrupted(story, FORWARD)
    half = once(lambda: publish_heads(graph, "user", tables=("node:City",)))
    with armed(Failpoint.ROLL_FORWARD, half):
        story.open()
    assert len(graph.pending_recoveries()) == 1
    graph = story.open()
    assert story.content(graph) == story.after("1")
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD]
    assert_settled(graph)


def test_a_read_set_that_moves_under_a_roll_forward_turns_it_into_a_roll_back(
    stage: Setting,
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(FORWARD), pytest.raises(omnigraphdb.OmniError):
        graph.mutate('query m() { insert Knows { from: "a", to: "d" } }')

    def stranger() -> None:
        foreign_rows(graph, "node:Person", ["stranger"])
        publish_heads(graph, "stranger", tables=("node:Person",))

    with armed(Failpoint.ROLL_FORWARD, once(stranger)):
        story.open()
    assert [one.forecast for one in graph.pending_recoveries()] == ["roll back"]
    graph = story.open()
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert [one for one in story.content(graph) if "stranger" not in one] == list(story.before)
    assert_settled(graph)


def test_a_roll_back_that_loses_its_publish_looks_again(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = interrupted(story, BACK)
    (left,) = graph.pending_recoveries()
    restored = heads(graph, "main")["edge:LivesIn"] + 1

    def rival() -> None:
        """Publish the restored version, as an earlier attempt whose answer was lost would have."""
        publish_heads(graph, RECOVERY_ACTOR, tables=("edge:LivesIn",))

    with armed(Failpoint.ROLLBACK_RESTORED, once(rival)):
        graph = story.open()
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert heads(graph, "main")["edge:LivesIn"] == restored
    assert [row.operation_id for row in graph.recoveries()] == [left.operation_id]
    assert story.content(graph) == story.before
    assert [str(one) for one in graph.doctor()] == []


# ---- two operations


def test_r5_the_second_of_two_operations_on_one_table_sees_what_the_first_left(
    stage: Setting,
) -> None:
    """Both were written by an earlier release, which could leave two."""
    story = stage("insert", "main")
    graph = story.open()
    tables = graph._engine.store.tables
    entry = graph._engine.manifest.current(MAIN).snapshot.entry(TableKey("node:City"))
    at = entry.at
    for key in ("one", "two"):
        rows = tables.open(at).read().slice(0, 1)
        row = rows.set_column(0, rows.schema.field("id"), [[key]]).set_column(
            1, rows.schema.field("k"), [[key]]
        )
        staged = tables.stage_append(at, row)
        operation = forge_sidecar(graph, "Optimize", at, key="node:City", schema_version=2)
        at = tables.commit_staged(staged, operation_id=operation, lock=None).at
    graph = story.open()
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD] * 2
    assert heads(graph, "main")["node:City"] == at.version
    assert {"one", "two"} <= set(graph.table("City")["id"].to_pylist())
    assert_settled(graph)


def test_r6_two_independent_operations_are_settled_oldest_first(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    for text in ('query m() { insert City { k: "new" } }', 'query m() { insert Note { k: "n" } }'):
        other = Graph(open_unsettled(story.uri))
        with armed(FORWARD), pytest.raises(omnigraphdb.OmniError):
            unhealed(other, text)
    left = [one.operation_id for one in graph.pending_recoveries()]
    assert len(left) == 2
    graph = story.open()
    assert [row.operation_id for row in graph.recoveries()] == sorted(left)
    assert kinds(graph) == [RecoveryKind.ROLLED_FORWARD] * 2
    commits = [graph.commit(row.commit) for row in graph.recoveries()]
    assert commits[1].parent == commits[0].id
    assert_settled(graph)


def unhealed(graph: Graph, text: str) -> None:
    """Write past an operation that a heal would settle: its owner seems to be alive."""
    held = [one.sidecar.lock_keys for one in graph._engine.recovery.forecast() if one.sidecar]
    with graph._engine.committer.locks.acquire({key for keys in held for key in keys}):
        graph.mutate(text)


def test_a_roll_back_leaves_alone_what_another_operation_moved(stage: Setting) -> None:
    """The first was stopped before it came to the cities, so the second could write them; it only lacks its publish."""
    story = stage("insert", "main")
    graph = interrupted(story, BACK)
    with armed(FORWARD), pytest.raises(omnigraphdb.OmniError):
        graph.mutate('query m() { insert City { k: "second" } }')
    assert [one.forecast for one in graph.pending_recoveries()] == ["roll back", "roll forward"]
    graph = story.open()
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK, RecoveryKind.ROLLED_FORWARD]
    assert "second" in str(story.content(graph))
    assert "p1" not in str(story.content(graph))
    assert_settled(graph)


def test_a_roll_back_leaves_foreign_rows_to_repair(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = interrupted(story, BACK)
    foreign_rows(graph, "node:City", ["stray"])
    graph = story.open()
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert [(one.check, one.table_key) for one in graph.doctor()] == [("drift", "node:City")]
    graph.repair(confirm=True, force=True)
    assert "stray" in graph.table("City")["id"].to_pylist()
    assert_settled(graph)


# ---- the owner lives


@pytest.mark.parametrize("at", [Failpoint.ARMED, BACK, FORWARD, Failpoint.PUBLISHED])
def test_r8_a_refresh_waits_for_a_live_owner_and_finds_nothing_to_do(
    stage: Setting, at: Failpoint
) -> None:
    story = stage("insert", "main")
    owner, other = story.open(), story.open()
    done: list[str] = []

    def write() -> None:
        story.write_with(owner, "1")
        done.append("written")

    def refresh() -> None:
        other.refresh()
        done.append("refreshed")

    with parked(at) as park:
        writing, refreshing = threading.Thread(target=write), threading.Thread(target=refresh)
        writing.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        refreshing.start()
        refreshing.join(0.2)
        assert refreshing.is_alive()
        note(other, "main", "an entry heal does not wait")
        assert done == []
        park.release()
        writing.join(PARK_SECONDS_MAX)
        refreshing.join(PARK_SECONDS_MAX)
    assert sorted(done) == ["refreshed", "written"]
    assert other.recoveries() == []
    assert_settled(other)


@pytest.mark.parametrize("at", [Failpoint.ARMED, BACK, FORWARD, Failpoint.PUBLISHED])
@pytest.mark.parametrize("place", PLACES)
def test_r9_an_open_beside_a_live_owner_touches_nothing_of_it(
    stage: Setting, at: Failpoint, place: str
) -> None:
    story = stage("insert", place)
    owner = story.open()
    with parked(at) as park:
        writing = threading.Thread(target=lambda: story.write_with(owner, "1"))
        writing.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        with counting() as costs:
            other = story.open()
            other.refresh(roll_back=True)
        assert len(other.pending_recoveries()) == 1
        assert costs[Cost.TABLE_RESTORES] == costs[Cost.MANIFEST_SWAPS] == 0
        park.release()
        writing.join(PARK_SECONDS_MAX)
    assert story.content(other) == story.after("1")
    assert other.recoveries() == []
    assert_settled(other)


def test_a_writer_blocked_by_an_owner_that_died_completes_it_and_goes_on(stage: Setting) -> None:
    """The owner is alive when the writer enters, so the heal at the entry passes it over."""
    story = stage("insert", "main")
    owner, other = story.open(), story.open()
    second = threading.Thread(target=lambda: story.write_with(other, "2"))

    def die() -> None:
        second.start()
        second.join(0.3)
        assert second.is_alive(), "the second writer did not wait for the first one's turn"
        raise Injected("killed")

    with armed(FORWARD, once(die)), pytest.raises(Injected):
        story.write_with(owner, "1")
    second.join(PARK_SECONDS_MAX)
    assert story.content(other) == story.after("1", "2")
    assert kinds(other) == [RecoveryKind.ROLLED_FORWARD]
    assert_settled(other)


@pytest.mark.parametrize("place", PLACES)
def test_r10_what_must_be_rolled_back_waits_for_somebody_who_may(
    stage: Setting, place: str
) -> None:
    story = stage("insert", place)
    graph = interrupted(story, BACK)
    before = fingerprint(graph)
    graph.refresh()
    assert fingerprint(graph) == before
    assert len(graph.pending_recoveries()) == 1
    with pytest.raises(RecoveryRequired, match="reopen"):
        story.write_with(graph, "1")
    graph.refresh(roll_back=True)
    assert kinds(graph) == [RecoveryKind.ROLLED_BACK]
    assert story.content(graph) == story.before
    assert_settled(graph)
    story.write_with(graph, "1")
    assert story.content(graph) == story.after("1")


MAINTENANCE: dict[str, Callable[[Graph], object]] = {
    "optimize": lambda graph: graph.optimize(),
    "repair": lambda graph: graph.repair(),
    "cleanup": lambda graph: graph.cleanup(keep=1, confirm=True),
}


@pytest.mark.parametrize("verb", MAINTENANCE)
def test_o6_maintenance_waits_until_nothing_is_pending(stage: Setting, verb: str) -> None:
    story = stage("insert", "main")
    graph = interrupted(story, BACK)
    before = fingerprint(graph)
    with pytest.raises(RecoveryRequired):
        MAINTENANCE[verb](graph)
    assert fingerprint(graph) == before
    graph.refresh(roll_back=True)
    MAINTENANCE[verb](graph)
    assert_settled(graph)


def test_a_background_reconciler_settles_what_a_dead_writer_left(stage: Setting) -> None:
    story = stage("insert", "main")
    interrupted(story, BACK)
    settled = threading.Event()
    with armed(Failpoint.ROLLBACK_PUBLISHED, settled.set):
        # Its own open would settle at once, so the operation is put there afterwards.
        (file,) = (Path(story.uri) / "__recovery").iterdir()
        text = file.read_text()
        file.unlink()
        with story.open(config={"reconcile_seconds": 0.05}):
            (whole := file.with_suffix(".part")).write_text(text)
            whole.rename(file)
            assert settled.wait(PARK_SECONDS_MAX)
        # Closing waits for the operation in hand.
        assert kinds(story.open()) == [RecoveryKind.ROLLED_BACK]
    assert not any(t.name == "omnigraph-reconciler" for t in threading.enumerate())
    assert_settled(story.open())


def test_a_reconciler_ends_with_the_last_handle_that_nobody_closed(stage: Setting) -> None:
    graph = stage("insert", "main").open(config={"reconcile_seconds": 0.01})
    (thread,) = [t for t in threading.enumerate() if t.name == "omnigraph-reconciler"]
    other = graph.on("main")
    del graph
    gc.collect()
    thread.join(0.1)
    assert thread.is_alive()
    del other
    gc.collect()
    thread.join(PARK_SECONDS_MAX)
    assert not thread.is_alive()
