"""Groups of writers, interrupted at every step, as an error and as a death: all of their commits or none."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import RECOVERY_ACTOR, OperationId
from omnigraphdb.recovery.audit import RecoveryKind
from tests.faults.rows import DRAFTED_GROUP_ROWS, GROUP_ROWS, WRITE_ROWS, Effect, Row
from tests.support.child import KILLED, run_child
from tests.support.joined import perform_together, write_member, write_together
from tests.support.leases import LONG_AFTER
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.s3_counting import CountingBucket
from tests.support.settled import assert_settled, fingerprint
from tests.support.story import BASE, SCHEMA, Content, content

QUIET = {"maintenance": "off"}
OFFICIAL = {**QUIET, "unofficial_lance": "off"}
"""Lance commits every member; else inserts are drafts."""
LONE_ROWS = [row for row in WRITE_ROWS if "main" in row.places]
"""A writer that finds nobody waiting is a group of one, and passes the windows of a lone write."""
ROWS = {
    "alone": (1, QUIET, LONE_ROWS),
    "two": (2, OFFICIAL, GROUP_ROWS),
    "two-drafted": (2, QUIET, DRAFTED_GROUP_ROWS),
    "eight": (8, OFFICIAL, GROUP_ROWS),
    "eight-drafted": (8, QUIET, DRAFTED_GROUP_ROWS),
}
CELLS = [
    pytest.param(
        row, size, config, id=f"{name}-{row.id}", marks=[pytest.mark.soak] if size > 2 else []
    )
    for name, (size, config, rows) in ROWS.items()
    for row in rows
]
BEFORE_LOCKS = {Failpoint.PREPARED, Failpoint.SIDECAR_LIST}
"""Windows of the entry: nothing is written there, whoever waits."""


@pytest.fixture
def uri(tmp_path: Path) -> str:
    with omnigraphdb.init(tmp_path / "g", SCHEMA, config=QUIET) as graph:
        graph.load(BASE, mode="append")
    return str(tmp_path / "g")


@pytest.fixture
def expected(tmp_path: Path) -> Iterator["Expected"]:
    """The same writes, one after the other, on a graph of their own."""
    with omnigraphdb.init(tmp_path / "one-by-one", SCHEMA, config=QUIET) as graph:
        graph.load(BASE, mode="append")
        yield Expected(graph)


class Expected:
    """What a graph shows after each of the writes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.states: list[Content] = [content(graph)]

    def after(self, count: int) -> Content:
        for number in range(len(self.states) - 1, count):
            write_member(self._graph, number)
            self.states.append(content(self._graph))
        return self.states[count]


# ---- as an error, and as a death


@pytest.mark.parametrize("name", ROWS)
def test_every_window_that_a_group_passes_has_a_row(name: str, uri: str) -> None:
    size, config, rows = ROWS[name]
    graph = omnigraphdb.open(uri, config=config)
    passed: set[Failpoint] = set()
    with ExitStack() as stack:
        for point in Failpoint:
            stack.enter_context(armed(point, partial(passed.add, point)))
        write_together(graph, [partial(write_member, graph, n) for n in range(size)])
    assert passed - BEFORE_LOCKS == {row.point for row in rows}


@pytest.mark.parametrize(("row", "size", "config"), CELLS)
def test_a_group_that_fails_is_whole_or_absent(
    row: Row, size: int, config: Mapping[str, str], uri: str, expected: Expected
) -> None:
    graph = omnigraphdb.open(uri, config=config)
    with armed(row.point, row.action):
        told = write_together(graph, [partial(write_member, graph, n) for n in range(size)])
    errors = [one for one in told if isinstance(one, BaseException)]
    assert len(errors) == (0 if row.acknowledged else size)
    assert len({id(one) for one in errors}) == len(errors)
    assert_ended(row.open if not row.acknowledged else Effect.STALE, uri, size, expected)


@pytest.mark.parametrize(("row", "size", "config"), CELLS)
def test_a_group_that_is_killed_is_whole_or_absent(
    row: Row, size: int, config: Mapping[str, str], uri: str, expected: Expected
) -> None:
    failpoints = f"{row.point.value}=exit"
    assert run_child(perform_together, uri, size, config, failpoints=failpoints) == KILLED
    assert_ended(row.open, uri, size, expected)


