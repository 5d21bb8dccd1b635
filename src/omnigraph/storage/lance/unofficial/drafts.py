"""Drafts: versions that Lance makes on the local disk, on a copy of a table's manifest, before their files are put into the store.

A commit through Lance asks an object store three times: it lists the versions, writes the transaction, writes the manifest. The
manifest holds the transaction, and whoever has the lock of a table knows its newest version; what is left is the one conditional
PUT that creates the version. Drafts of one table follow one another without a request, and all of them are put at once.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from weakref import finalize

import lance
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

from omnigraph.errors import HeadMoved, OmniError, StorageError
from omnigraph.failpoints import Failpoint, Injected, fail
from omnigraph.ids import Version
from omnigraph.limits import DRAFT_COPIES_MAX, DRAFT_PUTS_MAX
from omnigraph.storage.counters import carry_context
from omnigraph.storage.lance.faults import TableLocation, translate_faults
from omnigraph.storage.lance.unofficial.version_files import version_file
from omnigraph.storage.lru import Recent
from omnigraph.storage.objects.faults import StoreAction
from omnigraph.storage.objects.protocol import Objects
from omnigraph.storage.values import Draft, Landed, TableAt
from omnigraph.values import dataclass


@dataclass(frozen=True, slots=True)
class _Copy:
    """The newest version of a table on the local disk: its manifest alone, without data files."""

    at: TableAt
    dataset: LanceDataset


class Drafts:
    """Drafts of the tables of one root.

    A version is created once and never changes, so a copy of one that is in the store stays right; a copy of a draft
    is dropped with it.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._guard = threading.Lock()
        self._copies: Recent[str, _Copy] = Recent(DRAFT_COPIES_MAX)
        self._landing: dict[TableAt, Callable[[], None]] = {}
        self._bases: dict[TableAt, TableAt] = {}
        self._directory: str | None = None

    def append(
        self,
        base: TableAt,
        transaction: Transaction,
        properties: Mapping[str, str],
        location: TableLocation,
        land: Callable[[], None],
    ) -> Draft | None:
        """Make the version after `base` that appends fragments; None when this disk or this table cannot do that.

        `land` puts the draft into the store, with whatever must come before it: it is called by whoever has to read it.
        """
        if base.branch is not None or not isinstance(transaction.operation, LanceOperation.Append):
            return None
        try:
            copy = self._copy_of(base)
            ours = replace(transaction, transaction_properties=dict(properties))
            with translate_faults(StoreAction.WRITE, location):
                made = LanceDataset.commit(copy.dataset, ours, max_retries=0)
            file = self._read_local(base.path, Version(made.version))
        except (OSError, StorageError):
            # A local disk that is full or read-only: Lance commits to the store.
            self._copies.pop(base.path)
            return None
        at = replace(base, version=Version(made.version))
        assert at.version == base.version + 1, "a copy has no other writer"
        landed = Landed(at=at, row_count=int(made.count_rows()), uuid=ours.uuid)
        self._copies.put(base.path, _Copy(at, made))
        with self._guard:
            self._bases[at] = self._bases.get(base, base)
            self._landing[at] = land
        return Draft(landed=landed, file=file)

    def base_of(self, at: TableAt) -> TableAt:
        """The version in the store that a draft stands on; another version is its own."""
        return self._bases.get(at, at)

    def land_for_reader(self, at: TableAt) -> None:
        """Put a version into the store that somebody is about to open, if it is a draft."""
        land = self._landing.get(at)
        if land is not None:
            land()

    def land(self, drafts: Sequence[Draft]) -> None:
        """Create the versions of drafts, all at once; raises when one of them could not be created, others may be."""
        with ThreadPoolExecutor(min(len(drafts), DRAFT_PUTS_MAX), "omnigraph-land") as pool:
            failed = [one for one in pool.map(carry_context(self._try_put), drafts) if one]
        if failed:
            # A version that somebody else created says more than a store that does not answer.
            failed.sort(key=lambda error: not isinstance(error, HeadMoved))
            self.drop(drafts)
            raise failed[0]
        self._end(drafts)

    def drop(self, drafts: Sequence[Draft]) -> None:
        """Forget drafts that are not landed."""
        self._end(drafts)
        self._drop_copies(drafts)

    def forget(self, path: str | None) -> None:
        """Forget the copies of a table that was removed, or of all."""
        self._copies.drop(lambda known: path in (None, known))

    def _end(self, drafts: Sequence[Draft]) -> None:
        with self._guard:
            for draft in drafts:
                self._landing.pop(draft.landed.at, None)
                self._bases.pop(draft.landed.at, None)

    def _drop_copies(self, drafts: Sequence[Draft]) -> None:
        for path in {draft.landed.at.path for draft in drafts}:
            self._copies.pop(path)

    # ---- the store

    def _try_put(self, draft: Draft) -> OmniError | None:
        at = draft.landed.at
        path = version_file(at.path, at.version)
        try:
            if self._objects.put_if_absent(path, draft.file):
                fail(Failpoint.GROUP_VERSION_PUT)
                return None
            lost: OmniError = HeadMoved(at.path, Version(at.version - 1), at.version)
        except Injected as error:
            return error
        except StorageError as error:
            lost = error
        # The answer may be what was lost: then the version is there, and it is ours.
        try:
            return None if self._objects.read_bytes(path) == draft.file else lost
        except StorageError:
            return lost

    # ---- the local disk

    def _copy_of(self, base: TableAt) -> _Copy:
        known = self._copies.get(base.path)
        if known is not None and known.at == base:
            return known
        file = self._objects.read_bytes(version_file(base.path, base.version))
        if file is None:
            raise StorageError(
                f"version {base.version} of '{base.path}' has no file", storage_kind="permanent"
            )
        directory = self._local(base.path)
        shutil.rmtree(directory, ignore_errors=True)
        local = version_file(directory, base.version)
        os.makedirs(os.path.dirname(local))
        with open(local, "xb") as opened:
            opened.write(file)
        return _Copy(base, lance.dataset(directory, version=base.version))

    def _read_local(self, path: str, version: Version) -> bytes:
        directory = self._local(path)
        with open(version_file(directory, version), "rb") as opened:
            file = opened.read()
        # The copy needs its newest version only.
        os.unlink(version_file(directory, Version(version - 1)))
        return file

    def _local(self, path: str) -> str:
        with self._guard:
            if self._directory is None:
                self._directory = tempfile.mkdtemp(prefix="omnigraph-drafts-")
                finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        return os.path.join(self._directory, path)
