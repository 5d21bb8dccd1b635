"""A writer on an object store that stands still past the end of its leases, while a rival takes over."""

from collections.abc import Mapping

import pytest

import omnigraphdb
from omnigraphdb.failpoints import Failpoint
from tests.support.child import run_parked_child
from tests.support.leases import assert_taken_over, lease_tokens, resume, shorten_leases, stop
from tests.support.s3 import Bucket
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA, WRITES

pytestmark = pytest.mark.s3


def insert(uri: str, options: Mapping[str, str]) -> None:
    """Write three tables under short leases."""
    shorten_leases()
    with (
        omnigraphdb.open(uri, storage_options=options) as graph,
        pytest.raises(omnigraphdb.OmniError),
    ):
        WRITES["insert"].run(graph, "main", "1", "ada")


def test_a_rival_takes_over_from_a_writer_that_stands_still(
    bucket: Bucket, short_leases: float
) -> None:
    uri, options = f"{bucket.uri}/g", bucket.storage_options
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load(BASE, mode="append")
        with run_parked_child(insert, uri, dict(options), at=Failpoint.PUBLISH_PREPARED) as writer:
            before = lease_tokens(graph)
            stop(writer.process)
            WRITES["insert"].run(graph, "main", "2", "ada")
            assert_taken_over(before, lease_tokens(graph))
            resume(writer.process)
            writer.release()
        assert {"p1", "p2"} <= set(graph.table("Person")["id"].to_pylist())
        assert_settled(graph)
