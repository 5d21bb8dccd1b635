"""Search on tables large enough for an index to be worth asking, and what each search promises."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from omnigraphdb.embedding.services import MockEmbedder
from omnigraphdb.engine.cached.cache import ByteCache
from omnigraphdb.engine.read import costs, vectors
from omnigraphdb.engine.read.profile import Profile
from omnigraphdb.engine.read.run import run
from omnigraphdb.engine.read.text.postings import Vocabulary, terms_of
from omnigraphdb.errors import EmbeddingError
from omnigraphdb.ids import TableKey
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.lance.search import tokens, tokens_of_each
from tests.support.read_world import World, table_rows
from tests.support.search_model import by_distance, edits

ROWS = 4_000
NOTE = TableKey("node:Note")


@pytest.fixture(scope="module")
def shared() -> Iterator[World]:
    world = World.of(
        """
        node Note { code: String @key  shelf: I32  body: String @index  sig: Vector(3)? @index }
        node Place { code: String @key  sig: Vector(4) @embed("code", model="acme/e1") }
        """
    )
    chance = np.random.default_rng(3)
    # Few different values, so that many distances are equal and ids must decide.
    items = chance.integers(0, 4, (ROWS, 3)).astype(float)
    rows = [
        {
            "id": f"n{number:05d}",
            "code": f"n{number:05d}",
            "shelf": number % 10,
            "body": f"word{number % 50} rope",
            "sig": None if number % 97 == 0 else tuple(items[number].tolist()),
        }
        for number in chance.permutation(ROWS)
    ]
    world.append("Note", rows[:3_000])
    world.index("Note")
    world.append("Note", rows[3_000:])
    world.delete("Note", ["n00001", "n00002"])
    world.append("Place", [{"id": "a", "code": "a", "sig": (1.0, 0.0, 0.0, 0.0)}])
    yield world
    world.close()


@pytest.fixture
def notes(shared: World) -> World:
    """Notes of which nothing is held."""
    shared.cache = ByteCache(1 << 26)
    return shared


def vectors_of(world: World) -> dict[str, tuple[float, ...] | None]:
    table = world.store.tables.open(world.at[NOTE]).read(("id", "sig"))
    return dict(zip(table["id"].to_pylist(), table["sig"].to_pylist(), strict=True))


def ranked_with_notes(
    world: World, query: str, params: dict[str, object]
) -> tuple[list[str], set[str]]:
    profile = Profile(SYSTEM.monotonic)
    plan = world.plan(query)
    rows = table_rows(run(world.reader(plan, params, profile=profile)))
    said = {note for one in plan.operators for note in profile.of(one).notes}
    return [row[0] for row in rows], said


@pytest.mark.parametrize("top", [1, 7, 60, 500])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("cells", [1 << 20, 64])
def test_the_closest_come_first_and_equal_distances_by_id(
    notes: World, monkeypatch: pytest.MonkeyPatch, top: int, indexed: bool, cells: int
) -> None:
    monkeypatch.setattr(vectors, "_BLOCK_CELLS", cells)
    if indexed:
        monkeypatch.setattr(costs, "SCANNED_ROW", 1.0)
    query = (
        "query q($v: Vector(3)) { match { $n: Note } return { $n } "
        f"order {{ nearest($n.sig, $v) }} limit {top} }}"
    )
    found, said = ranked_with_notes(notes, query, {"v": (1.0, 2.0, 3.0)})
    known = vectors_of(notes)
    assert found == by_distance(known, (1.0, 2.0, 3.0), set(known))[:top]
    assert any("vector index" in note for note in said) == indexed


@pytest.mark.parametrize("shelves", [1, 5])
def test_a_filter_leaves_enough_to_fill_the_limit(
    notes: World, monkeypatch: pytest.MonkeyPatch, shelves: int
) -> None:
    monkeypatch.setattr(costs, "SCANNED_ROW", 1.0)
    monkeypatch.setattr(vectors, "_SLACK", 1)
    query = (
        f"query q($v: Vector(3)) {{ match {{ $n: Note  $n.shelf < {shelves} }} return {{ $n }} "
        "order { nearest($n.sig, $v) } limit 25 }"
    )
    found, _ = ranked_with_notes(notes, query, {"v": (0.5, 0.5, 0.5)})
    known = vectors_of(notes)
    some = {one for one in known if int(one[1:]) % 10 < shelves}
    assert found == by_distance(known, (0.5, 0.5, 0.5), some)[:25]


def test_a_cold_search_asks_the_index_and_the_rows_it_does_not_cover(notes: World) -> None:
    query = 'query q() { match { $n: Note  search($n.body, "WORD7") } return { $n } }'
    found, said = ranked_with_notes(notes, query, {})
    assert said >= {"text index on body"}
    assert len(found) == ROWS // 50
    for _ in range(40):
        notes.rows(query)
    warm, said = ranked_with_notes(notes, query, {})
    assert said >= {"terms of body in memory"}
    assert sorted(warm) == sorted(found)


def test_scores_do_not_depend_on_filters(notes: World) -> None:
    shown = (
        'query q() {{ match {{ $n: Note {filter} }} return {{ $n, bm25($n.body, "word7") as s }} '
        "order {{ s }} }}"
    )
    everywhere = dict(notes.rows(shown.format(filter="")))
    some = dict(notes.rows(shown.format(filter="{ shelf: 7 }")))
    assert some
    assert some == {one: everywhere[one] for one in some}


def test_a_fused_score_counts_the_places_in_both_rankings(notes: World) -> None:
    query = (
        'query q($v: Vector(3)) { match { $n: Note } return { $n, rrf(nearest($n.sig, $v), bm25($n.body, "word7")) as s } '
        "order { s } limit 3 }"
    )
    rows = notes.rows(query, {"v": (1.0, 2.0, 3.0)})
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    assert rows[0][1] == pytest.approx(1 / 61)


def test_a_distance_can_be_shown(notes: World) -> None:
    query = (
        "query q($v: Vector(3)) { match { $n: Note } return { $n, nearest($n.sig, $v) as d } "
        "order { d } limit 2 }"
    )
    table = notes.table(query, {"v": (0.0, 0.0, 0.5)})
    assert table.schema.field("d").type == pa.float64()
    assert table_rows(table)[0][1] == 0.25


def test_a_text_is_embedded_in_the_space_of_the_property(notes: World) -> None:
    query = 'query q() { match { $p: Place } return { $p } order { nearest($p.sig, "x") } limit 1 }'
    with pytest.raises(EmbeddingError, match=r"'acme/e1'.*'mock'"):
        notes.rows(query)
    assert notes.rows(query, embedder=MockEmbedder("acme/e1")) == [("a",)]


WORDS = ["rope", "ropes", "robe", "rop", "europe", "plank", "plan", "x", "ab", "ba", "東京", "東"]


@pytest.mark.parametrize("distance", [0, 1, 2, 3])
def test_near_terms_are_those_within_the_distance(distance: int) -> None:
    vocabulary = Vocabulary()
    numbers = vocabulary.add(WORDS)
    for word in WORDS:
        near = {WORDS[number] for number in vocabulary.near(word, distance)}
        assert near == {other for other in WORDS if edits(word, other) <= distance}
    assert numbers.tolist() == list(range(len(WORDS)))


@pytest.mark.parametrize(
    "words",
    [
        ["the", "rope"],
        ["rope", "the"],
        ["the", "of"],
        ["a" * 41, "x"],
        ["don't", "the", "knots"],
        [],
    ],
)
def test_words_are_cut_together_as_each_alone(words: list[str]) -> None:
    assert list(tokens_of_each(words)) == [tokens(word) for word in words]


def test_texts_are_cut_as_the_analyser_cuts_them() -> None:
    texts = [
        "the", "Ropes, and knots", None, "", "don't e-mail me@example.org", "naïve—Straße\t東京タワー",
        "the of", "the rope", "a" * 41, "x" * 40 + " y", "U.S.A. 3.14 ²½", "word\u00a0joined\u2003here",
    ]  # fmt: skip
    vocabulary = Vocabulary()
    places, terms = terms_of(pa.array(texts), vocabulary)
    for place, text in enumerate(texts):
        found = terms[places == place].tolist()
        assert found == [vocabulary.number(term) for term in tokens(text or "")]


@pytest.mark.parametrize("indexed", [False, True], ids=["scanned", "indexed"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("coruna", ["a", "b"]),
        ("CORUÑA", ["a", "b"]),
        ("lodz", ["a", "b"]),
        ("œuvre", ["a", "b"]),
        # English stemming comes before folding and shortens only the spelling without accents.
        ("resume", ["b"]),
        ("résumé", ["a"]),
    ],
)
def test_accents_are_folded_after_stemming(query: str, found: list[str], *, indexed: bool) -> None:
    world = World.of("node Note { code: String @key  body: String @index }")
    world.append("Note", [{"id": "a", "code": "a", "body": "Coruña Łódź œuvre résumé"}])
    world.append("Note", [{"id": "b", "code": "b", "body": "coruna lodz oeuvre resume"}])
    if indexed:
        world.index("Note")
    text = f'query q() {{ match {{ $n: Note  search($n.body, "{query}") }} return {{ $n }} order {{ $n.code }} }}'
    assert [row[0] for row in world.rows(text)] == found
    world.close()
