"""Drafts of an object store: versions that Lance makes on the local disk, on a copy of a table's manifest, before their files are put into the store.

A commit through Lance asks an object store three times: it lists the versions, writes the transaction, writes the manifest. The
manifest holds the transaction, and the writer knows the newest version: that of a table by its lock, that of the graph's
manifest by the state that it swaps. This leaves one conditional PUT, which creates the next version, and which the store
refuses when that version exists. Drafts of one table follow one another without a request, and all of them are put at once.
"""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final
from weakref import finalize

import lance
from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction
from lance.lance import _Session as Session

from omnigraphdb.errors import HeadMoved, OmniError, StorageError
from omnigraphdb.failpoints import Failpoint, Injected, fail
from omnigraphdb.ids import Version
from omnigraphdb.limits import DRAFT_COPIES_MAX, DRAFT_PUTS_MAX
from omnigraphdb.storage.counters import carry_context
from omnigraphdb.storage.lance.faults import TableLocation, translate_faults
from omnigraphdb.storage.lance.unofficial.version_files import version_file
from omnigraphdb.storage.lance.unofficial.version_puts import try_put_version
from omnigraphdb.storage.lru import Recent
from omnigraphdb.storage.objects.conditions import Conditions
from omnigraphdb.storage.objects.faults import StoreAction
from omnigraphdb.storage.objects.protocol import Objects
from omnigraphdb.storage.values import Draft, Landed, TableAt
from omnigraphdb.values import dataclass

