"""Twelve writers of every kind beside one another: everybody progresses."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraphdb
from tests.support.settled import assert_settled
from tests.support.writers import in_threads

SCHEMA = "node Person { name: String @key  age: I32? }"
ADD = "query add($name: String) { insert Person { name: $name } }"
SET = "query put($name: String, $age: I32) { update Person set { age: $age } where name = $name }"
TIMES = [pytest.param(60.0, 3, marks=pytest.mark.soak), (8.0, 8)]
"""How long, and how far below the fair share nobody is: a short time is for coarse differences."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seconds", "part"), TIMES)
def test_writers_of_every_kind_progress_beside_one_another(
    seconds: float, part: int, tmp_path: Path
) -> None:
    graph = omnigraphdb.init(tmp_path / "g", SCHEMA, config={"maintenance": "off"})
    graph.load([{"type": "Person", "data": {"name": f"u{n}"}} for n in range(4)], mode="append")
    ended = threading.Event()
    landed: dict[str, int] = {}

    def repeat(name: str, act: Callable[[int], object]) -> Callable[[], None]:
        landed[name] = 0

        def run() -> None:
            number = 0
            while not ended.is_set():
                number += 1
                act(number)
                landed[name] += 1

        return run

    def insert(n: int) -> Callable[[int], object]:
        return lambda number: graph.mutate(ADD, {"name": f"i{n}-{number}"})

    def update(n: int) -> Callable[[int], object]:
        return lambda number: graph.mutate(SET, {"name": f"u{n}", "age": number})

    def merge(n: int) -> Callable[[int], object]:
        def act(number: int) -> None:
            name = f"b{n}-{number}"
            graph.branch_create(name)
            graph.mutate(ADD, {"name": name}, branch=name)
            graph.merge(name)
            graph.branch_delete(name)

        return act

    def stop() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ended.wait(0.5)
        ended.set()

    works = [repeat(f"insert {n}", insert(n)) for n in range(4)]
    works += [repeat(f"update {n}", update(n)) for n in range(4)]
    works += [repeat(f"merge {n}", merge(n)) for n in range(2)]
    works += [repeat("optimize", lambda _: graph.optimize())]
    works += [repeat("cleanup", lambda _: graph.cleanup(older_than=timedelta(days=1)))]
    assert in_threads([*works, stop]) == [None] * 13
    for kind in ("insert", "update"):
        counts = [count for name, count in landed.items() if name.startswith(kind)]
        assert min(counts) * part >= sum(counts) / len(counts), landed
    assert min(landed.values()) > 0, landed
    assert_settled(graph)
