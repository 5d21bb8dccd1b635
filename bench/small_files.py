"""Many small files against one: the same rows of one type in 200 files and in a single one, in each format.

Three ways: in memory, in steps of this process (`--steps`), and on Spark (`--spark`). Small inputs are read together, so that
a file costs what opening it costs.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from support.paired import compare

import omnigraphdb

SCHEMA = "node Person { name: String @key  age: I32?  city: String? }"
NEVER = 1 << 60
FORMATS = ("jsonl", "csv", "parquet")


def people(first: int, count: int) -> pa.Table:
    """Rows with keys that ascend."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "name": [f"p{n:08}" for n in numbers],
            "age": pa.array([n % 100 for n in numbers], pa.int32()),
            "city": [f"city {n % 500}" for n in numbers],
        }
    )


def write_file(path: Path, rows: pa.Table) -> None:
    """Write rows in the format that a name ends with."""
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
        case ".csv":
            pyarrow.csv.write_csv(rows, path)
        case _:
            pyarrow.parquet.write_table(rows, path)


class Loading:
    """Load some files into a new graph."""

    def __init__(self, home: Path, paths: Sequence[Path], *, steps: bool, spark: Any) -> None:
        self._place, self._paths, self._spark = home / "graph", list(paths), spark
        bound = 0 if steps else NEVER
        self._config = {"small_work_bytes": bound, "small_work_rows": bound}

    def ready(self, n: int) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        self._graph = omnigraphdb.init(self._place, SCHEMA, config=self._config)

    def run(self, n: int) -> None:
        self._graph.load({"Person": self._paths}, mode="append", spark=self._spark)


def main() -> None:
    """Compare, and print one line per format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000, help="rows of a file")
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="count what all threads worked")
    given = parser.parse_args()
    spark: Any = False
    if given.spark:
        from omnigraphdb.spark import session

        spark = session()
    clock = time.process_time if given.cpu else time.perf_counter
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        for name in given.formats:
            one, many = home / f"one.{name}", [home / f"{n:04}.{name}" for n in range(given.files)]
            write_file(one, people(0, given.files * given.rows))
            for number, path in enumerate(many):
                write_file(path, people(number * given.rows, given.rows))
            arms = [Loading(home, paths, steps=given.steps, spark=spark) for paths in (many, [one])]
            label = f"{name}: {given.files} files / one"
            print(compare(label, *arms, pairs=given.pairs, clock=clock, repeats_max=1), flush=True)


if __name__ == "__main__":
    main()
