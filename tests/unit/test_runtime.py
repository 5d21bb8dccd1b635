"""The system runtime: its ids are ULIDs in the order they were made."""

import re

from omnigraphdb.runtime import SystemRuntime


def test_ids_are_ulids_that_sort_in_the_order_they_were_made() -> None:
    runtime = SystemRuntime()
    ids = [runtime.new_id() for _ in range(1_000)]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", one) for one in ids)


def test_an_id_begins_with_the_time_it_was_made() -> None:
    runtime = SystemRuntime()
    before = runtime.now_us() // 1_000
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    made = 0
    for char in runtime.new_id()[:10]:
        made = made * 32 + digits.index(char)
    assert before <= made <= runtime.now_us() // 1_000
