"""Recovery that dies again and again, at every failpoint, for every kind of writer: one commit, one record."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.session.open import open_unsettled
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, Injected, armed, parked
from omnigraphdb.ids import RECOVERY_ACTOR, BranchName, OperationId
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.counters import Cost, counting
from tests.support.child import KILLED, run_child, run_parked_child
from tests.support.interruptible import WRITERS, Writer, shown
from tests.support.settled import assert_settled, fingerprint
from tests.support.story import WRITES, Content, reopen

Shown = tuple[str, Content]
Model = Callable[[str], Shown]


class Fate(StrEnum):
    """What recovery makes of an interrupted write."""

    FORWARD = "forward"
    BACK = "back"
    DISCARDED = "discarded"
    STALE = "stale"

    @property
    def is_visible(self) -> bool:
        return self in (Fate.FORWARD, Fate.STALE)

    @property
    def kind(self) -> RecoveryKind:
        return RecoveryKind.ROLLED_FORWARD if self.is_visible else RecoveryKind.ROLLED_BACK


LISTED: Final = (Failpoint.SIDECAR_LIST, Failpoint.SIDECAR_LISTED, Failpoint.SWEEP_LISTED)
PUBLISHES: Final = (Failpoint.PUBLISH_PREPARED, Failpoint.PUBLISHED)
PLACES: Final = (Failpoint.SCHEMA_SOURCE_PLACED, Failpoint.SCHEMA_IR_PLACED)
ENDS: Final = (Failpoint.AUDIT, Failpoint.SIDECAR_DELETE)
RECOVERY: Final = (
    *LISTED,
    Failpoint.ROLL_FORWARD,
    Failpoint.ROLLBACK_DECIDED,
    Failpoint.ROLLBACK_TABLE_RESTORED,
    Failpoint.STAGING_REMOVED,
    Failpoint.ROLLBACK_RESTORED,
    *PUBLISHES,
    Failpoint.ROLLBACK_PUBLISHED,
    *PLACES,
    Failpoint.ORPHAN_AUDIT,
    *ENDS,
)


def passed(writer: Writer, fate: Fate) -> tuple[Failpoint, ...]:
    """The failpoints that recovery comes to, in order."""
    places = PLACES if writer.files else ()
    removed = (Failpoint.STAGING_REMOVED,) if writer.files else ()
    match fate:
        case Fate.FORWARD:
            return (*LISTED, Failpoint.ROLL_FORWARD, *PUBLISHES, *places, *ENDS)
        case Fate.BACK:
            restored = (Failpoint.ROLLBACK_TABLE_RESTORED,) if writer.pins else ()
            decided, published = Failpoint.ROLLBACK_DECIDED, Failpoint.ROLLBACK_PUBLISHED
            acts = (*restored, *removed, Failpoint.ROLLBACK_RESTORED)
            return (*LISTED, decided, *acts, *PUBLISHES, published, *ENDS)
        case Fate.DISCARDED:
            return (*LISTED, *removed, *PUBLISHES, *ENDS)
        case Fate.STALE:
            return (*LISTED, *places, *(() if writer.has_commit else PUBLISHES), *ENDS)


ROWS: Final = [
    pytest.param(name, fate, point, id=f"{name}-{fate}-{point}")
    for name, writer in WRITERS.items()
    for fate in Fate
    for point in getattr(writer, fate.value)
]


# ---- one interrupted operation


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A graph on which a write was stopped, and what its branch showed before."""

    uri: str
    writer: Writer
    fate: Fate
    operation: OperationId
    before: Shown

    def open(self) -> Graph:
        graph: Graph = omnigraphdb.open(self.uri)
        return graph


def interrupt(root: Path, name: str, fate: Fate, point: Failpoint) -> Interrupted:
    writer = WRITERS[name]
    with writer.prepare(root) as graph:
        before = shown(graph, writer.branch)
        with armed(point), pytest.raises(OmniError):
            writer.write(graph)
        (left,) = graph.pending_recoveries()
    return Interrupted(str(root), writer, fate, OperationId(left.operation_id), before)


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Model:
    """What the branch of a writer shows after a write that nothing interrupted."""
    known: dict[str, Shown] = {}

    def model(name: str) -> Shown:
        if name not in known:
            writer = WRITERS[name]
            with writer.prepare(tmp_path_factory.mktemp("undisturbed") / "g") as graph:
                writer.write(graph)
                known[name] = shown(graph, writer.branch)
        return known[name]

    return model


