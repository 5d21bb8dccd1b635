"""Everything that goes through a session goes through one of Spark Connect, whose server is another process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra 'spark'")

import omnigraphdb
from omnigraphdb.spark.streams import each_batch
from tests.support.settled import assert_settled
from tests.support.spark_connect import ROOT, connect_server

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def answers(home: Path) -> Any:
    """What a program in a process of its own was answered: a session of another kind may run in this one."""
    with connect_server(home / "server") as address:
        return _client(address, home)


def _client(address: str, home: Path) -> Any:
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.connect_client", address, str(home)],
        capture_output=True, text=True, cwd=ROOT, env=environment, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("load_frames", ["spark", {"edge:Knows": 1, "node:Person": 2}]),
        ("load_records", "spark"),
        ("load_file", ["spark", list("abcd")]),
        ("read", list("abcd")),
        ("write", list("abcde")),
        ("transact", [["node:Person"], list("abcdefg")]),
        ("empty", 0),
        ("query", [{"n": 7}]),
        ("export", ["spark", 7]),
        ("batches", [list("abcdefgh"), True]),
        ("stream", list("abcdefghi")),
        ("feed", 9),
    ],
)
def test_a_step_does_what_it_does_elsewhere(answers: Any, step: str, expected: Any) -> None:
    assert answers[step] == expected


def test_what_breaks_a_rule_is_an_error_of_ours(answers: Any) -> None:
    refused = answers["refuse"]
    assert refused["error"] == "ReferentialError"
    assert "record 1" in refused["message"]
    assert "'nobody' not found" in refused["message"]


def test_the_graph_is_settled_afterwards(answers: Any, home: Path) -> None:
    with omnigraphdb.open(home / "graph") as graph:
        assert_settled(graph)
        assert not list((home / "graph").glob("__staging/*/*"))


def test_a_function_for_batches_travels_without_its_graph(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    with omnigraphdb.init(tmp_path / "graph", "node A { k: String @key }") as graph:
        made = each_batch(graph, lambda transaction, batch: None, stream="s", actor="etl")
        there = cloudpickle.loads(cloudpickle.dumps(cloudpickle.loads(cloudpickle.dumps(made))))
        target = there.target
        assert (target.stream, target.branch, target.actor) == ("s", "main", "etl")
        assert there.location.uri == graph.location.uri
