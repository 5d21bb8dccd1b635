"""Embedding services: what OpenAI-compatible ones and Gemini are asked, and where the vector is in the answer."""

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from omnigraph.embedding.config import DEFAULTS, EmbeddingConfig
from omnigraph.embedding.embedder import Vector
from omnigraph.embedding.requests import post
from omnigraph.embedding.vectors import normalise
from omnigraph.errors import EmbeddingError
from omnigraph.runtime import SYSTEM, Runtime
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class OpenAiEmbedder:
    """Asks `/embeddings` in OpenAI's form, which many services speak."""

    config: EmbeddingConfig
    runtime: Runtime = field(default_factory=lambda: SYSTEM, repr=False)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.config.model

    def embed(self, text: str, dimension: int) -> Vector:
        """Give the vector of a text."""
        answer = post(
            f"{self.config.base_url}/embeddings",
            {"Authorization": f"Bearer {_key(self.config)}"},
            {
                "model": self.config.model,
                "input": text,
                "dimensions": dimension,
                "encoding_format": "float",
            },
            self.config,
            self.runtime,
        )
        return _vector(answer, ("data", 0, "embedding"), dimension, self.config)


@dataclass(frozen=True, slots=True)
class GeminiEmbedder:
    """Asks `:embedContent` in Gemini's form."""

    config: EmbeddingConfig
    runtime: Runtime = field(default_factory=lambda: SYSTEM, repr=False)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.config.model

    def embed(self, text: str, dimension: int) -> Vector:
        """Give the vector of a text."""
        name = self.config.model.removeprefix("models/")
        answer = post(
            f"{self.config.base_url}/models/{name}:embedContent",
            {"x-goog-api-key": _key(self.config)},
            {
                "model": f"models/{name}",
                "content": {"parts": [{"text": text}]},
                "taskType": "RETRIEVAL_QUERY",
                "outputDimensionality": dimension,
            },
            self.config,
            self.runtime,
        )
        return _vector(answer, ("embedding", "values"), dimension, self.config)


def _key(config: EmbeddingConfig) -> str:
    if config.api_key:
        return config.api_key
    names = " or ".join(DEFAULTS[config.provider].keys)
    raise EmbeddingError(
        f"a text query is embedded by {config.provider}, which needs a key, and there is none: set {names}; "
        "nothing was read",
        details={"embedding": {"provider": str(config.provider), "model": config.model}},
        hint=f"set {names}, choose another OMNIGRAPH_EMBED_PROVIDER, or give a vector",
    )


def _vector(
    answer: Any, path: Sequence[str | int], dimension: int, config: EmbeddingConfig
) -> Vector:
    found = answer
    for step in path:
        try:
            found = found[step]
        except (LookupError, TypeError):
            found = None
            break
    if not isinstance(found, list):
        raise EmbeddingError(
            f"the answer of {config.provider} has no vector at {'.'.join(map(str, path))}; nothing was read",
            details={"embedding": {"provider": str(config.provider), "model": config.model}},
            hint=f"check that {config.base_url} is an embedding service of this kind",
        )
    return normalise(found, dimension, provider=str(config.provider), model=config.model)
