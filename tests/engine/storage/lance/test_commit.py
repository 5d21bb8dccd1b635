"""Strictness of `commit_staged` and `restore`: exactly the next version, proved, on every kind of store."""

from collections import Counter
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from lance import LanceDataset

from omnigraphdb.errors import HeadMoved, Interleaved, OmniError, StorageError
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.store import Store, open_store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import Landed, Staged, TableAt
from tests.support.s3 import Bucket
from tests.support.store_roots import StoreRoot, race_processes
from tests.support.tables import (
    ID_INDEX,
    OPERATION,
    PEOPLE,
    KernelLock,
    ages,
    commit_each,
    filled,
    head_at,
    land,
    next_of,
    open_root,
    people,
)

STORES = ["local", "memory", pytest.param("s3", marks=pytest.mark.s3)]
SHARED = ["local", pytest.param("s3", marks=pytest.mark.s3)]
LOCKS = [None, KernelLock(exclusive=False), KernelLock()]


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


@pytest.fixture
def tables(store: Store) -> Tables:
    return store.tables


def every_kind(tables: Tables, at: TableAt) -> dict[str, Staged | None]:
    """One staged change of each kind on the same base."""
    return {
        "append": tables.stage_append(at, people(["x"])),
        "merge": tables.stage_merge(at, people(["a"])),
        "insert": tables.stage_merge(at, people(["y"])),
        "overwrite": tables.stage_overwrite(at, people(["z"])),
        "delete": tables.stage_delete(at, pa.array(["b"])),
        "indices": tables.stage_indices(at, [ID_INDEX]),
        "compaction": tables.stage_compaction(at),
    }


KINDS = ("append", "merge", "insert", "overwrite", "delete", "indices", "compaction")


@pytest.fixture
def base(tables: Tables) -> TableAt:
    return land(tables, tables.stage_append(filled(tables, "ab"), people("c"))).at


