"""Many writers of one branch against one: commits per second, waits, and who is left behind; ratios of one run.

One and many writers take turns on graphs of their own, so that a machine that slows down slows both. Each writer is a
thread of one process with one handle; a round begins on a fresh graph, so that none grows old. The last rounds are on an
object store that takes 30 ms for each request, the server of the tests; there requests are counted too.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.s3 import S3Server, start_s3, stop_s3

import omnigraphdb

SCHEMA = "node Person { name: String @key  age: I64? }"
ADD = "query add($name: String) { insert Person { name: $name, age: 0 } }"
SET = "query put($name: String, $age: I64) { update Person set { age: $age } where name = $name }"
Write = Callable[[omnigraphdb.Graph, int, int], object]


def insert(graph: omnigraphdb.Graph, writer: int, number: int) -> object:
    """A row of its own."""
    return graph.mutate(ADD, {"name": f"w{writer}-{number}"})


def update(graph: omnigraphdb.Graph, writer: int, number: int) -> object:
    """The same row again and again."""
    return graph.mutate(SET, {"name": f"u{writer}", "age": number})


@dataclass(frozen=True)
class GraphLocation:
    """Where graphs are made, and how their store is reached."""

    uri: str
    options: Mapping[str, str] | None = None
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def make(self) -> omnigraphdb.Graph:
        """Make a graph beside those before it."""
        uri = f"{self.uri}/g{next(self.numbers)}"
        return omnigraphdb.init(
            uri, SCHEMA, storage_options=self.options, config={"maintenance": "off"}
        )


def run(home: GraphLocation, writers: Sequence[Write], seconds: float) -> list[list[float]]:
    """Let writers write for a while; give the seconds that each write of each writer took."""
    with home.make() as graph:
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
    print(f"    {len(writers):2} writers, groups of {_mean_size(sizes):.1f}")
    return waits


def _mean_size(groups: list[str]) -> float:
    return len(groups) / len(set(groups)) if groups else 1.0


def rate(waits: list[list[float]], seconds: float) -> float:
    """Commits per second."""
    return sum(map(len, waits)) / seconds


def compare(home: GraphLocation, pairs: int, seconds: float) -> None:
    """Print how many commits eight writers make for each of one, and what each commit takes of the processor.

    On a busy machine the second is what can be compared.
    """
    rates, costs = [], []
    for _ in range(pairs):
        (one, one_cost), (eight, eight_cost) = (measure(home, n, seconds) for n in (1, 8))
        rates.append(eight / one)
        costs.append(eight_cost / one_cost)
    for name, ratios in (("commits/s", rates), ("processor time of a commit", costs)):
        shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        print(f"8 writers to one, {name}: {statistics.median(ratios):.2f} ({shown})")


def measure(home: GraphLocation, writers: int, seconds: float) -> tuple[float, float]:
    """Commits per second of so many inserters, and the processor's seconds for each, with the making of their graph."""
    began = time.process_time()
    waits = run(home, [insert] * writers, seconds)
    return rate(waits, seconds), (time.process_time() - began) / sum(map(len, waits))


@contextmanager
def distant_store(latency: float) -> Iterator[S3Server]:
    """An object store whose every request takes its time."""
    process, server = start_s3()
    try:
        server.control("behave", latency=latency)
        yield server
    finally:
        stop_s3(process)


def count_requests(server: S3Server, home: GraphLocation, seconds: float) -> None:
    """Print what one write of eight writers asks; the graph of the round is made meanwhile and counts too."""
    server.control("reset")
    written = sum(map(len, run(home, [insert] * 8, seconds)))
    made = len(server.control("log"))
    server.control("reset")
    home.make().close()
    print(
        f"requests for each write of 8 writers: {(made - len(server.control('log'))) / written:.2f}"
    )


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each sample")
    parser.add_argument("--latency", type=float, default=0.03, help="of each request, in seconds")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home, seconds = GraphLocation(place), given.seconds
        run(home, [insert], seconds)
        compare(home, given.pairs, seconds)
        waits = sorted(one for each in run(home, [insert] * 16, seconds * 2) for one in each)
        p50, p99 = (waits[int(len(waits) * part)] for part in (0.5, 0.99))
        print(f"16 writers, p99 to p50: {p99 / p50:.2f} ({p50 * 1000:.0f} ms, {p99 * 1000:.0f} ms)")
        mixed = run(home, [update] * 16 + [insert] * 4, seconds * 2)
        counts = [len(each) for each in mixed[:16]]
        fair = sum(map(len, mixed)) / len(mixed)
        print(
            f"16 updaters beside 4 inserters, least share of the fair one: {min(counts) / fair:.2f}"
        )
    with distant_store(given.latency) as server:
        bucket = server.new_bucket()
        distant = GraphLocation(bucket.uri, bucket.storage_options)
        print(f"with {given.latency * 1000:.0f} ms for each request:")
        compare(distant, given.pairs, seconds * 2)
        count_requests(server, distant, seconds * 2)


if __name__ == "__main__":
    main()
