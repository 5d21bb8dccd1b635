"""Row ids, places and slots: one way there, one way back, whatever gaps and orders there are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraphdb.engine.read.columns.row_ids import ABSENT
from omnigraphdb.engine.read.columns.row_offsets import build_row_offsets
from omnigraphdb.engine.read.graph.adjacency import (
    Ends,
    NeighbourUnit,
    add_edges,
    compress,
    make_slots,
)

close = st.lists(st.integers(0, 30), unique=True, max_size=20)
far = st.lists(st.integers(0, 2**40), unique=True, max_size=8)
runs = st.tuples(st.integers(0, 5), st.integers(0, 9)).map(
    lambda one: list(range(one[0], sum(one)))
)
row_ids = st.one_of(close, far, runs)


def numbers(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(ids=row_ids, asked=st.lists(st.integers(-1, 40), max_size=10))
def test_every_row_is_found_at_its_place_and_nothing_else_is(
    ids: list[int], asked: list[int]
) -> None:
    places = build_row_offsets(numbers(ids))
    assert places.all().tolist() == ids
    assert places.of(numbers(ids)).tolist() == list(range(len(ids)))
    assert places.at(numbers(list(range(len(ids))))).tolist() == ids
    expected = [ids.index(one) if one in ids else ABSENT for one in asked]
    assert places.of(numbers(asked)).tolist() == expected
    assert [places.offset_of(one) for one in asked if one >= 0] == [
        at for one, at in zip(asked, expected, strict=True) if one >= 0
    ]
    assert places.at(numbers([ABSENT])).tolist() == [ABSENT]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]], list[tuple[int, int]]]:
    ids = draw(st.one_of(close, far).filter(bool))
    pairs = st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=12)
    return ids, draw(pairs), draw(pairs)


def ends_of(pairs: list[tuple[int, int]], first: int = 0) -> Ends:
    return Ends(
        near=numbers([one for one, _ in pairs]),
        far=numbers([other for _, other in pairs]),
        edges=numbers(list(range(first, first + len(pairs)))),
    )


@given(graph=graphs(), each=st.sampled_from(NeighbourUnit))
def test_walking_meets_exactly_the_neighbours(
    graph: tuple[list[int], list[tuple[int, int]], list[tuple[int, int]]], each: NeighbourUnit
) -> None:
    ids, before, later = graph
    slots = make_slots(build_row_offsets(numbers(ids)))
    grown = add_edges(compress(slots, ends_of(before), each), slots, ends_of(later, len(before)))
    pairs = [*before, *later]
    asked = [*ids, ABSENT, *ids[:1]]
    for adjacency in (grown, compress(slots, ends_of(pairs), each)):
        walk = adjacency.walk(numbers(asked))
        met = list(zip(walk.rows.tolist(), walk.targets.tolist(), strict=True))
        wanted = [
            (row, other)
            for row, node in enumerate(asked)
            for one, other in (pairs if each is NeighbourUnit.EDGE else set(pairs))
            if one == node
        ]
        assert sorted(met) == sorted(wanted)
        assert [row for row, _ in met] == sorted(row for row, _ in met)
        assert adjacency.degrees(numbers(asked)).tolist() == [
            sum(row == offset_of for row, _ in wanted) for offset_of in range(len(asked))
        ]
        if each is NeighbourUnit.PAIR:
            both = [(one, other) for one in asked for other in asked]
            connected = adjacency.connected(
                numbers([one for one, _ in both]), numbers([other for _, other in both])
            )
            assert connected.tolist() == [pair in pairs for pair in both]
        else:
            assert walk.edges is not None
            assert all(
                pairs[edge] == (asked[row], target)
                for (row, target), edge in zip(met, walk.edges.tolist(), strict=True)
            )
