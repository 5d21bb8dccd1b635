"""Loads, merges, diffs and the feed by executors end as those of this process do: the same rows, the same errors and conflicts."""

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

from tests.support.compared_runners import compare_loads, compare_merges
from tests.support.merge_ways import FEW, make_random_steps
from tests.support.spark_cluster import cluster
from tests.support.spark_connect import ROOT, connect_server

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_conflicts_of_every_kind_are_found_by_executors(spark: Any) -> None:
    conflicts, total = compare_merges(FEW, "row", spark)
    assert total == len(conflicts) > 1


@pytest.mark.parametrize("seed", [1, 2])
def test_random_work_is_merged_alike(spark: Any, seed: int) -> None:
    chance = random.Random(seed)
    compare_merges(make_random_steps(chance, 8), chance.choice(["row", "property"]), spark)


def test_random_records_are_loaded_and_refused_alike(spark: Any) -> None:
    found = compare_loads(random.Random(3), spark)
    assert {isinstance(one[0], str) for one in found} == {True, False}, "some are refused"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 40))
def test_much_random_work_ends_alike(spark: Any, seed: int) -> None:
    chance = random.Random(seed)
    compare_merges(make_random_steps(chance, 12), chance.choice(["row", "property"]), spark)
    compare_loads(chance, spark)


# ---- elsewhere


def run_elsewhere(address: str, seeds: range) -> None:
    """Compare in a process of its own: a session of another kind runs in this one."""
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    module = "tests.support.compared_runners"
    done = subprocess.run(
        [sys.executable, "-m", module, address, str(seeds.start), str(seeds.stop)],
        capture_output=True, text=True, cwd=ROOT, check=False,
        env=environment | {"PYTHONPATH": f"{ROOT}{os.pathsep}{environment.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == str(len(seeds))


@pytest.mark.soak
def test_a_cluster_ends_alike(tmp_path: Path) -> None:
    with cluster(tmp_path / "cluster") as found:
        run_elsewhere(found.master, range(50, 56))


@pytest.mark.soak
def test_a_connect_server_ends_alike(tmp_path: Path) -> None:
    with connect_server(tmp_path / "server") as address:
        run_elsewhere(address, range(60, 66))
