"""Upkeep beside strict writers: it moves pins and changes no row, so that nobody has to repeat a write for it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph
from omnigraph.api.graph import Graph
from omnigraph.errors import ManifestConflict, OmniError
from omnigraph.failpoints import PARK_SECONDS_MAX, Failpoint, parked
from tests.support.settled import assert_settled
from tests.support.upkeep import ADD, GONE, OLDER, PERSON, entry, scattered

STRICT: dict[str, tuple[Failpoint, Callable[[Graph], object]]] = {
    "update": (Failpoint.PREPARED, lambda graph: graph.mutate(OLDER, {"name": "p2", "age": 99})),
    "delete": (Failpoint.PREPARED, lambda graph: graph.mutate(GONE, {"name": "p3"})),
    "merge": (Failpoint.MERGE_PLANNED, lambda graph: graph.merge("side")),
}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    opened = scattered(tmp_path / "g")
    opened.branch_create("side")
    opened.mutate(OLDER, {"name": "p5", "age": 55}, branch="side")
    yield opened
    opened.close()


def beside(graph: Graph, kind: str, meanwhile: Callable[[], object]) -> object:
    """Stop a strict write once it is prepared, do something, and let it go on; gives its result or error."""
    point, work = STRICT[kind]
    came: list[object] = []

    def run() -> None:
        try:
            came.append(work(graph))
        except OmniError as error:
            came.append(error)

    with parked(point) as park:
        thread = threading.Thread(target=run)
        thread.start()
        assert park.reached.wait(PARK_SECONDS_MAX)
        meanwhile()
        park.release()
        thread.join()
    return came[0]


@pytest.mark.parametrize("kind", STRICT)
def test_a_strict_write_is_prepared_again_when_only_upkeep_moved_its_table(
    graph: Graph, kind: str
) -> None:
    with omnigraph.open(graph.uri) as other:
        before = entry(graph, PERSON).version
        came = beside(graph, kind, other.optimize)
        assert entry(graph, PERSON).version > before + 1
    assert not isinstance(came, OmniError), came
    ages = {row["name"]: row["age"] for row in graph.table("Person").to_pylist()}
    assert {"update": ages.get("p2") == 99, "delete": "p3" not in ages, "merge": ages["p5"] == 55}[
        kind
    ]
    assert_settled(graph)


@pytest.mark.parametrize("kind", STRICT)
def test_a_strict_write_still_loses_against_another_write(graph: Graph, kind: str) -> None:
    with omnigraph.open(graph.uri) as other:

        def meanwhile() -> None:
            other.optimize()
            other.mutate(ADD, {"name": "rival"})

        came = beside(graph, kind, meanwhile)
    assert isinstance(came, ManifestConflict)
    assert graph.entity("Person", "rival") is not None
    assert_settled(graph)


def test_after_an_optimise_strict_writes_and_a_merge_from_before_it_work(graph: Graph) -> None:
    """SC-9: no stale view, and the three sides are still told apart."""
    graph.mutate(OLDER, {"name": "p4", "age": 44})
    graph.optimize()
    graph.mutate(OLDER, {"name": "p2", "age": 22})
    assert graph.merge("side").outcome == "merged"
    ages = {row["name"]: row["age"] for row in graph.table("Person").to_pylist()}
    assert (ages["p2"], ages["p4"], ages["p5"]) == (22, 44, 55)
    graph.branch_create("late")
    graph.mutate(OLDER, {"name": "p2", "age": 23}, branch="late")
    graph.optimize()
    graph.mutate(OLDER, {"name": "p2", "age": 24})
    graph.optimize()
    conflicts = graph.merge("late", dry_run=True).conflicts
    assert [(str(c.kind), c.row_id) for c in conflicts] == [("divergent_update", "p2")]
    assert_settled(graph)
