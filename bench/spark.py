"""Spark with us against Spark alone, against this process alone, and against Ladybug's COPY, all in one session.

Parts, of which `--only` chooses some:

- `loads`: the same Parquet files with every key, end and value checked; beside it Spark copies them from Parquet to Parquet without looking.
- `lines`: the same rows as JSON lines, in files of rows and in one file of records; beside it Spark converts the files of rows to Parquet. Goal: 1.5.
- `layouts`: the edges in 200 files (goal: 1.3 of one file), and in one row group.
- `skew`: as many edges, all of which leave one node.
- `writes`: `df.write.format("omnigraph")` against `graph.load` of the same rows (goal: 1.5).
- `branches`: merge and diff of a branch on which a tenth of the nodes differs, against the load of that tenth (goal of the merge: 1.5); and the
  merge when another tenth of the target moved too.
- `reads`: scans and filters through `format("omnigraph")` and from Parquet.
- `merges`: a tenth of the nodes loaded again with other values.

Scales are those of `social.py`: `s` is 100 thousand nodes and a million edges, `m` a million and five million.

Every line shows the median of the time and of the work of all processors, those of Spark's processes included: on a busy machine the second says
more. `visible` is the part of a load up to its commit; what follows builds B-trees and text indexes, which a copy to Parquet has not.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from load import SCHEMA, Ladybug, write_inputs
from pyspark.sql import functions as F
from social import EDGES, NODES

import omnigraphdb
from omnigraphdb.spark import register, session

if TYPE_CHECKING:
    from omnigraphdb.api.types import Mode


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
        start, before = time.perf_counter(), METER.read()
        work()
        # The first round warms up what both sides hold: compilers, workers, files.
        if round_:
            seconds.append(time.perf_counter() - start)
            worked.append(METER.read() - before)
    spent = Spent(statistics.median(seconds), statistics.median(worked))
    print(
        f"{name:34} {spent.seconds:8.2f} s  work {spent.work:7.2f} s  {rows / spent.seconds / 1e6:6.2f} M rows/s  "
        f"best {min(seconds):.2f} s",
        flush=True,
    )
    return spent


class Meter:
    """Adds up the work of this process and of all that it started, dead ones included.

    Nobody waits for Spark's Python workers, so no parent inherits their time: a thread looks often, and keeps what it saw last of each process.
    """

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def read(self) -> float:
        """Seconds that processors worked so far."""
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                self._look()

    def _look(self) -> None:
        parents: dict[tuple[int, int], int] = {}
        ticks: dict[tuple[int, int], int] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    # The number of a dead process is given again; the moment of its start tells them apart.
                    process = int(entry.name), int(fields[19])
                    parents[process] = int(fields[1])
                    ticks[process] = int(fields[11]) + int(fields[12])
        # A process whose parent died belongs to another one now; it stays ours.
        own = {process for process in ticks if process[0] == os.getpid()} | self._ticks.keys()
        known = {number for number, _ in own & ticks.keys()}
        while more := {one for one, parent in parents.items() if parent in known} - own:
            own |= more
            known |= {number for number, _ in more}
        self._ticks |= {process: ticks[process] for process in own & ticks.keys()}


LOOK_SECONDS = 0.2
"""A process that dies takes along at most the work since the last look."""

METER = Meter()


def nothing() -> None:
    """Get ready for what needs nothing."""


PARTS = ("loads", "lines", "layouts", "skew", "writes", "branches", "reads", "merges")


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
        self.graph: omnigraphdb.Graph | None = None
        self.visible = 0.0

    def fresh(self) -> None:
        shutil.rmtree(self.uri, ignore_errors=True)
        self.graph = omnigraphdb.init(self.uri, SCHEMA)

    def load(self, source: Any, spark: Any, mode: "Mode" = "append") -> None:
        assert self.graph is not None
        start = time.perf_counter()

        def report(progress: omnigraphdb.Progress) -> None:
            if progress.phase == "commit":
                self.visible = time.perf_counter() - start

        self.graph.load(source, mode=mode, spark=spark, progress=report)

    def copy(self) -> None:
        shutil.rmtree(self.home / "copy", ignore_errors=True)
        for name, path in self.paths.items():
            self.spark.read.parquet(str(path)).write.parquet(str(self.home / "copy" / name))

    # ---- what is timed

    @property
    def files(self) -> dict[str, str]:
        """The files of all types."""
        return {name: str(path) for name, path in self.paths.items()}

    def loads(self) -> None:
        files = self.files
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

    def lines(self) -> None:
        rows = {name: self.write_lines(name) for name in self.paths}

        def convert() -> None:
            shutil.rmtree(self.home / "converted", ignore_errors=True)
            for name, path in rows.items():
                schema = self.spark.read.parquet(str(self.paths[name])).schema
                frame = self.spark.read.schema(schema).json(path)
                frame.write.parquet(str(self.home / "converted" / name))

        theirs = timed("Spark, JSON to Parquet", self.rows, convert, nothing, self.rounds)
        ours = self.time_load("ours, Spark, files of rows", rows)
        print(f"  JSON lines / Spark {ours.over(theirs)}")
        records = self.home / "all.jsonl"
        if records.stat().st_size:
            both = [self.time_load(f"ours, {who}, records", str(records), spark) for who, spark in (
                ("Spark", self.spark), ("this process", False))]  # fmt: skip
            print(f"  records / Spark {both[0].over(theirs)}   this process {both[1].over(theirs)}")

    def write_lines(self, name: str) -> str:
        """Write the rows of a type as one file of JSON lines."""
        folder = self.home / "lines" / name
        frame = self.spark.read.parquet(str(self.paths[name]))
        frame.coalesce(1).write.option("ignoreNullFields", "true").json(str(folder))
        target = self.home / "lines" / f"{name}.jsonl"
        next(folder.glob("part-*.json")).rename(target)
        return str(target)

    def time_load(self, name: str, source: Any, spark: Any = None) -> Spent:
        """Time a load of everything into a new graph, on Spark unless told otherwise."""
        spark = self.spark if spark is None else spark
        return timed(name, self.rows, lambda: self.load(source, spark), self.fresh, self.rounds)

    def layouts(self) -> None:
        edges = pyarrow.parquet.read_table(self.paths["Knows"])
        many, one = self.home / "many", self.home / "group.parquet"
        many.mkdir(exist_ok=True)
        step = -(-edges.num_rows // 200)
        for number in range(200):
            part = edges.slice(number * step, step)
            pyarrow.parquet.write_table(part, many / f"{number:03}.parquet")
        pyarrow.parquet.write_table(edges, one, row_group_size=edges.num_rows)
        small = [str(path) for path in sorted(many.glob("*.parquet"))]
        whole = self.time_load("ours, Spark, one file", self.files)
        cut = self.time_load("ours, Spark, 200 files", self.files | {"Knows": small})
        group = self.time_load("ours, Spark, one row group", self.files | {"Knows": str(one)})
        print(f"  200 files / one {cut.over(whole)}   one row group / one file {group.over(whole)}")

    def skew(self) -> None:
        edges = pyarrow.parquet.read_table(self.paths["Knows"])
        hub = pa.repeat(edges["src"][0], edges.num_rows)
        path = self.home / "hub.parquet"
        pyarrow.parquet.write_table(
            edges.set_column(edges.column_names.index("src"), "src", hub), path
        )
        even = self.time_load("ours, Spark, even", self.files)
        one = self.time_load("ours, Spark, one hub", self.files | {"Knows": str(path)})
        print(f"  hub / even {one.over(even)}")

    def writes(self) -> None:
        nodes = {name: self.files[name] for name in NODES}
        edges, count = self.files["Knows"], self.counts["Knows"]

        def ready() -> None:
            self.fresh()
            self.load(nodes, self.spark)

        def write() -> None:
            writer = self.spark.read.parquet(edges).write.format("omnigraph").mode("append")
            writer.option("type", "Knows").save(str(self.uri))

        loaded = timed(
            "ours, Spark, load of edges",
            count,
            lambda: self.load({"Knows": edges}, self.spark),
            ready,
            self.rounds,
        )
        written = timed("ours, df.write of edges", count, write, ready, self.rounds)
        print(f"  df.write / load {written.over(loaded)}")

    def branches(self) -> None:
        tenth, rows = self.write_tenth(), sum(self.counts[name] // 10 for name in NODES)
        other = self.write_tenth(1)

        def ready() -> None:
            self.fresh()
            self.load(self.files, self.spark)

        def ready_branch() -> None:
            ready()
            assert self.graph is not None
            self.graph.branch_create("draft")
            self.graph.load(tenth, mode="merge", branch="draft", spark=self.spark)

        def ready_both() -> None:
            ready_branch()
            self.load(other, self.spark, "merge")

        def merge() -> None:
            assert self.graph is not None
            self.graph.merge("draft", spark=self.spark)

        def diff() -> None:
            assert self.graph is not None
            self.graph.diff("main", "draft", spark=self.spark, out=str(self.home / "diff.jsonl"))

        loaded = timed(
            "ours, Spark, load of a tenth",
            rows,
            lambda: self.load(tenth, self.spark, "merge"),
            ready,
            self.rounds,
        )
        merged = timed("ours, Spark, branch merge", rows, merge, ready_branch, self.rounds)
        both = timed("ours, Spark, of two sides", rows, merge, ready_both, self.rounds)
        compared = timed("ours, Spark, diff to a file", rows, diff, ready_branch, self.rounds)
        print(
            f"  merge / load {merged.over(loaded)}   of two sides {both.over(loaded)}   "
            f"diff / load {compared.over(loaded)}"
        )

    def reads(self) -> None:
        self.fresh()
        self.load(self.files, self.spark)
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

    def write_tenth(self, number: int = 0) -> dict[str, str]:
        """Write one tenth of the nodes with other values."""
        tenth = {}
        for name in NODES:
            table = pyarrow.parquet.read_table(self.paths[name])
            size = table.num_rows // 10
            part = table.slice(number * size, size)
            if name == "Person":
                part = part.set_column(
                    part.column_names.index("age"), "age", pc.add(part["age"], 1)
                )
            tenth[name] = str(self.home / f"tenth-{number}-{name}.parquet")
            pyarrow.parquet.write_table(part, tenth[name])
        return tenth

    def merges(self) -> None:
        self.fresh()
        self.load(self.files, self.spark)
        tenth = self.write_tenth()
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
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    given = parser.parse_args()
    spark = session()
    register(spark)
    for scale in given.scale:
        with tempfile.TemporaryDirectory() as home:
            bench = Bench(Path(home), scale, spark, given.rounds)
            print(f"== {scale}: {bench.rows} rows in {len(NODES) + len(EDGES)} tables")
            for part in given.only:
                getattr(bench, part)()
    spark.stop()


if __name__ == "__main__":
    main()
