"""The deleted rows of the fragments of one version, by its deletion files."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import numpy as np
from lance import FragmentMetadata, LanceDataset
from lance.fragment import DeletionFile

from omnigraph.catalog.names import ROW_ADDRESS
from omnigraph.limits import DELETION_READS_MAX
from omnigraph.storage.counters import Cost, carry_context, record
from omnigraph.storage.lance.datasets import Datasets
from omnigraph.storage.lance.faults import TableLocation, translate_faults
from omnigraph.storage.lance.fragments import deletion_path, fragment_of
from omnigraph.storage.lance.unofficial.deletion_files import decode_offsets
from omnigraph.storage.lru import Recent
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.objects.protocol import Objects
from omnigraph.storage.values import FragmentInfo, Offsets, TableAt

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
            return self._cache(name, decode_offsets(data, file.file_type))
        return self._scan_deleted(fragment, metadata.physical_rows)

    def _scan_deleted(self, fragment: int, rows: int) -> Offsets:
        """Find the deleted rows as those that a scan leaves out; for files that are not read here."""
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
