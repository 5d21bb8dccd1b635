"""Many writers of one branch against one: commits per second, waits, and who is left behind; ratios of one run.

One and many writers take turns on graphs of their own, so that a machine that slows down slows both. Each writer is a
thread of one process with one handle; a round begins on a fresh graph, so that none grows old.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import omnigraph

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($name: String) { insert Person { name: $name, age: 0 } }"
SET = "query put($name: String, $age: I64) { update Person set { age: $age } where name = $name }"
Write = Callable[[omnigraph.Graph, int, int], object]


def insert(graph: omnigraph.Graph, writer: int, number: int) -> object:
    """A row of its own."""
    return graph.mutate(ADD, {"name": f"w{writer}-{number}"})


def update(graph: omnigraph.Graph, writer: int, number: int) -> object:
    """The same row again and again."""
    return graph.mutate(SET, {"name": f"u{writer}", "age": number})


def run(home: Path, writers: Sequence[Write], seconds: float) -> list[list[float]]:
    """Let writers write for a while; give the seconds that each write of each writer took."""
    with tempfile.TemporaryDirectory(dir=home) as place:
        graph = omnigraph.init(f"{place}/g", SCHEMA)
        rows = [{"type": "Person", "data": {"name": f"u{n}", "age": 0}} for n in range(64)]
        graph.load(rows, mode="append")
        waits: list[list[float]] = [[] for _ in writers]
        start, end = threading.Barrier(len(writers)), time.perf_counter() + seconds

        def work(writer: int) -> None:
            start.wait()
            number = 0
            while (began := time.perf_counter()) < end:
                number += 1
                writers[writer](graph, writer, number)
                waits[writer].append(time.perf_counter() - began)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(writers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        sizes = [commit.group for commit in graph.commits() if commit.group is not None]
        graph.close()
    print(f"    {len(writers):2} writers, groups of {_mean_size(sizes):.1f}")
    return waits


def _mean_size(groups: list[str]) -> float:
    return len(groups) / len(set(groups)) if groups else 1.0


def rate(waits: list[list[float]], seconds: float) -> float:
    """Commits per second."""
    return sum(map(len, waits)) / seconds


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each sample")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home, seconds = Path(place), given.seconds
        run(home, [insert], seconds)
        ratios = []
        for _ in range(given.pairs):
            one, eight = (rate(run(home, [insert] * n, seconds), seconds) for n in (1, 8))
            ratios.append(eight / one)
        print(f"8 writers to one, commits/s: {statistics.median(ratios):.2f} {sorted(ratios)}")
        waits = sorted(one for each in run(home, [insert] * 16, seconds * 2) for one in each)
        p50, p99 = (waits[int(len(waits) * part)] for part in (0.5, 0.99))
        print(f"16 writers, p99 to p50: {p99 / p50:.2f} ({p50 * 1000:.0f} ms, {p99 * 1000:.0f} ms)")
        mixed = run(home, [update] * 16 + [insert] * 4, seconds * 2)
        counts = [len(each) for each in mixed[:16]]
        fair = sum(map(len, mixed)) / len(mixed)
        print(
            f"16 updaters beside 4 inserters, least share of the fair one: {min(counts) / fair:.2f}"
        )


if __name__ == "__main__":
    main()
