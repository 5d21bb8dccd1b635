"""Every kind of writer leaves only states that the next client brings in order, and writes what its golden file says."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from omnigraphdb.commit.sidecar import Sidecar, WriterKind
from omnigraphdb.commit.sidecars import Sidecars
from omnigraphdb.engine.jobs import JobKind
from omnigraphdb.engine.keyed import RequestKind
from omnigraphdb.errors import AlreadyInitialized, NotFound
from omnigraphdb.recovery import gather
from tests.faults.conftest import PLACES
from tests.faults.matrix import WRITERS
from tests.simulation.bucket import DurableWrite
from tests.simulation.crash_judge import CrashState, Death, make_judge
from tests.simulation.crash_states import GOLDENS, explore, golden_path, golden_text
from tests.simulation.pictures import follow_up
from tests.simulation.recordings import Recording, Theatre, open_theatre
from tests.simulation.roles import order_races
from tests.simulation.writer_kinds import KINDS, TAG, Client, make_graph
from tests.support.leases import LONG_AFTER
from tests.support.settled import assert_settled
from tests.support.story import ACTOR, WRITES

SHORT = {"insert-fresh": 12, "merge_merges": 10, "schema_rewrite": 12}
"""Kinds that the default run explores, and how much of their recoveries: every so-manieth state."""
ELSEWHERE: Mapping[str, str] = {
    "relocate": "starts from a graph that was moved, which other clients refuse; row P1 holds it",
}
READING_JOBS = {JobKind.EXPORT, JobKind.QUERY}


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with open_theatre() as theatre:
        yield theatre


# ---- every kind is there


def test_every_way_to_write_has_a_kind() -> None:
    methods = {method for kind in KINDS.values() for method in kind.methods}
    assert methods | ELSEWHERE.keys() == WRITERS.keys()
    assert not methods & ELSEWHERE.keys()


def test_every_enumeration_of_the_engine_is_covered() -> None:
    kinds = KINDS.values()
    assert {kind.writer for kind in kinds} - {None} == set(WriterKind)
    assert {kind.verb for kind in kinds} - {None} == set(RequestKind)
    assert {kind.job for kind in kinds} - {None} == set(JobKind) - READING_JOBS
    assert {story for story in WRITES if {f"{story}-{p}" for p in PLACES[1:]} <= KINDS.keys()} == (
        set(WRITES)
    )


def test_every_kind_has_a_golden_file_and_every_golden_file_a_kind() -> None:
    assert {path.stem for path in GOLDENS.glob("*.txt")} == KINDS.keys()


def test_what_threads_do_at_once_is_put_in_one_order() -> None:
    staged = ["PUT data of node:B", "PUT index of node:A", "PUT data of node:A"]
    locks = ["PUT __locks/b", "PUT __locks/a"]
    versions = ["PUT version of node:B", "PUT version of node:A"]
    rest = ["PUT version of __manifest", "DELETE __recovery/*.json", "PUT __recovery/*.json"]
    roles = order_races([*staged, *locks, *versions, *rest])
    assert roles == (*sorted(staged), *sorted(locks), *sorted(versions), *rest)


# ---- the durable writes


@pytest.mark.parametrize("name", KINDS)
def test_a_writer_makes_the_durable_writes_of_its_golden_file(theatre: Theatre, name: str) -> None:
    recording = theatre.record(KINDS[name])
    counts, *expected = golden_path(KINDS[name]).read_text().splitlines()
    assert list(recording.roles) == expected
    assert counts.startswith(f"{len(recording.writes)} states, ")


# ---- the states


@pytest.mark.parametrize("name", SHORT)
def test_every_crash_state_is_brought_in_order(theatre: Theatre, name: str) -> None:
    recording = theatre.record(KINDS[name])
    tally = explore(make_judge(recording), levels=2, every=SHORT[name])
    assert tally.broken == []
    assert tally.opened[1] == len(recording.writes)
    assert golden_path(KINDS[name]).read_text() == golden_text(recording, tally.in_recovery)


@pytest.mark.soak
@pytest.mark.parametrize("name", KINDS)
def test_every_crash_state_of_every_recovery_is_brought_in_order(
    theatre: Theatre, name: str
) -> None:
    recording = theatre.record(KINDS[name])
    tally = explore(make_judge(recording, thorough=True))
    assert tally.broken == []
    assert golden_path(KINDS[name]).read_text() == golden_text(recording, tally.in_recovery)


def test_a_dead_init_leaves_a_graph_or_room_for_one(theatre: Theatre) -> None:
    bucket, client = theatre.bucket, Client(theatre.served, "first")
    bucket.restore({})
    with bucket.recording() as writes:
        make_graph(client)
    for write in writes:
        bucket.restore(write.after)
        bucket.pass_time(LONG_AFTER)
        try:
            client.open().close()
        except NotFound:
            _make_again(client, has_files="g/_schema.pg" in write.after)
        with client.open() as graph:
            follow_up(graph)
            assert_settled(graph)


def _make_again(client: Client, *, has_files: bool) -> None:
    """Make a graph where a dead init left none; whoever meets its files hears of them."""
    if has_files:
        with pytest.raises(AlreadyInitialized, match="and no graph") as refused:
            make_graph(client)
        assert "--force" in str(refused.value.hint)
    make_graph(client, force=has_files)


# ---- the judge can fail


def test_a_writer_without_sidecars_is_found(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    def skip(self: Sidecars, sidecar: Sidecar) -> None:
        """Take no note of the intent."""

    with monkeypatch.context() as patch:
        patch.setattr(Sidecars, "arm", skip)
        recording = theatre.record(KINDS["assign"])
    tally = explore(make_judge(recording), levels=1)
    assert any("drift" in fault for fault in tally.broken), tally.broken


def test_a_recovery_that_does_not_know_what_is_completed_is_found(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = theatre.record(KINDS["schema_describe"])
    judge = make_judge(recording)
    staged = find_death(recording, recording.writes, "PUT __schema_state.json.staging")
    recovery = judge.judge(staged).recovery
    published = find_death(recording, recovery, "PUT version of __manifest")
    assert judge.judge(published).is_visible
    monkeypatch.setattr(gather, "_is_completed", lambda *_: False)
    with pytest.raises(AssertionError, match="several commits"):
        judge.judge(published)


def find_death(recording: Recording, writes: Sequence[DurableWrite], role: str) -> CrashState:
    """The state that somebody leaves who dies after a write of this role."""
    number = [recording.role(write) for write in writes].index(role)
    return CrashState(objects=writes[number].after, deaths=(Death(number + 1, role),))


def test_a_state_that_is_neither_before_nor_after_is_found(theatre: Theatre) -> None:
    recording = theatre.record(KINDS["assign"])
    judge = make_judge(recording)
    with recording.client.open() as graph:
        WRITES["update"].run(graph, "main", TAG, ACTOR)
    torn = DurableWrite("PUT", "g/torn", dict(theatre.bucket.objects))
    broken = replace(judge, recording=replace(recording, writes=(*recording.writes, torn)))
    tally = explore(broken, levels=1)
    assert any("neither" in fault for fault in tally.broken), tally.broken
