"""What a small merge asks of an object store: little, and the same whatever lies around it."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from tests.support.s3_counting import CountingBucket

pytestmark = pytest.mark.s3

SCHEMA = "node P { name: String @key }\nnode Untouched { name: String @key }"
REQUESTS_MAX = 23


def asked(bucket: CountingBucket, name: str, rows: int, depth: int) -> Mapping[str, int]:
    """Merge one new row into a graph of a size, after so many earlier merges."""
    graph = omnigraphdb.init(f"{bucket.uri}/{name}", SCHEMA, storage_options=bucket.storage_options)
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


# ---- bytes


def both_sides(graph: Graph, rows: int, number: int) -> None:
    """Change a hundred rows on a branch and a hundred others on main: half new, half changed."""
    graph.branch_create(f"side{number}")
    for branch, offset in ((f"side{number}", 0), ("main", 50)):
        changed = [f"{n:07d}" for n in range(rows // 3 + offset, rows // 3 + offset + 50)]
        fresh = [f"{branch} {number} {n}" for n in range(50)]
        graph.load(
            {"P": pa.table({"name": [*changed, *fresh], "age": [number] * 100})},
            mode="merge",
            branch=branch,
        )


def bytes_read(bucket: CountingBucket, name: str, rows: int) -> int:
    schema = "node P { name: String @key  age: I64? }"
    graph = omnigraphdb.init(f"{bucket.uri}/{name}", schema, storage_options=bucket.storage_options)
    graph.load(
        {"P": pa.table({"name": [f"{n:07d}" for n in range(rows)], "age": range(rows)})},
        mode="append",
    )
    for number in range(2):
        both_sides(graph, rows, number)
        bucket.reset()
        assert graph.merge(f"side{number}").outcome == "merged"
    return sum(request.bytes_out for request in bucket.requests() if request.method == "GET")


def test_a_three_way_merge_reads_as_many_bytes_of_a_large_table_as_of_a_small_one(
    counting_bucket: CountingBucket,
) -> None:
    small = bytes_read(counting_bucket, "small", 10_000)
    large = bytes_read(counting_bucket, "large", 100_000)
    assert large <= 1.2 * small, (small, large)
