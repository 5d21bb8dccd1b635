"""Memory of reads: columns count while they live, a bound refuses before it is passed, and nothing stays counted."""

import gc
import weakref

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.errors import ResourceLimit, ServerBusy
from omnigraphdb.memory import (
    COUNTED_BYTES_MIN,
    HeldBytes,
    MemoryBound,
    MemoryPool,
    count_columns,
    counted_bytes,
)

SIZE = 1024 * 1024


def bound(query: int = 4 * SIZE, server: int = 8 * SIZE) -> tuple[MemoryBound, MemoryPool]:
    pool = MemoryPool(server, "--server")
    return MemoryBound(query, "--query", pool), pool


def column() -> np.ndarray:
    return np.zeros(SIZE // 8, dtype=np.int64)


def test_a_column_counts_until_it_is_freed() -> None:
    memory, pool = bound()
    with memory:
        first, second = column(), pa.array(column())
        count_columns([first, second])
        assert memory.used == pool.used == 2 * SIZE
        del first
        assert memory.used == pool.used == SIZE
    # The block is over, the column is not.
    assert pool.used == SIZE
    del second
    assert pool.used == 0


def test_a_view_keeps_the_memory_of_its_column() -> None:
    memory, pool = bound()
    with memory:
        whole = column()
        count_columns([whole])
        part = whole[:10]
        del whole
        assert pool.used == SIZE
        del part
    assert pool.used == 0


def test_a_read_over_its_bound_is_refused_with_the_numbers() -> None:
    memory, pool = bound()
    with memory:
        columns = [column() for _ in range(4)]
        count_columns(columns)
        with pytest.raises(ResourceLimit, match="query_memory_bytes") as caught:
            count_columns([column()])
    assert caught.value.details["resource_limit"] == {
        "resource": "query_memory_bytes",
        "limit": 4 * SIZE,
        "actual": 5 * SIZE,
    }
    assert "--query" in str(caught.value.hint)
    assert pool.used == 4 * SIZE
    del columns
    assert pool.used == 0


def test_all_reads_together_are_bounded() -> None:
    first, pool = bound(server=3 * SIZE)
    second = MemoryBound(4 * SIZE, "--query", pool)
    with first:
        columns = [column(), column()]
        count_columns(columns)
    with second, pytest.raises(ServerBusy, match="--server"):
        count_columns([column(), column()])
    gc.collect()
    assert second.used == 0
    assert pool.used == 2 * SIZE


def test_temporary_columns_count_for_their_block() -> None:
    memory, pool = bound()
    with memory:
        with counted_bytes(3 * SIZE):
            assert pool.used == 3 * SIZE
        with pytest.raises(ResourceLimit), counted_bytes(5 * SIZE):
            pytest.fail("the block runs only where there is room")
    assert pool.used == 0


def test_small_columns_and_reads_without_a_bound_count_nothing() -> None:
    memory, pool = bound()
    count_columns([column()])
    with memory:
        count_columns([np.zeros(COUNTED_BYTES_MIN // 8 - 1, dtype=np.int64)])
        with counted_bytes(COUNTED_BYTES_MIN - 1):
            assert pool.used == 0


def test_a_column_counts_once_and_its_views_with_it() -> None:
    memory, pool = bound()
    with memory:
        whole = column()
        count_columns([whole, whole, whole[1:], whole[: SIZE // 16]])
        assert pool.used == SIZE


def test_a_column_that_outlives_its_read_counts_only_during_it() -> None:
    """A cache keeps it, and every read that holds it counts it."""
    pool, kept = MemoryPool(8 * SIZE, "--server"), column()
    for _ in range(20):
        memory = MemoryBound(4 * SIZE, "--query", pool)
        with memory:
            count_columns([kept])
        assert pool.used == SIZE
        del memory
        assert pool.used == 0
    assert weakref.getweakrefcount(kept) == 0


def test_a_read_that_ended_counts_nothing_and_gives_nothing_back_twice() -> None:
    memory, pool = bound()
    with memory:
        first, held = column(), HeldBytes()
        count_columns([first])
        held.take(SIZE)
        with counted_bytes(SIZE):
            memory.end()
        assert memory.used == pool.used == 0
        del first, held
        count_columns([column()])
    assert memory.used == pool.used == 0


def test_held_bytes_count_until_they_are_released_or_their_holder_is_freed() -> None:
    memory, pool = bound()
    with memory:
        held = HeldBytes()
        held.take(3 * SIZE)
        held.give_back(SIZE)
        assert pool.used == 2 * SIZE
        with pytest.raises(ResourceLimit):
            held.take(3 * SIZE)
        assert pool.used == 2 * SIZE
        del held
        assert pool.used == 0
