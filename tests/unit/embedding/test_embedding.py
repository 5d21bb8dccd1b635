"""Embedding: the stand-in is exact, services are asked in their own form, and every failure is told."""

import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from omnigraphdb.embedding.config import EmbeddingConfig, Provider, config_of
from omnigraphdb.embedding.services import LazyEmbedder, MockEmbedder, embedder_of
from omnigraphdb.errors import ConfigError, EmbeddingError
from omnigraphdb.runtime import SystemRuntime
from tests.support.embedding_server import embedding_service

OPENAI = {"data": [{"embedding": [3.0, 4.0]}]}
GEMINI = {"embedding": {"values": [0.0, 2.0]}}


@dataclass(slots=True)
class QuickRuntime(SystemRuntime):
    """Waiting takes no time but is remembered, and moves the clock."""

    waited: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return sum(self.waited)

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)

    def jitter(self, seconds: float) -> float:
        return 0.0


def config(url: str, **changes: Any) -> EmbeddingConfig:
    plain = EmbeddingConfig(
        provider=Provider.OPENAI_COMPATIBLE, model="acme/e1", base_url=url, api_key="secret"
    )
    return replace(plain, **changes)


# ---- the stand-in


@pytest.mark.parametrize(
    ("text", "vector"),
    [
        ("harbour", (0.07682923, -0.59757479, 0.62901775, 0.49126196)),
        ("glacier", (-0.75484681, -0.06429660, 0.55146219, -0.34923013)),
        ("valley", (-0.30131867, 0.30911383, -0.69302435, 0.57738458)),
    ],
)
def test_the_stand_in_gives_every_text_its_own_vector(text: str, vector: tuple[float]) -> None:
    assert MockEmbedder().embed(text, 4) == pytest.approx(vector, abs=1e-7)
    assert MockEmbedder("another").embed(text, 4) == MockEmbedder().embed(text, 4)
    assert math.hypot(*MockEmbedder().embed(text, 300)) == pytest.approx(1.0)


# ---- configuration


def test_the_environment_says_who_embeds() -> None:
    found = config_of(
        {
            "OMNIGRAPH_EMBED_PROVIDER": "gemini",
            "OMNIGRAPH_EMBED_BASE_URL": "http://here/",
            "OMNIGRAPH_EMBED_MODEL": "m",
            "GEMINI_API_KEY": "g",
            "OMNIGRAPH_EMBED_DEADLINE_MS": "0",
            "OMNIGRAPH_EMBED_TIMEOUT_MS": "1500",
            "OMNIGRAPH_EMBED_RETRY_ATTEMPTS": "2",
            "OMNIGRAPH_EMBED_RETRY_BACKOFF_MS": "10",
        }
    )
    assert found == EmbeddingConfig(
        provider=Provider.GEMINI,
        model="m",
        base_url="http://here",
        api_key="g",
        deadline_seconds=None,
        timeout_seconds=1.5,
        attempts_max=2,
        backoff_seconds=0.01,
    )
    assert "g'" not in repr(found), "a key is never shown"


