"""Embedders, which turn text into vectors: HTTP services, the mock, and the embedder that is set up on use."""

import json
import math
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from omnigraphdb.embedding.config import DEFAULTS, EmbeddingConfig, Provider, config_of
from omnigraphdb.errors import EmbeddingError, shorten
from omnigraphdb.later import Later
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.values import dataclass

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
            f"model '{model}' of {provider} gave a vector with items that are not finite numbers; "
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


_BITS = (1 << 64) - 1
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3
"""The start and the factor of 64-bit FNV-1a."""

if TYPE_CHECKING:
    from urllib import error as errors
    from urllib import request
else:
    errors, request = Later("urllib.error"), Later("urllib.request")


_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""
_ANSWER_BYTES_MAX = 64 * 1024 * 1024
_REASON_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class _Failed:
    """A try without an answer: its reason, and whether another try may have one."""

    reason: str
    again: bool


def post(
    url: str,
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    config: EmbeddingConfig,
    runtime: Runtime,
) -> Any:
    """Send a document and read the answer, within the configured tries and deadline."""
    start = runtime.monotonic()
    failed = _Failed("no try was made", again=True)
    for tries in range(1, config.attempts_max + 1):
        left = _left(config, runtime.monotonic() - start)
        if left <= 0:
            break
        answer = _send(url, headers, body, min(config.timeout_seconds, left))
        if not isinstance(answer, _Failed):
            return answer
        failed = answer
        if not failed.again or tries == config.attempts_max:
            raise _error(config, failed.reason, tries)
        delay = config.backoff_seconds * 2 ** (tries - 1)
        runtime.wait(min(delay + runtime.jitter(delay), max(left, 0)))
    waited = runtime.monotonic() - start
    raise _error(
        config, f"no answer within {waited:.1f} s; the last try said: {failed.reason}", None
    )


def _left(config: EmbeddingConfig, spent: float) -> float:
    return float("inf") if config.deadline_seconds is None else config.deadline_seconds - spent


def _send(
    url: str, headers: Mapping[str, str], body: Mapping[str, Any], seconds: float
) -> Any | _Failed:
    http_request = request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **headers},
        method="POST",
    )
    try:
        with request.urlopen(http_request, timeout=seconds) as response:
            return json.loads(response.read(_ANSWER_BYTES_MAX))
    except errors.HTTPError as error:
        text = error.read(_REASON_CHARS_MAX).decode(errors="replace")
        return _Failed(
            f"HTTP {error.code}: {shorten(text, _REASON_CHARS_MAX)}", error.code in _BUSY
        )
    except json.JSONDecodeError as error:
        return _Failed(f"the answer is not JSON: {error}", again=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        return _Failed(f"{type(error).__name__}: {reason}", again=isinstance(error, OSError))


def _error(config: EmbeddingConfig, reason: str, tries: int | None) -> EmbeddingError:
    counted = "" if tries is None else f" after {tries} {'try' if tries == 1 else 'tries'}"
    return EmbeddingError(
        f"{config.provider} could not embed the text with model '{config.model}'{counted}: {reason}; "
        "nothing was read",
        details={"embedding": {"provider": str(config.provider), "model": config.model}},
        hint="check the key, the model and the network, or give a vector",
    )


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
    others = (
        f"{key} is set: OMNIGRAPH_EMBED_PROVIDER={provider} uses it"
        for provider, defaults in DEFAULTS.items()
        for key in defaults.keys
        if os.environ.get(key)
    )
    raise EmbeddingError(
        f"a text query is embedded by {config.provider}, which needs a key, and there is none: set {names}; "
        "nothing was read",
        details={"embedding": {"provider": str(config.provider), "model": config.model}},
        hint=next(
            others, f"set {names}, choose another OMNIGRAPH_EMBED_PROVIDER, or give a vector"
        ),
    )


def _vector(
    answer: Any, path: Sequence[str | int], dimension: int, config: EmbeddingConfig
) -> Vector:
    values = answer
    for step in path:
        try:
            values = values[step]
        except (LookupError, TypeError):
            values = None
            break
    if not isinstance(values, list):
        raise EmbeddingError(
            f"the answer of {config.provider} has no vector at {'.'.join(map(str, path))}; nothing was read",
            details={"embedding": {"provider": str(config.provider), "model": config.model}},
            hint=f"check that {config.base_url} is an embedding service of this kind",
        )
    return normalise(values, dimension, provider=str(config.provider), model=config.model)


# ---- the mock
# An embedder for tests and demonstrations: the same text always has the same vector, without a meaning.


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
    """Compute the 64-bit FNV-1a hash of bytes."""
    code = _OFFSET
    for byte in data:
        code = ((code ^ byte) * _PRIME) & _BITS
    return code


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


# ---- set up on use
# An embedder that is set up when a text first needs it, and kept from then on.


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
