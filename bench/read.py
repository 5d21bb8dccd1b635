"""Reading, against Ladybug and DuckDB where they are installed: same graph, same answers, taking turns.

    python bench/read.py [--scale xs|s|m] [--pairs N] [--cold ROUNDS] [--people N] [--cpu] [--only NAME…]

Every case checks that all arms give the same answers before it is timed. What counts is the ratio of two arms that
took turns in one process; the ratio of an arm to itself shows what of it is noise. Cold is the first answer of a
handle that was just opened, warm is what follows. Paths are in `paths.py`.
"""

import argparse
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from social import SCALES, social_graph
from support.forms import run_forms
from support.paired import Clock, Comparison, compare
from support.questions import CASES, Case
from support.rivals import Ask, DuckDb, Ladybug, Ours, Rival
from support.searches import run_searches

import omnigraphdb
from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read.columns.entities import Entities
from omnigraphdb.engine.read.graph.adjacency import NeighbourUnit
from omnigraphdb.engine.read.graph.topology import Topology
from omnigraphdb.ids import TableKey

ASKED_WARM = 600
"""Questions after which everything that is worth holding is held."""


@dataclass(frozen=True, slots=True)
class AskArm:
    """Asks one question about everyone in turn."""

    ask: Ask
    keys: Sequence[str]

    def ready(self, n: int) -> None:
        pass

    def run(self, n: int) -> None:
        for _ in range(n):
            for key in self.keys:
                self.ask(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the report."""

    case: Case
    rival: str
    each: int
    found: Comparison

    def __str__(self) -> str:
        goal = self.case.goals[self.rival]
        met = "" if self.found.ratio.median <= goal else f"  above {goal}"
        return (
            f"{self.case.name:28} {self.rival:8} ours {self.found.ours_ms / self.each:9.3f} ms  theirs "
            f"{self.found.raw_ms / self.each:9.3f} ms  ratio {self.found.ratio}  A/A {self.found.noise}{met}"
        )


# ---- cold and warm


def run_cold(
    cases: Sequence[Case], arms: Sequence[Rival], keys: Sequence[str], rounds: int
) -> None:
    """The first answer of a handle that was just opened, with opening it; the files are in the page cache."""
    print("cold: open and first answer, ms, median of", rounds)
    for case in cases:
        shown = []
        for arm in arms:
            taken = [_first_answer(arm, case, keys[number]) for number in range(rounds)]
            shown.append(f"{arm.name} {1000 * statistics.median(taken):8.1f}")
        print(f"  {case.name:28} {'  '.join(shown)}", flush=True)


def _first_answer(arm: Rival, case: Case, key: str) -> float:
    start = time.perf_counter()
    opened = arm.open()
    arm.asking(opened, case)(key)
    taken = time.perf_counter() - start
    arm.close(opened)
    return taken


def run_warm(
    cases: Sequence[Case], arms: Sequence[Rival], opened: Sequence[Any], keys: Sequence[str],
    pairs: int, clock: Clock,
) -> None:  # fmt: skip
    """Ratios of arms that take turns, once nothing more is brought into memory."""
    print("warm")
    for case in cases:
        asked = keys if case.personal else keys[:1]
        asks = {arm.name: arm.asking(one, case) for arm, one in zip(arms, opened, strict=True)}
        warm(asks["ours"], asked, (ASKED_WARM if case.personal else ASKED_WARM // 3) // len(asked))
        agree(case.name, asks, asked)
        for name, theirs in asks.items():
            if name == "ours":
                continue
            found = compare(
                case.name,
                AskArm(asks["ours"], asked),
                AskArm(theirs, asked),
                pairs=pairs,
                clock=clock,
                apart=True,
            )
            print(Line(case=case, rival=name, each=len(asked), found=found), flush=True)


def agree(name: str, asks: dict[str, Ask], keys: Sequence[str]) -> None:
    """Stop when two arms answer differently."""
    answers = {arm: [sorted(map(tuple, ask(key))) for key in keys] for arm, ask in asks.items()}
    first = answers["ours"]
    for arm, found in answers.items():
        if found != first:
            raise SystemExit(f"{name}: {arm} gives {found[:1]}, we give {first[:1]}")


def people(count: int, wanted: int, chance: np.random.Generator) -> list[str]:
    """Whom the personal questions are about; one operation asks for all of them in turn."""
    return [f"p{number:08d}" for number in chance.integers(0, count, wanted)]


def warm(ask: Ask, keys: Sequence[str], rounds: int) -> None:
    """Ask until nothing more is brought into memory."""
    for _ in range(rounds):
        for key in keys:
            ask(key)


def timed(work: Callable[[], object]) -> float:
    """Seconds one piece of work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ---- the adjacency itself


def run_topology(graph: omnigraphdb.Graph, rounds: int = 3) -> None:
    """Building the adjacency of `Knows` against doing the least by hand; and following a commit of one edge."""
    engine = graph._engine
    raw, built = [], []
    for _ in range(rounds):
        raw.append(timed(lambda: _build_with_numpy(engine)))
        built.append(timed(lambda: _topology(engine).adjacency(Direction.OUT, NeighbourUnit.PAIR)))
    print(
        f"Q9 adjacency of {_rows(engine)} edges: {1000 * min(built):.0f} ms, by hand {1000 * min(raw):.0f} ms, "
        f"ratio {min(built) / min(raw):.2f}"
    )
    cache = ByteCache(1 << 30)
    _topology(engine, cache).adjacency(Direction.OUT, NeighbourUnit.PAIR)
    followed = []
    insert = 'query add($a: String, $b: String) { insert Knows { from: $a, to: $b, since: date("2020-01-01") } }'
    for number in range(40):
        graph.mutate(insert, {"a": f"p{number:08d}", "b": "p00000099"})
        topology = _topology(engine, cache)
        followed.append(timed(partial(topology.adjacency, Direction.OUT, NeighbourUnit.PAIR)))
    usual, worst = statistics.median(followed), max(followed)
    print(
        f"Q9 after a commit of one edge: {1000 * usual:.1f} ms, at most {1000 * worst:.1f} ms "
        "(after automatic maintenance)"
    )


def _entities(engine: Any, key: str, cache: ByteCache) -> Entities:
    view = engine.view()
    table = TableKey(key)
    entry = view.snapshot.entries[table]
    return Entities(view.catalog.tables[table], entry, engine.store.tables, cache)


def _topology(engine: Any, cache: ByteCache | None = None) -> Topology:
    cache = cache or ByteCache(1 << 30)
    nodes = _entities(engine, "node:Person", cache)
    return Topology(edges=_entities(engine, "edge:Knows", cache), sources=nodes, targets=nodes)


def _rows(engine: Any) -> int:
    return len(_topology(engine).edges)


def _build_with_numpy(engine: Any) -> object:
    cache = ByteCache(0)
    ids = _entities(engine, "node:Person", cache).table.read(("id",))["id"].combine_chunks()
    rows = _entities(engine, "edge:Knows", cache).table.read(("src", "dst"))
    near, far = (
        pc.index_in(rows[name], value_set=ids).to_numpy().astype(np.int64)
        for name in ("src", "dst")
    )
    keys = np.sort(near * len(ids) + far)
    return np.cumsum(np.bincount(keys // len(ids), minlength=len(ids)))


# ---- all of it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="s", choices=sorted(SCALES))
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--cold", type=int, default=3)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument(
        "--cpu", action="store_true", help="count processor time: for a busy machine"
    )
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        run(root, chosen)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def run(root: Path, chosen: argparse.Namespace) -> None:
    """Load every arm, then time it cold, then warm."""
    cases = [c for c in CASES if not chosen.only or any(word in c.name for word in chosen.only)]
    tables = social_graph(chosen.scale)
    arms: list[Rival] = [Ours.loaded(root / "graph", tables)]
    rivals = (Ladybug.loaded(root / "ladybug", tables), DuckDb.loaded(root / "duck.db", tables))
    arms += [one for one in rivals if one is not None]
    del tables
    scale = SCALES[chosen.scale]
    keys = people(scale.people, chosen.people, np.random.default_rng(7))
    print(f"scale {chosen.scale}: {scale}")
    if chosen.cold:
        run_cold(cases, arms, keys, chosen.cold)
    opened = [arm.open() for arm in arms]
    clock = time.process_time if chosen.cpu else time.perf_counter
    run_warm(cases, arms, opened, keys, chosen.pairs, clock)
    held = opened[0]._engine.cache
    print(f"cached {held.bytes_cached / 1e6:.0f} MB of at most {held.bytes_max / 1e6:.0f} MB")
    if not chosen.only or "forms" in chosen.only:
        duck = next((o for a, o in zip(arms, opened, strict=True) if isinstance(a, DuckDb)), None)
        run_forms(opened[0], duck)
    if not chosen.only:
        run_topology(opened[0])
    for arm, one in zip(arms, opened, strict=True):
        arm.close(one)
    if not chosen.only:
        run_searches(root, chosen.pairs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of all arms together {peak:.2f} GB")


if __name__ == "__main__":
    main()
