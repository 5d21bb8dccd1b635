"""Cancellation: reads stop between two steps, by a call from elsewhere or at their deadline; writes do not."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ReadCancelled, UserInputError
from tests.support.settled import assert_settled

SCHEMA = "node P { name: String @key  age: I32? }\nedge Knows: P -> P"
PAIRS = "query q() { match { $a: P $b: P  $a.age < $b.age } return { count($a) as n } }"
HOP = "query q() { match { $a: P  $a knows $b } return { $a.name, $b.name } }"
FAR = "query q() { match { $a: P  $a knows{1,4} $b } return { count($b) as n } }"
READS: dict[str, Callable[[Graph], Any]] = {
    "query": lambda graph: graph.query(PAIRS),
    "hop": lambda graph: graph.query(HOP),
    "hops": lambda graph: graph.query(FAR),
    "stream": lambda graph: list(graph.stream(HOP)),
    "profile": lambda graph: graph.explain(PAIRS, profile=True),
    "export": lambda graph: list(graph.export()),
    "export_lines": lambda graph: list(graph.export_lines()),
    "diff": lambda graph: graph.diff(graph.commits()[-1], "main"),
    "changes": lambda graph: graph.changes(),
    "pagerank": lambda graph: graph.project(nodes=["P"], edges=["Knows"]).pagerank(),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    place = tmp_path_factory.mktemp("cancelled") / "g"
    with omnigraphdb.init(place, SCHEMA) as opened:
        people = [{"type": "P", "data": {"name": f"p{n}", "age": n}} for n in range(20)]
        edges = [{"edge": "Knows", "from": f"p{n}", "to": f"p{(n * 7) % 20}"} for n in range(20)]
        opened.load([*people, *edges], mode="append")
        yield opened
        assert_settled(opened)


@pytest.mark.parametrize("name", READS)
def test_a_read_that_is_cancelled_stops(graph: Graph, name: str) -> None:
    guard = omnigraphdb.Cancellation()
    guard.cancel()
    with guard, pytest.raises(ReadCancelled, match="was cancelled; nothing was changed") as found:
        READS[name](graph)
    assert found.value.seconds is None
    READS[name](graph)


class CountingClock:
    """A clock that goes on by one second each time someone looks at it."""

    looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


@pytest.mark.parametrize("name", ["query", "hop", "hops", "stream"])
def test_a_read_looks_at_the_clock_between_its_steps(graph: Graph, name: str) -> None:
    patient = CountingClock()
    with omnigraphdb.Cancellation(1000, runtime=patient):  # type: ignore[arg-type]
        READS[name](graph)
    assert patient.looks > 2, "the read looks more than once"
    for seconds in range(1, patient.looks - 1):
        with (
            omnigraphdb.Cancellation(seconds, runtime=CountingClock()),  # type: ignore[arg-type]
            pytest.raises(ReadCancelled, match=f"not ended after {seconds} s"),
        ):
            READS[name](graph)


def test_a_stream_stops_wherever_it_is_taken(graph: Graph) -> None:
    guard = omnigraphdb.Cancellation()
    with guard:
        stream = graph.stream(HOP)
    guard.cancel()
    with pytest.raises(ReadCancelled):
        list(stream)


def test_another_thread_cancels_a_long_read() -> None:
    begun, guard = threading.Event(), omnigraphdb.Cancellation()
    slow = "query q() { match { $a: P $b: P $c: P  $a.age < $b.age $b.age < $c.age } return { count($a) as n } }"
    with omnigraphdb.init("memory://cancelled", SCHEMA) as graph:
        people = [{"type": "P", "data": {"name": f"p{n}", "age": n}} for n in range(500)]
        graph.load(people, mode="append")

        def read() -> None:
            with guard:
                begun.set()
                graph.query(slow)

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(read)
            assert begun.wait(30)
            guard.cancel()
            with pytest.raises(ReadCancelled):
                running.result(30)


def test_blocks_inside_blocks_all_count(graph: Graph) -> None:
    outer, inner = omnigraphdb.Cancellation(), omnigraphdb.Cancellation()
    with outer:
        with inner:
            outer.cancel()
            with pytest.raises(ReadCancelled):
                graph.query(HOP)
        with pytest.raises(ReadCancelled):
            graph.query(HOP)
    assert len(graph.query(HOP)) == 20


def test_a_write_is_never_cut(graph: Graph) -> None:
    guard = omnigraphdb.Cancellation()
    guard.cancel()
    with guard:
        done = graph.mutate("query m() { update P set { age: 1 } where age = 3 }")
        assert graph.commits()[0] == done.commit
        loaded = graph.load([{"type": "P", "data": {"name": "new"}}], mode="merge")
        assert graph.commits()[0] == loaded.commit


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(UserInputError, match="not a time"):
        omnigraphdb.Cancellation(seconds)
