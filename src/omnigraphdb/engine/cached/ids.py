"""Cached ids of table versions: a writer carries them from one of its commits to the next, without a request."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Set

import pyarrow as pa

from omnigraphdb.commit.delta import TableDelta
from omnigraphdb.commit.plan import WritePlan
from omnigraphdb.errors import HistoryReclaimed, TableNotFound
from omnigraphdb.limits import CACHED_IDS_SMALL, LOOKUP_ROWS_PER_VALUE, LOOKUP_VALUES_MAX
from omnigraphdb.manifest.snapshot import Entry, Snapshot
from omnigraphdb.storage.tables import Table, Tables
from omnigraphdb.storage.values import IndexKind
from omnigraphdb.values import dataclass

_OVERLAY_PART = 64
"""Added and removed ids are folded into `whole` when they are more than one in this many of it."""
_OVERLAY_MIN = 4_096
"""Fewer are never folded: copying them at every commit costs less than copying `whole` now and then."""
_VERSIONS_KEPT = 4
"""Versions of one table whose ids stay cached: writers prepare on the last ones while others make the next."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one table version. `whole` is shared with earlier versions and never changes."""

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
        """Compute the ids after a delta."""
        if delta.replaces:
            return Ids(_texts(delta.rows))
        fresh = {text for text in delta.ids.to_pylist() if text not in self}
        deleted = {text for text in delta.deleted.to_pylist() if text in self}
        added = self.added | fresh
        removed = self.removed - fresh if self.removed else self.removed
        if deleted:
            added, removed = added - deleted, removed | (deleted & self.whole)
        if len(added) + len(removed) <= max(_OVERLAY_MIN, len(self.whole) // _OVERLAY_PART):
            return Ids(self.whole, added, removed)
        return Ids((self.whole - removed) | added)


_Version = tuple[Entry, Ids]


class CachedIds:
    """The ids of the newest versions of each table and branch that was read; bounded, safe to share between threads.

    Every cached version was in the manifest; versions that are only expected are in `GroupIds`.
    """

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._lock = threading.Lock()
        self._cached: OrderedDict[Hashable, tuple[_Version, ...]] = OrderedDict()
        """By table, oldest version first."""
        self._missed: dict[Hashable, int] = {}

    def find_existing(self, entry: Entry, tables: Tables, ids: pa.Array) -> pa.Array | None:
        """Find which of the ids a table version has; None if its ids are neither cached nor worth reading now."""
        if entry.row_count == 0:
            return ids.slice(0, 0)
        if len(ids) > LOOKUP_VALUES_MAX:
            return None
        cached = self._find(entry)
        if cached is None:
            cached = self._read_ids(entry, tables, len(ids))
        if cached is None:
            return None
        return ids.filter(pa.array([text in cached for text in ids.to_pylist()], pa.bool_()))

    def advance(self, before: Entry, after: Entry, delta: TableDelta) -> None:
        """Carry the ids over a commit of this process: from one version of a table to the next."""
        newest = self._list_versions(after)[-1:]
        if newest and newest[0][0].version >= after.version:
            # The group that made the version has left its ids, and maybe the ids of the next version.
            return
        cached = self._find(before)
        is_small = delta.rows.num_rows + len(delta.deleted) <= LOOKUP_VALUES_MAX
        if is_small and (cached is not None or delta.replaces):
            self._keep(after, (Ids(frozenset()) if cached is None else cached).after(delta))

    def carry(self, before: Entry, after: Entry) -> None:
        """Carry the ids to a version with the same rows: an index build, a compaction."""
        cached = self._find(before)
        if cached is not None:
            self._keep(after, cached)

    def clear(self) -> None:
        """Drop all ids."""
        with self._lock:
            self._cached.clear()
            self._missed.clear()

    def _find(self, entry: Entry) -> Ids | None:
        if entry.row_count == 0:
            return Ids(frozenset())
        for version, ids in reversed(self._list_versions(entry)):
            if version.at == entry.at:
                return ids
        return None

    def _list_versions(self, entry: Entry) -> tuple[_Version, ...]:
        with self._lock:
            return self._cached.get(_key(entry), ())

    def _read_ids(self, entry: Entry, tables: Tables, lookups: int) -> Ids | None:
        """Read the ids as soon as that costs no more than the lookups so far."""
        if entry.row_count > self._ids_max:
            return None
        table = tables.open(entry.at)
        cached = self._extend_earlier(entry, tables, table)
        if cached is None and self._is_worth_it(entry, table, lookups):
            cached = Ids(_texts(table.read(["id"])))
        if cached is not None:
            self._keep(entry, cached)
        return cached

    def _extend_earlier(self, entry: Entry, tables: Tables, table: Table) -> Ids | None:
        """Extend the ids of an earlier version by ids that others appended since; None if others did not only append."""
        earlier = [pair for pair in self._list_versions(entry) if pair[0].version <= entry.version]
        if not earlier:
            return None
        newest = earlier[-1]
        try:
            before = set(tables.open(newest[0].at).fragments())
        except (HistoryReclaimed, TableNotFound):
            # Cleanup removed the version whose ids are cached.
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
        return Ids(newest[1].whole, newest[1].added | added, newest[1].removed - added)

    def _is_worth_it(self, entry: Entry, table: Table, lookups: int) -> bool:
        if entry.row_count <= CACHED_IDS_SMALL:
            return True
        indexed = any(i.column == "id" and i.kind is IndexKind.BTREE for i in table.indices())
        cost = LOOKUP_ROWS_PER_VALUE * lookups if indexed else entry.row_count
        with self._lock:
            missed = self._missed.get(_key(entry), 0) + cost
            self._missed[_key(entry)] = missed
        return missed > entry.row_count

    def _keep(self, entry: Entry, ids: Ids) -> None:
        key = _key(entry)
        with self._lock:
            cached = self._cached.get(key, ())
            if cached and cached[-1][0].version > entry.version:
                return
            self._missed.pop(key, None)
            earlier = tuple(pair for pair in cached if pair[0].version != entry.version)
            self._cached[key] = (*earlier[1 - _VERSIONS_KEPT :], (entry, ids))
            self._cached.move_to_end(key)
            # Versions of one table share nearly all of their ids.
            while sum(len(versions[-1][1]) for versions in self._cached.values()) > self._ids_max:
                self._cached.popitem(last=False)


class GroupIds(CachedIds):
    """The ids of the versions that a group of writes is about to make, in addition to the cached ids.

    A group may break off, and others then make versions with the same numbers. Only a published group leaves its ids
    to the cache.
    """

    def __init__(self, cached: CachedIds) -> None:
        super().__init__(cached._ids_max)
        self._shared = cached

    def publish(self) -> None:
        """Leave the ids to the cache: the group is visible, and so is every version that it made."""
        with self._lock:
            pairs = [pair for versions in self._cached.values() for pair in versions]
        for entry, ids in pairs:
            self._shared._keep(entry, ids)

    def has_none_of(self, entry: Entry, ids: pa.Array) -> bool:
        """Whether a version surely lacks all of the ids; nothing is looked up to find out."""
        cached = self._find(entry)
        return cached is not None and not any(text in cached for text in ids.to_pylist())

    def _find(self, entry: Entry) -> Ids | None:
        own_ids = super()._find(entry)
        return self._shared._find(entry) if own_ids is None else own_ids

    def _list_versions(self, entry: Entry) -> tuple[_Version, ...]:
        return super()._list_versions(entry) or self._shared._list_versions(entry)

    def _is_worth_it(self, entry: Entry, table: Table, lookups: int) -> bool:
        return self._shared._is_worth_it(entry, table, lookups)


def _key(entry: Entry) -> Hashable:
    """Return the key of a table on one incarnation of a branch: a branch name may be deleted and made again."""
    return entry.at.path, entry.at.branch, entry.branch_incarnation


def _texts(rows: pa.Table) -> frozenset[str]:
    return frozenset(rows["id"].to_pylist())


def follow_cached_ids(
    cached_ids: CachedIds, plan: WritePlan, before: Snapshot, after: Snapshot
) -> None:
    """Carry cached ids over to the versions that a write made, if the write says which ids it added and removed."""
    for write in plan.tables:
        old, new = before.entries.get(write.table_key), after.entries.get(write.table_key)
        if write.delta is None or old is None or new is None:
            continue
        if new.version == old.version + 1:
            cached_ids.advance(old, new, write.delta)
