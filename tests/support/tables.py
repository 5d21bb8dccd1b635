"""A small person table and functions that change it, for every kind of store."""

from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraphdb.errors import HeadMoved, Interleaved, RowContention
from omnigraphdb.ids import OperationId, Version
from omnigraphdb.storage.locks.table import TableLock
from omnigraphdb.storage.store import Store, open_store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import IndexKind, IndexSpec, Landed, Staged, TableAt
from tests.support.races import Barrier
from tests.support.store_roots import StoreRoot

PEOPLE = "nodes/0123456789abcdef"
OPERATION = OperationId("01J00000000000000000000000")
VECTOR = pa.list_(pa.field("item", pa.float32()), 4)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("age", pa.int64()),
        pa.field("bio", pa.string()),
        pa.field("photo", pa.large_binary()),
        pa.field("taste", VECTOR),
    ]
)
ID_INDEX = IndexSpec(column="id", kind=IndexKind.BTREE)
AGE_INDEX = IndexSpec(column="age", kind=IndexKind.BTREE)
BIO_INDEX = IndexSpec(column="bio", kind=IndexKind.TEXT)
TASTE_INDEX = IndexSpec(column="taste", kind=IndexKind.VECTOR)

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False),
        pa.field("metadata", pa.string()),
        pa.field("table_version", pa.uint64()),
    ]
)


@dataclass(frozen=True, slots=True)
class KernelLock:
    """Stands for a lock that only this test can hold."""

    exclusive: bool = True


def open_root(store_root: StoreRoot) -> Store:
    """Open the store of a root anew, as another handle or process would."""
    fsync, unofficial = store_root.kind == "fsync", store_root.kind != "official"
    return open_store(store_root.uri, store_root.options, fsync=fsync, unofficial=unofficial)


def people(ids: Iterable[str], age: int | Sequence[int | None] = 30, **columns: Any) -> pa.Table:
    """Rows of the person table; other columns are given by name or null."""
    names = list(ids)
    ages = [age] * len(names) if isinstance(age, int) else list(age)
    given = {"id": names, "age": ages} | columns
    arrays = [
        pa.array(given[f.name], f.type) if f.name in given else pa.nulls(len(names), f.type)
        for f in SCHEMA
    ]
    return pa.table(arrays, schema=SCHEMA)


def land(tables: Tables, staged: Staged | None, lock: Any = None) -> Landed:
    """Commit what was staged, as a single writer does."""
    assert staged is not None
    return tables.commit_staged(staged, operation_id=OPERATION, lock=lock)


def filled(tables: Tables, ids: Iterable[str], path: str = PEOPLE) -> TableAt:
    """A new table that holds these people at version 2."""
    return land(tables, tables.stage_append(tables.create(path, SCHEMA), people(ids))).at


def ages(tables: Tables, at: TableAt) -> dict[str, int | None]:
    """What a version holds, by id; fails when an id comes twice."""
    rows = tables.open(at).read(("id", "age")).to_pylist()
    found = {row["id"]: row["age"] for row in rows}
    assert len(found) == len(rows), "an id comes twice"
    return found


def head_at(tables: Tables, path: str = PEOPLE, branch: str | None = None) -> TableAt:
    """The newest version of a table."""
    return TableAt(path=path, branch=branch, version=tables.head(path, branch))


def next_of(at: TableAt, by: int = 1) -> TableAt:
    """A later version of the same line."""
    return TableAt(path=at.path, branch=at.branch, version=Version(at.version + by))


# ---- work that fresh processes run


def commit_each(
    barrier: Barrier, store_root: StoreRoot, me: int, rounds: int, *, locked: bool
) -> list[tuple[str, int]]:
    """In every round stage on the same HEAD as all others, then try to commit; give each outcome."""
    store = open_root(store_root)
    outcomes = []
    for number in range(rounds):
        barrier.wait()
        at = head_at(store.tables)
        staged = store.tables.stage_append(at, people([f"{number}-{me}"]))
        barrier.wait()
        outcomes.append(_try_commit(store, staged, locked=locked))
    return outcomes


def _try_commit(store: Store, staged: Staged, *, locked: bool) -> tuple[str, int]:
    try:
        with _turn(store, locked=locked) as lock:
            landed = store.tables.commit_staged(staged, operation_id=OPERATION, lock=lock)
    except HeadMoved:
        return "moved", 0
    except Interleaved as error:
        return "interleaved", error.actual or 0
    return "landed", landed.at.version


@contextmanager
def _turn(store: Store, *, locked: bool) -> Any:
    if not locked:
        yield None
        return
    lock: TableLock | None = store.locks.acquire(PEOPLE, wait=60)
    assert lock is not None
    try:
        yield lock
    finally:
        store.locks.release(lock)


def publish_each(store_root: StoreRoot, me: int, times: int, guard: str | None = None) -> int:
    """Advance the head row `times` times, each on top of the last; give the number of lost rounds."""
    rows = open_root(store_root).manifest
    lost = 0
    for number in range(times):
        while True:
            image = rows.load(None)
            commit = f"{me}-{number}"
            try:
                rows.swap(image, link(commit, head_of(image.rows)), guard)
                break
            except RowContention:
                lost += 1
    return lost


def link(commit: str, parent: str | None) -> pa.Table:
    """A commit row that names its parent, and the head row that names the commit."""
    return keyed({commit: parent, "head": commit})


def keyed(cells: dict[str, str | None], version: int = 1) -> pa.Table:
    """Rows of the small keyed table."""
    columns = [list(cells), list(cells.values()), [version] * len(cells)]
    return pa.table(columns, schema=MANIFEST_SCHEMA)


def cells(rows: pa.Table) -> dict[str, str | None]:
    """What the keyed table holds; fails when a key comes twice."""
    listed = rows.to_pylist()
    found = {row["object_id"]: row["metadata"] for row in listed}
    assert len(found) == len(listed), "a key comes twice"
    return found


def head_of(rows: pa.Table) -> str | None:
    """The commit that the head row names."""
    return cells(rows).get("head")
