"""Memory of reads: whatever grows with the rows of a query counts against its bound, and counts no longer after it."""

from collections.abc import Iterator

import pytest

import omnigraphdb
from omnigraphdb.errors import ResourceLimit
from omnigraphdb.memory import COUNTED_BYTES_MIN, MemoryBound, MemoryPool

PEOPLE = 9_000
"""Their row ids are large enough to count."""
SCHEMA = """
node P { k: String @key  n: I32 }
edge Next: P -> P
"""
BOUND = 50_000_000
GROWING = {
    "groups": "match { $a: P $b: P  $a.n < 2000 } return { $a.n as x, $b.n as y, count($a) as c } limit 3",
    "distinct": "match { $a: P $b: P  $a.n < 2000 } return distinct { $a.n as x, $b.n as y } limit 3",
    "groups by text": "match { $a: P $b: P  $a.n < 2000 } return { $a.k as x, count($b.k) as c } limit 3",
    "ordered groups": "match { $a: P $b: P  $a.n < 900 } return { $a.n as x, $b.n as y, count($a) as c } order { c, y }",
    "collected": "match { $a: P $b: P  $a.n < 2000 } return { $a.n as x, collect($b.n) as c } limit 3",
    "counted once each": "match { $a: P $b: P  $a.n < 2000 } return { $a.n as x, count(distinct $b.n) as c } limit 3",
    "repeated by weight": "match { $a: P $a next{1,200} $b $b next{1,200} $c } return { percentile($c.n, 0.5) as x }",
    "reached": "match { $a: P $a next{1,700} $b } return { count($b) as n }",
    "paths": "match { $a: P $a $p:next{1,60} $b } return { sum(hops($p)) as n }",
}


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[omnigraphdb.Graph]:
    with omnigraphdb.init(tmp_path_factory.mktemp("ring") / "g", SCHEMA) as graph:
        graph.load(
            [{"type": "P", "data": {"k": f"p{n}", "n": n}} for n in range(PEOPLE)], mode="append"
        )
        graph.load(
            [
                {"edge": "Next", "from": f"p{n}", "to": f"p{(n + 1) % PEOPLE}"}
                for n in range(PEOPLE)
            ],
            mode="append",
        )
        yield graph


@pytest.mark.parametrize("text", GROWING.values(), ids=GROWING)
def test_what_grows_with_rows_is_refused_over_the_bound(ring: omnigraphdb.Graph, text: str) -> None:
    pool = MemoryPool(10 * BOUND, "--server")
    memory = MemoryBound(BOUND, "--query", pool)
    with memory, pytest.raises(ResourceLimit) as caught:
        ring.query(f"query q() {{ {text} }}")
    limit = caught.value.details["resource_limit"]
    assert limit["resource"] == "query_memory_bytes"
    assert limit["limit"] == BOUND < limit["actual"]
    assert "--query" in str(caught.value.hint)
    memory.end()
    assert pool.used == 0


@pytest.mark.parametrize(
    "text",
    [
        "match { $a: P $b: P  $a.n < 3 } return { count($a) as n }",
        "match { $a: P  not { $a next $b } } return { count($a) as n }",
        "match { $a: P } return { $a.n as x, count($a) as n }",
        "match { $a: P } return { $a.n as n } order { $a.k }",
        "match { $a: P $a $p:next{1,2} $b } return { sum(hops($p)) as n }",
    ],
)
def test_a_read_that_is_over_counts_nothing(ring: omnigraphdb.Graph, text: str) -> None:
    """The row ids of all nodes stay in the cache after a read that held them."""
    assert PEOPLE * 8 > COUNTED_BYTES_MIN
    pool = MemoryPool(10 * BOUND, "--server")
    for _ in range(3):
        with MemoryBound(BOUND, "--query", pool):
            ring.query(f"query q() {{ {text} }}")
        assert pool.used == 0
