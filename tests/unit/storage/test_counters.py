"""Cost counters: per context, carried into threads, never mixed."""

from concurrent.futures import ThreadPoolExecutor

from omnigraphdb.storage.counters import Cost, carry_context, counting, record


def test_nothing_is_counted_when_nobody_counts() -> None:
    record(Cost.TABLE_OPENS)
    with counting() as costs:
        pass
    record(Cost.TABLE_OPENS)
    assert costs.as_dict() == {}


def test_counts_add_up_and_read_by_name() -> None:
    with counting() as costs:
        record(Cost.STAGE_APPEND)
        record(Cost.STAGE_APPEND_ROWS, 7)
        record(Cost.STAGE_APPEND_ROWS, 3)
        record(Cost.VECTOR_BUILDS, 0)
    assert costs.as_dict() == {"stage_append": 1, "stage_append_rows": 10}
    assert costs[Cost.STAGE_APPEND_ROWS] == 10


def test_a_block_inside_a_block_counts_for_itself() -> None:
    with counting() as outer:
        record(Cost.TABLE_OPENS)
        with counting() as inner:
            record(Cost.TABLE_OPENS)
        record(Cost.TABLE_OPENS)
    assert (outer[Cost.TABLE_OPENS], inner[Cost.TABLE_OPENS]) == (2, 1)


def test_a_thread_counts_only_where_it_is_carried() -> None:
    def work(number: int) -> int:
        for _ in range(100):
            record(Cost.TABLE_SCANS)
        return number

    with counting() as costs, ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 1, 2, 3]
        assert costs.as_dict() == {}
        assert list(pool.map(carry_context(work), range(4))) == [0, 1, 2, 3]
    assert costs[Cost.TABLE_SCANS] == 400


def test_parallel_operations_never_mix_their_counts() -> None:
    def operation(times: int) -> int:
        with counting() as costs:
            for _ in range(times):
                record(Cost.TABLE_SCANS)
        return costs[Cost.TABLE_SCANS]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(operation, range(50))) == list(range(50))
