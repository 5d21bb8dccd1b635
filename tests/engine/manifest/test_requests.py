"""What the manifest asks of an object store, request by request."""

import pytest

from omnigraphdb.ids import MAIN
from omnigraphdb.manifest.branches import create_branch
from omnigraphdb.manifest.manifest import Manifest
from omnigraphdb.manifest.publish import publish
from omnigraphdb.storage.store import Store, open_store
from tests.support.manifests import CITY, PERSON, change, new_manifest, write
from tests.support.s3_counting import CountingBucket

pytestmark = pytest.mark.s3

WARM_PUBLISH = {"PUT data": 1, "PUT manifest": 1}


@pytest.fixture
def bucket_store(counting_bucket: CountingBucket) -> Store:
    return open_store(f"{counting_bucket.uri}/graph", counting_bucket.storage_options)


@pytest.fixture
def on_s3(bucket_store: Store) -> Manifest:
    return new_manifest(bucket_store.manifest)


def publish_counted(manifest: Manifest, bucket: CountingBucket) -> dict[str, int]:
    prepared = change(manifest, PERSON)
    bucket.reset()
    publish(manifest, prepared)
    return bucket.requests().counts()


def test_a_warm_publish_reads_no_data_file_at_any_depth(
    on_s3: Manifest, counting_bucket: CountingBucket
) -> None:
    write(on_s3, PERSON)
    write(on_s3, PERSON)
    found = [publish_counted(on_s3, counting_bucket) for _ in range(20)]
    assert found[0] == WARM_PUBLISH
    # Now and then the rows beside the head row are too many to be written anew.
    sealed = WARM_PUBLISH | {"HEAD manifest": 1, "PUT deletion": 1}
    assert [one for one in found if one not in (WARM_PUBLISH, sealed)] == []
    assert 1 <= found.count(sealed) <= 4


def test_a_warm_look_is_one_request(on_s3: Manifest, counting_bucket: CountingBucket) -> None:
    on_s3.current(MAIN)
    counting_bucket.reset()
    on_s3.current(MAIN)
    assert counting_bucket.requests().counts() == {"LIST manifest": 1}


def test_a_branch_is_made_with_few_requests_at_any_depth(
    on_s3: Manifest, bucket_store: Store, counting_bucket: CountingBucket
) -> None:
    def made(name: str) -> int:
        on_s3.current(MAIN)
        counting_bucket.reset()
        create_branch(on_s3, bucket_store.tables, name)
        return len(counting_bucket.requests())

    shallow = made("shallow")
    on_s3.rows.delete_branch("shallow")
    for _ in range(20):
        write(on_s3, PERSON, CITY)
    assert made("deep") == shallow
    assert shallow <= 12
