"""The bucket of the simulation speaks enough of S3 for obstore and Lance, and its copies are states of the past."""

from collections.abc import Iterator
from typing import Any

import lance
import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError
from obstore.store import S3Store

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.locks.lease import LeaseLocks
from omnigraphdb.storage.objects.cloud import open_objects
from omnigraphdb.storage.objects.options import obstore_options
from tests.simulation.bucket import Answer, Bucket, NoAnswer, Request
from tests.simulation.bucket_server import ServedBucket, serve
from tests.support.leases import LONG_AFTER


@pytest.fixture
def served() -> Iterator[ServedBucket]:
    with serve(Bucket()) as served:
        yield served


def open_store(served: ServedBucket, client: str = "ada") -> S3Store:
    """Open the bucket as the engine does: obstore takes the same options as Lance."""
    options = obstore_options(root_of("s3://b"), served.options(client))
    groups: dict[str, Any] = {
        "config": options.config,
        "client_options": options.client,
        "retry_config": options.retry,
    }
    return S3Store("b", **groups)


def put(store: S3Store, key: str, text: str, **options: Any) -> Any:
    return obstore.put(store, key, text.encode(), use_multipart=False, **options)


# ---- requests


def test_an_object_is_read_whole_in_part_and_by_its_suffix(served: ServedBucket) -> None:
    store = open_store(served)
    put(store, "a/ü b", "0123456789")
    assert bytes(obstore.get(store, "a/ü b").bytes()) == b"0123456789"
    assert bytes(obstore.get_range(store, "a/ü b", start=2, end=5)) == b"234"
    assert bytes(obstore.get(store, "a/ü b", options={"range": {"suffix": 3}}).bytes()) == b"789"
    assert bytes(obstore.get(store, "a/ü b", options={"range": {"offset": 8}}).bytes()) == b"89"
    assert obstore.head(store, "a/ü b")["size"] == 10
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "a")
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "a")


