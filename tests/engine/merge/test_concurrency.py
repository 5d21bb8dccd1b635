"""Merges among other writers: no deadlock, nothing lost, one chain per branch."""

import itertools
from collections.abc import Callable

from omnigraphdb.api.graph import Graph
from omnigraphdb.errors import ConflictError
from tests.engine.merge.conftest import assert_settled
from tests.engine.merge.test_scenarios import add, names
from tests.support.writers import in_threads

ROUNDS = 6


def repeated(work: Callable[[int], object]) -> Callable[[], None]:
    """Do something several times; a typed conflict is answered by trying again."""

    def run() -> None:
        for number in range(ROUNDS):
            for _ in range(20):
                try:
                    work(number)
                    break
                except ConflictError:
                    continue
            else:
                raise AssertionError("never got through")

    return run


def assert_one_chain(graph: Graph, branch: str) -> None:
    chain = graph.commits(branch=branch)
    by_id = {commit.id: commit for commit in chain}
    first_parents = [chain[0]]
    while (parent := first_parents[-1].parent) is not None:
        first_parents.append(by_id[parent])
    assert len(first_parents) == len(chain)
    assert all(newer.parent == older.id for newer, older in itertools.pairwise(first_parents))


def test_merges_into_different_targets_and_writes_elsewhere_proceed_together(graph: Graph) -> None:
    for name in ("one", "two", "left", "right", "apart"):
        graph.branch_create(name)

    def merging(source: str, target: str) -> Callable[[int], None]:
        def work(number: int) -> None:
            add(graph, f"{source} {number}", source)
            graph.merge(source, into=target)

        return work

    works = [
        repeated(merging("one", "left")),
        repeated(merging("two", "right")),
        repeated(lambda number: add(graph, f"apart {number}", "apart")),
    ]
    assert in_threads(works) == [None] * 3
    for source, target in (("one", "left"), ("two", "right")):
        assert {f"{source} {n}" for n in range(ROUNDS)} <= names(graph, target)
        assert_one_chain(graph, target)
    assert {f"apart {n}" for n in range(ROUNDS)} <= names(graph, "apart")
    assert_settled(graph)


def test_two_merges_and_a_writer_on_one_target_lose_nothing(graph: Graph) -> None:
    for name in ("one", "two"):
        graph.branch_create(name)

    def merging(source: str) -> Callable[[int], None]:
        def work(number: int) -> None:
            add(graph, f"{source} {number}", source)
            graph.merge(source)

        return work

    works = [
        repeated(merging("one")),
        repeated(merging("two")),
        repeated(lambda number: add(graph, f"main {number}")),
    ]
    assert in_threads(works) == [None] * 3
    expected = {f"{name} {n}" for name in ("one", "two", "main") for n in range(ROUNDS)}
    assert expected <= names(graph)
    assert_one_chain(graph, "main")
    assert_settled(graph)
