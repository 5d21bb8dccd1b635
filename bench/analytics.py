"""Graph algorithms against what they could cost: the bare loop, the answer from the start, GraphX, joins written by hand.

Parts, of which `--only` chooses some:

- `ranks`: PageRank of a projection against the bare numpy loop over the same arrays, to the same tolerance (goal: 1.5).
- `components`: projection and components after a change of one edge in a hundred, from the former answer, against both on a handle that knows
  nothing (goal: 0.2); once with deleted edges everywhere, once with deleted edges in few components.
- `inference`: a schema proposed from a file, against the rows that the proposal says it read.
- `graphx`: PageRank of a projection on Spark against GraphX, as many rounds, both from a graph that is there (goal: 2); and making these: ours finds the numbers
  of texts and weighs edges, GraphX reads numbers from a text file.
- `frames`: a query of two hops as a frame against the same joins in Spark SQL over Parquet (goal: 1).

The graph has `--nodes` nodes in components of a thousand and `--arcs` edges; that of `graphx` and `frames` has one in `--spark-part` of them, so that both end within
minutes. `--master` names a Spark master; the default is this machine. Times are those of
processors, in this process and all that it started: on a busy machine they say more than a clock.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

import omnigraphdb
from spark import METER

SCHEMA = "node Spot { code: String @key }\nedge Leads: Spot -> Spot { w: F64 }\n"
ON_SPARK = ("graphx", "frames")
PARTS = ("ranks", "components", "inference", *ON_SPARK)
GROUP = 1_000
DAMPING, TOLERANCE, ROUNDS, ROUNDS_MAX = 0.85, 1e-8, 10, 200
Ends = npt.NDArray[np.int64]
Spent = tuple[float, float]
"""Seconds that processors worked, and seconds by the clock."""


def spend(work: Callable[[], Any]) -> tuple[float, Any]:
    """What processors worked for something, and what it gave."""
    spent, found = spend_both(work)
    return spent[0], found


def spend_both(work: Callable[[], Any]) -> tuple[Spent, Any]:
    """What processors worked for something and how long it took, and what it gave."""
    before, started = METER.read(), time.perf_counter()
    found = work()
    return (METER.read() - before, time.perf_counter() - started), found


def compare(
    name: str, goal: float, ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int
) -> None:
    """Let two ways take turns and print the median of their ratios; the first round warms both up."""
    show(name, goal, [(spend_both(ours)[0], spend_both(theirs)[0]) for _ in range(rounds + 1)][1:])


def show(name: str, goal: float, pairs: list[tuple[Spent, Spent]]) -> None:
    """Print the medians of what two ways worked, and of their ratios by work and by the clock."""
    a, b = (statistics.median(one[0] for one in column) for column in zip(*pairs, strict=True))
    work, wall = (statistics.median(a[n] / b[n] for a, b in pairs) for n in (0, 1))
    print(
        f"{name:42} {a:8.2f} s {b:8.2f} s  ratio {work:.2f}, by the clock {wall:.2f}  (goal {goal:g})",
        flush=True,
    )


class Bench:
    """One graph, and what is timed on it."""

    def __init__(self, home: Path, nodes: int, arcs: int, rounds: int) -> None:
        home.mkdir()
        self.home, self.nodes, self.rounds = home, nodes, rounds
        rng = np.random.default_rng(7)
        self.sources: Ends = rng.integers(0, nodes, arcs)
        inside = rng.integers(0, min(GROUP, nodes), arcs)
        self.targets: Ends = np.minimum(self.sources // GROUP * GROUP + inside, nodes - 1)
        codes = pa.array(np.char.mod("s%07d", np.arange(nodes)))
        self.spots = pa.table({"code": codes})
        self.leads = pa.table(
            {
                "from": codes.take(pa.array(self.sources)),
                "to": codes.take(pa.array(self.targets)),
                "w": rng.random(arcs),
            }
        )
        self.uri = home / "graph"
        with omnigraphdb.init(self.uri, SCHEMA) as graph:
            graph.load(self.spots, type="Spot", mode="append", spark=False)
            graph.load(self.leads, type="Leads", mode="append", spark=False)

    # ---- one process

    def ranks(self) -> None:
        with omnigraphdb.open(self.uri) as graph:
            projection = graph.project(edges=["Leads"], spark=False)
            compare(
                "PageRank / numpy loop",
                1.5,
                lambda: projection.pagerank(tolerance=TOLERANCE),
                self.loop,
                self.rounds,
            )

    def loop(self, rounds: int = ROUNDS_MAX) -> float:
        """PageRank as one writes it by hand; the last change of the ranks."""
        outgoing = np.bincount(self.sources, minlength=self.nodes)
        stuck = outgoing == 0
        shares = 1 / np.maximum(outgoing, 1)
        ranks = np.full(self.nodes, 1 / self.nodes)
        change = 1.0
        for _ in range(rounds):
            got = np.bincount(self.targets, (ranks * shares)[self.sources], self.nodes)
            jumps = (1 - DAMPING + DAMPING * ranks[stuck].sum()) / self.nodes
            following = DAMPING * got + jumps
            change = float(np.abs(following - ranks).sum())
            ranks = following
            if change < TOLERANCE:
                break
        return change

    def components(self) -> None:
        losses = {
            "everywhere": "delete Leads where w < 0.005",
            "in one component": f'delete Spot where code < "s{GROUP // 2:07}"',
        }
        for name, loss in losses.items():
            ratios = [self.follow(round_, loss) for round_ in range(self.rounds)]
            ratio = statistics.median(ratios)
            print(f"components, losses {name:18} ratio {ratio:.2f}  (goal 0.2)", flush=True)

    def follow(self, round_: int, loss: str) -> float:
        """Components after a change of one edge in a hundred, from the former answer and from nothing."""
        copied = self.home / "changed"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(self.uri, copied)
        with omnigraphdb.open(copied) as graph:
            former = graph.project(edges=["Leads"], spark=False).wcc()
            added = self.leads.slice(round_ * 1_000, len(self.sources) // 200)
            graph.load(added, type="Leads", mode="append", spark=False)
            graph.mutate(f"query q() {{ {loss} }}")
            ours, found = spend(
                lambda: graph.project(edges=["Leads"], spark=False).wcc(start=former)
            )
        with omnigraphdb.open(copied) as fresh:
            theirs, again = spend(lambda: fresh.project(edges=["Leads"], spark=False).wcc())
        assert found.to_arrow().equals(again.to_arrow())
        return ours / theirs

    def inference(self) -> None:
        path = self.home / "leads.parquet"
        pyarrow.parquet.write_table(self.leads, path)
        worked, proposal = spend(lambda: omnigraphdb.infer_schema(path))
        rows = sum(proposal.rows_read.values())
        print(f"inference read {rows} of {len(self.sources)} rows in {worked:.2f} s", flush=True)

    # ---- Spark

    def graphx(self, spark: Any) -> None:
        path = self.home / "arcs"
        path.mkdir(exist_ok=True)
        (path / "part").write_bytes(b"".join(self._lines()))
        # The change after so many rounds is the tolerance with which as many are computed.
        tolerance = self.loop(ROUNDS) * (1 + 1e-6)
        loads: list[tuple[Spent, Spent]] = []
        ranks: list[tuple[Spent, Spent]] = []
        with omnigraphdb.open(self.uri) as graph:
            for _ in range(self.rounds + 1):
                made, projection = spend_both(partial(self._project, graph, spark))
                ranked, _ = spend_both(partial(self._rank, projection, tolerance))
                read, loaded = spend_both(lambda: load_by_graphx(spark, str(path)))
                theirs, _ = spend_both(partial(rank_by_graphx, spark, loaded))
                loads.append((made, read))
                ranks.append((ranked, theirs))
        show("projection on Spark / numbers from a text", float("nan"), loads[1:])
        show(f"PageRank on Spark / GraphX, {ROUNDS} rounds", 2, ranks[1:])

    def _project(self, graph: omnigraphdb.Graph, spark: Any) -> Any:
        return graph.project(edges=["Leads"], spark=spark)

    def _rank(self, projection: Any, tolerance: float) -> int:
        return len(projection.pagerank(tolerance=tolerance))

    def _lines(self) -> list[bytes]:
        pairs = zip(self.sources.tolist(), self.targets.tolist(), strict=True)
        return [f"{a} {b}\n".encode() for a, b in pairs]

    def frames(self, spark: Any) -> None:
        for name, table in (("spots", self.spots), ("leads", self.leads)):
            pyarrow.parquet.write_table(
                table, self.home / f"{name}.parquet", row_group_size=1 << 20
            )
            spark.read.parquet(str(self.home / f"{name}.parquet")).createOrReplaceTempView(name)
        joined = """
            select count(*) n from leads f join leads g on g.`from` = f.`to`
            join spots a on a.code = f.`from` join spots b on b.code = f.`to` join spots c on c.code = g.`to`
            where f.w < 0.1 and g.w < 0.1"""
        asked = """query q() {
            match { $a: Spot  $a $f:leads $b  $f.w < 0.1  $b $g:leads $c  $g.w < 0.1 }
            return { count($c) as n } }"""
        with omnigraphdb.open(self.uri) as graph:
            compare(
                "two hops / Spark SQL on Parquet",
                1,
                lambda: graph.query_frame(asked, spark=spark).collect(),
                lambda: spark.sql(joined).collect(),
                self.rounds,
            )


def load_by_graphx(spark: Any, path: str) -> Any:
    """A graph of GraphX, which PySpark ships, made of numbered ends in the JVM of the session."""
    jvm, context = spark._jvm, spark._jsc.sc()
    level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK()
    loader = jvm.org.apache.spark.graphx.GraphLoader
    graph = loader.edgeListFile(context, path, False, 4, level, level)
    graph.edges().count()
    graph.vertices().count()
    return graph


def rank_by_graphx(spark: Any, graph: Any) -> int:
    """PageRank by GraphX."""
    jvm = spark._jvm
    tag = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Int()
    ranks = jvm.org.apache.spark.graphx.lib.PageRank.run(graph, ROUNDS, 1 - DAMPING, tag, tag)
    return int(ranks.vertices().count())


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--arcs", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark-part", type=int, default=10)
    parser.add_argument("--master")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    chosen = parser.parse_args()
    here = [part for part in PARTS if part in chosen.only and part not in ON_SPARK]
    there = [part for part in ON_SPARK if part in chosen.only]
    with tempfile.TemporaryDirectory() as folder:
        if here:
            bench = Bench(Path(folder) / "here", chosen.nodes, chosen.arcs, chosen.rounds)
            for part in here:
                getattr(bench, part)()
        if there:
            nodes, arcs = (one // chosen.spark_part for one in (chosen.nodes, chosen.arcs))
            bench = Bench(Path(folder) / "there", nodes, arcs, chosen.rounds)
            spark = omnigraphdb.spark.session(chosen.master)
            for part in there:
                getattr(bench, part)(spark)
            spark.stop()


if __name__ == "__main__":
    main()
