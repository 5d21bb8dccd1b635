"""What holds whatever is interrupted: RC-1 to RC-7."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.values import Staged
from tests.faults.conftest import PLACES, Stage
from tests.faults.rows import WRITE_ROWS, Row
from tests.support.foreign import foreign_rows
from tests.support.once import once
from tests.support.settled import assert_settled, digest, fingerprint
from tests.support.story import SCHEMA, WRITES, note
from tests.support.watched_tables import watched

Setting = Callable[[str, str], Stage]


def covered(story: Stage, moves: list[str]) -> Callable[[Staged], None]:
    """Look for the one intent that names a table, whenever its HEAD is about to move."""

    def look(staged: Staged) -> None:
        (file,) = (Path(story.uri) / "__recovery").glob("*.json")
        pins = json.loads(file.read_text())["tables"]
        place = (staged.at.path, staged.at.branch)
        named = [
            p for p in pins if (p["table_path"][-len(place[0]) :], p.get("table_branch")) == place
        ]
        assert len(named) == 1
        assert named[0]["expected_version"] <= staged.at.version < named[0]["post_commit_pin"]
        if named[0]["post_commit_pin"] == named[0]["expected_version"] + 1:
            assert named[0]["transaction_uuids"] == [staged.uuid]
        moves.append(staged.uuid)

    return look


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", WRITES)
def test_rc1_no_head_moves_without_an_intent_that_names_it(
    stage: Setting, name: str, place: str
) -> None:
    story = stage(name, place)
    graph = story.open(config={"maintenance": "off"})
    moves: list[str] = []
    story.write_with(watched(graph, before=covered(story, moves)), "1")
    assert len(moves) >= 2
    assert_settled(graph)


OTHER_WRITERS: dict[str, Callable[[Graph], object]] = {
    "merge": lambda graph: graph.merge("owned"),
    "merge back": lambda graph: graph.merge("main", into="owned"),
    "ensure_indices": lambda graph: graph.ensure_indices(),
    "optimize": lambda graph: graph.optimize(),
    "schema_apply": lambda graph: graph.schema_apply(SCHEMA.replace("n: I32?", "n: I32?  m: I32?")),
}


@pytest.mark.parametrize("name", OTHER_WRITERS)
def test_rc1_holds_for_every_writer(stage: Setting, name: str) -> None:
    story = stage("merge", "owned")
    graph = story.open(config={"maintenance": "off"})
    WRITES["append"].run(graph, "main", "5", None)
    if name == "schema_apply":
        graph.branch_delete("owned")
    moves: list[str] = []
    OTHER_WRITERS[name](watched(graph, before=covered(story, moves)))
    assert len(moves) >= 2
    assert_settled(graph)


@pytest.mark.parametrize(
    ("row", "place"),
    [pytest.param(row, p, id=f"{row.id}-{p}") for row in WRITE_ROWS for p in row.places],
)
def test_a_cancelled_write_is_whole_or_absent_and_the_handle_goes_on(
    stage: Setting, row: Row, place: str
) -> None:
    """What interrupts it is no error of ours, so that nothing handles it: an impatient user, a cancelled task."""
    story = stage("insert", place)
    graph = story.open()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with armed(row.point, once(interrupt)), pytest.raises(KeyboardInterrupt):
        story.write_with(graph, "1")
    with suppress(omnigraphdb.RecoveryRequired):
        story.write_with(graph, "2")
    graph = story.open()
    shown = story.content(graph)
    assert shown in (story.before, story.after("1"), story.after("2"), story.after("1", "2"))
    assert_settled(graph)
    story.write_with(graph, "2")
    assert "p2" in str(story.content(graph))
    assert_settled(graph)


def test_a_test_may_leave_the_last_look_to_its_fixture(
    stage: Setting, settled: Callable[[Graph], Graph]
) -> None:
    story = stage("insert", "fresh")
    story.write_with(settled(story.open()), "1")


@pytest.mark.parametrize("place", PLACES)
def test_rc2_recovery_never_publishes_a_part(stage: Setting, place: str) -> None:
    """Whichever table was the last to land, the write shows in all of its tables or in none."""
    story = stage("insert", place)
    for landed in range(1, 4):
        graph = story.open()
        action = f"skip({landed - 1})+error"
        with armed(Failpoint.TABLE_COMMITTED, action), pytest.raises(omnigraphdb.OmniError):
            story.write_with(graph, "1")
        graph = story.open()
        assert story.content(graph) == (story.after("1") if landed == 3 else story.before)
        assert_settled(graph)


def test_rc3_roll_forward_publishes_what_was_judged_and_nothing_that_came_later(
    stage: Setting,
) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.TABLES_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1")
    stray = once(lambda: _append(graph))
    with armed(Failpoint.ROLL_FORWARD, stray):
        graph = story.open()
    assert story.content(graph) == story.after("1")
    assert [(one.check, one.table_key) for one in graph.doctor()] == [("drift", "node:City")]


def _append(graph: Graph) -> None:
    foreign_rows(graph, "node:City", ["stray"])


def test_rc4_rc5_a_heal_restores_nothing_and_blocks_only_what_it_must(stage: Setting) -> None:
    story = stage("insert", "main")
    graph = story.open()
    with armed(Failpoint.TABLE_COMMITTED), pytest.raises(omnigraphdb.OmniError):
        story.write_with(graph, "1")
    heads = fingerprint(graph)["main"][3]
    with counting() as costs:
        graph.refresh()
        note(graph, "main", "unrelated")
        # Person was named by the interrupted write, but did not move: it is not in the way.
        graph.mutate('query m() { insert Person { k: "free" } }')
        with pytest.raises(omnigraphdb.RecoveryRequired):
            graph.mutate('query m() { insert LivesIn { from: "c", to: "x" } }')
    assert costs[Cost.TABLE_RESTORES] == 0
    assert fingerprint(graph)["main"][3]["edge:LivesIn"] == heads["edge:LivesIn"]
    graph = story.open()
    assert "free" in str(story.content(graph))
    assert "p1" not in str(story.content(graph))
    assert_settled(graph)


@pytest.mark.parametrize(
    "at",
    [
        None,
        Failpoint.ARMED,
        Failpoint.TABLE_COMMITTED,
        Failpoint.TABLES_COMMITTED,
        Failpoint.PUBLISHED,
    ],
)
def test_rc6_a_read_only_open_writes_nothing(stage: Setting, at: Failpoint | None) -> None:
    story = stage("insert", "owned")
    with story.open() as graph:
        if at is not None:
            with armed(at), pytest.raises(omnigraphdb.OmniError):
                story.write_with(graph, "1")
    before = digest(Path(story.uri))
    locks = sorted((Path(story.uri) / "__locks").iterdir())
    with story.open(read_only=True) as reader:
        reader.refresh(roll_back=True)
        reader.pending_recoveries()
        reader.recoveries()
        reader.doctor()
        story.content(reader)
    assert digest(Path(story.uri)) == before
    assert sorted((Path(story.uri) / "__locks").iterdir()) == locks


def test_rc7_a_clean_open_makes_nothing(tmp_path: Path) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    before, names = digest(tmp_path), sorted(tmp_path.rglob("*"))
    graph = omnigraphdb.open(tmp_path / "g")
    graph.refresh(roll_back=True)
    graph.pending_recoveries()
    graph.recoveries()
    assert (digest(tmp_path), sorted(tmp_path.rglob("*"))) == (before, names)
    assert not (tmp_path / "g" / "__recovery").exists()
