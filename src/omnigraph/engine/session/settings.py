"""Documented settings of a handle: from the caller, else from the environment, else the default."""

import os
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import ConfigError, did_you_mean, suggestion
from omnigraph.limits import (
    LOAD_CONCURRENCY,
    LOCK_WAIT_SECONDS,
    LOCK_WAIT_SECONDS_MAX,
    SMALL_WORK_BYTES,
    SMALL_WORK_ROWS,
    SPLIT_BYTES,
)
from omnigraph.values import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a handle may be told."""

    durability: str = "none"
    cache_bytes: int = 1024 * MIB
    load_concurrency: int = LOAD_CONCURRENCY
    maintenance_concurrency: int = 8
    upkeep: str = "auto"
    small_work_bytes: int = SMALL_WORK_BYTES
    small_work_rows: int = SMALL_WORK_ROWS
    """Bulk work of at most so many bytes and rows stays in this process unless Spark is asked for."""
    split_bytes: int = SPLIT_BYTES
    """Input that one task of a large load reads."""
    lock_wait: float = LOCK_WAIT_SECONDS
    """How many seconds an operation waits for a live writer that holds a lock."""
    reconcile_seconds: float = 0.0
    """How often a background thread settles what dead writers left; 0 is never."""
    embed_provider: str | None = None
    embed_model: str | None = None
    embed_base_url: str | None = None
    """Who embeds the texts of queries; the environment says so otherwise, when the first text comes."""


_READERS = {
    "durability": str,
    "cache_bytes": int,
    "load_concurrency": int,
    "maintenance_concurrency": int,
    "upkeep": str,
    "small_work_bytes": int,
    "small_work_rows": int,
    "split_bytes": int,
    "lock_wait": float,
    "reconcile_seconds": float,
    "embed_provider": str,
    "embed_model": str,
    "embed_base_url": str,
}
_LEAST = {
    "cache_bytes": 0,
    "load_concurrency": 1,
    "maintenance_concurrency": 1,
    "small_work_bytes": 0,
    "small_work_rows": 0,
    "split_bytes": 1,
}
_CHOICES = {"durability": ("none", "fsync"), "upkeep": ("auto", "off")}


def settings_of(config: Mapping[str, Any] | None) -> Settings:
    """Read settings; unknown names and wrong values are refused by name."""
    given = dict(config or {})
    unknown = next((name for name in given if name not in _READERS), None)
    if unknown is not None:
        near = suggestion(did_you_mean(str(unknown), _READERS))
        raise ConfigError(f"setting '{unknown}' is unknown{near}; no changes were made")
    values: dict[str, Any] = {}
    for name, read in _READERS.items():
        found = given.get(name, os.environ.get(f"OMNIGRAPH_{name.upper()}"))
        if found is not None:
            values[name] = _read(name, found, read)
    for name, choices in _CHOICES.items():
        if values.get(name, choices[0]) not in choices:
            raise ConfigError(f"setting '{name}' is one of {', '.join(choices)}")
    for name, least in _LEAST.items():
        if values.get(name, least) < least:
            raise ConfigError(
                f"setting '{name}' counts from {least}, it cannot be {values[name]}; no changes were made"
            )
    if not 0 <= values.get("reconcile_seconds", 0.0) < float("inf"):
        raise ConfigError("setting 'reconcile_seconds' is a number of seconds, 0 for never")
    if not 0 <= values.get("lock_wait", 0.0) <= LOCK_WAIT_SECONDS_MAX:
        raise ConfigError(
            f"setting 'lock_wait' is a number of seconds from 0 to {LOCK_WAIT_SECONDS_MAX:g}"
        )
    return Settings(**values)


def _read(name: str, value: Any, read: Any) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"setting '{name}' cannot be '{value}': {error}") from error
