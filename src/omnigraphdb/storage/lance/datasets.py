"""Opened Lance datasets of one root: one session, a bounded cache of versions, cheap probes of HEAD."""

import ctypes
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from zlib import crc32

import lance
from lance import LanceDataset

from omnigraphdb.errors import HistoryReclaimed, OmniError, TableNotFound
from omnigraphdb.ids import Version
from omnigraphdb.limits import (
    OPENING_LOCKS,
    RECLAIM_LOOKS_MAX,
    RECLAIM_WAIT_SECONDS,
    TABLE_HANDLES_MAX,
)
from omnigraphdb.runtime import SYSTEM, Runtime
from omnigraphdb.storage.counters import Cost, record
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.unofficial.drafts import Drafts
from omnigraphdb.storage.lance.unofficial.version_files import NewestVersion
from omnigraphdb.storage.layout import NEWEST, RECLAIMED, Root, branch_path
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.values import TableAt
from omnigraphdb.values import dataclass

_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)
_SHARED_MEMORY: Final = "shared-memory"
"""Lance gives every opening of `memory://` a store of its own; this scheme is one store per process."""

Mark = tuple[int, int] | None
"""Distinguishes two removals of versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLabels:
    """The counters for the openings and probes of a group of tables."""

    opens: Cost = Cost.TABLE_OPENS
    probes: Cost = Cost.TABLE_PROBES


class Datasets:
    """Opens versions of the tables under one root and keeps the last ones open; safe between threads."""

    def __init__(
        self,
        root: Root,
        options: Mapping[str, str],
        session: Any,
        *,
        unofficial: bool = True,
        costing: CostLabels | None = None,
        gapless: bool = False,
        fsync: bool = False,
        handles_max: int = TABLE_HANDLES_MAX,
        drafts: Drafts | None = None,
        runtime: Runtime = SYSTEM,
    ) -> None:
        self.root = root
        self.options = dict(options) or None
        self.session = session
        self.unofficial = unofficial
        """The switch of `storage.lance.unofficial`."""
        self.runtime = runtime
        self._costing = costing or CostLabels()
        self._gapless = gapless
        self._fsync = fsync and root.is_local
        self._cached: Recent[TableAt, LanceDataset] = Recent(handles_max)
        self._opening_locks = tuple(threading.Lock() for _ in range(OPENING_LOCKS))
        self._newest: dict[str, tuple[Mark, NewestVersion]] = {}
        follows = gapless and self._has_version_files
        self._mark_file = root.at(RECLAIMED) if follows else None
        self.drafts = drafts
        """Makes versions that are not in the store yet, where each request takes its time."""

    def uri(self, path: str, branch: str | None = None) -> str:
        """Give the URI of a table's branch for Lance."""
        uri = self.root.at(branch_path(path, branch))
        return f"{_SHARED_MEMORY}{uri.removeprefix('memory')}" if self.root.is_memory else uri

    def location(self, path: str, branch: str | None, version: int | None = None) -> TableLocation:
        """Name a table for an error."""
        return TableLocation(root=self.root, path=path, branch=branch, version=version)

    def location_of(self, at: TableAt) -> TableLocation:
        """Name a version for an error; cleanup may remove a version that is open."""
        return replace(
            self.location(at.path, at.branch, at.version),
            reclaimed=lambda: self._find_reclaimed(at),
        )

    def at(self, at: TableAt) -> LanceDataset:
        """Open the dataset of one version, unless it is cached."""
        cached = self._cached.get(at)
        if cached is not None:
            return cached
        # Threads that want the same version at once open it once.
        with self._opening_locks[crc32(at.path.encode()) % len(self._opening_locks)]:
            cached = self._cached.get(at)
            return cached if cached is not None else self._open_version(at)

    def _open_version(self, at: TableAt) -> LanceDataset:
        if self.drafts is not None:
            self.drafts.land_for_reader(at)
        try:
            with translate_faults(StoreAction.OPEN, self.location(at.path, at.branch, at.version)):
                opened = self._open(at.path, at.branch, at.version)
                # Lance panics over a damaged schema, wherever that is asked for first.
                _ = opened.schema
                return self.keep(at, opened)
        except TableNotFound as error:
            self._explain(at, error)
            raise

    def _explain(self, at: TableAt, error: TableNotFound) -> None:
        """Raise `HistoryReclaimed` when cleanup removed a version: later versions exist."""
        if self.head(at.path, at.branch) > at.version:
            raise HistoryReclaimed(at.name or at.path, at.version) from error

    def _find_reclaimed(self, at: TableAt) -> OmniError | None:
        """Find the error that an opening of a removed version raises; None when the version exists."""
        for _ in range(RECLAIM_LOOKS_MAX):
            try:
                if self.head(at.path, at.branch) <= at.version:
                    return None
                self.open_anew(at)
            except TableNotFound as error:
                return self._explain_error(at, error)
            # Cleanup removes the files of a version before its manifest, and may be between the two.
            self.runtime.wait(RECLAIM_WAIT_SECONDS)
        return None

    def is_there(self, at: TableAt) -> bool:
        """Check whether a version exists, without the cache."""
        try:
            self.open_anew(at)
        except TableNotFound:
            return False
        return True

    def open_anew(self, at: TableAt) -> LanceDataset:
        """Open a version without the session, whose cache may hold a version that was removed or damaged since."""
        with translate_faults(StoreAction.OPEN, self.location(at.path, at.branch, at.version)):
            return lance.dataset(
                self.uri(at.path, at.branch), version=at.version, storage_options=self.options
            )

    def _explain_error(self, at: TableAt, error: TableNotFound) -> OmniError:
        try:
            self._explain(at, error)
        except OmniError as explained:
            return explained
        return error

    def keep(self, at: TableAt, dataset: LanceDataset) -> LanceDataset:
        """Cache an opened version."""
        return self._cached.put(at, dataset)

    def latest(self, path: str, branch: str | None) -> LanceDataset:
        """Open HEAD."""
        mark = self.read_mark()
        newest = self._follow(branch_path(path, branch), mark)
        with translate_faults(StoreAction.OPEN, self.location(path, branch)):
            opened = self._open(path, branch, newest)
        at = TableAt(path=path, branch=branch, version=Version(opened.version))
        if newest is None:
            self._note_newest(at, mark)
        return self.keep(at, opened)

    def any(self, path: str, branch: str | None) -> LanceDataset:
        """Give any cached version of a table, for reads that do not depend on the version."""
        cached = self._cached.newest(lambda at: at.path == path and at.branch == branch)
        return cached if cached is not None else self.latest(path, branch)

    def head(self, path: str, branch: str | None) -> Version:
        """Read the newest version: one listing through a cached handle, else one opening.

        In a table without gaps the last version that was read is the newest while no next one exists. Cleanup makes
        gaps, and leaves a mark before it does.
        """
        mark = self.read_mark()
        newest = self._follow(branch_path(path, branch), mark)
        if newest is not None:
            return newest
        cached = self._cached.newest(lambda at: at.path == path and at.branch == branch)
        if cached is None:
            return Version(self.latest(path, branch).version)
        with translate_faults(StoreAction.READ, self.location(path, branch)):
            version = Version(cached.latest_version)
        record(self._costing.probes)
        self._note_newest(TableAt(path=path, branch=branch, version=version), mark)
        return version

    def find_head(self, path: str, branch: str | None) -> Version | None:
        """Find the newest version by a few look-ups of file names; None when a listing must tell, or a request."""
        return self._follow(branch_path(path, branch), self.read_mark())

    def _note_newest(self, at: TableAt, mark: "Mark") -> None:
        if self._gapless and self._has_version_files:
            if len(self._newest) >= TABLE_HANDLES_MAX:
                self._newest.clear()
            directory = branch_path(at.path, at.branch)
            self._newest[directory] = (mark, NewestVersion.at(self.root.at(directory), at.version))

    def _follow(self, directory: str, mark: "Mark") -> Version | None:
        """Find the newest version by following the version that was newest before; None when a listing must tell."""
        cached = self._newest.get(directory) or self._find_noted(directory)
        newest = None
        if cached is not None and cached[0] == mark:
            newest = cached[1].follow()
        if newest is None:
            return None
        self._newest[directory] = (mark, newest)
        record(self._costing.probes)
        return newest.version

    def describe_newest(self, at: TableAt, mark: "Mark") -> str | None:
        """Write down a version that is the newest of its table, for openings; None where they ask the store.

        The mark was read before that version was made.
        """
        if not (self._gapless and self._has_version_files):
            return None
        return json.dumps({"path": at.path, "version": at.version, "mark": mark})

    def _find_noted(self, directory: str) -> tuple[Mark, NewestVersion] | None:
        """Find the version that was written down as the newest of a table; None when there is none, or it cannot be read."""
        if not (self._gapless and self._has_version_files):
            return None
        try:
            with open(self.root.at(NEWEST), "rb") as file:
                noted = json.load(file)
            if noted["path"] != directory:
                return None
            mark = None if noted["mark"] is None else tuple(noted["mark"])
            version = Version(int(noted["version"]))
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return mark, NewestVersion.at(self.root.at(directory), version)

    def read_mark(self) -> "Mark":
        """Read the mark that changes before any version of a table without gaps is removed."""
        # Every read comes here, and a missing file is found out by `access` in half the time of `stat`.
        if self._mark_file is None or not os.access(self._mark_file, os.F_OK):
            return None
        try:
            status = os.stat(self._mark_file)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def is_newest(self, at: TableAt) -> bool:
        """Tell whether no version follows a pinned one; on a disk two look-ups, however many versions there are."""
        if self._has_version_files:
            directory = self.root.at(branch_path(at.path, at.branch))
            if NewestVersion.at(directory, at.version).is_newest:
                record(self._costing.probes)
                return True
        return self.head(at.path, at.branch) == at.version

    @property
    def _has_version_files(self) -> bool:
        """Whether manifest files are looked up by name; on an object store a listing costs as much."""
        return self.unofficial and self.root.is_local

    def exists(self, path: str, branch: str | None = None) -> bool:
        """Tell whether a table, or the files of one of its branches, exist."""
        try:
            self.latest(path, branch)
        except TableNotFound:
            return False
        return True

    def settle(self, path: str) -> None:
        """Make all writes so far durable, where the setting asks for it."""
        if self._fsync:
            with translate_faults(StoreAction.WRITE, self.location(path, None)):
                _sync_file_system(self.root.uri)

    def forget(self, path: str | None = None, branch: str | None = None) -> None:
        """Drop opened versions: all, those of a path, those of a branch, or of both."""
        self._cached.drop(lambda at: path in (None, at.path) and branch in (None, at.branch))
        if self.drafts is not None and branch is None:
            self.drafts.forget(path)

    def _open(self, path: str, branch: str | None, version: int | None) -> LanceDataset:
        opened = LanceDataset(
            self.uri(path, branch),
            version=version,
            storage_options=self.options,
            session=self.session,
            serialized_manifest=self._find_manifest(path, branch, version),
        )
        record(self._costing.opens)
        return opened

    def _find_manifest(self, path: str, branch: str | None, version: int | None) -> bytes | None:
        """Find the manifest of a version that this handle made, which need not be read again."""
        if self.drafts is None or version is None:
            return None
        at = TableAt(path=path, branch=branch, version=Version(version))
        return self.drafts.read_manifest(at)


def _sync_file_system(directory: str) -> None:
    """Wait until everything written to the file system of a directory would survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if hasattr(_LIBRARY, "syncfs"):
            if _LIBRARY.syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), directory)
        else:
            os.sync()
    finally:
        os.close(descriptor)
