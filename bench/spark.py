"""Spark with us against Spark alone, against this process alone, and against Ladybug's COPY, all in one session.

`load` loads the same Parquet files with every key, end and value checked; beside it Spark copies them from Parquet to
Parquet without looking. `lines` loads the same rows as JSON lines. `scan` and `filter` read through
`format("omnigraph")` and from Parquet. `merge` loads a tenth of the rows again with other values. Scales are those of
`social.py`: `s` is 100 thousand nodes and a million edges, `m` a million and five million.

Every line shows the median of the time and of the work of all processors, those of Spark's processes included: on a busy machine the second says
more. `visible` is the part of a load up to its commit; what follows builds B-trees and text indexes, which a copy to Parquet has not.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet
from load import SCHEMA, Ladybug, write_inputs
from pyspark.sql import functions as F
from social import EDGES, NODES

import omnigraph
from omnigraph.spark import register, session

if TYPE_CHECKING:
    from omnigraph.api.types import Mode


@dataclass(frozen=True, slots=True)
class Spent:
    """What something took: time, and work of all processors."""

    seconds: float
    work: float

    def over(self, other: "Spent") -> str:
        """Both as parts of another."""
        return f"{self.seconds / other.seconds:.2f} (work {self.work / other.work:.2f})"


def timed(
    name: str, rows: int, work: Callable[[], Any], ready: Callable[[], Any], rounds: int
) -> Spent:
    """The median of some rounds, printed with rows per second."""
    seconds, worked = [], []
    for round_ in range(rounds + 1):
        ready()
        start, before = time.perf_counter(), processors()
        work()
        # The first round warms up what both sides hold: compilers, workers, files.
        if round_:
            seconds.append(time.perf_counter() - start)
            worked.append(processors() - before)
    spent = Spent(statistics.median(seconds), statistics.median(worked))
    print(
        f"{name:34} {spent.seconds:8.2f} s  work {spent.work:7.2f} s  {rows / spent.seconds / 1e6:6.2f} M rows/s  "
        f"best {min(seconds):.2f} s",
        flush=True,
    )
    return spent


def processors() -> float:
    """Seconds that processors worked for this process and all that it started."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                ticks[int(entry.name)] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(ticks.get(pid, 0) for pid in own) / os.sysconf("SC_CLK_TCK")


def nothing() -> None:
    """Get ready for what needs nothing."""


