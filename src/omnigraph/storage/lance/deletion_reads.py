"""The deleted rows of one version's fragments, by its deletion files, and what is known of these without reading."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

import numpy as np
from lance import FragmentMetadata, LanceDataset
from lance.fragment import DeletionFile

from omnigraph.limits import DELETION_READS_MAX
from omnigraph.storage.counters import Cost, carry_context, record
from omnigraph.storage.lance.deletions import NO_OFFSETS, decode_offsets, deletion_path
from omnigraph.storage.lance.faults import TableLocation, translate_faults
from omnigraph.storage.lance.fragments import fragment_of
from omnigraph.storage.lru import Recent
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.objects.protocol import Objects
from omnigraph.storage.tables import FragmentInfo, Offsets, TableAt

CachedDeletions: TypeAlias = Recent[str, Offsets]
"""The contents of deletion files by name; every one has a name of its own, whichever lines of a table have it."""

ReadableDeletions: TypeAlias = Recent[str, bool]
"""The names of deletion files that Lance has read, for those that it need not read again."""

_FEW: Final = 4_096
"""Deleted rows of a fragment that are kept in mind."""
_ADDRESS: Final = "_rowaddr"


class DeletionReads:
    """Reads deletion files of one version; shares what it learns with other versions."""

    __slots__ = ("_at", "_dataset", "_held", "_location", "_objects", "_readable")

    def __init__(
        self,
        at: TableAt,
        dataset: LanceDataset,
        location: TableLocation,
        objects: Objects,
        held: CachedDeletions,
        readable: ReadableDeletions,
    ) -> None:
        self._at = at
        self._dataset = dataset
        self._location = location
        self._objects = objects
        self._held = held
        self._readable = readable

    def of(self, fragments: Sequence[int]) -> Mapping[int, Offsets]:
        """The offsets of the deleted rows of some fragments."""
        if self._location.root.is_local or len(fragments) < 2:
            return {number: self._read_deleted(number) for number in fragments}
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
        """Note what is in the new deletion file of a fragment: more rows than in the one it had."""
        known: Offsets | None = NO_OFFSETS
        if before.deletion_file is not None:
            known = self._held.get(self._name(before.id, before.deletion_file))
        if known is not None and after.deletion_file is not None:
            name = self._name(after.id, after.deletion_file)
            self._hold(name, np.union1d(known, more))

    def _read_deleted(self, number: int) -> Offsets:
        with translate_faults(StoreAction.READ, self._location):
            fragment = fragment_of(self._dataset, number).metadata
            file = fragment.deletion_file
            if file is None:
                return NO_OFFSETS
            path = deletion_path(self._dataset, self._at.path, self._at.branch, fragment)
        name = self._name(number, file)
        held = self._held.get(name)
        if held is not None:
            return held
        data = None
        if path is not None and not self._location.root.is_memory:
            data = self._objects.read_bytes(path)
        if data is not None:
            return self._hold(name, decode_offsets(data, file.file_type))
        return self._left_out(number, fragment.physical_rows)

    def _left_out(self, number: int, rows: int) -> Offsets:
        """Tell by the rows that are left: the file is in Lance's own memory, or elsewhere out of reach."""
        with translate_faults(StoreAction.READ, self._location):
            part = [fragment_of(self._dataset, number)]
            scan = self._dataset.scanner(columns=[], with_row_address=True, fragments=part)
            left = scan.to_table()[_ADDRESS].to_numpy()
        record(Cost.TABLE_SCANS)
        gone = np.ones(rows, dtype=bool)
        gone[(left & np.uint64(0xFFFFFFFF)).astype(np.int64)] = False
        return np.flatnonzero(gone).astype(np.uint32)

    def _name(self, number: int, file: DeletionFile) -> str:
        return f"{self._at.path}/{file.path(number)}"

    def _hold(self, name: str, offsets: Offsets) -> Offsets:
        return self._held.put(name, offsets) if len(offsets) <= _FEW else offsets
