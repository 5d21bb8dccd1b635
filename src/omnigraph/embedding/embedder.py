"""The seam to embedding: whoever turns a text into a vector of a given size."""

from typing import Protocol

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
