"""Searching finds what is there: with an index, without one, and with one that lags behind."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read import costs, vectors
from tests.support.read_world import World
from tests.support.search_model import by_distance, by_relevance, fused, matching, relevance
from tests.support.table_states import TableState, lay_out_rows

SCHEMA = """
node Note { code: String @key  body: String? @index  shelf: I32 @index  sig: Vector(2)? @index }
node Box { code: String @key }
edge Holds: Box -> Note
"""
WORDS = (
    "rope", "ropes", "Harbour", "harbours", "knot", "knotted", "the", "and", "café", "CAFE",
    "e-mail", "don't", "東京", "straße", "plank", "plan", "planks", "x", "naïve—rope",
)  # fmt: skip

texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
halves = st.sampled_from([0.0, 0.5, 1.0, 1.5, -2.0])
notes = st.lists(
    st.tuples(
        st.one_of(st.none(), texts),
        st.integers(0, 2),
        st.one_of(st.none(), st.tuples(halves, halves)),
    ),
    max_size=12,
)


class Shelf:
    """A world of notes and what it should say."""

    def __init__(self, rows: list[tuple[Any, int, Any]]) -> None:
        self.world = World.of(SCHEMA)
        self.rows = [
            {"id": f"n{number}", "code": f"n{number}", "body": body, "shelf": shelf, "sig": sig}
            for number, (body, shelf, sig) in enumerate(rows)
        ]
        self.texts = {row["id"]: row["body"] for row in self.rows}
        self.vectors = {row["id"]: row["sig"] for row in self.rows}
        self.all = set(self.texts)

    def rewrite(self, row: dict[str, Any], body: str) -> None:
        """Change the text of a note, and its vector with it."""
        changed = row | {"body": body, "sig": (0.5, 0.5)}
        self.rows[self.rows.index(row)] = changed
        self.texts[row["id"]], self.vectors[row["id"]] = body, (0.5, 0.5)
        self.world.merge("Note", [changed])

    def on(self, shelf: int) -> set[str]:
        return {row["id"] for row in self.rows if row["shelf"] <= shelf}

    def ids(self, query: str, **params: Any) -> list[str]:
        return [row[0] for row in self.world.rows(query, params)]


@st.composite
def shelves(draw: st.DrawFn, state: TableState) -> Shelf:
    """Notes in a place, and a box that holds them all."""
    shelf = Shelf(draw(notes))
    box = {"id": "k", "code": "k"}
    held = [{"id": f"h{n}", "src": "k", "dst": row["id"]} for n, row in enumerate(shelf.rows)]
    lay_out_rows(draw, shelf.world, {"Note": shelf.rows, "Box": [box], "Holds": held}, state)
    if shelf.rows and state is not TableState.PAST and draw(st.booleans()):
        shelf.rewrite(draw(st.sampled_from(shelf.rows)), draw(texts))
    return shelf


def check(shelf: Shelf, query: str, distance: int, vector: tuple[float, float], top: int) -> None:
    found, near = matching(shelf.texts, query), matching(shelf.texts, query, distance)
    ids = shelf.ids
    search = "query q($t: String) { match { $n: Note  search($n.body, $t) } return { $n } }"
    assert sorted(ids(search, t=query)) == sorted(found)
    hop = "query q($t: String) { match { $b: Box  $b holds $n  match_text($n.body, $t) } return { $n } }"
    assert sorted(ids(hop, t=query)) == sorted(found)
    fuzzy = (
        "query q($t: String, $d: I32) { match { $n: Note  fuzzy($n.body, $t, $d) } return { $n } }"
    )
    assert sorted(ids(fuzzy, t=query, d=distance)) == sorted(near)
    negated = (
        "query q($t: String) { match { $n: Note  not { search($n.body, $t) } } return { $n } }"
    )
    assert sorted(ids(negated, t=query)) == sorted(shelf.all - found)

    some = shelf.on(1)
    ranked = (
        "query q($t: String) { match { $n: Note  $n.shelf <= 1 } return { $n } "
        f"order {{ bm25($n.body, $t) }} limit {top} }}"
    )
    assert ids(ranked, t=query) == by_relevance(shelf.texts, query, some)[:top]
    nearest = (
        "query q($v: Vector(2)) { match { $n: Note  $n.shelf <= 1 } return { $n } "
        f"order {{ nearest($n.sig, $v) }} limit {top} }}"
    )
    closest = by_distance(shelf.vectors, vector, some)[:top]
    assert ids(nearest, v=vector) == closest
    rrf = (
        "query q($v: Vector(2), $t: String) { match { $n: Note  $n.shelf <= 1 } return { $n } "
        f"order {{ rrf(nearest($n.sig, $v), bm25($n.body, $t)) }} limit {top} }}"
    )
    both = fused(closest, by_relevance(shelf.texts, query, some))
    assert ids(rrf, t=query, v=vector) == both[:top]


def check_scores(shelf: Shelf, query: str) -> None:
    shown = (
        "query q($t: String) { match { $n: Note } return { $n, bm25($n.body, $t) as s } "
        "order { s } }"
    )
    expected = relevance(shelf.texts, query)
    for identity, score in shelf.world.rows(shown, {"t": query}):
        assert score == pytest.approx(expected[identity])


@pytest.mark.parametrize("state", TableState)
@settings(max_examples=4)
@given(
    data=st.data(),
    query=texts,
    distance=st.integers(0, 2),
    vector=st.tuples(halves, halves),
    top=st.integers(0, 6),
    thrifty=st.booleans(),
)
def test_searches_agree_with_looking_at_every_row(
    state: TableState,
    data: st.DataObject,
    query: str,
    distance: int,
    vector: tuple[float, float],
    top: int,
    thrifty: bool,
) -> None:
    shelf = data.draw(shelves(state))
    with pytest.MonkeyPatch.context() as patch:
        if thrifty:
            # Memory is dear: every index that there is must be asked, and vectors come in small blocks.
            patch.setattr(vectors, "_BLOCK_CELLS", 4)
            patch.setattr(vectors, "_SLACK", 0)
            for name in ("SCANNED_ROW", "SCANNED_NUMBER", "KEY_ROW", "EDGE_ROW", "TEXT_ROW"):
                patch.setattr(costs, name, 1e9)
        for cache in (ByteCache(1 << 26), ByteCache(0)):
            shelf.world.cache = cache
            for _ in ("cold", "warm"):
                check(shelf, query, distance, vector, top)
            check_scores(shelf, query)
    shelf.world.close()
