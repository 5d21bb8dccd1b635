"""What a store that fails says, and what it never says."""

from collections.abc import Callable

import pytest

from omnigraphdb.errors import StorageError
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.cloud import open_objects, prove_conditional_puts
from omnigraphdb.storage.objects.protocol import Objects
from tests.support.s3 import Bucket, S3Server
from tests.support.s3_counting import CountingBucket
from tests.support.store_roots import StoreRoot

pytestmark = pytest.mark.s3
SECRET = "hunter2-secret"


def operations(objects: Objects) -> dict[str, Callable[[], object]]:
    """Every operation on one text; each of them asks the store at least once."""
    return {
        "read": lambda: objects.read("x"),
        "look": lambda: objects.exists("x"),
        "list": lambda: objects.list("dir"),
        "write": lambda: objects.put("x", "text"),
        "create": lambda: objects.put_if_absent("x", "text"),
        "replace": lambda: objects.put_if_match("x", "text", '["\\"00\\"", null]'),
        "rename": lambda: objects.rename("x", "y"),
        "delete prefix": lambda: objects.delete_prefix("dir"),
    }


def failures(objects: Objects) -> dict[str, StorageError]:
    """The error of each operation; every one must fail."""
    found = {}
    for name, operation in operations(objects).items():
        with pytest.raises(StorageError) as failed:
            operation()
        found[name] = failed.value
    return found


def test_a_missing_bucket_is_an_error_never_a_missing_text(s3_server: S3Server) -> None:
    options = s3_server.storage_options | {"aws_secret_access_key": SECRET}
    objects = open_objects(root_of("s3://no-such-bucket/graph"), options)
    for name, error in failures(objects).items():
        assert error.storage_kind == "configuration", name
        assert "s3://no-such-bucket/graph" in str(error)
        assert "AWS_" in str(error.hint)
        assert SECRET not in f"{error} {error.hint} {error.to_dict()}"


def test_an_endpoint_that_does_not_answer_is_transient_and_named(s3_server: S3Server) -> None:
    options = s3_server.storage_options | {
        "aws_endpoint": "http://127.0.0.1:1",
        "client_max_retries": "0",
    }
    for name, error in failures(open_objects(root_of("s3://bucket/graph"), options)).items():
        assert error.storage_kind == "transient", name
        assert "s3://bucket/graph" in str(error)
        assert "AWS_ENDPOINT_URL_S3" in str(error.hint)


def test_a_plain_http_endpoint_needs_to_be_allowed(bucket: Bucket) -> None:
    options = bucket.storage_options | {"allow_http": "false", "client_max_retries": "0"}
    with pytest.raises(StorageError) as failed:
        open_objects(root_of(bucket.uri), options).read("x")
    assert failed.value.storage_kind == "configuration"
    assert "AWS_ALLOW_HTTP" in str(failed.value.hint)


@pytest.mark.parametrize(
    ("status", "kind", "fact"),
    [(403, "configuration", "AWS_ACCESS_KEY_ID"), (503, "transient", "wait")],
)
def test_a_refusing_store_is_an_error_never_an_absence(
    counting_bucket: CountingBucket, status: int, kind: str, fact: str
) -> None:
    options = counting_bucket.storage_options | {"client_max_retries": "0"}
    objects = open_objects(root_of(f"{counting_bucket.uri}/graph"), options)
    counting_bucket.break_all(status=status)
    for name, error in failures(objects).items():
        assert error.storage_kind == kind, name
        assert fact in str(error.hint)


def test_a_request_the_store_was_too_busy_for_is_repeated(counting_bucket: CountingBucket) -> None:
    objects = open_objects(root_of(counting_bucket.uri), counting_bucket.storage_options)
    counting_bucket.break_next("PUT", "x", status=503, times=2)
    objects.put("x", "text")
    assert objects.read("x") == "text"
    assert counting_bucket.requests().of("PUT") == 3


def test_a_text_that_is_not_utf8_is_an_error_that_names_it(bucket: Bucket) -> None:
    bucket.server.call("PUT", f"/{bucket.name}/x", b"ab\xff")
    with pytest.raises(StorageError, match="UTF-8") as failed:
        open_objects(root_of(bucket.uri), bucket.storage_options).read("x")
    assert failed.value.storage_kind == "permanent"


def test_a_store_with_conditional_puts_is_accepted_and_left_clean(store_root: StoreRoot) -> None:
    objects = store_root.open()
    prove_conditional_puts(objects, store_root.root)
    assert objects.list("__locks") == ()


def test_a_store_that_ignores_conditions_is_refused(counting_bucket: CountingBucket) -> None:
    root = root_of(f"{counting_bucket.uri}/graph")
    objects = open_objects(root, counting_bucket.storage_options)
    counting_bucket.behave(ignore_conditions=True)
    with pytest.raises(StorageError, match="conditional puts") as refused:
        prove_conditional_puts(objects, root)
    assert refused.value.storage_kind == "configuration"
    counting_bucket.behave()
    assert objects.list("__locks") == ()
