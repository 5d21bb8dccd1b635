"""What turns text into vectors, and what a vector must be."""

import math
from collections.abc import Sequence
from typing import Protocol

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


def normalise(values: Sequence[object], dimension: int, *, provider: str, model: str) -> Vector:
    """Check what a provider gave and bring it to length one; anything doubtful is refused."""
    facts = {"embedding": {"provider": provider, "model": model}}
    if len(values) != dimension:
        raise EmbeddingError(
            f"model '{model}' of {provider} gave a vector of {len(values)} numbers, "
            f"the property needs {dimension}; nothing was read",
            details=facts,
            hint="use a model that gives this size, or declare the property with that of the model",
        )
    numbers = [
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if len(numbers) < len(values) or not all(map(math.isfinite, numbers)):
        raise EmbeddingError(
            f"model '{model}' of {provider} gave a vector with items that are no finite numbers; "
            "nothing was read",
            details=facts,
        )
    length = math.sqrt(math.fsum(number * number for number in numbers))
    if length == 0.0:
        raise EmbeddingError(
            f"model '{model}' of {provider} gave a vector of zeros, which is close to nothing; "
            "nothing was read",
            details=facts,
        )
    return tuple(number / length for number in numbers)
