"""The deleted rows of the fragments of one version, by its deletion files."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import numpy as np
from lance import FragmentMetadata, LanceDataset
from lance.fragment import DeletionFile

from omnigraphdb.catalog.names import ROW_ADDRESS
from omnigraphdb.errors import StorageError
from omnigraphdb.limits import DELETION_READS_MAX
from omnigraphdb.storage.counters import Cost, carry_context, record
from omnigraphdb.storage.lance.datasets import Datasets
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.fragments import deletion_path, fragment_of
from omnigraphdb.storage.lance.unofficial.deletion_files import decode_offsets
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import FragmentInfo, Offsets, TableAt

CachedDeletions: TypeAlias = Recent[str, Offsets]
"""The offsets in deletion files, by file name; the name of a deletion file is unique in its table."""

ReadableDeletions: TypeAlias = Recent[str, bool]
"""The names of deletion files that Lance has read without a fault."""

_NO_OFFSETS: Final[Offsets] = np.empty(0, np.uint32)
_CACHED_ROWS_MAX: Final = 4_096
"""Deleted rows of a fragment up to which its offsets are cached."""


class DeletionReads:
    """Reads the deletion files of one version; all versions of all tables share the caches."""

    __slots__ = ("_at", "_cached", "_dataset", "_location", "_objects", "_readable", "_reads_files")

    def __init__(
        self,
        at: TableAt,
        datasets: Datasets,
        objects: Objects,
        cached: CachedDeletions,
        readable: ReadableDeletions,
    ) -> None:
        self._at = at
        self._dataset: LanceDataset = datasets.at(at)
        self._location: TableLocation = datasets.location_of(at)
        self._objects = objects
        self._cached = cached
        self._readable = readable
        # Lance keeps the files of a memory root in a memory of its own.
        self._reads_files = datasets.unofficial and not datasets.root.is_memory

    def of(self, fragments: Sequence[int]) -> Mapping[int, Offsets]:
        """Read the offsets of the deleted rows of some fragments."""
        if self._location.root.is_local or len(fragments) < 2:
            return {fragment: self._read_deleted(fragment) for fragment in fragments}
        with ThreadPoolExecutor(min(DELETION_READS_MAX, len(fragments)), "omnigraph-read") as pool:
            return dict(
                zip(fragments, pool.map(carry_context(self._read_deleted), fragments), strict=True)
            )

    def require_readable(self, fragments: Sequence[FragmentInfo]) -> None:
        """Let Lance read deletion files in a scan, before a search needs them.

        A search of a text index waits without end for a thread that panics over a damaged deletion file. A scan of
        one row reports the panic, and leaves the contents in Lance's memory for the search.
        """
        for info in fragments:
            name = f"{self._at.path}/{info.deletions}"
            if info.deletions is None or self._readable.get(name) is not None:
                continue
            with translate_faults(StoreAction.READ, self._location):
                part = [fragment_of(self._dataset, info.id)]
                self._dataset.scanner(
                    columns=[], with_row_address=True, limit=1, fragments=part
                ).to_table()
            self._readable.put(name, True)

    def learn(self, before: FragmentMetadata, after: FragmentMetadata, more: Offsets) -> None:
        """Cache the offsets in a new deletion file: those of the file before it, and more."""
        cached: Offsets | None = _NO_OFFSETS
        if before.deletion_file is not None:
            cached = self._cached.get(self._name(before.id, before.deletion_file))
        if cached is not None and after.deletion_file is not None:
            name = self._name(after.id, after.deletion_file)
            self._cache(name, np.union1d(cached, more))

    def _read_deleted(self, fragment: int) -> Offsets:
        with translate_faults(StoreAction.READ, self._location):
            metadata = fragment_of(self._dataset, fragment).metadata
            file = metadata.deletion_file
            if file is None:
                return _NO_OFFSETS
            path = deletion_path(self._dataset, self._at.path, self._at.branch, metadata)
        name = self._name(fragment, file)
        cached = self._cached.get(name)
        if cached is not None:
            return cached
        data = None
        if path is not None and self._reads_files:
            data = self._objects.read_bytes(path)
        if data is not None:
            offsets = decode_offsets(data, file.file_type)
            self._require_fit(path, offsets, file.num_deleted_rows, metadata.physical_rows)
            return self._cache(name, offsets)
        return self._scan_deleted(fragment, metadata.physical_rows)

    def _require_fit(self, path: str | None, offsets: Offsets, count: int, rows: int) -> None:
        """Refuse the contents of a deletion file that deletes other rows than its version says, or rows that do not exist."""
        # Earlier versions of Lance did not note the count.
        is_counted = not count or len(offsets) == count
        if not is_counted or (len(offsets) and offsets.max() >= rows):
            raise StorageError(
                f"could not read {self._location}: its deletion file '{path}' is damaged: it deletes {len(offsets)} rows "
                f"where {count} of {rows} were deleted; nothing was changed",
                storage_kind="permanent",
                hint="put the file back from a copy of the graph, or run `omnigraphdb repair`",
            )

    def _scan_deleted(self, fragment: int, rows: int) -> Offsets:
        """Find the deleted rows by a scan, which leaves them out; for files that are not read here."""
        with translate_faults(StoreAction.READ, self._location):
            part = [fragment_of(self._dataset, fragment)]
            scan = self._dataset.scanner(columns=[], with_row_address=True, fragments=part)
            left = scan.to_table()[ROW_ADDRESS].to_numpy()
        record(Cost.TABLE_SCANS)
        is_deleted = np.ones(rows, dtype=bool)
        is_deleted[(left & np.uint64(0xFFFFFFFF)).astype(np.int64)] = False
        return np.flatnonzero(is_deleted).astype(np.uint32)

    def _name(self, fragment: int, file: DeletionFile) -> str:
        return f"{self._at.path}/{file.path(fragment)}"

    def _cache(self, name: str, offsets: Offsets) -> Offsets:
        return self._cached.put(name, offsets) if len(offsets) <= _CACHED_ROWS_MAX else offsets
