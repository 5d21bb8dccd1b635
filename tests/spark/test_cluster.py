"""On a real cluster a load is whole or absent, whichever of its processes dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.failpoints import Failpoint
from tests.support.settled import assert_settled
from tests.support.spark_cluster import Cluster, cluster, peak_bytes, processes, start_worker

pytestmark = [
    pytest.mark.spark,
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("spark"),
]

SCHEMA = """
node Person { name: String @key  age: I32?  city: String?  @range(age, 0..200) }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def people(count: int, start: int = 0) -> pa.Table:
    numbers = pa.array(np.arange(start, start + count))
    return pa.table(
        {
            "name": pc.binary_join_element_wise("p", numbers.cast(pa.string()), ""),
            "age": pc.cast(pa.array(np.arange(count) % 100), pa.int32()),
            "city": pc.binary_join_element_wise(
                "city", pa.array(np.arange(count) % 1000).cast(pa.string()), "-"
            ),
        }
    )


def knows(count: int, among: int) -> pa.Table:
    random = np.random.default_rng(7)
    ends = [
        pc.binary_join_element_wise(
            "p", pa.array(random.integers(0, among, count)).cast(pa.string()), ""
        )
        for _ in range(2)
    ]
    return pa.table(
        {"src": ends[0], "dst": ends[1], "since": pa.array(np.arange(count) % 50, pa.int32())}
    )


def parquet(folder: Path, table: pa.Table, name: str, rows: int = 100_000) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=rows)
    return str(path)


class Driver:
    """A driver program in a process of its own."""

    def __init__(self, running: Cluster, uri: Path, source: Any, **order: Any) -> None:
        failpoints = order.pop("failpoints", "")
        told = {
            "master": running.master,
            "uri": str(uri),
            "source": source,
            "mode": "append",
        } | order
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_driver", json.dumps(told)],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"OMNIGRAPH_FAILPOINTS": failpoints, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def answer(self, seconds: float = 600) -> dict[str, Any]:
        out, errors = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, errors[-3000:]
        found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return found

    def died(self, seconds: float = 600) -> None:
        _, errors = self.process.communicate(timeout=seconds)
        assert self.process.returncode == -signal.SIGKILL, errors[-3000:]


