"""Traversal settings: reads walk edges through an adjacency in memory, or hop by hop through the indexes of the table."""

import os
from collections.abc import Mapping
from enum import StrEnum

from omnigraphdb.errors import ConfigError
from omnigraphdb.limits import PATH_HOPS_MAX
from omnigraphdb.values import dataclass

MODE = "OMNIGRAPH_TRAVERSAL_MODE"
FRONTIER = "OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER"
HOPS = "OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS"
PATH_HOPS = "OMNIGRAPH_PATH_HOPS_MAX"
PATH_BYTES = "OMNIGRAPH_PATH_BYTES_MAX"


class Mode(StrEnum):
    """The way in which reads walk edges."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal:
    """The limits of the walks of a read: the sizes up to which indexes are used, and the length and memory of paths."""

    mode: Mode = Mode.AUTO
    frontier_max: int = 1_024
    hops_max: int = 6
    path_hops_max: int = PATH_HOPS_MAX
    path_bytes_max: int = 1 << 30


def traversal_of(environment: Mapping[str, str] | None = None) -> Traversal:
    """Read the settings from the environment; refuse a wrong value by name."""
    settings = os.environ if environment is None else environment
    if not any(name in settings for name in (MODE, FRONTIER, HOPS, PATH_HOPS, PATH_BYTES)):
        return _DEFAULT
    default = Traversal()
    return Traversal(
        mode=_mode(settings.get(MODE, default.mode)),
        frontier_max=_bound(FRONTIER, settings.get(FRONTIER), default.frontier_max),
        hops_max=_bound(HOPS, settings.get(HOPS), default.hops_max),
        path_hops_max=_bound(PATH_HOPS, settings.get(PATH_HOPS), default.path_hops_max),
        path_bytes_max=_bound(PATH_BYTES, settings.get(PATH_BYTES), default.path_bytes_max),
    )


_DEFAULT = Traversal()


def _mode(text: str) -> Mode:
    try:
        return Mode(text.strip().lower() or Mode.AUTO)
    except ValueError:
        modes = ", ".join(Mode)
        raise ConfigError(
            f"{MODE} is '{text}', expected one of {modes}; nothing was read"
        ) from None


def _bound(name: str, text: str | None, default: int) -> int:
    if text is None or not text.strip():
        return default
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError(f"{name} is '{text}', expected a whole number from 0; nothing was read")
    return number
