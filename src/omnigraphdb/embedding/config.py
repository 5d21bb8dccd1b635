"""The configuration of embedding: provider, model, key and bounds of retries; from a caller or the environment."""

import os
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from omnigraphdb.errors import ConfigError, did_you_mean, suggestion
from omnigraphdb.logs import get_logger
from omnigraphdb.values import dataclass

_log = get_logger(__name__)

PREFIX = "OMNIGRAPH_EMBED_"
MOCK = "OMNIGRAPH_EMBEDDINGS_MOCK"


class Provider(StrEnum):
    """Kinds of embedding services that the package can ask."""

    OPENAI_COMPATIBLE = "openai-compatible"
    OPENAI = "openai"
    GEMINI = "gemini"
    MOCK = "mock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The settings of a provider that hold unless they are overridden."""

    base_url: str
    model: str
    keys: tuple[str, ...]


DEFAULTS: Mapping[Provider, Defaults] = {
    Provider.OPENAI_COMPATIBLE: Defaults(
        base_url="https://openrouter.ai/api/v1",
        model="openai/text-embedding-3-large",
        keys=("OPENROUTER_API_KEY", "OPENAI_API_KEY"),
    ),
    Provider.OPENAI: Defaults(
        base_url="https://api.openai.com/v1",
        model="text-embedding-3-large",
        keys=("OPENAI_API_KEY",),
    ),
    Provider.GEMINI: Defaults(
        base_url="https://generativelanguage.googleapis.com/v1beta",
        model="gemini-embedding-001",
        keys=("GEMINI_API_KEY",),
    ),
    Provider.MOCK: Defaults(base_url="", model="mock", keys=()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingConfig:
    """Everything a provider needs; a deadline of None waits as long as the tries last."""

    provider: Provider
    model: str
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    deadline_seconds: float | None = 60.0
    timeout_seconds: float = 30.0
    attempts_max: int = 4
    backoff_seconds: float = 0.2


def config_of(environment: Mapping[str, str] | None = None) -> EmbeddingConfig:
    """Read the configuration from the environment; a missing key is not missed before it is needed."""
    variables = os.environ if environment is None else environment
    provider = _provider(variables)
    defaults = DEFAULTS[provider]
    keys = (variables.get(name) for name in defaults.keys)
    deadline = _number(variables, "DEADLINE_MS", 60_000)
    return EmbeddingConfig(
        provider=provider,
        model=variables.get(f"{PREFIX}MODEL") or defaults.model,
        base_url=(variables.get(f"{PREFIX}BASE_URL") or defaults.base_url).rstrip("/"),
        api_key=next((key for key in keys if key), None),
        deadline_seconds=deadline / 1000 if deadline else None,
        timeout_seconds=_number(variables, "TIMEOUT_MS", 30_000) / 1000,
        attempts_max=max(1, _number(variables, "RETRY_ATTEMPTS", 4)),
        backoff_seconds=_number(variables, "RETRY_BACKOFF_MS", 200) / 1000,
    )


def choose_config(
    provider: str | None = None, model: str | None = None, base_url: str | None = None
) -> EmbeddingConfig:
    """Read the configuration from the environment; the arguments override its variables."""
    choices = {"PROVIDER": provider, "MODEL": model, "BASE_URL": base_url}
    variables = dict(os.environ) | {
        f"{PREFIX}{name}": text for name, text in choices.items() if text
    }
    if provider:
        variables.pop(MOCK, None)
    return config_of(variables)


def _provider(variables: Mapping[str, str]) -> Provider:
    if variables.get(MOCK, "").strip().lower() not in ("", "0", "false", "no"):
        _log.warning("embedding.mocked", setting=MOCK, effect="vectors know nothing of meaning")
        return Provider.MOCK
    text = variables.get(f"{PREFIX}PROVIDER", "").strip().lower()
    if not text:
        return Provider.OPENAI_COMPATIBLE
    if text in list(Provider):
        return Provider(text)
    raise ConfigError(
        f"{PREFIX}PROVIDER is '{text}', expected one of {', '.join(Provider)}"
        f"{suggestion(did_you_mean(text, map(str, Provider)))}; nothing was embedded"
    )


def _number(variables: Mapping[str, str], name: str, default: int) -> int:
    text = variables.get(f"{PREFIX}{name}", "").strip()
    if not text:
        return default
    if text.isdecimal():
        return int(text)
    raise ConfigError(
        f"{PREFIX}{name} is '{text}', expected a whole number of 0 or more; nothing was embedded"
    )
