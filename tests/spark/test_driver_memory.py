"""The driver of Spark holds receipts: its memory does not grow with the rows of a load, a merge, a diff, the feed or an export."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.xdist_group("spark")]

FEW, MANY = 200_000, 2_000_000
GROWTH_MIB_MAX = 60
"""Receipts and the file names of changes grow with the number of tasks; rows would take hundreds of MiB."""


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


def run_driver(home: Path, rows: int) -> dict[str, int]:
    home.mkdir()
    write_rows(home / "few.parquet", 10 * MANY, 1_000, 1)
    write_rows(home / "rows.parquet", 0, rows, 1)
    write_rows(home / "rows2.parquet", 0, rows // 2, 2)
    command = [sys.executable, "-m", "tests.support.driver_memory", str(home), "local[2,4]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_driver_holds_no_rows(tmp_path: Path) -> None:
    few, many = (run_driver(tmp_path / str(rows), rows) for rows in (FEW, MANY))
    print(few, many)
    grown = {verb: many[verb] - few[verb] for verb in few}
    assert not {verb: more for verb, more in grown.items() if more > GROWTH_MIB_MAX}, (few, many)
