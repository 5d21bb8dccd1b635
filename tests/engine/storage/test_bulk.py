"""Large sources: streams that are never held, upserts that a join could not take."""

import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.storage.store import open_store
from omnigraphdb.storage.tables import Tables
from omnigraphdb.storage.values import IndexKind, IndexSpec, Staged, TableAt
from tests.support.store_roots import in_processes
from tests.support.tables import OPERATION, PEOPLE
from tests.support.two_cores import TWO_CORES

WIDE = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("pad", pa.string())])


def wide(numbers: Iterable[int], pad: str = "x") -> pa.Table:
    names = [f"k{number:07d}" for number in numbers]
    return pa.table([names, [pad * 500] * len(names)], schema=WIDE)


def landed(tables: Tables, staged: Staged | None) -> TableAt:
    assert staged is not None
    return tables.commit_staged(staged, operation_id=OPERATION, lock=None).at


def test_an_upsert_that_exhausts_a_join_is_staged(tmp_path: Path) -> None:
    tables = open_store(tmp_path).tables
    at = landed(tables, tables.stage_append(tables.create(PEOPLE, WIDE), wide(range(1_000))))
    spec = IndexSpec(column="id", kind=IndexKind.BTREE)
    at = landed(tables, tables.stage_indices(at, [spec]))
    staged = tables.stage_merge(at, wide(range(100_000), "y"))
    assert (staged.rows_added, staged.rows_deleted) == (100_000, 1_000)
    table = tables.open(landed(tables, staged))
    assert table.count() == 100_000
    assert table.count("pad LIKE 'x%'") == 0


def test_a_large_upsert_keeps_every_row_id(tmp_path: Path) -> None:
    tables = open_store(tmp_path).tables
    count = 200_000
    at = landed(tables, tables.stage_append(tables.create(PEOPLE, WIDE), wide(range(count), "")))
    assert len(tables.open(at).fragments()) > 1
    chosen = np.random.default_rng(3).permutation(count + 1_000)[:20_000]
    at = landed(tables, tables.stage_merge(at, wide(chosen.tolist(), "z")))
    rows = tables.open(at).read(("id",), row_id=True)
    row_ids = dict(zip(rows["id"].to_pylist(), rows["_rowid"].to_pylist(), strict=True))
    assert len(set(row_ids.values())) == len(row_ids) == rows.num_rows
    for number in chosen.tolist():
        name = f"k{number:07d}"
        assert row_ids[name] == number if number < count else row_ids[name] >= count
    assert tables.open(at).count("pad != ''") == 20_000


def test_a_stream_is_never_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TWO_CORES.items():
        monkeypatch.setenv(name, value)
    (grown,) = in_processes(append_stream, [(str(tmp_path),)])
    assert grown < 250, f"{grown} MiB for a stream of 500 MiB"


def append_stream(path: str) -> int:
    tables = open_store(path).tables
    at = tables.create(PEOPLE, WIDE)
    at = landed(tables, tables.stage_append(at, wide(range(10))))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def batches() -> Iterator[pa.RecordBatch]:
        for part in range(100):
            yield wide(range(part * 10_000, (part + 1) * 10_000)).to_batches()[0]

    staged = tables.stage_append(at, pa.RecordBatchReader.from_batches(WIDE, batches()))
    assert staged.rows_added == 1_000_000
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
