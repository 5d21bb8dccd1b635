"""Lance branches of tables: refs, leftovers, and lives of one name."""

from typing import Any

import pytest
from lance.dataset import Branches

from omnigraphdb.errors import BranchInUse, ForkExists, StorageError, TableNotFound, UserInputError
from omnigraphdb.limits import REF_LOOKS_MAX
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt
from tests.support.store_roots import StoreRoot, race_threads
from tests.support.tables import PEOPLE, ages, filled, head_at, land, open_root, people

pytestmark = pytest.mark.parametrize(
    "store_root",
    ["local", "official", "memory", pytest.param("s3", marks=pytest.mark.s3)],
    indirect=True,
)


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


@pytest.fixture
def tables(store: Store) -> Tables:
    return store.tables


def leave_tree(store: Store, branch: str) -> None:
    """Forge what a crash in the middle of a drop leaves: files without a ref."""
    if store.root.is_memory:
        pytest.skip("Lance's memory cannot lose a single file")
    path = f"{PEOPLE}/_refs/branches/{branch.replace('/', '%2F')}.json"
    assert store.objects.read(path) is not None
    store.objects.delete(path)


def test_a_taken_name_is_told_apart_from_a_leftover(store: Store, tables: Tables) -> None:
    at = filled(tables, "ab")
    tables.fork(at, "side")
    with pytest.raises(ForkExists) as caught:
        tables.fork(at, "side")
    assert caught.value.has_ref
    leave_tree(store, "side")
    with pytest.raises(ForkExists) as caught:
        tables.fork(at, "side")
    assert not caught.value.has_ref
    assert tables.forks(PEOPLE) == {}


def test_a_leftover_never_becomes_the_history_of_a_new_fork(store: Store, tables: Tables) -> None:
    old = filled(tables, "ab")
    at = land(tables, tables.stage_append(old, people("c"))).at
    side = tables.fork(at, "side")
    land(tables, tables.stage_append(side, people(["stale"])))
    leave_tree(store, "side")
    with pytest.raises(ForkExists):
        tables.fork(old, "side")
    tables.drop_tree(PEOPLE, "side")
    fresh = tables.fork(old, "side")
    assert head_at(tables, branch="side") == fresh
    assert set(ages(tables, fresh)) == {"a", "b"}


def test_a_tree_with_a_ref_is_not_a_leftover(tables: Tables) -> None:
    forked = tables.fork(filled(tables, "ab"), "side")
    with pytest.raises(ForkExists):
        tables.drop_tree(PEOPLE, "side")
    assert set(ages(tables, forked)) == {"a", "b"}


def test_dropping_a_leftover_spares_what_nests_below_it(store: Store, tables: Tables) -> None:
    at = filled(tables, "ab")
    tables.fork(at, "team")
    leave_tree(store, "team")
    nested = tables.fork(at, "team/data")
    kept = land(tables, tables.stage_append(nested, people("n"))).at
    tables.drop_tree(PEOPLE, "team")
    tables.forget()
    assert set(ages(tables, kept)) == {"a", "b", "n"}
    tables.fork(at, "team")
    assert set(ages(tables, kept)) == {"a", "b", "n"}


def test_dropping_is_done_when_there_is_nothing(tables: Tables) -> None:
    at = filled(tables, "ab")
    tables.fork(at, "side")
    tables.drop_fork(PEOPLE, "side")
    tables.drop_fork(PEOPLE, "side")
    tables.drop_tree(PEOPLE, "side")
    assert tables.forks(PEOPLE) == {}
    with pytest.raises(TableNotFound):
        tables.head(PEOPLE, "side")


def test_a_dropped_fork_leaves_nothing_even_when_others_nest_below(
    store: Store, tables: Tables
) -> None:
    at = filled(tables, "ab")
    tables.fork(at, "team")
    kept = land(tables, tables.stage_append(tables.fork(at, "team/x"), people("n"))).at
    tables.drop_fork(PEOPLE, "team")
    assert set(tables.forks(PEOPLE)) == {"team/x"}
    assert set(ages(tables, kept)) == {"a", "b", "n"}
    if not store.root.is_memory:
        tables.fork(at, "team")


def test_a_parent_is_dropped_after_its_children(tables: Tables) -> None:
    parent = tables.fork(filled(tables, "ab"), "parent")
    tables.fork(parent, "child")
    with pytest.raises(BranchInUse, match="child"):
        tables.drop_fork(PEOPLE, "parent")
    assert set(tables.forks(PEOPLE)) == {"parent", "child"}
    tables.drop_fork(PEOPLE, "child")
    tables.drop_fork(PEOPLE, "parent")
    assert tables.forks(PEOPLE) == {}