def check(case: Interrupted, after: Shown) -> None:
    """One commit, one record, whole or absent; nothing is left, and the same write works."""
    writer, fate = case.writer, case.fate
    with case.open() as graph:
        commits = graph._engine.manifest.load(BranchName(writer.branch)).lineage.commits
        made = [c for c in commits if c.actor == RECOVERY_ACTOR]
        own = fate is Fate.STALE and writer.has_commit
        assert [c.operation_id for c in made] == ([] if own else [case.operation])
        rows = graph.recoveries()
        assert [(row.operation_id, row.recovery_kind) for row in rows] == [
            (case.operation, fate.kind)
        ]
        assert own or rows[0].commit == made[0].id
        assert shown(graph, writer.branch) == (after if fate.is_visible else case.before)
        assert_settled(graph)
        before = fingerprint(graph)
        with case.open() as again:
            assert fingerprint(again) == before
        writer.write(graph)
        assert shown(graph, writer.branch)[0] == after[0]
        assert_settled(graph)


# ---- dying


@contextmanager
def dying(points: tuple[Failpoint, ...], times: int) -> Iterator[Counter[Failpoint]]:
    """Fail at each of these failpoints so many times; gives how often each was met."""
    deaths: Counter[Failpoint] = Counter()

    def at(point: Failpoint) -> Callable[[], None]:
        def act() -> None:
            if deaths[point] < times:
                deaths[point] += 1
                raise Injected(f"injected failure at {point}")

        return act

    with ExitStack() as stack:
        for point in points:
            stack.enter_context(armed(point, at(point)))
        yield deaths


def recover(case: Interrupted, points: tuple[Failpoint, ...], times: int) -> Counter[Failpoint]:
    """Open until an open succeeds; gives where the others died."""
    with dying(points, times) as deaths:
        for _ in range(times * len(points) + 1):
            try:
                case.open().close()
                return deaths
            except Injected:
                continue
    raise AssertionError(f"recovery never ended: {deaths}")


@pytest.mark.parametrize(("name", "fate", "point"), ROWS)
def test_a_recovery_that_dies_twice_at_every_failpoint_leaves_one_commit_and_one_record(
    tmp_path: Path, undisturbed: Model, name: str, fate: Fate, point: Failpoint
) -> None:
    case = interrupt(tmp_path / "g", name, fate, point)
    deaths = recover(case, RECOVERY, times=2)
    assert set(deaths) == set(passed(case.writer, fate))
    check(case, undisturbed(name))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "fate", "point", "dies"),
    [
        pytest.param(*row.values, dies, id=f"{row.id}-{dies}")
        for row in ROWS
        for dies in passed(WRITERS[str(row.values[0])], Fate(str(row.values[1])))
    ],
)
def test_a_recovery_that_dies_three_times_at_one_failpoint_leaves_one_commit_and_one_record(
    tmp_path: Path, undisturbed: Model, name: str, fate: Fate, point: Failpoint, dies: Failpoint
) -> None:
    case = interrupt(tmp_path / "g", name, fate, point)
    assert set(recover(case, (dies,), times=3)) == {dies}
    check(case, undisturbed(name))


def test_a_record_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    case = interrupt(tmp_path / "g", "mutation", Fate.FORWARD, Failpoint.TABLES_COMMITTED)
    with armed(Failpoint.SIDECAR_DELETE), pytest.raises(Injected):
        case.open()
    with Graph(open_unsettled(case.uri)) as graph:
        told = graph.recoveries()
    assert len(told) == 1
    with case.open() as graph:
        assert graph.recoveries() == told
        assert_settled(graph)


@pytest.mark.parametrize(("name", "tables"), [("mutation", 1), ("merge: three-way", 2)])
def test_a_table_is_restored_once_however_often_recovery_dies(
    tmp_path: Path, name: str, tables: int
) -> None:
    case = interrupt(tmp_path / "g", name, Fate.BACK, WRITERS[name].back[0])
    with counting() as costs:
        recover(case, RECOVERY, times=2)
    assert costs[Cost.TABLE_RESTORES] == tables