def when(
    ready: Callable[[], Any], act: Callable[[], None], seconds: float = 240
) -> threading.Thread:
    """Act as soon as something is so."""

    def watch() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if ready():
                act()
                return
            time.sleep(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def staging_begun(uri: Path) -> bool:
    """Whether some task has begun to write rows of a table."""
    return any(uri.glob("nodes/*/data/*.lance"))


def assert_whole(uri: Path, rows: int) -> None:
    with omnigraphdb.open(uri) as graph:
        table = graph.table("Person")
        assert table.num_rows == rows
        assert pc.count_distinct(table["id"]).as_py() == rows
        assert_settled(graph)


# ---- executors and workers die


def test_an_executor_killed_while_it_stages_changes_nothing(
    running: Cluster, tmp_path: Path
) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    source = {"Person": parquet(tmp_path, people(1_500_000), "people", 50_000)}
    killed: list[int] = []

    def kill() -> None:
        victim = running.executors()[0]
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    driver = Driver(running, tmp_path / "g", source, config={"split_bytes": 1 << 20})
    watching = when(lambda: staging_begun(tmp_path / "g") and running.executors(), kill)
    answer = driver.answer()
    watching.join()
    assert len(killed) == 1
    assert (answer["engine"], answer["tables"]) == ("spark", {"node:Person": 1_500_000})
    assert_whole(tmp_path / "g", 1_500_000)
    _assert_leftovers_do_no_harm(tmp_path / "g", 1_500_000)


def test_a_worker_killed_while_it_stages_changes_nothing(running: Cluster, tmp_path: Path) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    source = {"Person": parquet(tmp_path, people(1_500_000), "people", 50_000)}
    try:
        driver = Driver(running, tmp_path / "g", source, config={"split_bytes": 1 << 20})
        watching = when(lambda: staging_begun(tmp_path / "g"), lambda: running.kill_worker(0))
        answer = driver.answer()
        watching.join()
        assert answer["tables"] == {"node:Person": 1_500_000}
        assert_whole(tmp_path / "g", 1_500_000)
    finally:
        start_worker(running, 0)


# ---- the driver dies


PHASES = {
    "staged, not armed": (Failpoint.PREPARED, False),
    "A: armed": (Failpoint.ARMED, False),
    "B: one table committed": (Failpoint.TABLE_COMMITTED, None),
    "B: all tables committed": (Failpoint.TABLES_COMMITTED, True),
    "C: published": (Failpoint.PUBLISHED, True),
    "D: about to disarm": (Failpoint.SIDECAR_DELETE, True),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_driver_killed_anywhere_leaves_the_graph_whole_or_untouched(
    running: Cluster, tmp_path: Path, phase: str
) -> None:
    at, lands = PHASES[phase]
    uri = tmp_path / "g"
    with omnigraphdb.init(uri, SCHEMA) as graph:
        graph.load({"Person": people(10)}, mode="append")
    source = {
        "Person": parquet(tmp_path, people(20_000, 10), "people", 5_000),
        "Knows": parquet(tmp_path, knows(50_000, 20_000), "knows", 10_000),
    }
    Driver(running, uri, source, failpoints=f"{at}=exit").died()
    with omnigraphdb.open(uri) as graph:
        rows = graph.table("Person").num_rows, graph.table("Knows").num_rows
        assert rows in ((10, 0), (20_010, 50_000))
        if lands is not None:
            assert rows == ((20_010, 50_000) if lands else (10, 0))
        assert_settled(graph)
    more = {"Person": parquet(tmp_path, people(1_000, 900_000), "more", 500)}
    assert Driver(running, uri, more).answer()["tables"] == {"node:Person": 1_000}
    assert_whole(uri, rows[0] + 1_000)
    _assert_leftovers_do_no_harm(uri, rows[0] + 1_000)


def _assert_leftovers_do_no_harm(uri: Path, rows: int) -> None:
    """Cleanup runs over whatever the dead left, and takes nothing that is needed."""
    for heartbeat in uri.glob("__staging/*.json"):
        # The heartbeat of a dead driver expires some minutes later.
        heartbeat.write_text(json.dumps({"operation_id": heartbeat.stem, "expires_us": 0}))
    with omnigraphdb.open(uri) as graph:
        report = graph.cleanup(keep=1, older_than=timedelta(0), confirm=True)
        assert all(table.error is None for table in report.tables)
    assert not any(uri.glob("__staging/*"))
    assert_whole(uri, rows)


# ---- at size


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("inputs")
    return {
        "people": parquet(folder, people(1_000_000), "people"),
        "knows": parquet(folder, knows(5_000_000, 1_000_000), "knows", 250_000),
        "lines": _lines(folder / "people.jsonl", 1_000_000, bad=0),
        "bad": _lines(folder / "bad.jsonl", 1_000_000, bad=50),
    }


def _lines(path: Path, count: int, bad: int) -> str:
    first = count // 2
    with open(path, "w") as file:
        for start in range(0, count, 50_000):
            file.writelines(
                f'{{"type": "Person", "data": {{"name": "p{i}", "age": {_age(i, first, bad)}}}}}\n'
                for i in range(start, start + 50_000)
            )
    return str(path)


def _age(number: int, first: int, bad: int) -> str:
    return '"old"' if first <= number < first + bad else str(number % 100)


def test_a_million_nodes_and_five_million_edges_are_one_commit(
    running: Cluster, tmp_path: Path, inputs: dict[str, str], record_property: Any
) -> None:
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        before = len(graph.commits())
    peaks: dict[int, int] = {}
    stop = threading.Event()

    def measure() -> None:
        while not stop.wait(0.2):
            for pid, _, line in processes():
                if "CoarseGrainedExecutorBackend" in line or "pyspark.daemon" in line:
                    peaks[pid] = max(peaks.get(pid, 0), peak_bytes(pid))

    watching = threading.Thread(target=measure)
    watching.start()
    try:
        # A driver of little memory: no step brings a table to it.
        answer = Driver(
            running,
            tmp_path / "g",
            {"Person": inputs["people"], "Knows": inputs["knows"]},
            memory="512m",
        ).answer(900)
    finally:
        stop.set()
        watching.join()
    assert answer["tables"] == {"edge:Knows": 5_000_000, "node:Person": 1_000_000}
    record_property("driver peak MiB", answer["peak"] >> 20)
    record_property("driver peak with indexes MiB", answer["peak_indexed"] >> 20)
    record_property("executor peak MiB", max(peaks.values(), default=0) >> 20)
    assert answer["peak"] < 450 << 20, f"driver {answer['peak'] >> 20} MiB"
    with omnigraphdb.open(tmp_path / "g") as graph:
        assert len(graph.commits()) == before + 1
        assert graph.snapshot().tables() == {"edge:Knows": 5_000_000, "node:Person": 1_000_000}
        assert graph.pending_recoveries() == []


def test_a_million_records_are_one_commit(
    running: Cluster, tmp_path: Path, inputs: dict[str, str]
) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    answer = Driver(running, tmp_path / "g", inputs["lines"]).answer(900)
    assert (answer["engine"], answer["tables"]) == ("spark", {"node:Person": 1_000_000})
    assert_whole(tmp_path / "g", 1_000_000)


def test_fifty_bad_records_of_a_million_are_told_and_nothing_is_written(
    running: Cluster, tmp_path: Path, inputs: dict[str, str]
) -> None:
    omnigraphdb.init(tmp_path / "g", SCHEMA).close()
    answer = Driver(running, tmp_path / "g", inputs["bad"]).answer(900)
    told = answer["error"]
    assert (answer["kind"], answer["total"]) == ("data_error", 50)
    assert all(f"bad.jsonl, line {500_001 + i}:" in told for i in range(20))
    assert f"line {500_021}:" not in told
    assert ("age" in told, "I32" in told, "old" in told) == (True, True, True)
    assert_whole(tmp_path / "g", 0)
