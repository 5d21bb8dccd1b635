"""What a small merge asks of an object store: little, and the same whatever lies around it."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

import omnigraph
from tests.support.s3_counting import CountingBucket

pytestmark = pytest.mark.s3

SCHEMA = "node P { name: String @key }\nnode Untouched { name: String @key }"
REQUESTS_MAX = 27


def asked(bucket: CountingBucket, name: str, rows: int, depth: int) -> Mapping[str, int]:
    """Merge one new row into a graph of a size, after so many earlier merges."""
    graph = omnigraph.init(f"{bucket.uri}/{name}", SCHEMA, storage_options=bucket.storage_options)
    graph.load({"P": pa.table({"name": [f"{n}" for n in range(rows)]})}, mode="append")
    for number in range(depth + 1):
        graph.branch_create(f"side{number}")
        record = {"type": "P", "data": {"name": f"new {number}"}}
        graph.load([record], mode="append", branch=f"side{number}")
        bucket.reset()
        graph.merge(f"side{number}")
    counts: Mapping[str, int] = bucket.requests().counts()
    return counts


def test_a_one_row_fast_forward_asks_little_and_the_same_at_any_size_and_depth(
    counting_bucket: CountingBucket,
) -> None:
    small = asked(counting_bucket, "small", 100, 1)
    large = asked(counting_bucket, "large", 20_000, 1)
    deep = asked(counting_bucket, "deep", 100, 6)
    assert sum(small.values()) <= REQUESTS_MAX, small
    assert small == large == deep
