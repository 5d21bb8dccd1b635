"""What many workers leave for one commit: scratch files on every store, and rows marked deleted by other processes."""

import pyarrow as pa
import pytest

from omnigraphdb.errors import OmniError
from omnigraphdb.storage.store import Store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import StagedKind, TableAt
from tests.support.store_roots import StoreRoot
from tests.support.tables import ages, filled, land, next_of, open_root, people

ROWS = pa.table(
    {
        "n": pa.array(range(1_000), pa.int64()),
        "text": [None if n % 7 == 0 else f"日{n}" for n in range(1_000)],
        "list": [[n, None] for n in range(1_000)],
        "blob": pa.array([bytes([n % 256]) for n in range(1_000)], pa.large_binary()),
    }
)


@pytest.fixture
def store(store_root: StoreRoot) -> Store:
    return open_root(store_root)


def test_a_scratch_file_is_read_back_by_columns_and_by_rows(
    store: Store, store_root: StoreRoot
) -> None:
    store.scratch.write("__staging/op/some.lance", ROWS)
    other = open_root(store_root).scratch
    assert other.read("__staging/op/some.lance").equals(ROWS)
    assert other.read("__staging/op/some.lance", ["text", "n"]).to_pydict() == {
        name: ROWS[name].to_pylist() for name in ("text", "n")
    }
    part = other.read("__staging/op/some.lance", ["n"], start=990, rows=5)
    assert part["n"].to_pylist() == [990, 991, 992, 993, 994]


def test_an_empty_scratch_file_keeps_its_columns(store: Store) -> None:
    store.scratch.write("__staging/op/none.lance", ROWS.slice(0, 0))
    found = store.scratch.read("__staging/op/none.lance")
    assert (found.num_rows, found.schema) == (0, ROWS.schema)


def test_a_scratch_file_that_is_gone_is_an_error_of_ours(store: Store) -> None:
    with pytest.raises(OmniError):
        store.scratch.read("__staging/op/gone.lance")


def test_rows_that_others_marked_and_wrote_land_in_one_commit(
    store: Store, store_root: StoreRoot
) -> None:
    tables = store.tables
    at = two_fragments(tables)
    found = tables.open(at).lookup(
        "id", pa.array(list("bxyz")), ("id",), row_id=True, row_address=True
    )
    found = found.sort_by("_rowaddr")
    addresses = found["_rowaddr"].combine_chunks()
    worker, other = open_root(store_root).tables, open_root(store_root).tables
    first = worker.mark(at, addresses.slice(0, 1))
    second = other.mark(at, addresses.slice(1))
    assert [(one.rows, one.fragment is None) for one in (*first, *second)] == [
        (1, False),
        (3, True),
    ]
    written = [worker.write(at, people("b", 1)), other.write(at, people("q", 2))]
    staged = tables.stage_marked(at, written, (*first, *second))
    assert (staged.kind, staged.rows_added, staged.rows_deleted) == (StagedKind.MERGE, 2, 4)
    landed = land(tables, staged)
    assert landed.at == next_of(at)
    assert ages(tables, landed.at) == {"a": 30, "b": 1, "c": 30, "q": 2}


def two_fragments(tables: Tables) -> TableAt:
    at = filled(tables, "abc")
    return land(tables, tables.stage_append(at, people("xyz"))).at
