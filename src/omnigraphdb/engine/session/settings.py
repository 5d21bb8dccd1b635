"""Documented settings of a handle: from the caller, else from the environment, else the default."""

import os
from collections.abc import Mapping
from typing import Any

from omnigraphdb.errors import ConfigError, did_you_mean, suggestion, warn_caller
from omnigraphdb.limits import (
    LOAD_CONCURRENCY,
    LOCK_WAIT_SECONDS,
    LOCK_WAIT_SECONDS_MAX,
    PROJECTION_BYTES,
    SMALL_WORK_BYTES,
    SMALL_WORK_ROWS,
    SPLIT_BYTES,
)
from omnigraphdb.values import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a handle."""

    durability: str = "none"
    cache_bytes: int = 1024 * MIB
    load_concurrency: int = LOAD_CONCURRENCY
    maintenance_concurrency: int = 8
    maintenance: str = "auto"
    """The maintenance by writers: `auto` compacts and indexes the tables that they wrote, `off` does not."""
    small_work_bytes: int = SMALL_WORK_BYTES
    small_work_rows: int = SMALL_WORK_ROWS
    """Bulk work of at most so many bytes and rows stays in this process unless Spark is asked for."""
    projection_bytes: int = PROJECTION_BYTES
    """About so much memory an algorithm may take in this process; past it a projection goes to Spark, or is refused."""
    split_bytes: int = SPLIT_BYTES
    """Input that one task of a large load reads."""
    lock_wait: float = LOCK_WAIT_SECONDS
    """The number of seconds that an operation waits for a live writer that holds a lock."""
    reconcile_seconds: float = 0.0
    """The seconds between two runs of a background thread that recovers the writes of dead writers; 0 is never."""
    unofficial_lance: str = "on"
    """The access of storage to Lance's own files, where that is faster: `on`, or `off` for Lance's API alone."""
    embed_provider: str | None = None
    embed_model: str | None = None
    embed_base_url: str | None = None
    """The service that embeds the texts of queries; without it the environment decides, at the first text."""


_READERS = {
    "durability": str,
    "cache_bytes": int,
    "load_concurrency": int,
    "maintenance_concurrency": int,
    "maintenance": str,
    "small_work_bytes": int,
    "small_work_rows": int,
    "projection_bytes": int,
    "split_bytes": int,
    "lock_wait": float,
    "reconcile_seconds": float,
    "unofficial_lance": str,
    "embed_provider": str,
    "embed_model": str,
    "embed_base_url": str,
}
_MINIMA = {
    "cache_bytes": 0,
    "load_concurrency": 1,
    "maintenance_concurrency": 1,
    "small_work_bytes": 0,
    "small_work_rows": 0,
    "projection_bytes": 0,
    "split_bytes": 1,
}
_CHOICES = {
    "durability": ("none", "fsync"),
    "maintenance": ("auto", "off"),
    "unofficial_lance": ("on", "off"),
}
DEPRECATED = {"upkeep": "maintenance"}
"""Earlier names of settings; a handle that is given one works and warns."""


def settings_of(config: Mapping[str, Any] | None) -> Settings:
    """Read settings; unknown names and wrong values are refused by name."""
    config_values = _rename_deprecated(config or {})
    unknown = next((name for name in config_values if name not in _READERS), None)
    if unknown is not None:
        near = suggestion(did_you_mean(str(unknown), _READERS))
        raise ConfigError(f"setting '{unknown}' is unknown{near}; no changes were made")
    values: dict[str, Any] = {}
    for name, read in _READERS.items():
        raw_value = config_values.get(name, os.environ.get(f"OMNIGRAPH_{name.upper()}"))
        if raw_value is not None:
            values[name] = _read(name, raw_value, read)
    for name, choices in _CHOICES.items():
        if values.get(name, choices[0]) not in choices:
            raise ConfigError(f"setting '{name}' is one of {', '.join(choices)}")
    for name, minimum in _MINIMA.items():
        if values.get(name, minimum) < minimum:
            raise ConfigError(
                f"setting '{name}' counts from {minimum}, it cannot be {values[name]}; no changes were made"
            )
    if not 0 <= values.get("reconcile_seconds", 0.0) < float("inf"):
        raise ConfigError("setting 'reconcile_seconds' is a number of seconds, 0 for never")
    if not 0 <= values.get("lock_wait", 0.0) <= LOCK_WAIT_SECONDS_MAX:
        raise ConfigError(
            f"setting 'lock_wait' is a number of seconds from 0 to {LOCK_WAIT_SECONDS_MAX:g}"
        )
    return Settings(**values)


def _rename_deprecated(config: Mapping[str, Any]) -> dict[str, Any]:
    """Give deprecated settings, of the caller or of the environment, their present names; a present name wins."""
    renamed = dict(config)
    for old, name in DEPRECATED.items():
        variable, old_variable = f"OMNIGRAPH_{name.upper()}", f"OMNIGRAPH_{old.upper()}"
        if old in renamed:
            _warn_deprecated(f"setting '{old}'", f"'{name}'")
            value = renamed.pop(old)
            renamed.setdefault(name, value)
        elif old_variable in os.environ and name not in renamed and variable not in os.environ:
            _warn_deprecated(old_variable, variable)
            renamed[name] = os.environ[old_variable]
    return renamed


def _warn_deprecated(old: str, new: str) -> None:
    warn_caller(f"{old} is deprecated; use {new}")


def _read(name: str, value: Any, read: Any) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"setting '{name}' cannot be '{value}': {error}") from error
