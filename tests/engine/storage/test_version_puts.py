"""A version whose PUT was not answered, and that cannot be read either: nobody is told that nothing was changed."""

import pytest

from omnigraphdb.errors import StorageError
from omnigraphdb.ids import Version
from omnigraphdb.storage.lance.unofficial.version_puts import try_put_version
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.objects.cloud import open_objects
from omnigraphdb.storage.values import TableAt
from tests.simulation.bucket import Answer, Bucket, NoAnswer, Request
from tests.simulation.bucket_server import serve

AT = TableAt(path="nodes/a", branch=None, version=Version(2))


@pytest.mark.parametrize("is_answered", [False, True], ids=["lost", "refused"])
def test_a_version_that_may_be_there_is_not_denied(is_answered: bool) -> None:
    def step(_: str, request: Request) -> Answer:
        if request.verb != "PUT":
            raise NoAnswer
        request.carry_out()
        if is_answered:
            # The client of the store repeated a request whose first was on its way.
            return request.carry_out()
        raise NoAnswer

    bucket = Bucket()
    with serve(bucket) as served:
        objects = open_objects(root_of("s3://b/g"), served.options("writer"))
        bucket.step = step
        failed = try_put_version(objects, AT, b"manifest")
    assert isinstance(failed, StorageError)
    assert "it may or may not have taken effect" in str(failed)
    assert "nothing was changed" not in str(failed)
    assert [stored.data for stored in bucket.objects.values()] == [b"manifest"]