@pytest.mark.parametrize("store_root", STORES, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fenced_commit_on_a_moved_head_changes_nothing(
    tables: Tables, base: TableAt, kind: str
) -> None:
    staged = every_kind(tables, base)[kind]
    moved = land(tables, tables.stage_append(base, people("w")))
    before = ages(tables, moved.at)
    with pytest.raises(HeadMoved) as caught:
        land(tables, staged, KernelLock())
    assert (caught.value.expected, caught.value.actual) == (base.version, moved.at.version)
    assert head_at(tables) == moved.at
    assert ages(tables, moved.at) == before


@pytest.mark.parametrize("store_root", STORES, indirect=True)
@pytest.mark.parametrize("lock", [None, KernelLock(exclusive=False)])
@pytest.mark.parametrize("kind", KINDS)
def test_an_unfenced_commit_on_a_moved_head_is_never_taken_for_ours(
    tables: Tables, base: TableAt, kind: str, lock: Any
) -> None:
    staged = every_kind(tables, base)[kind]
    moved = land(tables, tables.stage_append(base, people("w")))
    with pytest.raises((HeadMoved, Interleaved)) as caught:
        land(tables, staged, lock)
    if isinstance(caught.value, HeadMoved):
        assert head_at(tables) == moved.at
    else:
        assert isinstance(caught.value, Interleaved)
        assert (caught.value.expected, caught.value.actual) == (moved.at.version, base.version + 2)
        assert tables.head(PEOPLE, None) == base.version + 2


@pytest.mark.parametrize("store_root", STORES, indirect=True)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_commit_on_its_own_base_lands(tables: Tables, base: TableAt, lock: Any) -> None:
    for kind in KINDS:
        at = head_at(tables)
        staged = every_kind(tables, at)[kind]
        if staged is None:
            continue
        landed = land(tables, staged, lock)
        assert landed.at == next_of(at)
        assert landed.uuid == staged.uuid


@pytest.mark.parametrize("store_root", ["local"], indirect=True)
def test_a_landed_commit_whose_answer_was_lost_is_recognised(
    tables: Tables, base: TableAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LanceDataset.commit

    def lossy(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise OSError("connection reset by peer")

    staged = tables.stage_append(base, people("x"))
    monkeypatch.setattr(LanceDataset, "commit", lossy)
    landed = land(tables, staged)
    assert (landed.at, landed.row_count) == (next_of(base), 4)


@pytest.mark.parametrize("store_root", ["local"], indirect=True)
def test_a_failed_commit_that_did_not_land_stays_failed(
    tables: Tables, base: TableAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise OSError("connection reset by peer")

    staged = tables.stage_append(base, people("x"))
    monkeypatch.setattr(LanceDataset, "commit", broken)
    with pytest.raises(StorageError):
        land(tables, staged)
    assert head_at(tables) == base


@pytest.mark.parametrize("store_root", STORES, indirect=True)
def test_a_staged_change_lands_once(tables: Tables, base: TableAt) -> None:
    staged = tables.stage_append(base, people("x"))
    landed = land(tables, staged, KernelLock())
    again = land(tables, staged, KernelLock())
    assert (again.at, again.row_count) == (landed.at, landed.row_count)
    assert head_at(tables) == landed.at


# ---- between processes


@pytest.mark.parametrize("store_root", SHARED, indirect=True)
def test_processes_with_locks_never_lose_a_commit(store_root: StoreRoot, tables: Tables) -> None:
    rounds = 6
    start = filled(tables, "a").version
    locked = store_root.kind == "local"
    outcomes = _race(store_root, rounds, locked=locked)
    counts = Counter(kind for kind, _ in outcomes)
    versions = sorted(version for kind, version in outcomes if kind == "landed")
    assert len(versions) == len(set(versions))
    head = tables.head(PEOPLE, None)
    history = tables.transactions(PEOPLE, None, start, head)
    assert len({info.uuid for info in history}) == len(history) == head - start
    rows = ages(tables, head_at(tables))
    assert len(rows) == 1 + counts["landed"] + counts["interleaved"]
    if locked:
        assert counts == {"landed": rounds, "moved": rounds}
        assert versions == list(range(start + 1, start + 1 + rounds))
    else:
        assert counts["landed"] == rounds


def _race(store_root: StoreRoot, rounds: int, *, locked: bool) -> list[tuple[str, int]]:
    workers = [(store_root, me, rounds) for me in range(2)]
    work = commit_locked if locked else commit_unlocked
    return list(chain.from_iterable(race_processes(work, workers)))


def commit_locked(
    barrier: Any, store_root: StoreRoot, me: int, rounds: int
) -> list[tuple[str, int]]:
    return commit_each(barrier, store_root, me, rounds, locked=True)


def commit_unlocked(
    barrier: Any, store_root: StoreRoot, me: int, rounds: int
) -> list[tuple[str, int]]:
    return commit_each(barrier, store_root, me, rounds, locked=False)


# ---- restore


@pytest.mark.parametrize("store_root", STORES, indirect=True)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_restore_goes_forward_to_an_earlier_state(
    tables: Tables, base: TableAt, lock: Any
) -> None:
    at = land(tables, tables.stage_overwrite(base, people("z"))).at
    with counting() as costs:
        landed = tables.restore(
            PEOPLE, None, base.version, expected_head=at.version, operation_id=OPERATION, lock=lock
        )
    assert (landed.at, landed.row_count) == (next_of(at), 3)
    assert ages(tables, landed.at) == ages(tables, base)
    assert costs[Cost.TABLE_RESTORES] == 1
    (info,) = tables.transactions(PEOPLE, None, at.version, landed.at.version)
    assert (info.operation, info.operation_id, info.uuid) == ("Restore", OPERATION, landed.uuid)
    assert ages(tables, at) == {"z": 30}


@pytest.mark.parametrize("store_root", STORES, indirect=True)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_restore_refuses_a_head_it_was_not_told_of(
    tables: Tables, base: TableAt, lock: Any
) -> None:
    at = land(tables, tables.stage_append(base, people("x"))).at
    foreign = land(tables, tables.stage_append(at, people("y"))).at
    with pytest.raises(HeadMoved):
        tables.restore(
            PEOPLE, None, base.version, expected_head=at.version, operation_id=OPERATION, lock=lock
        )
    assert head_at(tables) == foreign
    assert set(ages(tables, foreign)) == {"a", "b", "c", "x", "y"}


@pytest.mark.parametrize("store_root", STORES, indirect=True)
def test_a_restore_brings_indices_and_row_ids_back(tables: Tables, base: TableAt) -> None:
    indexed = land(tables, tables.stage_indices(base, [ID_INDEX])).at
    at = land(tables, tables.stage_delete(indexed, pa.array(["a"]))).at
    at = tables.restore(
        PEOPLE, None, indexed.version, expected_head=at.version, operation_id=OPERATION, lock=None
    ).at
    table = tables.open(at)
    assert "ScalarIndexQuery" in table.explain("id = 'a'")
    assert table.read(("id",), "id = 'a'").num_rows == 1
    grown = land(tables, tables.stage_append(at, people("n"))).at
    row_ids = tables.open(grown).read((), row_id=True)["_rowid"].to_pylist()
    assert len(set(row_ids)) == 4


@pytest.mark.parametrize("store_root", STORES, indirect=True)
def test_a_restore_on_a_fork_leaves_main_alone(tables: Tables, base: TableAt) -> None:
    forked = tables.fork(base, "side")
    at = land(tables, tables.stage_append(forked, people("x"))).at
    landed = tables.restore(
        PEOPLE, "side", forked.version, expected_head=at.version, operation_id=OPERATION, lock=None
    )
    assert ages(tables, landed.at) == ages(tables, base)
    assert tables.head(PEOPLE, None) == base.version


@pytest.mark.parametrize("store_root", SHARED, indirect=True)
@pytest.mark.parametrize("branch", [None, "side"])
@pytest.mark.parametrize("unofficial", [True, False])
def test_of_a_restore_and_an_append_on_one_head_exactly_one_lands(
    store_root: StoreRoot, branch: str | None, unofficial: bool
) -> None:
    """Each may be the one that looked first and comes last: the other's version stays."""
    tables = open_store(store_root.uri, store_root.options, unofficial=unofficial).tables
    earlier = filled(tables, "abc")
    earlier = earlier if branch is None else tables.fork(earlier, branch)
    head = land(tables, tables.stage_append(earlier, people("x"))).at
    late = tables.stage_append(head, people("y"))

    def restore() -> Landed:
        return tables.restore(
            PEOPLE,
            branch,
            earlier.version,
            expected_head=head.version,
            operation_id=OPERATION,
            lock=None,
        )

    appended: list[Landed] = []
    with (
        armed(Failpoint.RESTORE_LOOKED, lambda: appended.append(land(tables, late))),
        pytest.raises(HeadMoved, match="nothing was committed"),
    ):
        restore()
    assert tables.head(PEOPLE, branch) == appended[0].at.version == head.version + 1
    assert set(ages(tables, appended[0].at)) == {"a", "b", "c", "x", "y"}

    head = appended[0].at
    late = tables.stage_append(head, people("z"))
    restored = restore()
    with pytest.raises((HeadMoved, Interleaved)):
        land(tables, late)
    assert restored.at == next_of(head)
    assert ages(tables, restored.at) == ages(tables, earlier)


@pytest.mark.s3
@pytest.mark.parametrize("branch", [None, "side"])
@pytest.mark.parametrize("store_root", ["s3"], indirect=True)
def test_a_restore_whose_answer_is_lost_is_recognised(
    tables: Tables, base: TableAt, bucket: Bucket, branch: str | None
) -> None:
    base = base if branch is None else tables.fork(base, branch)
    at = land(tables, tables.stage_append(base, people("x"))).at
    lost = {"method": "PUT", "key": "/_versions/", "status": 500, "after": True, "times": 1}
    bucket.server.control("behave", breaks=[lost])
    landed = tables.restore(
        PEOPLE, branch, base.version, expected_head=at.version, operation_id=OPERATION, lock=None
    )
    bucket.server.control("behave")
    assert landed.at == next_of(at)
    assert ages(tables, landed.at) == ages(tables, base)


@pytest.mark.s3
@pytest.mark.parametrize("store_root", ["s3"], indirect=True)
def test_a_store_that_creates_things_twice_takes_no_restore(
    tables: Tables, base: TableAt, bucket: Bucket, store_root: StoreRoot
) -> None:
    at = land(tables, tables.stage_append(base, people("x"))).at
    bucket.server.control("behave", ignore_conditions=True)
    unaware = open_root(store_root).tables
    with pytest.raises(StorageError, match="conditional puts") as refused:
        unaware.restore(
            PEOPLE, None, base.version, expected_head=at.version, operation_id=OPERATION, lock=None
        )
    bucket.server.control("behave")
    assert refused.value.storage_kind == "configuration"
    assert head_at(tables) == at


# ---- what is said when it goes wrong


@pytest.mark.parametrize("store_root", ["local"], indirect=True)
def test_before_and_after_the_effect_are_two_errors(tables: Tables, base: TableAt) -> None:
    stale = tables.stage_append(base, people("x"))
    land(tables, tables.stage_append(base, people("y")))
    with pytest.raises(HeadMoved, match="nothing was committed"):
        land(tables, stale, KernelLock())
    with pytest.raises(Interleaved, match="foreign commit interleaved"):
        land(tables, stale, None)
    assert not issubclass(Interleaved, HeadMoved)
    assert issubclass(HeadMoved, OmniError)


@pytest.mark.parametrize("store_root", ["fsync"], indirect=True)
def test_a_durable_store_commits_as_others_do(tables: Tables) -> None:
    at = filled(tables, "ab")
    landed = tables.commit_staged(
        tables.stage_merge(at, people("bc")), operation_id=OperationId("X"), lock=KernelLock()
    )
    assert landed.at.version == Version(3)
    assert set(ages(tables, landed.at)) == {"a", "b", "c"}