@pytest.mark.parametrize(
    ("environment", "key"),
    [
        ({"OPENROUTER_API_KEY": "r", "OPENAI_API_KEY": "o"}, "r"),
        ({"OPENAI_API_KEY": "o"}, "o"),
        ({"OMNIGRAPH_EMBED_PROVIDER": "openai", "OPENROUTER_API_KEY": "r"}, None),
        ({"GEMINI_API_KEY": "g"}, None),
    ],
)
def test_each_provider_has_its_own_keys(environment: Mapping[str, str], key: str | None) -> None:
    assert config_of(environment).api_key == key


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_one_variable_puts_the_stand_in_everywhere(value: str) -> None:
    given = {"OMNIGRAPH_EMBEDDINGS_MOCK": value, "OMNIGRAPH_EMBED_PROVIDER": "gemini"}
    assert config_of(given).provider is Provider.MOCK
    assert config_of({"OMNIGRAPH_EMBEDDINGS_MOCK": "0"}).provider is Provider.OPENAI_COMPATIBLE


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OMNIGRAPH_EMBED_PROVIDER", "gemnii", "did you mean 'gemini'"),
        ("OMNIGRAPH_EMBED_TIMEOUT_MS", "soon", "a whole number"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*{said}"):
        config_of({name: value})


def test_nothing_is_set_up_before_the_first_text() -> None:
    calls: list[int] = []

    def broken() -> EmbeddingConfig:
        calls.append(1)
        return config("http://127.0.0.1:9", provider=Provider.MOCK)

    lazy = LazyEmbedder(broken)
    assert calls == []
    assert lazy.embed("harbour", 4) == MockEmbedder().embed("harbour", 4)
    assert lazy.model == "acme/e1"
    assert calls == [1], "it is kept from then on"


def test_a_missing_key_names_the_variables_that_could_hold_it() -> None:
    with pytest.raises(EmbeddingError, match="OPENROUTER_API_KEY or OPENAI_API_KEY") as caught:
        embedder_of(config_of({})).embed("x", 2)
    assert caught.value.details["embedding"]["provider"] == "openai-compatible"


# ---- services


def test_an_openai_service_is_asked_for_the_size_of_the_property() -> None:
    with embedding_service((200, OPENAI)) as service:
        assert embedder_of(config(service.url)).embed("wind", 2) == (0.6, 0.8)
    (asked,) = service.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == "Bearer secret"
    assert asked.body == {
        "model": "acme/e1", "input": "wind", "dimensions": 2, "encoding_format": "float",
    }  # fmt: skip


def test_gemini_is_asked_in_its_own_form() -> None:
    with embedding_service((200, GEMINI)) as service:
        found = embedder_of(config(service.url, provider=Provider.GEMINI)).embed("wind", 2)
    assert found == (0.0, 1.0)
    (asked,) = service.asked
    assert asked.path == "/v1/models/acme/e1:embedContent"
    assert asked.headers["x-goog-api-key"] == "secret"
    assert asked.body["outputDimensionality"] == 2
    assert asked.body["content"] == {"parts": [{"text": "wind"}]}


def test_a_busy_service_is_asked_again_ever_later() -> None:
    runtime = QuickRuntime()
    with embedding_service((503, {}), (429, {}), (200, OPENAI)) as service:
        assert embedder_of(config(service.url), runtime).embed("wind", 2) == (0.6, 0.8)
    assert len(service.asked) == 3
    assert runtime.waited == [0.2, 0.4]


def test_after_the_last_try_the_reason_is_told() -> None:
    with (
        embedding_service((500, {"error": "out of order"})) as service,
        pytest.raises(EmbeddingError, match=r"after 4 tries: HTTP 500.*out of order") as caught,
    ):
        embedder_of(config(service.url), QuickRuntime()).embed("wind", 2)
    assert len(service.asked) == 4
    assert "secret" not in str(caught.value)


def test_a_refusal_is_not_repeated() -> None:
    with (
        embedding_service((401, {"error": "bad key"})) as service,
        pytest.raises(EmbeddingError, match=r"after 1 try: HTTP 401"),
    ):
        embedder_of(config(service.url), QuickRuntime()).embed("wind", 2)
    assert len(service.asked) == 1


def slow(url: str) -> EmbeddingConfig:
    return config(url, deadline_seconds=1.0, backoff_seconds=0.7, attempts_max=9)


def test_a_deadline_ends_the_tries() -> None:
    with (
        embedding_service((503, {})) as service,
        pytest.raises(EmbeddingError, match=r"no answer within 1\.0 s.*HTTP 503"),
    ):
        embedder_of(slow(service.url), QuickRuntime()).embed("wind", 2)
    assert len(service.asked) == 2


def test_an_unreachable_service_is_told_as_such() -> None:
    with socket.socket() as deaf:
        # Bound and not listening: refused, and given to nobody else meanwhile.
        deaf.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        embedder = embedder_of(config(gone, attempts_max=2), QuickRuntime())
        with pytest.raises(EmbeddingError, match="after 2 tries"):
            embedder.embed("wind", 2)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"data": [{"embedding": [1.0, 2.0, 3.0]}]}, "3 numbers, the property needs 2"),
        ({"data": [{"embedding": [0.0, 0.0]}]}, "a vector of zeros"),
        ({"data": [{"embedding": [1.0, None]}]}, "not finite numbers"),
        (b'{"data": [{"embedding": [1.0, NaN]}]}', "not finite numbers"),
        ({"data": []}, "no vector at data.0.embedding"),
        (b"<html>", "not JSON"),
    ],
)
def test_a_doubtful_answer_is_refused(answer: Any, said: str) -> None:
    with (
        embedding_service((200, answer)) as service,
        pytest.raises(EmbeddingError, match=said),
    ):
        embedder_of(config(service.url), QuickRuntime()).embed("wind", 2)
