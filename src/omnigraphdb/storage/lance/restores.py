"""Restores on an object store: one conditional PUT of the version after the HEAD that was looked at.

Lance lets a Restore land over any commit. Where no kernel lock keeps others from the table, a recoverer that slept past its
lease would undo commits of others that were acknowledged since. So Lance makes the Restore on the local disk, in a copy
that holds the manifests of the two versions alone. The file of the new version is created in the store under its number
or not at all.

This is a guard: it is not a part of `storage.lance.unofficial`, whose switch trades speed.
"""

import os
import tempfile
from dataclasses import replace
from typing import Final

import lance
from lance import LanceDataset
from lance.dataset import Transaction
from lance.lance import _Session as Session

from omnigraphdb.errors import HistoryReclaimed
from omnigraphdb.ids import Version
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.lance.unofficial.version_puts import try_put_version
from omnigraphdb.storage.layout import branch_path
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import Landed, TableAt

_PREFIX: Final = "omnigraph-restore-"


class Restores:
    """Restores of the tables of one root on an object store."""

    def __init__(self, objects: Objects, conditions: Conditions) -> None:
        self._objects = objects
        self._conditions = conditions

    def restore(
        self, head: TableAt, version: Version, transaction: Transaction, location: TableLocation
    ) -> Landed:
        """Create the version after HEAD from an earlier version; raises when it is not certain that it was created."""
        self._conditions.require(location.root)
        landed, file = self._make(head, version, transaction, location)
        failed = try_put_version(self._objects, landed.at, file)
        if failed is not None:
            raise failed
        return landed

    def _make(
        self, head: TableAt, version: Version, transaction: Transaction, location: TableLocation
    ) -> tuple[Landed, bytes]:
        """Let Lance make the version in a copy of the table that has manifests alone; return the manifest file too."""
        with (
            translate_faults(StoreAction.WRITE, location),
            tempfile.TemporaryDirectory(prefix=_PREFIX) as directory,
        ):
            for source_version in sorted({version, head.version}):
                self._copy_manifest(replace(head, version=source_version), directory)
            session = Session(index_cache_size_bytes=0, metadata_cache_size_bytes=0)
            copied = lance.dataset(directory, version=head.version, session=session)
            restored = LanceDataset.commit(copied, transaction, max_retries=0)
            at = replace(head, version=Version(restored.version))
            assert at.version == head.version + 1, "a copy has no other writer"
            landed = Landed(at=at, row_count=int(restored.count_rows()), uuid=transaction.uuid)
            with open(version_file(directory, at.version), "rb") as file:
                return landed, file.read()

    def _copy_manifest(self, at: TableAt, directory: str) -> None:
        file = self._objects.read_bytes(version_file(branch_path(at.path, at.branch), at.version))
        if file is None:
            raise HistoryReclaimed(at.name or at.path, at.version)
        copy = version_file(directory, at.version)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "xb") as opened:
            opened.write(file)
