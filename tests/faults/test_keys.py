"""A request with a key that is broken off anywhere is repeated: it takes effect once, whoever completes it."""

import threading
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.results import OperationState
from omnigraphdb.errors import OmniError
from omnigraphdb.failpoints import PARK_SECONDS_MAX, Failpoint, armed, parked
from tests.support.child import run_child, run_parked_child
from tests.support.keyed import KEY, REQUESTS, describe, make_graph, perform
from tests.support.settled import assert_settled

WRITE = (
    Failpoint.STAGED,
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
    Failpoint.SIDECAR_DELETE,
)
WINDOWS = {
    "mutate": WRITE,
    "load": (Failpoint.TABLES_COMMITTED, Failpoint.PUBLISHED),
    "merge": (Failpoint.MERGE_ARMED, Failpoint.MERGE_CONFIRMED, Failpoint.PUBLISHED),
    "schema_apply": (
        Failpoint.SCHEMA_ARMED,
        Failpoint.SCHEMA_TABLE_COMMITTED,
        Failpoint.SCHEMA_PUBLISHED,
    ),
    "nothing": (Failpoint.KEY_ALONE, Failpoint.PUBLISHED),
    "branch_create": (
        Failpoint.KEY_ALONE,
        Failpoint.BRANCH_INTENT,
        Failpoint.BRANCH_CREATED,
        Failpoint.BRANCH_EFFECT,
    ),
    "branch_delete": (
        Failpoint.KEY_ALONE,
        Failpoint.BRANCH_INTENT,
        Failpoint.BRANCH_DROP_LISTED,
        Failpoint.BRANCH_EFFECT,
    ),
}
CASES = [(request, at) for request, points in WINDOWS.items() for at in points]


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "g")


_ONCE: dict[str, tuple[object, ...]] = {}


def once(place: str, request: str) -> tuple[object, ...]:
    """What a graph shows after the request was made once."""
    if request not in _ONCE:
        beside = f"{place}-once"
        make_graph(beside, request)
        perform(beside, request)
        with omnigraphdb.open(beside, read_only=True) as graph:
            _ONCE[request] = describe(graph)
    return _ONCE[request]


@pytest.mark.parametrize(("request_", "at"), CASES)
def test_n1_a_failed_request_is_repeated_by_the_same_handle(
    place: str, request_: str, at: Failpoint
) -> None:
    expected = once(place, request_)
    make_graph(place, request_)
    with omnigraphdb.open(place) as graph:
        with armed(at, "1*error"):
            try:
                REQUESTS[request_](graph, KEY)
            except OmniError:
                pass
            else:
                assert at is Failpoint.SIDECAR_DELETE
        REQUESTS[request_](graph, KEY)
        assert describe(graph) == expected
        REQUESTS[request_](graph, KEY)
        assert describe(graph) == expected
        assert graph.operation(KEY).state is OperationState.LANDED
    with omnigraphdb.open(place) as again:
        assert describe(again) == expected
        assert_settled(again)


@pytest.mark.parametrize(("request_", "at"), CASES)
def test_n2_a_killed_request_is_repeated_by_another_process(
    place: str, request_: str, at: Failpoint
) -> None:
    expected = once(place, request_)
    make_graph(place, request_)
    assert run_child(perform, place, request_, failpoints=f"{at}=exit") != 0
    with omnigraphdb.open(place) as graph:
        REQUESTS[request_](graph, KEY)
        assert describe(graph) == expected
        assert graph.operation(KEY).state is OperationState.LANDED
        assert_settled(graph)


@pytest.mark.parametrize("at", [Failpoint.ARMED, Failpoint.TABLE_COMMITTED, Failpoint.PUBLISHED])
def test_n3_an_open_handle_recovers_the_dead_writer_of_a_key_first(
    place: str, at: Failpoint
) -> None:
    expected = once(place, "mutate")
    make_graph(place, "mutate")
    with omnigraphdb.open(place) as graph:
        with run_parked_child(perform, place, "mutate", at=at) as owner:
            is_published = at is Failpoint.PUBLISHED
            found = graph.operation(KEY).state
            assert found is (OperationState.LANDED if is_published else OperationState.UNDECIDED)
            owner.kill()
        REQUESTS["mutate"](graph, KEY)
        assert describe(graph) == expected
    with omnigraphdb.open(place) as again:
        assert_settled(again)


@pytest.mark.parametrize("at", [Failpoint.ARMED, Failpoint.TABLES_COMMITTED])
def test_n4_the_live_writer_of_a_key_is_waited_for(place: str, at: Failpoint) -> None:
    make_graph(place, "mutate")
    with omnigraphdb.open(place) as graph:
        results: list[bool] = []
        repeat = threading.Thread(
            target=lambda: results.append(REQUESTS["mutate"](graph, KEY).replayed)
        )
        with run_parked_child(perform, place, "mutate", at=at) as owner:
            repeat.start()
            repeat.join(0.3)
            assert repeat.is_alive()
            owner.release()
        repeat.join(PARK_SECONDS_MAX)
        assert results == [True]
        assert_settled(graph)


def test_n5_a_key_that_another_operation_published_is_not_published_again(place: str) -> None:
    make_graph(place, "mutate")
    with omnigraphdb.open(place) as graph:
        other = threading.Thread(
            target=lambda: graph.mutate('query m() { insert Lone { k: "1" } }', idempotency_key=KEY)
        )
        with omnigraphdb.open(place) as widening:
            widening.branch_delete("side")
            widening.schema_apply(widening.schema_source + "\nnode Lone { k: String @key }")
        with parked(Failpoint.STAGED) as park:
            other.start()
            assert park.reached.wait(PARK_SECONDS_MAX)
            # It has looked for the key, and found none.
            with run_parked_child(perform, place, "mutate", at=Failpoint.TABLES_COMMITTED) as first:
                first.kill()
            park.release()
            other.join(PARK_SECONDS_MAX)
        assert graph.operation(KEY).commit == graph.commits()[0]
        assert graph.table("Person").num_rows == 1
    with omnigraphdb.open(place) as again:
        assert again.table("Lone").num_rows == 1
        assert again.table("Person").num_rows == 1
        assert [str(row.recovery_kind) for row in again.recoveries()] == ["RolledBack"]
        assert_settled(again)


def test_n6_a_tag_that_is_killed_is_there_or_not(place: str) -> None:
    make_graph(place, "mutate")
    for at, there in ((Failpoint.TAG_CHECKED, False), (Failpoint.PUBLISHED, True)):
        assert run_child(tag_head, place, failpoints=f"{at}=exit") != 0
        with omnigraphdb.open(place) as graph:
            assert ([tag.name for tag in graph.tags()] == ["v"]) == there
            assert_settled(graph)


def test_n7_a_policy_that_is_killed_is_the_old_one_or_the_new_one(place: str) -> None:
    make_graph(place, "mutate")
    for at, number in ((Failpoint.PUBLISH_PREPARED, None), (Failpoint.PUBLISHED, 1)):
        assert run_child(set_policy, place, failpoints=f"{at}=exit") != 0
        with omnigraphdb.open(place) as graph:
            found = graph.policy()
            assert (None if found is None else found.version) == number
            assert_settled(graph)


def set_policy(place: str) -> None:
    rules = "[{id: all, allow: {actors: {group: all}, actions: [change, policy_change]}}]"
    with omnigraphdb.open(place) as graph:
        graph.set_policy(f"version: 1\ngroups: {{all: [ada]}}\nrules: {rules}")


def tag_head(place: str) -> None:
    with omnigraphdb.open(place) as graph:
        graph.tag("v")