class Bench:
    """One scale: its files, its graph, and what is timed on them."""

    def __init__(self, home: Path, scale: str, spark: Any, rounds: int) -> None:
        self.home, self.spark, self.rounds = home, spark, rounds
        self.paths: Mapping[str, Path] = write_inputs(home, scale)
        self.counts = {
            name: pyarrow.parquet.read_metadata(path).num_rows for name, path in self.paths.items()
        }
        self.rows = sum(self.counts.values())
        self.uri = home / "graph"
        self.graph: omnigraph.Graph | None = None
        self.visible = 0.0

    def fresh(self) -> None:
        shutil.rmtree(self.uri, ignore_errors=True)
        self.graph = omnigraph.init(self.uri, SCHEMA)

    def load(self, source: Any, spark: Any, mode: "Mode" = "append") -> None:
        assert self.graph is not None
        start = time.perf_counter()

        def report(progress: omnigraph.Progress) -> None:
            if progress.phase == "commit":
                self.visible = time.perf_counter() - start

        self.graph.load(source, mode=mode, spark=spark, progress=report)

    def copy(self) -> None:
        shutil.rmtree(self.home / "copy", ignore_errors=True)
        for name, path in self.paths.items():
            self.spark.read.parquet(str(path)).write.parquet(str(self.home / "copy" / name))

    # ---- what is timed

    def loads(self, lines: bool) -> None:
        files = {name: str(path) for name, path in self.paths.items()}
        copied = timed("Spark, Parquet to Parquet", self.rows, self.copy, nothing, self.rounds)
        bug = Ladybug(self.home, self.paths)
        other = timed(
            "Ladybug, COPY", self.rows, lambda: bug.run(1), lambda: bug.ready(1), self.rounds
        )
        here = timed(
            "ours, this process",
            self.rows,
            lambda: self.load(files, False),
            self.fresh,
            self.rounds,
        )
        ours = timed(
            "ours, Spark", self.rows, lambda: self.load(files, self.spark), self.fresh, self.rounds
        )
        print(
            f"  Spark / copy {ours.over(copied)}   visible / copy {self.visible / copied.seconds:.2f}   "
            f"Spark / Ladybug {ours.over(other)}   this process / Ladybug {here.over(other)}"
        )
        if lines:
            path = str(self.home / "all.jsonl")
            timed(
                "ours, Spark, JSON lines",
                self.rows,
                lambda: self.load(path, self.spark),
                self.fresh,
                self.rounds,
            )
            timed(
                "ours, this process, JSON lines",
                self.rows,
                lambda: self.load(path, False),
                self.fresh,
                self.rounds,
            )
            self.fresh()
            self.load(files, self.spark)

    def reads(self) -> None:
        tables = {"Person": F.max("age"), "Post": F.max("length"), "Knows": F.max("since")}
        rows = sum(self.counts[name] for name in tables)

        def graph(name: str, **options: str) -> Any:
            reader = self.spark.read.format("omnigraph").option("type", name).options(**options)
            return reader.load(str(self.uri))

        def files(name: str) -> Any:
            return self.spark.read.parquet(str(self.paths[name]))

        def scan(open_: Callable[[str], Any]) -> None:
            for name, most in tables.items():
                frame = open_(name)
                frame.agg(
                    most, F.count("*"), *(F.count(column) for column in frame.columns)
                ).collect()

        theirs = timed("Spark, Parquet scan", rows, lambda: scan(files), nothing, self.rounds)
        ours = timed("ours, scan", rows, lambda: scan(graph), nothing, self.rounds)
        print(f"  scan {ours.over(theirs)}")
        theirs = timed(
            "Spark, Parquet filtered",
            self.counts["Person"],
            lambda: files("Person").where("age = 30").count(),
            nothing,
            self.rounds,
        )
        ours = timed(
            "ours, filtered",
            self.counts["Person"],
            lambda: graph("Person", filter="$row.age = 30", columns="key").count(),
            nothing,
            self.rounds,
        )
        print(f"  filter {ours.over(theirs)}")

    def merges(self) -> None:
        tenth = {}
        for name in NODES:
            table = pyarrow.parquet.read_table(self.paths[name])
            part = table.slice(0, table.num_rows // 10)
            if name == "Person":
                part = part.set_column(
                    part.column_names.index("age"), "age", pc.add(part["age"], 1)
                )
            tenth[name] = str(self.home / f"tenth-{name}.parquet")
            pyarrow.parquet.write_table(part, tenth[name])
        rows = sum(self.counts[name] // 10 for name in NODES)
        timed(
            "ours, Spark, merge of a tenth",
            rows,
            lambda: self.load(tenth, self.spark, "merge"),
            nothing,
            self.rounds,
        )
        timed(
            "ours, this process, same",
            rows,
            lambda: self.load(tenth, False, "merge"),
            nothing,
            self.rounds,
        )


def main() -> None:
    """Time everything at every scale asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", nargs="*", choices=("xs", "s", "m"), default=["xs", "s"])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    spark = session()
    register(spark)
    for scale in given.scale:
        with tempfile.TemporaryDirectory() as home:
            bench = Bench(Path(home), scale, spark, given.rounds)
            print(f"== {scale}: {bench.rows} rows in {len(NODES) + len(EDGES)} tables")
            bench.loads(lines=scale != "m")
            bench.reads()
            bench.merges()
    spark.stop()


if __name__ == "__main__":
    main()
