"""Texts that rank by `nearest`: embedded when the first one comes, by whom the handle was told, in the right space."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraphdb
from omnigraphdb.api.graph import Graph
from omnigraphdb.embedding.services import MockEmbedder
from omnigraphdb.errors import ConfigError, EmbeddingError
from tests.support.embedding_server import embedding_service

SCHEMA = """
node Note { key: String @key  body: String  sig: Vector(4)? @embed("body")  strict: Vector(4)? @embed("body", model="acme/e1") }
"""
NEAR = (
    "query q($t: String) { match { $n: Note } return { $n } order { nearest($n.sig, $t) } limit 2 }"
)
STRICT = NEAR.replace("sig", "strict")
WORDS = ("harbour", "glacier", "valley")
VARIABLES = ("OMNIGRAPH_EMBEDDINGS_MOCK", "OMNIGRAPH_EMBED_PROVIDER", "OMNIGRAPH_EMBED_MODEL",
             "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY")  # fmt: skip


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    records = [
        {
            "type": "Note",
            "data": {"key": word, "body": word, "sig": list(MockEmbedder().embed(word, 4))},
        }
        for word in WORDS
    ]
    with omnigraphdb.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(records, mode="append")
    return tmp_path / "g"


@pytest.fixture
def mocked(root: Path) -> Iterator[Graph]:
    with omnigraphdb.open(root, config={"embed_provider": "mock"}) as graph:
        yield graph


@pytest.mark.parametrize("word", WORDS)
def test_a_text_finds_its_own_vector_first(mocked: Graph, word: str) -> None:
    assert mocked.query(NEAR, {"t": word}).rows[0] == {"n": word}
    literal = NEAR.replace("($t: String)", "()").replace("$t", f'"{word}"')
    assert mocked.query(literal).rows[0] == {"n": word}


def test_nothing_is_asked_of_the_environment_before_the_first_text(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with omnigraphdb.open(root) as graph:
        vector = NEAR.replace("$t: String", "$t: Vector(4)")
        assert len(graph.query(vector, {"t": [0.0, 0.0, 0.0, 1.0]})) == 2
        monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
        assert graph.query(NEAR, {"t": "valley"}).rows[0] == {"n": "valley"}


def test_a_missing_key_is_told_with_the_variables_that_could_hold_it(root: Path) -> None:
    with omnigraphdb.open(root) as graph, pytest.raises(EmbeddingError, match="OPENROUTER_API_KEY"):
        graph.query(NEAR, {"t": "valley"})


def test_what_the_handle_was_told_wins_over_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    answer = {"data": [{"embedding": list(MockEmbedder().embed("glacier", 4))}]}
    with embedding_service((200, answer)) as service:
        config = {"embed_provider": "openai", "embed_model": "m1", "embed_base_url": service.url}
        with omnigraphdb.open(root, config=config) as graph:
            assert graph.query(NEAR, {"t": "anything"}).rows[0] == {"n": "glacier"}
            graph.query(NEAR, {"t": "again"})
        assert [one.body["input"] for one in service.asked] == ["anything", "again"]
        assert {one.body["model"] for one in service.asked} == {"m1"}
        assert {one.body["dimensions"] for one in service.asked} == {4}


def test_a_vector_of_another_size_is_refused_and_nothing_is_ranked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with embedding_service((200, {"data": [{"embedding": [1.0, 2.0]}]})) as service:
        config = {"embed_provider": "openai", "embed_base_url": service.url}
        with (
            omnigraphdb.open(root, config=config) as graph,
            pytest.raises(EmbeddingError, match="2 numbers, the property needs 4"),
        ):
            graph.query(NEAR, {"t": "x"})


def test_another_space_than_that_of_the_property_is_refused_by_both_names(mocked: Graph) -> None:
    with pytest.raises(EmbeddingError, match=r"acme/e1.*mock|mock.*acme/e1"):
        mocked.query(STRICT, {"t": "valley"})


def test_the_space_of_the_property_is_taken(root: Path) -> None:
    config = {"embed_provider": "mock", "embed_model": "acme/e1"}
    with omnigraphdb.open(root, config=config) as graph:
        assert graph.query(STRICT, {"t": "valley"}).rows == []


def test_a_provider_nobody_knows_is_refused_with_those_there_are(root: Path) -> None:
    with (
        omnigraphdb.open(root, config={"embed_provider": "opnai"}) as graph,
        pytest.raises(ConfigError, match="did you mean 'openai'"),
    ):
        graph.query(NEAR, {"t": "x"})
