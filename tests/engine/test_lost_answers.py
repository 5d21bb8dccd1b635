"""An object store does what it is asked and its answer is lost: the client asks again, and meets its own work."""

from collections.abc import Callable
from functools import partial

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import BranchExists
from omnigraphdb.failpoints import Failpoint, armed
from tests.support.joined import write_together
from tests.support.once import once
from tests.support.s3 import Bucket
from tests.support.s3_counting import CountingBucket
from tests.support.settled import assert_settled
from tests.support.store_roots import in_threads
from tests.support.story import BASE, SCHEMA, WRITES, note

pytestmark = pytest.mark.s3

TABLE = r"(nodes|edges)/[^/]+/_versions/"


def made(bucket: CountingBucket | Bucket) -> Graph:
    graph = omnigraphdb.init(f"{bucket.uri}/g", SCHEMA, storage_options=bucket.storage_options)
    graph.load(BASE, mode="append")
    return graph


def branch(graph: Graph) -> None:
    graph.branch_create("new")
    assert [one.name for one in graph.branches()] == ["main", "b", "new"]


def branch_of_the_past(graph: Graph) -> None:
    graph.branch_create("new", at=graph.commits()[-1].id)


def fork(graph: Graph) -> None:
    WRITES["insert"].run(graph, "b", "1", None)


def widen(graph: Graph) -> None:
    graph.branch_delete("b")
    graph.schema_apply(SCHEMA + "node Pet { k: String @key }\n")


@pytest.mark.parametrize(
    ("work", "key"),
    [
        pytest.param(branch, r"__manifest/_refs/", id="the ref of a branch"),
        pytest.param(branch, r"__manifest/tree/.*_versions/", id="the files of a branch"),
        pytest.param(branch_of_the_past, r"__manifest/_refs/", id="a branch of the past"),
        pytest.param(fork, r"(nodes|edges)/[^/]+/_refs/", id="the ref of a fork"),
        pytest.param(fork, r"(nodes|edges)/.*tree/.*_versions/", id="the files of a fork"),
        pytest.param(widen, r"__manifest/_refs/", id="the lock of a schema change"),
        pytest.param(widen, TABLE, id="a new table"),
    ],
)
def test_what_was_made_is_recognised(
    counting_bucket: CountingBucket, work: Callable[[Graph], None], key: str
) -> None:
    graph = made(counting_bucket)
    graph.branch_create("b")
    counting_bucket.break_next("PUT", key, after=True)
    work(graph)
    counting_bucket.behave()
    note(graph, "main", "and the next write goes on")
    assert_settled(graph)


@pytest.mark.parametrize("key", [r"_schema\.pg$", TABLE, r"__manifest/_versions/"])
def test_a_graph_that_was_made_is_recognised(counting_bucket: CountingBucket, key: str) -> None:
    counting_bucket.break_next("PUT", key, after=True)
    graph = made(counting_bucket)
    counting_bucket.behave()
    assert_settled(graph)


def test_a_branch_of_another_is_never_taken_for_ones_own(bucket: Bucket) -> None:
    made(bucket).close()
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    handles = [omnigraphdb.open(uri, storage_options=options) for _ in range(3)]

    def create(graph: Graph, name: str) -> bool:
        try:
            graph.branch_create(name)
        except BranchExists:
            return False
        return True

    for name in ("one", "two"):
        assert sorted(in_threads(create, [(one, name) for one in handles])) == [False, False, True]


def test_the_confirmation_of_a_group_is_recognised(counting_bucket: CountingBucket) -> None:
    """The update lands what the insert before it drafted, so that the sidecar is written twice."""
    graph = made(counting_bucket)
    lose = partial(counting_bucket.break_next, "PUT", r"__recovery/", after=True)
    writes = [
        partial(graph.mutate, 'query m() { insert Person { k: "e" } }'),
        partial(graph.mutate, 'query m() { update Person set { n: 7 } where k = "a" }'),
    ]
    with armed(Failpoint.GROUP_LANDED, once(lose)):
        told = write_together(graph, writes)
    assert not any(isinstance(one, BaseException) for one in told), told
    assert len({commit.group for commit in graph.commits()[:2]}) == 1
    assert_settled(graph)