# ---- as a death


KILLS: Final = [
    ("schema: metadata only", Fate.FORWARD, Failpoint.SCHEMA_STAGED),
    ("schema: metadata only", Fate.BACK, Failpoint.SCHEMA_HALF_STAGED),
    ("merge: cancels out", Fate.FORWARD, Failpoint.MERGE_CONFIRMED),
    ("merge: three-way", Fate.BACK, Failpoint.MERGE_EFFECTS_DONE),
]
ONCE: Final = (
    Failpoint.PUBLISHED,
    Failpoint.ROLLBACK_TABLE_RESTORED,
    *PLACES,
)
"""What is behind recovery when it died there; at the others it dies as often as one likes."""


@pytest.mark.parametrize(("name", "fate", "point"), KILLS)
def test_a_recovery_that_is_killed_at_every_failpoint_leaves_one_commit_and_one_record(
    tmp_path: Path, undisturbed: Model, name: str, fate: Fate, point: Failpoint
) -> None:
    case = interrupt(tmp_path / "g", name, fate, point)
    for dies in passed(case.writer, fate)[len(LISTED) :]:
        for _ in range(1 if dies in ONCE else 2):
            assert run_child(reopen, case.uri, failpoints=f"{dies}=exit") == KILLED
    check(case, undisturbed(name))


# ---- somebody else meanwhile


REPLACED: Final = "query q() { insert City { name: 'Oslo' } }".replace("'", '"')
AFTERWARDS: Final[dict[str, Callable[[Graph], object]]] = {
    # It replaces every row, and with them those of the interrupted write.
    "mutation": lambda graph: WRITES["overwrite"].run(graph, "main", "2", None),
    # It moves a table that the interrupted change relied on.
    "schema: metadata only": lambda graph: graph.mutate(REPLACED),
    "merge: cancels out": lambda graph: graph.mutate(REPLACED),
}


@pytest.mark.parametrize("name", AFTERWARDS)
def test_what_a_recoverer_showed_before_it_died_is_told_as_shown_whoever_wrote_since(
    tmp_path: Path, name: str
) -> None:
    """The writer enters while the recoverer lives, so that the heal at its entry passes it over."""
    case = interrupt(tmp_path / "g", name, Fate.FORWARD, WRITERS[name].forward[-1])
    other = Graph(open_unsettled(case.uri))
    writing = threading.Thread(target=lambda: AFTERWARDS[name](other))
    with run_parked_child(reopen, case.uri, at=Failpoint.PUBLISHED) as recoverer:
        with parked(Failpoint.PREPARED) as prepared:
            writing.start()
            assert prepared.reached.wait(PARK_SECONDS_MAX)
            recoverer.kill()
        writing.join(PARK_SECONDS_MAX)
    assert other.commits()[0].actor != RECOVERY_ACTOR
    other.close()
    with case.open() as graph:
        rows = [(row.operation_id, row.recovery_kind) for row in graph.recoveries()]
        assert rows == [(case.operation, RecoveryKind.ROLLED_FORWARD)]
        made = [c.id for c in graph.commits() if c.actor == RECOVERY_ACTOR]
        assert made == [graph.recoveries()[0].commit]
        assert_settled(graph)


def test_an_open_beside_a_live_merge_that_changes_no_table_touches_nothing_of_it(
    tmp_path: Path,
) -> None:
    writer = WRITERS["merge: cancels out"]
    graph = writer.prepare(tmp_path / "g")
    for point in (Failpoint.MERGE_ARMED, Failpoint.PUBLISHED):
        with parked(point) as park:
            merging = threading.Thread(target=lambda: writer.write(graph))
            merging.start()
            assert park.reached.wait(PARK_SECONDS_MAX)
            with omnigraphdb.open(graph.uri) as other:
                other.refresh(roll_back=True)
                assert len(other.pending_recoveries()) == 1
            park.release()
            merging.join(PARK_SECONDS_MAX)
        assert graph.recoveries() == []
        assert_settled(graph)
        graph.load([{"type": "City", "data": {"name": f"{point}"}}], mode="append", branch="side")