_OF_ROWS: Final = (LanceOperation.Append, LanceOperation.Update, LanceOperation.Delete)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The newest version of a table on the local disk: its manifest alone, without data files.

    While a version is not in the store, somebody else may create another one of that number.
    """

    at: TableAt
    dataset: LanceDataset
    is_in_store: bool


class Drafts:
    """Drafts of the tables of one root.

    A version is created once and never changes, so a copy of a version in the store stays right, and every reader of
    that version may use it. Only the makers of the next draft know the copy of a draft, which is dropped with it.
    """

    def __init__(self, objects: Objects, conditions: Conditions) -> None:
        self._objects = objects
        self._conditions = conditions
        # Its caches would keep every version that was made here.
        self._session = Session(index_cache_size_bytes=0, metadata_cache_size_bytes=0)
        self._guard = threading.Lock()
        self._making = threading.Lock()
        self._copies: Recent[str, _Copy] = Recent(DRAFT_COPIES_MAX)
        self._landing: dict[TableAt, Callable[[], None]] = {}
        self._bases: dict[TableAt, TableAt] = {}
        self._directory: str | None = None

    def make(
        self, base: TableAt, transaction: Transaction, location: TableLocation
    ) -> Draft | None:
        """Make the version after `base`; None where Lance has to commit to the store.

        A transaction of rows needs nothing but the manifest it stands on. A store that creates things twice would not
        tell that somebody else made the version too.
        """
        is_of_rows = isinstance(transaction.operation, _OF_ROWS)
        if base.branch is not None or not is_of_rows or not self._conditions.are_honoured():
            return None
        with self._making:
            try:
                copy = self._copy_of(base)
                with translate_faults(StoreAction.WRITE, location):
                    dataset = LanceDataset.commit(copy.dataset, transaction, max_retries=0)
                file = self._read_local(base, transaction.uuid)
            except (OSError, OmniError):
                # A local disk that is full or read-only, or a version that is gone from the store.
                self._copies.pop(base.path)
                return None
            at = replace(base, version=Version(dataset.version))
            assert at.version == base.version + 1, "a copy has no other writer"
            self._copies.put(base.path, _Copy(at, dataset, is_in_store=False))
        landed = Landed(at=at, row_count=int(dataset.count_rows()), uuid=transaction.uuid)
        return Draft(landed=landed, file=file)

    def make_for_group(
        self,
        base: TableAt,
        transaction: Transaction,
        location: TableLocation,
        land: Callable[[], None],
        count_rows: Callable[[TableAt], int],
    ) -> Draft | None:
        """Make a version that appends and that others may stand on before it is in the store.

        `land` puts the draft into the store, after all writes that must come first; a reader that needs it calls it.
        `count_rows` counts the rows of a version that is in the store.
        """
        if not isinstance(transaction.operation, LanceOperation.Append):
            return None
        draft = self._append(base, transaction, location, count_rows)
        if draft is not None:
            at = draft.landed.at
            with self._guard:
                self._bases[at] = self._bases.get(base, base)
                self._landing[at] = land
        return draft

    def _append(
        self,
        base: TableAt,
        transaction: Transaction,
        location: TableLocation,
        count_rows: Callable[[TableAt], int],  # noqa: ARG002 - Lance counts them
    ) -> Draft | None:
        """Make a version that appends; None where Lance has to commit to the store."""
        return self.make(base, transaction, location)

    def copy_at(self, at: TableAt) -> LanceDataset | None:
        """Return the manifest of a version that is in the store, without its files, if it is on the local disk."""
        copy = self._copies.get(at.path)
        is_right = copy is not None and copy.at == at and copy.is_in_store
        return copy.dataset if copy is not None and is_right else None

    def read_manifest(self, at: TableAt) -> bytes | None:
        """Give the manifest of a version as Lance takes it at an opening, if it is on the local disk."""
        copy = self.copy_at(at)
        return None if copy is None else copy._ds.serialized_manifest()

    def base_of(self, at: TableAt) -> TableAt:
        """Return the version in the store that a draft stands on; another version is its own."""
        return self._bases.get(at, at)

    def land_for_reader(self, at: TableAt) -> None:
        """Put a version into the store that somebody is about to open, if it is a draft."""
        land = self._landing.get(at)
        if land is not None:
            land()

    def land(self, drafts: Sequence[Draft]) -> None:
        """Create the versions of drafts, all at once. Raise when one of them failed; the others may exist then."""
        try:
            failed = [error for error in self._put_all(drafts) if error is not None]
            if failed:
                # A version that somebody else created says more than a store that does not answer.
                failed.sort(key=lambda error: not isinstance(error, HeadMoved))
                raise failed[0]
        except BaseException:
            # Also when the caller is interrupted: nobody may be sent to a group that has ended.
            self.drop(drafts)
            raise
        self._keep_copies(drafts)
        self._end(drafts)

    def land_alone(self, draft: Draft) -> None:
        """Create the version of a draft that nobody stands on; raises when it is not certain that it was created.

        `HeadMoved`: somebody else created that version, and this one is nowhere.
        """
        failed = self._try_put(draft)
        if failed is not None:
            self._drop_copies([draft])
            raise failed
        self._keep_copies([draft])

    def drop(self, drafts: Sequence[Draft]) -> None:
        """Forget drafts that are not landed."""
        self._end(drafts)
        self._drop_copies(drafts)

    def forget(self, path: str | None) -> None:
        """Forget the copies of a table that was removed, or of all tables."""
        self._copies.drop(lambda table_path: path in (None, table_path))

    def _end(self, drafts: Sequence[Draft]) -> None:
        with self._guard:
            for draft in drafts:
                self._landing.pop(draft.landed.at, None)
                self._bases.pop(draft.landed.at, None)

    def _keep_copies(self, drafts: Sequence[Draft]) -> None:
        """Let readers of these versions use the copies, now that the versions are in the store."""
        with self._making:
            for draft in drafts:
                copy = self._copies.get(draft.landed.at.path)
                if copy is not None and copy.at == draft.landed.at:
                    self._copies.put(copy.at.path, replace(copy, is_in_store=True))

    def _drop_copies(self, drafts: Sequence[Draft]) -> None:
        for path in sorted({draft.landed.at.path for draft in drafts}):
            self._copies.pop(path)

    # ---- the store

    def _put_all(self, drafts: Sequence[Draft]) -> Sequence[OmniError | None]:
        with ThreadPoolExecutor(min(len(drafts), DRAFT_PUTS_MAX), "omnigraph-land") as pool:
            put = carry_context(self._try_put_of_many)
            # `map` would cancel the puts that have not begun when one is interrupted; with all of them the group is whole.
            futures = [pool.submit(put, draft) for draft in drafts]
        return [future.result() for future in futures]

    def _try_put_of_many(self, draft: Draft) -> OmniError | None:
        failed = self._try_put(draft)
        if failed is None:
            try:
                fail(Failpoint.GROUP_VERSION_PUT)
            except Injected as error:
                return error
        return failed

    def _try_put(self, draft: Draft) -> OmniError | None:
        return try_put_version(self._objects, draft.landed.at, draft.file)

    # ---- the local disk

    def _copy_of(self, base: TableAt) -> _Copy:
        copy = self._copies.get(base.path)
        if copy is not None and copy.at == base and (copy.is_in_store or base in self._bases):
            return copy
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
        copied = lance.dataset(directory, version=base.version, session=self._session)
        return _Copy(base, copied, is_in_store=True)

    def _read_local(self, base: TableAt, uuid: str) -> bytes:
        directory = self._local(base.path)
        with open(version_file(directory, Version(base.version + 1)), "rb") as opened:
            file = opened.read()
        # The copy needs its newest version only.
        os.unlink(version_file(directory, base.version))
        os.unlink(f"{directory}/_transactions/{base.version}-{uuid}.txn")
        return file

    def _local(self, path: str) -> str:
        with self._guard:
            if self._directory is None:
                self._directory = tempfile.mkdtemp(prefix="omnigraph-drafts-")
                finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        return os.path.join(self._directory, path)
