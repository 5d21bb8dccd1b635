"""Versions that a handle has drafted: nobody but their writer knows of them before they are in the store."""

import threading
from collections.abc import Callable

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.s3 import Bucket
from tests.support.s3_counting import CountingBucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA

pytestmark = pytest.mark.s3

WAIT_SECONDS = 60


@pytest.fixture
def graphs(bucket: Bucket) -> tuple[Graph, Graph]:
    """Two handles of one graph, as two processes have them."""
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    graph = omnigraphdb.init(uri, SCHEMA, storage_options=options, config={"maintenance": "off"})
    graph.load(BASE, mode="append")
    rival = omnigraphdb.open(uri, storage_options=options, config={"maintenance": "off"})
    return graph, rival


def add(graph: Graph, kind: str, name: str) -> str | None:
    text = f"query m($k: String) {{ insert {kind} {{ k: $k }} }}"
    commit = graph.mutate(text, {"k": name}, idempotency_key=name).commit
    return None if commit is None else commit.id


def begin(work: Callable[[], object]) -> Callable[[], object]:
    """Do something in a thread; gives a function that waits for its result."""
    made: list[object] = []
    thread = threading.Thread(target=lambda: made.append(work()), daemon=True)
    thread.start()

    def wait() -> object:
        thread.join(WAIT_SECONDS)
        return made[0]

    return wait


def test_a_reader_beside_a_publish_that_a_rival_wins_sees_the_rival(
    graphs: tuple[Graph, Graph], bucket: Bucket
) -> None:
    """The publish is on its way while a rival takes its version; a thread of the same handle then opens that version."""
    graph, rival = graphs
    late = bucket.delay_put(r"__manifest/_versions/")
    wait = begin(lambda: add(graph, "Person", "slow"))
    late.wait()
    quick = add(rival, "City", "quick")
    assert graph.commits()[0].id == quick
    late.arrive()
    slow = wait()
    for one in (graph, rival):
        assert [commit.id for commit in one.commits()[:2]] == [slow, quick]
        assert "slow" in one.table("Person")["k"].to_pylist()
    assert_settled(rival)


@pytest.mark.parametrize("unofficial", ["on", "off"])
def test_a_version_that_nobody_can_look_at_is_not_taken_for_a_rivals(
    unofficial: str, counting_bucket: CountingBucket
) -> None:
    """The store creates the version, loses the answer, refuses the second try, and does not show what is there."""
    uri = f"{counting_bucket.uri}/g"
    options = {**counting_bucket.storage_options, "client_max_retries": "1"}
    config = {"maintenance": "off", "unofficial_lance": unofficial}
    graph = omnigraphdb.init(uri, SCHEMA, storage_options=options, config=config)
    graph.load(BASE, mode="append")
    third = rf"nodes/[^/]+/_versions/{2**64 - 1 - 3:020d}"
    lost = {"method": "PUT", "key": third, "status": 500, "after": True, "times": 1}
    unseen = {"method": "GET", "key": third, "status": 500, "after": False, "times": 100}
    counting_bucket.bucket.server.control("behave", breaks=[lost, unseen])
    with pytest.raises(omnigraphdb.OmniError):
        add(graph, "Person", "e")
    counting_bucket.behave()
    assert add(graph, "Person", "e") is not None
    assert sorted(graph.table("Person")["k"].to_pylist()) == [*"abcde"]
    assert_settled(graph)
