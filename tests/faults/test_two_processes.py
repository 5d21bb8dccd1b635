"""Two processes on one graph, on a disk and on an object store: a live owner is left alone, a dead one is settled."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed
from omnigraphdb.recovery.audit import RecoveryKind
from omnigraphdb.storage.counters import Cost, counting
from tests.support.child import KILLED, run_child, run_parked_child
from tests.support.leases import LONG_AFTER, run_with_short_leases
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES, content, note, perform, reopen

STEPS = [
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.PUBLISHED,
]
VISIBLE = {Failpoint.TABLES_COMMITTED, Failpoint.PUBLISHED}
BACK, FORWARD = RecoveryKind.ROLLED_BACK, RecoveryKind.ROLLED_FORWARD


@dataclass(frozen=True, slots=True)
class Place:
    """A graph that two processes can open."""

    uri: str
    bucket: Bucket | None = None

    @property
    def options(self) -> Mapping[str, str] | None:
        return None if self.bucket is None else self.bucket.storage_options

    @property
    def is_local(self) -> bool:
        return self.bucket is None

    def open(self) -> Graph:
        return omnigraphdb.open(self.uri, storage_options=self.options)

    def open_later(self) -> Graph:
        """Open when the leases of a dead process have run out; a kernel lock dies with its process."""
        if self.bucket is not None:
            self.bucket.pass_time(LONG_AFTER)
        return self.open()

    def arguments(self, name: str, branch: str = "main", tag: str = "1") -> tuple[object, ...]:
        return (self.uri, name, branch, tag, "ada", self.options)


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        place = Place(str(tmp_path / "g"))
    else:
        bucket: Bucket = request.getfixturevalue("bucket")
        place = Place(f"{bucket.uri}/g", bucket)
    with omnigraphdb.init(place.uri, SCHEMA, storage_options=place.options) as graph:
        graph.load(BASE, mode="append")
    return place


def kinds(graph: Graph) -> list[RecoveryKind]:
    return [row.recovery_kind for row in graph.recoveries()]


def without_notes(shown: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for one in shown if '"Note"' not in one)


# ---- the owner lives


@pytest.mark.parametrize("at", STEPS)
def test_nobody_settles_an_operation_under_its_live_owner(place: Place, at: Failpoint) -> None:
    before = content(place.open())
    with run_parked_child(perform, *place.arguments("insert"), at=at) as owner:
        with counting() as costs:
            graph = place.open()
            graph.refresh(roll_back=True)
        assert len(graph.pending_recoveries()) == 1
        assert costs[Cost.TABLE_RESTORES] == costs[Cost.MANIFEST_SWAPS] == 0
        note(graph, "main", "an unrelated write goes on")
        shown = without_notes(content(graph))
        assert (shown == before) == (at is not Failpoint.PUBLISHED)
        owner.release()
    assert '"p1"' in str(content(graph))
    assert graph.recoveries() == []
    assert_settled(graph)


@pytest.mark.parametrize("at", STEPS)
def test_a_writer_of_the_same_tables_waits_for_its_turn(place: Place, at: Failpoint) -> None:
    graph = place.open()
    second = threading.Thread(target=lambda: WRITES["insert"].run(graph, "main", "2", None))
    with run_parked_child(perform, *place.arguments("insert"), at=at) as owner:
        second.start()
        second.join(0.5)
        assert second.is_alive()
        owner.release()
    second.join(PARK_SECONDS_MAX)
    assert {"p1", "p2"} <= set(graph.table("Person")["id"].to_pylist())
    assert graph.recoveries() == []
    assert_settled(graph)


def test_a_refresh_waits_for_an_owner_in_another_process(place: Place) -> None:
    graph = place.open()
    refreshing = threading.Thread(target=graph.refresh)
    with run_parked_child(
        perform, *place.arguments("insert"), at=Failpoint.TABLES_COMMITTED
    ) as owner:
        refreshing.start()
        refreshing.join(0.5)
        assert refreshing.is_alive()
        owner.release()
    refreshing.join(PARK_SECONDS_MAX)
    assert '"p1"' in str(content(graph))
    assert graph.recoveries() == []
    assert_settled(graph)


# ---- the owner dies


@pytest.mark.parametrize("branch", ["main", "fresh"])
@pytest.mark.parametrize("at", STEPS)
def test_a_dead_owner_is_settled(place: Place, at: Failpoint, branch: str) -> None:
    graph = place.open()
    if branch != "main":
        graph.branch_create(branch)
    before = content(graph, branch)
    with run_parked_child(perform, *place.arguments("insert", branch), at=at) as owner:
        owner.kill()
    if not place.is_local:
        # Until its leases run out nobody can know that it is dead.
        assert len(place.open().pending_recoveries()) == 1
    graph = place.open_later()
    shown = content(graph, branch)
    assert (shown == before) == (at not in VISIBLE)
    assert kinds(graph) == [FORWARD if at in VISIBLE else BACK]
    assert_settled(graph)
    WRITES["insert"].run(graph, branch, "2", None)
    assert_settled(graph)


def test_a_handle_that_was_open_all_along_completes_what_another_process_left(
    place: Place,
) -> None:
    graph = place.open()
    point, arguments = Failpoint.TABLES_COMMITTED, place.arguments("insert")
    with run_parked_child(run_with_short_leases, perform, *arguments, at=point) as owner:
        owner.kill()
    WRITES["insert"].run(graph, "main", "2", None)
    assert {"p1", "p2"} <= set(graph.table("Person")["id"].to_pylist())
    assert kinds(graph) == [FORWARD]
    assert_settled(graph)


def test_a_recoverer_that_dies_is_recovered_by_the_next(place: Place) -> None:
    graph = place.open()
    before = content(graph)
    with run_parked_child(
        perform, *place.arguments("insert"), at=Failpoint.TABLE_COMMITTED
    ) as owner:
        owner.kill()
    if place.is_local:
        point = Failpoint.ROLLBACK_RESTORED.value
        assert run_child(reopen, place.uri, failpoints=f"{point}=exit") == KILLED
    else:
        with armed(Failpoint.ROLLBACK_RESTORED), pytest.raises(omnigraphdb.OmniError):
            place.open_later()
    graph = place.open_later()
    assert content(graph) == before
    assert kinds(graph) == [BACK]
    assert_settled(graph)


# ---- an error on an object store: the turns are given back, the next write heals


@pytest.mark.parametrize("at", STEPS)
def test_a_failed_write_is_whole_or_absent_on_every_store(place: Place, at: Failpoint) -> None:
    graph = place.open()
    before = content(graph)
    with armed(at), pytest.raises(omnigraphdb.OmniError):
        WRITES["merge"].run(graph, "main", "1", "ada")
    note(graph, "main", "next")
    if at is Failpoint.TABLE_COMMITTED:
        assert len(graph.pending_recoveries()) == 1
        graph = place.open()
    assert (without_notes(content(graph)) == before) == (at not in VISIBLE)
    assert kinds(graph) == [FORWARD if at in VISIBLE else BACK]
    assert_settled(graph)
