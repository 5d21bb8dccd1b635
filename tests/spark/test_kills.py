"""Whatever dies while a cluster loads, replaces, merges, exports, indexes or streams: the graph is whole or untouched, never written twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from platform import node
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from tests.support.s3 import S3Server
from tests.support.settled import assert_settled
from tests.support.spark_cluster import Cluster, cluster, start_worker
from tests.support.spark_verbs import SCHEMA, run_verb

pytestmark = [
    pytest.mark.spark,
    pytest.mark.s3,
    pytest.mark.timeout(3600),
    pytest.mark.xdist_group("spark"),
]

ROOT = Path(__file__).parents[2]
VERBS = ("load", "replace", "merge", "export", "index", "stream")
VICTIMS = ("executor", "worker", "driver")
BASE, MORE, ARRIVING = 2_000, 12_000, 3
STREAM_SECONDS, PHASE_SECONDS = 6.0, 0.5
ROUNDS = 50


# ---- the cluster, its driver, and a graph


class Driver:
    """A driver program that takes orders; another one is started when it was killed."""

    def __init__(self, master: str, **conf: str) -> None:
        self._master, self._conf = master, conf
        self.process: subprocess.Popen[str] | None = None

    def send(self, order: dict[str, Any]) -> None:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.spark_verbs", self._master, json.dumps(self._conf)],
                cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            )  # fmt: skip
            assert self.hear() == {"ready": True}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any] | None:
        """The next answer; None when the driver is dead."""
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                found: dict[str, Any] = json.loads(line.removeprefix("answer "))
                return found
        return None

    def hear_end(self) -> dict[str, Any] | None:
        """The answer after all phases; None when the driver is dead."""
        said = self.hear()
        while said is not None and "phase" in said:
            said = self.hear()
        return said

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        if self.process is not None:
            with self.process:
                self.process.kill()
            self.process = None


@dataclass
class Field:
    """A cluster with a driver, and how many phases each verb has there."""

    cluster: Cluster
    driver: Driver
    phases: dict[str, int] = field(default_factory=dict)

    def wait(self, verb: str, choose: random.Random) -> dict[str, Any] | None:
        """Wait until a verb is somewhere inside of a phase; the answer when it ends before that."""
        if verb == "stream":
            time.sleep(choose.uniform(0, STREAM_SECONDS))
            return None
        for number in range(choose.randrange(self.phases.get(verb, 3)) + 1):
            said = self.driver.hear()
            if said is None or "phase" not in said:
                return said
            self.phases[verb] = max(self.phases.get(verb, 3), number + 2)
        time.sleep(choose.uniform(0, PHASE_SECONDS))
        return None

    def kill(self, victim: str, choose: random.Random) -> None:
        if victim == "driver":
            self.driver.kill()
        elif victim == "worker":
            self.cluster.kill_worker(choose.randrange(2))
        else:
            running = self.cluster.executors()
            if running:
                os.kill(choose.choice(running), signal.SIGKILL)

    def mend(self) -> None:
        """Start again what was killed."""
        if self.driver.process is not None and self.driver.process.poll() is not None:
            self.driver.end()
        for name, daemon in self.cluster.daemons.items():
            if daemon.poll() is not None:
                start_worker(self.cluster, int(name.removeprefix("worker-")))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    with cluster(tmp_path_factory.mktemp("kills")) as running:
        driver = Driver(running.master)
        try:
            yield Field(running, driver)
        finally:
            driver.end()


def people(start: int, count: int, age: int) -> pa.Table:
    names = [f"p{number}" for number in range(start, start + count)]
    return pa.table({"name": names, "age": pa.array([age] * count, pa.int32())})


def knows(count: int) -> pa.Table:
    names = [f"p{number % BASE}" for number in range(count)]
    return pa.table({"src": names, "dst": names[::-1]})


def make_graph(home: Path, uri: str, options: dict[str, str]) -> None:
    """A graph with a branch that differs, and the files of every verb."""
    home.mkdir(parents=True, exist_ok=True)
    pq.write_table(people(BASE, MORE, 7), home / "Person.parquet", row_group_size=1_000)
    pq.write_table(knows(MORE), home / "Knows.parquet", row_group_size=1_000)
    pq.write_table(people(0, BASE + MORE, 4), home / "Former.parquet", row_group_size=1_000)
    (home / "in").mkdir()
    for number in range(ARRIVING):
        names = (f"s{number}-{i}" for i in range(50))
        lines = (f'{{"name": "{name}", "age": {number}}}\n' for name in names)
        (home / "in" / f"{number}.json").write_text("".join(lines))
    with omnigraphdb.init(uri, SCHEMA, storage_options=options) as graph:
        graph.load({"Person": people(0, BASE, 1)}, mode="append", spark=False)
        graph.branch_create("draft")
        draft = {"Person": people(BASE // 2, BASE, 9), "Knows": knows(100)}
        graph.load(draft, mode="merge", branch="draft", spark=False)


def read_state(uri: str, options: dict[str, str]) -> tuple[Any, ...]:
    """The rows of main, as numbers that differ where rows do; a graph that is opened recovers first."""
    with omnigraphdb.open(uri, storage_options=options) as graph:
        assert_settled(graph)
        person, edges = graph.table("Person"), graph.table("Knows")
        assert pc.count_distinct(person["id"]).as_py() == person.num_rows
        assert pc.count_distinct(edges["id"]).as_py() == edges.num_rows
        return person.num_rows, pc.sum(person["age"]).as_py(), edges.num_rows


STREAMED = [(BASE + 50 * n, BASE + 50 * sum(range(n)), 0) for n in range(ARRIVING + 1)]
BEFORE = STREAMED[0]
AFTER = {
    "load": (BASE + MORE, BASE + 7 * MORE, MORE),
    "replace": (BASE + MORE, 4 * (BASE + MORE), 0),
    "merge": (BASE + BASE // 2, BASE // 2 + 9 * BASE, 100),
    "stream": STREAMED[-1],
}


def play_round(played: Field, home: Path, where: Any, verb: str, victim: str, seed: int) -> None:
    """Kill something at a random moment of a verb, then look, then bring the verb to its end."""
    choose = random.Random(seed)
    uri, options = where
    make_graph(home, uri, options)
    order = {"verb": verb, "uri": uri, "options": options, "home": str(home), "out": "out"}
    played.driver.send(order)
    said = played.wait(verb, choose)
    played.kill(victim, choose)
    said = said or played.driver.hear_end()
    played.mend()
    told = f"round {seed}: {verb}, {victim}, {uri}: {said}"
    if victim != "driver":
        assert said == {"error": None}, told
    before_or_after = STREAMED if verb == "stream" else [BEFORE, AFTER.get(verb, BEFORE)]
    state = read_state(uri, options)
    assert state in before_or_after, told
    assert said is None or state == before_or_after[-1], told
    if state != before_or_after[-1] or said is None:
        finish(played, order, state)
    assert read_state(uri, options) == before_or_after[-1], told
    if verb == "export":
        assert read_export(home, "out" if said else "again") == BEFORE, told


def finish(played: Field, order: dict[str, Any], state: tuple[Any, ...]) -> None:
    """Bring a verb to its end that a dead driver began."""
    if order["verb"] == "stream":
        played.driver.send(order)
        assert played.driver.hear_end() == {"error": None}
    elif state == BEFORE:
        run_verb(order | {"out": "again"}, False)


def read_export(home: Path, out: str) -> tuple[Any, ...]:
    parts = [pq.read_table(file) for file in (home / out).rglob("*Person*.parquet")]
    parts = parts or [pq.read_table(file) for file in (home / out).rglob("Person/*.parquet")]
    rows = pa.concat_tables(parts)
    return rows.num_rows, pc.sum(rows["age"]).as_py(), 0


def place(home: Path, store: str, server: S3Server) -> tuple[str, dict[str, str]]:
    if store == "disk":
        return str(home / "g"), {}
    bucket = server.new_bucket()
    return f"{bucket.uri}/g", bucket.storage_options


@pytest.mark.soak
def test_a_file_that_only_the_driver_can_read_names_the_host(played: Field, tmp_path: Path) -> None:
    make_graph(tmp_path, str(tmp_path / "g"), {})
    order = {
        "verb": "unreachable",
        "uri": str(tmp_path / "g"),
        "options": {},
        "home": str(tmp_path),
    }
    played.driver.send(order)
    said = played.driver.hear_end()
    assert said is not None
    assert f"'{tmp_path / 'own.parquet'}' cannot be read" in str(said["error"])
    assert f"on executor host '{node()}'" in str(said["hint"])
    assert read_state(str(tmp_path / "g"), {}) == BEFORE


@pytest.mark.parametrize(
    ("verb", "victim", "store"),
    [("load", "executor", "s3"), ("merge", "driver", "disk")],
)
def test_a_verb_survives_what_dies(
    played: Field, tmp_path: Path, s3_server: S3Server, verb: str, victim: str, store: str
) -> None:
    play_round(played, tmp_path, place(tmp_path, store, s3_server), verb, victim, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_any_verb_survives_whatever_dies(
    played: Field, tmp_path: Path, s3_server: S3Server, seed: int
) -> None:
    choose = random.Random(seed)
    verb, victim = VERBS[seed % len(VERBS)], VICTIMS[seed // len(VERBS) % len(VICTIMS)]
    where = place(tmp_path, choose.choice(["disk", "s3"]), s3_server)
    play_round(played, tmp_path, where, verb, victim, seed)
