"""Turns between writers: sorted, shared by all handles of a process, never half taken."""

import random
import threading
from pathlib import Path

import pytest

from omnigraphdb.commit.locks import (
    SCHEMA_APPLY,
    HeldLocks,
    LockKey,
    TableLocks,
    lock_key,
    queue_of,
)
from omnigraphdb.errors import InternalError
from omnigraphdb.failpoints import PARK_SECONDS_MAX
from omnigraphdb.ids import TableKey
from omnigraphdb.storage.layout import root_of
from omnigraphdb.storage.locks.table import FileLocks

KEYS = [lock_key(TableKey(f"node:{name}"), branch) for name in "ABC" for branch in (None, "b")]


@pytest.fixture
def table_locks(tmp_path: Path) -> TableLocks:
    return another(tmp_path)


def another(root: Path) -> TableLocks:
    """What another handle on the same graph has."""
    return TableLocks(queue_of(str(root)), FileLocks(root_of(root)))


def test_the_turn_of_a_schema_change_comes_before_all_others() -> None:
    assert sorted([*KEYS, SCHEMA_APPLY])[0] == SCHEMA_APPLY


def test_main_comes_before_a_branch_of_the_same_table() -> None:
    assert lock_key(TableKey("node:A"), None) < lock_key(TableKey("node:A"), "b")
    assert lock_key(TableKey("node:A"), "b") < lock_key(TableKey("node:B"), None)


def test_a_turn_is_held_once_in_a_process_whatever_the_handle(
    table_locks: TableLocks, tmp_path: Path
) -> None:
    other = another(tmp_path)
    with table_locks.acquire(KEYS[:2]):
        with other.try_acquire(KEYS[1:3]) as tried:
            assert tried is None
        with other.try_acquire(KEYS[2:4]) as tried:
            assert tried is not None
            assert tried.covers(KEYS[2:4])
    with other.try_acquire(KEYS) as tried:
        assert tried is not None


def test_a_try_that_fails_gives_back_what_it_had(table_locks: TableLocks, tmp_path: Path) -> None:
    other = another(tmp_path)
    with table_locks.acquire([KEYS[-1]]), other.try_acquire(KEYS) as tried:
        assert tried is None
        with table_locks.try_acquire(KEYS[:-1]) as rest:
            assert rest is not None


def test_an_error_inside_gives_every_turn_back(table_locks: TableLocks) -> None:
    with pytest.raises(RuntimeError), table_locks.acquire(KEYS):
        raise RuntimeError
    with table_locks.try_acquire(KEYS) as tried:
        assert tried is not None


def test_committing_without_a_turn_is_a_bug(table_locks: TableLocks) -> None:
    with table_locks.acquire(KEYS[:1]) as held_locks:
        assert held_locks.lock(KEYS[0]).exclusive
        with pytest.raises(InternalError, match="without its lock"):
            held_locks.lock(KEYS[1])


def test_a_turn_whose_file_was_removed_is_no_turn(table_locks: TableLocks, tmp_path: Path) -> None:
    with table_locks.acquire(KEYS[:2]) as held_locks:
        assert held_locks.lost() is None
        for file in (tmp_path / "__locks").iterdir():
            file.unlink()
        assert held_locks.lost() in KEYS[:2]


def test_no_turns_are_no_turns() -> None:
    assert HeldLocks({}).covers([])
    assert HeldLocks({}).lost() is None
    assert not HeldLocks({}).covers(KEYS[:1])


def test_random_sets_of_turns_never_block_for_ever_and_never_overlap(
    table_locks: TableLocks, tmp_path: Path
) -> None:
    held: dict[LockKey, int] = {}
    guard = threading.Lock()
    clashes: list[LockKey] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        own = table_locks if number % 2 else another(tmp_path)
        for _ in range(40):
            keys = chance.sample(KEYS, chance.randint(1, len(KEYS)))
            with own.acquire(keys):
                with guard:
                    clashes.extend(key for key in keys if key in held)
                    held.update(dict.fromkeys(keys, number))
                with guard:
                    for key in keys:
                        del held[key]

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PARK_SECONDS_MAX)
        assert not thread.is_alive()
    assert clashes == []
