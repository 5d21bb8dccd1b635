"""Rows by address: in the order asked, whatever lies between them, and runs of neighbours in one read."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraphdb
from omnigraphdb.limits import ADDRESSES_MAX
from omnigraphdb.storage.addresses import rows_at
from omnigraphdb.storage.counters import Cost, counting
from omnigraphdb.storage.tables import Table

ROWS = 20_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    place: Path = tmp_path_factory.mktemp("addresses") / "g"
    with omnigraphdb.init(place, "node P { name: String @key  n: I64? }") as graph:
        names = [f"p{number:05}" for number in range(ROWS)]
        graph.load({"P": pa.table({"name": names, "n": list(range(ROWS))})}, mode="append")
        graph.mutate("query q() { delete P where n = 700 }")
        (entry,) = graph.snapshot()._view.snapshot.entries.values()
        return graph._engine.store.tables.open(entry.at)


@pytest.mark.parametrize(
    ("wanted", "scans"),
    [
        (range(100, 100 + ADDRESSES_MAX), 1),
        (range(100, 99 + ADDRESSES_MAX), 1),
        ([*range(1000, 3000), *range(4000, 5500), 7, 9, 19_999], 3),
        ([7, 1, 3], 1),
        (range(4000, 1000, -1), 1),
    ],
)
def test_runs_of_neighbours_are_one_read_each(table: Table, wanted: range, scans: int) -> None:
    address = {row["n"]: row["_rowaddr"] for row in table.read(["n"], row_address=True).to_pylist()}
    rows = [number for number in wanted if number in address]
    asked = pa.array(np.array([address[number] for number in rows], dtype=np.uint64))
    with counting() as costs:
        found = rows_at(table, asked, ["n"])
    assert found["n"].to_pylist() == rows
    # A run with a deleted row in it is two runs, here both too short.
    assert costs[Cost.TABLE_SCANS] == scans
