"""Folds of the manifest while faults happen: they belong to no write, so that none is lost, repeated or refused."""

import shutil
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.failpoints import Failpoint, armed
from omnigraphdb.storage.counters import Cost, counting
from tests.support.child import KILLED, run_child
from tests.support.settled import assert_settled

SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
ALL = "query all() { match { $p: Person } return { count($p) as n } }"
OFF = {"maintenance": "off"}
BEFORE, ADDED = 50, 60
"""The manifest is folded once while the second part is added, and then has enough old rows to store them apart."""
POINTS = [Failpoint.FOLD_WRITTEN, Failpoint.FOLD_COMMITTED]


@pytest.fixture(scope="module")
def short_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("folds") / "g"
    with omnigraphdb.init(path, SCHEMA, config=OFF) as graph:
        add(graph, 0, BEFORE)
    return path


@pytest.fixture
def place(short_graph: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(short_graph, tmp_path / "g"))


def add(graph: Graph, first: int, count: int) -> None:
    for number in range(first, first + count):
        graph.mutate(ADD, {"name": f"p{number}"}, idempotency_key=f"k{number}")


def perform(uri: str) -> None:
    """What the child does until it dies."""
    with omnigraphdb.open(uri, config=OFF) as graph:
        add(graph, BEFORE, ADDED)


def assert_goes_on(graph: Graph) -> None:
    """Repeat all requests and add others: those that landed are known by their keys, and a later fold succeeds."""
    whole = BEFORE + 2 * ADDED
    with counting() as costs:
        add(graph, 0, whole)
    assert costs[Cost.MANIFEST_FOLDS] > 0
    assert graph.query(ALL).rows == [{"n": whole}]
    assert len(graph.commits(limit=1000)) == whole + 1
    assert_settled(graph)
    with omnigraphdb.open(graph.uri, read_only=True) as other:
        assert [one.id for one in other.commits(limit=1000)] == [
            one.id for one in graph.commits(limit=1000)
        ]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_fold_loses_no_write_and_is_done_by_a_later_one(
    place: Path, point: Failpoint
) -> None:
    assert run_child(perform, str(place), failpoints=f"{point.value}=exit") == KILLED
    with omnigraphdb.open(place, config=OFF) as graph:
        assert_goes_on(graph)


@pytest.mark.parametrize("point", POINTS)
def test_a_fold_that_fails_fails_no_write(place: Path, point: Failpoint) -> None:
    with omnigraphdb.open(place, config=OFF) as graph:
        with armed(point):
            add(graph, BEFORE, ADDED)
        assert_goes_on(graph)