def assert_ended(effect: Effect, uri: str, size: int, expected: Expected) -> None:
    """After the next open the group is there with all of its commits, or not at all; both are recorded."""
    graph = omnigraphdb.open(uri, config=QUIET)
    assert content(graph) == expected.after(size if effect.is_visible else 0)
    commits = list(reversed(graph.commits()))
    assert all(newer.parent == older.id for older, newer in pairwise(commits))
    rows = graph.recoveries()
    if effect.is_visible:
        made = commits[-size:]
        is_group = made[0].group is not None
        assert is_group or size == 1 or rows == []
        assert len({commit.group for commit in made}) == 1
        for number, commit in enumerate(made if is_group else (), 1):
            assert content(graph, at=commit.id) == expected.after(number)
        assert len(rows) in (0, size + is_group)
        assert all(row.recovery_kind is RecoveryKind.ROLLED_FORWARD for row in rows)
        assert {row.commit for row in rows} <= {commit.id for commit in made}
        if effect is Effect.FORWARD:
            assert {commit.actor for commit in made} == {RECOVERY_ACTOR}
            assert {row.for_actor for row in rows} >= {f"actor-{n}" for n in range(size)}
    elif effect is not Effect.NOTHING:
        (row,) = rows
        assert row.recovery_kind is RecoveryKind.ROLLED_BACK
        assert row.writer_kind == ("Mutation" if size == 1 else "Group")
    assert_settled(graph)
    shown = fingerprint(graph)
    assert fingerprint(omnigraphdb.open(uri, config=QUIET)) == shown
    write_together(graph, [partial(write_member, graph, n, "again") for n in (0, 2)])
    assert_settled(graph)


# ---- the next write of the same handle, and an object store


@pytest.mark.parametrize(
    ("row", "config"),
    [
        pytest.param(row, config, id=f"{name}-{row.id}")
        for name, (size, config, rows) in ROWS.items()
        for row in rows
        if size == 2 and row.heal is not Effect.NOTHING
    ],
)
def test_the_next_write_heals_a_group_or_is_refused(
    row: Row, config: Mapping[str, str], uri: str, expected: Expected
) -> None:
    graph = omnigraphdb.open(uri, config=config)
    with armed(row.point, row.action):
        write_together(graph, [partial(write_member, graph, n) for n in range(2)])
    (pending,) = graph.pending_recoveries()
    assert pending.writer_kind == "Group"
    if row.heal is Effect.DEFERRED:
        with pytest.raises(omnigraphdb.RecoveryRequired) as refused:
            write_member(graph, 4)
        assert refused.value.operation_id == pending.operation_id
        return
    graph.mutate('query m() { insert Note { k: "healed" } }')
    assert graph.pending_recoveries() == []
    shown = [one for one in content(graph) if '"Note"' not in one]
    assert tuple(shown) == expected.after(2 if row.heal.is_visible else 0)
    assert_settled(graph)


@pytest.mark.s3
@pytest.mark.parametrize("at", [Failpoint.GROUP_LANDED, Failpoint.GROUP_CONFIRMED])
def test_a_group_on_an_object_store_that_fails_is_whole_or_absent(
    at: Failpoint, bucket: Bucket, expected: Expected
) -> None:
    place, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(place, SCHEMA, storage_options=options, config=QUIET) as graph:
        graph.load(BASE, mode="append")
        with armed(at):
            told = write_together(graph, [partial(write_member, graph, n) for n in range(2)])
        assert all(isinstance(one, omnigraphdb.OmniError) for one in told)
    again = omnigraphdb.open(place, storage_options=options, config=QUIET)
    assert content(again) == expected.after(2 if at is Failpoint.GROUP_CONFIRMED else 0)
    write_together(again, [partial(write_member, again, n, "again") for n in (0, 2)])
    assert_settled(again)


PERSON_VERSIONS = r"nodes/[^/]+/_versions/"


def add(graph: Graph, name: str) -> Callable[[], object]:
    text = "query m($k: String) { insert Person { k: $k } }"
    return partial(graph.mutate, text, {"k": name})


def people(graph: Graph) -> list[str]:
    return sorted(graph.table("Person")["k"].to_pylist())


@pytest.fixture
def distant(counting_bucket: CountingBucket) -> Graph:
    graph = omnigraphdb.init(
        f"{counting_bucket.uri}/g",
        SCHEMA,
        storage_options=counting_bucket.storage_options,
        config=QUIET,
    )
    graph.load(BASE, mode="append")
    return graph


