"""Where a graph lives, told so that a task in another process can open it."""

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

from omnigraph.runtime import SYSTEM
from omnigraph.storage.store import Store, open_store
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The root of a graph and how to reach it; travels with a split."""

    uri: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    fsync: bool = False
    opening: str = ""
    """Who opened the root: another process opens it anew for each, since another graph may be there by then."""

    @classmethod
    def of(
        cls, uri: str, options: Mapping[str, str] | None = None, *, fsync: bool = False
    ) -> "StoreLocation":
        """Spell a root as it is seen now."""
        return cls(uri, tuple(sorted((options or {}).items())), fsync, SYSTEM.new_id())

    def store(self) -> Store:
        """Open the root, once in every process for everything that is done with what was seen."""
        return _open_store(self)


@lru_cache(maxsize=8)
def _open_store(home: StoreLocation) -> Store:
    return open_store(home.uri, dict(home.options), fsync=home.fsync)
