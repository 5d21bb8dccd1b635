"""Adjacencies: what is walked is what the edges say, made at once or changed edge by edge."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.compile.checked import Direction
from omnigraphdb.engine.read.columns.row_ids import ABSENT, RowIds, stable_order
from omnigraphdb.engine.read.graph.adjacency import (
    Ends,
    NeighbourUnit,
    Slots,
    add_edges,
    compress,
)

NODES = 12
ends_of = st.lists(st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), max_size=40)
spread_out = st.booleans()


def numbers(values: list[int]) -> RowIds:
    return np.array(values, dtype=np.int64)


def ends(pairs: list[tuple[int, int]], first: int = 0) -> Ends:
    return Ends(
        near=numbers([a for a, _ in pairs]),
        far=numbers([b for _, b in pairs]),
        edges=numbers(list(range(first, first + len(pairs)))),
    )


def slots(sparse: bool) -> Slots:
    return Slots(0, NODES, numbers(list(range(NODES)))) if sparse else Slots(0, NODES)


@given(pairs=ends_of, sparse=spread_out, direction=st.sampled_from(Direction))
def test_every_neighbour_is_walked_to_once(
    pairs: list[tuple[int, int]], sparse: bool, direction: Direction
) -> None:
    found = compress(slots(sparse), ends(pairs).oriented(direction), NeighbourUnit.PAIR)
    forward, back = {(a, b) for a, b in pairs}, {(b, a) for a, b in pairs}
    expected = {
        Direction.OUT: forward, Direction.IN: back, Direction.BOTH: forward | back
    }[direction]  # fmt: skip
    walk = found.walk(np.arange(NODES))
    assert list(zip(walk.rows.tolist(), walk.targets.tolist(), strict=True)) == sorted(expected)
    assert found.degrees(np.arange(NODES)).tolist() == [
        sum(a == node for a, _ in expected) for node in range(NODES)
    ]
    left, right = np.divmod(np.arange(NODES * NODES), NODES)
    marked = found.connected(left, right)
    assert {(int(a), int(b)) for a, b in zip(left[marked], right[marked], strict=True)} == expected


@given(pairs=ends_of, sparse=spread_out)
def test_every_edge_is_walked_with_its_number(pairs: list[tuple[int, int]], sparse: bool) -> None:
    found = compress(slots(sparse), ends(pairs), NeighbourUnit.EDGE)
    walk = found.walk(np.arange(NODES))
    assert walk.edges is not None
    rows = zip(walk.rows.tolist(), walk.targets.tolist(), walk.edges.tolist(), strict=True)
    assert sorted(rows) == sorted((a, b, n) for n, (a, b) in enumerate(pairs))


@given(before=ends_of, more=ends_of, sparse=spread_out, each=st.sampled_from(NeighbourUnit))
def test_edges_added_later_give_what_all_at_once_give(
    before: list[tuple[int, int]], more: list[tuple[int, int]], sparse: bool, each: NeighbourUnit
) -> None:
    start = compress(slots(sparse), ends(before), each)
    grown = add_edges(start, slots(sparse), ends(more, len(before)))
    whole = compress(slots(sparse), ends([*before, *more]), each)
    assert grown.offsets.tolist() == whole.offsets.tolist()
    nodes = np.arange(NODES)
    one, two = grown.walk(nodes), whole.walk(nodes)
    assert Counter(zip(one.rows.tolist(), one.targets.tolist(), strict=True)) == Counter(
        zip(two.rows.tolist(), two.targets.tolist(), strict=True)
    )
    if each is NeighbourUnit.PAIR:
        assert grown.targets.tolist() == whole.targets.tolist()
    else:
        assert one.edges is not None
        assert two.edges is not None
        assert sorted(one.edges.tolist()) == sorted(two.edges.tolist())


def test_many_edges_at_once_are_put_in_as_few_are() -> None:
    pairs = [(n % NODES, n * 7 % NODES) for n in range(500)]
    start = compress(slots(False), ends(pairs[:300]), NeighbourUnit.EDGE)
    grown = add_edges(start, slots(False), ends(pairs[300:], 300))
    assert sorted(grown.edges.tolist() if grown.edges is not None else []) == list(range(500))


@pytest.mark.parametrize("sparse", [False, True])
def test_nobody_and_a_node_that_is_not_there_have_no_neighbours(sparse: bool) -> None:
    found = compress(slots(sparse), ends([(0, 1), (0, 1), (2, 0)]), NeighbourUnit.PAIR)
    for node in (ABSENT, NODES, 10_000):
        assert len(found.walk(numbers([node])).targets) == 0
        assert found.degrees(numbers([node, 0])).tolist() == [0, 1]
    assert found.walk(numbers([0])).targets.tolist() == [1]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("low", [0, 4])
def test_whoever_is_no_node_has_the_slot_past_the_end(kind: type, low: int) -> None:
    """Two narrow numbers are not taken for a wide one."""
    slots = Slots(low, 5)
    inside: npt.NDArray[Any] = np.arange(low, low + 5, dtype=kind)
    assert slots.of(inside).tolist() == [0, 1, 2, 3, 4]
    for strange in (-1, low - 1, low + 5, 2**31 - 1):
        assert slots.of(np.array([low, strange], dtype=kind)).tolist() == [0, 5]
    assert slots.of(inside[:0]).tolist() == []


def test_slots_far_apart_are_found_by_number() -> None:
    sparse = Slots(0, 3, numbers([5, 1_000_000, 2**40]))
    found = compress(sparse, ends([(5, 2**40), (2**40, 5)]), NeighbourUnit.PAIR)
    assert found.walk(numbers([2**40])).targets.tolist() == [5]
    assert found.walk(numbers([6, 5])).targets.tolist() == [2**40]
    assert not sparse.extends(Slots(0, 3))
    assert Slots(0, 9).extends(Slots(0, 3))


def test_numbers_too_large_to_be_put_together_are_paired_all_the_same() -> None:
    far = numbers([2**61, 5, 2**61, 5])
    pairs = Ends(near=numbers([3, 3, 3, 1]), far=far, edges=far)
    found = compress(Slots(0, NODES), pairs, NeighbourUnit.PAIR)
    walk = found.walk(np.arange(NODES))
    assert list(zip(walk.rows.tolist(), walk.targets.tolist(), strict=True)) == [
        (1, 5),
        (3, 5),
        (3, 2**61),
    ]


@given(keys=st.lists(st.integers(0, 200_000), max_size=200))
def test_the_order_of_keys_is_stable(keys: list[int]) -> None:
    found = stable_order(numbers(keys), 200_001)
    assert found.tolist() == sorted(range(len(keys)), key=lambda place: (keys[place], place))