@pytest.mark.s3
def test_a_group_on_an_object_store_equals_its_writers_one_by_one(
    distant: Graph, expected: Expected
) -> None:
    """Its inserts are drafts until an update among them has to read."""
    write_together(distant, [partial(write_member, distant, n) for n in range(8)])
    made = list(reversed(distant.commits()))[-8:]
    assert len({commit.group for commit in made}) == 1
    for number, commit in enumerate(made, 1):
        assert content(distant, at=commit.id) == expected.after(number)
    assert_settled(distant)


def add_three(uri: str, options: Mapping[str, str]) -> None:
    with omnigraphdb.open(uri, storage_options=options, config=QUIET) as graph:
        write_together(graph, [add(graph, name) for name in "xyz"])


@pytest.mark.s3
@pytest.mark.parametrize("way", ["error", "exit"])
@pytest.mark.parametrize("skip", range(3))
def test_a_group_whose_versions_landed_in_part_is_taken_back(
    way: str, skip: int, distant: Graph, counting_bucket: CountingBucket
) -> None:
    """They are put at the same time, so that there may be gaps between them."""
    at, options = Failpoint.GROUP_VERSION_PUT, counting_bucket.storage_options
    if way == "exit":
        failpoints = f"{at.value}=skip({skip})+exit"
        assert run_child(add_three, distant.uri, options, failpoints=failpoints) == KILLED
    else:
        with armed(at, f"skip({skip})+error"):
            told = write_together(distant, [add(distant, name) for name in "xyz"])
        assert all(isinstance(one, omnigraphdb.OmniError) for one in told)
    counting_bucket.bucket.pass_time(LONG_AFTER)
    again = omnigraphdb.open(distant.uri, storage_options=options, config=QUIET)
    assert people(again) == [*"abcd"] or people(again) == [*"abcd", *"xyz"]
    write_together(again, [add(again, name) for name in "uvw"])
    assert people(again)[-3:] == (["x", "y", "z"] if "x" in people(again) else ["u", "v", "w"])
    assert_settled(again)


@pytest.mark.parametrize("way", ["error", "exit"])
@pytest.mark.parametrize("skip", range(3))
def test_a_group_whose_versions_were_linked_in_part_is_taken_back(
    way: str, skip: int, uri: str
) -> None:
    """On a local disk they appear one after the other; the last one makes the group complete."""
    at = Failpoint.GROUP_VERSION_PUT
    if way == "exit":
        failpoints = f"{at.value}=skip({skip})+exit"
        assert run_child(add_three, uri, {}, failpoints=failpoints) == KILLED
    else:
        graph = omnigraphdb.open(uri, config=QUIET)
        with armed(at, f"skip({skip})+error"):
            told = write_together(graph, [add(graph, name) for name in "xyz"])
        assert all(isinstance(one, omnigraphdb.OmniError) for one in told)
    again = omnigraphdb.open(uri, config=QUIET)
    assert people(again) == [*"abcd", *("xyz" if skip == 2 else "")]
    write_together(again, [add(again, name) for name in "uvw"])
    assert people(again) == sorted([*"abcd", *"uvw", *("xyz" if skip == 2 else "")])
    assert_settled(again)


def test_a_group_of_inserts_is_complete_once_its_versions_are_there(uri: str) -> None:
    """Its sidecar is armed with every version in it, so that nothing is left to confirm."""
    graph = omnigraphdb.open(uri, config=QUIET)
    with armed(Failpoint.GROUP_LANDED):
        told = write_together(graph, [add(graph, name) for name in "xyz"])
    assert all(isinstance(one, omnigraphdb.OmniError) for one in told)
    again = omnigraphdb.open(uri, config=QUIET)
    assert people(again) == [*"abcd", *"xyz"]
    assert_settled(again)


@pytest.mark.s3
@pytest.mark.parametrize("after", [False, True])
def test_a_version_that_the_store_does_not_answer_for_is_missing_or_recognised(
    after: bool, distant: Graph, counting_bucket: CountingBucket
) -> None:
    """The store refuses one of three versions for good, or takes it and loses every answer."""
    second = f"{2**64 - 1 - 4:020d}"
    counting_bucket.break_next("PUT", PERSON_VERSIONS + second, after=after, times=100)
    told = write_together(distant, [add(distant, name) for name in "xyz"])
    counting_bucket.behave()
    assert [isinstance(one, omnigraphdb.RecoveryRequired) for one in told] == [not after] * 3
    distant.refresh(roll_back=True)
    assert people(distant) == [*"abcd", *("xyz" if after else "")]
    write_together(distant, [add(distant, name) for name in "uvw"])
    assert_settled(distant)


