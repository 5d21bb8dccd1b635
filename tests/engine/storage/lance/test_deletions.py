"""Which rows are deleted: told by deletion files, on every store and every line of a table."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import TableAt
from tests.support.store_roots import StoreRoot
from tests.support.tables import land, open_root, people

pytestmark = pytest.mark.parametrize(
    "store_root",
    ["local", "official", "memory", pytest.param("s3", marks=pytest.mark.s3)],
    indirect=True,
)
COUNT = 20_000


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


def names(numbers: Any) -> list[str]:
    return [f"k{number:05d}" for number in numbers]


def without(tables: Tables, at: TableAt, numbers: Any) -> TableAt:
    staged = tables.stage_delete(at, pa.array(names(numbers)))
    assert staged is not None
    return land(tables, staged).at


def missing(table: Table) -> dict[int, list[int]]:
    """The deleted offsets by scanning what is left."""
    found = {}
    for part in table.fragments():
        rows = table.read((), row_address=True, fragments=[part.id])["_rowaddr"].to_numpy()
        left = (rows & np.uint64(0xFFFFFFFF)).astype(np.int64)
        found[part.id] = np.setdiff1d(np.arange(part.physical_rows), left).tolist()
    return found


def list_deleted(table: Table) -> dict[int, list[int]]:
    numbers = [part.id for part in table.fragments()]
    return {number: gone.tolist() for number, gone in table.deleted(numbers).items()}


def test_deletion_files_say_what_a_scan_would_on_every_line(store: Store) -> None:
    tables = store.tables
    at = tables.create("nodes/one", people([]).schema)
    at = land(tables, tables.stage_append(at, people(names(range(COUNT))))).at
    at = land(tables, tables.stage_append(at, people(names(range(COUNT, COUNT + 50))))).at
    few = without(tables, at, [3, 5, COUNT + 1])
    fork = tables.fork(few, "side")
    many = without(tables, fork, range(10, COUNT, 2))
    child = tables.fork(many, "side.child")
    last = without(tables, child, [1, COUNT + 7])
    assert list_deleted(tables.open(at)) == {0: [], 1: []}
    for version in (few, fork, many, child, last):
        table = tables.open(version)
        assert list_deleted(table) == missing(table)
    assert sum(map(len, list_deleted(tables.open(many)).values())) > COUNT / 3
