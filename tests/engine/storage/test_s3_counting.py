"""The counting server sees every request of both store clients, and both rely on its conditions."""

import time

import lance
import pyarrow as pa
import pytest

from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.cloud import open_objects
from omnigraphdb.storage.objects.options import lance_options
from tests.support.s3_counting import CountingBucket
from tests.support.store_roots import in_threads

pytestmark = pytest.mark.s3
ROWS = pa.table({"id": ["a", "b"]})


def write(bucket: CountingBucket, mode: str = "append") -> lance.LanceDataset:
    root = root_of(f"{bucket.uri}/graph")
    options = lance_options(root, bucket.storage_options)
    return lance.write_dataset(ROWS, root.at("nodes/1f"), mode=mode, storage_options=options)


def test_the_requests_of_an_open_and_an_append_are_counted_by_role(
    counting_bucket: CountingBucket,
) -> None:
    table = write(counting_bucket, "create")
    counting_bucket.reset()
    table.insert(ROWS)
    appended = counting_bucket.requests()
    assert appended.counts() == {
        "LIST manifest": 1,
        "PUT data": 1,
        "PUT manifest": 1,
        "PUT txn": 1,
    }
    assert [r.conditional for r in appended if r.role == "manifest"] == [False, True]
    counting_bucket.reset()
    root = root_of(f"{counting_bucket.uri}/graph")
    options = lance_options(root, counting_bucket.storage_options)
    assert lance.dataset(root.at("nodes/1f"), storage_options=options).version == 2
    assert counting_bucket.requests().counts() == {"GET manifest": 1, "LIST manifest": 1}


def test_the_requests_of_small_texts_are_counted_by_role(counting_bucket: CountingBucket) -> None:
    objects = open_objects(root_of(f"{counting_bucket.uri}/graph"), counting_bucket.storage_options)
    objects.put("__recovery/1.json", "text")
    objects.read("__recovery/1.json")
    objects.list("__recovery")
    objects.delete("__recovery/1.json")
    objects.put_if_absent("_schema.pg", "text")
    seen = counting_bucket.requests()
    assert [(r.method, r.role) for r in seen] == [
        ("PUT", "sidecar"),
        ("GET", "sidecar"),
        ("LIST", "sidecar"),
        ("DELETE", "sidecar"),
        ("PUT", "schema"),
    ]
    assert (seen.reads, seen.writes) == (2, 3)
    assert seen.log[0].bytes_in == len("text")
    assert seen.log[1].bytes_out == len("text")
    assert seen.first("DELETE", "sidecar") == 3


def test_latency_is_injected_per_request(counting_bucket: CountingBucket) -> None:
    objects = open_objects(root_of(counting_bucket.uri), counting_bucket.storage_options)
    objects.put("x", "text")
    counting_bucket.behave(latency=0.1)
    began = time.monotonic()
    objects.read("x")
    objects.read("x")
    assert time.monotonic() - began >= 0.2


def test_racing_lance_commits_are_decided_by_the_conditional_put(
    counting_bucket: CountingBucket,
) -> None:
    root = root_of(f"{counting_bucket.uri}/graph")
    options = lance_options(root, counting_bucket.storage_options)
    write(counting_bucket, "create")
    handles = [lance.dataset(root.at("nodes/1f"), storage_options=options) for _ in range(4)]
    # Slow enough that all of them have looked at the newest version before the first one moves it.
    counting_bucket.behave(latency=0.25)
    in_threads(lambda handle: handle.insert(ROWS), [(handle,) for handle in handles])
    counting_bucket.behave()
    manifests = [r for r in counting_bucket.requests() if (r.method, r.role) == ("PUT", "manifest")]
    assert any(r.status == 412 for r in manifests)
    assert sum(r.status == 200 for r in manifests) == 5
    assert lance.dataset(root.at("nodes/1f"), storage_options=options).count_rows() == 10


@pytest.mark.parametrize("by", ["environment", "options"])
def test_both_clients_find_the_endpoint_the_same_way(
    counting_bucket: CountingBucket, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    right, wrong = counting_bucket.storage_options["aws_endpoint"], "http://127.0.0.1:1"
    options = counting_bucket.storage_options if by == "options" else None
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", right if by == "environment" else wrong)
    monkeypatch.setenv("AWS_ENDPOINT_URL", wrong)
    if by == "environment":
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
    root = root_of(f"{counting_bucket.uri}/graph")
    open_objects(root, options).put("x", "text")
    lance.write_dataset(ROWS, root.at("nodes/1f"), storage_options=lance_options(root, options))
    seen = counting_bucket.requests()
    assert seen.of("PUT", "other") == seen.of("PUT", "data") == 1