def test_conditions_are_kept(served: ServedBucket) -> None:
    store = open_store(served)
    first = put(store, "k", "1", mode="create")
    with pytest.raises(AlreadyExistsError):
        put(store, "k", "2", mode="create")
    second = put(store, "k", "2", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        put(store, "k", "3", mode={"e_tag": first["e_tag"]})
    assert second["e_tag"] != first["e_tag"]
    assert bytes(obstore.get(store, "k").bytes()) == b"2"


def test_equal_contents_that_are_put_again_have_another_token(served: ServedBucket) -> None:
    store = open_store(served)
    first = put(store, "k", "1")
    assert put(store, "k", "1")["e_tag"] != first["e_tag"]


def test_objects_are_removed_one_by_one_and_many_at_once(served: ServedBucket) -> None:
    store = open_store(served)
    keys = [f"d/{n} & <{n}>" for n in range(5)]
    for key in keys:
        put(store, key, "x")
    obstore.delete(store, keys[0])
    with served.bucket.recording() as writes:
        obstore.delete(store, [*keys[1:], "d/nobody"])
    assert [(write.verb, write.key) for write in writes] == [("DELETE", key) for key in keys[1:]]
    assert dict(served.bucket.objects) == {}


@pytest.mark.parametrize("page_keys", [1, 2, 3, 1000])
def test_a_listing_goes_over_pages_and_rolls_folders_up(
    served: ServedBucket, monkeypatch: pytest.MonkeyPatch, page_keys: int
) -> None:
    monkeypatch.setattr("tests.simulation.bucket.PAGE_KEYS", page_keys)
    store = open_store(served)
    keys = ["a/1", "a/b/1", "a/b/2", "a/b/c/3", "a/c/1", "a/d", "ab", "b/1"]
    for key in keys:
        put(store, key, "x")
    listed = [entry["path"] for page in obstore.list(store) for entry in page]
    assert sorted(listed) == keys
    below = obstore.list_with_delimiter(store, prefix="a")
    assert [entry["path"] for entry in below["objects"]] == ["a/1", "a/d"]
    assert list(below["common_prefixes"]) == ["a/b", "a/c"]
    later = [entry["path"] for page in obstore.list(store, offset="a/b/2") for entry in page]
    assert sorted(later) == keys[3:]


def test_a_copy_is_made_by_the_store(served: ServedBucket) -> None:
    store = open_store(served)
    put(store, "from", "text")
    obstore.copy(store, "from", "to")
    assert bytes(obstore.get(store, "to").bytes()) == b"text"


def test_a_large_object_comes_in_parts_and_is_one_durable_write(served: ServedBucket) -> None:
    store, data = open_store(served), bytes(range(256)) * 50_000
    verbs: list[str] = []

    def note(_client: str, request: Request) -> Answer:
        verbs.append(request.verb)
        return request.carry_out()

    served.bucket.step = note
    with served.bucket.recording() as writes:
        obstore.put(store, "large", data, use_multipart=True, chunk_size=5 * 1024 * 1024)
    assert bytes(obstore.get(store, "large").bytes()) == data
    assert [(write.verb, write.key) for write in writes] == [("PUT", "large")]
    assert verbs.count("PART") == 4


def test_a_request_that_nobody_knows_is_refused_by_name(served: ServedBucket) -> None:
    objects = open_objects(root_of("s3://b/g"), served.options("ada"))
    served.bucket.step = lambda _client, _request: Answer(501, {}, b"<Error/>")
    with pytest.raises(StorageError):
        objects.put("k", "text")


# ---- states of the past


def test_every_change_leaves_a_copy_and_what_changes_nothing_leaves_none(
    served: ServedBucket,
) -> None:
    store = open_store(served)
    put(store, "a", "1")
    with served.bucket.recording() as writes:
        put(store, "b", "2")
        obstore.delete(store, "a")
        obstore.delete(store, "a")
        with pytest.raises(AlreadyExistsError):
            put(store, "b", "3", mode="create")
        obstore.get(store, "b")
    put(store, "c", "4")
    assert [(write.verb, write.key) for write in writes] == [("PUT", "b"), ("DELETE", "a")]
    assert [sorted(write.after) for write in writes] == [["a", "b"], ["b"]]
    served.bucket.restore(writes[0].after)
    assert bytes(obstore.get(store, "a").bytes()) == b"1"
    with pytest.raises(FileNotFoundError):
        obstore.get(store, "c")


def test_lance_commits_to_a_copy_what_it_committed_before(served: ServedBucket) -> None:
    options = served.options("ada")
    lance.write_dataset(pa.table({"n": [1]}), "s3://b/t", storage_options=options)
    before = dict(served.bucket.objects)
    for _ in range(2):
        served.bucket.restore(before)
        rows = pa.table({"n": [2, 3]})
        lance.write_dataset(rows, "s3://b/t", mode="append", storage_options=options)
        dataset = lance.dataset("s3://b/t", storage_options=options)
        assert (dataset.version, dataset.count_rows()) == (2, 3)


# ---- time, and who asks


def test_time_passes_for_what_is_there(served: ServedBucket) -> None:
    now = [1_700_000_000.0]
    bucket = Bucket(lambda: now[0])
    with serve(bucket) as served:
        objects = open_objects(root_of("s3://b/g"), served.options("ada"))
        objects.put("old", "text")
        bucket.pass_time(100)
        now[0] += 10
        objects.put("new", "text")
        old, new = objects.read_versioned("old"), objects.read_versioned("new")
        assert old is not None
        assert new is not None
        assert (new.changed_us - old.changed_us) / 1e6 == 110
        assert objects.times("")["new"] - objects.times("")["old"] == 110_000_000


def test_time_goes_on_from_the_last_change_of_a_state_that_is_brought_back() -> None:
    now = [1_700_000_000.0]
    bucket = Bucket(lambda: now[0])
    bucket.put("a", b"1", absent=False, match=None)
    state = dict(bucket.objects)
    bucket.pass_time(5000)
    now[0] += 700
    bucket.restore(state)
    now[0] += 3
    assert bucket.now() == 1_700_000_003.0


def test_the_lease_of_a_dead_holder_runs_out_by_the_clock_of_the_bucket(
    served: ServedBucket,
) -> None:
    root = root_of("s3://b/g")
    holder = LeaseLocks(open_objects(root, served.options("dead")))
    assert holder.acquire("k", wait=0) is not None
    held = dict(served.bucket.objects)

    def rival() -> object:
        # Each is a process of its own, which has never seen the lease.
        return LeaseLocks(open_objects(root, served.options("rival"))).acquire("k", wait=0)

    assert rival() is None
    served.bucket.restore(held)
    served.bucket.pass_time(LONG_AFTER)
    assert rival() is not None


def test_a_step_knows_its_client_and_decides_about_the_effect(served: ServedBucket) -> None:
    bucket = served.bucket
    seen: list[tuple[str, str, str, bool]] = []
    late: list[Request] = []

    def step(client: str, request: Request) -> Answer:
        seen.append((client, request.verb, request.key, request.is_conditional))
        if request.key == "late":
            late.append(request)
            raise NoAnswer
        return request.carry_out()

    bucket.step = step
    put(open_store(served, "ada"), "k", "1")
    put(open_store(served, "bo"), "n", "1", mode="create")
    with pytest.raises(GenericError):
        put(open_store(served, "bo"), "late", "1", mode="create")
    assert seen == [
        ("ada", "PUT", "k", False),
        ("bo", "PUT", "n", True),
        ("bo", "PUT", "late", True),
    ]
    assert sorted(bucket.objects) == ["k", "n"]
    # The effect comes long after, whatever became of its client; a second time its condition refuses it.
    assert [late[0].carry_out().status, late[0].carry_out().status] == [200, 412]
    assert sorted(bucket.objects) == ["k", "late", "n"]
