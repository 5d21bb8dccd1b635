"""The bounded cache of values used last."""

from concurrent.futures import ThreadPoolExecutor

from omnigraphdb.storage.lru import Recent


def test_the_value_unused_for_longest_goes_first() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)
    assert len(recent) == 2


def test_values_are_found_and_dropped_by_key() -> None:
    recent: Recent[int, str] = Recent(9)
    for number in range(6):
        recent.put(number, f"v{number}")
    assert recent.newest(lambda key: key % 2 == 0) == "v4"
    recent.get(0)
    assert recent.newest(lambda key: key % 2 == 0) == "v0"
    assert recent.newest(lambda key: key > 9) is None
    recent.drop(lambda key: key % 2 == 0)
    assert [recent.get(key) for key in range(6)] == [None, "v1", None, "v3", None, "v5"]


def test_threads_share_one_cache() -> None:
    recent: Recent[int, int] = Recent(16)

    def work(start: int) -> None:
        for number in range(start, start + 500):
            recent.put(number % 40, number)
            recent.get((number * 7) % 40)
            recent.newest(lambda key: key == 3)
            if number % 50 == 0:
                recent.drop(lambda key: key < 5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(0, 800, 100)))
    assert len(recent) <= 16
