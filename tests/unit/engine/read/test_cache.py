"""The cache holds what fits, loads a thing once, and forgets the oldest first."""

import threading

import pytest

from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.failpoints import PARK_SECONDS_MAX


def size(value: bytes) -> int:
    return len(value)


def test_the_oldest_goes_first_and_what_is_used_stays() -> None:
    cache = ByteCache(10)
    for name in "abc":
        cache.get(name, lambda: b"xxx", size)
    cache.peek("a")
    cache.get("d", lambda: b"xxx", size)
    assert [name for name in "abcd" if cache.peek(name) is not None] == ["a", "c", "d"]
    assert cache.bytes_cached == 9


def test_what_is_larger_than_the_cache_is_given_and_not_held() -> None:
    cache = ByteCache(2)
    assert cache.get("a", lambda: b"xxx", size) == b"xxx"
    assert cache.peek("a") is None
    assert cache.bytes_cached == 0


def test_threads_that_want_the_same_wait_for_one_load() -> None:
    cache = ByteCache(100)
    started, finish = threading.Event(), threading.Event()
    loads: list[int] = []

    def load() -> bytes:
        loads.append(1)
        started.set()
        assert finish.wait(PARK_SECONDS_MAX)
        return b"x"

    threads = [threading.Thread(target=lambda: cache.get("a", load, size)) for _ in range(4)]
    threads[0].start()
    assert started.wait(PARK_SECONDS_MAX)
    for thread in threads[1:]:
        thread.start()
    finish.set()
    for thread in threads:
        thread.join(PARK_SECONDS_MAX)
    assert loads == [1]


def test_a_load_that_fails_leaves_the_way_free_for_the_next() -> None:
    cache = ByteCache(100)

    def broken() -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        cache.get("a", broken, size)
    assert cache.get("a", lambda: b"x", size) == b"x"


def test_a_family_points_at_what_was_kept_last_while_it_is_held() -> None:
    cache = ByteCache(4)
    cache.get("v1", lambda: b"xx", size, family="column")
    cache.get("v2", lambda: b"yy", size, family="column")
    assert cache.latest("column") == b"yy"
    cache.get("other", lambda: b"zzzz", size)
    assert cache.latest("column") is None
    assert cache.latest("unknown") is None


def test_costs_add_up_and_equal_things_are_one() -> None:
    cache = ByteCache(10)
    assert [cache.spend("a", 1.5) for _ in range(3)] == [0.0, 1.5, 3.0]
    first, second = ["x"], ["x"]
    assert cache.intern("name", first) is first
    assert cache.intern("name", second) is first
    cache.clear()
    assert cache.spend("a", 1.0) == 0.0


def test_what_is_made_of_held_values_goes_when_one_of_them_goes() -> None:
    cache = ByteCache(6)
    cache.get("a", lambda: b"xxx", size)
    assert cache.derive("both", lambda: "first") == "first"
    cache.get("b", lambda: b"xxx", size)
    assert cache.derive("both", lambda: "second") == "first"
    cache.get("c", lambda: b"xxx", size)
    assert cache.derive("both", lambda: "second") == "second"
    cache.keep("c", b"yyy", 3)
    assert cache.derive("both", lambda: "third") == "third"
    cache.clear()
    assert cache.derive("both", lambda: "fourth") == "fourth"


def test_what_was_being_made_while_a_value_went_is_given_and_not_held() -> None:
    cache = ByteCache(3)
    cache.get("a", lambda: b"xxx", size)

    def make() -> str:
        cache.get("b", lambda: b"yyy", size)
        return "of a"

    assert cache.derive("made", make) == "of a"
    assert cache.derive("made", lambda: "of b") == "of b"


def test_what_cannot_be_made_yet_is_tried_again() -> None:
    cache = ByteCache(3)
    nothing: str | None = cache.derive("made", lambda: None)
    assert nothing is None
    assert cache.derive("made", lambda: "now") == "now"
