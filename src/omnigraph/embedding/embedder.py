"""The seam to embedding: whoever turns a text into a vector of a given size."""

from typing import NoReturn, Protocol

from omnigraph.errors import EmbeddingError

Vector = tuple[float, ...]


class Embedder(Protocol):
    """Turns texts into vectors of one space; safe to share between threads."""

    @property
    def model(self) -> str:
        """The model whose space the vectors are in."""
        ...

    def embed(self, text: str, dimension: int) -> Vector:
        """Give the normalised vector of a text, or raise `EmbeddingError`."""
        ...


class NoEmbedder:
    """Stands where embedding was not set up."""

    @property
    def model(self) -> NoReturn:
        """There is none."""
        raise self._error()

    def embed(self, text: str, dimension: int) -> NoReturn:
        """There is nobody to do it."""
        raise self._error()

    @staticmethod
    def _error() -> EmbeddingError:
        return EmbeddingError(
            "a text query needs an embedding provider, and this reader has none; nothing was read",
            hint="give a vector, or open the graph with an embedding provider",
        )
