"""What one line of a table takes over from another: whole fragments as files, and row ids and births of rows."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import Successors, TableAt
from tests.support.store_roots import StoreRoot
from tests.support.tables import PEOPLE, land, open_root, people

everywhere = pytest.mark.parametrize(
    "store_root", ["local", "memory", pytest.param("s3", marks=pytest.mark.s3)], indirect=True
)
with_files = pytest.mark.parametrize(
    "store_root", ["local", pytest.param("s3", marks=pytest.mark.s3)], indirect=True
)
on_disk = pytest.mark.parametrize("store_root", ["local"], indirect=True)
BORN, WRITTEN = "_row_created_at_version", "_row_last_updated_at_version"


def plain(ids: list[str], age: int = 30) -> pa.Table:
    """Rows of a table without blobs."""
    return people(ids, age).drop_columns(["photo"])


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


@pytest.fixture
def base(store: Store) -> TableAt:
    """A table of three rows on its main line."""
    at = store.tables.create(PEOPLE, plain([]).schema)
    return land(store.tables, store.tables.stage_append(at, plain(["a", "b", "c"]))).at


def ages(tables: Tables, at: TableAt) -> dict[str, int]:
    found = tables.open(at).read(["id", "age"]).to_pylist()
    return {row["id"]: row["age"] for row in found}


def facts(tables: Tables, at: TableAt) -> dict[str, tuple[int, int, int]]:
    found = tables.open(at).read(["id", BORN, WRITTEN], row_id=True).to_pylist()
    return {row["id"]: (row["_rowid"], row[BORN], row[WRITTEN]) for row in found}


def address(tables: Tables, at: TableAt, *ids: str) -> pa.Array:
    found = tables.open(at).read(["id"], row_address=True).to_pylist()
    return pa.array([{r["id"]: r["_rowaddr"] for r in found}[name] for name in ids], pa.uint64())


# ---- whole fragments


@with_files
def test_a_copied_fragment_outlives_the_line_it_came_from(store: Store, base: TableAt) -> None:
    tables = store.tables
    side = tables.fork(base, "side")
    side = land(tables, tables.stage_append(side, plain(["x", "y"], 7))).at
    copied = tables.copy(base, side, [1])
    assert copied is not None
    assert copied.rows == 2
    landed = land(tables, tables.stage_append(base, plain(["z"], 8), parts=[copied])).at
    tables.drop_fork(PEOPLE, "side")
    tables.forget()
    assert ages(tables, landed) == {"a": 30, "b": 30, "c": 30, "x": 7, "y": 7, "z": 8}
    assert [row_id for row_id, *_ in facts(tables, landed).values()] == list(range(6))
    assert {born for _, born, _ in facts(tables, landed).values()} == {2, 3}


@with_files
def test_a_fork_of_a_fork_copies_files_that_it_inherited(store: Store, base: TableAt) -> None:
    tables = store.tables
    side = tables.fork(base, "side")
    side = land(tables, tables.stage_append(side, plain(["x"], 7))).at
    child = tables.fork(side, "side.child")
    copied = tables.copy(base, child, [1])
    assert copied is not None
    landed = land(tables, tables.stage_append(base, None, parts=[copied])).at
    assert ages(tables, landed) == {"a": 30, "b": 30, "c": 30, "x": 7}


@everywhere
def test_a_fragment_with_deleted_rows_is_not_copied(store: Store, base: TableAt) -> None:
    tables = store.tables
    side = tables.fork(base, "side")
    side = land(tables, tables.stage_append(side, plain(["x", "y"]))).at
    deleted = tables.stage_delete(side, pa.array(["x"]))
    assert deleted is not None
    assert tables.copy(base, land(tables, deleted).at, [1]) is None


@with_files
def test_fragments_with_blobs_are_not_copied(store: Store) -> None:
    tables = store.tables
    at = tables.create("nodes/blobs", people([]).schema)
    side = tables.fork(at, "side")
    side = land(tables, tables.stage_append(side, people(["x"], photo=[b"picture"]))).at
    assert tables.copy(at, side, [0]) is None


# ---- row ids and births


def replaced(tables: Tables, base: TableAt, like: TableAt | None = None) -> TableAt:
    """Let new copies of `a` and `c` take their place, beside a new row, in two commits."""
    addresses = address(tables, base, "a", "c")
    written = tables.write(base, plain(["a", "new", "c"], 9))
    fragments_written = land(tables, tables.stage_append(base, None, parts=[written])).at
    successors = Successors(
        pa.array([0, None, 2], pa.uint64()), pa.array([2, None, 2], pa.uint64())
    )
    return land(
        tables, tables.stage_takeover(fragments_written, written, successors, addresses, like=like)
    ).at


@everywhere
def test_rows_take_over_the_identity_of_those_whose_place_they_take(
    store: Store, base: TableAt
) -> None:
    landed = replaced(store.tables, base)
    assert ages(store.tables, landed) == {"a": 9, "b": 30, "c": 9, "new": 9}
    assert facts(store.tables, landed) == {
        "a": (0, 2, 4),
        "b": (1, 2, 2),
        "c": (2, 2, 4),
        "new": (4, 3, 3),
    }


@everywhere
def test_another_handle_finds_heirs_by_row_id_and_gives_out_others(
    store_root: StoreRoot, store: Store, base: TableAt
) -> None:
    landed = replaced(store.tables, base)
    other = open_root(store_root).tables if store_root.kind != "memory" else store.tables
    found = other.open(landed).take(pa.array([2, 4, 0], pa.uint64()), ["id", "age"])
    assert found.to_pylist() == [
        {"id": "c", "age": 9},
        {"id": "new", "age": 9},
        {"id": "a", "age": 9},
    ]
    later = land(other, other.stage_append(landed, plain(["later"]))).at
    assert len({row_id for row_id, *_ in facts(other, later).values()}) == 5


@everywhere
def test_heirs_can_be_replaced_again(store: Store, base: TableAt) -> None:
    tables = store.tables
    landed = replaced(tables, base)
    again = land(tables, tables.stage_merge(landed, plain(["c", "b"], 1))).at
    assert ages(tables, again) == {"a": 9, "b": 1, "c": 1, "new": 9}
    assert facts(tables, again)["c"] == (2, 2, 5)


@everywhere
def test_row_ids_and_births_stand_in_the_manifest(store: Store, base: TableAt) -> None:
    tables = store.tables
    at = replaced(tables, base)
    at = land(tables, tables.stage_append(at, plain([f"k{n}" for n in range(40)]))).at
    at = land(tables, tables.stage_merge(at, plain(["k3", "k30", "b", "fresh"], 5))).at
    compacted = tables.stage_compaction(at)
    assert compacted is not None
    for version in (base, at, land(tables, compacted).at):
        table = tables.open(version)
        found = table.read([BORN], row_id=True, row_address=True)
        addresses = found["_rowaddr"].combine_chunks()[::-1]
        assert table.row_ids(addresses).to_pylist() == found["_rowid"].to_pylist()[::-1]
        assert table.created_versions(addresses).to_pylist() == found[BORN].to_pylist()[::-1]


@everywhere
def test_rows_that_workers_wrote_take_over_like_those_of_one_commit(
    store: Store, base: TableAt
) -> None:
    tables = store.tables
    base = land(tables, tables.stage_append(base, plain(["d", "e", "f"]))).at
    gone = address(tables, base, "a", "c", "e", "f")
    heirs, fresh = plain(["a", "c", "e"], 9), plain(["new"], 9)
    row_ids = tables.open(base).row_ids(gone.slice(0, 3))
    side = tables.fork(base, "side")
    parts = [tables.write(side, heirs, row_ids=row_ids), tables.write(side, fresh)]
    once = land(tables, tables.stage_marked(side, parts, tables.mark(side, gone))).at
    successors = Successors(row_ids, tables.open(base).created_versions(gone.slice(0, 3)))
    written = [tables.write_successors(base, heirs, successors), tables.write(base, fresh)]
    marked = tables.mark(base, gone)
    between = land(tables, tables.stage_written(base, written)).at
    twice = land(tables, tables.stage_marked_takeover(between, written, marked)).at
    assert (
        ages(tables, twice)
        == ages(tables, once)
        == {"a": 9, "b": 30, "c": 9, "d": 30, "e": 9, "new": 9}
    )
    found = facts(tables, twice)
    assert {name: found[name][:2] for name in "abcde"} == {
        name: facts(tables, once)[name][:2] for name in "abcde"
    }
    assert {name for name, (*_, last) in found.items() if last == twice.version} == {"a", "c", "e"}
    again = land(tables, tables.stage_append(twice, plain(["later"]))).at
    assert len({row_id for row_id, *_ in facts(tables, again).values()}) == 7


# ---- deletion files


def files(store_root: StoreRoot) -> list[Path]:
    return sorted(Path(store_root.uri).rglob("*.arrow"))


def on_a_side(tables: Tables, base: TableAt, names: list[str]) -> TableAt:
    deleted = tables.stage_delete(tables.fork(base, "side"), pa.array(names))
    assert deleted is not None
    return land(tables, deleted).at


@on_disk
def test_a_deletion_file_of_the_other_line_serves_where_it_says_the_same(
    store_root: StoreRoot, store: Store, base: TableAt
) -> None:
    like = on_a_side(store.tables, base, ["a", "c"])
    landed = replaced(store.tables, base, like)
    one, other = files(store_root)
    assert os.path.samefile(one, other)
    store.tables.drop_fork(PEOPLE, "side")
    again = open_root(store_root).tables
    assert ages(again, landed) == {"a": 9, "b": 30, "c": 9, "new": 9}


@on_disk
@pytest.mark.parametrize("gone", [["a"], ["a", "b"], ["b", "c"]])
def test_a_deletion_file_that_says_something_else_serves_nobody(
    store_root: StoreRoot, store: Store, base: TableAt, gone: list[str]
) -> None:
    like = on_a_side(store.tables, base, gone)
    landed = replaced(store.tables, base, like)
    one, other = files(store_root)
    assert not os.path.samefile(one, other)
    assert ages(store.tables, landed) == {"a": 9, "b": 30, "c": 9, "new": 9}


@everywhere
def test_what_is_known_of_deletion_files_is_what_they_say(
    store_root: StoreRoot, store: Store, base: TableAt
) -> None:
    tables = store.tables
    first = on_a_side(tables, base, ["c"])
    deleted = tables.stage_delete(first, pa.array(["a"]))
    assert deleted is not None
    second = land(tables, deleted).at

    def list_deleted(seen: Tables) -> list[Any]:
        return [seen.open(at).deleted([0])[0].tolist() for at in (base, first, second)]

    assert list_deleted(tables) == [[], [2], [0, 2]]
    if store_root.kind != "memory":
        assert list_deleted(open_root(store_root).tables) == list_deleted(tables)