@pytest.mark.s3
def test_a_leader_that_is_interrupted_while_its_versions_land_leaves_a_handle_that_works(
    distant: Graph,
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with armed(Failpoint.GROUP_VERSION_PUT, once(interrupt)):
        told = write_together(distant, [add(distant, name) for name in "xyz"])
    assert all(isinstance(one, BaseException) for one in told)
    distant.refresh(roll_back=True)
    assert people(distant) == [*"abcd", *"xyz"]
    write_together(distant, [add(distant, name) for name in "uvw"])
    assert people(distant) == [*"abcd", *"uvwxyz"]
    assert_settled(distant)


@pytest.mark.s3
def test_a_stranger_who_takes_a_version_of_a_group_sends_its_members_on_alone(
    distant: Graph, counting_bucket: CountingBucket
) -> None:
    """The stranger takes no locks, as another program would not."""
    options = counting_bucket.storage_options
    stranger = omnigraphdb.open(distant.uri, storage_options=options, config=QUIET)
    at = distant.snapshot()._view.snapshot.entries["node:Person"].at  # type: ignore[index]
    tables = stranger._engine.store.tables
    rows = tables.open(at).read().slice(0, 1)
    rows = rows.set_column(0, rows.schema.field("id"), [["stray"]])

    def append() -> None:
        staged = tables.stage_append(at, rows)
        tables.commit_staged(staged, operation_id=OperationId("stray"), lock=None)

    with armed(Failpoint.GROUP_ARMED, once(append)):
        told = write_together(distant, [add(distant, name) for name in "xyz"])
    assert not any(isinstance(one, BaseException) for one in told)
    assert people(distant) == [*"abcd", *"xyz"]
    assert_settled(distant)


@pytest.mark.s3
def test_versions_that_a_group_only_drafted_are_forgotten_with_it(distant: Graph) -> None:
    """Others make versions with the same numbers, and what was known of the drafts is not true of them."""
    drafted: list[object] = []

    def stop_at_the_third() -> None:
        drafted.append(None)
        if len(drafted) == 3:
            raise KeyboardInterrupt

    with armed(Failpoint.GROUP_MEMBER_LANDED, stop_at_the_third):
        stopped, *_ = write_together(distant, [add(distant, name) for name in "xyz"])
    assert isinstance(stopped, KeyboardInterrupt)
    add(distant, "y")()
    add(distant, "z")()
    assert people(distant) == [*"abcd", *"yz"]
    assert_settled(distant)


@pytest.mark.s3
def test_without_unofficial_forms_lance_commits_every_member(
    distant: Graph, counting_bucket: CountingBucket
) -> None:
    options = counting_bucket.storage_options
    plain = omnigraphdb.open(
        distant.uri, storage_options=options, config={**QUIET, "unofficial_lance": "off"}
    )
    # Three versions of the table and one of the manifest; a draft needs no file for its transaction.
    for graph, names, transactions in ((plain, "uvw", 3 + 1), (distant, "xyz", 0)):
        counting_bucket.reset()
        write_together(graph, [add(graph, name) for name in names])
        assert counting_bucket.requests().of("PUT", "txn") == transactions
    assert people(distant) == [*"abcd", *"uvwxyz"]
    assert_settled(distant)


# ---- recovery that dies too


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Failpoint.GROUP_CONFIRMED, Failpoint.ROLL_FORWARD),
        (Failpoint.GROUP_CONFIRMED, Failpoint.PUBLISHED),
        (Failpoint.GROUP_CONFIRMED, Failpoint.AUDIT),
        (Failpoint.GROUP_CONFIRMED, Failpoint.SIDECAR_DELETE),
        (Failpoint.GROUP_LANDED, Failpoint.ROLLBACK_TABLE_RESTORED),
        (Failpoint.GROUP_LANDED, Failpoint.ROLLBACK_PUBLISHED),
        (Failpoint.GROUP_LANDED, Failpoint.AUDIT),
    ],
)
def test_a_recovery_of_a_group_that_dies_is_ended_by_the_next(
    first: Failpoint, second: Failpoint, uri: str, expected: Expected
) -> None:
    assert run_child(perform_together, uri, 3, QUIET, failpoints=f"{first.value}=exit") == KILLED
    with armed(second), pytest.raises(omnigraphdb.OmniError):
        omnigraphdb.open(uri)
    is_forward = first is Failpoint.GROUP_CONFIRMED
    assert_ended(Effect.FORWARD if is_forward else Effect.BACK, uri, 3, expected)
