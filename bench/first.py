"""First answers: open a graph and ask one question, against Ladybug and DuckDB where they are installed.

    python bench/first.py [--scale xs|s|m] [--rounds N] [--process N] [--only NAME…] [--home FOLDER]

A handle is cold when it was just opened: nothing is cached but the pages of the operating system. A process is cold
when it was just started: it imports, opens, asks and ends. The arms take turns, and what counts is the ratio of their
medians, of processor time first: the clock is printed beside it. `--home` keeps the loaded graphs for the next run.
"""

import argparse
import contextlib
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from social import SCALES, social_graph
from support.questions import CASES, Case
from support.rivals import DuckDb, Ladybug, Ours, Rival

Sample = tuple[float, float]
"""Processor seconds and seconds of the clock."""

CHILDREN = {
    "ours": """
import json, sys
import omnigraphdb
home, text, params = json.loads(sys.argv[1])
with omnigraphdb.open(home) as graph:
    print(len(graph.query(text, params).rows))
""",
    "ladybug": """
import json, sys
import ladybug
home, text, params = json.loads(sys.argv[1])
database = ladybug.Database(home)
print(len(ladybug.Connection(database).execute(text, params).get_all()))
""",
    "duckdb": """
import json, sys
import duckdb
home, text, params = json.loads(sys.argv[1])
print(len(duckdb.connect(home).execute(text, params).fetchall()))
""",
}


def main() -> None:
    """Load every arm, or find it loaded, then compare first answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="s", choices=sorted(SCALES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--process", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    cases = [c for c in CASES if not chosen.only or any(word in c.name for word in chosen.only)]
    with _open_folder(chosen.home) as home:
        arms = _load_arms(home, chosen.scale)
        people = SCALES[chosen.scale].people
        keys = [f"p{n:08d}" for n in np.random.default_rng(7).integers(0, people, 64)]
        if chosen.rounds:
            _report("cold handle", cases, arms, keys, chosen.rounds, _ask_handle)
        if chosen.process:
            _report("cold process", cases, arms, keys, chosen.process, _ask_process)


@contextlib.contextmanager
def _open_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as home:
        yield Path(home)


def _load_arms(home: Path, scale: str) -> list[Rival]:
    graph, ladybug, duck = home / "graph", home / "ladybug", home / "duck.db"
    if graph.exists():
        return [Ours(graph), Ladybug(ladybug), DuckDb(duck)]
    tables = social_graph(scale)
    loaded = (
        Ours.loaded(graph, tables),
        Ladybug.loaded(ladybug, tables),
        DuckDb.loaded(duck, tables),
    )
    return [one for one in loaded if one is not None]


Take = Callable[[Rival, Case, str], Sample]


def _report(
    title: str, cases: Sequence[Case], arms: Sequence[Rival], keys: Sequence[str], rounds: int, take: Take
) -> None:  # fmt: skip
    """Print what we take and the ratios to each rival, as processor time and by the clock."""
    print(f"{title}: ms of processor (clock); ratio of processor (clock)")
    for case in cases:
        samples = _sample_arms(case, arms, keys, rounds, take)
        cpu, clock = (
            {name: median(one[n] for one in found) for name, found in samples.items()}
            for n in (0, 1)
        )
        ratios = "  ".join(
            f"{name} {cpu['ours'] / cpu[name]:5.2f} ({clock['ours'] / clock[name]:5.2f})"
            for name in samples
            if name != "ours"
        )
        print(
            f"  {case.name:28} {1000 * cpu['ours']:7.1f} ({1000 * clock['ours']:7.1f})  {ratios}",
            flush=True,
        )


def _sample_arms(
    case: Case, arms: Sequence[Rival], keys: Sequence[str], rounds: int, take: Take
) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {arm.name: [] for arm in arms}
    for number in range(-1, rounds):
        turn = number % len(arms)
        for arm in (*arms[turn:], *arms[:turn]):
            sample = take(arm, case, keys[number % len(keys)])
            if number >= 0:
                # The first round brings the files into the page cache.
                found[arm.name].append(sample)
    return found


def _ask_handle(arm: Rival, case: Case, key: str) -> Sample:
    gc.collect()
    cpu, clock = time.process_time(), time.perf_counter()
    opened = arm.open()
    arm.asking(opened, case)(key)
    taken = time.process_time() - cpu, time.perf_counter() - clock
    arm.close(opened)
    return taken


def _ask_process(arm: Rival, case: Case, key: str) -> Sample:
    text = {"ours": f"query q({'$id: String' if case.personal else ''}) {{ {case.ours} }}"}
    text |= {"ladybug": case.ladybug, "duckdb": case.duckdb}
    assert isinstance(arm, Ours | Ladybug | DuckDb)
    given = json.dumps([str(arm.home), text[arm.name], {"id": key} if case.personal else {}])
    before, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", CHILDREN[arm.name], given],
        check=True,
        stdout=subprocess.DEVNULL,
        env=dict(os.environ),
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - clock


if __name__ == "__main__":
    main()
