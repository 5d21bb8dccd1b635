"""A storm: threads of two processes write at random, the processes die at random; acknowledged writes stay, others are whole or absent."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.failpoints import Failpoint
from tests.support.child import run_child
from tests.support.settled import assert_settled
from tests.support.story import BASE, SCHEMA

QUIET = {"maintenance": "off"}
THREADS = 4
WRITES = 6
DEATHS = [
    Failpoint.ARMED,
    Failpoint.TABLE_COMMITTED,
    Failpoint.TABLES_COMMITTED,
    Failpoint.GROUP_TAKEN,
    Failpoint.GROUP_ARMED,
    Failpoint.GROUP_TABLE_COMMITTED,
    Failpoint.GROUP_MEMBER_LANDED,
    Failpoint.GROUP_LANDED,
    Failpoint.GROUP_CONFIRMED,
    Failpoint.PUBLISH_PREPARED,
    Failpoint.PUBLISHED,
    Failpoint.SIDECAR_DELETE,
]
TRIPLE = """query m($p: String, $c: String) {
  insert Person { k: $p, n: 1 }  insert City { k: $c }  insert LivesIn { from: $p, to: $c } }"""
SINGLE = "query m($p: String) { insert Person { k: $p, n: 1 } }"
RAISE = "query m($k: String, $n: I32) { update Person set { n: $n } where k = $k }"


def storm(uri: str, seed: int, log: str) -> None:
    """Write at random from several threads, and note every write that was acknowledged: what a child process does."""
    with omnigraph.open(uri, config=QUIET) as graph, open(log, "a", buffering=1) as acknowledged:
        works = [
            threading.Thread(target=_write, args=(graph, f"{seed}-{n}", n, acknowledged))
            for n in range(THREADS)
        ]
        for work in works:
            work.start()
        for work in works:
            work.join()


def _write(graph: Graph, name: str, thread: int, acknowledged: object) -> None:
    choose = random.Random(name)
    for number in range(1, WRITES + 1):
        tag = f"{name}-{number}"
        kind = choose.choice(["triple", "single", "raise"])
        try:
            if kind == "triple":
                graph.mutate(TRIPLE, {"p": f"p{tag}", "c": f"c{tag}"})
            elif kind == "single":
                graph.mutate(SINGLE, {"p": f"p{tag}"})
            else:
                graph.mutate(RAISE, {"k": "abcd"[thread], "n": number})
        except omnigraph.OmniError:
            continue
        print(kind, tag, file=acknowledged)  # type: ignore[call-overload]


SEEDS = [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 60))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_of_writers_and_deaths_loses_nothing_and_writes_nothing_twice(
    seed: int, tmp_path: Path
) -> None:
    uri, choose = str(tmp_path / "g"), random.Random(seed)
    with omnigraph.init(uri, SCHEMA, config=QUIET) as graph:
        graph.load(BASE, mode="append")
    logs: list[str] = []
    with ThreadPoolExecutor(2) as processes:
        for _ in range(2):
            death = choose.choice(DEATHS)
            failpoints = f"{death.value}=skip({choose.randrange(6)})+exit"
            logs.append(str(tmp_path / f"log{len(logs)}"))
            number = choose.randrange(10**6)
            processes.submit(run_child, storm, uri, number, logs[-1], failpoints=failpoints)
    graph = omnigraph.open(uri, config=QUIET)
    assert_settled(graph)
    commits = list(reversed(graph.commits()))
    assert all(newer.parent == older.id for older, newer in pairwise(commits))
    people = graph.table("Person")["k"].to_pylist()
    cities = set(graph.table("City")["k"].to_pylist())
    homes = {(row["src"], row["dst"]) for row in graph.table("LivesIn").to_pylist()}
    assert len(people) == len(set(people))
    for log in logs:
        for line in Path(log).read_text().splitlines() if Path(log).exists() else ():
            kind, tag = line.split()
            assert kind == "raise" or f"p{tag}" in people
            assert kind != "triple" or (f"p{tag}", f"c{tag}") in homes
    # A write of three tables is whole or absent, acknowledged or not.
    made = {city[1:] for city in cities if "-" in city}
    assert {(f"p{tag}", f"c{tag}") for tag in made} == {h for h in homes if "-" in h[0]}
    assert {f"p{tag}" for tag in made} <= set(people)
