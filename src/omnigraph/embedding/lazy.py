"""An embedder that is set up when a text first needs it, and kept from then on."""

import threading
from collections.abc import Callable
from typing import assert_never

from omnigraph.embedding.config import EmbeddingConfig, Provider, config_of
from omnigraph.embedding.embedder import Embedder, Vector
from omnigraph.embedding.mock import MockEmbedder
from omnigraph.embedding.services import GeminiEmbedder, OpenAiEmbedder
from omnigraph.runtime import SYSTEM, Runtime


class LazyEmbedder:
    """Reads its configuration, from the environment unless one is given, at the first text; not before."""

    def __init__(
        self, config: Callable[[], EmbeddingConfig] = config_of, runtime: Runtime = SYSTEM
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None

    @property
    def model(self) -> str:
        """The model whose space the vectors are in."""
        return self._ready().model

    def embed(self, text: str, dimension: int) -> Vector:
        """Give the normalised vector of a text."""
        return self._ready().embed(text, dimension)

    def _ready(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                self._embedder = embedder_of(self._config(), self._runtime)
            return self._embedder


def embedder_of(config: EmbeddingConfig, runtime: Runtime = SYSTEM) -> Embedder:
    """Give the embedder of a configuration; nothing is asked yet."""
    match config.provider:
        case Provider.OPENAI_COMPATIBLE | Provider.OPENAI:
            return OpenAiEmbedder(config, runtime)
        case Provider.GEMINI:
            return GeminiEmbedder(config, runtime)
        case Provider.MOCK:
            return MockEmbedder(config.model)
        case _:
            assert_never(config.provider)
