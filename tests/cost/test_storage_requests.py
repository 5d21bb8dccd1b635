"""What tables and keyed rows ask of an object store, request by request; none of it grows with history."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.lance.rows import PRIMARY_KEY
from omnigraphdb.storage.rows import Image
from omnigraphdb.storage.store import Store, open_store
from tests.support.manifests import new_manifest, publish_often
from tests.support.openings import await_openings
from tests.support.s3_counting import CountingBucket, Requests
from tests.support.tables import (
    ID_INDEX,
    MANIFEST_SCHEMA,
    PEOPLE,
    SCHEMA,
    filled,
    head_of,
    land,
    link,
    people,
)

pytestmark = pytest.mark.s3

Asked = Callable[[Callable[[], Any]], tuple[Any, Requests]]


@pytest.fixture
def store(counting_bucket: CountingBucket) -> Store:
    return open_store(f"{counting_bucket.uri}/graph", counting_bucket.storage_options)


@pytest.fixture
def asked(counting_bucket: CountingBucket) -> Asked:
    def run(work: Callable[[], Any]) -> tuple[Any, Requests]:
        await_openings()
        counting_bucket.reset()
        done = work()
        await_openings()
        return done, counting_bucket.requests()

    return run


def opened(store: Store) -> Image:
    key = MANIFEST_SCHEMA.field(0).with_metadata({PRIMARY_KEY: "true"})
    rows = link("genesis", None).cast(MANIFEST_SCHEMA.set(0, key))
    return store.manifest.create(rows, metadata={"stamp": "4"}, config={})


# ---- tables


def test_a_warm_append_is_one_put_and_its_commit_one_request_and_an_opening(
    store: Store, asked: Asked
) -> None:
    at = filled(store.tables, "ab")
    for number in range(6):
        staged, requests = asked(partial(store.tables.stage_append, at, people([f"{number}"])))
        assert requests.counts() == {"PUT data": 1}
        landed, requests = asked(partial(land, store.tables, staged))
        assert requests.counts() == {"HEAD manifest": 1, "PUT manifest": 1}
        at = landed.at


def test_probes_and_warm_opens_cost_what_they_should(store: Store, asked: Asked) -> None:
    at = filled(store.tables, "ab")
    _, requests = asked(lambda: store.tables.head(PEOPLE, None))
    assert requests.counts() == {"LIST manifest": 1}
    _, requests = asked(lambda: store.tables.open(at))
    assert len(requests) == 0


def test_a_pinned_open_never_lists(
    store: Store, asked: Asked, counting_bucket: CountingBucket
) -> None:
    at = filled(store.tables, "ab")
    other = open_store(f"{counting_bucket.uri}/graph", counting_bucket.storage_options).tables
    _, requests = asked(lambda: other.open(at))
    assert requests.counts() == {"GET manifest": 1, "HEAD manifest": 1}


def test_a_repeated_lookup_reads_what_it_read_before_from_memory(
    store: Store, asked: Asked
) -> None:
    at = land(store.tables, store.tables.stage_indices(filled(store.tables, "abc"), [ID_INDEX])).at
    table = store.tables.open(at)
    wanted = pa.array(["a"])
    asked(lambda: table.lookup("id", wanted, ("id", "age")))
    _, requests = asked(lambda: table.lookup("id", wanted, ("id", "age")))
    assert requests.of("LIST") == 0
    assert len(requests) <= 2


def test_a_fork_costs_the_same_whatever_the_table_holds(store: Store, asked: Asked) -> None:
    at = filled(store.tables, "ab")
    store.tables.open(at)
    counts = []
    for number in range(3):
        _, requests = asked(partial(store.tables.fork, at, f"side{number}"))
        counts.append(len(requests))
    assert counts == [8, 8, 8]


# ---- keyed rows


def test_a_guarded_swap_asks_twice_and_reads_no_rows(store: Store, asked: Asked) -> None:
    image = opened(store)
    rows, deletions = store.manifest, 0
    for number in range(40):
        fresh = link(f"c{number}", head_of(image.rows))
        version, requests = asked(partial(rows.swap, image, fresh, "head"))
        counts = dict(requests.counts())
        # A fragment whose rows are all replaced goes as a whole; one that keeps rows needs a file of deletions.
        if counts.pop("PUT deletion", 0):
            deletions += 1
            assert counts.pop("HEAD manifest", 0) <= 1
        if number > 0:
            assert counts == {"PUT data": 1, "PUT manifest": 1}
        image, requests = asked(partial(rows.load, None, version))
        assert len(requests) == 0
    assert deletions <= 6


def test_a_publish_that_folds_asks_a_handful_more_and_reads_no_recent_row(
    store: Store, asked: Asked
) -> None:
    manifest = new_manifest(store.manifest)
    publish_often(manifest, 2)
    folding: list[dict[str, int]] = []
    while len(folding) < 3:
        with counting() as costs:
            _, requests = asked(partial(publish_often, manifest, 4))
        if costs[Cost.MANIFEST_FOLDS]:
            folding.append(dict(requests.counts()))
    for counts in folding:
        # Four publishes of two files each, at times a deletion file with a HEAD; the fold brings two files and a version.
        assert counts["PUT data"] <= 4 + 2
        assert counts["PUT manifest"] <= 4 + 1
        # A file of the history may be read that is written anew; the first fold has none.
        assert sum(counts.values()) <= 24, counts
    assert "GET data" not in folding[0]


def test_a_warm_load_is_one_probe_and_on_a_branch_one_read_more(store: Store, asked: Asked) -> None:
    image = opened(store)
    rows = store.manifest
    _, requests = asked(lambda: rows.load(None))
    assert requests.counts() == {"LIST manifest": 1}
    _, requests = asked(lambda: rows.create_branch("side", None, image.version))
    assert len(requests) <= 10
    rows.load("side")
    _, requests = asked(lambda: rows.load("side"))
    assert requests.counts() == {"GET ref": 1, "LIST manifest": 1}


def test_the_life_of_a_branch_is_one_read_whatever_the_number_of_branches(
    store: Store, asked: Asked
) -> None:
    image = opened(store)
    for number in range(5):
        store.manifest.create_branch(f"b{number}", None, image.version)
    _, requests = asked(lambda: store.manifest.incarnation("b3"))
    assert requests.counts() == {"GET ref": 1}


def test_an_empty_table_costs_four_requests(store: Store, asked: Asked) -> None:
    _, requests = asked(lambda: store.tables.create(PEOPLE, SCHEMA))
    assert len(requests) <= 4
