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
    """How reads walk edges."""

    AUTO = "auto"
    INDEXED = "indexed"
    CSR = "csr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traversal:
    """How a read may walk edges: up to which size indexes are used, how long a path may be, what paths may hold."""

    mode: Mode = Mode.AUTO
    frontier_max: int = 1_024
    hops_max: int = 6
    path_hops_max: int = PATH_HOPS_MAX
    path_bytes_max: int = 1 << 30


def traversal_of(environment: Mapping[str, str] | None = None) -> Traversal:
    """Read the settings from the environment; refuse a wrong value by name."""
    given = os.environ if environment is None else environment
    if not any(name in given for name in (MODE, FRONTIER, HOPS, PATH_HOPS, PATH_BYTES)):
        return _DEFAULT
    default = Traversal()
    return Traversal(
        mode=_mode(given.get(MODE, default.mode)),
        frontier_max=_bound(FRONTIER, given.get(FRONTIER), default.frontier_max),
        hops_max=_bound(HOPS, given.get(HOPS), default.hops_max),
        path_hops_max=_bound(PATH_HOPS, given.get(PATH_HOPS), default.path_hops_max),
        path_bytes_max=_bound(PATH_BYTES, given.get(PATH_BYTES), default.path_bytes_max),
    )


_DEFAULT = Traversal()


def _mode(text: str) -> Mode:
    try:
        return Mode(text.strip().lower() or Mode.AUTO)
    except ValueError:
        known = ", ".join(Mode)
        raise ConfigError(
            f"{MODE} is '{text}', expected one of {known}; nothing was read"
        ) from None


def _bound(name: str, text: str | None, default: int) -> int:
    if text is None or not text.strip():
        return default
    try:
        found = int(text)
    except ValueError:
        found = -1
    if found < 0:
        raise ConfigError(f"{name} is '{text}', expected a whole number from 0; nothing was read")
    return found
