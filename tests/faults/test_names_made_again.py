"""A request of a writer on a branch that arrives after the branch was deleted and made again, on an object store.

The versions of a branch lie under its name. Those of an earlier branch of the name are never read, nothing is built on
them, and nobody is blocked by them.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance import manifest_versions
from omnigraphdb.errors import HistoryReclaimed
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import BranchName, Version
from omnigraphdb.manifest.records import CommitKind
from omnigraphdb.manifest.travel import state_at
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.layout import MANIFEST, branch_path
from tests.support.child import spawn
from tests.support.leases import (
    LONG_AFTER,
    assert_taken_over,
    lease_tokens,
    resume,
    run_with_short_leases,
    stop,
)
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled

pytestmark = pytest.mark.s3

SCHEMA: Final = "node P { k: String @key }\n"
INSERT: Final = "query m($k: String) { insert P { k: $k } }"
QUIET: Final = {"maintenance": "off"}
MANIFEST_OF_B: Final = r"__manifest/tree/b/_versions/"
TABLE_OF_B: Final = r"nodes/[^/]+/tree/b/_versions/"


@dataclass(frozen=True, slots=True)
class Place:
    """A graph in a bucket, with a branch."""

    bucket: Bucket

    @property
    def uri(self) -> str:
        return f"{self.bucket.uri}/g"

    def open(self) -> Graph:
        return omnigraphdb.open(self.uri, storage_options=self.bucket.storage_options, config=QUIET)


@pytest.fixture
def place(bucket: Bucket) -> Place:
    place = Place(bucket)
    with omnigraphdb.init(
        place.uri, SCHEMA, storage_options=bucket.storage_options, config=QUIET
    ) as graph:
        insert(graph, "main", branch="main")
        graph.branch_create("b")
    return place


def insert(graph: Graph, *names: str, branch: str = "b") -> None:
    for name in names:
        graph.mutate(INSERT, {"k": name}, branch=branch)


def insert_from_elsewhere(uri: str, options: dict[str, str]) -> None:
    """Write in a process that dies, or is cut off."""
    with (
        suppress(omnigraphdb.OmniError),
        omnigraphdb.open(uri, storage_options=options, config=QUIET) as graph,
    ):
        insert(graph, "late")


def list_names(graph: Graph) -> list[str]:
    names = graph.table("P", branch="b").column("k").to_pylist()
    return sorted(name for name in names if name != "main")


def make_again(graph: Graph, *names: str) -> None:
    graph.branch_delete("b")
    graph.branch_create("b")
    insert(graph, *names)


def list_versions(graph: Graph) -> list[int]:
    return [one.version for one in graph._engine.store.manifest.versions("b")]


def assert_goes_on(place: Place, reader: Graph, writer: Graph, *names: str) -> None:
    """Assert that everybody sees what the branch holds, and that it can be written from every handle."""
    assert list_names(reader) == sorted(names)
    with place.open() as fresh:
        assert list_names(fresh) == sorted(names)
    insert(writer, "next")
    insert(reader, "more")
    with place.open() as fresh:
        for graph in (fresh, reader, writer):
            assert list_names(graph) == sorted([*names, "next", "more"])
        assert_settled(fresh)
        insert(fresh, "last")
        assert_settled(fresh)
        for commit in fresh.commits(branch="b"):
            # Every commit of the branch can be read.
            fresh.table("P", branch="b", at=commit.id)
        kinds = [commit.kind for commit in fresh.commits(branch="b")]
        assert kinds.count(CommitKind.MUTATION) == len(names) + 4


# ---- requests that are held on their way


@dataclass(frozen=True, slots=True)
class Late:
    """Which PUT of the writer is late, what the first branch held, and what the next one holds when it arrives."""

    key: str
    skip: int = 0
    before: tuple[str, ...] = ("a", "b", "c")
    after: tuple[str, ...] = ()
    refused: bool = False


LATE: Final = {
    "the first swap of a branch": Late(MANIFEST_OF_B, skip=1, before=()),
    "the incarnation of a branch": Late(MANIFEST_OF_B, before=()),
    "a swap": Late(MANIFEST_OF_B),
    "a swap above the next branch": Late(MANIFEST_OF_B, after=("x",)),
    "a swap that the next branch is past": Late(
        MANIFEST_OF_B, before=(), after=("x", "y"), refused=True
    ),
    "a table of a branch that owns none yet": Late(TABLE_OF_B),
    "a table above the next branch": Late(TABLE_OF_B, after=("x",)),
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
def test_a_late_put_of_a_dead_writer_changes_nothing_on_the_next_branch_of_the_name(
    bucket: Bucket, place: Place, late: Late
) -> None:
    with place.open() as graph:
        insert(graph, *late.before)
    on_its_way = bucket.delay_put(late.key, skip=late.skip)
    writer = spawn(insert_from_elsewhere, place.uri, dict(bucket.storage_options))
    on_its_way.wait()
    writer.kill()
    writer.join(60)
    bucket.pass_time(LONG_AFTER)
    with place.open() as graph, place.open() as reader:
        make_again(graph, *late.after)
        assert list_names(reader) == [*late.after]
        assert (on_its_way.arrive() >= 400) is late.refused
        assert_goes_on(place, reader, graph, *late.after)


@pytest.mark.usefixtures("short_leases")
def test_a_writer_that_was_cut_off_adds_nothing_to_the_next_branch_of_the_name(
    bucket: Bucket, place: Place
) -> None:
    graph, reader = place.open(), place.open()
    insert(graph, "a", "b", "c")
    on_its_way = bucket.delay_put(MANIFEST_OF_B)
    arguments = insert_from_elsewhere, place.uri, dict(bucket.storage_options)
    writer = spawn(run_with_short_leases, *arguments)
    on_its_way.wait()
    before = lease_tokens(graph)
    stop(writer)
    while not graph.recoveries():
        with suppress(omnigraphdb.LockTimeout):
            graph.refresh(roll_back=True)
    assert_taken_over(before, lease_tokens(graph))
    make_again(graph, "x")
    assert on_its_way.arrive() < 400
    resume(writer)
    writer.join(60)
    assert writer.exitcode == 0
    assert_goes_on(place, reader, graph, "x")


@pytest.mark.parametrize("is_alone", [True, False], ids=["a lone writer", "another one"])
@pytest.mark.parametrize("key", [MANIFEST_OF_B, TABLE_OF_B], ids=["swap", "table"])
def test_the_first_try_of_a_request_that_was_repeated_changes_nothing_either(
    bucket: Bucket, place: Place, key: str, is_alone: bool
) -> None:
    """Its operation is complete: no record of a recovery names it. A lone writer looks at no HEAD before its commit."""
    with place.open() as graph, place.open() as reader:
        insert(graph, "a", "b", "c")
        first = bucket.delay_put(key, is_repeated=True)
        insert(graph, "d")
        make_again(graph, "x")
        assert first.arrive() < 400
        assert_goes_on(place, reader, graph if is_alone else place.open(), "x")


def test_cleanup_undoes_a_late_version_of_a_table(bucket: Bucket, place: Place) -> None:
    with place.open() as graph:
        insert(graph, "a", "b", "c")
        first = bucket.delay_put(TABLE_OF_B, is_repeated=True)
        insert(graph, "d")
        make_again(graph, "x")
        assert first.arrive() < 400
        [issue] = graph.doctor()
        assert (issue.check, issue.branch) == ("drift", "b")
        assert "omnigraphdb cleanup" in issue.remedy
        graph.cleanup(keep=100, confirm=True)
        assert_goes_on(place, graph, graph, "x")


# ---- a version that arrives at a certain moment


@pytest.fixture
def arrive(place: Place) -> Callable[[], int]:
    """Make the branch again, with one row; gives the arrival of the last version of the first one."""
    with place.open() as graph:
        insert(graph, "a", "b", "c")
        version = graph._engine.manifest.current(BranchName("b")).version
        path = version_file(branch_path(MANIFEST, "b"), version)
        file = graph._engine.store.objects.read_bytes(path)
        make_again(graph, "x")

    def put() -> int:
        with place.open() as stranger:
            assert file is not None
            assert stranger._engine.store.objects.put_if_absent(path, file)
        return version

    return put


def test_a_writer_does_not_build_on_a_version_that_arrives_before_its_swap(
    place: Place, arrive: Callable[[], int]
) -> None:
    """Lance makes the swap the version after the newest one, whatever that is."""
    with place.open() as graph, place.open() as reader:
        assert list_names(reader) == ["x"]
        with armed(Failpoint.PUBLISH_PREPARED, once(arrive)):
            insert(graph, "y")
        assert_goes_on(place, reader, graph, "x", "y")


def test_a_swap_that_is_on_its_way_when_a_version_arrives_is_not_hidden(
    bucket: Bucket, place: Place, arrive: Callable[[], int]
) -> None:
    """Who writes past a foreign version takes the free numbers below it first."""
    on_its_way = bucket.delay_put(MANIFEST_OF_B)
    writer = spawn(insert_from_elsewhere, place.uri, dict(bucket.storage_options))
    on_its_way.wait()
    with place.open() as graph:
        arrive()
        graph._engine.store.manifest.supersede("b")
        assert list_names(graph) == ["x"]
        assert on_its_way.arrive() >= 400
        writer.join(60)
        assert list_names(graph) == ["late", "x"]
        assert_settled(graph)


def test_doctor_tells_a_foreign_version_and_a_write_ends_it(
    place: Place, arrive: Callable[[], int]
) -> None:
    with place.open() as graph:
        version = arrive()
        [issue] = graph.doctor()
        assert (issue.check, issue.branch) == ("foreign version", "b")
        assert f"version {version} " in issue.message
        insert(graph, "y")
        assert_settled(graph)


def test_a_foreign_version_is_no_point_in_the_history_of_the_branch(
    place: Place, arrive: Callable[[], int]
) -> None:
    version = Version(arrive())
    with place.open() as graph:
        manifest, branch = graph._engine.manifest, BranchName("b")
        insert(graph, "y")
        assert manifest.current(branch).version > version
        with pytest.raises(HistoryReclaimed):
            state_at(manifest, branch, version)
        later = state_at(manifest, branch, Version(version + 1))
        assert later.head is not None
        assert later.head.id == graph.commits(branch="b")[1].id


def test_a_branch_of_a_branch_is_made_from_what_that_shows(
    place: Place, arrive: Callable[[], int]
) -> None:
    with place.open() as graph:
        arrive()
        graph.branch_create("c", from_branch="b")
        graph.mutate(INSERT, {"k": "on c"}, branch="c")
        names = graph.table("P", branch="c").column("k").to_pylist()
        assert sorted(names) == ["main", "on c", "x"]
        assert_goes_on(place, graph, graph, "x")


@pytest.fixture
def replaced_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let cleanup remove versions of the manifest that were replaced just now."""
    monkeypatch.setattr(manifest_versions, "MANIFEST_SECONDS_MIN", 0)


