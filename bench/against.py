"""This tree against another one: the same work through the public API, by processes that take turns.

    python bench/against.py OTHER_TREE [--rounds N] [--only NAME…] [--spark]

A round runs one process of this tree and two of the other. The ratio of the other to itself is the band of what is
noise; this tree is told apart from the other only where its ratio lies outside that band. What counts is processor
time: the clock is printed beside it, for quiet machines.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraphdb import Graph

SCHEMA = """
node Person { name: String @key  age: I64?  city: String? @index }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City
"""
PEOPLE = 20_000
BULK = 200_000
REPEATS = 15
QUERIES = 20
ADD = "query a($n: String) { insert Person { name: $n age: 1 } }"
JOIN = (
    'query j($n: String) { insert Person { name: $n } insert Knows { from: $n to: "p00000001" } }'
)
CHANGE = 'query c($a: I64) { update Person set { age: $a } where name = "p00000005" }'
POINT = "query p($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
HOPS = (
    "query h($n: String) { match { $p: Person { name: $n }  $p knows $q  $q knows $r } "
    "return { $r.name } }"
)
SCAN = "query s() { match { $p: Person  $p.age > 19000 } return { $p.name } }"
COUNT = "query n() { match { $p: Person  $p livesIn $c } return { $c.name  count($p) as n } }"

Sample = tuple[float, float]
"""Processor seconds and seconds of the clock."""


def main() -> None:
    """Compare two trees, or do the work of one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="the root of the other tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--spark", action="store_true", help="a load by Spark as well")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        print(json.dumps({name: list(found) for name, found in measure(given.only, given.spark)}))
        return
    if given.other is None:
        parser.error("name the root of the other tree")
    report(compare(given))


def compare(given: argparse.Namespace) -> dict[str, dict[str, list[Sample]]]:
    """Samples by tree and name; `again` is the other tree once more."""
    here = Path(__file__).resolve().parent.parent
    trees = {"this": here, "other": given.other.resolve(), "again": given.other.resolve()}
    found: dict[str, dict[str, list[Sample]]] = {name: {} for name in trees}
    for number in range(given.rounds):
        names = list(trees)
        for name in names[number % 3 :] + names[: number % 3]:
            for case, sample in work_of(trees[name], given).items():
                found[name].setdefault(case, []).append((sample[0], sample[1]))
    return found


def work_of(tree: Path, given: argparse.Namespace) -> Mapping[str, Sequence[float]]:
    """Run all cases in a process of one tree."""
    command = [sys.executable, __file__, "--work", "--only", *given.only]
    done = subprocess.run(
        [*command, "--spark"] if given.spark else command,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        check=True,
        stdout=subprocess.PIPE,
    )
    found: Mapping[str, Sequence[float]] = json.loads(done.stdout)
    return found


def report(found: Mapping[str, Mapping[str, Sequence[Sample]]]) -> None:
    """Print the ratios: processor time, its band, and the clock."""
    print(f"{'case':24} {'this ms':>9} {'this/other':>11} {'other/other':>12} {'clock':>7}")
    for case, samples in found["this"].items():
        this, other, again = (
            [median(sample[which] for sample in part) for which in (0, 1)]
            for part in (samples, found["other"][case], found["again"][case])
        )
        base = (other[0] + again[0]) / 2
        print(
            f"{case:24} {this[0] * 1000:9.2f} {this[0] / base:11.2f} {other[0] / again[0]:12.2f}"
            f" {2 * this[1] / (other[1] + again[1]):7.2f}"
        )


# ---- one process


def measure(only: Sequence[str], on_spark: bool) -> Iterator[tuple[str, Sample]]:
    """The median of every case in this process."""
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases(Path(folder), on_spark):
            if only and name not in only:
                continue
            samples = [take(case, number) for number in range(repeats_of(name))]
            kept = samples[1:] if len(samples) > 1 else samples
            yield name, (median(s[0] for s in kept), median(s[1] for s in kept))


def repeats_of(name: str) -> int:
    """A case with a large input is its own repetition."""
    return 2 if name.startswith(("load of", "cold")) else REPEATS