def test_a_recreated_fork_shows_nothing_of_its_former_life(tables: Tables) -> None:
    at = filled(tables, "ab")
    first = land(tables, tables.stage_append(tables.fork(at, "side"), people(["old"]))).at
    life = tables.forks(PEOPLE)["side"].incarnation
    assert "old" in ages(tables, first)
    tables.drop_fork(PEOPLE, "side")
    second = land(tables, tables.stage_append(tables.fork(at, "side"), people(["new"]))).at
    assert second == first
    assert set(ages(tables, second)) == {"a", "b", "new"}
    assert tables.forks(PEOPLE)["side"].incarnation != life


def test_another_handle_forgets_a_former_life_when_told(
    store_root: StoreRoot, tables: Tables
) -> None:
    at = filled(tables, "ab")
    first = land(tables, tables.stage_append(tables.fork(at, "side"), people(["old"]))).at
    other = open_root(store_root).tables
    assert "old" in ages(other, first)
    tables.drop_fork(PEOPLE, "side")
    land(tables, tables.stage_append(tables.fork(at, "side"), people(["new"])))
    other.forget(branch="side")
    assert set(ages(other, first)) == {"a", "b", "new"}


def test_of_many_forkers_one_wins(store_root: StoreRoot, tables: Tables) -> None:
    at = filled(tables, "ab")

    def fork(barrier: Any, name: str) -> bool:
        mine = open_root(store_root).tables
        mine.open(at)
        barrier.wait()
        try:
            mine.fork(at, name)
        except ForkExists:
            return False
        return True

    for number in range(5):
        name = f"side{number}"
        won = race_threads(fork, [(name,)] * 4)
        assert sum(won) == 1
        forked = TableAt(path=PEOPLE, branch=name, version=at.version)
        assert set(ages(tables, forked)) == {"a", "b"}


def test_branches_that_are_dropped_meanwhile_disturb_no_listing(
    store_root: StoreRoot, tables: Tables
) -> None:
    at = filled(tables, "ab")
    tables.fork(at, "stays")

    def come_and_go(barrier: Any, name: str) -> None:
        mine = open_root(store_root).tables
        barrier.wait()
        for number in range(6):
            mine.fork(at, f"{name}{number}")
            mine.drop_fork(PEOPLE, f"{name}{number}")

    def listed(barrier: Any, _name: str) -> None:
        barrier.wait()
        for _ in range(20):
            assert "stays" in tables.forks(PEOPLE)

    race_threads(
        lambda barrier, work, name: work(barrier, name),
        [(come_and_go, "one"), (come_and_go, "two"), (listed, "")],
    )
    assert set(tables.forks(PEOPLE)) == {"stays"}


@pytest.mark.parametrize("lost", [REF_LOOKS_MAX, REF_LOOKS_MAX + 1])
def test_a_listing_is_begun_again_so_many_times_and_not_for_ever(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    tables.fork(filled(tables, "ab"), "side")
    real, left = Branches.list, iter(range(lost))

    def vanishing(self: Branches) -> object:
        if next(left, None) is not None:
            raise ValueError("Not found: nodes/x/_refs/branches/gone.json, rust/io.rs:1:1")
        return real(self)

    monkeypatch.setattr(Branches, "list", vanishing)
    if lost <= REF_LOOKS_MAX:
        assert set(tables.forks(PEOPLE)) == {"side"}
    else:
        with pytest.raises(StorageError, match="kept disappearing"):
            tables.forks(PEOPLE)


def test_a_listing_survives_any_number_of_branches_that_go_one_after_the_other(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.fork(filled(tables, "ab"), "side")
    real, left = Branches.list, iter(range(3 * REF_LOOKS_MAX))

    def vanishing(self: Branches) -> object:
        number = next(left, None)
        if number is not None:
            raise ValueError(f"Not found: nodes/x/_refs/branches/{number}.json, rust/io.rs:1:1")
        return real(self)

    monkeypatch.setattr(Branches, "list", vanishing)
    assert set(tables.forks(PEOPLE)) == {"side"}


@pytest.mark.parametrize(
    "name", ["a..b", "/a", "a/", "a//b", "main", "a.lock", "spaced out", "a\\b", ""]
)
def test_a_name_that_lance_cannot_keep_is_refused(tables: Tables, name: str) -> None:
    at = filled(tables, "ab")
    with pytest.raises(UserInputError):
        tables.fork(at, name)
    assert tables.forks(PEOPLE) == {}


def test_a_fork_counts_as_one(tables: Tables) -> None:
    at = filled(tables, "ab")
    with counting() as costs:
        tables.fork(at, "side")
    assert costs[Cost.FORKS] == 1


def test_a_fork_from_a_version_that_is_not_there_creates_nothing(tables: Tables) -> None:
    at = filled(tables, "ab")
    missing = TableAt(path=PEOPLE, branch=None, version=at.version)
    beyond = TableAt(path=PEOPLE, branch=None, version=type(at.version)(99))
    with pytest.raises(TableNotFound):
        tables.fork(beyond, "side")
    assert tables.forks(PEOPLE) == {}
    assert set(ages(tables, tables.fork(missing, "side"))) == {"a", "b"}