@pytest.mark.usefixtures("replaced_long_ago")
def test_cleanup_puts_a_foreign_version_behind_and_removes_it(
    place: Place, arrive: Callable[[], int]
) -> None:
    with place.open() as graph:
        version = arrive()
        graph.cleanup(keep=1, confirm=True)
        assert list_versions(graph)[-1] == version + 1
        assert_settled(graph)
        insert(graph, "y", "z")
        graph.cleanup(keep=1, confirm=True)
        assert version not in list_versions(graph)
        assert list_names(graph) == ["x", "y", "z"]
        assert_settled(graph)


@pytest.mark.usefixtures("replaced_long_ago")
def test_cleanup_keeps_what_the_rules_keep_below_a_foreign_version(
    place: Place, arrive: Callable[[], int]
) -> None:
    with place.open() as graph:
        arrive()
        insert(graph, "y1", "y2", "y3")
        before = list_versions(graph)
        graph.cleanup(keep=100, confirm=True)
        assert list_versions(graph) == before
        for commit in graph.commits(branch="b"):
            graph.table("P", branch="b", at=commit.id)


def test_a_branch_is_deleted_and_made_once_more(place: Place, arrive: Callable[[], int]) -> None:
    with place.open() as graph:
        arrive()
        make_again(graph, "z")
        assert_goes_on(place, graph, graph, "z")