def take(case: Callable[[int], Callable[[], object]], number: int) -> Sample:
    """Prepare outside the measurement, then measure."""
    do = case(number)
    started, clock = processor_seconds(), time.perf_counter()
    do()
    return processor_seconds() - started, time.perf_counter() - clock


def processor_seconds() -> float:
    """What this process worked, all threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cases(
    folder: Path, on_spark: bool
) -> Iterator[tuple[str, Callable[[int], Callable[[], object]]]]:
    """Every case: given the number of the sample, prepares it and gives what is measured."""
    import omnigraphdb

    graph = omnigraphdb.init(folder / "g", SCHEMA)
    graph.load(tables(0, PEOPLE), mode="append")
    branches = 0

    def branch(*, both: bool, rows: int = 100) -> Callable[[], object]:
        nonlocal branches
        branches += 1
        name, first = f"b{branches}", 1_000_000 * branches
        graph.branch_create(name)
        graph.load({"Person": people(first, rows)}, mode="append", branch=name)
        if both:
            graph.load({"Person": people(first + rows, 3)}, mode="append")
        return lambda: graph.merge(name)

    yield "insert a node", lambda n: lambda: graph.mutate(ADD, {"n": f"new{n}"})
    yield "insert node and edge", lambda n: lambda: graph.mutate(JOIN, {"n": f"joined{n}"})
    yield "update a node", lambda n: lambda: graph.mutate(CHANGE, {"a": n})
    yield "point query", lambda n: lambda: ask(graph, POINT, {"n": f"p{n:08d}"})
    yield "two hops", lambda n: lambda: ask(graph, HOPS, {"n": f"p{n:08d}"})
    yield "filtered scan", lambda n: lambda: ask(graph, SCAN, {})
    yield "grouped count", lambda n: lambda: ask(graph, COUNT, {})
    yield "fast-forward merge", lambda n: branch(both=False)
    yield "three-way merge", lambda n: branch(both=True)
    yield "load of 200,000", lambda n: lambda: load_into(folder / f"l{n}", None)
    yield (
        "upsert of 1,000",
        lambda n: lambda: graph.load({"Person": people(50 * n, 1_000)}, mode="merge"),
    )
    yield "export", lambda n: lambda: sum(len(line) for line in graph.export_lines())
    yield "cold open and query", lambda n: lambda: ask_cold(folder / "g")
    if on_spark:
        yield "load of 200,000, Spark", lambda n: lambda: load_into(folder / f"s{n}", True)


def ask(graph: "Graph", text: str, params: Mapping[str, object]) -> None:
    """Ask often enough to be measured."""
    for _ in range(QUERIES):
        assert graph.query(text, params).rows


def load_into(path: Path, spark: bool | None) -> None:
    """Load many rows into a new graph."""
    import omnigraphdb

    with omnigraphdb.init(path, SCHEMA) as graph:
        graph.load(tables(0, BULK), mode="append", spark=spark)


def ask_cold(path: Path) -> None:
    """Open a graph and ask for one row."""
    import omnigraphdb

    with omnigraphdb.open(path) as graph:
        assert graph.query(POINT, {"n": "p00000007"}).rows


def tables(first: int, count: int) -> "dict[str, pa.Table]":
    """People, who they know and where they live."""
    import pyarrow as pa

    names = [f"p{number:08d}" for number in range(first, first + count)]
    return {
        "Person": people(first, count),
        "City": pa.table({"name": [f"c{number}" for number in range(100)]}),
        "Knows": pa.table({"from": names[:-7], "to": names[7:]}),
        "LivesIn": pa.table({"from": names, "to": [f"c{n % 100}" for n in range(count)]}),
    }


def people(first: int, count: int) -> "pa.Table":
    """So many people with consecutive names."""
    import pyarrow as pa

    return pa.table(
        {
            "name": [f"p{number:08d}" for number in range(first, first + count)],
            "age": pa.array(range(count), pa.int64()),
            "city": [f"c{number % 100}" for number in range(count)],
        }
    )


if __name__ == "__main__":
    main()
