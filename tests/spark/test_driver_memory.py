"""The driver of Spark holds receipts: its memory does not grow with the rows of a load, an upsert, a merge, a diff, the feed
or an export."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from tests.support.spark_cluster import cluster

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.xdist_group("spark")]

FEW, MANY = 200_000, 2_000_000
GROWTH_MIB_MAX = 60
"""Receipts and the file names of changes grow with the number of tasks; rows would take hundreds of MiB."""

PYTHON_MIB_MAX = 400
"""What a small driver has beside 1 GiB of Java."""


def write_rows(path: Path, start: int, count: int, age: int) -> None:
    """Write rows some at a time, so that a file has several row groups."""
    names = ("name", "age", "note")
    schema = pa.schema(list(zip(names, (pa.string(), pa.int32(), pa.string()), strict=True)))
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(start, start + count, 100_000):
            numbers = range(first, min(first + 100_000, start + count))
            ages = np.full(len(numbers), age, np.int32)
            columns = [[f"p{n:08d}" for n in numbers], ages, [f"a note about {n}" for n in numbers]]
            writer.write_table(pa.table(columns, schema=schema))


def write_edges(path: Path, count: int) -> None:
    """Write edges between the rows, each to its neighbour."""
    numbers = np.arange(count)
    ends = {"src": numbers, "dst": (numbers + 1) % count}
    columns = {side: [f"p{n:08d}" for n in ids.tolist()] for side, ids in ends.items()}
    pq.write_table(pa.table(columns), path, row_group_size=100_000)


def run_driver(home: Path, rows: int, master: str) -> dict[str, int]:
    """Run every verb on a session of a driver with 1 GiB of Java."""
    home.mkdir()
    write_rows(home / "few.parquet", 10 * MANY, 1_000, 1)
    write_rows(home / "rows.parquet", 0, rows, 1)
    write_rows(home / "rows2.parquet", 0, rows // 2, 2)
    write_edges(home / "edges.parquet", rows)
    command = [sys.executable, "-m", "tests.support.driver_memory", str(home), master]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_driver_holds_no_rows(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as running:
        few, many = (run_driver(tmp_path / str(rows), rows, running.master) for rows in (FEW, MANY))
    assert not {verb for verb in few if many[verb] - few[verb] > GROWTH_MIB_MAX}, (few, many)
    assert many["all"] < PYTHON_MIB_MAX, (few, many)
