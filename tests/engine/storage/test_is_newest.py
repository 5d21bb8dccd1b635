"""Is a pinned version still the newest: told without listing versions, on every line and store."""

from pathlib import Path

import pytest

from omnigraphdb.ids import Version
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import TableAt
from tests.support.store_roots import StoreRoot
from tests.support.tables import land, open_root, people

on_every_store = pytest.mark.parametrize(
    "store_root", ["local", "memory", pytest.param("s3", marks=pytest.mark.s3)], indirect=True
)


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


def grown(tables: Tables, at: TableAt, names: str) -> TableAt:
    return land(tables, tables.stage_append(at, people(names))).at


@on_every_store
def test_only_the_last_version_of_a_line_is_the_newest(store: Store) -> None:
    tables = store.tables
    first = tables.create("nodes/one", people([]).schema)
    second = grown(tables, first, "a")
    fork = tables.fork(second, "side")
    on_fork = grown(tables, fork, "b")
    third = grown(tables, second, "c")
    assert [tables.is_newest(at) for at in (first, second, third)] == [False, False, True]
    assert [tables.is_newest(at) for at in (fork, on_fork)] == [False, True]


@on_every_store
def test_another_store_that_commits_is_seen_at_once(store: Store, store_root: StoreRoot) -> None:
    at = store.tables.create("nodes/one", people([]).schema)
    assert store.tables.is_newest(at)
    later = grown(open_root(store_root).tables, at, "a")
    assert not store.tables.is_newest(at)
    assert store.tables.is_newest(later)


@on_every_store
def test_a_version_that_is_not_there_is_not_the_newest(store: Store) -> None:
    at = store.tables.create("nodes/one", people([]).schema)
    beyond = TableAt(path=at.path, branch=None, version=Version(at.version + 3))
    assert not store.tables.is_newest(beyond)


@pytest.mark.parametrize("store_root", ["local"], indirect=True)
def test_manifests_are_named_so_that_the_newest_comes_first(
    store: Store, store_root: StoreRoot
) -> None:
    """What the look at single files relies on."""
    at = grown(store.tables, store.tables.create("nodes/one", people([]).schema), "a")
    fork = grown(store.tables, store.tables.fork(at, "side"), "b")
    for line, version in ((None, at.version), ("side", fork.version)):
        folder = Path(store_root.uri) / branch_path(at.path, line) / "_versions"
        names = sorted(path.name for path in folder.glob("*.manifest"))
        assert names[0] == f"{2**64 - 1 - version:020d}.manifest"
