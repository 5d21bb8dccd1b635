"""Opened Lance datasets of one root: one session, a bounded cache of versions, cheap probes of HEAD."""

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import lance
from lance import LanceDataset

from omnigraph.errors import HistoryReclaimed, OmniError, TableNotFound
from omnigraph.ids import Version
from omnigraph.limits import (
    OPENING_LOCKS,
    RECLAIM_LOOKS_MAX,
    RECLAIM_WAIT_SECONDS,
    TABLE_HANDLES_MAX,
)
from omnigraph.runtime import SYSTEM
from omnigraph.storage.counters import Cost, record
from omnigraph.storage.lance.durable import sync_file_system
from omnigraph.storage.lance.faults import TableLocation, translate_faults
from omnigraph.storage.layout import Root, branch_path
from omnigraph.storage.lru import Recent
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.tables import TableAt
from omnigraph.values import dataclass

_VERSIONS: Final = "_versions"
_LAST: Final = 2**64 - 1
"""Manifests are named by what is left to this number, so that the newest is listed first."""

_SHARED_MEMORY: Final = "shared-memory"
"""Lance gives every opening of `memory://` a store of its own; this scheme is one store per process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costing:
    """Under which names the openings and probes of a group of tables are counted."""

    opens: Cost = Cost.TABLE_OPENS
    probes: Cost = Cost.TABLE_PROBES


@dataclass(frozen=True, slots=True)
class _End:
    """A version as the last of its line on a disk: the file of its manifest, and of the one that would follow."""

    version: Version
    file: str
    following: str

    @classmethod
    def at(cls, location: str, version: Version) -> "_End":
        """Take a version for the last of the line whose files are in a place."""
        names = (
            f"{location}/{_VERSIONS}/{_LAST - n:020d}.manifest" for n in (version, version + 1)
        )
        return cls(version, *names)

    @property
    def is_true(self) -> bool:
        """Whether it is there and the next is not: it is the last then, unless versions between were removed.

        Nothing is removed of a table without gaps, nor past a pin.
        """
        return not os.access(self.following, os.F_OK) and os.access(self.file, os.F_OK)


class Datasets:
    """Opens versions of the tables under one root and keeps the last ones open; safe between threads."""

    def __init__(
        self,
        root: Root,
        options: Mapping[str, str],
        session: Any,
        *,
        costing: Costing | None = None,
        gapless: bool = False,
        fsync: bool = False,
        handles_max: int = TABLE_HANDLES_MAX,
    ) -> None:
        self.root = root
        self.options = dict(options) or None
        self.session = session
        self._costing = costing or Costing()
        self._gapless = gapless
        self._fsync = fsync and root.is_local
        self._held: Recent[TableAt, LanceDataset] = Recent(handles_max)
        self._turns = tuple(threading.Lock() for _ in range(OPENING_LOCKS))
        self._ends: dict[str, _End] = {}

    def uri(self, path: str, branch: str | None = None) -> str:
        """Spell the place of a table's branch for Lance."""
        uri = self.root.at(branch_path(path, branch))
        return f"{_SHARED_MEMORY}{uri.removeprefix('memory')}" if self.root.is_memory else uri

    def location(self, path: str, branch: str | None, version: int | None = None) -> TableLocation:
        """Name a table for an error."""
        return TableLocation(root=self.root, path=path, branch=branch, version=version)

    def location_of(self, at: TableAt) -> TableLocation:
        """Name a version for an error; one that is held open may be removed all the same."""
        return replace(
            self.location(at.path, at.branch, at.version),
            reclaimed=lambda: self._find_reclaimed(at),
        )

    def at(self, at: TableAt) -> LanceDataset:
        """Give the dataset of one version; one held already costs nothing."""
        held = self._held.get(at)
        if held is not None:
            return held
        # Threads that want the same version at once open it once.
        with self._turns[hash(at) % len(self._turns)]:
            held = self._held.get(at)
            return held if held is not None else self._open_version(at)

    def _open_version(self, at: TableAt) -> LanceDataset:
        try:
            with translate_faults(StoreAction.OPEN, self.location(at.path, at.branch, at.version)):
                return self.hold(at, self._open(at.path, at.branch, at.version))
        except TableNotFound as error:
            self._explain(at, error)
            raise

    def _explain(self, at: TableAt, error: TableNotFound) -> None:
        """Tell a version that cleanup removed from one that never was: later ones are there."""
        if self.head(at.path, at.branch) > at.version:
            raise HistoryReclaimed(at.name or at.path, at.version) from error

    def _find_reclaimed(self, at: TableAt) -> OmniError | None:
        """What an opening would say of a version that can no longer be opened."""
        for _ in range(RECLAIM_LOOKS_MAX):
            try:
                if self.head(at.path, at.branch) <= at.version:
                    return None
                with translate_faults(
                    StoreAction.OPEN, self.location(at.path, at.branch, at.version)
                ):
                    # Without the session, which may remember what is no longer there.
                    lance.dataset(
                        self.uri(at.path, at.branch),
                        version=at.version,
                        storage_options=self.options,
                    )
            except TableNotFound as error:
                return self._explain_error(at, error)
            # Its files go before it does: whoever removes it may be between the two.
            SYSTEM.wait(RECLAIM_WAIT_SECONDS)
        return None

    def _explain_error(self, at: TableAt, error: TableNotFound) -> OmniError:
        try:
            self._explain(at, error)
        except OmniError as told:
            return told
        return error

    def hold(self, at: TableAt, dataset: LanceDataset) -> LanceDataset:
        """Keep an opened version."""
        return self._held.put(at, dataset)

    def latest(self, path: str, branch: str | None) -> LanceDataset:
        """Open HEAD."""
        with translate_faults(StoreAction.OPEN, self.location(path, branch)):
            opened = self._open(path, branch, None)
        at = TableAt(path=path, branch=branch, version=Version(opened.version))
        return self.hold(at, opened)

    def any(self, path: str, branch: str | None) -> LanceDataset:
        """Give whichever version of a table is at hand, for what does not depend on it."""
        held = self._held.newest(lambda at: at.path == path and at.branch == branch)
        return held if held is not None else self.latest(path, branch)

    def head(self, path: str, branch: str | None) -> Version:
        """Read the newest version number: one listing through a handle at hand, else one opening.

        A line without gaps ends where it did when the last version seen has no successor.
        """
        line = branch_path(path, branch)
        end = self._ends.get(line)
        if end is not None and end.is_true:
            record(self._costing.probes)
            return end.version
        held = self._held.newest(lambda at: at.path == path and at.branch == branch)
        if held is None:
            return Version(self.latest(path, branch).version)
        with translate_faults(StoreAction.READ, self.location(path, branch)):
            version = Version(held.latest_version)
        record(self._costing.probes)
        if self._gapless and self.root.is_local:
            if len(self._ends) >= TABLE_HANDLES_MAX:
                self._ends.clear()
            self._ends[line] = _End.at(self.root.at(line), version)
        return version

    def is_newest(self, at: TableAt) -> bool:
        """Tell whether no version follows one that is pinned; on a disk two looks, however many versions there are."""
        # Elsewhere than on a disk a listing costs as much.
        location = self.root.at(branch_path(at.path, at.branch)) if self.root.is_local else None
        if location is not None and _End.at(location, at.version).is_true:
            record(self._costing.probes)
            return True
        return self.head(at.path, at.branch) == at.version

    def exists(self, path: str, branch: str | None = None) -> bool:
        """Tell whether a table, or the files of one of its branches, are there."""
        try:
            self.latest(path, branch)
        except TableNotFound:
            return False
        return True

    def settle(self, path: str) -> None:
        """Make what was written so far durable, where that was asked for."""
        if self._fsync:
            with translate_faults(StoreAction.WRITE, self.location(path, None)):
                sync_file_system(self.root.uri)

    def forget(self, path: str | None = None, branch: str | None = None) -> None:
        """Let go of opened versions: all, those of a path, those of a branch, or of both."""
        self._held.drop(lambda at: path in (None, at.path) and branch in (None, at.branch))

    def _open(self, path: str, branch: str | None, version: int | None) -> LanceDataset:
        opened = lance.dataset(
            self.uri(path, branch),
            version=version,
            storage_options=self.options,
            session=self.session,
        )
        record(self._costing.opens)
        return opened
