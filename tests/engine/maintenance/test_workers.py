"""Maintenance by many workers: other processes rewrite and index, this one commits, and nothing else differs."""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from omnigraphdb.api.graph import Graph
from omnigraphdb.engine.maintenance.indexes import ensure_indices
from omnigraphdb.engine.maintenance.optimize import optimize
from omnigraphdb.pipeline.location import StoreLocation
from omnigraphdb.storage.values import MaintenanceTask
from tests.support.maintenance import content, entry, fragments, made, person, scattered, states
from tests.support.settled import assert_settled


class ProcessWorkers:
    """Hands in other processes, as executors are."""

    count = 3

    def __init__(self, home: StoreLocation) -> None:
        self.location = home
        self.done = 0

    def do(self, tasks: Sequence[MaintenanceTask]) -> list[bytes]:
        self.done += len(tasks)
        fresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=fresh) as pool:
            return list(pool.map(_do, [(self.location, task) for task in tasks]))


def _do(split: tuple[StoreLocation, MaintenanceTask]) -> bytes:
    home, task = split
    return home.store().tables.do(task)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = scattered(tmp_path / "g")
    yield opened
    assert_settled(opened)
    opened.close()


def test_index_parts_built_elsewhere_are_put_in_place_as_they_are(tmp_path: Path) -> None:
    with made(tmp_path / "h", config={"maintenance": "off"}) as graph:
        for number in range(100, 104):
            graph.load([person(number, bio="likes rope")], mode="append")
        workers = ProcessWorkers(graph._engine.location)
        rows = content(graph)
        report = ensure_indices(graph._engine, workers=workers)
        assert workers.done > report.built > 0
        assert content(graph) == rows
        table = graph._engine.store.tables.open(entry(graph).at)
        assert sum(len(one.segments) for one in table.indices()) > len(table.indices())
        assert set(states(graph).values()) == {"ready"}
        found = (
            'query q() { match { $p: Person  search($p.bio, "rope") } return { count($p) as n } }'
        )
        assert graph.query(found).rows == [{"n": 4}]
        assert_settled(graph)


def test_tables_rewritten_elsewhere_hold_the_same_rows(graph: Graph) -> None:
    workers = ProcessWorkers(graph._engine.location)
    rows, before = content(graph), graph.commits()[0].id
    optimize(graph._engine, workers=workers)
    assert workers.done
    assert len(fragments(graph)) == 1
    assert set(states(graph).values()) == {"ready"}
    assert content(graph) == rows
    assert graph.commits()[0].id == before
