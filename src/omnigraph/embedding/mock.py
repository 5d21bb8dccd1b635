"""An embedder for tests and demonstrations: the same text always has the same vector, without a meaning."""

import struct
from collections.abc import Iterator

from omnigraph.embedding.embedder import Vector, normalise
from omnigraph.values import dataclass

_BITS = (1 << 64) - 1
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
"""The start and the factor of 64-bit FNV-1a."""


@dataclass(frozen=True, slots=True)
class MockEmbedder:
    """Random vectors, seeded by the text; the model's name changes nothing."""

    model: str = "mock"

    def embed(self, text: str, dimension: int) -> Vector:
        """Give the vector of a text."""
        states = _states(_hash(text.encode()))
        values = [_single(next(states) / _BITS * 2 - 1) for _ in range(dimension)]
        return normalise(values, dimension, provider="mock", model=self.model)


def _hash(data: bytes) -> int:
    """64-bit FNV-1a."""
    found = _OFFSET
    for byte in data:
        found = ((found ^ byte) * _PRIME) & _BITS
    return found


def _states(state: int) -> Iterator[int]:
    """Marsaglia's 64-bit xorshift with 13, 7 and 17."""
    while True:
        state ^= (state << 13) & _BITS
        state ^= state >> 7
        state ^= (state << 17) & _BITS
        yield state


def _single(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded
