"""Ids that table versions are known to hold, followed from one own commit to the next: no lookup, no request."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Set

import pyarrow as pa

from omnigraph.commit.delta import TableDelta
from omnigraph.errors import HistoryReclaimed, TableNotFound
from omnigraph.limits import CACHED_IDS_SMALL, LOOKUP_ROWS_PER_VALUE, LOOKUP_VALUES_MAX
from omnigraph.manifest.snapshot import Entry
from omnigraph.storage.tables import Table, Tables
from omnigraph.storage.values import IndexKind
from omnigraph.values import dataclass

_OVERLAY_PART = 64
"""Ids that came or went are folded into the whole when they are more than one in this many of it."""
_OVERLAY_MIN = 4_096
"""Fewer are never folded: every commit copies them, which costs less than copying the whole once in a while."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one table version. `whole` is shared with earlier versions and never changed."""

    whole: Set[str]
    added: Set[str] = frozenset()
    removed: Set[str] = frozenset()

    def __contains__(self, identity: object) -> bool:
        if identity in self.added:
            return True
        return identity in self.whole and identity not in self.removed

    def __len__(self) -> int:
        return len(self.whole) + len(self.added) - len(self.removed)

    def after(self, delta: TableDelta) -> "Ids":
        """The ids once a change landed."""
        if delta.replaces:
            return Ids(_texts(delta.rows))
        fresh = {one for one in delta.ids.to_pylist() if one not in self}
        gone = {one for one in delta.deleted.to_pylist() if one in self}
        added = (self.added | fresh) - gone
        removed = (self.removed - fresh) | (gone & self.whole)
        if len(added) + len(removed) <= max(_OVERLAY_MIN, len(self.whole) // _OVERLAY_PART):
            return Ids(self.whole, added, removed)
        return Ids((self.whole - removed) | added)


class CachedIds:
    """The ids of the newest known version of each table and branch; bounded, safe to share between threads."""

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._lock = threading.Lock()
        self._known: OrderedDict[Hashable, tuple[Entry, Ids]] = OrderedDict()
        self._missed: dict[Hashable, int] = {}

    def among(self, entry: Entry, tables: Tables, ids: pa.Array) -> pa.Array | None:
        """Which of the ids a table version holds; None when that is neither known nor worth finding out now."""
        if entry.row_count == 0:
            return ids.slice(0, 0)
        if len(ids) > LOOKUP_VALUES_MAX:
            return None
        known = self._of(entry)
        if known is None:
            known = self._learned(entry, tables, len(ids))
        if known is None:
            return None
        return ids.filter(pa.array([text in known for text in ids.to_pylist()], pa.bool_()))

    def advance(self, before: Entry, after: Entry, delta: TableDelta) -> None:
        """Follow an own commit that took a table from one version to the next."""
        known = self._of(before)
        few = delta.rows.num_rows + len(delta.deleted) <= LOOKUP_VALUES_MAX
        if few and (known is not None or delta.replaces):
            self._keep(after, (Ids(frozenset()) if known is None else known).after(delta))

    def carry(self, before: Entry, after: Entry) -> None:
        """Follow a version that holds the rows of another: an index build, a compaction."""
        known = self._of(before)
        if known is not None:
            self._keep(after, known)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
            self._missed.clear()

    def _of(self, entry: Entry) -> Ids | None:
        if entry.row_count == 0:
            return Ids(frozenset())
        held = self._newest(entry)
        return held[1] if held is not None and held[0].at == entry.at else None

    def _newest(self, entry: Entry) -> tuple[Entry, Ids] | None:
        with self._lock:
            return self._known.get(_line(entry))

    def _learned(self, entry: Entry, tables: Tables, wanted: int) -> Ids | None:
        """Read the ids when that costs no more than the lookups they have cost so far."""
        if entry.row_count > self._ids_max:
            return None
        table = tables.open(entry.at)
        known = self._followed(entry, tables, table)
        if known is None and self._is_worth_it(entry, table, wanted):
            known = Ids(_texts(table.read(["id"])))
        if known is not None:
            self._keep(entry, known)
        return known

    def _followed(self, entry: Entry, tables: Tables, table: Table) -> Ids | None:
        """What is known of an earlier version and what others have appended since; None if they did more."""
        held = self._newest(entry)
        if held is None or held[0].version > entry.version:
            return None
        try:
            before = set(tables.open(held[0].at).fragments())
        except (HistoryReclaimed, TableNotFound):
            # Nobody keeps the version of which something is known.
            return None
        now = table.fragments()
        if not before <= set(now):
            return None
        fresh = [fragment for fragment in now if fragment not in before]
        if sum(fragment.rows for fragment in fresh) > LOOKUP_VALUES_MAX:
            return None
        added = (
            _texts(table.read(["id"], fragments=[f.id for f in fresh])) if fresh else frozenset()
        )
        return Ids(held[1].whole, held[1].added | added, held[1].removed - added)

    def _is_worth_it(self, entry: Entry, table: Table, wanted: int) -> bool:
        if entry.row_count <= CACHED_IDS_SMALL:
            return True
        indexed = any(i.column == "id" and i.kind is IndexKind.BTREE for i in table.indices())
        cost = LOOKUP_ROWS_PER_VALUE * wanted if indexed else entry.row_count
        with self._lock:
            missed = self._missed.get(_line(entry), 0) + cost
            self._missed[_line(entry)] = missed
        return missed > entry.row_count

    def _keep(self, entry: Entry, ids: Ids) -> None:
        key = _line(entry)
        with self._lock:
            held = self._known.get(key)
            if held is not None and held[0].version > entry.version:
                return
            self._missed.pop(key, None)
            self._known[key] = (entry, ids)
            self._known.move_to_end(key)
            while sum(len(one) for _, one in self._known.values()) > self._ids_max:
                self._known.popitem(last=False)


def _line(entry: Entry) -> Hashable:
    """The line of versions an entry lies on: a branch name may have several lives."""
    return entry.at.path, entry.at.branch, entry.branch_incarnation


def _texts(rows: pa.Table) -> frozenset[str]:
    return frozenset(rows["id"].to_pylist())
