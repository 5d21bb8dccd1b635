"""The locations of a graph and its table versions, as values that a task in another process can open."""

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache

import pyarrow as pa

from omnigraphdb.catalog.model import TableType
from omnigraphdb.ids import TableKey
from omnigraphdb.runtime import SYSTEM
from omnigraphdb.storage.store import Store, open_store
from omnigraphdb.storage.tables import Table
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """The root of a graph and its storage options; a split carries it to a task."""

    uri: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    fsync: bool = False
    unofficial: bool = True
    opening: str = ""
    """A new id for each time a graph is opened: a process opens the store again when another graph may be there."""

    @classmethod
    def of(
        cls,
        uri: str,
        options: Mapping[str, str] | None = None,
        *,
        fsync: bool = False,
        unofficial: bool = True,
    ) -> "StoreLocation":
        """Name a root as it is seen now."""
        option_pairs = tuple(sorted((options or {}).items()))
        return cls(uri, option_pairs, fsync, unofficial, SYSTEM.new_id())

    def store(self) -> Store:
        """Open the store; each process opens a location once."""
        return _open_store(self)

    def open(self) -> Store:
        """Open the store anew."""
        return open_store(
            self.uri, dict(self.options), fsync=self.fsync, unofficial=self.unofficial
        )


@lru_cache(maxsize=8)
def _open_store(location: StoreLocation) -> Store:
    return location.open()


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTable:
    """One version of the table of a type; any process that reaches the store can open it."""

    location: StoreLocation
    table_key: TableKey
    at: TableAt
    type: TableType
    schema: pa.Schema
    """The columns of the table at this version; the type may hold others now."""

    def open(self) -> Table:
        """Open exactly this version."""
        return self.location.store().tables.open(self.at)
